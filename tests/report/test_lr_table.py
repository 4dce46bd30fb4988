"""Table C from invented results."""

import json

import pytest

from lab.report.lr_table import lr_sensitivity
from lab.report.variants import variants
from report.records import LAYERNORM, record

LOSSES = {0.001: 3.3, 0.002: 3.0, 0.004: 3.2}


def runs(**changes):
    return [
        record(f"{lr}{seed}{len(changes)}", seed=seed, loss=loss + 0.1 * seed, optim__lr=lr, **changes)
        for lr, loss in LOSSES.items()
        for seed in (1, 2)
    ]


def cells(grid):
    headers = [column.header for column in grid.columns]
    return [dict(zip(headers, row, strict=True)) for row in grid.rows]


def test_one_row_for_all_rates():
    grid = lr_sensitivity(variants(runs() + runs(norm=LAYERNORM), in_order=True))
    first, second = cells(grid)
    assert (first["\nvariant"], second["\nvariant"]) == ("norm=rmsnorm", "norm=layernorm")
    assert first["loss at\n0.001"] == "3.4500"
    assert first["\nLR*"] == "0.002"
    assert first["\nedge"] == "no"
    assert first["loss*\nfresh"] == "n/a"
    assert first["sensitivity\n[95%]"] == "0.1667 [0.1667, 0.1667]"
    assert first["first diverging\nLR"] == "> 0.004"
    assert first["Δ sensitivity\n[95%]"] == "–"
    assert second["Δ sensitivity\n[95%]"] == "+0.0000 [+0.0000, +0.0000]"
    assert len(grid.per_seed) == 12
    json.dumps(grid.data, allow_nan=False)


def test_a_diverged_seed_is_said_and_counts_as_the_loss_at_init():
    bad = [*runs(), record("bad", seed=1, status="diverged", reason="loss is nan", optim__lr=0.008)]
    (row,) = cells(lr_sensitivity(variants(bad)))
    assert row["loss at\n0.008"] == "diverged 1/1"
    assert row["first diverging\nLR"] == "0.008"
    assert row["sensitivity\n[95%]"].startswith("1.2437")  # (0.3 + 0 + 0.2 + ln 2048 - 3.15) / 4
    assert row["\nvariant"] == "rmsnorm pre swiglu gqa rope"


def test_other_grids_are_not_compared():
    grid = lr_sensitivity(variants(runs() + runs(norm=LAYERNORM)[:4], in_order=True))
    assert cells(grid)[1]["Δ sensitivity\n[95%]"] == "–"
    assert cells(grid)[1]["loss at\n0.004"] == "–"
    assert any(note.startswith("warning: the rows have different learning rates") for note in grid.notes)


def test_a_single_rate_has_no_sensitivity():
    (row,) = cells(lr_sensitivity(variants(runs()[:2])))
    assert row["sensitivity\n[95%]"] == row["usable\noctaves"] == row["\nedge"] == "–"


def test_a_run_without_a_config():
    grid = lr_sensitivity(variants([record("a", status="failed") | {"config": None}]))
    assert grid.rows[0][0] == "no config"


def test_the_loss_at_the_best_rate_is_of_fresh_seeds():
    fresh = [record(f"f{seed}", seed=seed, loss=loss, optim__lr=0.002) for seed, loss in ((11, 3.4), (12, 3.6))]
    grid = lr_sensitivity(variants(runs() + fresh), fresh={"f11", "f12"})
    (row,) = cells(grid)
    assert row["loss*\nfresh"] == "3.5000 ± 0.1414"
    assert row["loss at\n0.002"] == "3.1500"  # of the seeds that chose it
    assert grid.data["rows"][0]["fresh"] == {"lr": 0.002, "n": 2, "diverged": 0, "mean": 3.5, "sd": fresh_sd()}
    assert [line["fresh"] for line in grid.per_seed] == [False] * 6 + [True] * 2
    assert any(note.endswith("seeds 1–2 chose, 11–12 are fresh") for note in grid.notes)
    json.dumps(grid.data, allow_nan=False)


def fresh_sd():
    return pytest.approx(0.2 / 2**0.5)


def test_a_fresh_seed_that_diverged_leaves_no_mean():
    fresh = [record(f"f{seed}", seed=seed, loss=3.4, optim__lr=0.002) for seed in (11, 12)]
    fresh[1] |= {"status": "diverged", "final_loss": None}
    (row,) = cells(lr_sensitivity(variants(runs() + fresh), fresh={"f11", "f12"}))
    assert row["loss*\nfresh"] == "diverged 1/2"
    assert row["first diverging\nLR"] == "> 0.004"


def test_fresh_seeds_at_another_rate_tell_nothing_of_the_best():
    fresh = record("f", seed=11, loss=3.4, optim__lr=0.001)
    (row,) = cells(lr_sensitivity(variants([*runs(), fresh]), fresh={"f"}))
    assert row["loss*\nfresh"] == "n/a"


def test_loss_at_init_is_measured():
    bad = record("bad", seed=1, status="diverged", reason="loss is nan", optim__lr=0.008)
    found = [run | {"init_loss": 5.0 + n / 10} for n, run in enumerate([*runs(), bad])]  # 5.3 in the mean
    grid = lr_sensitivity(variants(found))
    assert grid.data["rows"][0]["loss_0"] == pytest.approx(5.3)
    assert grid.data["rows"][0]["sensitivity"] == pytest.approx((0.3 + 0 + 0.2 + 5.3 - 3.15) / 4)
    assert "diverged runs count as the loss at init: the first loss of a run, mean over runs" in grid.notes
    older = lr_sensitivity(variants(runs()))
    assert any(note.endswith("of older results the logarithm of the vocabulary") for note in older.notes)


def test_the_footer_says_how_it_was_trained():
    (about, *_) = lr_sensitivity(variants(runs())).notes
    assert about == "3 rates from 0.001 to 0.004 · cosine (warmup_steps 50) · 600 steps · seeds 1–2"
