import time

import numpy as np
import pytest

from lab.data.batches import IGNORED, Batches, eval_windows
from lab.errors import ConfigError

TOKENS = np.arange(1003, dtype=np.uint16)


def make(tokens=TOKENS, *, seq_len=10, batch_size=8, seed=1, tokens_hash="h"):
    return Batches(tokens, tokens_hash=tokens_hash, seq_len=seq_len, batch_size=batch_size, seed=seed)


def test_targets_are_one_token_ahead():
    x, y = make().at(3)
    assert x.shape == y.shape == (8, 10)
    assert x.dtype == y.dtype == np.int64
    np.testing.assert_array_equal(y, x + 1)
    np.testing.assert_array_equal(x[:, 0], make().starts(3))


def test_at_is_a_pure_function_of_seed_and_step():
    batches = make()
    forward = [batches.at(step)[0] for step in range(60)]
    for step in (59, 0, 30, 13, 13):
        np.testing.assert_array_equal(batches.at(step)[0], forward[step])
        np.testing.assert_array_equal(make().at(step)[0], forward[step])
    assert not np.array_equal(make(seed=2).starts(0), make().starts(0))


def test_the_order_is_fixed_for_all_versions():
    assert make().starts(0).tolist() == [2, 612, 622, 302, 92, 362, 152, 942]


def test_every_window_comes_once_a_pass():
    batches = make(batch_size=1)
    assert batches.n_windows == 99
    phases = set()
    for number in range(20):
        starts = np.sort([batches.starts(number * 99 + i)[0] for i in range(99)])
        np.testing.assert_array_equal(np.diff(starts), 10)
        assert 0 <= starts[0] < 10
        assert starts[-1] + 10 < len(TOKENS)
        phases.add(int(starts[0]))
    assert len(phases) > 5


def test_passes_have_orders_of_their_own():
    batches = make(batch_size=99)
    first, second = batches.starts(0), batches.starts(1)
    assert (np.argsort(first) != np.argsort(second)).mean() > 0.9


def test_a_batch_may_straddle_passes():
    one = make(batch_size=1)
    many = make(batch_size=64)
    for step in range(10):
        want = [one.starts(step * 64 + i)[0] for i in range(64)]
        assert many.starts(step).tolist() == want
    huge = make(batch_size=250)  # more windows than a pass has
    assert huge.starts(0).tolist() == [one.starts(i)[0] for i in range(250)]


def test_hash_is_of_what_is_drawn():
    hashes = {
        make().hash(50),
        make().hash(49),
        make(seed=2).hash(50),
        make(tokens_hash="other").hash(50),
        make(batch_size=4).hash(100),
        make(seq_len=11).hash(50),
    }
    assert len(hashes) == 6
    batches = make()
    batches.at(40)
    assert batches.hash(50) == make().hash(50)


def test_hash_is_fast():
    batches = make(np.zeros(3_000_000, dtype=np.uint16), seq_len=128, batch_size=64)
    began = time.monotonic()
    batches.hash(10_000)
    assert time.monotonic() - began < 2.0  # 0.1 s on a quiet machine


def test_epochs():
    assert make().epochs(99) == 8.0


@pytest.mark.parametrize("n_tokens", [0, 1, 10, 19])
def test_too_few_tokens(n_tokens):
    with pytest.raises(ConfigError) as caught:
        make(TOKENS[:n_tokens])
    assert str(caught.value) == f"data holds {n_tokens} train tokens; model.max_seq_len 10 needs at least 20"


def test_the_least_number_of_tokens():
    batches = make(TOKENS[:20], batch_size=30)
    assert batches.n_windows == 1
    assert batches.at(0)[1].max() < 20


@pytest.mark.parametrize("n_tokens", [1, 2, 10, 11, 12, 21, 1003])
def test_evaluation_scores_every_token_after_the_first_once(n_tokens):
    x, y = eval_windows(TOKENS[:n_tokens], 10)
    assert x.shape == y.shape == (-(-(n_tokens - 1) // 10), 10)
    assert x.dtype == y.dtype == np.int64
    scored = y != IGNORED
    assert y[scored].tolist() == list(range(1, n_tokens))
    np.testing.assert_array_equal(y[scored], x[scored] + 1)
    assert (x[~scored] == 0).all()
