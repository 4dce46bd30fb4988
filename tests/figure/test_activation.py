"""Curves of the nonlinearities against their formulas."""

import numpy as np
import pytest

from lab import choices
from lab.errors import ConfigError
from lab.figure import Choice, activation
from tests.figure.designs import config, drawn

x = np.linspace(-2, 2, activation.POINTS)


def test_value_and_derivative_are_the_formulas() -> None:
    words = "activation=swiglu", "activation=relu"
    figure = drawn(activation, *words, choices=[Choice(word, config(word)) for word in words], range=2.0)
    gate, relu = figure.axes
    sigmoid = 1 / (1 + np.exp(-x))
    value, slope = (line.get_ydata() for line in gate.lines[2:])
    np.testing.assert_allclose(value, x * sigmoid, atol=1e-12)
    np.testing.assert_allclose(slope, sigmoid * (1 + x * (1 - sigmoid)), atol=1e-12)
    np.testing.assert_allclose(relu.lines[2].get_ydata(), np.maximum(x, 0), atol=1e-12)
    assert (gate.get_title(), relu.get_title()) == ("swiglu (gate)", "relu")


def test_all_choices_are_taken_without_an_override() -> None:
    assert [made.name for made in activation.every(Choice("", config()))] == list(choices.names("activation"))


@pytest.mark.slow
def test_without_an_override_all_choices_are_drawn() -> None:
    titles = {
        axes.get_title().removesuffix(" (gate)") for axes in drawn(activation, range=2.0).axes if axes.get_visible()
    }
    assert titles == set(choices.names("activation"))


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(ConfigError, match="--range 0 must be above 0"):
        drawn(activation, "activation=relu", range=0.0)
