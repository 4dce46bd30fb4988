"""What a preset could have wrong, each a value, a choice or a handling of weights: the comparison must see it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from oracles.compare import Weights, same


@dataclass(frozen=True, kw_only=True, eq=False)
class Mistake:
    """A wrong preset."""

    case: str
    """The case whose preset is changed."""
    what: str
    """What is wrong."""
    changed: Mapping[str, Any] = field(default_factory=dict)
    """Keys and choices."""
    weights: Callable[[Weights], Weights] = same
    """What is done to the reference's weights before they are put into the preset's model."""
    in_logits: bool = True
    """Whether logits show it; else only gradients do."""

    def __str__(self) -> str:
        return f"{self.case}: {self.what}"


def tiled(weights: Weights, *, n_heads: int = 4, n_kv: int = 2) -> Weights:
    """Query head n reads key/value head n mod K instead of n // (N / K)."""
    order = torch.arange(n_heads).view(-1, n_kv).T.flatten()
    changed = dict(weights)
    for name, weight in weights.items():
        if name.endswith("attn.q.weight"):
            changed[name] = weight.unflatten(0, (n_heads, -1))[order].flatten(0, 1)
        if name.endswith("attn.out.weight"):
            changed[name] = weight.unflatten(1, (n_heads, -1))[:, order].flatten(1)
    return changed


def renamed(**names: str) -> Callable[[Weights], Weights]:
    """A part of a name in place of another; two may change places."""
    pattern = re.compile(rf"(?<=\.)({'|'.join(map(re.escape, names))})(?=\.|$)")
    return lambda weights: {pattern.sub(lambda m: names[m[1]], name): w for name, w in weights.items()}


def value(case: str, key: str, wrong: Any) -> Mistake:
    """A key with a wrong value."""
    return Mistake(case=case, what=f"{key}={wrong}", changed={key: wrong})


def penalty(case: str, key: str, wrong: Any) -> Mistake:
    """A key that only the loss depends on."""
    return Mistake(case=case, what=f"{key}={wrong}", changed={key: wrong}, in_logits=False)


def without(case: str, choice: str, *left: str) -> Mistake:
    """A stability choice left out."""
    return Mistake(case=case, what=f"no {choice}", changed={"stability": list(left or ["none"])})


