"""Runs that are stopped on their way."""

import pytest

from lab.training import loop


class Killed(BaseException):
    """As sudden as kill -9: nobody catches it."""


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """Folders of runs that nobody disturbed, by their overrides, and the outputs folder they are in."""
    return {}, tmp_path_factory.mktemp("undisturbed")


@pytest.fixture
def elsewhere(undisturbed, monkeypatch, train):
    """Train the same run in another outputs folder, undisturbed and once a session; its folder."""
    known, outputs = undisturbed

    def run(*overrides):
        if overrides not in known:
            with monkeypatch.context() as patch:
                patch.setenv("LAB_OUTPUTS", str(outputs / str(len(known))))
                known[overrides] = train(*overrides).folder
        return known[overrides]

    return run


@pytest.fixture
def at_step(monkeypatch):
    """Have something done once, when a number of updates is done and their lines but the last are written."""

    def arrange(step, action):
        real = loop.train_step
        pending = [action]

        def train_step(config, state, batches, ranks):
            done = real(config, state, batches, ranks)
            if state.step == step and pending:
                pending.pop()()
            return done

        monkeypatch.setattr(loop, "train_step", train_step)

    return arrange


@pytest.fixture
def kill_at(at_step, train):
    """Train until the process would be killed during a step."""

    def run(step, *overrides):
        def kill():
            raise Killed

        at_step(step, kill)
        with pytest.raises(Killed):
            train(*overrides)

    return run
