"""A sweep whose workers, launcher and process group are killed at random ends as an untouched one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "kill_sweep.py"


@pytest.mark.slow
def test_twenty_kills(tmp_path):
    command = [sys.executable, str(SCRIPT), "--kills=20", "--seed=2", "--steps=60", f"--folder={tmp_path}"]
    done = subprocess.run(
        [*command, f"--json={tmp_path / 'tally.json'}"], capture_output=True, text=True, timeout=1200, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    tally = json.loads((tmp_path / "tally.json").read_text())
    assert tally["kills"] == 20
    assert tally["runs"] == 12 * tally["rounds"]
    assert min(tally[f"kills of the {kind}"] for kind in ("worker", "launcher", "group")) > 0
    assert tally["resumed runs"] > 0
