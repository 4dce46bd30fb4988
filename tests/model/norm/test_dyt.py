import pytest
import torch
from contracts.menu import config, model

from lab.errors import ConfigError


@pytest.mark.parametrize(("site", "alpha"), [("attn", 0.8), ("ffn", 0.2), ("final", 0.2), ("embed", 0.2)])
def test_alpha_starts_by_place(site, alpha):
    norm = config("norm", "dyt").build(24, site=site)
    assert norm.alpha.shape == ()
    assert norm.alpha.item() == pytest.approx(alpha)


def test_a_model_has_both():
    alphas = {name: p.item() for name, p in model(norm="dyt").named_parameters() if name.endswith("alpha")}
    assert len(alphas) == 5
    for name, alpha in alphas.items():
        assert alpha == pytest.approx(0.8 if "attn_norm" in name else 0.2), name


def test_is_bounded_by_its_gain():
    norm = config("norm", "dyt").build(24, site="attn")
    assert torch.equal(norm(torch.full((24,), 1e9)), torch.ones(24))


@pytest.mark.parametrize("key", ["alpha", "alpha_attn"])
def test_what_is_refused(key):
    with pytest.raises(ConfigError, match=f"^{key} 0.0 must be > 0$"):
        config("norm", "dyt", **{key: 0.0})
