import math

import numpy as np
import pytest

from lab.stats.divergence import RISE_NATS, diverged, smoothing_window


def falling(steps=500):
    return 3 + 3 * np.exp(-np.arange(steps) / 50)


@pytest.mark.parametrize(("steps", "window"), [(1, 8), (20, 8), (400, 8), (401, 9), (1000, 20), (1001, 21)])
def test_window(steps, window):
    assert smoothing_window(steps) == window


def test_a_healthy_run():
    assert diverged(falling()) is None
    assert diverged([]) is None
    assert diverged([5.5]) is None
    noise = np.random.default_rng(0).normal(size=500)
    assert diverged(falling() + 0.1 * noise) is None


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("at", [0, 7, 499])
def test_a_loss_that_is_not_finite(bad, at):
    loss = falling()
    loss[at] = bad
    assert diverged(loss) == f"loss is not finite at step {at + 1}"
    loss[at:] = math.nan
    assert diverged(loss) == f"loss is not finite at step {at + 1}"


def test_an_end_above_the_start():
    loss = np.full(500, 5.5)
    loss[0] = 5.4
    assert diverged(loss) == "loss ended at 5.500, above 5.400 at the start"
    assert diverged(loss, warm=True) is None
    loss[0] = 5.5
    assert diverged(loss) is None  # not above


def test_an_end_far_above_the_best():
    loss = falling()
    loss[-10:] = loss[-20:-10].mean() + RISE_NATS + 0.01
    assert (
        diverged(loss) == f"loss ended at {loss[-1]:.3f}, more than 0.5 above its best, {loss[-20:-10].mean():.3f}"
    )
    assert diverged(loss, warm=True) == diverged(loss)
    loss[-10:] -= 0.02
    assert diverged(loss) is None


def test_one_spike_at_the_end_is_none():
    loss = falling()
    loss[-1] += 3
    assert diverged(loss) is None
    loss[-1] += 3
    assert diverged(loss) is not None


def test_a_rise_that_is_made_good():
    loss = falling()
    loss[200:260] = 9.0
    assert diverged(loss) is None


def test_few_steps_have_no_smoothed_start():
    assert diverged([5.5, 5.6]) is None
    assert diverged([5.5] + [5.6] * 7) is None
    assert diverged([5.5] + [5.6] * 8) == "loss ended at 5.600, above 5.500 at the start"
