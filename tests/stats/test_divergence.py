import math

import numpy as np
import pytest

from lab.stats.divergence import RISE_NATS, diverged, first_bad_step, smoothing_window


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


def bad(loss, **options):
    return first_bad_step(loss, diverged(loss, **options), **options)


@pytest.mark.parametrize("reason", ["loss is not finite at step 12", "val_loss is not finite after step 12"])
def test_the_step_that_is_named(reason):
    assert first_bad_step([5.0] * 20, reason) == 12


def test_the_first_step_from_which_the_loss_stays_up():
    # The window has 10 steps, and the best is 3: with three steps of 5 among the ten the mean is 3.6.
    loss = np.full(500, 3.0)
    loss[0] = 6.0
    loss[400:] = 5.0
    assert bad(loss) == 403
    loss[200:260] = 9.0  # is made good
    assert bad(loss) == 403
    loss[450:460] = 3.0  # once more below, so that it counts from there
    assert bad(loss) == 463


def test_the_first_step_above_the_start():
    loss = np.full(500, 5.5)
    loss[0] = 5.4
    assert bad(loss) == 10  # the first smoothed value there is
    loss[1:300], loss[300:] = 5.3, 5.51
    loss[100] = 9.0
    assert bad(loss) == 305  # with four of ten the mean is 5.384
    loss[300:] = 5.3 + RISE_NATS + 0.01
    assert bad(loss, warm=True) == 310  # above the best by more than a half only with all ten


def test_what_did_not_end_high_has_no_bad_step():
    assert first_bad_step(falling(), "loss ended high") is None
    assert first_bad_step([], "loss ended high") is None
