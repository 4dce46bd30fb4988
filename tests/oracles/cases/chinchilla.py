"""Chinchilla: its positions against XLNet's, and the whole against a plain model written here.

XLNet has the relative attention of Transformer-XL, in post-norm blocks; transformers has no class with RMSNorm too.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oracles.cases._names import made
from oracles.compare import Case

LAYER = "transformer.layer.*"
DIM, HEADS, WIDTH = 32, 4, 8


def columns(tensor: Tensor) -> list[Tensor]:
    """A projection (in, heads, head width)."""
    return [tensor.flatten(1).T]


def rows(tensor: Tensor) -> list[Tensor]:
    """The output projection (out, heads, head width)."""
    return [tensor.flatten(1)]


def flat(tensor: Tensor) -> list[Tensor]:
    """A vector for each head."""
    return [tensor.flatten()]


XLNET = {
    "transformer.word_embedding": "embedding",
    f"{LAYER}.rel_attn.q": (["blocks.*.attn.q.weight"], columns),
    f"{LAYER}.rel_attn.k": (["blocks.*.attn.k.weight"], columns),
    f"{LAYER}.rel_attn.v": (["blocks.*.attn.v.weight"], columns),
    f"{LAYER}.rel_attn.o": (["blocks.*.attn.out.weight"], rows),
    f"{LAYER}.rel_attn.r": (["blocks.*.attn.position.r.weight"], columns),
    f"{LAYER}.rel_attn.r_w_bias": (["blocks.*.attn.position.u"], flat),
    f"{LAYER}.rel_attn.r_r_bias": (["blocks.*.attn.position.v"], flat),
    f"{LAYER}.rel_attn.layer_norm": "blocks.*.attn_norm",
    f"{LAYER}.ff.layer_1": "blocks.*.ffn.up",
    f"{LAYER}.ff.layer_2": "blocks.*.ffn.out",
    f"{LAYER}.ff.layer_norm": "blocks.*.ffn_norm",
    "lm_loss.bias": "head_bias",
}
PLAIN = {
    "embedding": "embedding",
    "layers.*.q": "blocks.*.attn.q",
    "layers.*.k": "blocks.*.attn.k",
    "layers.*.v": "blocks.*.attn.v",
    "layers.*.r": "blocks.*.attn.position.r",
    "layers.*.content_bias": (["blocks.*.attn.position.u"], flat),
    "layers.*.position_bias": (["blocks.*.attn.position.v"], flat),
    "layers.*.out": "blocks.*.attn.out",
    "layers.*.up": "blocks.*.ffn.up",
    "layers.*.down": "blocks.*.ffn.out",
    "layers.*.attn_norm": "blocks.*.attn_norm",
    "layers.*.ffn_norm": "blocks.*.ffn_norm",
    "norm": "final_norm",
    "head": "head",
}


class PlainLayer(nn.Module):
    """One layer, query by query: arXiv:1901.02860, section 3.3, terms (a) to (d)."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("q", "k", "v", "r", "out"):
            self.add_module(name, nn.Linear(DIM, DIM, bias=False))
        self.up, self.down = nn.Linear(DIM, 48, bias=False), nn.Linear(48, DIM, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(HEADS, WIDTH))
        self.position_bias = nn.Parameter(torch.zeros(HEADS, WIDTH))
        self.attn_norm, self.ffn_norm = nn.RMSNorm(DIM, eps=1e-6), nn.RMSNorm(DIM, eps=1e-6)

    def attend(self, x_BTD: Tensor) -> Tensor:
        """Every query by itself: to the key j steps back belongs the wave of j."""
        q, k, v = (m(x_BTD).unflatten(-1, (HEADS, WIDTH)) for m in (self.q, self.k, self.v))
        seen = []
        for t in range(x_BTD.shape[1]):
            steps = torch.arange(t, -1, -1).float()
            angle = steps[:, None] / 10000.0 ** (torch.arange(0, DIM, 2) / DIM)
            wave = self.r(torch.cat((angle.sin(), angle.cos()), dim=-1)).unflatten(-1, (HEADS, WIDTH))
            content = torch.einsum("bnh,bsnh->bns", q[:, t] + self.content_bias, k[:, : t + 1])
            position = torch.einsum("bnh,snh->bns", q[:, t] + self.position_bias, wave)
            weights = ((content + position) / WIDTH**0.5).softmax(dim=-1)
            seen.append(torch.einsum("bns,bsnh->bnh", weights, v[:, : t + 1]).flatten(1))
        return self.out(torch.stack(seen, dim=1))

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Attention and feed-forward, norms before them."""
        x_BTD = x_BTD + self.attend(self.attn_norm(x_BTD))
        return x_BTD + self.down(F.gelu(self.up(self.ffn_norm(x_BTD)), approximate="tanh"))


class Plain(nn.Module):
    """The whole model."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(61, DIM), nn.Linear(DIM, 61, bias=False)
        self.layers = nn.ModuleList(PlainLayer() for _ in range(4))
        self.norm = nn.RMSNorm(DIM, eps=1e-6)

    def forward(self, ids_BT: Tensor) -> Tensor:
        """Logits."""
        x_BTD = self.embedding(ids_BT)
        for layer in self.layers:
            x_BTD = layer(x_BTD)
        return self.head(self.norm(x_BTD))


CASES = [
    Case(preset="chinchilla", table=PLAIN, oracle=Plain, logits=lambda net, ids_BT: net(ids_BT)),
    Case(
        preset="chinchilla",
        note="positions",
        table=XLNET,
        oracle=made(
            "XLNetLMHeadModel",
            "XLNetConfig",
            vocab_size=61,
            d_model=DIM,
            n_layer=4,
            n_head=HEADS,
            d_inner=48,
            ff_activation="relu",
            attn_type="uni",
            mem_len=None,
            dropout=0,
        ),
        changed={
            "norm": "layernorm",
            "norm.eps": 1e-12,
            "block": "post",
            "activation": "relu",
            "activation.bias": True,
            "model.tie_embeddings": True,
            "model.head_bias": True,
        },
        unused=r"mask_emb|seg_embed|r_s_bias",
    ),
]
