"""The last stage of a study: measured when its runs have ended, killed, and gone on with by the same command."""

import json
import signal
import time
from dataclasses import replace

import pytest

from lab.cli import main as lab_main
from lab.commands.status import main as status
from lab.measure._study import check, measure_study
from lab.study.cell import Cell
from lab.study.manifest import Entry, Manifest

FILE = """# @package _global_
hydra:
  mode: MULTIRUN

study:
  question: Does it matter?
  baseline: {name: rmsnorm, set: {norm: rmsnorm}}
  variants: {layernorm: {set: {norm: layernorm}}}
  design: star
  seeds: {report: [1, 2]}
  measures: [lengths, outputs]
  tiers: {smoke: {}}
"""


@pytest.fixture
def manifest(own):
    """A study of one run that is done, which asks for a measure."""
    folder = own()
    entry = Entry(folder.path.name, "baseline", Cell("arm", ("seed=1",), "report", 1, None))
    return Manifest("mine", "0" * 8, (), {"measures": ["outputs"]}, "", 1, (entry,)), folder


def test_nothing_is_measured_before_all_runs_have_ended(manifest, caplog):
    study, folder = manifest
    caplog.set_level("INFO")
    pending = replace(study.runs[0], id="0" * 12)
    measure_study(replace(study, runs=(*study.runs, pending)), n_jobs=1, here=True)
    measure_study(study, n_jobs=1, here=False)
    assert not folder.measures.exists()
    assert caplog.messages == ["mine-00000000: lab measure mine-00000000 takes its measures (outputs)"]
    measure_study(study, n_jobs=1, here=True)
    assert folder.measured().keys() == {"outputs"}


def test_status_tells_how_far_they_are(manifest, capsys):
    study, folder = manifest
    study.write()
    for count in (0, 1):
        assert status(["mine"]) == 0
        assert f"\nmeasured (outputs): {count} of 1 reported runs that are done\n" in capsys.readouterr().out
        folder.write_measured({"outputs": {"one": 1.0}})


@pytest.mark.slow
def test_runs_without_weights_are_refused(manifest, config):
    from lab.errors import ConfigError

    study, _ = manifest
    check(study, [config()])
    with pytest.raises(ConfigError, match=r"checkpoint\.after 'none' keeps no weights, .* measures \(outputs\)"):
        check(study, [config("checkpoint.after=none")])


@pytest.mark.slow
def test_a_study_that_is_killed_while_it_measures_goes_on(words, outputs, tmp_path, start_lab, lab, capsys):
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "mine.yaml").write_text(FILE)
    overrides = [w for w in words("train.steps=2") if not w.startswith("norm")]
    command = ["train", "--config-dir", tmp_path, "study=mine", "tier=smoke", *overrides]
    process = start_lab(*command)
    end = time.monotonic() + 120
    while not (first := list(outputs.glob("runs/*/measures.json"))):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    files = {path: path.read_bytes() for path in first}
    left = sum(len(json.loads(path.read_text())["values"]) for path in outputs.glob("runs/*/measures.json"))
    if process.returncode != 0:  # it may have been done
        assert process.returncode == 130
        assert "stopped; measures taken until now are kept, the same command goes on" in err
    assert left < 8 or process.returncode == 0
    done = lab(*command)
    assert done.returncode == 0, done.stderr
    assert "4 runs: 0 trained, 4 already done" in done.stdout
    found = [json.loads(path.read_text())["values"] for path in outputs.glob("runs/*/measures.json")]
    assert [set(values) for values in found] == [{"lengths", "outputs"}] * 4
    for path, before in files.items():
        values = json.loads(path.read_text())["values"]
        assert all(values[name] == taken for name, taken in json.loads(before)["values"].items())
    with pytest.raises(SystemExit) as caught:
        lab_main(["measure", "mine", "--only", "outputs"])
    assert caught.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split()[:3] == ["measure", "rmsnorm", "layernorm"] for line in lines)
