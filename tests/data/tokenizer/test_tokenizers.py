import hashlib
import logging
import os
import random
import subprocess
import sys

import numpy as np
import pytest

from lab.data import tokenizer as contract
from lab.data.corpus import hash_texts
from lab.data.tokenizer import END_OF_TEXT, Tokenizer, bpe, byte, pieces
from lab.errors import ConfigError

TRAIN = ["the cat sat on the mat\n" * 50, "the dog's log; 12 dogs' logs\r\n" * 50]
HARD = [
    "",
    " ",
    "plain",
    "🙂 é 漢字 \U0001f468\u200d\U0001f469\u200d\U0001f467 a\u0301",
    "a\r\nb\rc\n\n  d \t\n",
    f"a{END_OF_TEXT}b",
    END_OF_TEXT,
    "\x00\x01\x7f\x80\x85\u2028\ufeff\uffff\U0010ffff",
]


def make(choice: str, vocab_size: int = 300) -> Tokenizer:
    config = byte.Config(name="byte") if choice == "byte" else bpe.Config(name="bpe", vocab_size=vocab_size)
    return config.build(TRAIN, hash_texts(TRAIN)[0])


@pytest.fixture(params=["byte", "bpe"])
def tokenizer(request):
    return make(request.param)


def random_text(seed: int, length: int) -> str:
    draw = random.Random(seed)
    alphabet = "ab'st 12,.\n\r\t  \u00a0\u3000\x1c漢é🙂"
    return "".join(draw.choice(alphabet) for _ in range(length))


@pytest.mark.parametrize("text", HARD)
def test_any_text_comes_back(tokenizer, text):
    (ids,) = tokenizer.encode_batch([text])
    assert tokenizer.decode(ids) == text
    assert tokenizer.eot not in ids
    assert ids.dtype == np.uint32


def test_random_characters_come_back(tokenizer):
    draw = random.Random(0)
    points = [p for p in (draw.randrange(0x110000) for _ in range(3000)) if not 0xD800 <= p < 0xE000]
    text = "".join(map(chr, points))
    assert tokenizer.decode(tokenizer.encode_batch([text])[0]) == text


def test_end_of_text_is_one_token_of_its_own(tokenizer):
    assert tokenizer.decode([tokenizer.eot]) == END_OF_TEXT
    assert tokenizer.decode([]) == ""


def test_long_texts_are_cut_where_the_ids_do_not_change(tokenizer, monkeypatch):
    texts = [random_text(seed, 400) for seed in range(50)]
    whole = tokenizer.encode_batch(texts)
    monkeypatch.setattr(contract, "PIECE", 7)
    monkeypatch.setattr(contract, "BATCH", 100)
    assert sum(len(list(pieces(text))) for text in texts) > 500
    reports = []
    for cut, uncut in zip(tokenizer.encode_batch(texts, reports.append), whole, strict=True):
        np.testing.assert_array_equal(cut, uncut)
    assert reports == sorted(reports)
    assert sum(map(len, texts)) - 100 < reports[-1] <= sum(map(len, texts))


def test_save_and_load(tokenizer, tmp_path):
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    again = Tokenizer.load(path)
    assert again.hash == tokenizer.hash == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (again.vocab_size, again.eot) == (tokenizer.vocab_size, tokenizer.eot)
    assert again.encode_batch([END_OF_TEXT])[0].tolist() == tokenizer.encode_batch([END_OF_TEXT])[0].tolist()


@pytest.mark.parametrize("text", ["", "{", "{}", '{"version": "1.0", "model": null}'])
def test_load_refuses_what_is_no_tokenizer(tmp_path, text):
    path = tmp_path / "tokenizer.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="not a tokenizer"):
        Tokenizer.load(path)


def test_byte_ids_are_the_bytes():
    tokenizer = make("byte")
    text = "".join(HARD)
    assert bytes(tokenizer.encode_batch([text])[0].astype(np.uint8)) == text.encode()
    assert (tokenizer.vocab_size, tokenizer.eot) == (257, 256)


def test_bpe_learns_to_its_size():
    assert make("bpe", 257).vocab_size == 257
    tokenizer = make("bpe", 270)
    assert tokenizer.vocab_size == 270
    assert len(tokenizer.encode_batch(["the the"])[0]) < 7


def test_bpe_says_when_the_text_is_too_short(caplog):
    tokenizer = make("bpe", 5000)
    assert tokenizer.vocab_size < 5000
    assert "tokenizer.vocab_size 5000" in caplog.text


@pytest.mark.parametrize("size", [256, 0, -1, 1_000_001])
def test_bpe_size_out_of_range(size):
    with pytest.raises(ConfigError, match=f"^vocab_size {size} must be >= 257 and <= 1e\\+06"):
        bpe.Config(name="bpe", vocab_size=size)


@pytest.mark.parametrize("size", [300.5, True, "300"])
def test_bpe_size_not_whole(size):
    with pytest.raises(ConfigError, match=r"^vocab_size .* must be a whole number"):
        bpe.Config(name="bpe", vocab_size=size)


def test_bpe_is_learned_once(cache, monkeypatch):
    first = make("bpe")
    monkeypatch.setattr(bpe.Config, "_learn", None)
    assert make("bpe").hash == first.hash
    names = sorted(path.suffix for path in (cache / "tokenizers").iterdir())
    assert names == [".json", ".lock", ".sha256"]


def test_damaged_cache_is_learned_again(cache, caplog):
    first = make("bpe", 270)
    (path,) = (cache / "tokenizers").glob("*.json")
    whole = path.read_bytes()
    swapped = whole.replace(b'"a":65,"b":66', b'"b":65,"a":66')  # another tokenizer, as it would be saved
    spaced = whole.replace(b'"version":"1.0"', b'"version": "1.0"')
    assert whole not in (swapped, spaced)
    for damage in (whole[:1000], b"", spaced, swapped):
        path.write_bytes(damage)
        caplog.clear()
        assert make("bpe", 270).hash == first.hash
        assert path.read_bytes() == whole
        assert [(r.levelno, "is damaged" in r.message) for r in caplog.records] == [(logging.WARNING, True)]


@pytest.mark.slow
def test_bpe_does_not_depend_on_threads(cache, tmp_path):
    code = (
        "from lab.data.tokenizer import bpe; "
        "texts = [f'{i * i} the {i % 97} cat {i % 13}s' for i in range(3000)]; "
        "print(bpe.Config(name='bpe', vocab_size=600).build(texts, '0').hash)"
    )
    hashes = set()
    for threads in ("true", "false"):
        env = {**os.environ, "TOKENIZERS_PARALLELISM": threads, "LAB_CACHE": str(tmp_path / threads)}
        done = subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True)
        hashes.add(done.stdout)
    assert len(hashes) == 1
