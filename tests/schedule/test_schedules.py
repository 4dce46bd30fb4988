import itertools
import math

import pytest
from contracts.menu import config, values
from each import for_each

from lab import choices
from lab.errors import ConfigError

every_schedule = pytest.mark.parametrize("name", choices.names("schedule"))


def factors(schedule, steps):
    return [schedule.factor(step, steps) for step in range(steps)]


@for_each(itertools.product(choices.names("schedule"), [1, 2, 7, 20, 600], [0, 0.05, 0.5, 0.99]))
def test_factors_lie_between_zero_and_one(name, steps, warmup_share):
    made = factors(config("schedule", name, warmup_share=warmup_share), steps)
    assert all(0 <= value <= 1 for value in made)
    assert made[0] > 0


@for_each(itertools.product(choices.names("schedule"), [0, 0.05, 0.5]))
def test_rises_evenly_from_near_zero_and_then_never_again(name, warmup_share):
    steps, warmup = 100, round(100 * warmup_share)
    made = factors(config("schedule", name, warmup_share=warmup_share), steps)
    assert made[:warmup] == pytest.approx([(step + 1) / (warmup + 1) for step in range(warmup)], rel=1e-14)
    assert made[warmup] == 1.0
    assert all(a >= b for a, b in zip(made[warmup:], made[warmup + 1 :], strict=False))


@every_schedule
def test_is_a_function_of_the_step_alone(name):
    schedule = config("schedule", name)
    forwards = factors(schedule, 50)
    assert [schedule.factor(step, 50) for step in reversed(range(50))] == forwards[::-1]


def test_constant_stays_at_the_peak():
    assert factors(config("schedule", "constant", warmup_share=0), 10) == [1.0] * 10


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("linear", lambda u, end: 1 - u * (1 - end)),
        ("cosine", lambda u, end: end + (1 - end) * (1 + math.cos(math.pi * u)) / 2),
    ],
)
@pytest.mark.parametrize("final_share", [0.0, 0.1, 1.0])
def test_decay_by_formula(name, formula, final_share):
    schedule = config("schedule", name, warmup_share=0.2, final_share=final_share)
    made = factors(schedule, 50)[10:]
    assert made == pytest.approx([formula(i / 40, final_share) for i in range(40)], rel=1e-13, abs=1e-15)
    assert schedule.factor(50, 50) == pytest.approx(final_share, abs=1e-15)
    assert schedule.factor(30, 50) == pytest.approx((1 + final_share) / 2, rel=1e-13)


@pytest.mark.parametrize(("shape", "line"), [("linear", lambda u: u), ("one_minus_sqrt", math.sqrt)])
@pytest.mark.parametrize("final_share", [0.0, 0.25])
def test_wsd_by_formula(shape, line, final_share):
    schedule = config("schedule", "wsd", warmup_share=0.2, decay_share=0.25, final_share=final_share, shape=shape)
    made = factors(schedule, 50)
    assert made[10:41] == [1.0] * 31
    assert made[41:] == pytest.approx([1 - (1 - final_share) * line(i / 10) for i in range(1, 10)], rel=1e-13)
    assert schedule.factor(50, 50) == pytest.approx(final_share, abs=1e-15)


def test_wsd_that_decays_all_the_way_is_a_straight_line():
    wsd = config("schedule", "wsd", warmup_share=0.1, decay_share=1.0, final_share=0.1, shape="linear")
    linear = config("schedule", "linear", warmup_share=0.1, final_share=0.1)
    assert factors(wsd, 40) == pytest.approx(factors(linear, 40), rel=1e-13)


def test_inverse_sqrt_is_t5s_rule_without_a_warm_up():
    """1/sqrt(max(t, k)) over its peak 1/sqrt(k), with k = 20 of 1,000 steps."""
    schedule = config("schedule", "inverse_sqrt", warmup_share=0, hold_share=0.02)
    expected = [(1 / math.sqrt(max(t, 20))) / (1 / math.sqrt(20)) for t in range(1000)]
    assert factors(schedule, 1000) == pytest.approx(expected, rel=1e-13)


def test_inverse_sqrt_is_the_rule_of_2017_without_a_hold():
    """min(t^-0.5, t × warmup^-1.5) over its peak, from the peak on, t counted from the run's first step."""
    schedule = config("schedule", "inverse_sqrt", warmup_share=0.1, hold_share=0)
    expected = [min(t**-0.5, t * 100**-1.5) / 100**-0.5 for t in range(100, 1000)]
    assert factors(schedule, 1000)[100:] == pytest.approx(expected, rel=1e-13)


OTHER = {"shape": "one_minus_sqrt"}
"""Another value for a key that is no number."""


@pytest.mark.parametrize(
    ("name", "key"),
    [(name, key) for name in choices.names("schedule") for key in values("schedule", name) if key != "name"],
)
def test_every_key_changes_the_factors(name, key):
    plain = config("schedule", name)
    other = config("schedule", name, **{key: OTHER[key] if key in OTHER else getattr(plain, key) + 0.1})
    assert factors(plain, 100) != factors(other, 100)


@pytest.mark.parametrize(
    ("name", "key", "value", "allowed"),
    [
        ("constant", "warmup_share", 1, ">= 0 and < 1"),
        ("cosine", "warmup_share", -0.1, ">= 0 and < 1"),
        ("cosine", "final_share", 1.1, ">= 0 and <= 1"),
        ("linear", "final_share", -0.1, ">= 0 and <= 1"),
        ("wsd", "decay_share", 0, "> 0 and <= 1"),
        ("wsd", "final_share", 1.1, ">= 0 and <= 1"),
        ("inverse_sqrt", "hold_share", -0.1, ">= 0 and <= 1"),
    ],
)
def test_what_is_refused(name, key, value, allowed):
    with pytest.raises(ConfigError) as refused:
        config("schedule", name, **{key: value})
    assert str(refused.value) == f"{key} {value} must be {allowed}"


def test_inverse_sqrt_needs_a_hold_or_a_warm_up():
    with pytest.raises(ConfigError, match=r"^hold_share 0 must be > 0 when schedule\.warmup_share is 0$"):
        config("schedule", "inverse_sqrt", warmup_share=0, hold_share=0)
