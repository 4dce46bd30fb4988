"""Softmax with a sink, exp(s_j) / (exp(sink_n) + sum over keys of exp(s)): GPT-OSS, arXiv:2508.10925.

What the weights of head n lack to one goes to no key. A sink is a logit of its own, after scale, positions, caps
and mask. ``learned``: one number per query head, here from 0 on, drawn from N(0, 0.02²) in the transformers code;
``zero``: all stay at 0, so the denominator is 1 + sum exp(s), "off by one", the zero sink of arXiv:2309.17453.
"""

from dataclasses import dataclass
from enum import StrEnum

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lab.model.attention import DotProductAttention, GroupedConfig
from lab.model.attn import Attention, AttnParts
from lab.model.layer_spec import LayerSpec
from lab.model.sizes import Dims
from lab.model.spans import Spans

ALIGN = 8
"""Numbers that a head is made wider by for the fused kernel, which wants multiples of it."""


class Sink(StrEnum):
    """What the logits of the sinks are."""

    learned = "learned"
    zero = "zero"


@dataclass(frozen=True, kw_only=True)
class Config(GroupedConfig):
    """Grouped-query attention that may look at nothing."""

    sink: Sink
    """``learned``: a logit per query head; ``zero``: 0 in all."""

    def branch(self, dims: Dims, layer: LayerSpec, parts: AttnParts) -> Attention:
        """The module of one layer."""
        return SinkAttention(self, dims, layer, parts)


class SinkAttention(DotProductAttention):
    """A softmax over the keys and one more that has no value."""

    sink: Tensor

    def __init__(self, config: Config, dims: Dims, layer: LayerSpec, parts: AttnParts) -> None:
        super().__init__(config, dims, layer, parts)
        self.own_weights = True  # of the plain path; the fused one, chosen by now, has a way of its own
        sink_N = torch.zeros(self.n_heads)
        if config.sink == Sink.learned:
            self.sink = nn.Parameter(sink_N)
        else:
            self.register_buffer("sink", sink_N, persistent=False)

    def weigh(self, scores_BNTS: Tensor) -> Tensor:
        """A softmax with one more column, which is then left out."""
        sink_BNT1 = self.sink[:, None, None].expand(*scores_BNTS.shape[:-1], 1)
        return torch.cat((scores_BNTS, sink_BNT1), dim=-1).softmax(dim=-1)[..., :-1]

    def _fused(
        self, q_BTNH: Tensor, k_BSKH: Tensor, v_BSKH: Tensor, pos_T: range, pos_S: Spans, bias: Tensor | None
    ) -> Tensor:
        """One more entry of each head's queries holds its sink, and one more key, in front, has 1 there, else 0.

        So the sink costs no table of scores, as a bias would, and the kernel for causal attention can be used: it
        wants as many queries as keys, hence an idle query in front.
        """
        width, more = q_BTNH.shape[-1], (0, ALIGN, 0, 0, 1, 0)
        sink_N1 = (self.sink / self.scale).to(q_BTNH.dtype)[:, None]
        q_BTNH = torch.cat((q_BTNH, sink_N1.expand(*q_BTNH.shape[:-1], 1)), dim=-1)
        sink_key = torch.zeros(k_BSKH.shape[2], width + ALIGN, dtype=k_BSKH.dtype, device=k_BSKH.device)
        sink_key[:, width] = 1
        keys = F.pad(k_BSKH, (0, ALIGN))
        keys = torch.cat((sink_key.expand(keys.shape[0], 1, -1, -1), keys), dim=1)
        idle = len(pos_T) == k_BSKH.shape[1] and bias is None
        q_BTNH = F.pad(q_BTNH, (0, ALIGN - 1, 0, 0, int(idle), 0))
        if bias is not None:
            bias = F.pad(bias, (1, 0))
        pos_T, pos_S = range(pos_T.start - idle, pos_T.stop), (range(pos_S[0].start - 1, pos_S[0].stop),)
        return super()._fused(q_BTNH, keys, F.pad(v_BSKH, more), pos_T, pos_S, bias)[:, int(idle) :, :, :width]
