"""The published rolling rules against a literal, slow transcription of each, and what each sees and misses."""

import math
import statistics
import time

import numpy as np
import pytest
from each import for_each

from lab.stats.rolling_spikes import OLMO2, OLMO_CORE, olmo2, olmo_core
from lab.stats.spikes import local


def falling_loss(steps, seed, sd=0.04):
    t = np.arange(steps)
    return 3 + 7 * (1 + t / 20) ** -0.7 + np.random.default_rng(seed).normal(0, sd, steps)


def slow_olmo2(x, w, k):
    """Flagged and counted steps; the window is the latest ``w`` finite values before a step."""
    latest, flagged, counted = [], [], 0
    for t, value in enumerate(x):
        if not math.isfinite(value):
            flagged.append(t)
            counted += 1
            continue
        if len(latest) == w:
            counted += 1
            mean = math.fsum(latest) / w
            sd = math.sqrt(math.fsum((v - mean) ** 2 for v in latest) / w)
            if sd > 1e-12 and abs(value - mean) >= k * sd:
                flagged.append(t)
        latest = [*latest, value][-w:]
    return tuple(flagged), counted


def slow_olmo_core(x, w, k):
    """Flagged steps, as the callback's text says it: a window of all that came, judged when full."""
    seen, flagged = [], []
    for t, value in enumerate(x):
        if len(seen) >= w:
            window = seen[-w:]
            mean = sum(window) / w
            sd = math.sqrt(sum((v - mean) ** 2 for v in window) / w)
            if not sd < 1e-10 and value > mean + k * sd:
                flagged.append(t)
        seen.append(value)
    return tuple(flagged)


def random_series(seed):
    """Noise, light or heavy, with jumps, constants, level shifts and values that are not finite."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(30, 300))
    x = falling_loss(n, seed) if seed % 2 else 5 + rng.standard_t(3, n)
    for _ in range(int(rng.integers(0, 5))):
        at = int(rng.integers(0, n))
        x[at : at + int(rng.integers(1, 6))] += rng.choice([-4.0, 0.5, 3.0, 1e6])
    if seed % 3 == 0:
        x[int(rng.integers(0, n)) :] = x[-1]
    if seed % 5 == 0:
        x[rng.random(n) < 0.02] = rng.choice([np.nan, np.inf, -np.inf])
    return x


@for_each(range(8))
def test_equal_the_definitions_taken_literally(group):
    flagged = 0
    for seed in range(25 * group, 25 * group + 25):
        x = random_series(seed)
        w = (8, 20, 50)[seed % 3]
        found, core = olmo2(x, w=w, k=3.0), olmo_core(x, w=w, k=3.0)
        assert (found.steps, found.counted) == slow_olmo2(x.tolist(), w, 3.0)
        assert core.steps == slow_olmo_core(x.tolist(), w, 3.0)
        assert core.counted == x.size
        flagged += found.spikes + core.spikes
    assert flagged > 20


def test_the_published_windows_taken_literally():
    x = falling_loss(1400, 1)
    x[[1100, 1200, 1201]] += 0.8, -0.9, 4
    assert olmo2(x).steps == slow_olmo2(x.tolist(), 1000, 7.0)[0] != ()
    assert olmo_core(x).steps == slow_olmo_core(x.tolist(), 128, 6.0) != ()


@for_each(range(5))
def test_a_jump_at_step_200_is_seen_by_local_alone(seed):
    x = falling_loss(2400, seed)
    x[200] += 0.5
    assert 200 in local(x).steps
    assert 200 not in olmo_core(x).steps + olmo2(x).steps


def test_a_jump_at_step_900_before_the_window_of_1000_is_full():
    x = falling_loss(2400, 1)
    x[900] += 0.5
    assert olmo_core(x).steps == (900,)
    assert olmo2(x).steps == ()


@pytest.mark.parametrize(("value", "flagged"), [(np.nan, ()), (np.inf, (1000,)), (-np.inf, ())])
def test_what_is_not_finite_blinds_the_callback_for_its_window(value, flagged):
    x = falling_loss(2400, 2)
    x[1000] = value
    x[[1001, 1128]] += 5  # inside the window
    assert olmo_core(x).steps == flagged
    x[1129] += 50
    assert olmo_core(x).steps == (*flagged, 1129)
    assert 1000 in olmo2(x).steps


@pytest.mark.parametrize(("after", "seen"), [(40, False), (120, False), (140, True)])
def test_a_huge_spike_hides_the_next(after, seen):
    x = falling_loss(2400, 3)
    x[1000] += 50
    x[1000 + after] += 0.5
    assert (1000 + after in olmo_core(x).steps) == seen
    assert 1000 + after in local(x).steps


def test_a_slow_drift_is_hardly_a_spike():
    x = falling_loss(2400, 4)
    x[1200:1300] += np.linspace(0, 3, 100)
    x[1300:] += 3
    assert olmo_core(x).spikes <= 1


def test_two_sides_and_one():
    x = falling_loss(2400, 5)
    x[1500] -= 3
    assert olmo2(x).steps == (1500,)
    assert olmo_core(x).steps == ()


def test_the_callback_flags_a_step_once():
    loss, norm = falling_loss(1000, 6), falling_loss(1000, 7)
    loss[[500, 700]] += 5
    norm[[500, 800]] += 5
    assert olmo_core(loss, norm).steps == (500, 700, 800)
    assert olmo_core(loss, norm).score == 0.3


def test_short_series_have_no_score():
    for rule, steps in ((olmo2, 2000), (olmo_core, 256)):
        assert rule(falling_loss(steps, 8)).score is None
        assert rule(falling_loss(steps + 1, 8)).score is not None
    assert olmo2(np.full(4000, np.nan)).score == 100.0
    assert olmo_core([]).counted == 0


def test_a_huge_value_leaves_no_trace():
    x = np.random.default_rng(9).normal(0, 1e-6, 1000)
    x[300] = 1e15
    x[900] = 1e-3
    assert olmo_core(x).steps == (300, 900)


@pytest.mark.parametrize("value", [0.0, 3.3, 1e300])
def test_constants(value):
    assert olmo_core(np.full(600, value)).spikes == 0
    assert olmo2(np.full(2600, value)).spikes == 0


def test_a_hundred_thousand_steps_take_less_than_a_third_of_a_second():
    x = np.random.default_rng(0).standard_t(3, 100_000)
    began = time.process_time()
    olmo2(x)
    olmo_core(x)
    assert time.process_time() - began < 0.3


def test_the_names_state_the_defaults():
    for name, rule, word in ((OLMO2, olmo2, "olmo2"), (OLMO_CORE, olmo_core, "olmo-core")):
        defaults = rule.__kwdefaults__
        assert name == f"{word}(w={defaults['w']},k={defaults['k']:g})"


def test_the_transcription_uses_the_population_deviation():
    window = falling_loss(8, 1).tolist()
    sd = statistics.pstdev(window)
    for k, flagged in ((2.99, (8,)), (3.01, ())):
        assert slow_olmo_core([*window, statistics.fmean(window) + 3 * sd], 8, k) == flagged
