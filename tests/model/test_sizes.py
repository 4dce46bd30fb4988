"""Sizes that follow from others, scales that are powers of the width, and what is refused."""

import pytest
from omegaconf import OmegaConf

from lab.errors import ConfigError
from lab.model.sizes import ModelConfig, width_scale
from lab.paths import conf_dir

TINY = OmegaConf.to_container(OmegaConf.load(conf_dir() / "model" / "tiny.yaml"))


def section(**changed):
    return ModelConfig(**{**TINY, **changed})


@pytest.mark.parametrize(
    ("dim", "aspect", "n_layers"),
    [(64, 16, 4), (64, 128.0, 1), (64, 64, 1), (96, 64, 2), (100, 16.0, 6), (4096, 128, 32), (12288, 128, 96)],
)
def test_depth_is_width_over_aspect_rounded_and_at_least_one(dim, aspect, n_layers):
    made = section(dim=dim, n_heads=1, n_layers=None, aspect=aspect)
    assert made.depth() == made.dims(50).n_layers == n_layers


def test_depth_is_what_it_is_set_to():
    assert section(n_layers=5).dims(50).n_layers == 5


@pytest.mark.parametrize(("n_layers", "aspect"), [(2, 128.0), (None, None)])
def test_depth_and_aspect_exclude_each_other(n_layers, aspect):
    with pytest.raises(ConfigError) as refused:
        section(n_layers=n_layers, aspect=aspect)
    assert (
        str(refused.value) == f"aspect {aspect} and n_layers {n_layers}: one of the two is set and the other null"
    )


@pytest.mark.parametrize(
    ("dim", "n_heads", "ratio", "head_dim"),
    [(64, 4, 1.0, 16), (60, 4, 1.0, 15), (64, 4, 2.0, 32), (64, 4, 0.5, 8), (64, 5, 2.0, 26), (64, 64, 0.25, 2)],
)
def test_the_width_of_all_heads_is_a_ratio_of_the_models(dim, n_heads, ratio, head_dim):
    """At a ratio of 1 exactly, else to the nearest even number."""
    assert section(dim=dim, n_heads=n_heads, heads_ratio=ratio).dims(50).head_dim == head_dim


def test_a_head_width_goes_before_the_ratio():
    assert section(head_dim=10, heads_ratio=2.0).dims(50).head_dim == 10


@pytest.mark.parametrize(
    ("scale", "factor"),
    [("sqrt_dim", 8.0), ("inv_sqrt_dim", 0.125), ("inv_dim", 1 / 64), (1.0, 1.0), (3, 3.0), (0.0625, 0.0625)],
)
def test_a_scale_is_a_number_or_a_power_of_the_width(scale, factor):
    assert width_scale(scale, 64) == pytest.approx(factor, rel=1e-15)


@pytest.mark.parametrize("key", ["embed_scale", "logit_scale"])
@pytest.mark.parametrize("scale", [0, -1.0, float("inf"), float("nan"), "sqrt", "dim"])
def test_a_scale_that_is_neither_is_refused(key, scale):
    with pytest.raises(ConfigError) as refused:
        section(**{key: scale})
    assert str(refused.value) == f"{key} {scale!r} must be a number > 0 or one of sqrt_dim, inv_sqrt_dim, inv_dim"


@pytest.mark.parametrize(
    ("key", "least"),
    [
        *(
            (key, 1)
            for key in ("dim", "n_heads", "max_seq_len", "layers_shared", "n_layers", "head_dim", "embed_dim")
        ),
        ("vocab_size", 2),
    ],
)
def test_counts_are_at_least_one(key, least):
    section(**{"n_heads": 1, key: least})
    with pytest.raises(ConfigError) as refused:
        section(**{key: least - 1})
    assert str(refused.value) == f"{key} {least - 1} must be >= {least}"


@pytest.mark.parametrize(("key", "other"), [("heads_ratio", {}), ("aspect", {"n_layers": None})])
@pytest.mark.parametrize("value", [0, -1.0, float("inf")])
def test_ratios_are_positive(key, other, value):
    with pytest.raises(ConfigError) as refused:
        section(**{key: value, **other})
    assert str(refused.value) == f"{key} {value} must be > 0"
