"""DeepSeek sparse attention on latents, as in DeepSeek-V3.2: an indexer chooses single tokens for MLA to attend to.

The indexer's queries come from the query latent, or from the layer's input where ``q_rank`` and its share are null.
Where chosen latents are gathered they are attended to in MLA's folded form, one key and value for all heads: report
of DeepSeek-V3.2-Exp, section 2. ``lab.model.indexed_attention`` and ``lab.model.indexer`` say the rest.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from lab.model.attn import Attention, AttnParts, Losses
from lab.model.indexed_attention import Heads, IndexedAttention, IndexedCache, IndexedConfig
from lab.model.latent_attention import LatentAttention, LatentConfig
from lab.model.layer_spec import LayerSpec
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(IndexedConfig, LatentConfig):
    """Latents with an indexer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_indexer()

    def build(self, dims: Dims, layer: LayerSpec, parts: AttnParts) -> Attention:
        """The branch of one layer.

        Raises:
            ConfigError: a position or stability choice needs the keys or values that MLA never forms.
        """
        return IndexedLatentAttention(self, dims, layer, parts)


class IndexedLatentAttention(IndexedAttention, LatentAttention):
    """Latent attention over the chosen tokens."""

    def __init__(self, config: Config, dims: Dims, layer: LayerSpec, parts: AttnParts) -> None:
        super().__init__(config, dims, layer, parts)
        self.add_indexer(config, self.q_rank or dims.dim, dims, parts)

    def forward(
        self,
        x_BTD: Tensor,
        cache: Any = None,
        offset: int = 0,
        shared: dict[str, Any] | None = None,
    ) -> tuple[Tensor, Losses]:
        """Attend to the best of all positions up to each query's own."""
        pos_T, latent_BTL = range(offset, offset + x_BTD.shape[1]), self.query_latent(x_BTD)
        index = self.indexer(latent_BTL, x_BTD, pos_T)
        index = index if cache is None else cache.append(index)
        main = None if cache is None else cache.main
        q_BTNH, turned_BTNH, c_BSL, k_BSH = self.project(x_BTD, latent_BTL, main, pos_T)
        pos_S = range(pos_T.stop - c_BSL.shape[1], pos_T.stop)
        fold = cache is not None and self.folding_is_less(len(pos_T), len(pos_S))
        fold = fold or self.gathers(pos_S)
        q_BTNH, k_BSKH, v_BSKH = (self.folded if fold else self.formed)(q_BTNH, c_BSL, k_BSH)
        heads = Heads(q_BTNH, turned_BTNH, k_BSKH, v_BSKH, pos_T, pos_S)
        y_BTNH, losses = self.attend_best(heads, index, learns=self.training and cache is None)
        return self.out((self.values_of(y_BTNH) if fold else y_BTNH).flatten(2)), losses

    def new_cache(self) -> Any:
        """An empty cache."""
        return IndexedCache(super().new_cache())

    def cache_bytes(self, n_tokens: int, *, element_bytes: int) -> int:
        """A latent and a rotated key, and an index key per token."""
        own = super().cache_bytes(n_tokens, element_bytes=element_bytes)
        return own + self.indexer.head_dim * n_tokens * element_bytes

    def flops(self, seq_len: int) -> float:
        """As with all keys, which the plain path multiplies, and the indexer's share: ``indexer.flops``."""
        return super().flops(seq_len) + self.indexer.flops(seq_len)
