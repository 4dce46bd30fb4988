"""The distribution of each weight under each rule, against the rule written out by name."""

import dataclasses
import math

import pytest
import torch
from contracts.menu import SIZES, architecture, config, model, values

from lab import choices
from lab.errors import ConfigError

DIMS = dataclasses.replace(SIZES, dim=64, n_heads=2, head_dim=16, n_layers=3, vocab_size=257, max_seq_len=48)
D, N, H, L, F, V = 64, 2, 16, 3, 176, 257
SHAPES = {
    "embedding": (V, D),
    "head": (V, D),
    "position.table": (48, D),
    **{f"blocks.{i}.attn.{part}": (N * H, D) for i in range(L) for part in "qkv"},
    **{f"blocks.{i}.attn.out": (D, N * H) for i in range(L)},
    **{f"blocks.{i}.ffn.{part}": (F, D) for i in range(L) for part in ("up", "gate")},
    **{f"blocks.{i}.ffn.out": (D, F) for i in range(L)},
}
TABLES = ("embedding", "position.table")


def kind(name):
    """A name without the number of its block."""
    return name.split(".", 2)[2] if name.startswith("blocks.") else name


def gpt2(name):
    return 0.01 if name == "position.table" else 0.02 / math.sqrt(2 * L) if name.endswith("out") else 0.02


def olmo_scaled(name):
    return 1 / math.sqrt(2 * D * (int(name[7]) + 1)) if name.endswith("out") else D**-0.5


def xavier(name):
    return D**-0.5 if name in TABLES else math.sqrt(2 / sum(SHAPES[name]))


def fan_in(name):
    inside = {"attn.out": N * H, "ffn.out": F}
    return inside.get(kind(name), D) ** -0.5


def t5(name):
    special = {"embedding": 1.0, "attn.q": (D * H) ** -0.5, "attn.out": (N * H) ** -0.5, "ffn.out": F**-0.5}
    return special.get(kind(name), D**-0.5)


def fixup(name):
    if name == "head" or name.endswith("out"):
        return 0.0
    return 0.02 if name in TABLES else math.sqrt(2 / D) * (2 * L) ** -0.5


def zero_output(name):
    return 0.0 if name.endswith("out") else 0.02


def mup(name):
    special = {"embedding": 0.1, "position.table": 0.1, "head": math.sqrt(128) / D, "attn.q": 0.0}
    return special.get(kind(name), fan_in(name))


def truncated(std, cut):
    """The standard deviation of N(0, std²) within ``cut`` standard deviations."""
    density = math.exp(-(cut**2) / 2) / math.sqrt(2 * math.pi)
    return std * math.sqrt(1 - 2 * cut * density / math.erf(cut / math.sqrt(2)))


STD = {
    "normal": lambda name: 0.02,
    "gpt2": gpt2,
    "olmo2": lambda name: truncated(0.02, 3),
    "olmo_scaled": lambda name: truncated(olmo_scaled(name), 3),
    "xavier": xavier,
    "fan_in": fan_in,
    "small_init": lambda name: math.sqrt(2 / (5 * D)),
    "t5": t5,
    "fixup": fixup,
    "zero_output": zero_output,
    "mup": mup,
}
LARGEST = {
    "olmo2": lambda name: 0.06,
    "olmo_scaled": lambda name: 3 * olmo_scaled(name),
    "xavier": lambda name: math.inf if name in TABLES else math.sqrt(3) * xavier(name),
    "fan_in": lambda name: math.inf if name in TABLES else 2 / 0.87962566 * fan_in(name),
}
"""The bound of the rules that have one; a draw comes within 15 percent of it."""


def weights(**chosen):
    net = model(position="learned", dims=DIMS, activation=config("activation", "swiglu", ratio=F / D), **chosen)
    found = {name: p.detach() for name, p in net.named_parameters() if name.endswith(".weight")}
    return {name.removesuffix(".weight"): weight for name, weight in found.items()}


@pytest.mark.parametrize("init", choices.names("init"))
def test_standard_deviations(init):
    """Tolerance: five standard errors, s / sqrt(2n) of the deviation and s / sqrt(n) of the mean."""
    found = weights(init=init)
    assert {name: tuple(weight.shape) for name, weight in found.items()} == SHAPES
    for name, weight in found.items():
        std, n = STD[init](name), weight.numel()
        assert weight.std().item() == pytest.approx(std, rel=5 / math.sqrt(2 * n)), name
        assert abs(weight.mean().item()) <= 5 * std / math.sqrt(n), name


@pytest.mark.parametrize("init", LARGEST)
def test_bounds(init):
    for name, weight in weights(init=init).items():
        bound, largest = LARGEST[init](name), weight.abs().max().item()
        assert largest <= bound * (1 + 1e-6), name
        assert math.isinf(bound) or largest > 0.85 * bound, name