NORMS = [
    value("llama1", "norm.eps", 1e-5),
    value("llama2", "norm.eps", 1e-6),
    value("gemma2", "norm.eps", 1e-5),
    value("gpt2", "norm.eps", 1e-6),
    value("bert_like", "stability.embedding_norm.eps", 1e-5),
    value("command_r_plus", "stability.qk_norm.eps", 1e-6),
    value("chameleon_7b", "stability.qk_norm.eps", 1e-6),
    value("llama4", "stability.qk_norm.eps", 1e-6),
    value("qwen3", "stability.qk_norm.eps", 1e-5),
    value("gemma3", "stability.qk_norm.eps", 1e-5),
    value("olmo2", "stability.qk_norm.eps", 1e-5),
    value("dclm", "stability.qk_norm.eps", 1e-6),
    value("deepseek_v2", "attn.eps", 1e-5),
    value("qwen3", "stability.qk_norm.order", "after"),
    value("chameleon_7b", "stability.qk_norm.order", "after"),
    value("llama4", "stability.qk_norm.layers", "all"),
    value("dclm", "stability.qk_norm.norm", "rmsnorm"),
    value("command_r_plus", "stability.qk_norm.norm", "rmsnorm"),
    Mistake(
        case="palm",
        what="RMSNorm for LayerNorm",
        changed={"norm": "rmsnorm"},
    ),
    Mistake(
        case="gemma2",
        what="gain w for 1 + w",
        changed={"norm": "rmsnorm"},
        weights=renamed(gain_offset="gain"),
    ),
    Mistake(
        case="gemma3",
        what="gain w for 1 + w in QK-norm",
        changed={"stability.qk_norm.norm": "rmsnorm"},
        weights=lambda weights: {
            re.sub(r"(qk_norm\..)\.gain_offset", r"\1.gain", n): w for n, w in weights.items()
        },
    ),
]
PLACES = [
    value("gpt2", "block", "parallel_two_norms"),
    value("falcon_40b", "block", "pre"),
    Mistake(
        case="chameleon_34b",
        what="norms before the branches",
        changed={"block": "pre"},
        weights=renamed(attn_out_norm="attn_norm", ffn_out_norm="ffn_norm"),
    ),
    Mistake(
        case="gemma2",
        what="norms before and after a branch changed over",
        weights=renamed(attn_out_norm="attn_norm", attn_norm="attn_out_norm"),
    ),
]
FEED_FORWARD = [
    value("gpt2", "activation", "gelu"),
    value("falcon_7b", "activation", "gelu_tanh"),
    value("bert_like", "activation", "gelu_tanh"),
    value("gemma2", "activation.approximate", "none"),
    value("t5v1_1", "activation.approximate", "none"),
    value("nemotron4", "activation", "relu"),
    Mistake(case="llama3", what="gate and up changed over", weights=renamed(gate="up", up="gate")),
    Mistake(case="phi3", what="gate and up changed over", weights=renamed(gate="up", up="gate")),
]
ATTENTION = [
    Mistake(case="llama3", what="key/value heads tiled", weights=tiled),
    Mistake(case="falcon_40b", what="key/value heads tiled", weights=tiled),
    value("deepseek_v3_2", "attn.top_k", 7),
    value("deepseek_v3_2", "attn.index_rope_share", 1.0),
    value("deepseek_v3_2", "attn.stage", "dense"),
    value("mistral", "attn.window", 7),
    value("mistral", "attn.window", 9),
    value("llama4", "attn.window", 9),
    value("gpt3", "attn.window", 9),
    value("gpt3", "attn.global_every", 3),
    value("gpt3-dense", "attn.scale", 1.0),
    value("gemma2", "attn.global_every", 3),
    value("gemma2-27b-scale", "attn.scale", "inv_sqrt_head_dim"),
    value("command_r7b", "attn.global_every", None),
    value("command_r7b", "attn.nope_every", None),
    value("smollm3", "attn.nope_every", 3),
    value("llama4", "attn", "sliding_window"),
    without("gemma2", "attn_softcap", "logit_softcap"),
    without("gemma2", "logit_softcap", "attn_softcap"),
    without("grok1", "attn_softcap"),
    without("llama4", "temperature_tuning", "qk_norm"),
    value("llama4", "stability.temperature_tuning.layers", "all"),
    value("llama4", "stability.temperature_tuning.floor_scale", 9),
    without("olmo-clipped", "qkv_clip"),
    value("olmo-clipped", "stability.qkv_clip.limit", 0.6),
]
POSITIONS = [
    value("llama3", "position.theta", 1e6),
    value("gemma3", "attn.global_theta", 2e6),
    value("llama3_1", "position.scaling", "none"),
    value("llama3_1", "position.original_max_seq_len", 64),
    value("llama3", "position.layout", "interleaved"),
    value("gptj", "position.layout", "half"),
    value("command_r", "position.layout", "half"),
    value("deepseek_v2", "position.layout", "half"),
    value("nemotron4", "position.fraction", 1.0),
    value("phi4_mini", "position.fraction", 1.0),
    value("transformer_2017", "position.layout", "interleaved"),
    value("t5", "position.max_distance", 32),
    value("t5", "attn.scale", "inv_sqrt_head_dim"),
    value("bloom", "position", "none"),
    Mistake(
        case="chinchilla-positions",
        what="u and v changed over",
        weights=renamed(**{"position.u": "position.v", "position.v": "position.u"}),
    ),
]
ENDS = [
    value("gemma1", "model.embed_scale", 1.0),
    value("transformer_2017", "model.embed_scale", 1.0),
    value("command_r", "model.logit_scale", 1.0),
    value("t5", "model.logit_scale", 1.0),
    without("baichuan2", "norm_head", "z_loss"),
]
LOSSES = [
    penalty("olmo2", "stability.z_loss.weight", 1e-3),
    penalty("baichuan2", "stability.z_loss.variant", "squared_lse"),
    penalty("transformer_2017", "regularization", ["none"]),
]
MISTAKES = [*NORMS, *PLACES, *FEED_FORWARD, *ATTENTION, *POSITIONS, *ENDS, *LOSSES]
