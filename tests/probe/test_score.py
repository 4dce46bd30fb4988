"""Scores of models whose answers are known beforehand."""

import math

import pytest
import torch

from lab import probe
from lab.probe import Choice
from lab.probe._score import Score, n_sequences, score


def ask(source, logits, items):
    return score(logits, items, vocab_size=source.tokenizer.vocab_size, pad=source.tokenizer.eot)


def oracle(items, vocab_size, *, wrong=False):
    """Logits of one who knows all answers, or a wrong one to all questions."""
    known = {}
    for item in items:
        index = item.answer if not wrong else (item.answer + 1) % len(item.alternatives)
        ids = (*item.context, *item.alternatives[index])
        known |= {ids[:at]: ids[at] for at in range(len(item.context), len(ids))}

    def logits(ids_BT):
        z_BTV = torch.zeros(*ids_BT.shape, vocab_size)
        for b, row in enumerate(ids_BT.tolist()):
            for t in range(len(row)):
                following = known.get(tuple(row[: t + 1]))
                if following is not None:
                    z_BTV[b, t, following] = 30.0
        return z_BTV

    return logits


@pytest.mark.parametrize("name", probe.names())
def test_an_oracle_is_right_and_its_opposite_wrong(name, source):
    items = probe.make(name, source, n=4, seed=0)
    for wrong in (False, True):
        found = ask(source, oracle(items, source.tokenizer.vocab_size, wrong=wrong), items)
        assert (found.items, found.right) == (4, 0 if wrong else 4)
        assert found.right_of_all in (None, found.right)


@pytest.mark.slow
@pytest.mark.parametrize("name", probe.names())
def test_a_uniform_model_is_at_chance(name, source):
    items = probe.make(name, source, n=60, seed=0)
    vocab_size = source.tokenizer.vocab_size
    found = ask(source, lambda ids_BT: torch.zeros(1).expand(*ids_BT.shape, vocab_size), items)
    assert found.chance == 1 / len(items[0].alternatives)
    low, high = found.interval
    assert low < found.chance < high
    assert found.verdict == ""


@pytest.mark.parametrize("seed", range(3))
def test_who_ignores_the_context_is_at_chance_in_paragraphs(source, seed):
    items = probe.make("next_paragraph", source, n=20, seed=0)
    z_V = torch.randn(source.tokenizer.vocab_size, generator=torch.Generator().manual_seed(seed))
    assert ask(source, lambda ids_BT: z_V.expand(*ids_BT.shape, len(z_V)), items).right == 10


def test_who_always_takes_the_same_word_is_at_chance_in_agreement(sources):
    items = probe.make("agreement", sources["byte"], n=24, seed=0)
    z_BTV = torch.zeros(1).expand(1, 1, 257)  # then the shorter word wins
    found = ask(sources["byte"], lambda ids_BT: z_BTV.expand(*ids_BT.shape, 257), items)
    assert found.right == 12


@pytest.mark.parametrize("name", probe.names())
def test_batches_change_nothing(name, source, monkeypatch):
    """Against one alternative at a time, with a model that depends on all ids before."""
    vocab_size, noise = source.tokenizer.vocab_size, torch.Generator().manual_seed(0)
    table_VV = torch.randn(vocab_size, vocab_size, generator=noise)

    def logits(ids_BT):
        counts = torch.arange(1, ids_BT.shape[1] + 1)[:, None]
        return 4 * table_VV[ids_BT].cumsum(dim=1) / counts.sqrt()

    items = probe.make(name, source, n=12, seed=3)
    right = 0
    for item in items:
        totals = []
        for alternative in item.alternatives:
            ids = torch.tensor([[*item.context, *alternative]])
            logp_TV = logits(ids)[0].log_softmax(dim=-1)
            begin = len(item.context)
            totals.append(sum(logp_TV[t - 1, ids[0, t]].item() for t in range(begin, ids.shape[1])))
        right += totals.index(max(totals)) == item.answer
    assert 0 < right < 12 or len(item.alternatives) > 2
    monkeypatch.setattr("lab.probe._score.LOGITS_AT_ONCE", 60 * vocab_size)
    seen = []
    found = score(logits, items, vocab_size=vocab_size, pad=source.tokenizer.eot, report=seen.append)
    assert found.right == right
    assert seen[-1] == n_sequences(items)
    assert len(seen) > 1


def test_alternatives_of_one_token_are_read_once():
    item = Choice((1, 2), ((3,), (4,), (5,)), 0)
    assert n_sequences([item]) == 1
    assert n_sequences([item, Choice((1, 2), ((3, 1), (4, 1), (3, 2)), 0)]) == 3


def test_the_whole_vocabulary_is_harder():
    z_V = torch.tensor([0.0, 5.0, 1.0, 2.0])
    items = [Choice((0,), ((2,), (3,)), 1), Choice((0,), ((1,), (3,)), 0)]
    found = score(lambda ids_BT: z_V.expand(*ids_BT.shape, 4), items, vocab_size=4, pad=0)
    assert (found.right, found.right_of_all) == (2, 1)


@pytest.mark.parametrize(("right", "items"), [(0, 20), (1, 20), (117, 200), (199, 200), (20, 20)])
def test_the_interval_is_clopper_and_pearsons(right, items):
    """At its ends the tail that lies beyond what was seen holds 2.5 %."""
    low, high = Score(items, right, 0.5, None).interval

    def tail(p, hits):
        return sum(math.comb(items, k) * p**k * (1 - p) ** (items - k) for k in hits)

    assert low == 0 if right == 0 else tail(low, range(right, items + 1)) == pytest.approx(0.025, rel=1e-6)
    assert high == 1 if right == items else tail(high, range(right + 1)) == pytest.approx(0.025, rel=1e-6)


@pytest.mark.parametrize(("right", "verdict"), [(150, "above chance"), (100, ""), (50, "below chance")])
def test_verdict(right, verdict):
    assert Score(200, right, 0.5, None).verdict == verdict
