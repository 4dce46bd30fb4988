"""Equal parameters or FLOPs by the feed-forward width: within one percent, or a reason."""

import dataclasses
import itertools

import pytest
from contracts.menu import architecture, config

from lab import choices
from lab.errors import ConfigError
from lab.match import WITHIN
from lab.model.count import parameters, training_flops_per_token
from lab.model.sizes import Dims

DIMS = Dims(dim=128, n_layers=4, n_heads=4, head_dim=32, max_seq_len=128, vocab_size=2048)
"""The default model's."""

MEASURES = {
    "params": lambda net: parameters(net).total,
    "flops": lambda net: training_flops_per_token(net, DIMS.max_seq_len),
}
TARGET = architecture(dims=DIMS)

every_measure = pytest.mark.parametrize("by", MEASURES)


def match(by, **chosen):
    return config("match", by).solve(architecture(dims=DIMS, **chosen), TARGET)


def test_the_measures_are_all_there_are():
    assert sorted(MEASURES) == [name for name in choices.names("match") if name != "none"]


@every_measure
@pytest.mark.parametrize(
    "chosen",
    [
        {"activation": "relu"},
        {"attn": "mqa"},
        {"attn": "mla"},
        {"block": "sandwich", "norm": "layernorm"},
        {"position": "learned"},
        {"position": "shaw"},
        {"stability": ["qk_norm", "sigma_reparam"]},
    ],
    ids=str,
)
def test_a_matched_run_is_within_one_percent(by, chosen):
    found = match(by, **chosen)
    assert found.architecture.activation.width(DIMS) == found.d_ff
    assert found.d_ff % found.architecture.activation.multiple_of == 0
    assert found.value == MEASURES[by](found.architecture.outline())
    assert found.target == MEASURES[by](TARGET.outline())
    assert abs(found.residual) < WITHIN
    assert found.residual == found.value / found.target - 1


@every_measure
def test_no_other_multiple_is_nearer(by):
    found = match(by, activation="relu", attn="mqa")
    for other in (found.d_ff - 8, found.d_ff + 8):
        activation = dataclasses.replace(found.architecture.activation, d_ff=other)
        value = MEASURES[by](dataclasses.replace(found.architecture, activation=activation).outline())
        assert abs(value - found.target) >= abs(found.value - found.target)


@every_measure
def test_the_target_itself_is_left_as_it_is(by):
    found = match(by)
    assert found.architecture == TARGET
    assert found.residual == 0


def test_a_width_that_is_set_leaves_nothing_to_solve():
    fixed = config("activation", "swiglu", d_ff=64)
    with pytest.raises(ConfigError, match=r"match=params solves for the width that activation.d_ff 64 sets"):
        match("params", activation=fixed)


def test_what_cannot_be_reached_is_said_with_the_nearest():
    coarse = config("activation", "swiglu", multiple_of=256)
    with pytest.raises(
        ConfigError, match=r"activation.d_ff 256, the nearest width in multiples of 256, gives .* \(-"
    ):
        match("params", activation=coarse)


@pytest.mark.slow
@every_measure
@pytest.mark.parametrize("attn", choices.names("attn"))
def test_every_feed_forward_norm_and_attention_can_be_matched(by, attn):
    """At the default width; with one layer, since all are alike."""
    one_layer = dataclasses.replace(DIMS, n_layers=1)
    target = architecture(dims=one_layer)
    wanted = MEASURES[by](target.outline())
    for activation, norm in itertools.product(choices.names("activation"), choices.names("norm")):
        own = architecture(dims=one_layer, activation=activation, norm=norm, attn=attn)
        found = config("match", by).solve(own, target)
        assert abs(MEASURES[by](found.architecture.outline()) / wanted - 1) < WITHIN, (activation, norm)
