"""Held-out text with two tokenizers."""

from dataclasses import replace

import pytest

from lab.data.corpus.sotu import Config as Sotu
from lab.data.tokenizer.bpe import Config as Bpe
from lab.data.tokenizer.byte import Config as Byte
from lab.probe import Source


@pytest.fixture(scope="session")
def corpus():
    return Sotu(name="sotu").load()


@pytest.fixture(scope="session")
def sources(corpus):
    """Of each tokenizer, what items are made of."""
    held_out = [replace(d, text=d.text[:60_000]) for d in (*corpus.val[:3], *corpus.test[:3])]
    texts = [document.text for document in corpus.train[:3]]
    bpe = Bpe(name="bpe", vocab_size=400).build(texts, "three documents of sotu")
    byte = Byte(name="byte").build([], "")
    return {"bpe": Source(bpe, 128, lambda: held_out), "byte": Source(byte, 256, lambda: held_out)}


@pytest.fixture(params=["bpe", pytest.param("byte", marks=pytest.mark.slow)])
def source(request, sources):
    return sources[request.param]
