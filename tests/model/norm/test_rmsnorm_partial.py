import pytest
import torch
from contracts.menu import config

from lab.errors import ConfigError


@pytest.mark.parametrize(
    ("share", "dim", "n_seen"),
    [
        (0.0675, 512, 35),
        (0.0625, 512, 32),
        (0.0675, 8, 1),
        (0.01, 24, 1),
        (1e-9, 24, 1),
        (0.07, 100, 7),
        (1, 24, 24),
    ],
)
def test_how_many_features_are_looked_at(share, dim, n_seen):
    norm = config("norm", "rmsnorm_partial", share=share).build(dim, site="attn").double()
    x = torch.randn(dim, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    moves_the_others = []
    for entry in range(dim):
        moved = x.clone()
        moved[entry] += 1
        changed = norm(moved) != norm(x)
        changed[entry] = False
        moves_the_others.append(bool(changed.any()))
    assert moves_the_others == [True] * n_seen + [False] * (dim - n_seen)


def test_with_all_features_it_is_rmsnorm():
    x = torch.randn(2, 24, generator=torch.Generator().manual_seed(1))
    partial = config("norm", "rmsnorm_partial", share=1.0, eps=1e-5).build(24, site="attn")
    torch.testing.assert_close(partial(x), config("norm", "rmsnorm").build(24, site="attn")(x))


@pytest.mark.parametrize("share", [0.0, -0.5, 1.01])
def test_what_is_refused(share):
    with pytest.raises(ConfigError) as refused:
        config("norm", "rmsnorm_partial", share=share)
    assert str(refused.value) == f"share {share} must be > 0 and <= 1"
