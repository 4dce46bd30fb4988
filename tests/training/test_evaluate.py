"""Validation: every token once, the right units, no trace left in training."""

import json
import math

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from lab.training.evaluate import Evaluator
from lab.training.plan import plan
from lab.training.state import new_state


@pytest.fixture
def made(config):
    """A plan, its model, and an evaluator of its val tokens."""

    def make(*overrides):
        planned = plan(config(*overrides))
        model = new_state(planned.config, planned.architecture).model
        return planned, model, evaluator(planned, planned.tokens.val, planned.tokens.bytes["val"])

    return make


def evaluator(planned, tokens, n_bytes):
    return Evaluator(
        tokens, n_bytes=n_bytes, seq_len=planned.config.model.max_seq_len, device="cpu", precision="fp32"
    )


def test_every_token_after_the_first_once(made):
    planned, model, evaluate = made()
    tokens, seq_len = planned.tokens.val.astype(np.int64), planned.config.model.max_seq_len
    assert len(tokens) % seq_len != 1  # a last window that is not full
    nats = scored = 0
    model.eval()
    with torch.no_grad():
        for first in range(0, len(tokens) - 1, seq_len):
            window = torch.from_numpy(tokens[first : first + seq_len + 1])[None]
            logits = model.logits(window[:, :-1])[0].double()
            nats += torch.nn.functional.cross_entropy(logits, window[0, 1:], reduction="sum").item()
            scored += window.shape[1] - 1
    assert scored == len(tokens) - 1 == evaluate.n_tokens
    found = evaluate(model)
    assert found.loss == pytest.approx(nats / scored, rel=1e-6)
    assert found.bits_per_byte == pytest.approx(nats / math.log(2) / planned.tokens.bytes["val"], rel=1e-6)
    assert model.training


@pytest.mark.parametrize("n_tokens", [2, 3, 32, 33, 34, 65])
def test_short_sets(made, n_tokens):
    planned, model, _ = made()
    evaluate = evaluator(planned, planned.tokens.val[:n_tokens], 10)
    assert evaluate.n_tokens == n_tokens - 1
    assert 4 < evaluate(model).loss < 7


def test_a_pass_multiplies_as_much_as_a_forward_pass_and_no_more(made):
    """Without the products that the gradient of the head takes."""
    planned, model, _ = made()
    evaluate = evaluator(planned, planned.tokens.val[:65], 10)
    with torch.no_grad(), FlopCounterMode(display=False) as forward:
        model.logits(evaluate.x_WT)
    with FlopCounterMode(display=False) as validation:
        evaluate(model)
    assert validation.get_total_flops() == forward.get_total_flops() > 0


def test_units_of_the_result(train, config):
    tokens = plan(config()).tokens
    result = train().result
    nats = result["final_loss"] * (len(tokens.val) - 1)
    assert result["bits_per_byte"] == pytest.approx(nats / math.log(2) / tokens.bytes["val"], rel=1e-12)


def test_dropout_is_off(made):
    _, plain, evaluate = made()
    _, noisy, _ = made("regularization=dropout")
    assert evaluate(plain) == evaluate(noisy) == evaluate(noisy)


def test_twice_the_same_and_nothing_changed(made):
    _, model, evaluate = made("regularization=dropout")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert evaluate(model) == evaluate(model)
    assert model.training
    assert all(module.training for module in model.modules())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.slow
def test_training_does_not_notice(train):
    def lines(*overrides):
        folder = train("regularization=dropout", "train.steps=8", *overrides).folder
        return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]

    rare, often = lines(), lines("train.eval_every=1")
    assert sum("val_loss" in line for line in rare) == 2
    assert sum("val_loss" in line for line in often) == 8
    for line, same in zip(rare, often, strict=True):
        assert same["val_loss"] > 0
        assert line.get("val_loss", same["val_loss"]) == same["val_loss"]
        assert {**line, "val_loss": 0} == {**same, "val_loss": 0}
