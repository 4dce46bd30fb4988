"""Eight processes that start on an empty cache make each of its entries once, and train their runs."""

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

TELLING = """
import contextlib, os, sys
from lab.data import cache

def told(kind, path):
    with open(os.environ["TOLD"], "a") as file:  # appends of a line are whole
        file.write(f"{kind} {path}\\n")

replace_file, new_folder = cache.replace_file, cache.new_folder

def telling_replace_file(path, data):
    told("file", path)
    replace_file(path, data)

@contextlib.contextmanager
def telling_new_folder(entry):
    told("folder", entry)
    with new_folder(entry) as folder:
        yield folder

cache.replace_file, cache.new_folder = telling_replace_file, telling_new_folder
from lab.cli import main
main()
"""


@pytest.mark.slow
def test_eight_processes_and_an_empty_cache(words, outputs, tmp_path):
    environment = {**os.environ, "LAB_CACHE": str(tmp_path / "cache"), "TOLD": str(tmp_path / "told")}
    bpe = ("tokenizer=bpe", "tokenizer.vocab_size=400", "train.steps=2")
    started = [
        subprocess.Popen(
            [sys.executable, "-c", TELLING, "train", *words(*bpe, f"seed={seed}")],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in range(8)
    ]
    said = [process.communicate(timeout=600) for process in started]
    assert [process.returncode for process in started] == [0] * 8, said
    made = Counter((tmp_path / "told").read_text().splitlines())
    assert set(made.values()) == {1}
    assert sorted(line.partition(" ")[0] for line in made) == ["file", "file", "folder"]  # the tokenizer has a hash
    results = [json.loads(path.read_text()) for path in outputs.glob("runs/*/result.json")]
    assert [result["status"] for result in results] == ["done"] * 8
    assert len({result["hashes"]["tokenizer"] for result in results}) == 1
