"""A Slurm cluster of one node and two cores on this machine, for as long as the tests last."""

import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SCRIPT = HERE.parents[1] / "scripts" / "slurm.py"


@pytest.fixture(scope="session")
def slurm_script():
    spec = importlib.util.spec_from_file_location("slurm_script", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def cluster(slurm_script):
    """What its users have in their environment."""
    pytest.importorskip("submitit")
    if slurm_script.missing():
        reason = f"Slurm is not installed (make ci-system): {', '.join(slurm_script.missing())}"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    folder = Path(tempfile.mkdtemp(prefix="lab-slurm-"))  # the path of a socket must be short
    try:
        yield slurm_script.up(folder, cpus=2)
    finally:
        slurm_script.down(folder)
        shutil.rmtree(folder)


@pytest.fixture
def slurm(cluster, monkeypatch):
    """Run a command of the cluster's, and return what it prints."""
    for name, value in cluster.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(HERE.parent))
    return lambda *command: subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def sweep(slurm, words):
    """The command line of a sweep that goes to the cluster."""

    def line(*overrides, launcher="submitit_slurm"):
        own = ["hydra.launcher.timeout_min=10"] if launcher == "submitit_slurm" else []
        folder = ["--config-dir", str(HERE / "conf")]
        return ["train", "-m", *folder, *words("schedule=faulty"), f"hydra/launcher={launcher}", *own, *overrides]

    return line


@pytest.fixture
def job():
    """The id of the job that a sweep was submitted as, from its line about it."""

    def read(process):
        line = process.stdout.readline()
        assert "with Slurm as job" in line, line + process.stderr.read()
        return line.split()[-1]

    return read
