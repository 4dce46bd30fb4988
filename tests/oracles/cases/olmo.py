"""OLMo, Chameleon, Baichuan and DCLM: norms of queries and keys, clipping, a normalised head."""

import torch
import torch.nn.functional as F
from torch import Tensor

from oracles.cases._names import (
    ATTENTION,
    ENDS,
    GATED,
    GROUPED,
    LLAMA,
    PRE,
    QK_NORM,
    QK_NORM_FULL,
    QUERIES_AND_KEYS,
    REORDERED,
    SIZES,
    decoder,
    made,
    theta,
)
from oracles.compare import Case, plain_logits

OLMO = {name: t for name, t in {**ENDS, **ATTENTION, **GATED}.items() if name not in ("lm_head", "model.norm")}
CHAMELEON_34B = {
    **LLAMA,
    **QK_NORM,
    "model.layers.*.input_layernorm": "blocks.*.attn_out_norm",
    "model.layers.*.post_attention_layernorm": "blocks.*.ffn_out_norm",
}
TINY_IMAGES = {
    "embed_dim": 4,
    "num_embeddings": 4,
    "latent_channels": 4,
    "resolution": 8,
    "base_channels": 32,
    "channel_multiplier": [1],
    "num_res_blocks": 1,
    "attn_resolutions": [],
}


def chameleon(**settings):
    """The language model beside an image tokenizer that is as small as can be."""
    return made(
        "ChameleonForConditionalGeneration",
        "ChameleonConfig",
        **{**SIZES, **settings},
        vocabulary_map={"<image>": 3},
        vq_config=TINY_IMAGES,
        rms_norm_eps=1e-5,
    )


def normalised_head(net, ids_BT: Tensor) -> Tensor:
    """Llama's logits, each row of the head divided by its length."""
    return net.model(input_ids=ids_BT, use_cache=False).last_hidden_state @ F.normalize(net.lm_head.weight).T


class FullWidthNorm(torch.nn.Module):
    """A layer norm with a gain over all heads together."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise, by mean and variance written out."""
        centred = x - x.mean(-1, keepdim=True)
        return self.weight * centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()


def dclm():
    """OLMo 2 with norms before the branches, and all of them layer norms with a gain: open_lm's settings."""
    net = decoder("Llama", num_key_value_heads=4, **theta(1e4))()
    for layer in net.model.layers:
        layer.input_layernorm, layer.post_attention_layernorm = FullWidthNorm(32), FullWidthNorm(32)
        for name in ("q", "k"):
            projection = getattr(layer.self_attn, f"{name}_proj")
            norm = FullWidthNorm(32)
            layer.self_attn.add_module(f"{name}_norm", norm)
            projection.register_forward_hook(lambda module, args, out, norm=norm: norm(out))
    net.model.norm = FullWidthNorm(32)
    return net


CASES = [
    Case(
        preset="olmo",
        table=OLMO,
        oracle=decoder("Olmo", num_key_value_heads=4, tie_word_embeddings=True, **theta(1e4)),
    ),
    Case(
        preset="olmo",
        note="clipped",
        table=OLMO,
        oracle=decoder("Olmo", num_key_value_heads=4, tie_word_embeddings=True, clip_qkv=0.5, **theta(1e4)),
        changed={"stability": ["qkv_clip"], "stability.qkv_clip.limit": 0.5},
    ),
    Case(
        preset="olmo2",
        faint=QUERIES_AND_KEYS,
        table={**ENDS, **ATTENTION, **GATED, **REORDERED, **QK_NORM_FULL},
        oracle=decoder("Olmo2", num_key_value_heads=4, rms_norm_eps=1e-6, **theta(5e5)),
    ),
    Case(
        preset="olmo2",
        faint=QUERIES_AND_KEYS,
        note="grouped",
        table={**ENDS, **ATTENTION, **GATED, **REORDERED, **QK_NORM_FULL},
        oracle=decoder("Olmo2", rms_norm_eps=1e-6, **theta(5e5)),
        changed={"attn": "gqa", **GROUPED},
    ),
    Case(
        preset="chameleon_7b",
        faint=QUERIES_AND_KEYS,
        table={**LLAMA, **QK_NORM},
        oracle=chameleon(num_key_value_heads=4),
        unused="vqmodel",
    ),
    Case(
        preset="chameleon_34b",
        faint=QUERIES_AND_KEYS,
        table=CHAMELEON_34B,
        oracle=chameleon(swin_norm=True),
        changed=GROUPED,
        unused="vqmodel",
    ),
    Case(
        preset="baichuan2",
        table=LLAMA,
        oracle=decoder("Llama", num_key_value_heads=4, rms_norm_eps=1e-6, **theta(1e4)),
        logits=normalised_head,
    ),
    Case(
        preset="dclm",
        faint=QUERIES_AND_KEYS,
        table={**ENDS, **ATTENTION, **GATED, **PRE, **QK_NORM_FULL},
        oracle=dclm,
        logits=plain_logits,
    ),
]
