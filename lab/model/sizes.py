"""The sizes of a model: what the ``model`` config group sets, and what components are built from."""

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


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The ``model`` section."""

    dim: int
    """Width of the residual stream."""
    n_layers: int
    """Number of blocks, each an attention and a feed-forward branch."""
    n_heads: int
    """Number of query heads."""
    head_dim: int | None
    """Width of a head; null: ``dim / n_heads``."""
    max_seq_len: int
    """Training sequence length T, in tokens."""
    vocab_size: int | None
    """Rows of the embedding; null: the tokenizer's. A larger number pads the vocabulary."""
    tie_embeddings: bool
    """Whether the output head uses the token embedding's weight."""

    def __post_init__(self) -> None:
        for key in ("dim", "n_layers", "n_heads", "max_seq_len"):
            check_number(key, getattr(self, key), least=1)
        if self.head_dim is not None:
            check_number("head_dim", self.head_dim, least=1)
        if self.vocab_size is not None:
            check_number("vocab_size", self.vocab_size, least=2)
        if self.head_dim is None:
            divides = self.dim % self.n_heads == 0
            check(divides, "n_heads", self.n_heads, f"must divide model.dim {self.dim} when head_dim is null")

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
            n_layers=self.n_layers,
            n_heads=self.n_heads,
            head_dim=self.head_dim if self.head_dim is not None else self.dim // self.n_heads,
            max_seq_len=self.max_seq_len,
            vocab_size=vocab_size,
        )
