"""Numbers of runs by name, and of all learning rates of an arm."""

import math

import pytest

from lab.report.metric import grid_step, of_arm, said, value_of, values
from lab.runs.units import unit
from lab.study.published import OF_GRID, check_metric
from report.records import record

GRID = [0.01, 0.03, 0.1]


def run(seed, lr, loss, **changes):
    status = "done" if math.isfinite(loss) else "diverged"
    made = record(f"{seed}-{lr}", seed=seed, loss=loss, status=status, optim__lr=lr, **changes)
    return made | {"init_loss": 7.0}


def curve(seed, *losses):
    return [run(seed, lr, loss) for lr, loss in zip(GRID, losses, strict=True)]


def test_a_number_is_found_by_its_path_and_is_infinite_where_a_run_diverged():
    done = record("a") | {"measures": {"lengths": {"loss_x4": 3.5}}}
    lost = record("b", status="diverged") | {"measures": {"lengths": {"loss_x4": 9.5}}}
    assert value_of(done, "measures.lengths.loss_x4") == 3.5
    assert value_of(done, "measures.lengths.loss_x8") is None
    assert value_of(done, "parameters.total") == 1_310_000
    assert value_of(lost, "measures.lengths.loss_x4") == math.inf
    assert value_of(lost, "tokens_per_s") == 15000.0, "a speed has nothing to do with the weights"
    assert value_of(record("c", status="failed"), "tokens_per_s") is None


def test_numbers_of_a_grid_are_one_a_seed():
    runs = [*curve(101, 3.0, 2.5, 2.8), *curve(102, 3.1, math.inf, math.inf), *curve(103, 3.0, 2.9, math.inf)]
    assert [*values("best_loss", runs, GRID).values()] == [2.5, 3.1, 2.9]
    first = [2**value for value in values("first_diverging_lr", runs, GRID).values()]
    step = 2 ** grid_step(GRID)
    assert first == pytest.approx([0.1 * step, 0.03, 0.1]), "a seed that never diverged is one step beyond"
    found = [*values("lr_sensitivity", runs, GRID).values()]
    assert found[0] == pytest.approx((3.0 + 2.5 + 2.8) / 3 - 2.5)
    assert found[1] == pytest.approx((3.1 + 7.0 + 7.0) / 3 - 3.1), "a run that diverged counts as the loss at init"


def test_a_rate_that_is_missing_leaves_a_seed_without_a_number_and_one_beyond_the_grid_does_not_count():
    runs = [*curve(101, 3.0, 2.5, 2.8)[:2], *curve(102, 3.0, 2.5, 2.8), run(102, 0.3, 1.0)]
    assert [*values("best_loss", runs, GRID).values()] == [None, 2.5]


def test_an_arm_of_a_grid_has_a_record_a_seed():
    arm = of_arm("a", curve(101, math.inf, math.inf, math.inf) + curve(102, 3.0, 2.5, 2.8), "best_loss", GRID)
    assert [value_of(one, "best_loss") for one in arm.records] == [math.inf, 2.5]


def test_the_first_diverging_rate_is_said_as_a_rate():
    log = [math.log2(0.03), math.log2(0.1) + grid_step(GRID)]
    assert said("first_diverging_lr", log[1:] * 3, GRID) == "> 0.1"
    assert said("first_diverging_lr", log[:1] * 3, GRID) == "0.03"
    assert said("first_diverging_lr", log, GRID).endswith("(1 of 2 > 0.1)")
    assert said("final_loss", [3.2, 3.4]) == "3.3"
    assert said("final_loss", [3.2, math.inf]) == "diverged"


def test_what_a_study_file_may_name_is_known_here():
    for metric in OF_GRID:
        check_metric("metric", metric)
        assert [*values(metric, curve(1, 3.0, 2.5, 2.8), GRID)] == [(1, 0)]
    assert (unit("final_loss"), unit("tokens_per_s"), unit("measures.probes.induction")) == ("nats", "tokens/s", "")
