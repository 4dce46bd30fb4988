"""Schedules drawn, against the formulas."""

import numpy as np

from lab.figure import schedule
from tests.figure.designs import drawn


def test_wsd_has_its_three_phases_and_decay_follows_the_rate() -> None:
    words = ("schedule=wsd", "train.steps=200", "schedule.warmup_share=0.1", "schedule.decay_share=0.25")
    words += ("schedule.final_share=0", "schedule.shape=linear", "optim.lr=0.01")
    figure = drawn(schedule, *words, "regularization=[weight_decay]", "regularization.weight_decay.rate=0.1")
    rate, decay = figure.axes
    y = rate.lines[0].get_ydata()
    expected = [0.01 * min((s + 1) / 21, 1, (200 - s) / 45) for s in range(200)]
    np.testing.assert_allclose(y, expected, rtol=1e-9)
    np.testing.assert_allclose(decay.lines[0].get_ydata(), 0.1 * np.array(y), rtol=1e-12)
    assert [text.get_text() for text in rate.texts] == ["warm-up", "constant", "decay"]


def test_independent_decay_does_not_depend_on_the_learning_rate() -> None:
    words = ("train.steps=50", "regularization=[weight_decay]", "regularization.weight_decay.form=independent")
    slow, fast = (drawn(schedule, *words, f"optim.lr={lr}").axes[1].lines[0].get_ydata() for lr in (0.001, 0.01))
    np.testing.assert_allclose(slow, fast, rtol=1e-12)


def test_without_decay_there_is_one_panel() -> None:
    assert len(drawn(schedule, "regularization=none", "train.steps=50").axes) == 1


def test_phases() -> None:
    assert schedule.phases([0.5, 1, 1, 1, 0.5, 0]) == [("warm-up", 1, 2), ("constant", 2, 4), ("decay", 4, 6)]
