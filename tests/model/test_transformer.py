"""What is around the blocks: input, head, layers that share their weights; each against its formula, in fp64."""

import copy
import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from contracts.menu import SIZES, config, model, shaken, tokens
from contracts.test_attention import of_product
from torch.utils.flop_counter import FlopCounterMode

from lab.errors import ConfigError
from lab.model import loss as loss_module
from lab.model.count import training_flops_per_token
from lab.model.loss import token_loss
from lab.training.precision import compute_in

D, E = SIZES.dim, 12

ENDS = {
    "plain": {},
    "embed_dim": {"embed_dim": E},
    "embed_scale": {"embed_scale": "sqrt_dim"},
    "embed_scale-number": {"embed_scale": 3},
    "logit_scale": {"logit_scale": "inv_sqrt_dim"},
    "logit_scale-inv_dim": {"logit_scale": "inv_dim"},
    "logit_scale-number": {"logit_scale": 0.25},
    "head_bias": {"head_bias": True},
    "head_transform": {"head_transform": True},
    "all": {"embed_dim": E, "embed_scale": 2.5, "logit_scale": 0.4, "head_bias": True, "head_transform": True},
}
FACTORS = {"sqrt_dim": math.sqrt(D), "inv_sqrt_dim": 1 / math.sqrt(D), "inv_dim": 1 / D}

every_end = pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
both_heads = pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])


def factor(ends, key):
    return FACTORS.get(ends.get(key, 1), ends.get(key, 1))


def plain_logits(net, ids, ends):
    """The ends written out around the model's own blocks."""
    w = dict(net.named_parameters())
    x = torch.eye(SIZES.vocab_size, dtype=torch.float64)[ids] @ w["embedding.weight"]
    if "embed_dim" in ends:
        x = x @ w["embedding_up.weight"].T
    x = factor(ends, "embed_scale") * x + w["position.table.weight"][: ids.shape[1]]
    for block in net.blocks:
        x = block(x)[0]
    x = F.layer_norm(x, (D,), w["final_norm.gain"], w["final_norm.bias"], 1e-5)
    if "head_transform" in ends:
        h = x @ w["head_transform.dense.weight"].T + w["head_transform.dense.bias"]
        h = h / 2 * (1 + torch.erf(h / math.sqrt(2)))
        x = F.layer_norm(h, (D,), w["head_transform.norm.gain"], w["head_transform.norm.bias"], 1e-5)
    if "embed_dim" in ends:
        x = x @ w["head_down.weight"].T
    z = factor(ends, "logit_scale") * (x @ w.get("head.weight", w["embedding.weight"]).T)
    return z + w["head_bias"] if "head_bias" in ends else z


