"""Chinchilla's positions against XLNet's, which has the relative attention of Transformer-XL in post-norm blocks.

The rest of the preset is taken for what XLNet has: no class of transformers has these positions with RMSNorm.
"""

from torch import Tensor

from oracles.cases._names import made
from oracles.compare import Case

LAYER = "transformer.layer.*"


def columns(tensor: Tensor) -> list[Tensor]:
    """A projection (in, heads, head width)."""
    return [tensor.flatten(1).T]


def rows(tensor: Tensor) -> list[Tensor]:
    """The output projection (out, heads, head width), or a vector of each head."""
    return [tensor.flatten(1) if tensor.shape[0] == 32 else tensor.flatten()]


XLNET = {
    "transformer.word_embedding": "embedding",
    f"{LAYER}.rel_attn.q": (["blocks.*.attn.q.weight"], columns),
    f"{LAYER}.rel_attn.k": (["blocks.*.attn.k.weight"], columns),
    f"{LAYER}.rel_attn.v": (["blocks.*.attn.v.weight"], columns),
    f"{LAYER}.rel_attn.o": (["blocks.*.attn.out.weight"], rows),
    f"{LAYER}.rel_attn.r": (["blocks.*.attn.position.r.weight"], columns),
    f"{LAYER}.rel_attn.r_w_bias": (["blocks.*.attn.position.u"], rows),
    f"{LAYER}.rel_attn.r_r_bias": (["blocks.*.attn.position.v"], rows),
    f"{LAYER}.rel_attn.layer_norm": "blocks.*.attn_norm",
    f"{LAYER}.ff.layer_1": "blocks.*.ffn.up",
    f"{LAYER}.ff.layer_2": "blocks.*.ffn.out",
    f"{LAYER}.ff.layer_norm": "blocks.*.ffn_norm",
    "lm_loss.bias": "head_bias",
}

CASES = [
    Case(
        preset="chinchilla",
        note="positions",
        table=XLNET,
        oracle=made(
            "XLNetLMHeadModel",
            "XLNetConfig",
            vocab_size=61,
            d_model=32,
            n_layer=4,
            n_head=4,
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
