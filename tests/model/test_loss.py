"""The chunked loss against the plain one: cross-entropy of all logits at once, differentiated by autograd."""

import dataclasses
import math
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from contracts.menu import SIZES, config, model, shaken, tokens
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lab.model import loss as loss_module
from lab.model.loss import token_loss, token_nats
from lab.model.regularization import Regularization, RegularizationConfig
from lab.model.stability import Stability, StabilityConfig
from lab.training.precision import compute_in

DENOMINATOR = 29
"""Any number: not the number of tokens, as when a batch comes in parts."""


class TanhCap(Stability):
    changes_logits = True

    def logits(self, z_CV):
        return torch.tanh(z_CV)  # its backward needs the result, which must not be overwritten


class MaxPenalty(Stability):
    def loss(self, stats):
        return 0.3 * stats.max().square()


class ScaledHead(Stability):
    def head_weight(self, weight_VD):
        return F.normalize(weight_VD, dim=-1)


class LabelSmoothing(Regularization):
    needs_mean_logit = True

    def loss(self, loss_C, stats):
        return 0.9 * loss_C + 0.1 * (stats.lse - stats.mean)


@dataclass(frozen=True, kw_only=True)
class StabilityOf(StabilityConfig):
    part: type[Stability]

    def build(self, dims):
        return self.part()


@dataclass(frozen=True, kw_only=True)
class RegularizationOf(RegularizationConfig):
    part: type[Regularization]

    def build(self, dims):
        return self.part()


Z_LOSS = config("stability", "z_loss", weight=0.2)
CAP = StabilityOf(name="cap", part=TanhCap)
MAX = StabilityOf(name="max", part=MaxPenalty)
HEAD = StabilityOf(name="head", part=ScaledHead)
SMOOTHING = RegularizationOf(name="smoothing", part=LabelSmoothing)

CASES = {
    "plain": {},
    "z_loss": {"stability": Z_LOSS},
    "cap": {"stability": CAP},
    "max": {"stability": MAX},
    "head": {"stability": HEAD},
    "smoothing": {"regularization": SMOOTHING},
    "everything": {"stability": [Z_LOSS, CAP, MAX, HEAD], "regularization": SMOOTHING},
}
PENALTIES = {
    "plain": lambda z_MV: 0,
    "z_loss": lambda z_MV: 0.2 * z_MV.logsumexp(-1) ** 2,
    "max": lambda z_MV: 0.3 * z_MV.amax(-1) ** 2,
    "everything": lambda z_MV: 0.2 * z_MV.logsumexp(-1) ** 2 + 0.3 * z_MV.amax(-1) ** 2,
}


def plain_loss(case, z_BTV, target_BT):
    """Objective and nats, written with all logits at once."""
    z_MV, target_M = z_BTV.flatten(0, 1), target_BT.flatten()
    smoothing = 0.1 if case in ("smoothing", "everything") else 0.0
    ce_M = F.cross_entropy(z_MV, target_M, ignore_index=-1, reduction="none", label_smoothing=smoothing)
    counted_M = (target_M != -1).to(z_MV.dtype)
    penalty_M = PENALTIES.get(case, PENALTIES["plain"])(z_MV)
    objective = ((ce_M + penalty_M) * counted_M).sum() / DENOMINATOR
    return objective, F.cross_entropy(z_MV.detach(), target_M, ignore_index=-1, reduction="sum")


def with_gaps(ids):
    target = ids.roll(-1, dims=1).clone()
    target[:, -1] = -1
    target[0, 3:6] = -1
    return target


def gradients(net):
    return {name: p.grad.clone() for name, p in net.named_parameters()}


