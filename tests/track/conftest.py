"""Runs that are stopped on their way, and an environment without a key."""

import os

import pytest

from lab.training import loop


class Killed(BaseException):
    """As sudden as kill -9: nobody catches it."""


@pytest.fixture
def kill_at(monkeypatch, train):
    """Train until the process would be killed, when a number of updates is done."""

    def run(step, *overrides):
        real = loop.train_step

        def train_step(config, state, batches, ranks):
            done = real(config, state, batches, ranks)
            if state.step == step:
                raise Killed
            return done

        with monkeypatch.context() as patch:
            patch.setattr(loop, "train_step", train_step)
            with pytest.raises(Killed):
                train(*overrides)

    return run


@pytest.fixture(autouse=True)
def no_key(monkeypatch, tmp_path):
    """Nothing of the machine's own W&B settings."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NETRC", str(tmp_path / "no.netrc"))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
