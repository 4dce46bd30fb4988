"""Gemma and Grok: gains stored as their distance from one, scaled embeddings, soft-caps."""

from torch import Tensor

from oracles.cases._names import (
    ATTENTION,
    ENDS,
    GATED,
    GROUPED,
    LLAMA,
    QK_NORM,
    QUERIES_AND_KEYS,
    SANDWICH,
    decoder,
    theta,
)
from oracles.compare import Case, plain_logits

GEMMA1 = {name: target for name, target in LLAMA.items() if name != "lm_head"}
GEMMA2 = {name: t for name, t in {**ENDS, **ATTENTION, **GATED, **SANDWICH}.items() if name != "lm_head"}
LOCAL, GLOBAL = "sliding_attention", "full_attention"


def whole_gains(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The reference stores a gain's distance from one where the preset has the gain."""
    return {name: w + 1 if name.endswith(".gain") else w for name, w in weights.items()}


CASES = [
    Case(
        preset="gemma1",
        table=GEMMA1,
        oracle=decoder("Gemma", num_key_value_heads=1, head_dim=16, rms_norm_eps=1e-6, **theta(1e4)),
        changed={"model.head_dim": 16},
    ),
    Case(
        preset="gemma2",
        table=GEMMA2,
        oracle=decoder(
            "Gemma2",
            head_dim=16,
            query_pre_attn_scalar=16,
            sliding_window=8,
            attn_logit_softcapping=5.0,
            final_logit_softcapping=3.0,
            rms_norm_eps=1e-6,
            layer_types=[LOCAL, GLOBAL] * 2,
            **theta(1e4),
        ),
        changed={
            **GROUPED,
            "model.head_dim": 16,
            "attn.window": 8,
            "stability.attn_softcap.cap": 5.0,
            "stability.logit_softcap.cap": 3.0,
        },
    ),
    Case(
        preset="gemma2",
        note="27b-scale",
        table=GEMMA2,
        oracle=decoder(
            "Gemma2",
            head_dim=16,
            query_pre_attn_scalar=24,
            sliding_window=8,
            attn_logit_softcapping=50.0,
            final_logit_softcapping=30.0,
            rms_norm_eps=1e-6,
            **theta(1e4),
        ),
        changed={**GROUPED, "model.head_dim": 16, "attn.window": 8, "attn.scale": 24**-0.5},
    ),
    Case(
        preset="gemma3",
        faint=QUERIES_AND_KEYS,
        table={**GEMMA2, **QK_NORM},
        oracle=decoder(
            "Gemma3",
            config="TextConfig",
            head_dim=16,
            query_pre_attn_scalar=16,
            sliding_window=8,
            rms_norm_eps=1e-6,
            num_hidden_layers=6,
        ),
        changed={**GROUPED, "model.n_layers": 6, "model.head_dim": 16, "attn.window": 8},
    ),
    Case(
        preset="grok1",
        table=GEMMA2,
        oracle=decoder(
            "Gemma2",
            head_dim=8,
            query_pre_attn_scalar=8,
            attn_logit_softcapping=5.0,
            final_logit_softcapping=None,
            rms_norm_eps=1e-5,
            layer_types=[GLOBAL] * 4,
            **theta(1e4),
        ),
        changed={**GROUPED, "stability.attn_softcap.cap": 5.0},
        values=whole_gains,
        logits=lambda net, ids: plain_logits(net, ids) / 3**0.5,
    ),
]
