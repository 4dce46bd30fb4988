"""Which keys a query may see: all earlier ones, the latest few, or those of its own chunk.

Query at position i, key at j, always j <= i. ``sliding``, width W: j > i - W, W keys with the query's own
(arXiv:2310.06825, section 2; kernels that count earlier keys alone mean W + 1). ``chunked``, width C:
floor(j / C) = floor(i / C), the local layers of Llama 4.
"""

import math

import torch
from torch import Tensor

from lab.model.layer_spec import LayerSpec


def attention_mask(layer: LayerSpec, pos_T: range, pos_S: range, like: Tensor) -> Tensor:
    """0 where a query may see a key, minus infinity where not; (T, S), type and device of ``like``."""
    mask_TS = torch.full((len(pos_T), len(pos_S)), -math.inf, dtype=like.dtype, device=like.device)
    ahead = pos_T.start - pos_S.start
    if layer.mask == "full":
        return mask_TS.triu_(diagonal=ahead + 1)
    assert layer.window is not None
    t_T1 = torch.arange(pos_T.start, pos_T.stop, device=like.device)[:, None]
    s_S = torch.arange(pos_S.start, pos_S.stop, device=like.device)
    near_TS = s_S > t_T1 - layer.window if layer.mask == "sliding" else s_S >= t_T1 - t_T1 % layer.window
    return mask_TS.masked_fill_(near_TS & (s_S <= t_T1), 0)


def kept(layer: LayerSpec) -> int | None:
    """Latest positions that a query to come may still see, so that a cache has to hold them; None: all."""
    return layer.window if layer.mask != "full" else None
