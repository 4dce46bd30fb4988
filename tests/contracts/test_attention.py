"""Every attention with every position, on both paths."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from contracts.menu import (
    PATHS,
    SIZES,
    architecture,
    assert_sees_what_it_may,
    config,
    held,
    label,
    model,
    shaken,
    tokens,
)
from lab import choices
from lab.model.count import training_flops_per_token
from lab.model.loss import token_loss
from lab.training.precision import compute_in

ATTENTIONS, POSITIONS = choices.names("attn"), choices.names("position")


def pair(attn, position):
    """A case of the product, whose inner part is slow: neither the default attention nor common positions."""
    usual = attn == "mha" or position in ("none", "rope")
    return pytest.param(attn, position, id=f"{attn}-{position}", marks=[] if usual else pytest.mark.slow)


every_attn = pytest.mark.parametrize("attn", ATTENTIONS)
every_position = pytest.mark.parametrize("position", POSITIONS)
every_pair = pytest.mark.parametrize(("attn", "position"), [pair(a, p) for a in ATTENTIONS for p in POSITIONS])
both_paths = pytest.mark.parametrize("path", PATHS)


def by_steps(net, ids, lengths):
    """Vectors before the head, computed in pieces of the given lengths with a cache."""
    caches, pieces, offset = net.new_caches(), [], 0
    for length in lengths:
        pieces.append(net(ids[:, offset : offset + length], caches, offset)[0])
        offset += length
    assert offset == ids.shape[1]
    return torch.cat(pieces, dim=1), caches


@every_pair
@both_paths
def test_no_token_sees_a_later_one(attn, position, path):
    net = shaken(model(attn=attn, position=position, path=path))
    assert_sees_what_it_may(net)


@torch.no_grad()
@every_pair
@both_paths
@pytest.mark.parametrize(
    "lengths",
    [
        pytest.param([1] * 16, id="single", marks=pytest.mark.slow),
        pytest.param([5, 1, 7, 3], id="chunks"),
        pytest.param([16], id="whole", marks=pytest.mark.slow),
    ],
)
def test_decoding_with_a_cache_equals_the_whole_forward(attn, position, path, lengths):
    net, ids = shaken(model(attn=attn, position=position, path=path)).eval(), tokens()
    pieces, _ = by_steps(net, ids, lengths)
    torch.testing.assert_close(pieces, net(ids)[0], rtol=1e-5, atol=1e-5)


@torch.no_grad()
@every_attn
@pytest.mark.parametrize(
    "position", [p if p == "rope" else pytest.param(p, marks=pytest.mark.slow) for p in POSITIONS]
)
@both_paths
@pytest.mark.slow
def test_a_cache_works_in_bf16(attn, position, path):
    net, ids = model(attn=attn, position=position, path=path).eval(), tokens()
    with compute_in("bf16", "cpu"):
        pieces, _ = by_steps(net, ids, [5, 1, 10])
        whole, _ = net(ids)
    # The streams' entries are of order one; bf16 has 8 bits, and the paths round in another order.
    torch.testing.assert_close(pieces, whole, rtol=0, atol=2**-6)


@every_pair
def test_the_paths_agree_in_value_and_gradient(attn, position):
    ids, outcomes = tokens(), []
    for path in PATHS:
        net = shaken(model(attn=attn, position=position, path=path))
        x_BTD, _ = net(ids)
        x_BTD.square().mean().backward()
        outcomes.append([x_BTD.detach(), *(p.grad for p in net.parameters())])
    for plain, fused in zip(*outcomes, strict=True):
        torch.testing.assert_close(plain, fused, rtol=1e-5, atol=1e-5)


@torch.no_grad()
@every_attn
def test_a_cache_holds_what_is_said(attn):
    net = model(attn=attn)
    for length in (1, 7, 16):
        _, caches = by_steps(net, tokens(3, length), [length])
        for module, cache in zip(net.attention(), caches, strict=True):
            assert sum(t.nbytes for t in held(cache)) == 3 * module.cache_bytes(length, element_bytes=4)


@torch.no_grad()
@both_paths
@pytest.mark.parametrize(
    "position", [p if p in ("none", "rope") else pytest.param(p, marks=pytest.mark.slow) for p in POSITIONS]
)
@pytest.mark.parametrize(("kv_heads", "same_as"), [(SIZES.n_heads, "mha"), (1, "mqa")])
def test_grouped_query_attention_has_the_others_at_its_ends(kv_heads, same_as, position, path):
    grouped = model(attn=config("attn", "gqa", n_kv_heads=kv_heads), position=position, path=path, seed=1)
    other = model(attn=same_as, position=position, path=path, seed=2)
    other.load_state_dict(shaken(grouped).state_dict())
    assert torch.equal(grouped.logits(tokens()), other.logits(tokens()))


@torch.no_grad()
@both_paths
def test_groups_equal_heads_that_are_repeated(path):
    grouped, full = model(attn="gqa", path=path), model(attn="mha", path=path)
    state, n_kv_heads = shaken(grouped).state_dict(), 2
    for name in [n for n in state if n.endswith(("attn.k.weight", "attn.v.weight"))]:
        heads_KHD = state[name].unflatten(0, (n_kv_heads, SIZES.head_dim))
        state[name] = heads_KHD.repeat_interleave(SIZES.n_heads // n_kv_heads, dim=0).flatten(0, 1)
    full.load_state_dict(state)
    torch.testing.assert_close(full.logits(tokens()), grouped.logits(tokens()), rtol=1e-5, atol=1e-5)


def of_product(_, left, right, **__):
    """FLOPs of ``addmm_`` by shapes, which torch 2.13 leaves out of its count."""
    return 2 * left[0] * left[1] * right[1]


def counted(net, ids):
    """The matrix products of forward and backward of all blocks, the head and its loss, per token."""
    with FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: of_product}) as counter:
        x_BTD, extra = net(ids)
        objective = token_loss(net, x_BTD, ids, denominator=ids.numel()).objective + sum(extra.values())
        objective.backward()
    return counter.get_total_flops() / ids.numel()


COUNTED = [(group, name) for group in ("attn", "activation", "block", "stability") for name in choices.names(group)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "choice",
    [c if c[0] == "attn" else pytest.param(c, marks=pytest.mark.slow) for c in COUNTED],
    ids=label,
)
def test_the_flops_formula_equals_the_count_of_torch(choice):
    """In a batch of eight, since what is done once a weight is not counted; and not in the first forward."""
    net, ids = model(**dict([choice]), path="plain"), tokens(8)
    net(ids)
    formula = training_flops_per_token(net, SIZES.max_seq_len)
    assert formula == pytest.approx(counted(net, ids), rel=0.01)
    outline = architecture(**dict([choice]), path="plain").outline()
    assert training_flops_per_token(outline, SIZES.max_seq_len) == formula


@pytest.mark.slow
@pytest.mark.parametrize("attn", ["mha", pytest.param("mla", marks=pytest.mark.slow)])
@every_position
def test_the_flops_formula_knows_the_positions(attn, position):
    """In a batch of eight, since what is computed once a batch is not counted."""
    net = model(attn=attn, position=position, path="plain")
    formula = training_flops_per_token(net, SIZES.max_seq_len)
    assert formula == pytest.approx(counted(net, tokens(8)), rel=0.01)