@every_end
@both_heads
def test_the_ends_are_their_formulas_in_value_and_gradient(monkeypatch, ends, tied):
    monkeypatch.setattr(loss_module, "chunk_rows", lambda device, vocab_size: 7)  # of 32 tokens, the last 4 over
    net = shaken(model(ends=ends, tied=tied, norm="layernorm", position="learned").double())
    twin, ids = copy.deepcopy(net), tokens()
    target = ids.roll(-1, dims=1)
    target[0, 3:6] = -1
    expected = plain_logits(twin, ids, ends)
    loss = F.cross_entropy(expected.flatten(0, 1), target.flatten(), ignore_index=-1)
    loss.backward()
    x_BTD, _ = net(ids)
    assert x_BTD.shape == (*ids.shape, ends.get("embed_dim", D))
    objective = token_loss(net, x_BTD, target, denominator=int((target >= 0).sum())).objective
    objective.backward()
    torch.testing.assert_close(net.logits(ids), expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(objective, loss, rtol=1e-12, atol=0)
    other = dict(twin.named_parameters())
    for name, parameter in net.named_parameters():
        assert parameter.grad.count_nonzero(), name
        torch.testing.assert_close(
            parameter.grad, other[name].grad, rtol=1e-9, atol=1e-13, msg=lambda m, n=name: n + m
        )


@every_end
@both_heads
def test_only_what_is_asked_for_is_made(ends, tied):
    names = {name for name, _ in model(ends=ends, tied=tied, norm="layernorm").named_parameters()}
    made = {
        "embed_dim": {"embedding_up.weight", "head_down.weight"},
        "head_bias": {"head_bias"},
        "head_transform": {f"head_transform.{n}" for n in ("dense.weight", "dense.bias", "norm.gain", "norm.bias")},
    }
    outside = {"embedding.weight", "final_norm.gain", "final_norm.bias"} | (set() if tied else {"head.weight"})
    for key in ends.keys() & made.keys():
        outside |= made[key]
    assert {name for name in names if not name.startswith("blocks.")} == outside


@both_heads
def test_the_bias_of_the_head_is_in_what_penalties_see(tied):
    """A cap and a z-loss of biased logits: chunked against autograd of all logits at once."""
    stability = [config("stability", "logit_softcap", cap=2.0), config("stability", "z_loss", weight=0.2)]
    net, ids = shaken(model(ends={"head_bias": True}, tied=tied, stability=stability).double()), tokens()
    token_loss(net, net(ids)[0], ids, denominator=ids.numel()).objective.backward()
    chunked = {name: p.grad.clone() for name, p in net.named_parameters()}
    net.zero_grad()
    raw_BTV = net(ids)[0] @ net.head_weight().T + net.head_bias
    z_MV = (2 * torch.tanh(raw_BTV / 2)).flatten(0, 1)
    (F.cross_entropy(z_MV, ids.flatten()) + 0.2 * z_MV.logsumexp(-1).square().mean()).backward()
    for name, parameter in net.named_parameters():
        torch.testing.assert_close(chunked[name], parameter.grad, rtol=1e-9, atol=1e-13)


@every_end
def test_in_bf16_the_gradients_are_close_to_fp32(ends):
    net, ids, found = shaken(model(ends=ends), scale=0.05), tokens(), []
    for precision in ("fp32", "bf16"):
        net.zero_grad()
        with compute_in(precision, "cpu"):
            value = token_loss(net, net(ids)[0], ids, denominator=ids.numel())
        value.objective.backward()
        assert all(p.grad.dtype == torch.float32 for p in net.parameters())
        found.append(torch.cat([p.grad.flatten() for p in net.parameters()]))
    assert (found[1] - found[0]).norm() <= 2**-5 * found[0].norm()


@pytest.mark.parametrize(
    "ends", [{}, ENDS["all"], {**ENDS["all"], "layers_shared": 2}], ids=["plain", "all", "shared"]
)
def test_flops_of_the_ends_are_counted(ends):
    net, ids = model(ends=ends, path="plain"), tokens()
    with FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: of_product}) as counter:
        token_loss(net, net(ids)[0], ids, denominator=1).objective.backward()
    counted = counter.get_total_flops() / ids.numel()
    assert training_flops_per_token(net, SIZES.max_seq_len) == pytest.approx(counted, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("attn", ["mha", "mla", "sliding_window"])
@pytest.mark.parametrize(("n_layers", "together"), [(4, 2), (4, 4), (5, 2), (3, 1), (3, 8)])
def test_layers_that_share_equal_copies_whose_gradients_add_up(attn, n_layers, together):
    dims = dataclasses.replace(SIZES, n_layers=n_layers)
    shared = shaken(model(attn=attn, dims=dims, ends={"layers_shared": together}).double())
    apart = model(attn=attn, dims=dims).double()
    origin = {}
    for name in apart.state_dict():
        head, index, *rest = name.split(".", 2)
        origin[name] = f"blocks.{int(index) // together}.{rest[0]}" if head == "blocks" else name
    apart.load_state_dict({name: shared.state_dict()[source] for name, source in origin.items()})
    assert len(shared.blocks) == math.ceil(n_layers / together)
    assert len(shared.layers()) == len(shared.attention()) == len(shared.new_caches()) == n_layers

    ids = tokens()
    for net in (shared, apart):
        token_loss(net, net(ids)[0], ids, denominator=ids.numel()).objective.backward()
    torch.testing.assert_close(shared.logits(ids), apart.logits(ids), rtol=1e-12, atol=1e-12)
    total = {name: torch.zeros_like(p) for name, p in shared.named_parameters()}
    for name, parameter in apart.named_parameters():
        total[origin[name]] += parameter.grad
    for name, parameter in shared.named_parameters():
        torch.testing.assert_close(parameter.grad, total[name], rtol=1e-10, atol=1e-13)


@torch.no_grad()
def test_layers_that_share_have_caches_of_their_own():
    dims = dataclasses.replace(SIZES, n_layers=3)
    net, ids = shaken(model(dims=dims, ends={"layers_shared": 3})), tokens()
    caches, pieces = net.new_caches(), []
    for first, last in ((0, 5), (5, 6), (6, 16)):
        pieces.append(net(ids[:, first:last], caches, first)[0])
    torch.testing.assert_close(torch.cat(pieces, dim=1), net(ids)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("pattern", "together", "joined"),
    [
        ({"global_every": 2}, 2, "0 to 1"),
        ({"global_every": 3}, 2, "2 to 3"),
        ({"global_every": 3}, 9, "0 to 4"),
        ({"nope_every": 4}, 4, "0 to 3"),
    ],
)
def test_layers_that_attend_otherwise_cannot_share(pattern, together, joined):
    dims = dataclasses.replace(SIZES, n_layers=5)
    with pytest.raises(ConfigError) as refused:
        model(attn=config("attn", "sliding_window", **pattern), dims=dims, ends={"layers_shared": together})
    assert str(refused.value) == (
        f"model.layers_shared {together} joins layers {joined}, of which attn makes different ones: "
        "share as many as its pattern has alike"
    )


def test_layers_that_attend_alike_may_share_though_others_do_not():
    dims = dataclasses.replace(SIZES, n_layers=3)
    net = model(attn=config("attn", "sliding_window", global_every=3), dims=dims, ends={"layers_shared": 1})
    assert [type(attn.layer.mask).__name__ for attn in net.attention()] == ["Sliding", "Sliding", "Full"]
