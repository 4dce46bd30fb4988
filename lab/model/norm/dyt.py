"""Dynamic tanh in place of a norm, g tanh(alpha x) + b with one learned alpha: arXiv:2503.10622, section 4.

Nothing is divided, so the size of the residual stream still reaches the branches. For language models the paper
lets alpha start higher before attention than elsewhere, and lower the wider the model: 0.8 and 0.2 at 7B, 0.6 and
0.15 at 13B, 0.2 and 0.05 above. It also multiplies embeddings by a learned number that starts at sqrt(D), which is
no part of this norm; its code for LLaMA leaves out the bias.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lab.component import check_number
from lab.model.norm import NormConfig, Site


@dataclass(frozen=True, kw_only=True)
class Config(NormConfig):
    """A squashing function with a learned slope; it computes no statistics."""

    alpha_attn: float
    """Where alpha starts at an attention branch, per unit of activation, > 0."""
    alpha: float
    """Where alpha starts everywhere else, > 0."""

    def __post_init__(self) -> None:
        check_number("alpha_attn", self.alpha_attn, above=0)
        check_number("alpha", self.alpha, above=0)

    def build(self, dim: int, *, site: Site) -> nn.Module:
        """A dynamic tanh with its gain at one and its bias at zero."""
        return DynamicTanh(dim, alpha=self.alpha_attn if site == "attn" else self.alpha)


class DynamicTanh(nn.Module):
    """Squashes each entry, then applies a learned gain and bias."""

    def __init__(self, dim: int, *, alpha: float) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.tensor(alpha))
        self.gain = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Squash each vector, in the gain's precision; the result has the type of ``x_BTD``."""
        y_BTD = torch.tanh(self.alpha * x_BTD.to(self.gain.dtype))
        return torch.addcmul(self.bias, self.gain, y_BTD).to(x_BTD.dtype)
