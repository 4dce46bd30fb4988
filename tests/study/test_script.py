"""What a study runs in which order: rates are chosen on tuning seeds, reports are of fresh ones."""

import math

import pytest

from lab.errors import ConfigError
from lab.study.design import count
from lab.study.script import picks, script
from lab.study.tune import beyond, pick
from study.written import study

BEST = {"layernorm": 0.002, "rmsnorm": 0.016, "gqa": 0.0001}
"""The planted optimum of each arm: on the grid, one beyond it, far below it."""


def bowl(cell):
    """A loss that is least at the arm's optimum; the reported seeds lie, and would lead elsewhere."""
    off = math.log2(cell.lr / BEST[cell.arm])
    return {"status": "done", "final_loss": 3 + off**2 / 10 + cell.seed / 1e4 if cell.seed > 100 else 3 - off**2}


def played(one, result, shared=()):
    """All stages of a script, with the results that a function gives; and those results."""
    generator, stages, results = script(one, shared), [], {}
    try:
        stage = next(generator)
        while True:
            stages.append(stage)
            sent = {cell: result(cell) for cell in stage.cells}
            results |= sent
            stage = generator.send(sent)
    except StopIteration:
        return stages, results


def shape(stage):
    return stage.name, [(cell.arm, cell.lr, cell.seed) for cell in stage.cells]


def grid(arms, rates, seeds):
    return [(arm, rate, seed) for arm in arms for rate in rates for seed in seeds]


def test_shared_runs_the_baseline_first():
    stages, _ = played(study().at("smoke"), lambda cell: {"status": "done", "final_loss": 1.0}, ["threads=1"])
    assert [shape(stage) for stage in stages] == [
        ("baseline", grid(["layernorm"], [None], [1, 2])),
        ("variants", grid(["rmsnorm", "gqa"], [None], [1, 2])),
    ]
    assert stages[1].cells[-1].overrides == (
        *("train.steps=30", "threads=1", "norm=layernorm", "attn=gqa", "attn.n_kv_heads=1", "seed=2"),
    )
    assert {cell.role for stage in stages for cell in stage.cells} == {"report"}


def test_tuned_picks_on_tuning_seeds_and_reports_fresh_ones():
    one = study()
    stages, results = played(one, bowl)
    rates, tune, report = [0.001, 0.002, 0.004], [101, 102], [1, 2, 3]
    assert [shape(stage) for stage in stages] == [
        ("baseline, tuning", grid(["layernorm"], rates, tune)),
        ("baseline", grid(["layernorm"], [0.002], report)),
        ("variants, tuning", grid(["rmsnorm", "gqa"], rates, tune)),
        ("variants, tuning 2", grid(["rmsnorm"], [0.008], tune) + grid(["gqa"], [0.0005], tune)),
        ("variants", grid(["rmsnorm"], [0.008], report) + grid(["gqa"], [0.0005], report)),
    ]
    for cell in results:
        assert cell.role == ("tune" if cell.seed > 100 else "report")
        assert cell.overrides[-2:] == (f"seed={cell.seed}", f"optim.lr={cell.lr!r}")
    found = {each.arm: (each.lr, each.edge) for each in picks(results, one.primary)}
    assert found == {"layernorm": (0.002, False), "rmsnorm": (0.008, True), "gqa": (0.0005, True)}
    assert len(results) == count(one) + 2 * 2


@pytest.mark.parametrize(("extend", "reached"), [(0, 0.004), (1, 0.008), (2, 0.016), (3, 0.016)])
def test_the_grid_grows_at_an_edge_as_often_as_it_may(extend, reached):
    stages, _ = played(study(lr={"mode": "tuned", "grid": [0.001, 0.002, 0.004], "extend": extend}), bowl)
    assert {cell.lr for cell in stages[-1].cells if cell.arm == "rmsnorm"} == {reached}


def test_a_curve_reports_at_the_best_rate_of_its_grid():
    stages, _ = played(study(lr={"mode": "curve", "grid": [0.0005, 0.002, 0.008, 0.032]}), bowl)
    assert {cell.lr for cell in stages[-1].cells if cell.arm == "rmsnorm"} == {0.008}


