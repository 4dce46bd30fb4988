"""Attention to the near past in most layers, and to all of it in some: windows and chunks of the keys."""

from abc import abstractmethod
from dataclasses import dataclass

from lab.component import check, check_number
from lab.model.attention import GroupedConfig, last_of
from lab.model.attention_mask import Mask
from lab.model.layer_spec import LayerSpec
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class LocalConfig(GroupedConfig):
    """What sliding windows and chunks have in common: a width, and layers that attend to everything."""

    window: int | None
    """Keys in reach of a local layer, the query's own counted; null: from ``window_share``."""
    window_share: float
    """Width of a local layer as a share of model.max_seq_len, used when ``window`` is null; in (0, 1]."""
    global_every: int | None
    """Every how many layers the last one attends to everything, as 2 in Gemma 2; null: none does."""
    global_theta: float | None
    """RoPE's base in the layers that attend to everything, as 1e6 in Gemma 3; null: as everywhere."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("window_share", self.window_share, above=0, most=1)
        for key in ("window", "global_every"):
            if getattr(self, key) is not None:
                check_number(key, getattr(self, key), least=1)
        if self.global_theta is not None:
            check_number("global_theta", self.global_theta, above=1)
            check(self.global_every is not None, "global_theta", self.global_theta, "needs attn.global_every")

    def layer(self, index: int, dims: Dims) -> LayerSpec:
        """Local, but for the last of every ``global_every`` layers."""
        position_on = not last_of(self.nope_every, index)
        if last_of(self.global_every, index):
            return LayerSpec(index=index, position_on=position_on, theta=self.global_theta)
        width = self.window if self.window is not None else max(1, round(self.window_share * dims.max_seq_len))
        return LayerSpec(index=index, mask=self.local_mask(width), position_on=position_on)

    @abstractmethod
    def local_mask(self, width: int) -> Mask:
        """The mask of the local layers."""
