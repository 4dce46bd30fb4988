"""The ``stability`` group: what keeps logits, activations and gradients in bounds. Its choices combine.

A choice has hooks for the whole model (``Stability``), makes hooks for each attention layer
(``AttentionStability``) and a module for the end of each branch. All do nothing unless overridden;
``StabilityStack`` applies several choices in the order of their names.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn

from lab.component import Component
from lab.model.layer_spec import LayerSpec
from lab.model.logit_stats import LogitStats
from lab.model.norm import Site
from lab.model.sizes import Dims


class AttentionStability(nn.Module):
    """Hooks inside one attention layer."""

    changes_keys = False
    """Whether ``qkv`` or ``rotated`` changes keys or values; an attention that caches neither refuses it."""
    changes_scores = False
    """Whether ``scores`` does anything; a fused kernel is used where it does not."""
    scale: float | None = None
    """Factor of the scores in place of the attention's own."""

    def qkv(self, q_BTNH: Tensor, k_BTKH: Tensor, v_BTKH: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Change queries, keys and values after their projections, before positions are applied."""
        return q_BTNH, k_BTKH, v_BTKH

    def rotated(self, q_BTNH: Tensor, k_BTKH: Tensor, pos_T: range) -> tuple[Tensor, Tensor]:
        """Change queries and keys after positions are applied; ``pos_T`` are their positions."""
        return q_BTNH, k_BTKH

    def scores(self, scores_BNTS: Tensor) -> Tensor:
        """Change scaled attention scores, the positions' bias included, before the mask."""
        return scores_BNTS


class Stability(nn.Module):
    """Hooks for the whole model, and the maker of the parts inside the layers."""

    changes_logits = False
    """Whether ``logits`` does anything."""
    needs_mean_logit = False
    """Whether ``loss`` asks for the mean logit."""
    needs_mean_lse = False
    """Whether ``loss`` asks for the batch's mean logsumexp, which takes one more product with the head."""

    def attention(self, spec: LayerSpec, dims: Dims, n_kv_heads: int) -> AttentionStability | None:
        """Hooks inside the attention of layer ``spec``, owned by it; None where there are none."""
        return None

    def branch(self, spec: LayerSpec, dims: Dims, site: Site) -> nn.Module | None:
        """A module y_BTD -> y_BTD for the end of a branch, before it is added to the residual stream."""
        return None

    def weight(self, name: str, weight: Tensor) -> nn.Module | None:
        """A module that maps a linear map's weight to the one in use, or None to use it as it is."""
        return None

    def embed(self, x_BTD: Tensor) -> Tensor:
        """Change the embeddings that enter the first block."""
        return x_BTD

    def head_weight(self, weight_VD: Tensor) -> Tensor:
        """Change the weight of the output head."""
        return weight_VD

    def logits(self, z_CV: Tensor) -> Tensor:
        """Change the final logits."""
        return z_CV

    def loss(self, stats: LogitStats) -> Tensor | None:
        """A penalty per token, in nats, added to the training loss; never part of a reported loss."""
        return None


@dataclass(frozen=True, kw_only=True)
class StabilityConfig(Component, ABC):
    """Contract: build the hooks of one choice."""

    @abstractmethod
    def build(self, dims: Dims) -> Stability:
        """The model's part."""


class AttentionStabilityStack(AttentionStability):
    """Several choices inside one attention layer, one after another."""

    def __init__(self, parts: Mapping[str, AttentionStability]) -> None:
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)
        self.changes_keys = any(part.changes_keys for part in parts.values())
        self.changes_scores = any(part.changes_scores for part in parts.values())
        self.scale = next((part.scale for part in parts.values() if part.scale is not None), None)

    def qkv(self, q_BTNH: Tensor, k_BTKH: Tensor, v_BTKH: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """All of them."""
        for part in cast(list[AttentionStability], self.children()):
            q_BTNH, k_BTKH, v_BTKH = part.qkv(q_BTNH, k_BTKH, v_BTKH)
        return q_BTNH, k_BTKH, v_BTKH

    def rotated(self, q_BTNH: Tensor, k_BTKH: Tensor, pos_T: range) -> tuple[Tensor, Tensor]:
        """All of them."""
        for part in cast(list[AttentionStability], self.children()):
            q_BTNH, k_BTKH = part.rotated(q_BTNH, k_BTKH, pos_T)
        return q_BTNH, k_BTKH

    def scores(self, scores_BNTS: Tensor) -> Tensor:
        """All of them."""
        for part in cast(list[AttentionStability], self.children()):
            scores_BNTS = part.scores(scores_BNTS)
        return scores_BNTS


class StabilityStack(Stability):
    """Several choices at once."""

    def __init__(self, parts: Mapping[str, Stability]) -> None:
        super().__init__()
        for name, part in sorted(parts.items()):
            self.add_module(name, part)
        self.changes_logits = any(part.changes_logits for part in parts.values())
        self.needs_mean_logit = any(part.needs_mean_logit for part in parts.values())
        self.needs_mean_lse = any(part.needs_mean_lse for part in parts.values())

    def _parts(self) -> dict[str, Stability]:
        return cast(dict[str, Stability], dict(self.named_children()))

    def attention(self, spec: LayerSpec, dims: Dims, n_kv_heads: int) -> AttentionStability:
        """The attention hooks of all that have some."""
        made = {name: part.attention(spec, dims, n_kv_heads) for name, part in self._parts().items()}
        return AttentionStabilityStack({name: part for name, part in made.items() if part is not None})

    def branch(self, spec: LayerSpec, dims: Dims, site: Site) -> nn.Sequential:
        """The modules of all that have one, in a row."""
        made = {name: part.branch(spec, dims, site) for name, part in self._parts().items()}
        row = nn.Sequential()
        for name, part in made.items():
            if part is not None:
                row.add_module(name, part)
        return row

    def weight(self, name: str, weight: Tensor) -> nn.Module | None:
        """The modules of all that have one, in a row."""
        made = [module for part in self._parts().values() if (module := part.weight(name, weight)) is not None]
        return nn.Sequential(*made) if made else None

    def embed(self, x_BTD: Tensor) -> Tensor:
        """All of them."""
        for part in self._parts().values():
            x_BTD = part.embed(x_BTD)
        return x_BTD

    def head_weight(self, weight_VD: Tensor) -> Tensor:
        """All of them."""
        for part in self._parts().values():
            weight_VD = part.head_weight(weight_VD)
        return weight_VD

    def logits(self, z_CV: Tensor) -> Tensor:
        """All of them."""
        for part in self._parts().values():
            z_CV = part.logits(z_CV)
        return z_CV

    def loss(self, stats: LogitStats) -> Tensor | None:
        """Their sum."""
        penalties = [p for part in self._parts().values() if (p := part.loss(stats)) is not None]
        return sum(penalties[1:], penalties[0]) if penalties else None
