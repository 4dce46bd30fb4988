import math

import pytest
import torch
from contracts.menu import SIZES, config, model

from lab.errors import ConfigError
from lab.model.layer_spec import LayerSpec

N, H = SIZES.n_heads, SIZES.head_dim


def hooks(eps=1e-6):
    return config("stability", "qk_norm", eps=eps).build(SIZES).attention(LayerSpec(index=0), SIZES, 2)


def qkv(scale=1.0):
    generator = torch.Generator().manual_seed(1)
    return tuple(scale * torch.randn(2, 7, heads, H, generator=generator) for heads in (N, 2, 2))


@torch.no_grad()
@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e4])
def test_scores_are_bounded_by_the_root_of_the_head_width(scale):
    q_BTNH, k_BTKH, _ = hooks().qkv(*qkv(scale))
    scores = torch.einsum("btnh,bskh->bntks", q_BTNH, k_BTKH) / math.sqrt(H)
    assert scores.abs().max() <= math.sqrt(H) * (1 + 1e-6)
    for x in (q_BTNH, k_BTKH):
        assert (x.norm(dim=-1) <= math.sqrt(H) * (1 + 1e-6)).all()


@torch.no_grad()
def test_the_bound_is_reached_by_equal_directions():
    q_BTNH, _, v_BTKH = qkv()
    q_BTNH, k_BTNH, _ = hooks().qkv(q_BTNH, 3 * q_BTNH, v_BTKH)
    scores = (q_BTNH * k_BTNH).sum(-1) / math.sqrt(H)
    torch.testing.assert_close(scores, torch.full_like(scores, math.sqrt(H)), rtol=1e-4, atol=0)


@torch.no_grad()
def test_each_head_is_normalised_by_itself_with_one_gain_for_all():
    part = hooks(eps=1e-3)
    part.q.gain.normal_(generator=torch.Generator().manual_seed(2))
    part.k.gain.normal_(generator=torch.Generator().manual_seed(3))
    q_BTNH, k_BTKH, v_BTKH = qkv()
    new_q, new_k, new_v = part.qkv(q_BTNH, k_BTKH, v_BTKH)
    for new, old, gain_H in ((new_q, q_BTNH, part.q.gain), (new_k, k_BTKH, part.k.gain)):
        assert gain_H.shape == (H,)
        expected = gain_H * old / ((old * old).sum(-1, keepdim=True) / H + 1e-3).sqrt()
        torch.testing.assert_close(new, expected, rtol=1e-5, atol=1e-6)
    assert new_v is v_BTKH


@torch.no_grad()
@pytest.mark.parametrize("path", ["plain", "sdpa"])
def test_the_model_forgets_the_length_of_queries_and_keys(path):
    """With an eps that does not count, larger query and key matrices leave the output as it is."""
    net = model(stability=config("stability", "qk_norm", eps=1e-20), path=path).double()
    x_BTD = torch.randn(1, 9, SIZES.dim, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    attn = net.attention()[0]
    before = attn(x_BTD)[0]
    attn.q.weight.mul_(10), attn.k.weight.mul_(0.1)
    torch.testing.assert_close(attn(x_BTD)[0], before, rtol=1e-10, atol=1e-12)


@torch.no_grad()
def test_norms_come_before_the_rotation():
    """A gain that differs within a rotated pair tells the orders apart."""
    net = model(stability="qk_norm", position="rope", path="plain")
    seen = []
    attn = net.attention()[0]
    attn.stability.qk_norm.q.register_forward_hook(lambda _, args, out: seen.append((args[0], out)))
    x_BTD = torch.randn(1, 9, SIZES.dim, generator=torch.Generator().manual_seed(1))
    attn(x_BTD)
    ((unrotated, normed),) = seen
    assert torch.equal(unrotated, attn.q(x_BTD).view(1, 9, N, H))
    assert normed.shape == unrotated.shape


def test_the_fused_kernel_stays_in_use():
    assert {attn.path for attn in model(stability="qk_norm", path="sdpa").attention()} == {"sdpa"}


def test_an_eps_of_zero_is_refused():
    with pytest.raises(ConfigError) as refused:
        config("stability", "qk_norm", eps=0)
    assert str(refused.value) == "eps 0 must be > 0"


def test_a_scalar_takes_the_place_of_the_scale_and_starts_as_in_the_paper():
    attn = model(stability=config("stability", "qk_norm", norm="l2")).attention()[0]
    length = attn.stability.qk_norm.q.length
    assert attn.scale == 1
    assert length.item() == pytest.approx(math.log2(SIZES.max_seq_len * (SIZES.max_seq_len - 1)), rel=1e-6)
    assert [name for name, _ in attn.stability.named_parameters()] == ["qk_norm.q.length"]


def test_layers_without_positions_are_left_out_where_asked():
    chosen = {"attn": config("attn", "mha", nope_every=2)}
    for layers, expected in (("all", [True, True]), ("positioned", [True, False])):
        net = model(stability=config("stability", "qk_norm", layers=layers), **chosen)
        assert [hasattr(a.stability, "qk_norm") for a in net.attention()] == expected


@pytest.mark.parametrize(("norm", "over"), [("l2", "full"), ("l2", "per_head"), ("rmsnorm_plain", "per_head")])
def test_a_gain_per_head_is_refused_where_there_is_none(norm, over):
    with pytest.raises(ConfigError) as refused:
        config("stability", "qk_norm", norm=norm, over=over)
    assert str(refused.value) == f"over '{over}' must be head with norm '{norm}', which has no gain for each head"
