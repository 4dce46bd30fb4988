"""Hooks that the model calls, by components made here: each acts where it should, on both paths, with a cache."""

import math
from dataclasses import dataclass

import pytest
import torch
from torch import nn

from contracts.menu import PATHS, SIZES, assert_sees_what_it_may, model, shaken, tokens
from lab import choices
from lab.errors import ConfigError
from lab.model.layers import Linear
from lab.model.position import LayerPosition, Position, PositionConfig
from lab.model.regularization import Regularization, RegularizationConfig
from lab.model.stability import AttentionStability, Stability, StabilityConfig

N, H = SIZES.n_heads, SIZES.head_dim

both_paths = pytest.mark.parametrize("path", PATHS)


class Slopes(LayerPosition):
    """A penalty for distance, of another strength in each head."""

    def score_bias(self, q_BTNH, pos_T, pos_S, scale):
        distance_TS = torch.tensor([[t - s for s in pos_S] for t in pos_T], dtype=q_BTNH.dtype)
        return -torch.arange(1, N + 1, dtype=q_BTNH.dtype)[:, None, None] / N * distance_TS


class Distances(LayerPosition):
    """Adds to each head the mean distance it looks back."""

    biases_values = True

    def value_bias(self, weights_BNTS, pos_T, pos_S):
        distance_TS = torch.tensor([[t - s for s in pos_S] for t in pos_T], dtype=weights_BNTS.dtype)
        return (weights_BNTS * distance_TS).sum(-1).transpose(1, 2)[..., None].expand(-1, -1, -1, H)


class ScoreCap(AttentionStability):
    changes_scores = True

    def scores(self, scores_BNTS):
        return 0.2 * torch.tanh(scores_BNTS / 0.2)


class Halved(nn.Module):
    def forward(self, x):
        return x / 2


class Hooked(Stability):
    def __init__(self, **hooks):
        super().__init__()
        for name, hook in hooks.items():
            setattr(self, name, hook)


@dataclass(frozen=True, kw_only=True)
class Made(PositionConfig, StabilityConfig, RegularizationConfig):
    name: str = "made"
    part: object

    def build(self, dims):
        return self.part()


def position(layer):
    class Own(Position):
        def layer(self, spec, head_dim):
            return layer()

    return Made(part=Own)


def stability(**hooks):
    return Made(part=lambda: Hooked(**hooks))


def every_case_and_attn(test):
    """Every case with every attention, but for biases of values that MLA does not have and refuses."""
    pairs = [
        pytest.param(case, attn, marks=[] if attn in ("mha", "mla") else pytest.mark.slow)
        for case in CASES
        for attn in choices.names("attn")
        if (case, attn) not in (("extra", "mla"), ("extra", "dsa_mla"))
    ]
    return pytest.mark.parametrize(("case", "attn"), pairs)(test)


CAP = stability(attention=lambda spec, dims, n_kv_heads: ScoreCap())


def slow(net, x_BTD, *, bias=False, extra=False, cap=False):
    """The first layer's attention of MHA, head by head."""
    module = net.attention()[0]
    q, k, v = (m(x_BTD).unflatten(-1, (N, H)).transpose(1, 2) for m in (module.q, module.k, module.v))
    T = x_BTD.shape[1]
    distance = (torch.arange(T)[:, None] - torch.arange(T)).to(x_BTD.dtype)
    heads = []
    for n in range(N):
        scores = q[:, n] @ k[:, n].transpose(-1, -2) / math.sqrt(H)
        if bias:
            scores = scores - (n + 1) / N * distance
        if cap:
            scores = 0.2 * torch.tanh(scores / 0.2)
        weights = scores.masked_fill(distance < 0, -math.inf).softmax(-1)
        heads.append(weights @ v[:, n] + ((weights * distance).sum(-1, keepdim=True) if extra else 0))
    return module.out(torch.cat(heads, dim=-1))


CASES = {
    "bias": ({"position": position(Slopes)}, {"bias": True}),
    "extra": ({"position": position(Distances)}, {"extra": True}),
    "cap": ({"stability": CAP, "position": "none"}, {"cap": True}),
    "bias-cap": ({"position": position(Slopes), "stability": CAP}, {"bias": True, "cap": True}),
}


