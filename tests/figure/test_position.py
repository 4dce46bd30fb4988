"""Positions drawn, against the papers' formulas."""

import math

import numpy as np
import pytest

from lab.errors import ConfigError
from lab.figure import position
from tests.figure.designs import drawn


def test_sinusoids_are_the_papers() -> None:
    rows = drawn(position, "position=sinusoidal", "model.max_seq_len=16", length=None).axes[0].images[0].get_array()
    dim = rows.shape[1]
    expected = [
        [(math.cos if d % 2 else math.sin)(t / 10000 ** ((d - d % 2) / dim)) for d in range(dim)] for t in range(16)
    ]
    np.testing.assert_allclose(rows, expected, atol=1e-5)


def test_wavelengths_of_plain_and_interpolated_rope() -> None:
    words = ("position=rope", "position.theta=500", "position.scaling=linear", "position.factor=4")
    axes = drawn(position, *words, length=None).axes[0]
    plain, scaled = (np.asarray(line.get_ydata()) for line in axes.lines[:2])
    width = 2 * len(plain)
    np.testing.assert_allclose(plain, [2 * math.pi * 500 ** (2 * p / width) for p in range(width // 2)], rtol=1e-5)
    np.testing.assert_allclose(scaled, 4 * plain, rtol=1e-5)


def test_alibi_falls_by_the_slope_of_each_head() -> None:
    lines = drawn(position, "position=alibi", length=9).axes[0].lines
    for head, line in enumerate(lines, start=1):
        np.testing.assert_allclose(line.get_ydata(), -(2.0 ** (-8 * head / len(lines))) * np.arange(9), rtol=1e-6)


@pytest.mark.parametrize("name", ["t5_bias", "kerple", "learned"])
def test_others_are_drawn(name: str) -> None:
    drawn(position, f"position={name}", length=20)


@pytest.mark.parametrize("name", ["none", "shaw", "transformer_xl"])
def test_a_position_with_nothing_to_draw_says_so(name: str) -> None:
    with pytest.raises(ConfigError, match=f"position={name} has nothing to draw"):
        drawn(position, f"position={name}", length=20)
