"""Speed of preparing a corpus beside the bare tokenizers library, and the time to open what is prepared.

    python scripts/bench/data.py [--mb 100] [--rounds 3] [--json FILE]

The text is sentences of the State of the Union addresses in random order, in documents of half a megabyte. lab
reads the files, hashes them, encodes every split and writes the streams; the library encodes the same texts in
batches of the same size, in this process, and keeps nothing. The tokenizer is trained before, on a part of the
text. Both use as many threads as the library takes.
"""

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import turns

WANTED = {"speed": 0.9, "reopen_s": 0.5}
"""Of the library's speed at least; seconds at most."""


def documents(megabytes: int, folder: Path) -> list[str]:
    """Files of text that is like prose and nowhere the same; their paths."""
    from lab.data.corpus.sotu import Config

    prose = [document.text for document in Config(name="sotu").load().train]
    sentences = [sentence + "." for text in prose for sentence in text.split(". ")]
    draw, paths = random.Random(0), []
    while sum(path.stat().st_size for path in paths) < 1e6 * megabytes:
        text, size = [], 0
        while size < 500_000:
            text.append(draw.choice(sentences))
            size += len(text[-1]) + 1
        paths.append(folder / f"{len(paths):05}.txt")
        paths[-1].write_text(" ".join(text), encoding="utf-8")
    return [str(path) for path in paths]


def bare_s(texts: list[str], tokenizer_file: Path) -> float:
    """Seconds the library needs for the texts."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    began = time.perf_counter()
    group: list[str] = []
    for text in [*texts, ""]:
        group.append(text)
        if sum(map(len, group)) > 4_000_000 or not text:
            tokenizer.encode_batch_fast(group, add_special_tokens=False)
            group = []
    return time.perf_counter() - began


def main() -> None:
    """Prepare, compare, open again, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=int, default=100, help="megabytes of text (100)")
    parser.add_argument("--rounds", type=int, default=3, help="of the comparison, in turn (3)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lab-bench-") as scratch:
        os.environ["LAB_OUTPUTS"] = os.environ["LAB_CACHE"] = scratch
        files = documents(options.mb, Path(scratch))
        rows = compare(files, options.rounds)
    speed = turns.ratio(rows["bare_s"], rows["lab_s"])
    reopen = statistics.median(rows["reopen_s"])
    megabytes = rows["bytes"] / 1e6
    print(f"text {megabytes:.0f} MB, {rows['tokens']:,} tokens")
    for name in ("bare_s", "lab_s"):
        seconds = statistics.median(rows[name])
        print(f"{name[:-2]:8}{seconds:8.1f} s{megabytes / seconds:8.1f} MB/s")
    print(f"lab's speed is {speed:.2f} of the library's (wanted {WANTED['speed']:.2f})")
    print(f"opening what is prepared takes {reopen:.2f} s (wanted {WANTED['reopen_s']:.2f})")
    turns.write(options.json, rows, speed=speed, reopen_s=reopen)


def compare(files: list[str], rounds: int) -> dict[str, object]:
    """Seconds of each round."""
    import shutil

    from lab.compose import compose_config
    from lab.data.tokens import prepare
    from lab.paths import cache_dir

    config = compose_config(["data=text", f"data.file=[{','.join(files)}]"])
    found = prepare(config.data, config.tokenizer)
    texts = [Path(file).read_text(encoding="utf-8") for file in files]
    seconds: dict[str, list[float]] = {"bare_s": [], "lab_s": [], "reopen_s": []}
    for _ in range(rounds):
        seconds["bare_s"].append(bare_s(texts, found.tokenizer_file))
        tokenizer = found.tokenizer_file.read_bytes()
        for name, wipe in (("lab_s", True), ("reopen_s", False)):
            if wipe:
                shutil.rmtree(cache_dir() / "tokens")
            began = time.perf_counter()
            found = prepare(config.data, config.tokenizer)
            seconds[name].append(time.perf_counter() - began)
        assert found.tokenizer_file.read_bytes() == tokenizer
    return {**seconds, "bytes": sum(map(len, (t.encode() for t in texts))), "tokens": len(found.train)}


if __name__ == "__main__":
    sys.exit(main())
