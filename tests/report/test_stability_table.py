"""Table B from invented results, old and new."""

import json
import math

import pytest

from lab.report.stability_table import HEADERS, RARE, pool, stability
from lab.report.variants import variants
from lab.stats.rolling_spikes import OLMO2, OLMO_CORE
from lab.stats.spikes import LOCAL
from report.records import LAYERNORM, record


def spikes(loss, *, counted=568, largest=0.25):
    def of(n, total, score):
        return {"score": score, "spikes": n, "counted": total}

    local = of(loss, counted, 100 * loss / counted)
    return {
        LOCAL: {
            "loss": {**local, "shifts": 0, "largest": largest, "steps": []},
            "grad_norm": {**of(3, counted, 0.5), "shifts": 0, "largest": 1.0, "steps": [], "tail": 4.0},
        },
        OLMO2: {"loss": of(0, 0, None), "grad_norm": of(0, 0, None)},
        OLMO_CORE: {name: of(6, 600, 1.0) for name in ("loss", "grad_norm", "combined")},
    }


NORMS = (("a", {"name": "rmsnorm", "eps": 1e-6}), ("b", LAYERNORM))


def runs():
    base = [record(f"a{s}", seed=s, spikes=spikes(n)) for s, n in ((1, 0), (2, 1), (3, 4))]
    other = [
        record(f"b{s}", seed=s, norm=LAYERNORM, spikes=spikes(n, largest=s))
        | {"layers": {"max_attention_logit": 7.0 + s}}
        for s, n in ((1, 9), (2, 16))
    ]
    bad = record(
        "b3", seed=3, norm=LAYERNORM, status="diverged", reason="loss is not finite at step 212", spikes=spikes(25)
    )
    return base, [*other, bad]


def record_cells(grid):
    headers = [column.header for column in grid.columns]
    return [dict(zip(headers, row, strict=True)) for row in grid.rows]


def made():
    base, other = runs()
    found = variants([*base, *other], in_order=True)
    for variant in found:
        assert len(variant.records) == 3
    return stability(found)


def test_cells():
    first, second = record_cells(made())
    assert first["diverged\nk/n [95%]"] == "0/3 [0.00, 0.71]"
    assert second["diverged\nk/n [95%]"] == "1/3 [0.01, 0.91]"
    assert (first["first bad\nstep"], second["first bad\nstep"]) == ("–", "212")
    assert first["spikes loss\nlocal"].startswith("0.29% [")
    assert first["spikes loss\nlocal"].endswith("(5/1704)")
    assert second["spikes loss\nolmo2"] == "n/a (600 steps)"
    assert second["spikes both\nolmo-core"] == "1.00% [1.00, 1.00] (18/1800)"
    assert second["largest jump,\nnats"] == "2.000"
    assert second["grad norm\np99/median"] == "4.00"
    assert second["clipped\nsteps"] == "10.0%"
    assert first["Δ √spikes\nvs baseline"] == "–"
    assert second["Δ √spikes\nvs baseline"] == "+3.00"  # 3, 3, 3 above 0, 1, 2
    assert made().data["rows"][1]["delta"]["mean"] == 3.0


def test_numbers_are_strict_json_and_flat():
    grid = made()
    json.dumps(grid.data, allow_nan=False)
    assert len(grid.per_seed) == 6
    assert len({tuple(line) for line in grid.per_seed}) == 1
    assert any("rough" in note for note in grid.notes)


def test_old_results_are_read():
    grid = stability(variants([record("a"), record("b", norm=LAYERNORM)]))
    for row in record_cells(grid):
        assert row["spikes loss\nlocal"] == "0.00% (0/568)"
        assert row["spikes loss\nolmo2"] == row["largest jump,\nnats"] == "–"


def test_layers():
    first, second = record_cells(made())
    assert first["max attention\nlogit"] == "–"
    assert second["max attention\nlogit"] == "9.0"
    assert "growth\nexponent" not in second


def test_columns_that_no_row_has_are_left_out():
    base, _ = runs()
    grid = stability(variants(base))
    assert [column.header for column in grid.columns] == [header for header in HEADERS if header not in RARE]
    assert "largest attention logit, growth exponent: with track.layers=true" in grid.notes
    assert not any("first bad step" in note for note in grid.notes)


def test_first_bad_step_is_the_median_over_diverged_seeds():
    ends = {1: {"bad_step": 300, "reason": "loss ended at 6.1, above 6.0 at the start"}}
    ends[2] = {"bad_step": None, "reason": "val_loss is not finite after step 100"}  # as an older result has it
    ends[3] = {"bad_step": None, "reason": "loss ended at 6.1, above 6.0 at the start"}
    found = [record(f"a{seed}", seed=seed, status="diverged") | end for seed, end in ends.items()]
    grid = stability(variants([*found, record("a4", seed=4)]))
    assert record_cells(grid)[0]["first bad\nstep"] == "200"
    assert [line["bad_step"] for line in grid.per_seed] == [300, 100, None, None]
    assert any("the first step from which the smoothed loss stays above the bound" in note for note in grid.notes)


def test_no_spikes_at_all_differ_by_nothing_and_have_no_interval():
    arms = [record(f"{n}{s}", seed=s, spikes=spikes(0), norm=norm) for n, norm in NORMS for s in (1, 2, 3)]
    assert record_cells(stability(variants(arms, in_order=True)))[1]["Δ √spikes\nvs baseline"] == "+0.00"


@pytest.mark.parametrize(("counted", "text"), [(99, "2/99"), (100, "2.00% (2/100)")])
def test_few_steps_have_no_percentage(counted, text):
    (row,) = record_cells(stability(variants([record("a", spikes=spikes(2, counted=counted))])))
    assert row["spikes loss\nlocal"] == text


def test_failed_runs_say_nothing():
    (row,) = record_cells(stability(variants([record("a", status="failed", spikes=None)])))
    assert row["diverged\nk/n [95%]"] == row["spikes loss\nlocal"] == "–"


def test_pooled_not_averaged():
    one, two = record("a", spikes=spikes(1, counted=100)), record("b", spikes=spikes(0, counted=900))
    found = pool([one, two], LOCAL, "loss")
    assert math.isclose(found.percent, 0.1)
    assert found.interval == (0.0, 1.0)
