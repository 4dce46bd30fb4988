"""DeepSeek sparse attention on grouped heads, single keys by an indexer: report of DeepSeek-V3.2-Exp, section 2.

The report has it on MLA, which is ``attn=dsa_mla``. Here keys and values are those of ``attn=gqa`` and index
queries come from the layer's input, there being no latent. All query heads of a token attend to the same keys.
``lab.model.indexed_attention`` and ``lab.model.indexer`` say the rest.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from lab.model.attention import DotProductAttention, GroupedConfig
from lab.model.attn import Attention, AttnParts, Losses
from lab.model.indexed_attention import Heads, IndexedAttention, IndexedCache, IndexedConfig
from lab.model.layer_spec import LayerSpec
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(IndexedConfig, GroupedConfig):
    """Grouped heads with an indexer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_indexer()

    def branch(self, dims: Dims, layer: LayerSpec, parts: AttnParts) -> Attention:
        """The module of one layer."""
        return IndexedGroupedAttention(self, dims, layer, parts)


class IndexedGroupedAttention(IndexedAttention, DotProductAttention):
    """Softmax attention over the chosen keys."""

    def __init__(self, config: Config, dims: Dims, layer: LayerSpec, parts: AttnParts) -> None:
        super().__init__(config, dims, layer, parts)
        self.add_indexer(config, dims.dim, dims, parts)

    def forward(
        self,
        x_BTD: Tensor,
        cache: Any = None,
        offset: int = 0,
        shared: dict[str, Any] | None = None,
    ) -> tuple[Tensor, Losses]:
        """Attend to the best of all positions up to each query's own."""
        pos_T = range(offset, offset + x_BTD.shape[1])
        q_BTNH, k_BTKH, v_BTKH = (m(x_BTD).unflatten(-1, (-1, self.head_dim)) for m in (self.q, self.k, self.v))
        q_BTNH, k_BTKH, v_BTKH = self.stability.qkv(q_BTNH, k_BTKH, v_BTKH)
        turned_BTNH, k_BTKH = self.position.rotate(q_BTNH, k_BTKH, pos_T)
        q_BTNH, k_BTKH = self.stability.rotated(turned_BTNH, k_BTKH, pos_T)
        index = self.indexer(x_BTD, x_BTD, pos_T)
        if cache is not None:
            index = cache.append(index)
            k_BTKH, v_BTKH, _ = cache.main.append(k_BTKH, v_BTKH, pos_T)
        pos_S = range(pos_T.stop - k_BTKH.shape[1], pos_T.stop)
        heads = Heads(q_BTNH, turned_BTNH, k_BTKH, v_BTKH, pos_T, pos_S)
        y_BTNH, losses = self.attend_best(heads, index, learns=self.training and cache is None)
        return self.out(y_BTNH.flatten(2)), losses

    def new_cache(self) -> Any:
        """An empty cache."""
        return IndexedCache(super().new_cache())

    def cache_bytes(self, n_tokens: int, *, element_bytes: int) -> int:
        """Keys and values, and an index key per token."""
        own = super().cache_bytes(n_tokens, element_bytes=element_bytes)
        return own + self.indexer.head_dim * n_tokens * element_bytes

    def flops(self, seq_len: int) -> float:
        """As with all keys, which the plain path multiplies, and the indexer's share: ``indexer.flops``."""
        return super().flops(seq_len) + self.indexer.flops(seq_len)
