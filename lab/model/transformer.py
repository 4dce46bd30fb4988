"""A causal transformer language model, put together from the chosen components: arXiv:1706.03762."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn

from lab.errors import ConfigError
from lab.model.activation import ActivationConfig
from lab.model.attention_path import Path
from lab.model.attn import Attention, AttnConfig, AttnParts, Losses
from lab.model.block import Block, BlockConfig, Parts
from lab.model.init import InitConfig, initialize
from lab.model.layers import Embedding, Linear
from lab.model.norm import NormConfig, Site
from lab.model.position import LayerPosition, PositionConfig
from lab.model.regularization import RegularizationConfig, RegularizationStack
from lab.model.sizes import Dims, ModelConfig, width_scale
from lab.model.stability import StabilityConfig, StabilityStack


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """Everything that decides what the model is."""

    dims: Dims
    model: ModelConfig
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
        initialize(
            model,
            self.init,
            self.dims,
            study_seed=study_seed,
            seed=seed,
            gain=lambda name: self.block.init_gain(name, self.dims),
        )
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
        if arch.init.zero_branches and not arch.block.passes_zero:
            raise ConfigError(
                f"block={arch.block.name} with init={arch.init.name} is refused: the last matrix of each branch "
                "starts at zero, and no gradient would ever reach it"
            )
        dims, model = arch.dims, arch.model
        embed_dim = model.embed_dim or dims.dim
        self.stability = StabilityStack({name: c.build(dims) for name, c in arch.stability.items()})
        self.regularization = RegularizationStack({n: c.build(dims) for n, c in arch.regularization.items()})
        self.norms_made = 0
        self.embedding = Embedding(dims.vocab_size, embed_dim)
        self.embedding_up = Linear(embed_dim, dims.dim, bias=False) if model.embed_dim else None
        self.embed_scale = width_scale(model.embed_scale, dims.dim)
        self.position = arch.position.build(dims)
        self.embed_norm = self._norm(arch, "embed") if arch.block.embed_norm else nn.Identity()
        self.n_layers, self.layers_shared = dims.n_layers, model.layers_shared
        self.blocks = nn.ModuleList(self._block(arch, i) for i in range(0, dims.n_layers, model.layers_shared))
        self.final_norm = self._norm(arch, "final") if arch.block.final_norm else nn.Identity()
        self.head_transform = HeadTransform(arch) if model.head_transform else None
        own = arch.init.logit_scale(dims.dim, tied=model.tie_embeddings)
        self.logit_scale = own if model.logit_scale is None else width_scale(model.logit_scale, dims.dim)
        self.head_down = Linear(dims.dim, embed_dim, bias=False) if model.embed_dim else None
        self.head = None if model.tie_embeddings else Linear(embed_dim, dims.vocab_size, bias=False)
        self.head_bias = nn.Parameter(torch.zeros(dims.vocab_size)) if model.head_bias else None
        for name, module in self.named_modules():
            if isinstance(module, Linear):
                module.reparametrize = self.stability.weight(name, module.weight)

    def _norm(self, arch: Architecture, site: Site) -> nn.Module:
        self.norms_made += 1
        return arch.norm.build(arch.dims.dim, site=site)

    def remarks(self, arch: Architecture) -> list[str]:
        """What was chosen and has nothing to act on, each in one line."""
        found = []
        identity = isinstance(arch.norm.build(arch.dims.dim, site="final"), nn.Identity)
        if not self.norms_made and not identity:
            found.append(f"block={arch.block.name} has no place for a norm: norm={arch.norm.name} does nothing")
        if not any(attn.layer.position_on for attn in self.attention()):
            found.append(
                "attn.nope_every leaves no layer with positions: position acts at the embedding, if at all"
            )
        return found

    def _block(self, arch: Architecture, index: int) -> Block:
        """The block of layer ``index`` and of those that share its weights.

        Raises:
            ConfigError: the sizes do not go together, or the layers that share do not attend alike.
        """
        dims, layer = arch.dims, arch.attn.layer(index, arch.dims)
        group = [arch.attn.layer(i, dims) for i in range(index, min(index + self.layers_shared, dims.n_layers))]
        if any(replace(a, index=0) != replace(b, index=0) for a, b in pairwise(group)):
            last = index + len(group) - 1
            raise ConfigError(
                f"model.layers_shared {self.layers_shared} joins layers {index} to {last}, of which attn makes "
                "different ones: share as many as its pattern has alike"
            )

        def end(site: Site) -> nn.Module:
            made = self.stability.branch(layer, dims, site), self.regularization.residual(layer, dims)
            return nn.Sequential(*(module for module in made if len(module)))

        attn_parts = AttnParts(
            position=lambda width: self.position.layer(layer, width) if layer.position_on else LayerPosition(),
            stability=self.stability,
            regularization=self.regularization,
            path=arch.path,
            scale=arch.init.attention_scale,
        )
        parts = Parts(
            norm=lambda site: self._norm(arch, site),
            attn=arch.attn.build(dims, layer, attn_parts),
            ffn=arch.activation.build(dims),
            end=end,
        )
        return arch.block.build(dims, layer, parts)

    def forward(
        self, ids_BT: Tensor, caches: Sequence[Any] | None = None, offset: int = 0
    ) -> tuple[Tensor, Losses]:
        """Vectors that enter the head, (B, T, its width), and auxiliary losses summed over the layers.

        ``caches`` are what ``new_caches`` gave; ``offset`` is the position of the first token.
        """
        x_BTD = self.embedding(ids_BT)
        x_BTD = x_BTD if self.embedding_up is None else self.embedding_up(x_BTD)
        x_BTD = x_BTD if self.embed_scale == 1 else x_BTD * self.embed_scale
        x_BTD = self.position.embed(x_BTD, offset)
        x_BTD = self.embed_norm(self.regularization.embed(self.stability.embed(x_BTD)))
        shared: dict[str, Any] = {}
        losses: Losses = {}
        for index, block in enumerate(self.layers()):
            cache = None if caches is None else caches[index]
            x_BTD, new = block(x_BTD, cache, offset, shared)
            for name, loss in new.items():
                losses[name] = losses[name] + loss if name in losses else loss
        x_BTD = self.final_norm(x_BTD)
        x_BTD = x_BTD if self.head_transform is None else self.head_transform(x_BTD)
        x_BTD = x_BTD if self.logit_scale == 1 else x_BTD * self.logit_scale
        return (x_BTD if self.head_down is None else self.head_down(x_BTD)), losses

    def layers(self) -> list[Block]:
        """The block of each layer; shared ones come as often as they are used."""
        return [cast(Block, self.blocks[index // self.layers_shared]) for index in range(self.n_layers)]

    def head_weight(self) -> Tensor:
        """The weight of the output head, (V, width of what enters it)."""
        weight = self.embedding.weight if self.head is None else self.head.weight
        if self.head is not None and self.head.reparametrize is not None:
            weight = self.head.reparametrize(weight)
        return self.stability.head_weight(weight)

    def logits(self, ids_BT: Tensor, caches: Sequence[Any] | None = None, offset: int = 0) -> Tensor:
        """Logits z_BTV, all at once; training goes through ``lab.model.loss`` instead."""
        x_BTD, _ = self(ids_BT, caches, offset)
        return self.stability.logits(nn.functional.linear(x_BTD, self.head_weight(), self.head_bias))

    def attention(self) -> list[Attention]:
        """The attention branch of each layer."""
        return [block.attn for block in self.layers()]

    def new_caches(self) -> list[Any]:
        """An empty cache for each layer."""
        return [attn.new_cache() for attn in self.attention()]


class HeadTransform(nn.Module):
    """What BERT has before its head: norm(GELU(W x + b)); arXiv:1810.04805, the released code."""

    def __init__(self, arch: Architecture) -> None:
        super().__init__()
        self.dense = Linear(arch.dims.dim, arch.dims.dim, bias=True)
        self.norm = arch.norm.build(arch.dims.dim, site="final")

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Change the vectors that enter the head."""
        y_BTD: Tensor = self.norm(nn.functional.gelu(self.dense(x_BTD)))
        return y_BTD
