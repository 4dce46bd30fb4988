"""The ``block`` group: how norms, branches and the residual stream are put together."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from lab.component import Component
from lab.model.attn import Attention, Losses
from lab.model.layer_spec import LayerSpec
from lab.model.norm import Site
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a block is made of; the block decides how many norms it takes and where."""

    norm: Callable[[Site], nn.Module]
    """Makes a norm of the model's width."""
    attn: Attention
    """The attention branch."""
    ffn: nn.Module
    """The feed-forward branch."""
    end: Callable[[Site], nn.Module]
    """Makes what follows a branch before it is added: stability's and regularization's modules."""


class Block(nn.Module, ABC):
    """One layer of the model. Subclasses add norms in ``__init__`` and write ``forward``."""

    def __init__(self, dims: Dims, layer: LayerSpec, parts: Parts) -> None:
        super().__init__()
        self.attn, self.ffn = parts.attn, parts.ffn
        self.attn_end, self.ffn_end = parts.end("attn"), parts.end("ffn")

    @abstractmethod
    def forward(
        self, x_BTD: Tensor, cache: Any = None, offset: int = 0, shared: dict[str, Any] | None = None
    ) -> tuple[Tensor, Losses]:
        """The residual stream after this layer, and the branches' auxiliary losses."""


@dataclass(frozen=True, kw_only=True)
class BlockConfig(Component, ABC):
    """Contract: build a block from its parts."""

    final_norm: ClassVar[bool] = True
    """Whether the model has a norm between the last block and the head."""
    embed_norm: ClassVar[bool] = False
    """Whether the model has a norm between the embedding and the first block."""
    passes_zero: ClassVar[bool] = True
    """Whether a branch whose last matrix is zero at the start still learns: not where the stream is multiplied by
    zero too, or is the branch alone."""

    def init_gain(self, name: str, dims: Dims) -> float:
        """Factor of the initial value of the weight ``name``, for a placement that comes with its own."""
        return 1.0

    @abstractmethod
    def build(self, dims: Dims, layer: LayerSpec, parts: Parts) -> Block:
        """One layer."""
