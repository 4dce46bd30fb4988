"""Llama and what differs from it in a few values."""

from oracles.cases._names import GROUPED, LAYER, LLAMA, QK_NORM, QUERIES_AND_KEYS, SIZES, decoder, theta
from oracles.compare import Case
from oracles.weight_maps import GATE_UP, QKV, rows

LLAMA31 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 48,  # one of the frequencies lies between the two limits
}
LLAMA4 = {name.replace(".mlp.", ".feed_forward."): target for name, target in LLAMA.items()}
TIED = {name: target for name, target in LLAMA.items() if name != "lm_head"}


def internlm3():
    """A class that transformers has no name for at its top."""
    from transformers import AutoConfig, AutoModelForCausalLM

    settings = {**SIZES, "head_dim": 8, "rms_norm_eps": 1e-5, **theta(5e7)}
    config = AutoConfig.for_model("internlm3", **settings, attn_implementation="eager")
    return AutoModelForCausalLM.from_config(config)


def phi3(n_kv: int) -> dict:
    """Queries, keys and values in one matrix, gate and up in another."""
    fused = {
        f"{LAYER}.self_attn.qkv_proj": (QKV, rows(32, 8 * n_kv, 8 * n_kv)),
        f"{LAYER}.mlp.gate_up_proj": (GATE_UP, rows(48, 48)),
    }
    return {**LLAMA, **fused}


CASES = [
    Case(
        preset="llama1",
        table=LLAMA,
        oracle=decoder("Llama", num_key_value_heads=4, rms_norm_eps=1e-6, **theta(1e4)),
    ),
    Case(
        preset="llama2",
        table=LLAMA,
        oracle=decoder("Llama", num_key_value_heads=4, rms_norm_eps=1e-5, **theta(1e4)),
    ),
    Case(
        preset="llama3",
        table=LLAMA,
        oracle=decoder("Llama", rms_norm_eps=1e-5, **theta(5e5)),
        changed=GROUPED,
    ),
    Case(
        preset="llama3_1",
        table=LLAMA,
        oracle=decoder("Llama", head_dim=16, rms_norm_eps=1e-5, **theta(5e5, **LLAMA31)),
        changed={**GROUPED, "model.head_dim": 16, "position.original_max_seq_len": 48},
    ),
    Case(
        preset="llama4",
        faint=r"layers\.[012]\.self_attn\.[qk]_proj",
        table=LLAMA4,
        oracle=decoder(
            "Llama4",
            config="TextConfig",
            head_dim=8,
            intermediate_size_mlp=48,
            moe_layers=[],
            attention_chunk_size=8,
            floor_scale=8,
            attn_scale=0.1,
            **theta(5e5),
        ),
        changed={**GROUPED, "attn.window": 8, "stability.temperature_tuning.floor_scale": 8},
    ),
    Case(
        preset="mistral",
        table=LLAMA,
        oracle=decoder("Mistral", sliding_window=8, rms_norm_eps=1e-5, **theta(1e4)),
        changed={**GROUPED, "attn.window": 8},
    ),
    Case(
        preset="qwen2",
        table=TIED,
        oracle=decoder("Qwen2", rms_norm_eps=1e-6, tie_word_embeddings=True, **theta(1e6)),
        changed=GROUPED,
    ),
    Case(
        preset="qwen2_5",
        table=TIED,
        oracle=decoder("Qwen2", rms_norm_eps=1e-6, tie_word_embeddings=True, **theta(1e6)),
        changed=GROUPED,
    ),
    Case(
        preset="qwen3",
        faint=QUERIES_AND_KEYS,
        table={**TIED, **QK_NORM},
        oracle=decoder("Qwen3", head_dim=16, rms_norm_eps=1e-6, tie_word_embeddings=True, **theta(1e6)),
        changed={**GROUPED, "model.head_dim": 16},
    ),
    Case(
        preset="yi",
        table=LLAMA,
        oracle=decoder("Llama", rms_norm_eps=1e-5, **theta(5e6)),
        changed=GROUPED,
    ),
    Case(
        preset="internlm2",
        table=LLAMA,
        oracle=decoder("Llama", rms_norm_eps=1e-5, **theta(1e6)),
        changed=GROUPED,
    ),
    Case(
        preset="internlm3",
        table=LLAMA,
        oracle=internlm3,
        changed=GROUPED,
    ),
    Case(
        preset="phi3",
        table=phi3(4),
        oracle=decoder("Phi3", num_key_value_heads=4, sliding_window=8, rms_norm_eps=1e-5, **theta(1e4)),
        changed={"attn.window": 8},
    ),
    Case(
        preset="phi4",
        table=phi3(2),
        oracle=decoder("Phi3", sliding_window=None, rms_norm_eps=1e-5, **theta(2.5e5)),
        changed=GROUPED,
    ),
    Case(
        preset="phi4_mini",
        table={name: target for name, target in phi3(2).items() if name != "lm_head"},
        oracle=decoder(
            "Phi3",
            sliding_window=None,
            rms_norm_eps=1e-5,
            tie_word_embeddings=True,
            **theta(1e4, partial_rotary_factor=0.75),
        ),
        changed=GROUPED,
    ),
    Case(
        preset="smollm2",
        table=TIED,
        oracle=decoder("Llama", rms_norm_eps=1e-5, tie_word_embeddings=True, **theta(1e5)),
        changed=GROUPED,
    ),
    Case(
        preset="smollm3",
        table=TIED,
        oracle=decoder("SmolLM3", rms_norm_eps=1e-6, tie_word_embeddings=True, **theta(2e6)),
        changed=GROUPED,
    ),
    Case(
        preset="idefics",
        table=LLAMA,
        oracle=decoder("Llama", num_key_value_heads=4, rms_norm_eps=1e-6, **theta(1e4)),
    ),
]
