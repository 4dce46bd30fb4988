import json
import logging
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from lab.data import tokens
from lab.data.corpus import SPLITS, sotu, text
from lab.data.tokenizer import Tokenizer, bpe, byte
from lab.data.tokens import cached_sets, prepare
from lab.errors import ConfigError, LabError

BYTE = byte.Config(name="byte")


def entry(cache: Path) -> Path:
    (folder,) = (path for path in (cache / "tokens").iterdir() if path.is_dir())
    return folder


def test_the_stream_is_documents_between_end_of_text(memory):
    corpus = memory(name="memory", train=("ab", "", "é"), val=("x<|endoftext|>",), test=("t",))
    got = prepare(corpus, BYTE)
    assert got.train.tolist() == [256, *b"ab", 256, 256, *"é".encode(), 256]
    assert got.val.tolist() == [256, *b"x<|endoftext|>", 256]
    assert got.test.tolist() == [256, *b"t", 256]
    assert got.bytes == {"train": 4, "val": 14, "test": 1}
    assert got.documents == {"train": 3, "val": 1, "test": 1}
    assert (got.vocab_size, got.eot, got.note) == (257, 256, "in memory")
    assert got.data_hash == corpus.load().hash
    tokenizer = Tokenizer.load(got.tokenizer_file)
    assert tokenizer.hash == got.tokenizer_hash
    assert tokenizer.decode(got.val) == "<|endoftext|>x<|endoftext|><|endoftext|>"


def test_groups_of_documents_do_not_change_the_stream(memory, cache, monkeypatch):
    corpus = memory(name="memory", train=tuple(f"text {i}" for i in range(50)))
    whole = np.array(prepare(corpus, BYTE).train)
    monkeypatch.setattr(tokens, "GROUP", 20)
    monkeypatch.setenv("LAB_CACHE", str(cache / "other"))
    np.testing.assert_array_equal(prepare(corpus, BYTE).train, whole)


def test_streams_are_read_only_and_small(memory, monkeypatch):
    got = prepare(memory(name="memory"), BYTE)
    assert got.train.dtype == np.uint16
    with pytest.raises(ValueError, match="read-only"):
        got.train[0] = 1


def test_large_vocabularies_take_uint32(memory, monkeypatch):
    monkeypatch.setattr(
        Tokenizer, "vocab_size", property(lambda self: 65537, lambda self, value: None), raising=False
    )
    assert prepare(memory(name="memory"), BYTE).train.dtype == np.uint32


def test_hash_is_of_both_texts_and_tokenizer(memory):
    one, other = memory(name="memory"), memory(name="memory", test=("other",))
    learned = bpe.Config(name="bpe", vocab_size=280)
    sets = [prepare(one, BYTE), prepare(one, learned), prepare(other, learned)]
    assert len({s.hash for s in sets}) == 3
    assert sets[1].tokenizer_hash == sets[2].tokenizer_hash  # the same train text
    assert sets[0].data_hash == sets[1].data_hash != sets[2].data_hash
    assert cached_sets() == {"memory": 3}


def test_cached_entry_is_used(memory, monkeypatch):
    first = prepare(memory(name="memory"), BYTE)
    monkeypatch.setattr(tokens, "_build", None)
    again = prepare(memory(name="memory"), BYTE)
    assert again.hash == first.hash
    np.testing.assert_array_equal(again.train, first.train)


def tear(folder: Path) -> None:
    meta = (folder / "meta.json").read_text()
    (folder / "meta.json").write_text(meta[: len(meta) // 2])


def shorten(folder: Path) -> None:
    (folder / "val.bin").write_bytes((folder / "val.bin").read_bytes()[:-1])


def lose(folder: Path) -> None:
    (folder / "test.bin").unlink()


def disagree(folder: Path) -> None:
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps({**meta, "vocab_size": 3}))


def retokenize(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")


def flip(folder: Path) -> None:
    data = bytearray((folder / "train.bin").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "train.bin").write_bytes(data)


@pytest.mark.parametrize("damage", [tear, shorten, lose, disagree, retokenize, flip])
def test_damaged_entry_is_made_again(memory, cache, caplog, damage):
    want = np.array(prepare(memory(name="memory"), BYTE).train)
    damage(entry(cache))
    assert caplog.records == []
    got = prepare(memory(name="memory"), BYTE)
    np.testing.assert_array_equal(got.train, want)
    assert [(r.levelno, "are damaged" in r.message) for r in caplog.records] == [(logging.WARNING, True)]
    assert sorted(p.suffix for p in (cache / "tokens").iterdir()) == ["", ".lock"]
    caplog.clear()
    prepare(memory(name="memory"), BYTE)
    assert caplog.records == []


def test_an_entry_of_an_earlier_version_is_taken_as_it_is(memory, cache, caplog):
    prepare(memory(name="memory"), BYTE)
    path = entry(cache) / "meta.json"
    meta = json.loads(path.read_text())
    del meta["sha256"]
    path.write_text(json.dumps(meta))
    prepare(memory(name="memory"), BYTE)
    assert json.loads(path.read_text()) == meta
    assert caplog.records == []


def test_full_disk_leaves_nothing_behind(memory, cache, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("lab.data.tokens.write_synced", full)
    with pytest.raises(LabError, match="No space left on device; set LAB_CACHE"):
        prepare(memory(name="memory"), BYTE)
    assert [p.suffix for p in (cache / "tokens").iterdir()] == [".lock"]


def test_errors_name_the_group():
    with pytest.raises(ConfigError, match=r"^data\.file is not set"):
        prepare(text.Config(name="text", file=[]), BYTE)


PROCESS = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from conftest import Memory
from lab.data import tokens
from lab.data.tokenizer import bpe
def counted(name, function):
    def call(*args):
        with open(sys.argv[2], "a") as file:
            print(name, file=file)
        time.sleep(0.5)
        return function(*args)
    return call
tokens._build = counted("tokens", tokens._build)
bpe.Config._learn = counted("tokenizer", bpe.Config._learn)
print("ready", flush=True)
sys.stdin.readline()
print(tokens.prepare(Memory(name="memory"), bpe.Config(name="bpe", vocab_size=270)).hash)
"""


@pytest.mark.slow
def test_four_processes_build_each_entry_once(tmp_path):
    built = tmp_path / "built"
    command = [sys.executable, "-c", PROCESS, str(Path(__file__).parent), str(built)]
    pipe = subprocess.PIPE
    started = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(4)]
    for process in started:
        assert process.stdout.readline() == "ready\n"
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()
    hashes = {process.communicate(timeout=60)[0] for process in started}
    assert [process.returncode for process in started] == [0, 0, 0, 0]
    assert len(hashes) == 1
    assert sorted(built.read_text().split()) == ["tokenizer", "tokens"]


@pytest.mark.slow
def test_sotu_at_the_shipped_vocabulary():
    config = sotu.Config(name="sotu"), bpe.Config(name="bpe", vocab_size=2048)
    cold = prepare(*config)
    assert {name: len(getattr(cold, name)) for name in SPLITS} == {
        "train": 3_011_948,
        "val": 131_145,
        "test": 171_125,
    }
    began = time.monotonic()
    warm = prepare(*config)
    assert time.monotonic() - began < 1.0
    tokenizer = Tokenizer.load(warm.tokenizer_file)
    val = "".join(f"<|endoftext|>{d.text}" for d in config[0].load().val) + "<|endoftext|>"
    assert tokenizer.decode(warm.val) == val
