"""Norms against the classes of transformers, which compute in fp32 too: values and gradients."""

import importlib

import pytest
import torch
from contracts.menu import config

DIM, EPS = 24, 1e-3
CASES = [
    ("layernorm_no_bias", "cohere", "CohereLayerNorm"),
    ("layernorm_1p", "nemotron", "NemotronLayerNorm1P"),
    ("layernorm_plain", "olmo", "OlmoLayerNorm"),
    ("rmsnorm", "llama", "LlamaRMSNorm"),
    ("rmsnorm", "t5", "T5LayerNorm"),
    ("rmsnorm_1p", "gemma", "GemmaRMSNorm"),
]


@pytest.mark.parametrize(("name", "family", "other"), CASES)
def test_equals_that_of_transformers(name, family, other):
    kind = getattr(importlib.import_module(f"transformers.models.{family}.modeling_{family}"), other)
    eps = {} if name == "layernorm_plain" else {"eps": EPS}  # OLMo's is fixed, to the value of our YAML
    ours, theirs = config("norm", name, **eps).build(DIM, site="attn"), kind(DIM, **eps)
    generator = torch.Generator().manual_seed(1)
    for (_, mine), (_, copy) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        mine.data.normal_(generator=generator)
        copy.data.copy_(mine.data)
    x = (3 * torch.randn(2, 5, DIM, generator=generator) + 1).requires_grad_()
    dy = torch.randn(2, 5, DIM, generator=generator)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-6, atol=2e-6)
    for mine, copy in zip(
        torch.autograd.grad(ours(x), (x, *ours.parameters()), dy),
        torch.autograd.grad(theirs(x), (x, *theirs.parameters()), dy),
        strict=True,
    ):
        torch.testing.assert_close(mine, copy, rtol=1e-5, atol=5e-6)
