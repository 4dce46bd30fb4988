"""Softmax attention of queries over keys and values that are given, by a fused kernel or by plain products.

Query head n reads key/value head n // (N / K). Scores are q·k times a scale, plus the positions' bias, then what
stability does to them, then the mask, then the softmax. Where a kernel may be used and no bias is in the way, most
keys that a sparse mask hides are left out: ``lab.model.block_attention``.
"""

import torch
from torch import Tensor

from lab.model.attention_mask import FULL, attention_mask
from lab.model.attn import Attention, AttnParts
from lab.model.block_attention import Blocks, fused
from lab.model.layer_spec import LayerSpec
from lab.model.position import LayerPosition
from lab.model.spans import Spans
from lab.model.stability import AttentionStability


class SoftmaxAttention(Attention):
    """What attentions with a softmax over the keys have in common."""

    n_heads: int
    n_kv_heads: int
    scale: float
    position: LayerPosition
    own_weights = False
    """Whether ``weigh`` is something else than a softmax over the keys, which no fused kernel computes."""

    def __init__(self, layer: LayerSpec, parts: AttnParts) -> None:
        super().__init__()
        self.layer, self.asked_path, self.blocks = layer, parts.path, layer.mask.blocks
        self.dropout = parts.regularization.attention(layer)

    def take(self, position: LayerPosition, stability: AttentionStability | None) -> None:
        """Own the layer's hooks, once the projections are made."""
        self.position, self.stability = position, stability or AttentionStability()
        self.biased = type(position).score_bias is not LayerPosition.score_bias
        seen = self.stability.changes_scores or position.biases_values or self.dropout is not None
        seen = seen or self.own_weights
        self.path = "plain" if seen else self.asked_path  # a fused kernel shows neither scores nor weights

    def attend(
        self, q_BTNH: Tensor, k_BSKH: Tensor, v_BSKH: Tensor, pos_T: range, pos_S: Spans, bias: Tensor | None
    ) -> Tensor:
        """Weighted sums of values, (B, T, N, width of a value); ``bias`` is the positions' part of the scores."""
        compute = self._plain if self.path == "plain" else self._fused
        return compute(q_BTNH, k_BSKH, v_BSKH, pos_T, pos_S, bias)

    def position_bias(self, q_BTNH: Tensor, pos_T: range, pos_S: Spans) -> Tensor | None:
        """What positions add to the scores; they are asked for one span of the keys at a time."""
        parts = [self.position.score_bias(q_BTNH, pos_T, span, self.scale) for span in pos_S]
        found = [part for part in parts if part is not None]
        return torch.cat(found, dim=-1) if len(found) > 1 else parts[0]

    def position_values(self, weights_BNTS: Tensor, pos_T: range, pos_S: Spans) -> Tensor | None:
        """What positions add to the output of each head, the sum over spans of the keys."""
        weights = torch.split(weights_BNTS, [len(span) for span in pos_S], dim=-1)
        parts = [self.position.value_bias(w, pos_T, span) for w, span in zip(weights, pos_S, strict=True)]
        found = [part for part in parts if part is not None]
        return torch.stack(found).sum(0) if len(found) > 1 else parts[0]

    def keys(self, seq_len: int) -> float:
        """Keys that a query is multiplied with, on the mean over a sequence; all of them but for blocks."""
        blocks = self._blocks(seq_len)
        return seq_len if blocks is None or self.path == "plain" or self.biased else blocks.keys(seq_len)

    def _blocks(self, length: int) -> Blocks | None:
        return self.blocks if self.blocks is not None and length >= self.blocks.least else None

    def weigh(self, scores_BNTS: Tensor) -> Tensor:
        """Weights of the keys, from scores in which hidden keys have minus infinity."""
        return torch.softmax(scores_BNTS, dim=-1)

    def _fused(
        self, q_BTNH: Tensor, k_BSKH: Tensor, v_BSKH: Tensor, pos_T: range, pos_S: Spans, bias: Tensor | None
    ) -> Tensor:
        q_BNTH, k_BKSH, v_BKSH = (x.transpose(1, 2) for x in (q_BTNH, k_BSKH, v_BSKH))
        square = len(pos_T) == k_BSKH.shape[1]
        blocks = self._blocks(len(pos_T)) if square and pos_T.start == 0 and bias is None else None
        if blocks is not None:
            return blocks.attend(q_BNTH, k_BKSH, v_BKSH, self.scale).transpose(1, 2)
        mask = None
        if bias is not None or self.layer.mask != FULL or not square:
            mask = attention_mask(self.layer.mask, pos_T, pos_S, q_BTNH)
            mask = mask if bias is None else (mask + bias).to(q_BTNH.dtype)
        return fused(q_BNTH, k_BKSH, v_BKSH, self.scale, mask).transpose(1, 2)

    def _plain(
        self, q_BTNH: Tensor, k_BSKH: Tensor, v_BSKH: Tensor, pos_T: range, pos_S: Spans, bias: Tensor | None
    ) -> Tensor:
        batch, length, source = q_BTNH.shape[0], len(pos_T), k_BSKH.shape[1]
        kv_heads, groups = k_BSKH.shape[2], self.n_heads // k_BSKH.shape[2]
        # Queries that share a key/value head become more rows of one product: (B K, G T, H) x (B K, H, S).
        q_BTKGH = q_BTNH.reshape(batch, length, kv_heads, groups, -1)
        q_ARH = q_BTKGH.permute(0, 2, 3, 1, 4).reshape(batch * kv_heads, groups * length, -1)
        k_AHS = k_BSKH.permute(0, 2, 3, 1).flatten(0, 1)
        v_ASH = v_BSKH.transpose(1, 2).flatten(0, 1)
        mask_TS = attention_mask(self.layer.mask, pos_T, pos_S, q_BTNH)
        inside = bias is None and not self.stability.changes_scores and not self.own_weights
        if inside:  # scale and mask within the product
            by_head = mask_TS.dim() == 3
            mask = mask_TS.view(kv_heads, -1, source).repeat(batch, 1, 1) if by_head else mask_TS.repeat(groups, 1)
            scores_ARS = torch.baddbmm(mask, q_ARH, k_AHS, alpha=self.scale)
            weights_ARS = torch.softmax(scores_ARS, dim=-1)
        else:
            scores_BNTS = (q_ARH @ k_AHS * self.scale).view(batch, self.n_heads, length, source)
            scores_BNTS = scores_BNTS if bias is None else scores_BNTS + bias
            scores_BNTS = self.stability.scores(scores_BNTS) + mask_TS
            weights_ARS = self.weigh(scores_BNTS).view(q_ARH.shape[0], -1, source)
        weights_BNTS = weights_ARS.view(batch, self.n_heads, length, source)
        if self.dropout is not None:
            weights_BNTS = self.dropout(weights_BNTS)
            weights_ARS = weights_BNTS.view_as(weights_ARS)
        y_BKGTH = (weights_ARS @ v_ASH).view(batch, kv_heads, groups, length, -1)
        y_BTNH = y_BKGTH.permute(0, 3, 1, 2, 4).flatten(2, 3)
        extra = self.position_values(weights_BNTS, pos_T, pos_S)
        if extra is None:
            return y_BTNH
        return y_BTNH + extra.repeat(1, 1, 1, y_BTNH.shape[-1] // extra.shape[-1])  # wide values: once a width
