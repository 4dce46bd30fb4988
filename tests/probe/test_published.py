"""Published sets: what is asked, and what the answers come to. No test needs the hub."""

import json
import math

import numpy as np
import pytest
import torch

from lab import probe
from lab.data.corpus import Document
from lab.data.tokenizer.byte import Config as Byte
from lab.errors import LabError
from lab.probe import Source, _score, published
from lab.probe._score import Reading
from lab.probe.published import blimp, lambada

TRAIN = "The cats sleep. Cats don't run, the dogs run! " * 4 + "The cat sleeps. THE dogs run."
PAIRS = [
    ("The cats run.", "The cat run.", "agreement"),
    ("The dogs sleep.", "The dogs don\u2019t go.", "agreement"),
    ("The dogs run.", "The run dogs the.", "order"),
    ("The cats run the dogs.", "Cats the run the dogs.", "order"),
]
ROWS = [
    {"part": "file", "sentence_good": good, "sentence_bad": bad, "UID": paradigm} for good, bad, paradigm in PAIRS
]
WORDS = [["w ", " h", "hi", "im"], ["e ", " h", "ha", "at"]]
"""Of each of two passages below, the last word as pairs of neighbours."""
PASSAGES = ["He saw him", 'A hat.\n\n"Yes", said the man in the hat ', "one"]


@pytest.fixture(scope="module")
def source():
    tokenizer = Byte(name="byte").build([], "")
    return Source(tokenizer, 24, lambda: [Document("a", TRAIN)])


def said(source, ids):
    return source.tokenizer.decode([i for i in ids if i != source.tokenizer.eot])


def test_they_are_asked_only_where_they_are_named():
    assert published.names() == ["blimp", "lambada"]
    assert not {*published.names()} & {*probe.names()}
    assert all("? " in published.describe(name) for name in published.names())


def test_where_they_lie_on_the_hub():
    sources = published.load("blimp").sources([])
    assert len({source.subset for source in sources}) == len(sources) == 67
    assert {(s.dataset, s.split, s.field, s.also) for s in sources} == {
        ("nyu-mll/blimp", "train", "sentence_good", ("sentence_bad",))
    }
    (one,) = published.load("lambada").sources([])
    assert (one.dataset, one.subset, one.split, one.field) == (
        "EleutherAI/lambada_openai",
        "default",
        "test",
        "text",
    )


def test_known_words_occur_five_times_in_any_case():
    assert blimp.known_words([TRAIN]) == {"the", "cats", "run", "dogs"}
    assert blimp.known_words([TRAIN, "DON\u2019T sleep"]) == {"the", "cats", "run", "dogs", "don't", "sleep"}


@pytest.mark.slow
def test_blimp_counts_by_paradigm_and_known_words(source):
    """The model takes the longer sentence."""

    def read(items):
        assert all(item.context == (source.tokenizer.eot,) for item in items)
        assert {said(source, item.alternatives[item.answer]) for item in items} == {
            good for good, _, _ in PAIRS[:3]
        }
        return [
            Reading(tuple(len(said(source, ids)) for ids in item.alternatives), (False, False)) for item in items
        ]

    found = blimp.Asked().answers(ROWS, Source(source.tokenizer, 21, source.read), read, np.random.default_rng(0))
    assert (found["items"], found["chance"], found["too_long"]) == (3, 0.5, 1)
    assert (found["right"], found["accuracy"]) == (1, 1 / 3)
    known = found["subsets"]["known words"]
    assert (known["items"], known["right"], known["accuracy"]) == (1, 0, 0.0)
    nothing = {"items": 0, "right": 0, "accuracy": None}
    wrong = {"items": 1, "right": 0, "accuracy": 0.0}
    assert found["paradigms"] == {
        "agreement": {"items": 2, "right": 1, "accuracy": 0.5, "known": nothing},
        "order": {**wrong, "known": wrong},
    }
    assert "holds for 1 of 3 pairs of 2 paradigms" in blimp.Asked().says(found)[0]