def test_a_rate_at_which_any_seed_diverges_is_not_picked():
    def result(cell):
        if cell.lr >= 0.002 and cell.seed == 102:
            return {"status": "diverged", "final_loss": None}
        return {"status": "done", "final_loss": 5 if cell.lr < 0.001 else 4 - cell.lr}

    stages, _ = played(study(), result)
    assert {cell.lr for cell in stages[-1].cells} == {0.001}


def test_an_arm_whose_tuning_failed_is_not_reported():
    def result(cell):
        failed = cell.arm == "gqa" and cell.seed == 102 and cell.lr == 0.002
        return None if failed else bowl(cell)

    stages, results = played(study(), result)
    assert {cell.arm for cell in stages[-1].cells} == {"rmsnorm"}
    assert next(found for found in picks(results, "final_loss") if found.arm == "gqa").lr is None
    assert [stage.name for stage in played(study(), lambda cell: None)[0]] == [
        "baseline, tuning",
        "variants, tuning",
    ]
    assert played(study(), lambda cell: {"status": "failed"})[0] == played(study(), lambda cell: None)[0]


def test_a_script_is_played_again_the_same():
    assert played(study(), bowl) == played(study(), bowl)


def test_another_metric_leads_to_another_rate():
    def result(cell):
        return bowl(cell) | {"early_loss": cell.lr}

    stages, _ = played(study(primary="early_loss"), result)
    assert {cell.lr for cell in stages[-1].cells} == {0.0005}


def test_of_equals_the_lowest_rate_is_picked():
    assert pick("x", {2.0: [1.0], 1.0: [1.0]}).lr == 1.0
    assert pick("x", {2.0: [math.inf], 1.0: [math.inf]}).lr == 1.0


def test_the_next_rate_is_as_far_out_as_the_edge_is_from_its_neighbour():
    assert beyond(pick("x", {0.001: [1.0], 0.003: [2.0], 0.01: [3.0]})) == [0.000333333]
    assert beyond(pick("x", {0.001: [3.0], 0.003: [2.0], 0.01: [1.0]})) == [0.0333333]
    assert beyond(pick("x", {0.001: [3.0], 0.003: [1.0], 0.01: [2.0]})) == []


def started(**variants):
    """A study in which arms start from the weights of others."""
    return study(lr=None, seeds={"report": [1, 2]}, tiers=None, gate=None, variants=variants)


def test_an_arm_that_starts_from_another_runs_behind_it_from_the_run_of_its_seed():
    one = started(
        last={"set": {"norm": "dyt"}, "start": "first"},
        first={"set": {"norm": "rmsnorm"}, "start": "layernorm"},
        other={"set": {"norm": "scalenorm"}},
    )
    stages, _ = played(one, lambda cell: {"status": "done", "final_loss": 1.0, "id": f"{cell.arm}-{cell.seed}"})
    assert [(stage.name, {cell.arm for cell in stage.cells}) for stage in stages] == [
        ("baseline", {"layernorm"}),
        ("variants", {"other"}),
        ("started 1", {"first"}),
        ("started 2", {"last"}),
    ]
    found = {(cell.arm, cell.seed): cell.overrides for stage in stages[2:] for cell in stage.cells}
    assert found["first", 2] == ("norm=rmsnorm", "seed=2", "init_from=layernorm-2")
    assert found["last", 1] == ("norm=dyt", "seed=1", "init_from=first-1")
    preview, _ = played(one, lambda cell: {"status": "done", "final_loss": 1.0})
    assert preview[2].cells[0].overrides == ("norm=rmsnorm", "seed=1")


def test_a_study_in_which_nothing_starts_from_another_is_the_study_it_was():
    whole = study().as_dict()
    assert all("start" not in arm for arm in (whole["baseline"], *whole["variants"]))


@pytest.mark.parametrize(
    ("variants", "says"),
    [
        ({"a": {"set": {"norm": "dyt"}, "start": "layernrom"}}, "did you mean 'layernorm'"),
        (
            {"a": {"set": {"norm": "dyt"}, "start": "b"}, "b": {"set": {"norm": "none"}, "start": "a"}},
            "these wait for each other: a, b",
        ),
    ],
)
def test_a_start_that_cannot_be_is_refused(variants, says):
    with pytest.raises(ConfigError, match=says):
        started(**variants)
