"""The configurations that figures are tried with are those that their words compose to."""

import pytest

from lab.compose import compose_config
from lab.training.resolve import resolve
from tests.figure.designs import config


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("attn=sliding_window", "attn.window=5"),
        ("block=mix_ln", "activation=relu"),
        ("position=rope", "position.theta=500", "position.scaling=linear", "position.factor=4"),
        ("schedule=wsd", "schedule.final_share=0", "train.steps=200", "optim.lr=0.01"),
        ("regularization=[weight_decay]", "regularization.weight_decay.rate=0.1"),
    ],
)
def test_configuration_is_the_composed_one(words: tuple[str, ...]) -> None:
    assert config(*words) == resolve(compose_config(["model=tiny", "device=cpu", *words]))
