"""Tokens one after the other: from a cache as from a whole forward, and drawn as the settings say."""

import itertools
import math
from collections import Counter

import pytest
import torch
from contracts.menu import PATHS, SIZES, model, shaken, tokens
from transformers.generation.logits_process import (
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from lab import choices
from lab.data.tokenizer.byte import Config as ByteConfig
from lab.errors import ConfigError, LabError
from lab.training.generate import Sampling, as_text, candidates, generate, pick

pytestmark = pytest.mark.slow

GREEDY = Sampling(temperature=0, top_k=None, top_p=None, seed=0)
PROMPT = tokens(1, 5)[0].tolist()


def made(net, sampling=GREEDY, *, prompt=PROMPT, n_tokens=11, **options):
    return list(generate(net, prompt, sampling, n_tokens=n_tokens, n_ids=SIZES.vocab_size, **options))


def drawn(**changed):
    return Sampling(**{"temperature": 1.0, "top_k": None, "top_p": None, "seed": 0} | changed)


USUAL = [("mha", "rope"), ("mha", "learned"), ("mla", "rope"), ("gqa", "alibi"), ("sliding_window", "t5_bias")]
EVERY = [(*pair, path) for pair in USUAL for path in PATHS] + [
    pytest.param(*pair, "sdpa", marks=pytest.mark.slow)
    for pair in itertools.product(choices.names("attn"), choices.names("position"))
    if pair not in USUAL
]


@pytest.mark.parametrize(("attn", "position", "path"), EVERY)
def test_tokens_are_those_of_a_whole_forward(attn, position, path):
    """24 of them, beyond the training length where the positions go on; the greedy ones may soon repeat."""
    net = shaken(model(attn=attn, position=position, path=path)).eval()
    found = made(net, n_tokens=24)
    assert made(net, n_tokens=24, cached=False) == found
    assert len(found) == (24 if net.position.longest is None else SIZES.max_seq_len - len(PROMPT) + 1)
    with torch.no_grad():
        logits_BTV = net.logits(torch.tensor([PROMPT + found[:-1]]))
    assert logits_BTV[0, len(PROMPT) - 1 :].argmax(-1).tolist() == found
    various = made(net, drawn(temperature=5.0), n_tokens=24)
    assert made(net, drawn(temperature=5.0), n_tokens=24, cached=False) == various
    assert len(set(various)) > 4


def test_what_acts_on_the_logits_acts():
    net = shaken(
        model(stability=["logit_softcap", "norm_head"], ends={"head_bias": True, "logit_scale": 3.0})
    ).eval()
    found = made(net, n_tokens=4)
    with torch.no_grad():
        assert net.logits(torch.tensor([PROMPT + found[:-1]]))[0, -1].argmax() == found[-1]


def test_a_cache_feeds_one_token_at_a_time(monkeypatch):
    net, lengths = model().eval(), []
    forward = net.forward

    def counted(ids_BT, caches=None, offset=0):
        lengths.append((ids_BT.shape[1], offset))
        return forward(ids_BT, caches, offset)

    monkeypatch.setattr(net, "forward", counted)
    made(net, n_tokens=4)
    assert lengths == [(5, 0), (1, 5), (1, 6), (1, 7)]
    lengths.clear()
    made(net, n_tokens=3, cached=False)
    assert lengths == [(5, 0), (6, 0), (7, 0)]


def test_learned_positions_end():
    net = model(position="learned").eval()
    assert len(made(net, n_tokens=100)) == 12
    assert len(made(net, prompt=PROMPT * 3 + [1], n_tokens=100)) == 1
    for cached in (True, False):
        with pytest.raises(LabError, match=r"^the prompt has 17 tokens, and the model has positions for 16$"):
            generate(net, [1] * 17, GREEDY, n_tokens=1, n_ids=61, cached=cached)


def test_draws_are_a_function_of_the_seed():
    net = shaken(model()).eval()
    torch.manual_seed(1)
    first = made(net, drawn(seed=4))
    torch.manual_seed(2)
    assert made(net, drawn(seed=4)) == first
    assert made(net, drawn(seed=4), cached=False) == first
    assert made(net, drawn(seed=5)) != first
    assert made(net, drawn(seed=4), n_tokens=6) == first[:6]


def test_ids_that_the_tokenizer_lacks_are_never_made():
    net = model().eval()
    found = list(generate(net, PROMPT, drawn(temperature=100.0), n_tokens=11, n_ids=3))
    assert set(found) <= {0, 1, 2}


SETTINGS = [
    {},
    {"temperature": 0.5},
    {"temperature": 2.0, "top_k": 3},
    {"top_k": 100},
    {"top_p": 0.6},
    {"top_p": 1e-9},
    {"top_p": 1.0},
    {"temperature": 1.5, "top_k": 5, "top_p": 0.7},
]


def warped(logits_V, *, temperature=1.0, top_k=None, top_p=None):
    """The probabilities that transformers would draw from."""
    scores = TemperatureLogitsWarper(float(temperature))(None, logits_V[None].clone())
    scores = scores if top_k is None else TopKLogitsWarper(top_k)(None, scores)
    scores = scores if top_p is None else TopPLogitsWarper(top_p)(None, scores)
    return scores[0].softmax(-1)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_probabilities_are_those_of_transformers(settings):
    logits_V = 2 * torch.randn(40, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    ids, reached = candidates(logits_V, drawn(**settings))
    found_V = torch.zeros(40, dtype=torch.float64)
    found_V[ids] = reached.diff(prepend=torch.zeros(1, dtype=torch.float64)) / reached[-1]
    torch.testing.assert_close(found_V, warped(logits_V, **settings), rtol=0, atol=1e-12)


def test_draws_have_these_probabilities():
    logits_V, generator, n = (
        torch.tensor([0.1, 0.2, 0.0, 0.7]).double().log(),
        torch.Generator().manual_seed(0),
        400,
    )
    counts = Counter(pick(logits_V, drawn(), generator) for _ in range(n))
    assert counts.keys() == {0, 1, 3}
    for i, share in ((0, 0.1), (1, 0.2), (3, 0.7)):
        assert abs(counts[i] - n * share) < 3 * math.sqrt(n * share * (1 - share))


def test_the_ends_of_the_settings_are_greedy():
    logits_V = torch.randn(50, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    best = int(logits_V.argmax())
    for settings in ({"temperature": 0.0}, {"top_k": 1}, {"top_p": 1e-9}, {"temperature": 1e-4}):
        for seed in range(20):
            assert pick(logits_V, drawn(**settings), torch.Generator().manual_seed(seed)) == best


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": -1.0}, "temperature -1.0 must be >= 0"),
        ({"temperature": math.nan}, "temperature nan must be >= 0"),
        ({"top_k": 0}, "top_k 0 must be >= 1"),
        ({"top_p": 0.0}, "top_p 0.0 must be > 0 and <= 1"),
        ({"top_p": 1.5}, "top_p 1.5 must be > 0 and <= 1"),
        ({"seed": -1}, "seed -1 must be >= 0"),
    ],
)
def test_values_out_of_range(settings, message):
    with pytest.raises(ConfigError, match=f"^{message}"):
        drawn(**settings)


def test_no_tokens_are_refused():
    with pytest.raises(ConfigError, match=r"^tokens 0 must be >= 1$"):
        generate(model(), PROMPT, GREEDY, n_tokens=0, n_ids=61)


TEXTS = ["plain", "naïve — “quoted” ✓", "日本語", "👩‍🚀 off", "a\ufffdb", ""]


@pytest.mark.parametrize("text", TEXTS)
def test_text_comes_in_whole_characters(text):
    tokenizer = ByteConfig(name="byte").build([], "")
    pieces = list(as_text(text.encode(), tokenizer))
    assert "".join(pieces) == text
    if "\ufffd" not in text:
        assert pieces == list(text)


def test_text_that_is_broken_off_shows_the_cut():
    tokenizer = ByteConfig(name="byte").build([], "")
    assert list(as_text(b"a\xe2\x9c", tokenizer)) == ["a", "\ufffd"]
    assert "".join(as_text(b"\xff\xffa\xe2b", tokenizer)) == "\ufffd\ufffda\ufffdb"
    assert list(as_text([97, 256, 98], tokenizer)) == ["a", "<|endoftext|>", "b"]


def test_text_is_given_as_soon_as_it_is_there():
    taken = []

    def ids():
        for i in "aé".encode():
            taken.append(i)
            yield i

    pieces = as_text(ids(), ByteConfig(name="byte").build([], ""))
    assert (next(pieces), len(taken)) == ("a", 1)
    assert (next(pieces), len(taken)) == ("é", 3)
