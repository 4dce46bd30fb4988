import time

import numpy as np
import pytest
from each import for_each

from lab.stats.spikes import LOCAL, SHIFT_AFTER, Spikes, heights, local, log_norm


def falling_loss(steps, seed, sd=0.04):
    """A healthy run: 10 nats falling to 3 by a power law, with normal noise of ``sd`` nats."""
    t = np.arange(steps)
    return 3 + 7 * (1 + t / 20) ** -0.7 + np.random.default_rng(seed).normal(0, sd, steps)


def slow_local(x, w=128, w_min=32, k=7.0, tall=None):
    """protocol.md 2.3, line by line, shifts written out; ``tall`` is given each spike's height."""
    tall = [] if tall is None else tall
    x = np.asarray(x, dtype=float)
    ok = np.isfinite(x)
    flag, counted = np.zeros(len(x), bool), np.zeros(len(x), bool)
    in_row = shifts = start = 0
    for t in range(len(x)):
        if not np.isfinite(x[t]):
            flag[t] = counted[t] = True
            tall.append(None)
            continue
        i = np.array([j for j in range(max(0, t - w, start), t) if ok[j]], dtype=float)
        if len(i) < w_min:
            in_row = 0
            continue
        counted[t] = True
        y = x[i.astype(int)]
        b, a = np.polyfit(i, y, 1)
        r = y - (a + b * i)
        s = 1.4826 * np.median(np.abs(r - np.median(r)))
        if s > 1e-12 and x[t] - (a + b * t) >= k * s:
            flag[t] = True
            tall.append((x[t] - (a + b * t)) / s)
            ok[t] = False
            in_row += 1
            if in_row == 16:
                shifts, in_row, start = shifts + 1, 0, t + 1
        else:
            in_row = 0
    n = int(counted.sum())
    score = 100 * flag.sum() / n if n else None
    return Spikes(score, int(flag.sum()), n, shifts, tuple(int(t) for t in np.flatnonzero(flag)))


def random_series(seed):
    """Noise of a random kind, with jumps, bursts, values that are not finite, and level shifts."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(40, 420))
    x = falling_loss(n, seed) if seed % 2 else rng.standard_t(2, n)
    for _ in range(int(rng.integers(0, 6))):
        at = int(rng.integers(0, n))
        x[at : at + int(rng.integers(1, 8))] += rng.choice([0.5, 3.0, 50.0])
    if seed % 3 == 0:
        x[int(rng.integers(0, n)) :] += 5
    x[rng.random(n) < rng.choice([0, 0.01, 0.2])] = rng.choice([np.nan, np.inf, -np.inf])
    return x


@for_each(range(12))
def test_equals_the_protocol_line_by_line(seed):
    x = random_series(seed)
    assert local(x) == slow_local(x)


@pytest.mark.slow
@for_each(range(12, 50))
def test_equals_the_protocol_line_by_line_in_more_series(seed):
    x = random_series(seed)
    assert local(x) == slow_local(x)


@for_each(range(5))
def test_other_windows(seed):
    x = random_series(seed)
    ours, theirs = local(x, w=40, w_min=8, k=4.0), slow_local(x, w=40, w_min=8, k=4.0)
    assert ours == theirs


def test_the_random_series_hold_what_they_should():
    found = [local(random_series(seed)) for seed in range(50)]
    assert sum(f.shifts for f in found) > 3
    assert sum(f.spikes for f in found) > 100
    assert any(f.spikes == 0 for f in found)


@for_each(range(20))
def test_a_jump_at_step_200_of_a_falling_loss(seed):
    x = falling_loss(400, seed)
    x[200] += 0.5
    assert local(x).steps == (200,)


def test_healthy_losses_have_no_spikes():
    for seed in range(10):
        assert local(falling_loss(1000, seed)) == Spikes(0.0, 0, 968, 0, ())


def test_only_upward():
    x = falling_loss(400, 1)
    x[300] -= 2
    assert local(x).spikes == 0


def test_a_level_shift_restarts_the_window():
    x = falling_loss(600, 3)
    x[300:] += 4
    found = local(x)
    assert found.shifts == 1
    assert found.steps == tuple(range(300, 300 + SHIFT_AFTER))
    assert found.counted == 600 - 32 - 32  # the first window, and the one of the new level
    x[500] += 1
    assert local(x).steps[-1] == 500


def test_values_without_a_level_do_not_make_a_shift():
    x = falling_loss(400, 4)
    x[200:240] = np.nan
    found = local(x)
    assert (found.shifts, found.spikes, found.counted) == (0, 40, 400 - 32)


def test_a_value_that_is_not_finite_counts_even_before_the_window_is_full():
    x = falling_loss(20, 5)
    x[[3, 7]] = np.nan, np.inf
    assert local(x) == Spikes(100.0, 2, 2, 0, (3, 7))


@pytest.mark.parametrize("x", [np.full(300, 3.3), 5 - 0.01 * np.arange(300), np.r_[np.full(200, 3.3), 9.0]])
def test_a_window_without_scatter_flags_nothing(x):
    assert local(x).spikes == 0
    assert local(x).counted == len(x) - 32


@pytest.mark.parametrize("steps", [0, 1, 32])
def test_a_short_series_has_no_score(steps):
    assert local(falling_loss(steps, 6)) == Spikes(None, 0, 0, 0, ())


def test_huge_values_pass_without_warnings():
    x = falling_loss(300, 7)
    x[100:110] = 1e308
    assert local(x).steps == tuple(range(100, 110))
    local(np.full(200, 1.7e308) * np.resize([1, -1], 200))


def test_log_norm():
    logs = log_norm([1.0, np.e, 0.0, -1.0, np.nan, np.inf])
    assert logs[:2].tolist() == [0.0, 1.0]
    assert not np.isfinite(logs[2:]).any()


def test_takes_plain_lists_and_leaves_arrays_alone():
    x = falling_loss(300, 8)
    before = x.copy()
    assert local(list(x)) == local(x)
    assert np.array_equal(x, before)


def test_ten_thousand_steps_take_less_than_a_second():
    x = np.random.default_rng(0).standard_t(2, 10_000)  # heavy tails: many spikes, the slow case
    began = time.process_time()
    found = local(x)
    assert time.process_time() - began < 1.0
    assert found.spikes > 10


@pytest.mark.slow
def test_a_million_steps_take_less_than_three_seconds():
    x = 3.0 + 0.1 * np.random.default_rng(0).normal(size=1_000_000)
    began = time.process_time()
    assert local(x).counted == 1_000_000 - 32
    assert time.process_time() - began < 3.0


def test_the_name_states_the_defaults():
    defaults = local.__kwdefaults__
    assert f"local(w={defaults['w']},k={defaults['k']:g})" == LOCAL


def test_the_largest_residual_is_that_of_the_largest_jump():
    x = falling_loss(600, 9)
    x[[300, 400]] += 0.5, 2.0
    i = np.arange(272, 400)
    i = i[i != 300]
    slope, level = np.polyfit(i, x[i], 1)
    assert local(x).largest == pytest.approx(x[400] - slope * 400 - level)
    assert local(x[:32]).largest is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_heights_are_those_of_the_protocol(seed):
    x, tall = random_series(seed), []
    slow_local(x, tall=tall)
    found = heights(x, local(x))
    assert len(found) == len(tall)
    for mine, theirs in zip(found, tall, strict=True):
        assert mine == (None if theirs is None else pytest.approx(theirs, rel=1e-6))
        assert mine is None or mine >= 7
