"""Table D, from figures made up."""

import csv
import io
import json

from lab.report.comparison import compare
from lab.report.formats import FORMATS
from lab.report.throughput_table import fails, throughput
from lab.report.variants import Variant

PACE = {"tokens_per_s": 1234.5, "quartiles": [1000.0, 1300.0], "steps": 30}
FACTS = {
    "attention": "gqa",
    "precision": "fp32",
    "bytes": 256,
    "share": 0.5,
    "measured_bytes": 256.0,
    "measured_mib": 0.25,
    "prefill": PACE,
    "decode": {"tokens_per_s": 56.78, "quartiles": [50.0, 60.0], "steps": 64},
    "uncached": None,
    "decode_ms": {"p50": 17.6, "p95": 123.4},
    "peak_mib": 7.5,
    "kernel": "sdpa fp32",
}


def made(*rows, trained=(128,)):
    """A table of two variants with two seeds, and a third arm that was never run."""
    variants = []
    for label, loss in (("mha", 3.0), ("gqa", 3.1)):
        runs = [
            {
                "id": f"{label}{s}",
                "status": "done",
                "final_loss": loss + s / 100,
                "config": {"seed": s, "threads": 1},
            }
            for s in (1, 2)
        ]
        variants.append(Variant(label, {}, tuple(runs)))
    variants.append(Variant("mqa", {}, ()))
    common = {"batch": 4, "context": 128, "prompt": 96, "device": "cpu", "threads": 1}
    named = [{"variant": v.label, **row} for v, row in zip(variants, rows, strict=True)]
    return throughput(compare(variants), {**common, "trained_contexts": [*trained], "rows": named})


HALF = {**FACTS, "bytes": 128, "measured_bytes": 128.0, "measured_mib": 0.125}
NEVER = {"reason": "no run of it has a result"}


def test_cells_and_what_they_are():
    grid = made(FACTS, HALF, NEVER)
    assert [column.header.replace("\n", " ").strip() for column in grid.columns] == [
        "variant",
        "KV B/token/ layer (formula)",
        "measured MiB at 4 × 128",
        "× baseline",
        "prefill tok/s",
        "decode tok/s",
        "p50 / p95 ms",
        "peak MiB",
        "kernel, dtype",
        "final loss",
        "Δ final [95% family]",
    ]
    base, half, never = grid.rows
    times = ["1,234 [1,000–1,300]", "56.8 [50.0–60.0]", "17.6 / 123", "7.50", "sdpa fp32"]
    assert base == ["mha", "256", "0.250", "1.00", *times, "3.0150 ± 0.0071", "–"]
    assert half[:4] == ["gqa", "128", "0.125", "0.500"]
    assert half[10].startswith("+0.1000 [")
    assert never == ["mqa", *["n/a"] * 8, "–", "–"]
    notes = "\n".join(grid.notes)
    assert "counted, and equal to the formula" in notes
    assert "prefill of 128 tokens (n ≥ 30), decode from a cache after a prompt of 96 (n ≥ 64)" in notes
    assert "cpu, threads 1, batch 4, context 128, prompt 96." in notes
    assert "n/a mqa: no run of it has a result" in notes
    assert "spikes" not in notes


def test_a_row_fails_whose_tensors_are_not_what_the_formula_says():
    wrong = {**HALF, "measured_bytes": 129.0}
    assert fails(wrong)
    assert not fails(HALF)
    assert not fails(NEVER)
    grid = made(FACTS, wrong, NEVER)
    assert grid.rows[1][2] == "0.125 fails"
    assert "equal to the formula" not in "\n".join(grid.notes)


def test_another_context_than_that_of_training_is_told():
    assert "trained with 64, 128:" in "\n".join(made(FACTS, HALF, NEVER, trained=(64, 128)).notes)


def test_a_baseline_without_figures_leaves_nothing_to_compare_with():
    assert [row[3] for row in made(NEVER, HALF, NEVER).rows] == ["n/a", "–", "n/a"]
    assert all("n/a" in row[1] for row in made(NEVER, NEVER, NEVER).rows)


def test_data_has_every_number_and_csv_a_line_a_seed():
    grid = made(FACTS, HALF, NEVER)
    found = json.loads(FORMATS["json"](grid))
    assert [row.get("times_baseline") for row in found["throughput"]["rows"]] == [1.0, 0.5, None]
    assert found["throughput"]["prompt"] == 96
    assert found["effects"]["rows"][0]["losses"] == {"1": 3.11, "2": 3.12}
    lines = [*csv.DictReader(io.StringIO(FORMATS["csv"](grid)))]
    assert [(line["variant"], line["seed"], line["final_loss"]) for line in lines][2:] == [
        ("gqa", "1", "3.11"),
        ("gqa", "2", "3.12"),
    ]
    assert {(line["bytes"], line["decode_tok_s"], line["decode_q1"], line["decode_ms_p95"]) for line in lines} == {
        ("256", "56.78", "50.0", "123.4"),
        ("128", "56.78", "50.0", "123.4"),
    }
