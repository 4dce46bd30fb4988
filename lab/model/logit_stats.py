"""What a loss may ask of the logits of a chunk of tokens, without holding their graph.

Training losses are functions of a few numbers per token: the logarithm of the softmax's denominator, the
target's logit, and where asked the largest and the mean logit. ``lab.model.loss`` differentiates a loss with
respect to these, and writes the gradient of the logits in closed form.
"""

import torch
from torch import Tensor


class LogitStats:
    """Per-token numbers of logits z_CV, each a leaf that a loss can be differentiated by."""

    def __init__(self, z_CV: Tensor, target_C: Tensor) -> None:
        self._z_CV = z_CV
        self.lse = torch.logsumexp(z_CV, dim=-1).requires_grad_()
        """logsumexp over the vocabulary, nats."""
        self.target = z_CV.gather(-1, target_C[:, None])[:, 0].requires_grad_()
        """Logit of the target."""
        self._max: tuple[Tensor, Tensor] | None = None
        self._mean: Tensor | None = None

    def max(self) -> Tensor:
        """Largest logit."""
        if self._max is None:
            value_C, index_C = self._z_CV.max(dim=-1)
            self._max = value_C.requires_grad_(), index_C
        return self._max[0]

    def mean(self) -> Tensor:
        """Mean logit."""
        if self._mean is None:
            self._mean = self._z_CV.mean(dim=-1).requires_grad_()
        return self._mean

    def logit_gradient(self, loss_C: Tensor, target_C: Tensor) -> Tensor:
        """Gradient of the sum of ``loss_C`` by the logits; overwrites them."""
        asked = [self.lse, self.target]
        extra = [t for t in (self._max[0] if self._max else None, self._mean) if t is not None]
        grads = torch.autograd.grad(loss_C, asked + extra, torch.ones_like(loss_C), allow_unused=True)
        with torch.no_grad():
            known = dict(zip(map(id, asked + extra), grads, strict=True))
            dlse, dtarget = grads[:2]
            z_CV = self._z_CV
            z_CV.sub_(self.lse[:, None]).exp_()
            if dlse is not None:
                z_CV.mul_(dlse[:, None])
            if dtarget is not None:
                z_CV.scatter_add_(-1, target_C[:, None], dtarget[:, None])
            if self._max is not None and (dmax := known[id(self._max[0])]) is not None:
                z_CV.scatter_add_(-1, self._max[1][:, None], dmax[:, None])
            if self._mean is not None and (dmean := known[id(self._mean)]) is not None:
                z_CV.add_(dmean[:, None] / z_CV.shape[-1])
        return z_CV
