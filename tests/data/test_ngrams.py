import itertools

import numpy as np
import pytest

from lab.data.batches import IGNORED, Batches
from lab.data.corpus import CorpusConfig
from lab.data.ngrams import Ngrams, repeated
from lab.errors import ConfigError

TOKENS = (np.arange(9000) * 7919 % 211).astype(np.uint16)
VOCAB = 300


def make(rate=0.0, mask=False, *, batch_size=8, seed=1, seq_len=80, ngrams=True):
    planted = Ngrams(rate=rate, mask=mask, vocab_size=VOCAB) if ngrams else None
    return Batches(TOKENS, tokens_hash="h", seq_len=seq_len, batch_size=batch_size, seed=seed, ngrams=planted)


def windows(batches, steps=30):
    """Inputs and the last target of all windows of some steps."""
    drawn = [batches.at(step) for step in range(steps)]
    return np.concatenate([np.concatenate([x, y[:, -1:]], axis=1) for x, y in drawn])


def slow_runs(window):
    """Start, n and repeats of each longest run of one n-gram in a window, as the definition has it."""
    found = []
    window = window.tolist()
    for n in range(1, 14):
        for start in range(len(window) - 32 * n + 1):
            gram = window[start : start + n]
            repeats = 1
            while window[start + repeats * n : start + (repeats + 1) * n] == gram:
                repeats += 1
            if repeats >= 32:
                found.append((start, n, repeats))
    return found


def test_none_planted_is_the_batches_as_they_were():
    plain, same = make(ngrams=False), make(0.0)
    for step in range(20):
        for a, b in zip(plain.at(step), same.at(step), strict=True):
            np.testing.assert_array_equal(a, b)
    assert plain.hash(20) == same.hash(20)
    assert (
        same.hash(20) == "c1a4236d62936a8166cd9f6b41725f2e163ca802982bc8a82ccdb807e7229b7f"
    )  # before there were any


def test_only_a_run_differs_and_it_repeats_one_ngram():
    before, after = windows(make(), 15), windows(make(0.3), 15)
    lengths, places = set(), set()
    for old, new in zip(before, after, strict=True):
        changed = np.flatnonzero(old != new)
        runs = slow_runs(new)
        assert bool(len(changed)) == bool(runs)
        if runs:
            start, n, repeats = runs[0]
            assert start <= changed[0]
            assert changed[-1] < start + (repeats + 1) * n
            lengths.add(n)
            places.add(start)
    assert lengths == {1, 2}  # 80 tokens hold 32 repeats of no more
    assert len(places) > 10


def test_the_rate_is_kept_and_a_larger_one_plants_the_same_and_more():
    counts, before = [], windows(make(), 200)
    changed = [(windows(make(rate), 200) != before).any(axis=1) for rate in (0.05, 0.2, 1.0)]
    for less, more in itertools.pairwise(changed):
        assert (less <= more).all()
    counts = [each.mean() for each in changed]
    assert counts[0] == pytest.approx(0.05, abs=0.02)
    assert counts[1] == pytest.approx(0.2, abs=0.03)
    assert counts[2] == 1.0


def test_long_windows_take_ngrams_of_all_lengths():
    planted = np.zeros((400, 512), dtype=np.int64) - np.arange(1, 513)
    Ngrams(rate=1.0, mask=False, vocab_size=VOCAB).plant(planted, seed=3, first=0)
    found = {min(n for _, n, _ in slow_runs(window)) for window in planted[::20]}
    assert len(found) > 8
    assert max(found) <= 13
    assert planted.max() < VOCAB


def test_planting_is_a_pure_function_of_seed_and_window():
    batches = make(0.3)
    forward = [batches.at(step)[0] for step in range(12)]
    for step in (11, 3, 0, 3):
        np.testing.assert_array_equal(make(0.3).at(step)[0], forward[step])
    np.testing.assert_array_equal(windows(make(0.3, batch_size=24), 4), windows(make(0.3), 12))
    planted = [(windows(make(0.3, seed=s)) != windows(make(seed=s))).any(axis=1) for s in (1, 2)]
    assert (planted[0] != planted[1]).any()


def test_what_is_planted_is_fixed_for_all_versions():
    window = np.full((2, 65), 999)
    Ngrams(rate=1.0, mask=False, vocab_size=VOCAB).plant(window, seed=5, first=7)
    assert [slow_runs(row)[0] for row in window] == [(11, 1, 50), (0, 2, 32)]
    assert window[:, 12].tolist() == [199, 147]


def test_hashes_tell_apart_what_is_drawn():
    made = [make(ngrams=False), make(0.1), make(0.2), make(0.1, True), make(0.0, True)]
    assert len({each.hash(10) for each in made}) == 5


def test_the_mask_leaves_out_the_targets_of_windows_that_hold_a_run():
    plain, masked = make(0.3), make(0.3, True)
    left_out = 0
    for step in range(10):
        (x, y), (x_masked, y_masked) = plain.at(step), masked.at(step)
        np.testing.assert_array_equal(x, x_masked)
        runs = [bool(slow_runs(row)) for row in np.concatenate([x, y[:, -1:]], axis=1)]
        np.testing.assert_array_equal(y_masked, np.where(np.array(runs)[:, None], IGNORED, y))
        left_out += sum(runs)
    assert left_out > 10


@pytest.mark.parametrize(("n", "repeats", "want"), [(1, 31, False), (1, 32, True), (13, 31, False), (13, 32, True)])
def test_a_run_counts_from_32_repeats(n, repeats, want):
    window = np.arange(1000, 1500)[None].repeat(2, axis=0)
    window[1, 40 : 40 + n * repeats] = np.tile(np.arange(n), repeats)
    assert repeated(window).tolist() == [False, want]
    assert bool(slow_runs(window[1])) is want


def test_ngrams_longer_than_13_do_not_count():
    assert not repeated(np.tile(np.arange(14), 40)[None]).any()


def test_short_windows_hold_no_run():
    assert not repeated(np.zeros((2, 31), dtype=np.int64)).any()
    with pytest.raises(ConfigError, match=r"^data.ngram_rate 0.1 needs model.max_seq_len >= 32, not 31$"):
        make(0.1, seq_len=31)
    windows(make(1.0, seq_len=32), 2)


@pytest.mark.parametrize("rate", [-0.1, 1.5, float("nan")])
def test_a_rate_is_a_share(memory, rate):
    with pytest.raises(ConfigError, match=r"^ngram_rate"):
        memory(name="memory", ngram_rate=rate)


def test_settings_of_a_corpus_say_what_is_done(memory):
    assert memory(name="memory").ngrams(VOCAB) is None
    assert memory(name="memory", ngram_rate=0.5).ngrams(9) == Ngrams(rate=0.5, mask=False, vocab_size=9)
    assert memory(name="memory", ngram_mask=True).ngrams(9) == Ngrams(rate=0.0, mask=True, vocab_size=9)
    assert isinstance(memory(name="memory"), CorpusConfig)