@pytest.mark.slow
@pytest.mark.parametrize("rows", [7, 1, 256])
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("case", CASES)
def test_the_chunked_loss_is_the_plain_one_in_value_and_gradient(monkeypatch, case, tied, rows):
    """32 tokens: chunks of 7 with a ragged one of 4, of a single token, of all."""
    monkeypatch.setattr(loss_module, "chunk_rows", lambda device, vocab_size: rows)
    net, ids = shaken(model(**CASES[case], tied=tied).double()), tokens()
    target = with_gaps(ids)
    objective, nats = token_loss(net, net(ids)[0], target, denominator=DENOMINATOR)
    objective.backward()
    chunked = gradients(net)
    net.zero_grad()
    expected, expected_nats = plain_loss(case, net.logits(ids), target)
    expected.backward()
    torch.testing.assert_close(objective, expected, rtol=1e-10, atol=0)
    torch.testing.assert_close(nats, expected_nats, rtol=1e-10, atol=0)
    for name, gradient in gradients(net).items():
        torch.testing.assert_close(
            chunked[name], gradient, rtol=1e-10, atol=1e-14, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("case", CASES)
def test_the_nats_of_each_token_are_those_of_all_logits(monkeypatch, case):
    monkeypatch.setattr(loss_module, "chunk_rows", lambda device, vocab_size: 7)
    net, ids = shaken(model(**CASES[case]).double()), tokens()
    target, hidden_BTD = with_gaps(ids), net(ids)[0]
    found_BT = token_nats(net, hidden_BTD, target)
    expected_BT = F.cross_entropy(net.logits(ids).transpose(1, 2), target, reduction="none", ignore_index=-1)
    torch.testing.assert_close(found_BT, expected_BT, rtol=1e-10, atol=0)
    torch.testing.assert_close(found_BT.sum(), token_loss(net, hidden_BTD, target, denominator=1).nats)
    assert not found_BT.requires_grad


def test_the_gradient_is_scaled_with_the_loss():
    net, ids = shaken(model().double()), tokens()
    token_loss(net, net(ids)[0], ids, denominator=1).objective.backward()
    once = gradients(net)
    net.zero_grad()
    (3 * token_loss(net, net(ids)[0], ids, denominator=1).objective).backward()
    for name, gradient in gradients(net).items():
        torch.testing.assert_close(gradient, 3 * once[name], rtol=1e-12, atol=1e-14)


def test_parts_of_a_batch_add_up():
    net, ids = shaken(model(stability=Z_LOSS).double()), tokens(4)
    whole = token_loss(net, net(ids)[0], ids, denominator=ids.numel())
    whole.objective.backward()
    expected = gradients(net)
    net.zero_grad()
    parts = [token_loss(net, net(half)[0], half, denominator=ids.numel()) for half in ids.split(2)]
    sum(part.objective for part in parts).backward()
    torch.testing.assert_close(sum(part.objective for part in parts), whole.objective, rtol=1e-12, atol=0)
    torch.testing.assert_close(sum(part.nats for part in parts), whole.nats, rtol=1e-12, atol=0)
    for name, gradient in gradients(net).items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-10, atol=1e-14)


def test_reported_nats_leave_out_penalties_and_smoothing():
    ids, values = tokens(), []
    for case in ("plain", "z_loss", "max", "smoothing"):
        net = shaken(model(**CASES[case]).double())
        values.append(token_loss(net, net(ids)[0], ids, denominator=1))
    assert len({value.nats.item() for value in values}) == 1
    assert len({value.objective.item() for value in values}) == len(values)
    assert values[0].objective.item() == pytest.approx(values[0].nats.item(), rel=1e-14)
    assert not any(value.nats.requires_grad for value in values)


def test_without_gradients_the_loss_is_the_same():
    net, ids = shaken(model(**CASES["everything"])), tokens()
    trained = token_loss(net, net(ids)[0], ids, denominator=5)
    with torch.no_grad():
        evaluated = token_loss(net, net(ids)[0], ids, denominator=5)
    assert not evaluated.objective.requires_grad
    assert torch.equal(trained.objective.detach(), evaluated.objective)
    assert torch.equal(trained.nats, evaluated.nats)


