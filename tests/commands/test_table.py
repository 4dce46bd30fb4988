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


@pytest.fixture
def declared(tmp_path, monkeypatch):
    """A study of three arms by five seeds, the second of which is the first with other batches."""
    monkeypatch.setenv("LAB_OUTPUTS", str(tmp_path))
    cells, names = [], []
    for arm, gain, batches in (("rms", 0, "a"), ("again", 0.001, "b"), ("layer", -0.05, "a")):
        for seed in range(1, 6):
            names.append(f"{arm}{seed}")
            cells.append(Cell(arm, (f"seed={seed}",), seed=seed))
            folder = tmp_path / "runs" / names[-1]
            norm = "layernorm" if arm == "layer" else "rmsnorm"
            loss = 3 + gain + seed / 100 + (seed % 2) / 1000 * bool(gain)
            write(folder, norm=norm, seed=seed, loss=loss)
            result = json.loads((folder / "result.json").read_text())
            result["hashes"] = {"batches": f"{batches}{seed}"}
            result["config"]["study_seed"] = int(arm == "again")
            (folder / "result.json").write_text(json.dumps(result))
    said = {"baseline": {"name": "rms"}, "primary": "final_loss", "stats": {"alpha": 0.1, "margin": 0.2}}
    study = Manifest("norms", "01234567", ("study=norms",), said, "2026-01-01T00:00:00+00:00", 15)
    study.with_stage("all", cells, names).write()
    return tmp_path


