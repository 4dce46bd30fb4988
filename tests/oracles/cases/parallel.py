"""Falcon, Command R, PaLM and Nemotron-4: layer norms with RoPE, most with branches side by side."""

from oracles.cases._names import (
    ATTENTION,
    ENDS,
    GATED,
    GROUPED,
    LAYER,
    LLAMA,
    QK_NORM,
    QUERIES_AND_KEYS,
    decoder,
    made,
    theta,
)
from oracles.compare import Case
from oracles.weight_maps import QKV, groups

H = "transformer.h.*"
FOUR_WIDE = {"activation.d_ff": 128}
COHERE = {
    **{name: target for name, target in {**ENDS, **ATTENTION, **GATED}.items() if name != "lm_head"},
    f"{LAYER}.input_layernorm": "blocks.*.attn_norm",
}


def falcon(n_kv: int) -> dict:
    """Rows of queries, keys and values group by group."""
    return {
        "transformer.word_embeddings": "embedding",
        f"{H}.self_attention.query_key_value": (QKV, groups(n_kv, 8)),
        f"{H}.self_attention.dense": "blocks.*.attn.out",
        f"{H}.mlp.dense_h_to_4h": "blocks.*.ffn.up",
        f"{H}.mlp.dense_4h_to_h": "blocks.*.ffn.out",
        f"{H}.input_layernorm": "blocks.*.attn_norm",
        f"{H}.ln_attn": "blocks.*.attn_norm",
        f"{H}.ln_mlp": "blocks.*.ffn_norm",
        "transformer.ln_f": "final_norm",
    }


def falcon_model(**settings):
    """A tiny Falcon."""
    sizes = {"vocab_size": 61, "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4}
    return made("FalconForCausalLM", "FalconConfig", **sizes, bos_token_id=None, eos_token_id=None, **settings)


CASES = [
    Case(preset="falcon_7b", table=falcon(1), oracle=falcon_model(**theta(1e4)), changed=FOUR_WIDE),
    Case(
        preset="falcon_40b",
        table=falcon(2),
        oracle=falcon_model(num_kv_heads=2, new_decoder_architecture=True, **theta(1e4)),
        changed={**FOUR_WIDE, **GROUPED},
    ),
    Case(
        preset="falcon2_11b",
        table=falcon(2),
        oracle=falcon_model(num_kv_heads=2, new_decoder_architecture=True, num_ln_in_parallel_attn=1, **theta(5e6)),
        changed={**FOUR_WIDE, **GROUPED},
    ),
    Case(
        preset="nemotron4",
        table={name: target for name, target in LLAMA.items() if not name.endswith("gate_proj")},
        oracle=decoder("Nemotron", head_dim=8, **theta(1e4, partial_rotary_factor=0.5)),
        changed=GROUPED,
    ),
    Case(
        preset="command_r",
        table=COHERE,
        oracle=decoder("Cohere", num_key_value_heads=4, logit_scale=0.0625, **theta(8e6)),
    ),
    Case(
        preset="command_r_plus",
        faint=QUERIES_AND_KEYS,
        table={**COHERE, **QK_NORM},
        oracle=decoder("Cohere", use_qk_norm=True, logit_scale=5 / 6, **theta(75e6)),
        changed=GROUPED,
    ),
    *(
        Case(
            preset=preset,
            table=COHERE,
            oracle=decoder("Cohere2", sliding_window=8, logit_scale=0.25, **theta(5e4)),
            changed={**GROUPED, "attn.window": 8},
        )
        for preset in ("command_r7b", "command_a")
    ),
    Case(
        preset="palm",
        table=COHERE,
        oracle=decoder("Cohere", num_key_value_heads=1, logit_scale=32**-0.5, **theta(1e4)),
    ),
]
