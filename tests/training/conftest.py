"""Runs that are stopped on their way."""

import logging

import pytest

from lab.training import loop


class Killed(BaseException):
    """As sudden as kill -9: nobody catches it."""


@pytest.fixture
def quiet_logger():
    """Put the package's logger back as it was after a command has sent it to the console."""
    logger = logging.getLogger("lab")
    before = logger.handlers[:], logger.level, logger.propagate
    logger.handlers[:] = []
    yield
    logger.handlers[:], logger.level, logger.propagate = before


@pytest.fixture
def elsewhere(tmp_path, monkeypatch, train):
    """Train the same run in another outputs folder, undisturbed; its folder."""

    def run(*overrides):
        with monkeypatch.context() as patch:
            patch.setenv("LAB_OUTPUTS", str(tmp_path / "elsewhere"))
            return train(*overrides).folder

    return run


@pytest.fixture
def at_step(monkeypatch):
    """Have something done once, when a number of updates is done and their lines but the last are written."""

    def arrange(step, action):
        real = loop.train_step
        pending = [action]

        def train_step(config, state, batches):
            done = real(config, state, batches)
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
