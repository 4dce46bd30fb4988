"""The default model, compiled to native code: the same vectors and gradients."""

import shutil

import pytest
import torch

from contracts.menu import model, shaken, tokens

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"
    ),  # inductor's own
    pytest.mark.skipif(
        shutil.which("g++") is None, reason="inductor needs a C++ compiler; make ci-system installs it"
    ),
]


def test_the_default_model_under_inductor_is_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
    net, ids = shaken(model()), tokens()
    outcomes = []
    for run in (net, torch.compile(net, backend="inductor", fullgraph=True)):
        net.zero_grad()
        x_BTD, _ = run(ids)
        x_BTD.square().mean().backward()
        outcomes.append([x_BTD.detach(), *(p.grad.clone() for p in net.parameters() if p.grad is not None)])
    assert len(outcomes[0]) == len(outcomes[1])
    for plain, compiled in zip(*outcomes, strict=True):
        torch.testing.assert_close(compiled, plain, rtol=1e-4, atol=1e-5)
