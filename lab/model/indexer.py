"""The lightning indexer of DeepSeek sparse attention: which keys a query attends to, and what teaches it.

I_ts = sum over its heads j of w_tj ReLU(q_tj · k_s): DeepSeek-V3.2-Exp's report, equation 1. Its queries come from
the query latent of MLA, or from the layer's input where there is none; its one key per token passes a LayerNorm
(eps 1e-6); w comes from the input, divided by the square roots of the number and of the width of its heads. Scores
are fp32 at least. The authors' Hadamard transform and FP8 leave these products as they are but for rounding, and
are left out.

Where ``position`` rotates the layer, the first part of index queries and keys is rotated too, by the same
frequencies, in the half-split layout whatever the layer's own; the first public code paired them interleaved.
Other positions do not reach the indexer: with ``none``, and with biases of scores, it sees content alone.

What goes in is detached, so that nothing else learns from the indexer, and the indexer learns from nothing but
KL(p_t || softmax(I_t)), p_t being the layer's attention summed over heads, over its sum, detached. Letters beside
the legend's: I heads of the indexer, X keys that a query attends to.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lab.model.layers import LayerNorm, Linear
from lab.model.position import LayerPosition

EPS = 1e-6
"""Of the LayerNorm of index keys, in DeepSeek's code."""
BITS = 17
"""Leading bits of a score that decide on its rank; fp32 has 24."""


@dataclass(frozen=True)
class Index:
    """What the indexer makes of some positions."""

    q_BTIH: Tensor
    w_BTI: Tensor
    k_BSH: Tensor
    """Of all positions so far, where a cache has more."""

    def block(self, first: int, last: int, n_keys: int) -> "Index":
        """The queries from ``first`` up to ``last``, and the first ``n_keys`` keys."""
        return Index(self.q_BTIH[:, first:last], self.w_BTI[:, first:last], self.k_BSH[:, :n_keys])

    def scores(self, hidden_TS: Tensor) -> Tensor:
        """I_BTS plus ``hidden_TS``, in fp32 at least whatever the precision of training."""
        wide = hidden_TS.dtype
        (batch, length, n_heads), source = self.w_BTI.shape, self.k_BSH.shape[1]
        with torch.autocast(self.q_BTIH.device.type, enabled=False):
            q_BRH = self.q_BTIH.to(wide).flatten(1, 2)
            products_MIS = (q_BRH @ self.k_BSH.to(wide).transpose(1, 2)).relu().view(-1, n_heads, source)
            w_M1I = self.w_BTI.to(wide).reshape(-1, 1, n_heads)
            return (w_M1I @ products_MIS).view(batch, length, source) + hidden_TS

    @property
    def dtype(self) -> torch.dtype:
        """That of scores."""
        return torch.promote_types(self.q_BTIH.dtype, torch.float32)


class Indexer(nn.Module):
    """Makes the index queries, keys and weights of heads of a layer."""

    def __init__(
        self, query_dim: int, dim: int, *, n_heads: int, head_dim: int, rope_dim: int, position: LayerPosition
    ) -> None:
        super().__init__()
        self.n_heads, self.head_dim, self.rope_dim = n_heads, head_dim, rope_dim
        self.q = Linear(query_dim, n_heads * head_dim, bias=False)
        self.k = Linear(dim, head_dim, bias=False)
        self.k_norm = LayerNorm(head_dim, eps=EPS)
        self.w = Linear(dim, n_heads, bias=False)
        self.rotation = position.half_split()

    def forward(self, query_BTL: Tensor, x_BTD: Tensor, pos_T: range) -> Index:
        """For new positions; no gradient goes back into what is given."""
        query_BTL, x_BTD = query_BTL.detach(), x_BTD.detach()
        q_BTIH = self.q(query_BTL).unflatten(-1, (self.n_heads, self.head_dim))
        k_BT1H = self.k_norm(self.k(x_BTD)).unsqueeze(2)
        if self.rotation is not None:
            (q, q_rest), (k, k_rest) = (
                y.split((self.rope_dim, self.head_dim - self.rope_dim), dim=-1) for y in (q_BTIH, k_BT1H)
            )
            q, k = self.rotation.rotate(q, k, pos_T)
            q_BTIH, k_BT1H = torch.cat((q, q_rest), dim=-1), torch.cat((k, k_rest), dim=-1)
        return Index(q_BTIH, self.w(x_BTD) * (self.n_heads * self.head_dim) ** -0.5, k_BT1H[:, :, 0])

    def flops(self, seq_len: int) -> float:
        """2 I (H + 1) S per token: products and their weighted sum.

        A linear map counts for three products with its weight in training; here no gradient goes back into what
        it is given, so that a third is taken off.
        """
        weights = sum(linear.weight.numel() for linear in (self.q, self.k, self.w))
        return 2.0 * self.n_heads * (self.head_dim + 1) * seq_len - 2.0 * weights / 3


def best(scores_BTS: Tensor, n_keys: int) -> Tensor:
    """Whether each key is among the ``n_keys`` of the largest scores; of equal ones the nearer to the query wins.

    Hidden keys, with minus infinity, are never chosen. The choice does not depend on how many keys are hidden after
    a query, so that decoding makes the one of the whole sequence. Only ``BITS`` of a score are compared: without
    rotation equal tokens have equal keys in the first layer, and their scores may be apart by a rounding.
    """
    known_BTS = (scores_BTS.detach().float().view(torch.int32) & -(1 << 24 - BITS)).view(torch.float32)
    least_BT1 = known_BTS.topk(n_keys, dim=-1).values[..., -1:]
    above_BTS, equal_BTS = known_BTS > least_BT1, known_BTS == least_BT1
    room_BT1 = n_keys - above_BTS.sum(-1, keepdim=True)
    rank_BTS = equal_BTS.flip(-1).cumsum(-1).flip(-1)
    return (above_BTS | (equal_BTS & (rank_BTS <= room_BT1))) & (scores_BTS > -math.inf)


def places(chosen_BTS: Tensor, n_keys: int) -> tuple[Tensor, Tensor]:
    """Where the chosen keys are, from the first on, (B, T, X), and which of these places hold one."""
    source = chosen_BTS.shape[-1]
    slot_BTS = torch.where(chosen_BTS, chosen_BTS.cumsum(-1) - 1, n_keys)  # what is not chosen goes beyond the last
    s_BTS = torch.arange(source, device=chosen_BTS.device).expand_as(slot_BTS)
    at_BTX = s_BTS.new_zeros((*chosen_BTS.shape[:-1], n_keys + 1)).scatter(-1, slot_BTS, s_BTS)[..., :-1]
    held_BT1 = chosen_BTS.sum(-1, keepdim=True)
    return at_BTX, torch.arange(n_keys, device=at_BTX.device) < held_BT1


def divergence(p_BTX: Tensor, scores_BTX: Tensor, seen_BTX: Tensor) -> Tensor:
    """The sum over queries of KL(p || softmax of scores) over the keys that are seen, in nats."""
    log_q_BTX = F.log_softmax(scores_BTX.masked_fill(~seen_BTX, -math.inf), dim=-1).masked_fill(~seen_BTX, 0)
    p_BTX = p_BTX.detach().to(log_q_BTX.dtype)
    return (torch.xlogy(p_BTX, p_BTX) - p_BTX * log_q_BTX).sum()
