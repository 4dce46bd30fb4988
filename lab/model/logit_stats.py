"""What a loss may ask of the logits of a chunk of tokens, without holding their graph.

Training losses are functions of a few numbers per token: the logarithm of the softmax's denominator, the
target's logit, and where asked the largest and the mean logit. ``lab.model.loss`` differentiates a loss with
respect to these, and writes the gradient of the logits over the logits in closed form.
"""

import torch
from torch import Tensor


class LogitStats:
    """Per-token numbers of logits, each a leaf that a loss can be differentiated by.

    Logits of several models may come at once, with an axis in front that all numbers then have, too.
    """

    def __init__(self, z_CV: Tensor, target_C: Tensor, *, with_mean: bool, batch_lse: Tensor | None = None) -> None:
        """Take the numbers; ``z_CV`` is overwritten."""
        self.batch_lse = batch_lse
        """Mean logsumexp of all sequences computed at once, a constant; where ``needs_mean_lse`` is set."""
        self._target_C = target_C
        self.target = z_CV.gather(-1, target_C[..., None])[..., 0].requires_grad_()
        """Logit of the target."""
        self.mean = z_CV.mean(dim=-1).requires_grad_() if with_mean else None
        """Mean logit; only there where a component sets ``needs_mean_logit``."""
        with torch.no_grad():
            self._top_C1 = z_CV.amax(dim=-1, keepdim=True)
            self._exp_CV = z_CV.sub_(self._top_C1).exp_()
            self._sum_C1 = self._exp_CV.sum(dim=-1, keepdim=True)
            lse_C = (self._top_C1 + self._sum_C1.log())[..., 0]
        self.lse = lse_C.requires_grad_()
        """logsumexp over the vocabulary, nats."""
        self._max: Tensor | None = None

    def max(self) -> Tensor:
        """Largest logit."""
        if self._max is None:
            self._max = self._top_C1[..., 0].clone().requires_grad_()
        return self._max

    def logit_gradient(self, loss_C: Tensor) -> Tensor:
        """Gradient by the logits of the sum of ``loss_C``, a function of these numbers; can be taken once."""
        leaves = {"lse": self.lse, "target": self.target, "max": self._max, "mean": self.mean}
        asked = {name: leaf for name, leaf in leaves.items() if leaf is not None}
        grads = torch.autograd.grad(loss_C, list(asked.values()), torch.ones_like(loss_C), allow_unused=True)
        given = {name: grad[..., None] for name, grad in zip(asked, grads, strict=True) if grad is not None}
        with torch.no_grad():
            dz_CV = self._exp_CV
            top_C1 = dz_CV.argmax(dim=-1, keepdim=True) if "max" in given else None
            dz_CV.mul_(given["lse"] / self._sum_C1 if "lse" in given else 0.0)
            if "target" in given:
                dz_CV.scatter_add_(-1, self._target_C[..., None], given["target"])
            if top_C1 is not None:
                dz_CV.scatter_add_(-1, top_C1, given["max"])
            if "mean" in given:
                dz_CV.add_(given["mean"] / dz_CV.shape[-1])
        return dz_CV
