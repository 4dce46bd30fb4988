"""The same study by every launcher: the same runs, byte for byte."""

from pathlib import Path

import pytest
from training.folders import assert_same

pytestmark = pytest.mark.slow

CONF = Path(__file__).parent / "conf"

LAUNCHERS = {
    "pool": ["hydra.launcher.n_jobs=2"],
    "joblib": ["hydra.launcher.n_jobs=2"],
    "submitit_local": [],
    "submitit_slurm": ["hydra.launcher.partition=low"],
}


def folders(outputs):
    return {folder.name: folder for folder in (outputs / "runs").iterdir()}


@pytest.fixture(scope="module")
def in_one_process(tmp_path_factory):
    """The outputs of the basic launcher, made by the first test that asks."""
    return tmp_path_factory.mktemp("basic")


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_runs_do_not_depend_on_the_launcher(lab, words, outputs, in_one_process, monkeypatch, request, launcher):
    if launcher == "submitit_slurm":
        request.getfixturevalue("slurm")
    line = ["train", "--config-dir", str(CONF), *words("study=six", "train.steps=12")]
    monkeypatch.setenv("LAB_OUTPUTS", str(in_one_process))
    assert lab(*line, "hydra/launcher=basic", timeout=300).returncode == 0
    monkeypatch.setenv("LAB_OUTPUTS", str(outputs))
    done = lab(*line, f"hydra/launcher={launcher}", *LAUNCHERS[launcher], timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1].startswith("6 runs: 6 trained, 0 already done.")
    here, there = folders(outputs), folders(in_one_process)
    assert here.keys() == there.keys()
    assert len(here) == 6
    for name, folder in here.items():
        assert_same(folder, there[name])
