"""One token a byte: 256 bytes and end-of-text. Nothing is learned, so two corpora share it."""

from collections.abc import Sequence
from dataclasses import dataclass

from lab.data.tokenizer import END_OF_TEXT, Tokenizer, TokenizerConfig


@dataclass(frozen=True, kw_only=True)
class Config(TokenizerConfig):
    """Bytes; there is nothing to set."""

    def build(self, texts: Sequence[str], texts_hash: str) -> Tokenizer:
        """The tokenizer whose ids are the values of the UTF-8 bytes, with 256 for end-of-text."""
        from tokenizers import Tokenizer as Inner
        from tokenizers import decoders, models, pre_tokenizers

        symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
        plain = {ord(symbol): symbol for symbol in symbols if ord(symbol) < 256}  # bytes that stand for themselves
        others = iter(symbol for symbol in symbols if ord(symbol) >= 256)
        vocab = {plain.get(byte) or next(others): byte for byte in range(256)}
        inner = Inner(models.BPE(vocab=vocab, merges=[]))
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        inner.decoder = decoders.ByteLevel()
        inner.add_special_tokens([END_OF_TEXT])
        return Tokenizer(inner)
