import pytest
from contracts.menu import config, model

from lab.errors import ConfigError

INSIDE = {
    *(f"blocks.{i}.attn.{part}.weight" for i in range(2) for part in ("q", "k", "v", "out")),
    *(f"blocks.{i}.ffn.{part}.weight" for i in range(2) for part in ("gate", "up", "out")),
}
TABLES = {"embedding.weight", "position.table.weight", "head.weight"}


def decays(**changed):
    decay = config("regularization", "weight_decay", rate=0.3, **changed)
    attn = config("attn", "gqa", qkv_bias=True, out_bias=True)
    activation = config("activation", "swiglu", bias=True)
    net = model(
        regularization=decay,
        attn=attn,
        activation=activation,
        position="learned",
        norm="layernorm",
        stability="qk_norm",
    )
    return {name: net.regularization.decay(name, p, 1e-3) for name, p in net.named_parameters()}


@pytest.mark.parametrize(("embeddings", "expected"), [(False, INSIDE), (True, INSIDE | TABLES)])
def test_matrices_decay_but_neither_gains_nor_biases(embeddings, expected):
    rates = decays(embeddings=embeddings)
    assert {name for name, rate in rates.items() if rate} == expected
    assert set(rates.values()) == {0.0, 0.3}


def test_without_it_nothing_decays():
    for regularization in ("none", "dropout"):
        net = model(regularization=regularization)
        assert not any(net.regularization.decay(name, p, 1e-3) for name, p in net.named_parameters())


def test_a_negative_rate_is_refused():
    with pytest.raises(ConfigError) as refused:
        config("regularization", "weight_decay", rate=-0.1)
    assert str(refused.value) == "rate -0.1 must be >= 0"
