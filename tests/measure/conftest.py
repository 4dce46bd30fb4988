"""Tiny runs, each trained once a session, loaded as measures take them."""

import shutil

import pytest

from lab.measure._runs import load
from lab.runs.store import RunFolder

TWO = ("train.steps=2", "model.n_layers=2", "model.n_heads=2")


@pytest.fixture(scope="session")
def known(tmp_path_factory):
    """Folders of runs by their overrides, and the outputs folder they are in."""
    return {}, tmp_path_factory.mktemp("measured")


@pytest.fixture
def folder(known, monkeypatch, train):
    """The folder of a run of two steps and two layers that nothing was measured of; not to be written to."""
    runs, outputs = known

    def make(*overrides):
        if overrides not in runs:
            with monkeypatch.context() as patch:
                patch.setenv("LAB_OUTPUTS", str(outputs / str(len(runs))))
                runs[overrides] = RunFolder(train(*TWO, *overrides).folder)
        return runs[overrides]

    return make


@pytest.fixture
def loaded(folder):
    """Such a run, loaded."""
    return lambda *overrides: load(folder(*overrides))


@pytest.fixture
def own(folder, outputs):
    """A copy of such a run, to be written to."""

    def make(*overrides):
        there = folder(*overrides).path
        return RunFolder(shutil.copytree(there, outputs / "runs" / there.name))

    return make
