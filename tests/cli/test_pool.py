"""Sweeps under ``hydra/launcher=pool``: signals, lost terminals, killed workers, how soon the next run trains."""

import fcntl
import json
import os
import pty
import signal
import statistics
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from training.folders import assert_same, result_of, resumed_from, steps, wait_for_step

pytestmark = pytest.mark.slow

LONG = "train.steps=2000"


def children(pid):
    """The processes whose parent it is."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def workers(launcher):
    """The processes that train: children of the fork server."""
    return [pid for child in children(launcher) for pid in children(child)]


def wait_until(met, *, within_s=300.0):
    end = time.monotonic() + within_s
    while not (found := met()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


def training(outputs, count, step=3):
    """The folders of runs that have made some steps, once there are so many."""
    folders = [path.parent for path in outputs.glob("runs/*/metrics.jsonl") if len(steps(path.parent)) >= step]
    return folders if len(folders) == count else None


@pytest.mark.parametrize(
    ("number", "whole_group"),
    [
        pytest.param(signal.SIGTERM, False, id="SIGTERM to the launcher"),
        pytest.param(signal.SIGTERM, True, id="SIGTERM to all"),
        pytest.param(signal.SIGINT, True, id="Ctrl-C"),
        pytest.param(signal.SIGHUP, False, id="SIGHUP"),
    ],
)
def test_a_signal_saves_what_runs_and_starts_nothing(start_lab, words, outputs, number, whole_group):
    sweep = ["train", "-m", *words(LONG, "train.checkpoint_every=null", "seed=1,2,3"), "hydra.launcher.n_jobs=2"]
    process = start_lab(*sweep, start_new_session=True)
    folders = wait_until(lambda: training(outputs, 2))
    assert len(workers(process.pid)) == 2
    (os.killpg if whole_group else os.kill)(process.pid, number)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 128 + number
    assert errors.splitlines()[-1].startswith("lab train: stopped; 2 runs were being trained")
    assert "Traceback" not in errors
    assert sorted((outputs / "runs").iterdir()) == sorted(folders)
    for folder in folders:
        result = json.loads((folder / "result.json").read_text())
        assert (result["status"], result["steps_done"]) == ("partial", len(steps(folder)))
        (checkpoint,) = (folder / "checkpoint").iterdir()
        assert checkpoint.stem == f"step-{result['steps_done']:08d}"
    with pytest.raises(ProcessLookupError):
        wait_until(lambda: os.killpg(process.pid, 0))  # until nobody is left in the group


def test_a_lost_terminal_is_like_sigterm(words, outputs):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "lab", "train", "-m", *words(LONG, "seed=1,2"), "hydra.launcher.n_jobs=2"]
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    os.set_blocking(ours, False)

    def some():
        try:  # a terminal that nobody reads is full at last
            while os.read(ours, 65536):
                pass
        except (BlockingIOError, OSError):
            pass
        return training(outputs, 2)

    folders = wait_until(some)
    os.close(ours)
    assert process.wait(timeout=300) == 128 + signal.SIGHUP
    for folder in folders:
        assert result_of(folder)["status"] == "partial"
        assert list((folder / "checkpoint").iterdir())


def test_a_killed_worker_takes_its_run_alone_and_the_command_again_goes_on(
    start_lab, lab, words, outputs, tmp_path, monkeypatch
):
    sweep = ["train", "-m", *words("train.steps=150", "seed=1,2,3,4"), "hydra.launcher.n_jobs=2"]
    process = start_lab(*sweep)
    folder = wait_for_step(outputs, 20, timeout_s=300)
    attempt = json.loads((folder / "attempts.jsonl").read_text().splitlines()[0])
    os.kill(attempt["pid"], signal.SIGKILL)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 1
    seed = json.loads((folder / "config.json").read_text())["seed"]
    assert f"killed by SIGKILL, perhaps for want of memory (in the run seed={seed})" in errors
    assert "4 runs: 3 trained, 0 already done, 1 failed" in errors.splitlines()[-1]
    done = lab(*sweep, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "4 runs: 1 trained, 3 already done" in done.stdout
    assert resumed_from(folder)
    monkeypatch.setenv("LAB_OUTPUTS", str(tmp_path / "untouched"))
    assert lab(*sweep[:-1], "hydra/launcher=basic", timeout=300).returncode == 0
    for path in (outputs / "runs").iterdir():
        assert_same(path, tmp_path / "untouched" / "runs" / path.name)


MINE = '''
"""Fails where it is trained, and not where it is planned."""

import multiprocessing
from dataclasses import dataclass

from lab.model.norm import rmsnorm


@dataclass(frozen=True, kw_only=True)
class Config(rmsnorm.Config):
    def build(self, dim, *, site):
        if multiprocessing.parent_process() is not None:
            raise ZeroDivisionError("a bug")
        return super().build(dim, site=site)
'''


def test_a_bug_in_a_worker_shows_its_traceback_at_the_launchers(lab, words, outputs, tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/broken.py").write_text(MINE)
    (tmp_path / "conf/norm").mkdir(parents=True)
    (tmp_path / "conf/norm/mine.yaml").write_text("name: mine.broken\neps: 1.0e-6\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = lab("train", "-m", "--config-dir", tmp_path / "conf", *words("norm=rmsnorm,mine"), timeout=300)
    assert done.returncode == 1
    assert 'raise ZeroDivisionError("a bug")' in done.stderr
    assert "norm=mine" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("lab train: 2 runs: 1 trained, 0 already done, 1 failed")
    assert [result_of(folder)["status"] for folder in (outputs / "runs").iterdir()] == ["done"]


def test_the_next_run_trains_its_first_step_soon(start_lab, words, outputs, capsys):
    """Seconds from the end of a process to the first line of the next run's metrics."""
    n = 7
    process = start_lab(
        "train", "-m", *words("seed=" + ",".join(map(str, range(n)))), "hydra.launcher.n_jobs=1", "train.steps=100"
    )
    ends, firsts, living = [], {}, set()
    while process.poll() is None:
        now = set(workers(process.pid))
        ends += [time.monotonic()] * len(living - now)
        living = now
        for path in outputs.glob("runs/*/metrics.jsonl"):
            if path not in firsts and path.stat().st_size:
                firsts[path] = time.monotonic()
        time.sleep(0.005)
    assert process.returncode == 0
    assert (len(ends), len(firsts)) == (n, n)
    gaps = [begun - ended for ended, begun in zip(ends[:-1], sorted(firsts.values())[1:], strict=True)]
    load = os.getloadavg()[0]
    with capsys.disabled():
        print(f"\nnext run's first step after {statistics.median(gaps):.2f} s, at a load of {load:.1f}")
    assert statistics.median(gaps) < 0.5 * max(1.0, load)
