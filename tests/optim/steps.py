"""Random tensors, parameter groups and steps for the optimizers' tests."""

import torch


def random(*shape, seed, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=dtype)


def group(*parameters, decay=0.0, lr_scale=1.0, hidden=True):
    return {"params": list(parameters), "weight_decay": decay, "lr_scale": lr_scale, "hidden": hidden}


def set_rates(optim, optimizer, factor):
    """As the loop does before each step."""
    for each in optimizer.param_groups:
        each["lr"] = optim.lr * factor * each["lr_scale"]


def trajectory(optimizer, parameter, gradients):
    """The parameter after each step."""
    points = []
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
        points.append(parameter.detach().clone())
    return points
