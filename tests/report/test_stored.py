"""What a stored study keeps of its runs, and that what is read again says the same."""

import math

import pytest

from lab.errors import LabError
from lab.report.pairs import are_paired
from lab.report.stored import merged, patterns, read, rounded, shared, without
from lab.report.thinned import GRID, MOST, curve, grid
from lab.stats.spikes import LOCAL


def test_what_all_agree_in_stands_once_and_comes_back():
    values = [
        {"a": 1, "b": {"x": 1, "y": {"z": 0, "w": 2}}, "c": [1, 2], "d": {}, "e": None},
        {"a": 1, "b": {"x": 1, "y": {"z": 0}}, "c": [1, 3], "d": {}, "e": {"q": 1}},
    ]
    common = shared(values)
    assert common == {"a": 1, "b": {"x": 1, "y": {"z": 0}}, "d": {}}
    assert [merged(common, without(value, common)) for value in values] == values


def test_numbers_keep_seven_digits_but_settings_all_of_theirs():
    said = rounded({"loss": 1.23456789, "config": {"ratio": 8 / 3}, "n": 12345678901, "bad": math.nan, "ok": True})
    assert said == {"loss": 1.234568, "config": {"ratio": 8 / 3}, "n": 12345678901, "bad": None, "ok": True}


def hashed(seed, **tensors):
    return {"hashes": {"batches": str(seed), "tensors": {"gain": "1", "gain2": "1", **tensors}}}


def test_few_hashes_tell_of_any_two_runs_what_all_told():
    runs = [
        hashed(1, emb="a", q="b", up="c", out="d"),
        hashed(1, emb="a", q="b", up="X", out="d"),
        hashed(1, emb="Y", q="Z", up="W", out="V"),
        hashed(1, up="c", gate="g"),
        hashed(2, emb="a", q="b", up="c", out="d"),
        hashed(1, bias="k"),
    ]
    kept = patterns(runs)
    assert (
        sum(len(run["hashes"]["tensors"]) for run in kept) < sum(len(run["hashes"]["tensors"]) for run in runs) / 2
    )
    for n, run in enumerate(runs):
        for m, other in enumerate(runs):
            before = are_paired({(1, 0): run}, {(1, 0): other})
            assert are_paired({(1, 0): kept[n]}, {(1, 0): kept[m]}) is before, (n, m)


def lines(count, spike=None):
    return [
        {"step": s, "loss": 9.0 if s == spike else 5 - s / count, "grad_norm": 1.0} for s in range(1, count + 1)
    ]


def test_a_thinned_curve_keeps_its_spikes_and_a_grid_that_all_runs_share():
    record = {"spikes": {LOCAL: {"loss": {"steps": [777, *range(100, 400)]}, "grad_norm": {"steps": [5, 990]}}}}
    long, short = lines(1000, spike=777), lines(300)
    at = grid([long, short])
    thin, other = curve(long, record, at), curve(short, {}, at)
    assert len(thin["step"]) <= MOST + 3
    assert {1, 777, 5, 990, 1000} <= {*thin["step"]}
    assert thin["loss"][thin["step"].index(777)] == 9.0
    assert other["step"][-1] == 300
    assert len({*thin["step"]} & {*other["step"]}) > GRID * 300 // 1000 - 2


def test_many_runs_have_fewer_points_each():
    assert len(grid([lines(400)] * 300)) < len(grid([lines(400)] * 10)) == GRID
    assert grid([]) == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 1}', '{"schema": 99}', '{"schema": 1, "runs": 3}'])
def test_another_file_is_refused_in_one_line(text, tmp_path):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(LabError, match=r"x\.json: not a stored study of version 1"):
        read(tmp_path / "x.json")
    with pytest.raises(LabError, match=r"y\.json: cannot be read"):
        read(tmp_path / "y.json")