@torch.no_grad()
@both_paths
@pytest.mark.parametrize("case", CASES)
def test_hooks_of_the_scores_act_in_the_order_scale_bias_cap_mask(case, path):
    chosen, acts = CASES[case]
    net = shaken(model(**chosen, attn="mha", path=path).double())
    x_BTD = torch.randn(2, 9, SIZES.dim, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected = slow(net, x_BTD, **acts)
    assert not torch.allclose(expected, slow(net, x_BTD), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(net.attention()[0](x_BTD)[0], expected, rtol=1e-10, atol=1e-12)


def test_latent_attention_refuses_a_bias_of_values():
    with pytest.raises(ConfigError, match="attn=mla"):
        model(attn="mla", position=position(Distances))


@torch.no_grad()
@every_case_and_attn
@both_paths
def test_hooks_of_the_scores_work_with_a_cache(case, path, attn):
    net, ids = shaken(model(**CASES[case][0], attn=attn, path=path)), tokens()
    caches, pieces, offset = net.new_caches(), [], 0
    for length in (5, 1, 7, 3):
        pieces.append(net(ids[:, offset : offset + length], caches, offset)[0])
        offset += length
    torch.testing.assert_close(torch.cat(pieces, dim=1), net(ids)[0], rtol=1e-5, atol=1e-5)


@every_case_and_attn
@both_paths
def test_hooks_of_the_scores_leave_the_model_causal(case, path, attn):
    net = shaken(model(**CASES[case][0], attn=attn, path=path))
    assert_sees_what_it_may(net)


def test_only_hooks_that_need_the_weights_rule_out_the_fused_kernel():
    paths = {
        case: {a.path for a in model(**chosen, path="sdpa").attention()} for case, (chosen, _) in CASES.items()
    }
    assert paths == {"bias": {"sdpa"}, "extra": {"plain"}, "cap": {"plain"}, "bias-cap": {"plain"}}


@torch.no_grad()
def test_a_branch_is_changed_before_it_is_added():
    net, plain = shaken(model(stability=stability(branch=lambda *_: Halved()))), shaken(model())
    for name, weight in plain.named_parameters():
        if name.endswith(".out.weight"):
            weight /= 2
    assert sum(isinstance(m, Halved) for m in net.modules()) == 2 * SIZES.n_layers
    torch.testing.assert_close(net.logits(tokens()), plain.logits(tokens()), rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_stability_comes_before_regularization_at_the_end_of_a_branch():
    class Plus(nn.Module):
        def forward(self, x):
            return x + 1

    class Own(Regularization):
        def residual(self, spec, dims):
            return Plus()

    net = model(stability=stability(branch=lambda *_: Halved()), regularization=Made(part=Own))
    assert (net.blocks[0].attn_end(torch.ones(3)) == 1.5).all()
    assert (net.blocks[0].ffn_end(torch.ones(3)) == 1.5).all()


@torch.no_grad()
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_a_weight_is_reparametrised_in_every_linear_map(tied):
    seen = []

    def weight(name, tensor):
        seen.append(name)
        return Halved()

    net, plain = shaken(model(stability=stability(weight=weight), tied=tied)), shaken(model(tied=tied))
    linear = {name for name, module in plain.named_modules() if isinstance(module, Linear)}
    assert set(seen) == linear
    assert ("head" in linear) is not tied
    for name in linear:
        plain.get_submodule(name).weight.div_(2)
    torch.testing.assert_close(net.logits(tokens()), plain.logits(tokens()), rtol=1e-5, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_embeddings_head_and_logits_are_changed(tied):
    changed = {
        "embed": lambda x_BTD: 3 * x_BTD,
        "head_weight": lambda weight_VD: 5 * weight_VD,
        "logits": lambda z_CV: z_CV + 1,
    }
    net, plain = shaken(model(stability=stability(**changed), tied=tied)), shaken(model(tied=tied))
    seen = []
    net.blocks[0].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    plain.embedding.register_forward_hook(lambda *_: 3 * _[-1])
    assert torch.equal(net.logits(tokens()), 1 + torch.nn.functional.linear(net(tokens())[0], 5 * head(net)))
    torch.testing.assert_close(seen[0], 3 * net.embedding(tokens()), rtol=0, atol=0)
    torch.testing.assert_close(net(tokens())[0], plain(tokens())[0], rtol=1e-6, atol=1e-6)


def head(net):
    return net.embedding.weight if net.head is None else net.head.weight


@torch.no_grad()
def test_two_choices_of_a_group_apply_in_the_order_of_their_names():
    first = Made(name="a", part=lambda: Hooked(embed=lambda x_BTD: x_BTD + 1))
    second = Made(name="b", part=lambda: Hooked(embed=lambda x_BTD: 2 * x_BTD))
    for both in ([first, second], [second, first]):
        net, seen = model(stability=both), []
        net.blocks[0].register_forward_pre_hook(lambda _, args, seen=seen: seen.append(args[0]))
        net(tokens())
        assert torch.equal(seen[0], 2 * (net.embedding(tokens()) + 1))
