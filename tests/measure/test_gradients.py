"""Gradients at initialization against autograd of the plain loss, and against what the paper found."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from lab import measure
from lab.measure import gradients

PLAIN = ("norm=layernorm", "activation=relu", "init=normal")


def whole(model, x_BT, y_BT):
    """The norm by layer of the gradient of the whole batch's loss."""
    F.cross_entropy(model.logits(x_BT).flatten(0, 1), y_BT.flatten()).backward()
    return [math.sqrt(float((block.ffn.out.weight.grad.double() ** 2).sum())) for block in model.blocks]


def test_the_gradient_is_averaged_before_its_norm_is_taken(loaded, monkeypatch):
    monkeypatch.setattr(gradients, "DEPTHS", (1, 3))
    monkeypatch.setattr(gradients, "TOKENS", 5 * 32)  # batches are of 4
    monkeypatch.setattr(gradients, "AT_ONCE", 2 * 32)
    run = loaded()
    x_BT, y_BT = gradients.sequences(run)
    assert x_BT.shape == (5, 32)
    assert torch.equal(x_BT[:, 1:], y_BT[:, :-1])
    found = measure.take("gradients", run)
    build = run.config.architecture(257).build
    own = whole(build(study_seed=0, seed=1), x_BT, y_BT)
    assert [found["first"], found["last"]] == pytest.approx(own, rel=1e-4)
    assert found["last_over_first"] == pytest.approx(own[1] / own[0], rel=1e-4)
    lasts = []
    for depth in (1, 3):
        deep = replace(run.config, model=replace(run.config.model, n_layers=depth))
        lasts.append(whole(deep.architecture(257).build(study_seed=0, seed=1), x_BT, y_BT)[-1])
        assert found[f"last_d{depth}"] == pytest.approx(lasts[-1], rel=1e-4)
    assert found["slope"] == pytest.approx(math.log(lasts[1] / lasts[0]) / math.log(3), rel=1e-3)
    assert {"growth_activations", "growth_gradients"} <= found.keys()


@pytest.mark.slow
@pytest.mark.parametrize(("block", "slope"), [("pre", -0.5), ("post", 0.0)])
def test_pre_norm_falls_with_the_root_of_the_depth_and_post_norm_does_not(loaded, block, slope):
    found = measure.take("gradients", loaded(f"block={block}", *PLAIN))
    assert found["slope"] == pytest.approx(slope, abs=0.12)
    assert {f"last_d{depth}" for depth in (6, 12, 24, 48, 96)} <= found.keys()


@pytest.mark.slow
def test_shared_layers_have_none(loaded):
    assert measure.take("gradients", loaded("model.layers_shared=2")) == {}
