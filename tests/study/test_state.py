"""What has become of runs, read from their folders."""

import json
import time

import pytest

from lab.paths import runs_dir
from lab.runs.attempts import begin, note_ending
from lab.runs.store import RunFolder
from lab.study.board import Watch, duration
from lab.study.cell import Cell
from lab.study.manifest import Manifest, find, manifests, read
from lab.study.state import PENDING, counts, in_words, state

CONFIG = {"train": {"steps": 100}}


@pytest.fixture(autouse=True)
def outputs(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_OUTPUTS", str(tmp_path / "outputs"))


@pytest.fixture
def folder():
    made = RunFolder(runs_dir() / "a")
    made.path.mkdir(parents=True)
    return made


def write(folder, status, **more):
    folder.write_result({"id": folder.path.name, "status": status, "config": CONFIG, **more})


def step(folder, *numbers, torn=""):
    lines = "".join(json.dumps({"step": n, "loss": 5 - n / 100}) + "\n" for n in numbers)
    folder.metrics.write_text(lines + torn)


def test_no_folder_is_a_pending_run():
    assert state(RunFolder(runs_dir() / "nothing")) == PENDING


def test_a_run_that_is_trained_tells_its_step_and_loss(folder):
    write(folder, "running")
    step(folder, 1, 2, 3, torn='{"step": 4, "lo')
    with folder.locked():
        begin(folder, commit=None)
        now = state(folder)
    assert (now.status, now.step, now.steps, now.loss, now.attempts) == ("running", 3, 100, 4.97, 1)
    assert now.host
    assert now.reason is None


def test_a_killed_run_is_partial_and_says_what_its_launcher_said(folder):
    write(folder, "running")
    step(folder, 1)
    begin(folder, commit=None)
    assert state(folder).status == "partial"
    note_ending(folder, "killed by SIGKILL")
    assert state(folder).reason == "killed by SIGKILL"


def test_failed_and_diverged_runs_say_why(folder):
    write(folder, "failed", reason="MemoryError: none left")
    assert (state(folder).status, state(folder).reason) == ("failed", "MemoryError: none left")
    write(folder, "diverged", reason="loss is not finite at step 3", final_loss=None)
    assert (state(folder).status, state(folder).loss) == ("diverged", None)


def test_a_damaged_result_is_a_run_that_has_to_be_trained(folder):
    (folder.path / "result.json").write_text('{"status": "do')
    assert state(folder) == PENDING


def test_counts_in_words(folder):
    write(folder, "done", final_loss=4.0)
    assert in_words(counts([PENDING, state(folder), PENDING])) == "1 done, 2 pending"


def manifest(*names, label="sweep", asked="2026-01-01T00:00:00+00:00"):
    made = Manifest(label, "01234567", ("-m", "seed=1,2"), None, asked, len(names))
    cells = [Cell("arm", (f"seed={i}",), seed=i) for i in range(len(names))]
    return made.with_stage("sweep", cells, names)


def test_a_manifest_is_read_back_as_it_was():
    made = manifest("a", "b")
    made.write()
    assert read(made.path) == made
    assert find("sweep") == find("sweep-0123") == find(str(made.path)) == made


def test_the_latest_study_of_a_name_is_meant():
    for day, label in ((1, "glu"), (3, "norms"), (2, "glu2")):
        manifest("a", label=label, asked=f"2026-01-0{day}T00:00:00+00:00").write()
    assert [m.name for m in manifests()] == ["norms", "glu2", "glu"]
    assert find("glu").name == "glu"
    assert find("gl").name == "glu2"


def test_what_is_no_manifest_is_passed_over(tmp_path):
    made = manifest("a")
    made.write()
    for name, text in (("x", "{"), ("y", "[]"), ("z", '{"schema": 99}')):
        (made.path.parent / name).mkdir()
        (made.path.parent / name / "study.json").write_text(text)
    assert manifests() == [made]


def test_the_board_says_each_thing_once(folder):
    write(folder, "running")
    watch = Watch(manifest("a", "b"), manifest("a", "b").runs)
    assert watch.look() == []
    with folder.locked():
        step(folder, 1, 2)
        for _ in range(2):
            begin(folder, commit=None)
        (line,) = watch.look()
        assert line == "[0/2]  arm seed=0  run a begun again, from step 2"
        assert watch.look() == []
        assert [entry.id for entry, _ in watch.running()] == ["a"]
        assert watch.progress() == f"{watch.headline()}  arm seed=0 2/100"
    write(folder, "done", final_loss=4.25)
    (line,) = watch.look()
    assert line.startswith("[1/2]  arm seed=0  run a done: loss 4.2500")
    assert watch.headline().startswith("sweep-01234567: 1 done, 1 pending")


def test_the_board_shows_the_end_of_a_failed_runs_log(folder):
    watch = Watch(manifest("a"), manifest("a").runs)
    folder.log.write_text("".join(f"line {i}\n" for i in range(9)))
    write(folder, "failed", reason="out of luck")
    lines = watch.look()
    assert lines[0] == "[0/1]  arm seed=0  run a failed: out of luck"
    assert [line.strip() for line in lines[1:-1]] == ["line 5", "line 6", "line 7", "line 8"]
    assert lines[-1].endswith(f"see {folder.log}")


@pytest.mark.parametrize(("seconds", "text"), [(3.2, "3 s"), (89, "89 s"), (600, "10 min"), (9000, "2.5 h")])
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.slow
def test_a_thousand_runs_in_a_second():
    names = [f"r{i}" for i in range(1000)]
    made = manifest(*names)
    made.write()
    for name in names:
        run = RunFolder(runs_dir() / name)
        run.path.mkdir(parents=True)
        hashes = {f"blocks.{i}.weight": "0" * 64 for i in range(60)}
        write(run, "done", final_loss=4.0, hashes={"tensors": hashes})
        begin(run, commit=None).end("done", None)
    times = []
    for _ in range(3):
        began = time.process_time()
        assert counts([s for _, s in find("sweep").states()]) == {"done": 1000}
        times.append(time.process_time() - began)
    assert min(times) < 1.0
