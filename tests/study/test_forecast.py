"""What is left of a study, and how long it takes."""

import math

import pytest

from lab.study.forecast import forecast, wall_s
from lab.study.script import script
from study.written import study

TWO = {"mode": "tuned", "grid": [0.001, 0.002]}


def ahead(one, ended):
    found = forecast(one, script(one), ended)
    return [(part.stage.name, len(part.done), sum(part.done)) for part in found.stages], found.floor


@pytest.mark.parametrize("lr", [None, TWO], ids=["three rates", "two rates"])
def test_nothing_is_done_at_first_and_no_edge_is_foreseen(lr):
    one = study(**({"lr": lr} if lr else {}))
    rates = len(one.lr.grid)
    stages, floor = ahead(one, lambda cell: None)
    assert stages == [
        ("baseline, tuning", rates * 2, 0),
        ("baseline", 3, 0),
        ("variants, tuning", 2 * rates * 2, 0),
        ("variants", 6, 0),
    ]
    assert floor == ()


def test_rates_that_nobody_knows_stand_in_the_middle():
    found = forecast(study(), script(study()), lambda cell: None)
    assert {cell.lr for part in found.stages for cell in part.stage.cells if cell.role == "report"} == {0.002}


def test_what_has_ended_is_counted_and_its_edges_too():
    def ended(cell):
        if cell.arm != "layernorm":
            return None
        return {"status": "done", "final_loss": cell.seed - cell.lr} if cell.seed != 3 else {"status": "diverged"}

    stages, floor = ahead(study(), ended)
    assert stages == [
        ("baseline, tuning", 6, 6),
        ("baseline, tuning 2", 2, 2),
        ("baseline", 3, 3),
        ("variants, tuning", 12, 0),
        ("variants", 6, 0),
    ]
    assert floor == (1 - 0.008, 2 - 0.008, math.inf)


def test_of_a_baseline_that_has_begun_its_losses_are_known():
    one = study().at("smoke")
    stages, floor = ahead(one, lambda cell: {"status": "done", "final_loss": 3.0} if cell.seed == 1 else None)
    assert stages == [("baseline", 2, 1), ("variants", 4, 2)]
    assert floor == (3.0,)


def test_runs_side_by_side():
    assert wall_s([[3, 1, 1, 1], [2]], workers=2) == 3 + 2
    assert wall_s([[1, 1, 1]], workers=1) == 3
    assert wall_s([[], [1]], workers=4) == 1
