"""Presets with one thing wrong: the comparison with their references must fail, in the logits unless said."""

import pytest

from lab.model.position import alibi
from oracles.cases import find
from oracles.compare import LOGITS, compare
from oracles.mistakes import MISTAKES, Mistake

QUICK = ("llama", "gpt2")
"""Cases whose mistakes the fast suite tries; the rest are tried where all tests are."""


def speed(mistake: Mistake):
    return mistake if mistake.case in QUICK else pytest.param(mistake, marks=pytest.mark.slow)


@pytest.mark.parametrize("mistake", [speed(mistake) for mistake in MISTAKES], ids=str)
def test_a_mistake_is_seen(mistake: Mistake):
    found = compare(find(mistake.case), mistake.changed, weights=mistake.weights)

    assert not found.equal
    assert found.logits > 3 * LOGITS if mistake.in_logits else found.logits <= LOGITS


def test_wrong_slopes_of_alibi_are_seen(monkeypatch):
    right = alibi.slopes
    monkeypatch.setattr(alibi, "slopes", lambda n_heads: [slope / 2 for slope in right(n_heads)])

    assert compare(find("bloom-6-heads")).logits > 3 * LOGITS
