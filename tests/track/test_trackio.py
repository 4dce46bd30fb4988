"""Trackio's database read back."""

import json
import os
import socket
import sqlite3
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version

import pytest

from lab import choices
from lab.errors import LabError

SCRIPT = """
import os, socket, sys

def refuse(self, address):
    print("REQUEST", address, file=sys.stderr)
    raise OSError("no network here")

socket.socket.connect = refuse

from lab.training import loop
from lab.compose import compose_config
from lab.training.run import train

real = loop.train_step

def train_step(config, state, batches, ranks):
    done = real(config, state, batches, ranks)
    if state.step == int(sys.argv[1]):
        os._exit(9)
    return done

loop.train_step = train_step
train(compose_config(sys.argv[2:]))
"""


def rows(folder):
    """``(step, metrics)`` of the one run in the one project, in the order in which they were written."""
    (file,) = folder.glob("*.db")
    with sqlite3.connect(file) as base:
        found = base.execute("SELECT run_name, step, metrics FROM metrics ORDER BY id").fetchall()
    assert len({name for name, *_ in found}) == 1
    return found[0][0], [(step, json.loads(text)) for _, step, text in found]


def is_there():
    """Whether Trackio is installed, and young enough."""
    try:
        return tuple(map(int, version("trackio").split(".")[:2])) >= (0, 43)
    except PackageNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not is_there(), reason="an extra")
def test_every_step_once_after_a_kill_and_no_request(tmp_path, words):
    env = {key: value for key, value in os.environ.items() if not key.startswith(("TRACKIO", "HF_"))}
    env |= {"LAB_OUTPUTS": str(tmp_path), "HF_TOKEN": "hf_" + "x" * 34, "TRACKIO_SPACE_ID": "someone/space"}
    for killed_at, status in ((8, 9), (99, 0)):
        command = [sys.executable, "-c", SCRIPT, str(killed_at), *words("track=trackio", "norm=layernorm")]
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        assert done.returncode == status, done.stderr
        assert "REQUEST" not in done.stderr
        assert "Trackio" not in done.stdout
    (run,) = (tmp_path / "runs").iterdir()
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    name, found = rows(tmp_path / "trackio")
    assert name.startswith("norm=layernorm")
    assert name.endswith(run.name)
    *steps, (last, result) = found
    assert [{"step": step, **metrics} for step, metrics in steps] == lines
    assert [step for step, _ in steps] == list(range(1, 21))
    assert last == 20
    known = json.loads((run / "result.json").read_text())
    assert result["result/final_loss"] == known["final_loss"]
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or env["HF_TOKEN"].encode() not in path.read_bytes(), path


def test_an_extra_that_is_missing_is_named(monkeypatch, tmp_path):
    module = choices.load("track", "trackio")
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    monkeypatch.setattr(socket.socket, "connect", None)
    config = module.Config(name="trackio", layers=False, layers_every=20, project="lab")
    with pytest.raises(LabError, match=r"^track=trackio needs trackio: pip install 'ablation-lab\[trackio\]'$"):
        config.build("a", {}, tmp_path)