def test_t5_is_what_transformers_draws():
    """Its decoder's matrices, by standard deviation; the head is where it differs from the authors' own code."""
    from transformers import T5Config, T5EncoderModel

    hf = T5Config(
        vocab_size=V, d_model=D, d_kv=H, d_ff=F, num_layers=1, num_heads=N, feed_forward_proj="gated-silu"
    )
    torch.manual_seed(0)
    drawn = T5EncoderModel(hf).state_dict()
    block = "encoder.block.0.layer"
    theirs = {
        "embedding": "shared",
        **{f"blocks.0.attn.{a}": f"{block}.0.SelfAttention.{b}" for a, b in zip("qkv", "qkv", strict=True)},
        "blocks.0.attn.out": f"{block}.0.SelfAttention.o",
        "blocks.0.ffn.gate": f"{block}.1.DenseReluDense.wi_0",
        "blocks.0.ffn.up": f"{block}.1.DenseReluDense.wi_1",
        "blocks.0.ffn.out": f"{block}.1.DenseReluDense.wo",
    }
    ours = weights(init="t5")
    for name, other in theirs.items():
        weight = drawn[f"{other}.weight"]
        assert ours[name].shape == weight.shape
        rel = 5 / math.sqrt(weight.numel())  # two draws
        assert ours[name].std().item() == pytest.approx(weight.std().item(), rel=rel), name
    bias = drawn[f"{block}.0.SelfAttention.relative_attention_bias.weight"]
    init, generator = config("init", "t5"), torch.Generator().manual_seed(0)
    ours = init.draw("position.bias.weight", bias.shape, DIMS, generator)
    assert ours.std().item() == pytest.approx(D**-0.5, rel=5 / math.sqrt(2 * bias.numel()))
    assert bias.std().item() == pytest.approx(D**-0.5, rel=5 / math.sqrt(2 * bias.numel()))


def test_latent_attention_follows_its_own_fan_ins():
    """T5's query factor and μParam's zero fall on what makes the queries."""
    std = {}
    for init in ("t5", "mup", "fan_in"):
        rule, generator = config("init", init), torch.Generator().manual_seed(0)
        for part, shape in {
            "q_down": (20, D),
            "q_up": (N * 24, 20),
            "k_up": (N * H, 12),
            "out": (D, N * H),
        }.items():
            draw = rule.draw(f"blocks.0.attn.{part}.weight", torch.Size(shape), DIMS, generator)
            std[init, part] = draw.std().item()
    for part, fan, n in (("q_down", D, 20 * D), ("k_up", 12, N * H * 12), ("out", N * H, D * N * H)):
        for init in ("t5", "mup", "fan_in"):
            assert std[init, part] == pytest.approx(fan**-0.5, rel=5 / math.sqrt(2 * n)), (init, part)
    assert std["t5", "q_up"] == pytest.approx((20 * 24) ** -0.5, rel=5 / math.sqrt(2 * 20 * 24 * N))
    assert std["mup", "q_up"] == 0


def test_the_attention_scale_that_a_rule_was_made_for():
    scales = {name: config("init", name).attention_scale(16) for name in choices.names("init")}
    assert {name: scale for name, scale in scales.items() if scale is not None} == {"t5": 1.0, "mup": 1 / 16}


def test_mups_rates_follow_the_width_and_nobody_elses_do():
    net, arch = model(init="mup", norm="layernorm", position="learned"), architecture(init="mup")
    scaled = {n: arch.init.lr_scale(n, p.shape, arch.dims) for n, p in net.named_parameters()}
    matrices = {n for n in scaled if n.endswith(".weight") and n.startswith(("blocks.", "head."))}
    assert scaled == {name: 128 / SIZES.dim if name in matrices else 1.0 for name in scaled}
    at_base = dataclasses.replace(SIZES, dim=128)
    assert {arch.init.lr_scale(n, p.shape, at_base) for n, p in net.named_parameters()} == {1.0}
    for name in set(choices.names("init")) - {"mup"}:
        assert config("init", name).lr_scale("head.weight", torch.Size((V, D)), DIMS) == 1.0


@torch.no_grad()
def test_mups_first_logits_do_not_grow_with_width():
    """The root mean square of what the head gives for vectors of unit mean square: sqrt(base / D)."""
    for dim in (64, 256):
        rule, generator = config("init", "mup"), torch.Generator().manual_seed(0)
        dims = dataclasses.replace(DIMS, dim=dim)
        head = rule.draw("head.weight", torch.Size((V, dim)), dims, generator)
        z = torch.randn(64, dim, generator=generator) @ head.T
        assert z.square().mean().sqrt().item() == pytest.approx(math.sqrt(128 / dim), rel=0.1)


EVERY_KEY = [
    (name, key) for name in choices.names("init") for key in values("init", name) if key not in ("name", "defaults")
]


@pytest.mark.parametrize(("name", "key"), EVERY_KEY)
def test_every_key_changes_what_is_drawn(name, key):
    plain = config("init", name)
    changed = config("init", name, **{key: getattr(plain, key) / 2 if key != "base_dim" else 64})
    one, other = weights(init=plain), weights(init=changed)
    assert any(not torch.equal(weight, other[where]) for where, weight in one.items())


@pytest.mark.parametrize(
    ("name", "key", "allowed"),
    [(name, key, ">= 1" if key == "base_dim" else "> 0") for name, key in EVERY_KEY],
)
def test_what_is_refused(name, key, allowed):
    with pytest.raises(ConfigError) as refused:
        config("init", name, **{key: 0})
    assert str(refused.value) == f"{key} 0 must be {allowed}"
