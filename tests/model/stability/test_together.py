"""All choices at once, and forms of QK-norm that its YAML does not have, in the precisions of training."""

import pytest
import torch
from contracts.menu import PATHS, config, model, tokens

from lab import choices
from lab.model.loss import token_loss
from lab.training.precision import compute_in

ALL = [name for name in choices.names("stability") if name != "none"]
FORMS = [
    {"norm": "l2"},
    {"norm": "rmsnorm_plain", "order": "after"},
    {"norm": "layernorm_no_bias", "over": "full"},
    {"norm": "layernorm", "over": "per_head"},
    {"norm": "rmsnorm_1p", "over": "per_head", "order": "after"},
]


def step(net, precision):
    """Which parameters have a finite gradient that is not zero, once those that start at rest have moved."""
    ids = tokens()
    for _ in range(2):
        net.zero_grad()
        with compute_in(precision, "cpu"):
            x_BTD, _ = net(ids)
            loss = token_loss(net, x_BTD, ids.roll(-1, dims=1), denominator=ids.numel()).objective
        loss.backward()
        with torch.no_grad():
            for p in net.parameters():
                p -= 0.1 * p.grad
    assert x_BTD.dtype == torch.float32
    assert loss.isfinite()
    return {n: bool(p.grad.isfinite().all() and p.grad.any()) for n, p in net.named_parameters()}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("path", PATHS)
def test_all_choices_work_together(path, precision):
    trained = step(model(stability=ALL, attn="gqa", path=path), precision)
    # Normalised keys and values and a clip leave some gradients at zero; none may be infinite.
    assert sum(trained.values()) > 0.9 * len(trained)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("keys", FORMS, ids=str)
def test_every_parameter_of_each_form_of_qk_norm_is_trained(keys, precision):
    trained = step(model(stability=config("stability", "qk_norm", **keys), attn="gqa"), precision)
    assert all(trained.values()), [name for name, once in trained.items() if not once]
    assert sum("qk_norm" in name for name in trained) == {"l2": 2, "rmsnorm_plain": 0, "layernorm": 8}.get(
        keys["norm"], 4
    )
