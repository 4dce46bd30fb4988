"""The second block of table A by hand: a baseline and two variants whose curves are hyperbolas."""

import json
import math

import pytest

from lab.report.comparison import compare
from lab.report.formats import FORMATS
from lab.report.main_table import table
from lab.report.variants import Variant
from report.records import record

STEPS = range(50, 601, 50)


def arm(label, gain, **changes):
    """Two seeds whose validation loss is gain + 3 + 100 / step, a tenth more for the second."""
    runs = []
    for seed in (1, 2):
        curve = [[step, gain + 3 + 100 / step + seed / 10] for step in STEPS]
        more = {"val_losses": curve, "best_loss": curve[-1][1], "best_step": 600}
        runs.append(record(f"{label}{seed}", seed=seed, loss=curve[-1][1], **changes) | more)
    return Variant(label, {}, tuple(runs))


def made(*arms):
    return table(compare([arm("base", 0.0), *arms]))


def cells(grid):
    (block,) = grid.below
    headers = [column.header.replace("\n", " ").strip() for column in block.columns]
    return [dict(zip(headers, row, strict=True)) for row in block.rows]


def test_numbers_of_a_row():
    base, quick, slow = cells(
        made(arm("quick", -0.1, tokens_per_s=7500.0, peak_memory_mib=600.0), arm("slow", 0.1))
    )
    loss = 3 + 1 / 6 + 0.15
    assert base["perplexity"] == f"{math.exp(loss):#.4g}" == "27.57"
    assert base["best loss"] == "3.3167 ± 0.0707"
    assert (base["at step"], base["peak MiB"], quick["peak MiB"], base["LR"]) == ("600", "512", "600", "0.001")
    assert base["steps to baseline loss"] == base["time to baseline loss"] == "1.00×"
    # 100 / step = 1 / 6 + 0.1 at step 375, and there the line from 350 to 400 lies 0.0018 above: step 377.
    at = 350 + 50 * (100 / 350 - 1 / 6 - 0.1) / (100 / 350 - 100 / 400)
    assert quick["steps to baseline loss"] == f"{at / 600:.2f}×" == "0.63×"
    assert quick["time to baseline loss"] == f"{2 * at / 600:.2f}×" == "1.26×"
    assert slow["steps to baseline loss"] == slow["time to baseline loss"] == "never"


def test_worth_in_steps():
    grid = made(arm("quick", -0.1))
    steps = [450, 500, 550, 600]
    middle = sum(steps) / 4
    slope = sum((s - middle) * 100 / s for s in steps) / sum((s - middle) ** 2 for s in steps)
    assert grid.data["baseline_slope"] == pytest.approx(slope)
    assert grid.data["further"][1]["worth_steps"] == pytest.approx(-0.1 / slope)
    assert cells(grid)[1]["worth steps"] == f"{-0.1 / slope:+.0f}" == "+270"
    assert cells(grid)[0]["worth steps"] == "–"
    assert f"the slope of base's validation loss in the last quarter, {slope:.2g} nats a step" in " ".join(
        grid.notes
    )


def test_no_difference_is_worth_no_step():
    assert cells(made(arm("same", 1e-9)))[1]["worth steps"] == "+0"


def test_of_each_seed():
    lines = made(arm("quick", -0.1)).per_seed
    assert [line["best_loss"] for line in lines[:2]] == pytest.approx([3.1 + 1 / 6, 3.2 + 1 / 6])
    assert lines[0]["perplexity"] == pytest.approx(math.exp(3.1 + 1 / 6))
    # Seed 1 lies 0.05 below the mean of the baseline, seed 2 above it.
    assert lines[0]["steps_to_baseline"] < 1
    assert lines[1]["steps_to_baseline"] is None
    assert len({tuple(line) for line in lines}) == 1
    slope = made(arm("quick", -0.1)).data["baseline_slope"]
    assert [line["worth_steps"] for line in lines[2:]] == pytest.approx([-0.1 / slope] * 2)
    assert [line["worth_steps"] for line in lines[:2]] == [None, None]
    value = json.loads(FORMATS["json"](made()))
    assert "best_loss" in FORMATS["csv"](made()).splitlines()[0].split(",")
    assert value["further"][0]["best_step"] == 600


def test_older_results_say_why_they_have_none():
    old = [Variant(name, {}, (record(name, loss=3.0, train__eval_every=None),)) for name in ("base", "new")]
    grid = table(compare(old))
    first, _ = cells(grid)
    assert first["best loss"] == "3.0000"
    assert not any("to" in header.split() for header in first)
    assert "steps to base's loss and worth in steps: n/a below 8 validations (train.eval_every)" in grid.notes


def test_other_tokens_do_not_compare():
    hashes = {"data": "1", "tokenizer": "other", "batches": "1", "tensors": {}}
    grid = made(arm("other", -0.1, hashes=hashes))
    assert [row["steps_to_baseline"] for row in grid.data["further"]] == [None, None]
    assert grid.data["further"][1]["worth_steps"] is None


def test_a_diverged_seed_is_left_out():
    bad = arm("bad", -0.1)
    runs = (bad.records[0], bad.records[1] | {"status": "diverged", "final_loss": None})
    row = cells(made(Variant("bad", {}, runs)))[1]
    assert row["best loss"] == f"{3 + 1 / 6:.4f}"
