"""The two shapes of a feed-forward branch: plain (arXiv:1706.03762, 3.3) and gated (arXiv:2002.05202, eq. 6).

In a gated one ``gate``, the W of the paper, passes the activation and ``up``, its V, does not. Code with one matrix
for both differs in which half comes first, so its weights need sorting before they fit here.
"""

from collections.abc import Callable

from torch import Tensor, nn

from lab.model.layers import Linear


class FeedForward(nn.Module):
    """``out(act(up(x)))``: 2 D F weights."""

    def __init__(self, dim: int, d_ff: int, *, act: Callable[[Tensor], Tensor], bias: bool) -> None:
        super().__init__()
        self.up = Linear(dim, d_ff, bias=bias)
        self.out = Linear(d_ff, dim, bias=bias)
        self.act = act

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Apply the branch at every position."""
        x_BTF = self.act(self.up(x_BTD))
        y_BTD: Tensor = self.out(x_BTF)
        return y_BTD


class GatedFeedForward(nn.Module):
    """``out(act(gate(x)) * up(x))``: 3 D F weights."""

    def __init__(self, dim: int, d_ff: int, *, act: Callable[[Tensor], Tensor], bias: bool) -> None:
        super().__init__()
        self.gate = Linear(dim, d_ff, bias=bias)
        self.up = Linear(dim, d_ff, bias=bias)
        self.out = Linear(d_ff, dim, bias=bias)
        self.act = act

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Apply the branch at every position."""
        x_BTF = self.act(self.gate(x_BTD)) * self.up(x_BTD)
        y_BTD: Tensor = self.out(x_BTF)
        return y_BTD
