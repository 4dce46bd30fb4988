"""Share of right answers to each probe, questions whose answers are known.

One value for each file of ``lab.probe``, by its name, between 0 and 1: of 200 questions, or as many as the text and
the window allow, drawn with seed 0, so that runs of one tokenizer and text are asked the same. A probe without any
question is left out. What guessing scores: ``agreement``, ``next_paragraph`` and ``swapped_words`` 1/2,
``last_word`` 1/4, ``recall`` 1/8 in windows of 33 tokens or more, ``induction`` 1/64 in windows of 129 or more.
``lab probe`` shows each with its interval.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lab import probe
from lab.data.corpus import Corpus, Document
from lab.errors import ConfigError
from lab.measure._text import check_text
from lab.probe import Choice, _score
from lab.probe._score import Reading, Score
from lab.training.load import Loaded

ITEMS = 200
"""Questions of each probe."""


def measure(loaded: Loaded) -> dict[str, float]:
    """Take it."""
    scores = answers(loaded, questions(loaded, probe.names(), n=ITEMS, seed=0))
    return {name: score.accuracy for name, score in scores.items() if score is not None}


def questions(loaded: Loaded, names: Sequence[str], *, n: int, seed: int) -> dict[str, list[Choice]]:
    """The items of each probe that a run can be asked.

    Raises:
        LabError: the corpus cannot be had or has changed.
    """
    window = loaded.config.model.max_seq_len
    source = probe.Source(loaded.tokenizer, window, lambda: held_out(loaded))
    return {name: probe.make(name, source, n=n, seed=seed) for name in names}


def answers(
    loaded: Loaded,
    items: Mapping[str, Sequence[Choice]],
    report: Callable[[int, str], None] = lambda done, name: None,
) -> dict[str, Score | None]:
    """Ask a run; None for a probe without items. ``report`` hears of sequences done of all, and of the probe."""
    scores: dict[str, Score | None] = {}
    before = 0
    for name, found in items.items():
        scores[name] = _ask(loaded, found, _shifted(report, before, name)) if found else None
        before += _score.n_sequences(found)
    return scores


def _ask(loaded: Loaded, items: Sequence[Choice], report: Callable[[int], None]) -> Score:
    return _score.score(loaded.model.logits, items, report=report, **_shape(loaded))


def readings(loaded: Loaded, items: Sequence[Choice], report: Callable[[int], None]) -> list[Reading]:
    """What a run makes of each item; ``report`` hears of sequences done."""
    return _score.read(loaded.model.logits, items, report=report, **_shape(loaded))


def _shape(loaded: Loaded) -> dict[str, Any]:
    """What there is to know of a run's model to have it read."""
    return {
        "vocab_size": loaded.tokenizer.vocab_size,
        "pad": loaded.tokenizer.eot,
        "device": str(loaded.model.embedding.weight.device),
    }


def _shifted(report: Callable[[int, str], None], before: int, name: str) -> Callable[[int], None]:
    """Report what is done of one probe as what is done of all."""
    return lambda done: report(before + done, name)


def held_out(loaded: Loaded) -> tuple[Document, ...]:
    """The val and test documents that a run has not been trained on.

    Raises:
        LabError: the corpus cannot be had or has changed.
    """
    corpus = corpus_of(loaded)
    return (*corpus.val, *corpus.test)


def corpus_of(loaded: Loaded) -> Corpus:
    """The text that a run was trained on, with what was held out.

    Raises:
        LabError: it cannot be had or has changed.
    """
    try:
        corpus = loaded.config.data.load()
    except ConfigError as error:
        raise ConfigError(f"data.{error}") from error
    check_text(loaded, corpus.hash)
    return corpus
