"""Attention maps, against scores computed by hand."""

import math

import pytest
import torch

from lab.errors import LabError
from lab.figure import attention
from tests.figure.designs import config


def model(*words: str):
    return config(*words).architecture(256).build(study_seed=0, seed=0).eval()


def test_maps_of_the_first_layer_are_softmax_of_scaled_products() -> None:
    made = model("position=none", "block=no_residual", "norm=none")
    ids = [5, 9, 77, 3]
    attn = made.attention()[0]
    with torch.no_grad():
        x_TD = made.embedding(torch.tensor(ids)) * made.embed_scale
        q, k = (m(x_TD).view(4, attn.n_heads, -1).transpose(0, 1) for m in (attn.q, attn.k))
        scores = q @ k.mT / math.sqrt(attn.head_dim)
        expected = scores.masked_fill(torch.ones(4, 4).triu(1).bool(), -math.inf).softmax(-1)
        before = made.logits(torch.tensor([ids]))
        found = attention.maps(made, ids, "mha")
        torch.testing.assert_close(found[0], expected)
        torch.testing.assert_close(made.logits(torch.tensor([ids])), before)
    assert len(found) == made.n_layers


def test_entropy_and_first_share() -> None:
    even = torch.full((3, 4), 0.25)
    assert attention.entropy(even) == pytest.approx(math.log(4))
    assert attention.first_share(torch.tensor([[1.0, 0], [0.25, 0.75]])) == pytest.approx(0.25)


def test_an_attention_without_maps_is_refused() -> None:
    with pytest.raises(LabError, match="attn=nsa does not weigh all keys"):
        attention.maps(model("attn=nsa"), range(64), "nsa")
