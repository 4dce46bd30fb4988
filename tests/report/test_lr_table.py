"""Table C from invented results."""

import json

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
    assert first["\nloss* ± sd"] == "3.1500 ± 0.0707"
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
