"""The spectral reparametrisation against exact singular values, and what its buffers promise."""

from itertools import pairwise

import pytest
import torch
from contracts.menu import SIZES, config, model, shaken, tokens

from lab.errors import ConfigError
from lab.model.layers import Linear
from lab.model.loss import token_loss
from lab.model.stability.sigma_reparam import SpectralNorm


def matrix(n_out, n_in, *values):
    """A matrix of the given singular values."""
    generator = torch.Generator().manual_seed(1)
    left, _ = torch.linalg.qr(torch.randn(n_out, len(values), generator=generator, dtype=torch.float64))
    right, _ = torch.linalg.qr(torch.randn(n_in, len(values), generator=generator, dtype=torch.float64))
    return left * torch.tensor(values, dtype=torch.float64) @ right.T


def module(n_out, n_in, *, gamma=1.0, iterations=1):
    return SpectralNorm(n_out, n_in, gamma=gamma, iterations=iterations).double()


@torch.no_grad()
@pytest.mark.parametrize(("n_out", "n_in"), [(7, 5), (4, 9)])
def test_the_first_weight_has_the_spectral_norm_gamma(n_out, n_in):
    weight = matrix(n_out, n_in, 3.0, 0.5, 0.2)
    used = module(n_out, n_in, gamma=0.75)(weight)
    torch.testing.assert_close(torch.linalg.svdvals(used)[0].item(), 0.75, rtol=1e-12, atol=0)
    torch.testing.assert_close(used, 0.75 * weight / 3, rtol=1e-12, atol=1e-14)


@torch.no_grad()
@pytest.mark.parametrize("iterations", [1, 3])
def test_the_estimate_follows_a_weight_that_is_trained(iterations):
    """With singular values 1 and 1/4, an iteration takes the error of σ down by 4⁴."""
    part, errors = module(7, 5, iterations=iterations), []
    part(matrix(7, 5, 3.0, 0.1))
    other = matrix(5, 7, 1.0, 0.25).T
    for step in range(4):
        used = part(other * (1 + 1e-9 * step))
        errors.append(abs(torch.linalg.svdvals(used)[0].item() - 1))
    assert errors[0] > 1e-12
    for before, after in pairwise(errors):
        assert after <= max(before * 4 ** (-4 * iterations) * 1.1, 1e-14)
    assert errors[-1] < 1e-8


def test_the_gradient_is_that_of_the_exact_formula():
    weight = matrix(7, 5, 3.0, 0.5, 0.2).requires_grad_()
    part = module(7, 5, gamma=0.75)
    dy = torch.randn(7, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    exact = part.gamma / torch.linalg.matrix_norm(weight, 2) * weight
    for mine, other in zip(
        torch.autograd.grad(part(weight), (weight, part.gamma), dy),
        torch.autograd.grad(exact, (weight, part.gamma), dy),
        strict=True,
    ):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-12)


@torch.no_grad()
def test_a_weight_of_zeros_is_left_so_and_can_be_left():
    part = module(7, 5)
    assert not part(torch.zeros(7, 5, dtype=torch.float64)).any()
    for step in range(12):
        used = part(matrix(7, 5, 2.0, 0.1) * (1 + 1e-9 * step))
    torch.testing.assert_close(torch.linalg.svdvals(used)[0].item(), 1.0, rtol=1e-10, atol=0)


@torch.no_grad()
def test_in_bf16_the_norm_is_taken_in_fp32():
    part, weight = SpectralNorm(7, 5, gamma=1.0, iterations=1), matrix(7, 5, 3.0, 0.5).float()
    with torch.autocast("cpu", torch.bfloat16):
        used = part(weight)
    assert used.dtype == torch.float32
    torch.testing.assert_close(torch.linalg.svdvals(used)[0].item(), 1.0, rtol=1e-6, atol=0)


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_every_map_of_the_model_is_normalised_but_no_table(tied):
    net, seen = model(stability="sigma_reparam", tied=tied), []
    for name, part in net.named_modules():
        if isinstance(part, SpectralNorm):
            seen.append(name.removesuffix(".reparametrize.0"))
    assert sorted(seen) == sorted(name for name, part in net.named_modules() if isinstance(part, Linear))
    assert ("head" in seen) is not tied
    if tied:
        assert net.head_weight() is net.embedding.weight


def objective(net, ids):
    return token_loss(net, net(ids)[0], ids.roll(-1, dims=1), denominator=ids.numel()).objective


def gradients(net):
    return [p.grad.clone() for p in net.parameters()]


def test_parts_of_a_batch_add_up():
    """All parts of a step see the weight's one σ."""
    ids, outcomes = tokens(4), []
    for parts in (1, 4):
        net = shaken(model(stability="sigma_reparam").double())
        for _ in range(2):
            net.zero_grad()
            for part in ids.chunk(parts):
                token_loss(net, net(part)[0], part, denominator=ids.numel()).objective.backward()
            with torch.no_grad():
                for p in net.parameters():
                    p -= 0.1 * p.grad
        outcomes.append(gradients(net))
    for whole, summed in zip(*outcomes, strict=True):
        torch.testing.assert_close(summed, whole, rtol=1e-9, atol=1e-12)


def test_blocks_that_are_shared_can_be_trained():
    net, ids = model(stability="sigma_reparam", ends={"layers_shared": SIZES.n_layers}), tokens()
    objective(net, ids).backward()
    assert all(p.grad.isfinite().all() for p in net.parameters())


@torch.no_grad()
def test_evaluation_remembers_nothing():
    net, ids = model(stability="sigma_reparam"), tokens()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    net.eval()
    net(ids)
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
    net.train()
    net(ids)
    after = net.state_dict()
    changed = {name.rsplit(".", 1)[1] for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"u", "v", "sigma"}


@torch.no_grad()
def test_a_state_that_is_taken_over_goes_on_alike():
    """Also in the number of iterations of the next estimate."""
    first, second = (model(stability="sigma_reparam", seed=seed) for seed in (1, 2))
    first(tokens())
    second.load_state_dict(first.state_dict())
    for net in (first, second):
        for p in net.parameters():
            p *= 1.01
            p += 0.001
    assert torch.equal(first.logits(tokens()), second.logits(tokens()))
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name]), name


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [("gamma", 0, "gamma 0 must be > 0"), ("iterations", 0, "iterations 0 must be >= 1")],
)
def test_what_is_refused(key, value, said):
    with pytest.raises(ConfigError) as refused:
        config("stability", "sigma_reparam", **{key: value})
    assert str(refused.value) == said