def test_a_batch_without_targets_has_no_loss_and_no_gradient():
    net, ids = model(stability=Z_LOSS), tokens()
    value = token_loss(net, net(ids)[0], torch.full_like(ids, -1), denominator=1)
    value.objective.backward()
    assert value.objective.item() == value.nats.item() == 0
    assert not any(p.grad.any() for p in net.parameters())


def test_huge_logits_do_not_overflow():
    net, ids = model(), tokens()
    with torch.no_grad():
        net.head.weight *= 1e6
    value = token_loss(net, net(ids)[0], ids, denominator=1)
    value.objective.backward()
    assert value.objective.isfinite()
    assert all(p.grad.isfinite().all() for p in net.parameters())


@pytest.mark.parametrize("case", sorted(CASES.keys() - {"everything"}))
def test_in_bf16_the_loss_and_its_gradient_are_close_to_fp32(case):
    """Relative to fp32: the loss within 2^-8, the head's gradient within 2^-6 of its norm (bf16 has 8 bits).

    All at once is left out: its two largest logits are nearer than a rounding, and which one is the maximum flips.
    """
    net, ids = shaken(model(**CASES[case]), scale=0.05), tokens()
    outcomes = []
    with torch.no_grad():
        x_BTD, _ = net(ids)
    for precision in ("fp32", "bf16"):
        x_BTD.grad = None
        net.zero_grad()
        with compute_in(precision, "cpu"):
            value = token_loss(net, x_BTD.requires_grad_(), with_gaps(ids), denominator=DENOMINATOR)
        value.objective.backward()
        assert value.objective.dtype == value.nats.dtype == torch.float32
        assert x_BTD.grad.dtype == net.head.weight.grad.dtype == torch.float32
        outcomes.append((value.objective.item(), value.nats.item(), x_BTD.grad, net.head.weight.grad.clone()))
    full, half = outcomes
    assert half[:2] == pytest.approx(full[:2], rel=2**-8)
    for exact, rounded in zip(full[2:], half[2:], strict=True):
        assert (rounded - exact).norm() <= 2**-6 * exact.norm()


class LargestTensor(TorchDispatchMode):
    """Notes the largest result of any operation, forward and backward."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor):
                self.numel = max(self.numel, leaf.numel())
        return out


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("case", CASES)
def test_the_logits_of_a_batch_are_never_held_at_once(monkeypatch, case, precision):
    dims = dataclasses.replace(SIZES, dim=8, head_dim=2, vocab_size=512)
    monkeypatch.setattr(loss_module, "chunk_rows", lambda device, vocab_size: (1 << 13) // vocab_size)
    net, ids = model(**CASES[case], dims=dims), tokens(32, size=512)
    with torch.no_grad():
        x_BTD, _ = net(ids)
    with LargestTensor() as largest, compute_in(precision, "cpu"):
        token_loss(net, x_BTD.requires_grad_(), ids, denominator=1).objective.backward()
    weights, vectors = net.head.weight.numel(), x_BTD.numel()
    assert max(weights, vectors) <= 1 << 13
    assert largest.numel == 1 << 13
    assert ids.numel() * dims.vocab_size == 32 * largest.numel


@pytest.mark.parametrize(
    ("device", "vocab_size", "rows"),
    [("cpu", 2048, 512), ("cpu", 4096, 256), ("cpu", 50257, 256), ("cuda", 50257, 1335), ("cuda", 2048, 32768)],
)
def test_chunks_fit_the_device_but_are_never_thin(device, vocab_size, rows):
    assert loss_module.chunk_rows(device, vocab_size) == rows


def test_the_first_loss_of_a_flat_model_is_exactly_ln_v():
    net, ids = model().double(), tokens()
    with torch.no_grad():
        net.head.weight.zero_()
    nats = token_loss(net, net(ids)[0], ids, denominator=1).nats / ids.numel()
    assert nats.item() == pytest.approx(math.log(SIZES.vocab_size), rel=1e-14)
