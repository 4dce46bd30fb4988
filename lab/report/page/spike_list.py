"""The spikes of all runs, with the text of the batches that caused them."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lab.data.batches import Batches
from lab.data.ngrams import Ngrams
from lab.data.tokenizer import Tokenizer
from lab.paths import cache_dir
from lab.report.page.curves import Floats, Series
from lab.report.rows import within
from lab.report.thinned import flagged_steps
from lab.report.variants import Record, Variant, config_of, hash_of
from lab.runs.metrics import rising_lines
from lab.runs.store import RunFolder
from lab.stats.spikes import LOCAL, heights, local, log_norm
from lab.streams import stream_seed

MOST = 200
"""Spikes that are listed."""

NAMES = {"loss": "loss", "grad_norm": "gradient norm"}
"""Of the series that are judged."""

SEQUENCES = 16
CHARACTERS = 200
"""Sequences of a batch that are shown, and how much of each."""

NOT_STORED = "batches are not stored with a study"
NOT_HERE = "the data is not at hand: no cached tokens have this run's hashes"


@dataclass(frozen=True, kw_only=True)
class Spike:
    """One flagged step of one series."""

    variant: str
    run: str
    seed: Any
    step: int
    series: str
    lr: float | None
    above: float | None
    """Robust standard deviations above the line through the steps before it; None where it was not finite."""
    around: Mapping[str, tuple[float | None, float | None]]
    """Loss and gradient norm, by key: of the step before and of this one; NaN where not finite, None where none."""
    layer: str
    """The layer with the largest gradient norm, then or when the layers were last looked at; empty where never."""
    texts: tuple[str, ...]
    """The beginnings of some sequences of the batch."""
    sequences: int
    """Of the whole batch."""
    missing: str
    """Why there are no texts."""


def spikes(
    variants: Sequence[Variant], series: Mapping[str, Mapping[str, Series]], folders: Mapping[str, Path]
) -> tuple[list[Spike], int]:
    """The first ``MOST`` spikes, and how many there are.

    Series are judged again only where a result does not say that they have none, and until the list is full.
    """
    found: list[Spike] = []
    total = 0
    for variant in variants:
        for record in variant.records:
            run = str(record.get("id"))
            flagged: list[tuple[str, int, float | None]] = []
            for key in NAMES.keys() & series.get(run, {}).keys():
                known = within(record, "spikes", LOCAL, key, "spikes")
                judged = known is None or (known > 0 and len(found) < MOST)
                if run in folders:
                    here = list(_flagged(key, series[run][key][1])) if judged else []
                    total += len(here) if judged else int(known or 0)
                else:  # thinned: its result tells
                    here = list(_told(key, record, series[run][key][0]))
                    total += int(known or 0)
                flagged += here
            if flagged and len(found) < MOST:
                batch = _Batch(record, folders.get(run))
                kept = sorted(flagged, key=lambda one: (one[1], one[0]))[: MOST - len(found)]
                found += [_spike(variant.label, record, one, series[run], batch) for one in kept]
    return found, total


def _flagged(key: str, values: Floats) -> Iterator[tuple[str, int, float | None]]:
    """Series, index and height of each spike."""
    x = log_norm(values) if key == "grad_norm" else values
    found = local(x)
    yield from ((key, *each) for each in zip(found.steps, heights(x, found), strict=True))


def _told(key: str, record: Record, steps: Floats) -> Iterator[tuple[str, int, float | None]]:
    """The spikes that a result names, as far as their steps are among those that were kept; without heights."""
    yield from (
        (key, int(place), None) for place in np.flatnonzero(np.isin(steps, flagged_steps(record, key) or []))
    )


def _spike(
    variant: str, record: Record, at: tuple[str, int, float | None], series: Mapping[str, Series], batch: "_Batch"
) -> Spike:
    key, index, above = at
    step = int(series[key][0][index])
    texts, sequences, missing = batch.texts(step)
    return Spike(
        variant=variant,
        run=str(record.get("id")),
        seed=config_of(record).get("seed"),
        step=step,
        series=NAMES[key],
        lr=_value(series, "lr", step),
        above=above,
        around={key: (_value(series, key, step - 1), _value(series, key, step)) for key in NAMES},
        layer=batch.layer(step),
        texts=texts,
        sequences=sequences,
        missing=missing,
    )


def _value(series: Mapping[str, Series], key: str, step: int) -> float | None:
    """NaN where the step has a value that is not finite, None where it has none."""
    if key not in series:
        return None
    steps, values = series[key]
    index = int(np.searchsorted(steps, step))
    return float(values[index]) if index < len(steps) and steps[index] == step else None


class _Batch:
    """The batches of a run, as far as they can be had without preparing data."""

    def __init__(self, record: Record, folder: Path | None) -> None:
        self.missing = ""
        if folder is None:
            self._layers, self.missing = {}, NOT_STORED
            return
        self._layers = _layers(RunFolder(folder).layers)
        try:
            self._batches = _batches(record)
            self._tokenizer = Tokenizer.load(folder / "tokenizer.json")
        except LookupError:
            self.missing = NOT_HERE
        except (OSError, ValueError, TypeError) as error:
            self.missing = f"the batch cannot be read: {type(error).__name__}"

    def texts(self, step: int) -> tuple[tuple[str, ...], int, str]:
        """Beginnings of sequences of the update number ``step``, how many it had, or why there are none."""
        if self.missing:
            return (), 0, self.missing
        inputs, _ = self._batches.at(step - 1)
        return tuple(self._tokenizer.decode(row)[:CHARACTERS] for row in inputs[:SEQUENCES]), len(inputs), ""

    def layer(self, step: int) -> str:
        """The layer whose gradient was largest, from 1, and where that was seen before ``step``, at which step."""
        seen = max((at for at in self._layers if at <= step), default=None)
        norms = self._layers.get(seen) if seen is not None else None
        if not norms:
            return ""
        largest = max(range(len(norms)), key=norms.__getitem__)
        return f"{largest + 1} of {len(norms)}" + ("" if seen == step else f" (at step {seen})")


def _layers(file: Path) -> dict[int, list[float]]:
    found = {}
    for line in rising_lines(file):
        norms = line.get("grad_norm")
        if isinstance(norms, list):
            found[int(line["step"])] = [float(n) if isinstance(n, (int, float)) else -math.inf for n in norms]
    return found


def _batches(record: Record) -> Batches:
    """The run's batches from the cached token stream with its hashes.

    Raises:
        LookupError: there is none.
    """
    config = config_of(record)
    wanted = {"data_hash": hash_of(record, "data"), "tokenizer_hash": hash_of(record, "tokenizer")}
    for file in cache_dir().glob("tokens/*/meta.json"):
        meta = json.loads(file.read_text(encoding="utf-8"))
        if all(meta.get(key) == value for key, value in wanted.items()):
            return Batches(
                np.memmap(file.parent / "train.bin", dtype=np.dtype(meta["dtype"]), mode="r"),
                tokens_hash=file.parent.name,
                seq_len=config["model"]["max_seq_len"],
                batch_size=config["train"]["batch_size"],
                seed=stream_seed(config["study_seed"], config["seed"], "data"),
                ngrams=Ngrams(
                    rate=config["data"].get("ngram_rate", 0.0),
                    mask=config["data"].get("ngram_mask", False),
                    vocab_size=meta["vocab_size"],
                ),
            )
    raise LookupError
