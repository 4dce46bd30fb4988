import logging

import numpy as np
import pytest

from lab.data import tokens
from lab.data.corpus import SPLITS
from lab.data.corpus._encoded import numbered
from lab.data.corpus.tokens import Config, split_of
from lab.data.tokenizer import Tokenizer
from lab.data.tokenizer.byte import Config as Byte
from lab.data.tokens import prepare
from lab.errors import ConfigError, LabError

IDS = np.arange(1000) * 7 % 50


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def shard(tmp_path):
    def write(name, ids=IDS, dtype="<u2"):
        path = tmp_path / "shards" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(np.asarray(ids).astype(dtype).tobytes())
        return path

    return write


def make(*files, vocab_size=50, dtype="auto", eot=None, tokenizer_hash=None):
    return Config(
        name="tokens",
        file=[str(file) for file in files],
        vocab_size=vocab_size,
        dtype=dtype,
        eot=eot,
        tokenizer_hash=tokenizer_hash,
    )


def of(corpus, split):
    return np.concatenate(list(corpus.ids(split))).tolist()


def test_val_and_test_are_taken_from_the_end(shard):
    corpus = make(shard("a.bin")).load()
    assert of(corpus, "train") + of(corpus, "val") + of(corpus, "test") == IDS.tolist()
    assert [len(of(corpus, name)) for name in SPLITS] == [903, 47, 50]
    assert corpus.note == "1 shards of ready uint16 tokens, val from the end and test from the end"
    assert corpus.bytes == {"train": 0, "val": 0, "test": 0}


def test_files_are_a_split_by_their_names(shard, tmp_path):
    for name in ("owt_val_0.bin", "train_2.bin", "train_1.bin"):
        shard(name, [int(name[-5])] * 100)
    corpus = make(tmp_path / "shards" / "*.bin").load()
    assert of(corpus, "train") == [1] * 100 + [2] * 90
    assert of(corpus, "test") == [2] * 10
    assert of(corpus, "val") == [0] * 100
    ordered = make(*(tmp_path / "shards" / f"{name}.bin" for name in ("train_2", "train_1", "owt_val_0"))).load()
    assert of(ordered, "train")[:100] == [2] * 100


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("val.bin", "val"),
        ("fineweb_val_000000.bin", "val"),
        ("Validation-1.bin", "val"),
        ("test.bin", "test"),
        ("train.bin", "train"),
        ("interval.bin", "train"),
        ("latest.bin", "train"),
        ("values.bin", "train"),
    ],
)
def test_names_of_splits(name, split):
    assert split_of(f"/val/test/{name}") == split


@pytest.mark.slow
def test_wide_ids_of_the_same_value_are_the_same_data(shard):
    narrow, wide = make(shard("a.bin")), make(shard("b.bin", dtype="<u4"), dtype="uint32")
    assert narrow.load().hash == wide.load().hash
    assert make(shard("a.bin", IDS[::-1])).load().hash != wide.load().hash
    large = make(shard("c.bin", IDS * 1300, dtype="<u4"), vocab_size=66_000)
    assert max(of(large.load(), "train")) == 49 * 1300
    assert prepare(large, Byte(name="byte")).train.dtype == np.uint32


def test_they_are_prepared_as_text_is(shard, monkeypatch, caplog):
    config = make(shard("a.bin"), eot=7)
    got = prepare(config, Byte(name="byte"))
    assert got.train.tolist() + got.val.tolist() + got.test.tolist() == IDS.tolist()
    assert (got.vocab_size, got.eot, got.train.dtype) == (50, 7, np.uint16)
    assert sum(got.documents.values()) == (IDS == 7).sum()
    monkeypatch.setattr(tokens, "_build", None)
    assert prepare(config, Byte(name="byte")).hash == got.hash
    tokenizer = Tokenizer.load(got.tokenizer_file)
    assert tokenizer.hash == got.tokenizer_hash
    assert tokenizer.decode([3, 7, 49]) == "<3> <|endoftext|> <49>"
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_the_stand_in_for_a_tokenizer_reads_numbers_alone():
    tokenizer = numbered(5, 4)
    assert tokenizer.encode_batch(["<3> <0>", ""])[0].tolist() == [3, 0]
    with pytest.raises(LabError, match="reads nothing but numbers of tokens"):
        tokenizer.encode_batch(["Once upon a time"])


def error(config):
    with pytest.raises(ConfigError) as caught:
        config.load()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_files_that_cannot_be_used(shard, tmp_path):
    path = shard("a.bin", [1, 2, 50, 3])
    width = "; if a token is wider or narrower there: data.dtype=uint32"
    assert error(make(path)) == f"file '{path}' holds token 50 at place 2, and data.vocab_size is 50{width}"
    assert error(make()) == "file '' is not set: give shards, as in data.file=*.bin"
    assert error(make(empty := shard("b.bin", []))) == f"file '{empty}' is empty"
    odd = tmp_path / "odd.bin"
    odd.write_bytes(b"\0" * 7)
    assert error(make(odd)) == f"file '{odd}' has 7 bytes, which is no whole number of uint16 tokens"
    assert error(make(tmp_path / "*.no")) == f"file '{tmp_path / '*.no'}' does not exist"
    assert error(make(tmp_path)) == f"file '{tmp_path}' is a folder, not a file"
    assert error(make(full := shard("c.bin"), full)) == f"file '{full}' is given twice"
    assert "is too short to take val and test from its end" in error(make(shard("d.bin", [1] * 10)))
    assert "holds no training tokens" in error(make(shard("val.bin")))
    header = shard("h.bin", [20240520, 1, 5], dtype="<u4")
    assert error(make(header)) == f"file '{header}' has a header of llm.c: take away its first 1024 bytes"


@pytest.mark.parametrize(("key", "value"), [("vocab_size", 1), ("vocab_size", 2**21), ("eot", 50), ("eot", -1)])
def test_numbers_out_of_range(key, value):
    with pytest.raises(ConfigError, match=rf"^{key} {value} must be"):
        make("a.bin", **{key: value})
