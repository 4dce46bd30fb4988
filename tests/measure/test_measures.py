"""What is common to all: names, files, a measuring that fails or is killed, and tables."""

import importlib
import json
import math
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab import measure, probe
from lab.commands.measure import main
from lab.errors import LabError
from lab.measure import _runs
from lab.measure._runs import lacking, take_all, take_of_runs
from lab.paths import conf_dir
from lab.runs.store import read_runs
from lab.study import published


@pytest.fixture
def fake(monkeypatch):
    """Measures that take no time; one of them cannot be taken."""
    taken = []

    def take(name, loaded):
        taken.append(name)
        if name == "probes":
            raise LabError("there is\nno text")
        return {"one": 1.0 + loaded.config.seed}

    monkeypatch.setattr(measure, "take", take)
    return taken


def test_names_are_listed_and_nothing_is_imported():
    code = "import sys; from lab import measure; print(*measure.names()); assert 'torch' not in sys.modules"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == measure.names()
    assert measure.names() == published.measures()  # what a study may ask for


@pytest.mark.parametrize("name", measure.names())
def test_each_says_what_it_is(name):
    assert measure.describe(name).endswith(".")


def test_what_is_not_finite_is_left_out(monkeypatch):
    values = {"a": 1, "b": math.nan, "c": math.inf}
    monkeypatch.setattr(measure.importlib, "import_module", lambda _: SimpleNamespace(measure=lambda _: values))
    assert measure.take("any", None) == {"a": 1.0}


def test_a_failing_one_is_named_in_one_line_and_does_not_lose_the_others(own, fake):
    run = own()
    came = take_all(run, ["lengths", "probes", "cache"])
    assert (came.taken, came.failed) == (2, [f"measure probes of run {run.path.name}: there is no text"])
    assert run.measured() == {"lengths": {"one": 2.0}, "cache": {"one": 2.0}}
    assert json.loads(run.measures.read_text())["schema"] == 1
    take_all(run, ["lengths", "probes", "cache"])
    assert fake == ["lengths", "probes", "cache", "probes"]  # what is there is not taken again


def test_a_killed_one_goes_on(own, fake, monkeypatch):
    run = own()
    real = _runs._add

    def add(folder, name, values):
        real(folder, name, values)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_runs, "_add", add)
        with pytest.raises(KeyboardInterrupt):
            take_of_runs([run], ["lengths", "cache"])
    assert lacking(run, ["lengths", "cache"]) == ["cache"]
    assert take_of_runs([run], ["lengths", "cache"]).taken == 1
    assert fake == ["lengths", "cache"]
    assert [path.name for path in run.path.glob(".*")] == []


def test_records_have_them(own, fake):
    run = own()
    assert "measures" not in read_runs([run])[0][0][1]
    take_all(run, ["lengths"])
    ((_, record),), damaged = read_runs([run])
    assert (record["measures"], damaged) == ({"lengths": {"one": 2.0}}, [])
    run.measures.write_text("{")
    assert "measures" not in read_runs([run])[0][0][1]
    assert lacking(run, ["lengths"]) == ["lengths"]


def test_the_command(own, fake, capsys):
    run = own()
    assert main([run.path.name, "--only", "lengths", "--only", "probes"]) == 1
    out, err = capsys.readouterr()
    assert err == f"lab measure: measure probes of run {run.path.name}: there is no text\n"
    assert [line.split() for line in out.splitlines() if line.startswith("lengths.")] == [["lengths.one", "2"]]
    assert main([run.path.name, "--only", "lengths", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["runs"] == [{"run": run.path.name, "seed": 1, "measures": {"lengths": {"one": 2.0}}}]


def test_a_run_that_is_not_done(own):
    run = own()
    run.write_result({**run.result(), "status": "diverged"})
    with pytest.raises(LabError, match=f"no run of {run.path.name} is done"):
        main([run.path.name])


@pytest.mark.slow
def test_two_runs_at_once_in_processes_of_their_own(own, capsys):
    runs = [own(), own("seed=2")]
    assert main([*(run.path.name for run in runs), "--only", "lengths", "--format", "csv"]) == 0
    head, *records = capsys.readouterr().out.splitlines()
    assert head.startswith("row,seed,run,lengths.loss_x1,")
    assert [record.split(",")[1] for record in records] == ["1", "2"]
    assert all(run.measured()["lengths"]["loss_x1"] > 0 for run in runs)


def keys_of(name):
    if name == "probes":
        return set(probe.names())
    return set(re.findall(r"``([a-z]\w*)``", importlib.import_module(f"lab.measure.{name}").__doc__))


def test_studies_ask_for_numbers_that_there_are():
    files = sorted((conf_dir() / "study").glob("*.yaml"))
    metrics = [m for path in files for m in re.findall(r"measures\.(\w+)\.(\w+)", path.read_text())]
    assert metrics
    for name, key in metrics:
        assert key in keys_of(name), f"measures.{name}.{key}"


def test_the_documentation_has_every_number():
    text = (Path(__file__).parents[2] / "docs" / "measures.md").read_text(encoding="utf-8")
    for name in measure.names():
        _, _, section = text.partition(f"\n## {name}\n")
        keys = keys_of(name)
        assert keys, name
        assert keys <= set(re.findall(r"`(\w+)`", section.partition("\n## ")[0])), name