def effects(capsys, *argv):
    assert table.main([*map(str, argv), "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)["effects"]


def test_a_study_names_its_arms_and_says_how_they_are_judged(declared, capsys):
    found = effects(capsys, "A", "norms")
    assert [row["variant"] for row in found["rows"]] == ["again", "layer"]
    assert (found["baseline"], found["alpha"], found["margin"], found["family"]) == ("rms", 0.1, 0.2, 2)
    again, layer = found["rows"]
    assert (again["paired_by_seed"], again["verdict"]) == (False, "equivalent within ±0.2")
    assert (layer["paired_by_seed"], layer["verdict"], layer["wins"]) == (True, "better", 5)
    assert table.main(["norms"]) == 0
    out = capsys.readouterr().out
    assert "equivalent within ±0.2, unpaired" in out
    assert "exploratory" not in out
    assert "study norms-01234567" in out


@pytest.mark.parametrize(
    ("more", "rows", "names"),
    [
        ({"design": "pairwise"}, {"a": "better", "b": "equivalent", "a+b": "not declared"}, ["a+b - a - b + base"]),
        (
            {"contrasts": ["a - b", "b - base"]},
            {"a": "not declared", "b": "equivalent", "a+b": "not declared"},
            ["a - b"],
        ),
        ({}, {"a": "better", "b": "equivalent", "a+b": "better"}, []),
    ],
)
def test_contrasts_that_a_study_declares(tmp_path, monkeypatch, capsys, more, rows, names):
    monkeypatch.setenv("LAB_OUTPUTS", str(tmp_path))
    cells, ids = [], []
    for arm, gain in (("base", 0), ("a", -0.05), ("b", 0.0), ("a+b", -0.08)):
        for seed in range(1, 6):
            ids.append(f"{arm}{seed}")
            cells.append(Cell(arm, (f"seed={seed}",), seed=seed))
            write(tmp_path / "runs" / ids[-1], seed=seed, loss=3 + gain + seed / 100 + (seed * len(arm) % 3) / 1000)
    parts = [{"name": "a", "set": {}}, {"name": "b", "set": {}}]
    said = {"baseline": {"name": "base"}, "variants": parts, "design": "star", "contrasts": None} | more
    study = Manifest("two", "01234567", ("study=two",), said, "2026-01-01T00:00:00+00:00", 20)
    study.with_stage("all", cells, ids).write()
    found = effects(capsys, "two")
    assert {row["variant"]: row["verdict"] for row in found["rows"]}.keys() == rows.keys()
    assert all(row["verdict"].startswith(rows[row["variant"]]) for row in found["rows"])
    assert [one["contrast"] for one in found["contrasts"]] == names
    assert found["family"] == {"pairwise": 3}.get(more.get("design"), len(more.get("contrasts", "abc")))
    if names:
        assert found["contrasts"][0]["verdict"] == ("better" if "contrasts" in more else "differs from additive")
        assert effects(capsys, "two", "--baseline", "a")["contrasts"] == []  # exploratory
    (tmp_path / "runs" / "a3" / "result.json").unlink()
    assert {one["verdict"] for one in effects(capsys, "two")["contrasts"]} <= {""}


def test_a_study_that_lacks_a_run_has_no_verdicts(declared, capsys):
    (declared / "runs" / "layer3" / "result.json").unlink()
    assert [row["verdict"] for row in effects(capsys, "norms")["rows"]] == ["", ""]


def test_another_baseline(declared, capsys):
    found = effects(capsys, "norms", "--baseline", "layer")
    assert [row["verdict"] for row in found["rows"]] == ["worse", "worse"]
    with pytest.raises(LabError, match="--baseline 'lauer' is none of the rows: rms; again; layer"):
        table.main(["norms", "--baseline", "lauer"])


def test_rows_by_a_setting_and_runs_where_one_holds(runs, capsys):
    made = rows(capsys, runs, "--by", "norm.eps", "--by", "norm")
    assert [row["variant"] for row in made] == [f"norm.eps=1e-06 norm={norm}" for norm in ("layernorm", "rmsnorm")]
    (row,) = rows(capsys, runs, "--where", "norm=rmsnorm")
    assert row["runs"] == ["rmsnorm1", "rmsnorm2"]
    for option, word in (("--where", "norm=none"), ("--where", "norm"), ("--by", "norm.x")):
        with pytest.raises(LabError, match=f"{option} {word}"):
            table.main([str(runs), option, word])


@pytest.mark.parametrize("form", ["markdown", "latex", "html", "csv"])
def test_formats(declared, capsys, form):
    assert table.main(["norms", "--format", form]) == 0
    out = capsys.readouterr().out
    assert "layer" in out
    assert out.count("\n") == 16 if form == "csv" else "better" in out


@pytest.mark.parametrize("form", ["text", "markdown", "latex", "html", "csv", "json"])
def test_the_table_of_stability(declared, capsys, form):
    assert table.main(["B", "norms", "--format", form]) == 0
    out = capsys.readouterr().out
    assert all(arm in out for arm in ("rms", "again", "layer"))


def test_the_table_of_learning_rates(tmp_path, capsys):
    for number, rate in enumerate((1e-3, 2e-3, 4e-3)):
        write(tmp_path / f"r{number}", loss=3 + number / 10)
        result = json.loads((tmp_path / f"r{number}" / "result.json").read_text())
        result["config"]["optim"] = {"lr": rate}
        (tmp_path / f"r{number}" / "result.json").write_text(json.dumps(result))
    assert table.main(["C", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert all(f"{loss:.4f}"[:4] in out for loss in (3.0, 3.1, 3.2))


def test_a_study_that_tuned_its_rates_has_arms_and_fresh_seeds(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LAB_OUTPUTS", str(tmp_path))
    tuned = [
        ("tune", rate, seed, 3 + (rate - 2e-3) ** 2 * 1e5) for rate in (1e-3, 2e-3, 4e-3) for seed in (101, 102)
    ]
    cells, ids = [], []
    for arm, better in (("base", 0.0), ("new", 0.1)):
        for role, rate, seed, loss in [*tuned, ("report", 2e-3, 1, 3.2), ("report", 2e-3, 2, 3.3)]:
            ids.append(f"{arm}{rate}{seed}")
            cells.append(Cell(arm, (f"seed={seed}",), role=role, seed=seed, lr=rate))
            write(tmp_path / "runs" / ids[-1], seed=seed, loss=loss - better)
            file = tmp_path / "runs" / ids[-1] / "result.json"
            result = json.loads(file.read_text())
            result["config"]["optim"] = {"lr": rate}
            file.write_text(json.dumps(result))
    said = {"baseline": {"name": "base"}, "lr": {"mode": "tuned"}}
    study = Manifest("rates", "01234567", ("study=rates",), said, "2026-01-01T00:00:00+00:00", len(ids))
    study.with_stage("all", cells, ids).write()
    base, new = rows(capsys, "C", "rates")
    assert (base["variant"], new["variant"]) == ("base", "new")
    assert (base["n"], base["means"]) == ([2, 2, 2], pytest.approx([3.1, 3.0, 3.4]))
    assert (base["fresh"]["n"], base["fresh"]["mean"]) == (2, pytest.approx(3.25))
    assert new["fresh"]["mean"] == pytest.approx(3.15)
    assert [row["variant"] for row in rows(capsys, "rates")] == ["base", "new"]
    assert [row["n"] for row in rows(capsys, "rates")] == [2, 2]


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
    row, _ = (line for line in out.splitlines() if line.startswith("norm=rmsnorm "))
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


@pytest.mark.parametrize("letter", ["A", "B", "C"])
def test_a_terminal_is_never_wider_than_it_is(runs, capsys, monkeypatch, letter):
    assert table.main([letter, str(runs)]) == 0
    wide = capsys.readouterr().out
    assert max(map(len, wide.splitlines())) > 80
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    assert table.main([letter, str(runs)]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_a_wrong_format_is_one_line(capsys):
    with pytest.raises(SystemExit) as stop:
        table.main(["--format", "jsn"])
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "text, markdown, latex, html, csv, json" in err


def test_help(capsys):
    with pytest.raises(SystemExit) as stop:
        table.main(["--help"])
    assert stop.value.code == 0
    assert capsys.readouterr().out.startswith("usage: lab table")
