"""A causal transformer language model, put together from the chosen components: arXiv:1706.03762."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from lab.model.activation import ActivationConfig
from lab.model.attention_path import Path
from lab.model.attn import Attention, AttnConfig, AttnParts, Losses
from lab.model.block import Block, BlockConfig, Parts
from lab.model.init import InitConfig, initialize
from lab.model.layers import Embedding, Linear
from lab.model.norm import NormConfig, Site
from lab.model.position import LayerPosition, PositionConfig
from lab.model.regularization import RegularizationConfig, RegularizationStack
from lab.model.sizes import Dims
from lab.model.stability import StabilityConfig, StabilityStack


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """Everything that decides what the model is."""

    dims: Dims
    tie_embeddings: bool
    norm: NormConfig
    activation: ActivationConfig
    attn: AttnConfig
    block: BlockConfig
    position: PositionConfig
    stability: Mapping[str, StabilityConfig]
    regularization: Mapping[str, RegularizationConfig]
    init: InitConfig
    path: Path

    def build(self, *, study_seed: int, seed: int) -> "Transformer":
        """The model with its initial weights, in fp32 on the CPU.

        Raises:
            ConfigError: the sizes do not go together.
        """
        model = Transformer(self)
        initialize(model, self.init, self.dims, study_seed=study_seed, seed=seed)
        return model

    def outline(self) -> "Transformer":
        """The model without storage, for counting and checking.

        Raises:
            ConfigError: the sizes do not go together.
        """
        with torch.device("meta"):
            return Transformer(self)


class Transformer(nn.Module):
    """Embedding, blocks, final norm, head; weights are not drawn yet."""

    def __init__(self, arch: Architecture) -> None:
        super().__init__()
        dims = arch.dims
        self.stability = StabilityStack({name: c.build(dims) for name, c in arch.stability.items()})
        self.regularization = RegularizationStack({n: c.build(dims) for n, c in arch.regularization.items()})
        self.embedding = Embedding(dims.vocab_size, dims.dim)
        self.position = arch.position.build(dims)
        norm = arch.norm
        self.embed_norm = norm.build(dims.dim, site="embed") if arch.block.embed_norm else nn.Identity()
        self.blocks = nn.ModuleList(self._block(arch, index) for index in range(dims.n_layers))
        self.final_norm = norm.build(dims.dim, site="final") if arch.block.final_norm else nn.Identity()
        self.head = None if arch.tie_embeddings else Linear(dims.dim, dims.vocab_size, bias=False)
        for name, module in self.named_modules():
            if isinstance(module, Linear):
                module.reparametrize = self.stability.weight(name, module.weight)

    def _block(self, arch: Architecture, index: int) -> Block:
        dims, layer = arch.dims, arch.attn.layer(index, arch.dims)

        def end(site: Site) -> nn.Module:
            made = self.stability.branch(layer, dims, site), self.regularization.residual(layer, dims)
            return nn.Sequential(*(module for module in made if len(module)))

        attn_parts = AttnParts(
            position=self.position.layer(layer) if layer.position_on else LayerPosition(),
            stability=self.stability,
            regularization=self.regularization,
            path=arch.path,
        )
        parts = Parts(
            norm=lambda site: arch.norm.build(dims.dim, site=site),
            attn=arch.attn.build(dims, layer, attn_parts),
            ffn=arch.activation.build(dims),
            end=end,
        )
        return arch.block.build(dims, layer, parts)

    def forward(
        self, ids_BT: Tensor, caches: Sequence[Any] | None = None, offset: int = 0
    ) -> tuple[Tensor, Losses]:
        """Vectors x_BTD that enter the head, and auxiliary losses summed over the layers.

        ``caches`` are what ``new_caches`` gave; ``offset`` is the position of the first token.
        """
        x_BTD = self.position.embed(self.embedding(ids_BT), offset)
        x_BTD = self.embed_norm(self.regularization.embed(self.stability.embed(x_BTD)))
        shared: dict[str, Any] = {}
        losses: Losses = {}
        for index, block in enumerate(self.blocks):
            cache = None if caches is None else caches[index]
            x_BTD, new = block(x_BTD, cache, offset, shared)
            for name, loss in new.items():
                losses[name] = losses[name] + loss if name in losses else loss
        return self.final_norm(x_BTD), losses

    def head_weight(self) -> Tensor:
        """The weight of the output head, (V, D)."""
        weight = self.embedding.weight if self.head is None else self.head.weight
        if self.head is not None and self.head.reparametrize is not None:
            weight = self.head.reparametrize(weight)
        return self.stability.head_weight(weight)

    def logits(self, ids_BT: Tensor, caches: Sequence[Any] | None = None, offset: int = 0) -> Tensor:
        """Logits z_BTV, all at once; training goes through ``lab.model.loss`` instead."""
        x_BTD, _ = self(ids_BT, caches, offset)
        return self.stability.logits(nn.functional.linear(x_BTD, self.head_weight()))

    def attention(self) -> list[Attention]:
        """The attention branch of each layer."""
        return [cast(Block, block).attn for block in self.blocks]

    def new_caches(self) -> list[Any]:
        """An empty cache for each layer."""
        return [attn.new_cache() for attn in self.attention()]
