"""NSA against a plain model whose attention follows the paper's sums; transformers has no class for it."""

import torch
import torch.nn.functional as F
from model.attn.nsa_reference import attend, turn
from torch import Tensor, nn

from lab.model.nsa_blocks import Sizes
from oracles.compare import Case

DIM, HEADS, GROUPS, WIDTH, HIDDEN = 32, 4, 2, 8, 48
SHAPE = {"stride": 2, "block": 4, "select_block": 4, "n_selected": 4, "window": 5}
BRANCHES = ("compressed", "selected", "window")
ATTENTION = ["q", *(f"{kind}_{branch}" for kind in "kv" for branch in BRANCHES), "gate", "out"]
MAPS = [f"{kind}_map.{part}" for kind in "kv" for part in ("place", "up", "down")]
PLAIN = {
    "embedding": "embedding",
    **{f"layers.*.attn.{name}": f"blocks.*.attn.{name}" for name in ATTENTION + MAPS},
    **{f"layers.*.{name}": f"blocks.*.{target}" for name, target in (("gate", "ffn.gate"), ("up", "ffn.up"))},
    "layers.*.down": "blocks.*.ffn.out",
    "layers.*.attn_norm": "blocks.*.attn_norm",
    "layers.*.ffn_norm": "blocks.*.ffn_norm",
    "norm": "final_norm",
    "head": "head",
}


class PlainAttention(nn.Module):
    """The weights, and the sums query by query."""

    def __init__(self) -> None:
        super().__init__()
        widths = {"q": HEADS * WIDTH, "gate": 3 * HEADS, "out": DIM}
        for name in ATTENTION:
            n_in = HEADS * WIDTH if name == "out" else DIM
            self.add_module(name, nn.Linear(n_in, widths.get(name, GROUPS * WIDTH), bias=False))
        for kind in "kv":
            parts = {
                "place": nn.Embedding(SHAPE["block"], WIDTH),
                "up": nn.Linear(SHAPE["block"] * WIDTH, WIDTH, bias=False),
                "down": nn.Linear(WIDTH, WIDTH, bias=False),
            }
            self.add_module(f"{kind}_map", nn.ModuleDict(parts))

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Every sequence by itself."""
        weights, sizes = dict(self.named_parameters()), Sizes(**SHAPE)
        return torch.stack([attend(weights, x_TD, sizes, HEADS, GROUPS, turn) for x_TD in x_BTD])


class PlainLayer(nn.Module):
    """Attention and a gated feed-forward, norms before them."""

    def __init__(self) -> None:
        super().__init__()
        self.attn = PlainAttention()
        self.gate, self.up = nn.Linear(DIM, HIDDEN, bias=False), nn.Linear(DIM, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, DIM, bias=False)
        self.attn_norm, self.ffn_norm = nn.RMSNorm(DIM, eps=1e-6), nn.RMSNorm(DIM, eps=1e-6)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Both branches."""
        x_BTD = x_BTD + self.attn(self.attn_norm(x_BTD))
        y_BTD = self.ffn_norm(x_BTD)
        return x_BTD + self.down(F.silu(self.gate(y_BTD)) * self.up(y_BTD))


class Plain(nn.Module):
    """The whole model."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(61, DIM), nn.Linear(DIM, 61, bias=False)
        self.layers = nn.ModuleList(PlainLayer() for _ in range(2))
        self.norm = nn.RMSNorm(DIM, eps=1e-6)

    def forward(self, ids_BT: Tensor) -> Tensor:
        """Logits."""
        x_BTD = self.embedding(ids_BT)
        for layer in self.layers:
            x_BTD = layer(x_BTD)
        return self.head(self.norm(x_BTD))


CASES = [
    Case(
        preset="nsa",
        table=PLAIN,
        oracle=Plain,
        logits=lambda net, ids_BT: net(ids_BT),
        changed={"model.n_layers": 2, "attn.n_kv_heads": GROUPS, **{f"attn.{k}": v for k, v in SHAPE.items()}},
    )
]
