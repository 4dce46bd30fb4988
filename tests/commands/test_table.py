import json
from pathlib import Path

import pytest

from lab.commands import table
from lab.errors import LabError
from lab.study.cell import Cell
from lab.study.manifest import Manifest

CONFIG = {"seed": 1, "norm": {"name": "rmsnorm", "eps": 1e-6}, "data": {"name": "sotu"}}


@pytest.fixture
def runs(tmp_path):
    """An outputs folder with two seeds of two norms."""
    for norm in ("rmsnorm", "layernorm"):
        for seed in (1, 2):
            write(tmp_path / "runs" / f"{norm}{seed}", norm=norm, seed=seed, loss=3 + seed / 100)
    return tmp_path / "runs"


def write(folder: Path, *, norm="rmsnorm", seed=1, status="done", loss=3.0):
    folder.mkdir(parents=True)
    result = {
        "schema": 1,
        "id": folder.name,
        "status": status,
        "reason": None,
        "config": CONFIG | {"seed": seed, "norm": {"name": norm, "eps": 1e-6}},
        "early_loss": loss + 1,
        "final_loss": loss,
    }
    (folder / "result.json").write_text(json.dumps(result))


def rows(capsys, *argv):
    assert table.main([*map(str, argv), "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)["rows"]


def test_a_study_has_its_own_order_and_says_what_it_lacks(runs, monkeypatch, capsys):
    monkeypatch.setenv("LAB_OUTPUTS", str(runs.parent))
    study = Manifest("norms", "01234567", ("study=norms",), {}, "2026-01-01T00:00:00+00:00", 5)
    names = ["rmsnorm1", "rmsnorm2", "layernorm1", "layernorm2"]
    study.with_stage("all", [Cell("arm", (name,)) for name in names], names).write()
    assert [row["variant"] for row in rows(capsys, "norms")] == ["norm=rmsnorm", "norm=layernorm"]
    assert [row["variant"] for row in rows(capsys, runs)] == ["norm=layernorm", "norm=rmsnorm"]
    assert table.main(["norms"]) == 0
    out, err = capsys.readouterr()
    assert out.index("rmsnorm") < out.index("layernorm")
    assert (
        err == "lab table: norms-01234567 is not complete: 1 of 5 runs have no result; lab resume norms-01234567\n"
    )


def test_an_outputs_folder_a_folder_of_runs_a_run_and_a_file(runs, capsys):
    everything = rows(capsys, runs.parent)
    assert [row["variant"] for row in everything] == ["norm=layernorm", "norm=rmsnorm"]
    assert rows(capsys, runs) == everything
    (one,) = rows(capsys, runs / "rmsnorm2")
    assert (one["variant"], one["runs"]) == ("rmsnorm", ["rmsnorm2"])
    assert rows(capsys, runs / "rmsnorm2" / "result.json") == [one]
    (two,) = rows(capsys, runs / "rmsnorm1", runs / "rmsnorm2", runs / "rmsnorm2")
    assert two["n"] == 2


def test_default_is_the_outputs_folder(runs, capsys, monkeypatch):
    monkeypatch.setenv("LAB_OUTPUTS", str(runs.parent))
    assert len(rows(capsys)) == 2


def test_text(runs, capsys):
    assert table.main([str(runs)]) == 0
    out, err = capsys.readouterr()
    (row,) = (line for line in out.splitlines() if line.startswith("norm=rmsnorm"))
    assert "3.0150 ± 0.0071" in row
    assert err == ""


def test_a_run_nobody_holds_is_partial(tmp_path, capsys):
    write(tmp_path / "a", status="running")
    (row,) = rows(capsys, tmp_path)
    assert (row["partial"], row["running"], row["n"]) == (1, 0, 0)


@pytest.mark.parametrize("argv", [[], ["{}"]])
def test_no_runs(tmp_path, capsys, monkeypatch, argv):
    empty = tmp_path / "runs"
    monkeypatch.setenv("LAB_OUTPUTS", str(tmp_path))
    if argv:
        empty.mkdir()
    assert table.main([part.format(empty) for part in argv]) == 1
    assert capsys.readouterr().err == f"lab table: no runs in {empty}\n"


def test_a_missing_path_is_named(tmp_path):
    with pytest.raises(LabError, match="nowhere"):
        table.main([str(tmp_path / "nowhere")])


def test_damaged_and_foreign_files_are_listed_and_left_out(runs, capsys):
    for name, text in (("torn", '{"schema": 1, "id"'), ("foreign", '{"accuracy": 1}'), ("list", "[]")):
        (runs / name).mkdir()
        (runs / name / "result.json").write_text(text)
    assert table.main([str(runs)]) == 0
    out, err = capsys.readouterr()
    assert "norm=rmsnorm" in out
    assert err.count("\n") == 3
    assert all(str(runs / name / "result.json") in err for name in ("torn", "foreign", "list"))


def test_a_terminal_is_never_wider_than_it_is(runs, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    assert table.main([str(runs)]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_a_wrong_format_is_one_line(capsys):
    with pytest.raises(SystemExit) as stop:
        table.main(["--format", "jsn"])
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "text, json" in err


def test_help(capsys):
    with pytest.raises(SystemExit) as stop:
        table.main(["--help"])
    assert stop.value.code == 0
    assert capsys.readouterr().out.startswith("usage: lab table")
