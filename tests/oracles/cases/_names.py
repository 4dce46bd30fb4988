"""Names that most decoders of transformers share, and makers of tiny models of them."""

from collections.abc import Callable
from typing import Any

from torch import nn

from oracles.weight_maps import Table

SIZES = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}
GROUPED = {"attn.n_kv_heads": 2}
LAYER = "model.layers.*"

ENDS: Table = {"model.embed_tokens": "embedding", "model.norm": "final_norm", "lm_head": "head"}
ATTENTION: Table = {
    f"{LAYER}.self_attn.q_proj": "blocks.*.attn.q",
    f"{LAYER}.self_attn.k_proj": "blocks.*.attn.k",
    f"{LAYER}.self_attn.v_proj": "blocks.*.attn.v",
    f"{LAYER}.self_attn.o_proj": "blocks.*.attn.out",
}
GATED: Table = {
    f"{LAYER}.mlp.gate_proj": "blocks.*.ffn.gate",
    f"{LAYER}.mlp.up_proj": "blocks.*.ffn.up",
    f"{LAYER}.mlp.down_proj": "blocks.*.ffn.out",
}
PRE: Table = {
    f"{LAYER}.input_layernorm": "blocks.*.attn_norm",
    f"{LAYER}.post_attention_layernorm": "blocks.*.ffn_norm",
}
REORDERED: Table = {
    f"{LAYER}.post_attention_layernorm": "blocks.*.attn_out_norm",
    f"{LAYER}.post_feedforward_layernorm": "blocks.*.ffn_out_norm",
}
SANDWICH: Table = {
    **REORDERED,
    f"{LAYER}.input_layernorm": "blocks.*.attn_norm",
    f"{LAYER}.pre_feedforward_layernorm": "blocks.*.ffn_norm",
}
QK_NORM: Table = {
    f"{LAYER}.self_attn.q_norm": "blocks.*.attn.stability.qk_norm.q",
    f"{LAYER}.self_attn.k_norm": "blocks.*.attn.stability.qk_norm.k",
}
QK_NORM_FULL: Table = {name: f"{target}.norm" for name, target in QK_NORM.items()}
QUERIES_AND_KEYS = r"self_attn\.[qk]_proj\."
"""What a QK-norm follows."""
LLAMA: Table = {**ENDS, **ATTENTION, **GATED, **PRE}


def theta(value: float, **more: Any) -> dict[str, Any]:
    """Rotary positions of a reference."""
    return {"rope_parameters": {"rope_type": "default", "rope_theta": value, **more}}


def decoder(kind: str, *, config: str = "Config", **settings: Any) -> Callable[[], nn.Module]:
    """A model ``KindForCausalLM`` of ``SIZES`` and settings."""
    return made(f"{kind}ForCausalLM", f"{kind}{config}", **{**SIZES, **settings})


def made(model: str, config: str, **settings: Any) -> Callable[[], nn.Module]:
    """A model of transformers, attention written out in plain operations."""

    def make() -> nn.Module:
        import transformers

        chosen = getattr(transformers, config)(**settings, attn_implementation="eager")
        return getattr(transformers, model)(chosen)

    return make
