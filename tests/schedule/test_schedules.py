import math

import pytest
from contracts.menu import config

from lab import choices
from lab.errors import ConfigError

every_schedule = pytest.mark.parametrize("name", choices.names("schedule"))


def factors(schedule, steps):
    return [schedule.factor(step, steps) for step in range(steps)]


@every_schedule
@pytest.mark.parametrize("steps", [1, 2, 7, 20, 600])
@pytest.mark.parametrize("warmup_share", [0, 0.05, 0.5, 0.99])
def test_factors_lie_between_zero_and_one(name, steps, warmup_share):
    values = factors(config("schedule", name, warmup_share=warmup_share), steps)
    assert all(0 <= value <= 1 for value in values)
    assert values[0] > 0


@every_schedule
@pytest.mark.parametrize("warmup_share", [0, 0.05, 0.5])
def test_rises_evenly_from_near_zero_and_then_never_again(name, warmup_share):
    steps, warmup = 100, round(100 * warmup_share)
    values = factors(config("schedule", name, warmup_share=warmup_share), steps)
    assert values[:warmup] == pytest.approx([(step + 1) / (warmup + 1) for step in range(warmup)], rel=1e-14)
    assert values[warmup] == 1.0
    assert all(a >= b for a, b in zip(values[warmup:], values[warmup + 1 :], strict=False))


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
    values = factors(schedule, 50)[10:]
    assert values == pytest.approx([formula(i / 40, final_share) for i in range(40)], rel=1e-13, abs=1e-15)
    assert schedule.factor(50, 50) == pytest.approx(final_share, abs=1e-15)
    assert schedule.factor(30, 50) == pytest.approx((1 + final_share) / 2, rel=1e-13)


@pytest.mark.parametrize(
    ("name", "key", "value", "allowed"),
    [
        ("constant", "warmup_share", 1, ">= 0 and < 1"),
        ("cosine", "warmup_share", -0.1, ">= 0 and < 1"),
        ("cosine", "final_share", 1.1, ">= 0 and <= 1"),
        ("linear", "final_share", -0.1, ">= 0 and <= 1"),
    ],
)
def test_what_is_refused(name, key, value, allowed):
    with pytest.raises(ConfigError) as refused:
        config("schedule", name, **{key: value})
    assert str(refused.value) == f"{key} {value} must be {allowed}"
