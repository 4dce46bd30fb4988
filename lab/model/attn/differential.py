"""Differential attention, (softmax(Q1 K1) - lam softmax(Q2 K2)) V: arXiv:2410.05258, section 2.1, equations 1 to 3.

Heads in pairs make half as many, each with two queries and keys of the usual width, model.head_dim, and values of
twice that: as many weights as in MHA. Positions and stability act on the N queries, and on keys and values of the
usual width. lam = exp(lq1·lk1) - exp(lq2·lk2) + lam_init, four vectors a layer, all heads alike; then each head is
normed (RMS, over twice the width) and multiplied by 1 - lam_init, where lam_init = 0.8 - 0.6 exp(-0.3 (l - 1)) in
layer l, from 1.

Implementations disagree. The norm has a gain for all heads in the authors' code and none in transformers'
DiffLlama: ``norm_gain``. With grouped keys the authors' code for fused kernels pairs Q1 with K1 and Q2 with K2 of
the group, as here and as the paper has it, while their plain code repeats keys one by one, so that both queries of
a pair may see the same one. The vectors, drawn from N(0, 0.1²) there, start at ±0.1 here, with products of zero
for even widths, so lam starts at lam_init.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lab.component import check_number
from lab.errors import ConfigError
from lab.model.attention import DotProductAttention, GroupedConfig
from lab.model.attn import Attention, AttnParts
from lab.model.layer_spec import LayerSpec
from lab.model.layers import RMSNorm, RMSNormPlain
from lab.model.sizes import Dims
from lab.model.spans import Spans

START = 0.1
"""Size of the entries of lq and lk at first."""


@dataclass(frozen=True, kw_only=True)
class Config(GroupedConfig):
    """Grouped-query attention of pairs; ``n_kv_heads`` and ``heads_per_kv`` count pairs, of n_heads / 2."""

    lambda_init: int | float | None
    """Where lam starts, in [0, 1), and 1 minus the factor of each head; null: by depth, 0.2 in the first layer."""
    norm_gain: bool
    """Whether the norm of the heads has a gain, one vector for all heads."""
    eps: float
    """Of that norm; 1e-5 in the authors' code."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("eps", self.eps, above=0)
        if self.lambda_init is not None:
            check_number("lambda_init", self.lambda_init, least=0, below=1)

    def kv_heads(self, dims: Dims) -> int:
        """Keys, two for each pair of key/value heads.

        Raises:
            ConfigError: heads do not go in pairs, or pairs not in groups.
        """
        pairs, odd = divmod(dims.n_heads, 2)
        if odd:
            raise ConfigError(f"attn=differential takes heads in pairs: model.n_heads {dims.n_heads} must be even")
        n_kv_pairs = self.kv_groups(pairs)
        if pairs % n_kv_pairs:
            raise ConfigError(
                f"attn.n_kv_heads {n_kv_pairs} does not divide the {pairs} pairs of model.n_heads {dims.n_heads}"
            )
        return 2 * n_kv_pairs

    def branch(self, dims: Dims, layer: LayerSpec, parts: AttnParts) -> Attention:
        """The module of one layer."""
        return DifferentialAttention(self, dims, layer, parts)


class DifferentialAttention(DotProductAttention):
    """Attention of N heads to values of twice the width, of which pairs are subtracted.

    Keys are in the order pair, first or second; queries in the order pair of keys, first or second, query of the
    group, so that a query reads the key n // G as everywhere.
    """

    def __init__(self, config: Config, dims: Dims, layer: LayerSpec, parts: AttnParts) -> None:
        super().__init__(config, dims, layer, parts)
        by_depth = 0.8 - 0.6 * math.exp(-0.3 * layer.index)
        self.lambda_init = by_depth if config.lambda_init is None else config.lambda_init
        sign_H = 1.0 - 2.0 * (torch.arange(self.head_dim) % 2)
        self.lambda_q1, self.lambda_q2 = (nn.Parameter(torch.full_like(sign_H, START)) for _ in range(2))
        self.lambda_k1, self.lambda_k2 = (nn.Parameter(START * sign_H) for _ in range(2))
        norm = RMSNorm if config.norm_gain else RMSNormPlain
        self.head_norm = norm(2 * self.head_dim, eps=config.eps)

    def lam(self) -> Tensor:
        """The factor of the second softmax, a number."""
        first = (self.lambda_q1 * self.lambda_k1).sum().exp()
        return first - (self.lambda_q2 * self.lambda_k2).sum().exp() + self.lambda_init

    def attend(
        self, q_BTNH: Tensor, k_BSKH: Tensor, v_BSKH: Tensor, pos_T: range, pos_S: Spans, bias: Tensor | None
    ) -> Tensor:
        """Differences of what pairs of queries find, normed, (B, T, N / 2, 2 H)."""
        batch, length, n_heads, width = q_BTNH.shape
        wide = v_BSKH.reshape(batch, v_BSKH.shape[1], -1, 2 * width)  # a pair's two values, side by side, are one
        found = super().attend(q_BTNH, k_BSKH, wide.repeat_interleave(2, dim=2), pos_T, pos_S, bias)
        groups = n_heads // self.n_kv_heads
        first, second = found.reshape(batch, length, -1, 2, groups, 2 * width).unbind(3)
        y_BTNH: Tensor = self.head_norm(first - self.lam() * second)
        return (1 - self.lambda_init) * y_BTNH.flatten(2, 3)

    def _fused(
        self, q_BTNH: Tensor, k_BSKH: Tensor, v_BSKH: Tensor, pos_T: range, pos_S: Spans, bias: Tensor | None
    ) -> Tensor:
        """With zeros on queries and keys, since the fast kernels want them as wide as values."""
        more = (0, self.head_dim)
        return super()._fused(F.pad(q_BTNH, more), F.pad(k_BSKH, more), v_BSKH, pos_T, pos_S, bias)

    def flops(self, seq_len: int) -> float:
        """6 N H S per token: scores, and sums over values of twice the width."""
        return 6.0 * self.n_heads * self.head_dim * seq_len + self.position.flops(seq_len)
