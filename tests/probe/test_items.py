"""How items are made: from held-out text alone, the same each time, and with nothing that gives the answer away."""

from collections import Counter
from dataclasses import replace

import pytest

from lab import probe
from lab.probe.agreement import PAIRS

pytestmark = pytest.mark.slow

TEXT = ("agreement", "last_word", "next_paragraph", "swapped_words")
RANDOM = ("induction", "recall")


def true(item):
    return item.alternatives[item.answer]


def false(item):
    return [ids for i, ids in enumerate(item.alternatives) if i != item.answer]


def text(source, ids):
    """What ids say, without end-of-text and without a character that was cut in two."""
    kept = [i for i in ids if i != source.tokenizer.eot]
    return source.tokenizer.decode(kept).lstrip("\ufffd").rstrip("\ufffd")


def test_every_probe_is_tested():
    assert probe.names() == sorted(TEXT + RANDOM)


@pytest.mark.parametrize("name", TEXT + RANDOM)
def test_items_fit_and_depend_on_nothing_but_the_seed(name, source):
    items = probe.make(name, source, n=12, seed=1)
    assert len(items) == 12
    assert items == probe.make(name, source, n=12, seed=1)
    assert items != probe.make(name, source, n=12, seed=2)
    assert len(set(items)) == 12
    assert len({len(item.alternatives) for item in items}) == 1
    assert len({item.answer for item in items}) > 1
    for item in items:
        assert item.context
        assert len(set(item.alternatives)) == len(item.alternatives)
        assert len(item.context) + max(map(len, item.alternatives)) <= source.window
        assert max(map(max, (item.context, *item.alternatives))) < source.tokenizer.vocab_size


@pytest.mark.parametrize("name", TEXT)
def test_text_is_held_out_and_the_truth_is_in_it(name, source, corpus):
    held_out = [document.text for document in source.documents]
    everything = "\0".join(document.text for document in corpus.train)
    for item in probe.make(name, source, n=12, seed=0):
        said = text(source, (*item.context, *true(item)))
        assert any(said in document for document in held_out)
        assert said not in everything
        for other in false(item):
            assert not any(text(source, (*item.context, *other)) in document for document in held_out)


@pytest.mark.parametrize("name", RANDOM)
def test_random_items_read_no_text(name, source):
    def read():
        raise AssertionError

    assert probe.make(name, replace(source, read=read), n=3, seed=0)


@pytest.mark.parametrize("name", TEXT + RANDOM)
def test_a_window_that_is_too_short_gives_no_items(name, source):
    short = [replace(document, text=document.text[:2000]) for document in source.documents[:2]]
    assert probe.make(name, replace(source, window=4, read=lambda: short), n=3, seed=0) == []


@pytest.mark.parametrize("name", TEXT)
def test_no_more_items_than_the_text_has(name, source):
    short = [
        replace(document, text=document.text[: 20_000 if name == "last_word" else 2_500])
        for document in source.documents[:2]
    ]
    found = probe.make(name, replace(source, read=lambda: short), n=10_000, seed=0)
    assert 0 < len(found) < 1000
    assert len(set(found)) == len(found)


def test_swapped_words_are_two_neighbours_and_as_many_tokens(source):
    for item in probe.make("swapped_words", source, n=20, seed=0):
        (swapped,) = false(item)
        one, two = text(source, true(item)).split(" "), text(source, swapped).split(" ")
        assert Counter(true(item)) == Counter(swapped)
        first, second = one[1], one[2].rstrip(",;.?!")
        assert two[1] == second
        assert two[2] == first + one[2].removeprefix(second)
        assert one[3:] == two[3:]
        assert one[-1][-1] in ".?!"


def test_agreement_has_each_word_of_a_pair_equally_often(source):
    truths = Counter()
    for item in probe.make("agreement", source, n=40, seed=0):
        one, two = (text(source, ids).strip() for ids in (true(item), *false(item)))
        truths[one.split()[0].rstrip(",;")] += 1
        pair = tuple(said.split()[0].rstrip(",;") for said in (one, two))
        assert pair in PAIRS or pair[::-1] in PAIRS
        assert one.removeprefix(pair[0]) == two.removeprefix(pair[1])
    assert set(truths.values()) == {5}


def test_last_words_have_all_been_said_and_are_as_many_tokens(source):
    for item in probe.make("last_word", source, n=10, seed=0):
        passage = text(source, item.context)
        words = [text(source, ids).strip() for ids in item.alternatives]
        assert len(words) == 4
        assert len(set(map(len, item.alternatives))) == 1
        assert len({word[-1] for word in words}) == 1
        for word in words:
            assert word[:-1] in passage


def test_a_false_paragraph_is_the_true_one_of_the_next_item(source):
    items = probe.make("next_paragraph", source, n=20, seed=0)
    for one, two in zip(items[::2], items[1::2], strict=True):
        assert (true(one), true(two)) == (*false(two), *false(one))
        assert len(true(one)) == len(true(two)) >= 8
        assert text(source, true(one)).startswith("\n")


def test_induction_repeats(source):
    for item in probe.make("induction", source, n=40, seed=0):
        eot, *ids = item.context
        assert eot == source.tokenizer.eot
        length = len(item.alternatives)
        assert length == min(64, (source.window - 1) // 2)
        once, again = ids[:length], ids[length:]
        assert 0 < len(again) < length
        assert again == once[: len(again)]
        assert true(item) == (once[len(again)],)
        assert {i for (i,) in item.alternatives} == set(once)


def test_recall_asks_for_the_value_of_a_key(source):
    repeated = 0
    for item in probe.make("recall", source, n=40, seed=0):
        eot, *ids, asked = item.context
        assert eot == source.tokenizer.eot
        assert len(ids) == 16 + 14
        value = dict(zip(ids[:16:2], ids[1:16:2], strict=True))
        assert len(value) == 8
        assert len({*value, *value.values(), eot}) == 17
        assert all(value[key] == answer for key, answer in zip(ids[16::2], ids[17::2], strict=True))
        assert true(item) == (value[asked],)
        assert {i for (i,) in item.alternatives} == set(value.values())
        repeated += asked in ids[16::2]
    assert 0 < repeated < 40
