"""Where the model looks: attention that is uniform, weights read off through values, and every kind."""

import math
import statistics
from functools import partial

import pytest
import torch

from lab import measure
from lab.measure import gradients
from lab.measure._text import few, tokens_of
from lab.training.layer_stats import watched

LENGTH = 32


def sharpened(run, factor=40.0):
    for block in run.model.blocks:
        block.attn.q.weight.data *= factor
    return run


def test_uniform_attention(loaded):
    run = sharpened(loaded(), 0.0)
    found = measure.take("attention", run)
    seen = [math.log(keys) for keys in range(1, LENGTH + 1)]
    assert found["entropy"] == pytest.approx(statistics.fmean(seen), rel=1e-5)
    first = statistics.fmean(1 / keys for keys in range(1, LENGTH + 1))
    assert found["first_token"] == pytest.approx(first, rel=1e-5)
    assert (found["max_logit"], found["max_logit_first"], found["sink_rate"]) == (0, 0, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        ("attn=gqa", "attn.n_kv_heads=1"),
        ("position=alibi",),
        ("attn=sigmoid",),
        ("attn=sink",),
        ("attn=sliding_window", "attn.window=9"),
    ],
)
def test_the_weight_of_the_first_token_is_what_its_value_comes_through_with(overrides, loaded):
    run = sharpened(loaded(*overrides))
    x_WT, _ = few(tokens_of(run).val, LENGTH)
    found = []

    def look(attn, q, k, v, *rest):
        only = torch.zeros_like(v)
        only[:, 0] = 1
        found.append(type(attn).attend(attn, q, k, only, *rest)[..., 0].mean(1))  # (B, N)

    with torch.no_grad():
        for block in run.model.blocks:
            with watched(block.attn, partial(look, block.attn)):
                run.model(x_WT)
    taken = measure.take("attention", run)
    assert taken["first_token"] == pytest.approx(float(torch.stack(found).mean()), rel=1e-4)
    assert taken["sink_rate"] == pytest.approx(float((torch.stack(found) > 0.3).float().mean()))
    assert ("entropy" in taken) == (overrides[0] not in ("attn=sigmoid", "attn=sink"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overrides", "softmax"),
    [
        (("attn=mla",), True),
        (("attn=differential",), True),
        (("attn=gated",), True),
        (("attn=value_residual",), True),
        (("attn=nsa",), False),
        (("attn=dsa",), False),
        (("block=parallel", "position=t5_bias", "stability=[qk_norm,attn_softcap]"), True),
        (("position=shaw",), True),
    ],
)
def test_every_kind_has_numbers_or_none(overrides, softmax, loaded, monkeypatch):
    monkeypatch.setattr(gradients, "DEPTHS", (3,))
    run = loaded(*overrides)
    before = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    for name in ("attention", "transplant", "outputs", "gradients"):
        found = measure.take(name, run)
        assert all(map(math.isfinite, found.values()))
        assert bool(found) == (softmax or name not in ("attention", "transplant"))
    after = run.model.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())  # nothing was left changed
    assert not run.model.training