@pytest.mark.slow
def test_the_interval_is_that_of_a_mean_over_paradigms():
    right = np.array([0, 20, 7, 20, 1, 19])
    found = blimp.ByParadigm(120, int(right.sum()), 0.5, None, tuple((20, int(r)) for r in right))
    mean, half = (right / 20).mean(), 2.570582 * (right / 20).std(ddof=1) / 6**0.5
    assert found.interval == pytest.approx((max(0, mean - half), min(1, mean + half)), abs=1e-6)
    for paradigms in ([(120, 67)], [(60, 33), (60, 34)]):  # one, or too even to be true
        even = blimp.ByParadigm(120, 67, 0.5, None, tuple(paradigms))
        low, high = _score.Score(120, 67, 0.5, None).interval
        assert even.interval[0] <= low < high <= even.interval[1]
    assert found.verdict == ""


@pytest.mark.slow
def test_ties_are_won_by_chance(source):
    rows = ROWS[2:3] * 200
    found = blimp.Asked().answers(
        rows,
        source,
        lambda items: [Reading((0.0, 0.0), (False, False)) for _ in items],
        np.random.default_rng(0),
    )
    assert 70 < found["right"] < 130


@pytest.mark.slow
def test_lambada_against_one_token_at_a_time(source):
    """By a model that would say ``him`` and never ``hat``."""
    vocab_size = source.tokenizer.vocab_size
    table_VV = 4 * torch.randn(vocab_size, vocab_size, generator=torch.Generator().manual_seed(0))
    for pair in ("w ", "e ", " h", "hi", "im"):
        ((before, after),) = source.encode(pair)
        table_VV[before, after] = 40.0
    logp_VV = table_VV.double().log_softmax(dim=-1)
    nats = [-sum(float(logp_VV[source.encode(pair)[0]]) for pair in pairs) for pairs in WORDS]

    def read(items):
        return _score.read(lambda ids_BT: table_VV[ids_BT], items, vocab_size=vocab_size, pad=0)

    rows = [{"part": "file", "text": text} for text in PASSAGES]
    found = lambada.Asked().answers(rows, source, read, np.random.default_rng(0))
    assert (found["items"], found["right"], found["cut"], found["chance"]) == (2, 1, 1, None)
    assert found["nats_per_word"] == pytest.approx(sum(nats) / 2, rel=1e-6)
    assert found["perplexity"] == pytest.approx(math.exp(sum(nats) / 2), rel=1e-5)
    assert found["interval"][0] < 0.5 < found["interval"][1]
    (line,) = lambada.Asked().says(found)
    assert line.endswith("1 of 2 passages begin before the model's window")


def test_no_questions_are_no_answers(source):
    for name in published.names():
        found = published.load(name).answers([], source, lambda items: [], np.random.default_rng(0))
        assert (found["items"], found["accuracy"]) == (0, None)
        published.load(name).says(found)


@pytest.mark.slow
def test_parquet_and_json_lines_hold_the_same(tmp_path):
    import pyarrow
    import pyarrow.parquet

    lines, table = tmp_path / "order.jsonl", tmp_path / "order.parquet"
    lines.write_text("".join(json.dumps({**row, "pairID": i}) + "\n" for i, row in enumerate(ROWS)))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), table)
    asked, draw = published.load("blimp"), published.draw("blimp", 0)
    expected = [{**row, "part": "order"} for row in ROWS]
    sources = [asked.sources([str(path)]) for path in (lines, table)]
    assert published.rows(sources[0], None, draw) == published.rows(sources[1], None, draw) == expected
    both = published.rows([*sources[0], *sources[1]], 5, draw)
    assert len(both) == 5
    with pytest.raises(LabError, match="field 'text' is not a column of json: it has part, sentence_good"):
        published.rows(published.load("lambada").sources([str(lines)]), None, draw)


def test_files_that_cannot_be():
    with pytest.raises(LabError, match=r"^--file 'a.xml' must end in one of \.parquet, \.jsonl"):
        published.load("blimp").sources(["a.xml"])
    with pytest.raises(LabError, match=r"^--file 'none.jsonl' is not a file"):
        published.load("blimp").sources(["none.jsonl"])
