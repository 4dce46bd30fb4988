"""Planted n-grams and windows that are left out of the loss, in training."""

import numpy as np
import pytest

from lab.data.ngrams import repeated
from lab.report.variants import variants
from lab.runs.store import RunFolder
from lab.training.loop import backward
from lab.training.plan import plan
from lab.training.stack import refusal
from lab.training.state import new_state

LENGTH = "model.max_seq_len=48"


class Fixed:
    """One batch for every step."""

    def __init__(self, inputs, targets):
        self.batch = inputs, targets

    def at(self, step):
        return self.batch


def gradients(planned, batches):
    state = new_state(planned.config, planned.architecture)
    loss = backward(planned.config, state, batches)
    return loss.item(), {name: p.grad.clone() for name, p in state.model.named_parameters()}


@pytest.mark.parametrize("micro", ["null", pytest.param(2, marks=pytest.mark.slow)])
def test_the_loss_is_that_of_the_other_windows(config, micro):
    planned = plan(config(LENGTH, "data.ngram_rate=0.5", "data.ngram_mask=true", f"train.micro_batch_size={micro}"))
    drawn = (planned.batches.at(step) for step in range(20))
    inputs, targets = next((x, y) for x, y in drawn if 1 < (y[:, 0] >= 0).sum() < len(y))
    kept = targets[:, 0] >= 0
    loss, masked = gradients(planned, Fixed(inputs, targets))
    alone = plan(config(LENGTH, f"train.batch_size={kept.sum()}"))
    want, others = gradients(alone, Fixed(inputs[kept], targets[kept]))
    assert loss == pytest.approx(want, rel=1e-6)
    for name, grad in others.items():
        assert (masked[name] - grad).norm() <= 1e-5 * grad.norm(), name


@pytest.mark.slow
def test_a_batch_of_which_nothing_is_left_moves_no_weight(config):
    planned = plan(config(LENGTH, "data.ngram_rate=1.0", "data.ngram_mask=true"))
    loss, masked = gradients(planned, planned.batches)
    assert loss == 0.0
    assert all((grad == 0).all() for grad in masked.values())


def test_arms_share_windows_and_are_runs_of_their_own(config):
    plain, planted = plan(config(LENGTH)), plan(config(LENGTH, "data.ngram_rate=0.3"))
    assert plain.run_id != planted.run_id
    differing = total = 0
    for step in range(20):
        (x, _), (x_planted, y_planted) = plain.batches.at(step), planted.batches.at(step)
        changed = (x != x_planted).any(axis=1)
        assert (changed <= repeated(np.concatenate([x_planted, y_planted[:, -1:]], axis=1))).all()
        differing, total = differing + changed.sum(), total + len(x)
    assert 0.15 < differing / total < 0.45
    np.testing.assert_array_equal(plain.tokens.val, planted.tokens.val)


@pytest.mark.slow
def test_a_run_before_there_were_such_keys_is_of_the_same_variant(train):
    new = RunFolder(train("seed=1").folder).result()
    old = RunFolder(train("seed=2").folder).result()
    del old["config"]["data"]["ngram_rate"], old["config"]["data"]["ngram_mask"]
    assert len(variants([new, old])) == 1
    other = RunFolder(train("seed=2", "data.ngram_rate=0.1").folder).result()
    labels = {made.label for made in variants([old, other])}
    assert labels == {"data.ngram_rate=0.0", "data.ngram_rate=0.1"}


@pytest.mark.slow
def test_masked_runs_are_not_stacked(config):
    for overrides, refused in (((LENGTH, "data.ngram_rate=0.1"), False), ((LENGTH, "data.ngram_mask=true"), True)):
        planned = plan(config(*overrides))
        why = refusal(planned.config, new_state(planned.config, planned.architecture), planned.batches)
        assert (why is not None and why.startswith("data.ngram_mask leaves out targets")) is refused
