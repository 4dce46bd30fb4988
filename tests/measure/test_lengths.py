from dataclasses import replace

import pytest
import torch

from lab import measure
from lab.measure import lengths
from lab.training.score import score


@pytest.mark.parametrize(
    ("times", "overrides"),
    [
        (2, ()),
        pytest.param(1, (), marks=pytest.mark.slow),
        pytest.param(8, (), marks=pytest.mark.slow),
        pytest.param(4, ("attn=sliding_window",), marks=pytest.mark.slow),
    ],
)
def test_what_lab_eval_says_of_longer_windows(times, overrides, loaded):
    run = loaded(*overrides)
    found = measure.take("lengths", run)
    longer = replace(run.config.model, max_seq_len=32 * times)
    there = score(run, replace(run.config, model=longer), n_buckets=times)
    assert found[f"loss_x{times}"] == pytest.approx(there.evaluation.loss, rel=1e-6)
    tail = there.positions[1:]
    if tail:
        expected = sum(bucket.loss * bucket.tokens for bucket in tail) / sum(bucket.tokens for bucket in tail)
        assert found[f"tail_x{times}"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
def test_the_first_is_the_final_loss_where_that_was_computed_so(loaded):
    run = loaded()
    assert measure.take("lengths", run)["loss_x1"] == run.result["final_loss"]
    other = replace(run, result={**run.result, "config": {"precision": "bf16"}})
    assert measure.take("lengths", other)["loss_x1"] == pytest.approx(run.result["final_loss"], rel=1e-6)


def test_tokens_behind_the_training_length_one_by_one(loaded, monkeypatch):
    monkeypatch.setattr(lengths, "MOST", 100)
    run = loaded()
    tokens = torch.from_numpy(lengths.tokens_of(run).val[:101].astype("int64"))
    nats = []
    for start in (0, 64):
        z_TV = run.model.logits(tokens[None, start : min(start + 64, 100)])[0].log_softmax(-1)
        target = tokens[start + 1 : start + 1 + len(z_TV)]
        nats += [-z_TV[i, target[i]].item() for i in range(32, len(z_TV))]
    assert len(nats) == 36
    found = measure.take("lengths", run)
    assert found["tail_x2"] == pytest.approx(sum(nats) / 36, rel=1e-5)
    assert "loss_x4" not in found  # the text does not fill one window


@pytest.mark.slow
def test_learned_positions_end(loaded):
    assert measure.take("lengths", loaded("position=learned")).keys() == {"loss_x1"}
