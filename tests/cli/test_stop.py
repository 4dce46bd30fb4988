"""Stopped before there is a run: one line, the signal's exit status, nothing half-written."""

import os
import signal
import subprocess
import sys
import time

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_stopped_while_the_data_are_prepared(tmp_path, number):
    environment = {**os.environ, "LAB_CACHE": str(tmp_path / "cache"), "LAB_OUTPUTS": str(tmp_path / "outputs")}
    process = subprocess.Popen(
        [sys.executable, "-m", "lab", "train", "threads=1"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not list((tmp_path).glob("cache/*/*.lock")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert errors.splitlines()[-1] == "lab train: stopped"
    assert "Traceback" not in errors
    assert not (tmp_path / "outputs").exists()
    left = [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert not [path for path in left if path.name.startswith(".")]
