"""Curves by hand."""

import pytest

from lab.report.curves import best, curve_of, end_slope, first_at, mean_curve, step_seconds
from report.records import record

CURVE = [[step, 3 + 100 / step] for step in range(50, 601, 50)]


def test_validations_of_a_run():
    run = record("a") | {"val_losses": [[5, 3.5], [10, None], [15, 3.25]]}
    assert curve_of(run) == [(5, 3.5), (15, 3.25)]
    assert best(run) == (15, 3.25)
    assert best(run | {"best_loss": 3.0, "best_step": 12}) == (12, 3.0)


def test_an_older_result_has_two_where_nothing_was_validated_between():
    run = record("a", loss=3.0, train__eval_every=None)
    assert curve_of(run) == [(75, 3.9), (600, 3.0)]
    assert best(run) == (600, 3.0)
    assert curve_of(record("a", train__eval_every=100)) == curve_of(record("a")) == []
    assert best(record("a")) is None


def test_the_mean_is_over_shared_steps():
    runs = [
        record("a") | {"val_losses": [[5, 4.0], [10, 3.0]]},
        record("b") | {"val_losses": [[10, 2.0], [20, 1.0]]},
    ]
    assert mean_curve(runs) == [(10, 2.5)]
    assert mean_curve([]) == []


@pytest.mark.parametrize(
    ("loss", "step"), [(4.5, 10.0), (4.0, 10.0), (3.5, 15.0), (2.75, 35.0), (2.5, 40.0), (2.4, None)]
)
def test_when_a_loss_is_reached(loss, step):
    assert first_at([(10, 4.0), (20, 3.0), (30, 3.0), (40, 2.5), (50, 3.0)], loss) == step


def test_the_slope_at_the_end():
    line = [(step, 5 - 0.002 * step) for step in range(10, 401, 10)]
    assert end_slope([(1, 99.0), *line]) == pytest.approx(-0.002)
    assert end_slope([(step, -loss) for step, loss in line]) is None  # rises
    wild = [(step, loss + (5 if step % 20 else -5)) for step, loss in line]
    assert end_slope(wild) is None
    assert end_slope([(100 * n, 5.0 - n) for n in range(1, 8)]) is None  # seven in all
    assert end_slope([(100 * n, 5.0 - n) for n in range(1, 9)]) == pytest.approx(-0.01)  # 600, 700, 800
    assert end_slope([]) is None


def test_the_time_of_a_step():
    # 1,228,800 tokens in 600 steps are 2,048 a step.
    assert step_seconds([record("a", tokens_per_s=1024.0), record("b", tokens_per_s=2048.0)]) == 1.5
    assert step_seconds([record("a", tokens_per_s=None)]) is None
