"""What was measured of runs stands below table A."""

import pytest

from lab.report.comparison import compare
from lab.report.formats import as_json, markdown
from lab.report.main_table import table
from lab.report.measures_table import measures
from lab.report.variants import variants
from tests.report.records import LAYERNORM, record


def measured(run, seed, lengths, accuracy, **changes):
    found = {"lengths": lengths, "probes": {"recall": accuracy}} if lengths else {}
    return record(run, seed=seed, **changes) | {"measures": found}


@pytest.fixture
def rows():
    return variants(
        [
            measured("a1", 1, {"loss_x1": 3.0, "loss_x4": 3.5}, 0.2),
            measured("a2", 2, {"loss_x1": 3.2, "loss_x4": 3.7}, 0.3),
            measured("a3", 3, {"loss_x1": 3.1, "loss_x4": 3.6}, 0.25),
            measured("b1", 1, {"loss_x1": 3.3}, 0.5, norm=LAYERNORM),
            measured("b2", 2, {"loss_x1": 9.9}, 0.9, norm=LAYERNORM, status="diverged"),
        ]
    )


def test_a_block_a_measure_of_finished_runs(rows):
    lengths, probes = measures(rows)
    assert (lengths.title, probes.title) == ("Measured: lengths", "Measured: probes")
    assert [list(row) for row in lengths.rows] == [
        ["norm=layernorm", "3.3", "–"],
        ["norm=rmsnorm", "3.1 ± 0.1", "3.6 ± 0.1"],
    ]
    # 4.303 is the 97.5 percentile of t with 2 degrees of freedom: 0.05 / sqrt(3) * 4.303 = 0.124
    assert [list(row) for row in probes.rows] == [
        ["norm=layernorm", "0.500"],
        ["norm=rmsnorm", "0.250 [0.126, 0.374]"],
    ]


def test_they_stand_below_table_a(rows):
    made = table(compare(rows))
    assert "**Measured: lengths**" in markdown(made)
    assert "1/8 in recall" in markdown(made)
    assert '"loss_x4": 3.5' in as_json(made)
    bare = table(compare(variants([record("a"), record("b", norm=LAYERNORM)])))
    assert "easured:" not in markdown(bare)
    assert '"measures"' not in as_json(bare)
