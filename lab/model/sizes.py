"""The sizes of a model: what the ``model`` config group sets, and what components are built from."""

import math
from dataclasses import dataclass

from lab.component import check, check_number
from lab.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Dims:
    """Sizes with nothing left open."""

    dim: int
    """Width of the residual stream, D."""
    n_layers: int
    """Blocks."""
    n_heads: int
    """Query heads, N."""
    head_dim: int
    """Width of a head, H."""
    max_seq_len: int
    """Training sequence length, tokens."""
    vocab_size: int
    """Rows of the embedding, V."""


SCALES = {"sqrt_dim": 0.5, "inv_sqrt_dim": -0.5, "inv_dim": -1.0}
"""Scales that are a power of the model's width."""


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The ``model`` section."""

    dim: int
    """Width of the residual stream."""
    n_layers: int | None
    """Number of blocks, each an attention and a feed-forward branch; null: ``dim / aspect``, rounded."""
    aspect: float | None
    """Width over depth, dim / n_layers, used when ``n_layers`` is null; 128 in GPT-3 175B and LLaMA 7B."""
    n_heads: int
    """Number of query heads."""
    head_dim: int | None
    """Width of a head; null: ``heads_ratio * dim / n_heads``, to the nearest even number."""
    heads_ratio: float
    """Width of all query heads together over dim, used when ``head_dim`` is null: 1 in most models, 2 in T5 3B."""
    max_seq_len: int
    """Training sequence length T, in tokens."""
    vocab_size: int | None
    """Rows of the embedding; null: the tokenizer's. A larger number pads the vocabulary."""
    bias: bool
    """Whether linear maps in the blocks have biases; what ``attn.*_bias`` and ``activation.bias`` follow."""
    tie_embeddings: bool
    """Whether the output head uses the token embedding's weight."""
    embed_dim: int | None
    """Width of factorised embeddings, mapped to dim and back by a matrix each: arXiv:1909.11942; null: dim."""
    embed_scale: int | float | str
    """Factor of the token embeddings: a number, or ``sqrt_dim`` as in arXiv:1706.03762, section 3.4, and Gemma."""
    logit_scale: int | float | str | None
    """Factor of the vectors that enter the head: a number, ``inv_sqrt_dim`` (T5, PaLM) or ``inv_dim``; null: 1, or
    what ``init`` was made for, as T5's for ``inv_sqrt_dim`` with a tied head."""
    head_bias: bool
    """Whether the output head has a bias, as in GPT-J."""
    head_transform: bool
    """Whether a linear map with bias, a GELU and a norm stand before the head, as in BERT."""
    layers_shared: int
    """Consecutive blocks that are one and the same, in weights: 1 for none; n_layers for all (ALBERT)."""

    def __post_init__(self) -> None:
        for key in ("dim", "n_heads", "max_seq_len", "layers_shared"):
            check_number(key, getattr(self, key), least=1)
        for key, least in (("n_layers", 1), ("head_dim", 1), ("vocab_size", 2), ("embed_dim", 1)):
            if getattr(self, key) is not None:
                check_number(key, getattr(self, key), least=least)
        check_number("heads_ratio", self.heads_ratio, above=0)
        if self.head_dim is None and self.heads_ratio == 1:
            divides = self.dim % self.n_heads == 0
            check(divides, "n_heads", self.n_heads, f"must divide model.dim {self.dim} when head_dim is null")
        if self.aspect is not None:
            check_number("aspect", self.aspect, above=0)
        one = (self.n_layers is None) != (self.aspect is None)
        check(one, "aspect", self.aspect, f"and n_layers {self.n_layers}: one of the two is set and the other null")
        width_scale(self.embed_scale, self.dim, "embed_scale")
        if self.logit_scale is not None:
            width_scale(self.logit_scale, self.dim, "logit_scale")

    def dims(self, tokenizer_size: int) -> Dims:
        """The sizes once the tokenizer is known.

        Raises:
            ConfigError: ``vocab_size`` is smaller than the tokenizer's.
        """
        vocab_size = self.vocab_size if self.vocab_size is not None else tokenizer_size
        if vocab_size < tokenizer_size:
            raise ConfigError(
                f"model.vocab_size {vocab_size} is smaller than the tokenizer's {tokenizer_size} entries"
            )
        return Dims(
            dim=self.dim,
            n_layers=self.depth(),
            n_heads=self.n_heads,
            head_dim=self._head_width(),
            max_seq_len=self.max_seq_len,
            vocab_size=vocab_size,
        )

    def depth(self) -> int:
        """Number of blocks."""
        if self.n_layers is not None:
            return self.n_layers
        assert self.aspect is not None
        return max(1, round(self.dim / self.aspect))

    def _head_width(self) -> int:
        if self.head_dim is not None:
            return self.head_dim
        if self.heads_ratio == 1:
            return self.dim // self.n_heads
        return max(1, round(self.heads_ratio * self.dim / self.n_heads / 2)) * 2


def width_scale(scale: float | str, dim: int, key: str = "scale") -> float:
    """A factor that is given as a number or as a power of the model's width.

    Raises:
        ConfigError: it is neither.
    """
    ok = scale in SCALES if isinstance(scale, str) else math.isfinite(scale) and scale > 0
    check(ok, key, scale, f"must be a number > 0 or one of {', '.join(SCALES)}")
    return float(dim ** SCALES[scale]) if isinstance(scale, str) else float(scale)
