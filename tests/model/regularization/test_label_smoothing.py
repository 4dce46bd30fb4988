import pytest
import torch
import torch.nn.functional as F
from contracts.menu import SIZES, config, model, shaken, tokens

from lab.errors import ConfigError
from lab.model.logit_stats import LogitStats
from lab.model.loss import token_loss


def smoothing(share):
    return config("regularization", "label_smoothing", share=share)


def by_pytorch(z_CV, target_C, share):
    return F.cross_entropy(z_CV, target_C, reduction="none", label_smoothing=share)


def by_the_paper(z_CV, target_C, share):
    """Cross-entropy with q = (1 - a) one-hot + a / V, written as a sum."""
    size = z_CV.shape[-1]
    q_CV = torch.full_like(z_CV, share / size)
    q_CV[torch.arange(len(z_CV)), target_C] += 1 - share
    return -(q_CV * torch.log_softmax(z_CV, dim=-1)).sum(dim=-1)


@pytest.mark.parametrize("reference", [by_pytorch, by_the_paper])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_the_loss_and_its_gradient_by_the_logits(reference, share):
    generator = torch.Generator().manual_seed(1)
    z_CV = torch.randn(7, 13, generator=generator, dtype=torch.float64).mul_(3).requires_grad_()
    target_C = torch.randint(13, (7,), generator=generator)
    expected_C = reference(z_CV, target_C, share)
    (expected_CV,) = torch.autograd.grad(expected_C.sum(), z_CV)
    part = smoothing(share).build(SIZES)
    stats = LogitStats(z_CV.detach().clone(), target_C, with_mean=part.needs_mean_logit)
    loss_C = part.loss(stats.lse - stats.target, stats)
    torch.testing.assert_close(loss_C.detach(), expected_C.detach(), rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(stats.logit_gradient(loss_C), expected_CV, rtol=1e-13, atol=1e-13)


def test_a_models_objective_is_smoothed_and_its_reported_loss_is_not():
    net, ids = shaken(model(regularization=smoothing(0.3))), tokens()
    target = ids.roll(-1, dims=1)
    loss = token_loss(net, net(ids)[0], target, denominator=target.numel())
    z_CV, target_C = net.logits(ids).flatten(0, 1), target.flatten()
    expected = F.cross_entropy(z_CV, target_C, label_smoothing=0.3)
    torch.testing.assert_close(loss.objective, expected, rtol=1e-5, atol=0)
    torch.testing.assert_close(loss.nats / target.numel(), F.cross_entropy(z_CV, target_C), rtol=1e-5, atol=0)
    parameters = list(net.parameters())
    found, wanted = (torch.autograd.grad(value, parameters) for value in (loss.objective, expected))
    for one, other in zip(found, wanted, strict=True):
        assert (one - other).norm() <= 1e-4 * other.norm()


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_what_is_refused(share):
    with pytest.raises(ConfigError, match=rf"^share {share} must be >= 0 and < 1$"):
        smoothing(share)
