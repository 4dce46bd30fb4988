"""Bytes of caches by formula and in memory, and the clock over them."""

import time
from functools import partial

import pytest
import torch
from contracts.menu import config, model

from lab import choices
from lab.model.sizes import Dims
from lab.training import cache_cost
from lab.training.cache_cost import cache_bytes, measure_speed, measured_bytes, mha_bytes

WIDE = Dims(dim=64, n_layers=2, n_heads=8, head_dim=16, max_seq_len=16, vocab_size=61)


@pytest.mark.parametrize(
    ("attn", "numbers"),
    [
        ("mha", 2 * 8 * 16),
        (config("attn", "gqa", n_kv_heads=4), 2 * 4 * 16),
        (config("attn", "gqa", n_kv_heads=2), 2 * 2 * 16),
        ("mqa", 2 * 16),
        (config("attn", "mla", kv_rank=4 * 16, rope_dim=8), 4 * 16 + 8),
    ],
    ids=["mha", "gqa-4", "gqa-2", "mqa", "mla"],
)
def test_numbers_of_table_1_of_deepseek_v2(attn, numbers):
    """MHA 2 N H, GQA 2 K H, MQA 2 H, MLA the latent and the shared key: arXiv:2405.04434."""
    net = model(dims=WIDE, attn=attn)
    assert cache_bytes(net, 16) == 2 * numbers
    assert measured_bytes(net, 16) == 2 * numbers
    assert mha_bytes(WIDE) == 2 * 2 * 8 * 16


def test_mla_is_as_large_as_two_and_a_quarter_groups():
    """With a latent of 4 H and a rotated part of H/2, as the paper says."""
    net = model(dims=WIDE, attn=config("attn", "mla", kv_rank=4 * 16, rope_dim=8))
    assert cache_bytes(net, 16) == 2.25 * cache_bytes(model(dims=WIDE, attn="mqa"), 16)


@pytest.mark.parametrize(("n_tokens", "kept"), [(4, 4), (7, 7), (16, 7)])
def test_a_window_keeps_no_more_than_its_width(n_tokens, kept):
    """In the local one of two layers."""
    net = model(attn=config("attn", "sliding_window", window=7, global_every=2, n_kv_heads=4))
    expected = 2 * 4 * 8 * 2 * (kept + n_tokens) / (2 * n_tokens)
    assert cache_bytes(net, n_tokens) == measured_bytes(net, n_tokens) == expected


@pytest.mark.parametrize("attn", choices.names("attn"))
def test_the_formula_is_what_is_measured(attn):
    net = model(attn=attn)
    assert measured_bytes(net, 11) == measured_bytes(net, 11, batch=3) == cache_bytes(net, 11) > 0


def test_speed_is_tokens_over_medians(monkeypatch):
    """A clock that goes on by the tokens of each forward and the tenth part of what it looks back on."""
    now, net = [0.0], model().eval()
    monkeypatch.setattr(cache_cost, "LEAST_S", 0.0)
    monkeypatch.setattr(cache_cost, "MOST_S", 1e9)
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(cache_cost, "last_logits", partial(tick, now))
    speed = measure_speed(net, 16, "fp32", batch=3)
    assert speed.prefill.tokens_per_s == pytest.approx(3)
    # Token 8 takes 1.8, token 15 takes 2.5, each of the eight four times: a quarter of the 32 lie up to 1.9.
    assert speed.decode.tokens_per_s == pytest.approx(3 / 2.15)
    assert speed.decode.quartiles == pytest.approx((3 / 2.325, 3 / 1.975))
    assert speed.decode_ms == pytest.approx({"p50": 2150, "p95": 2500})
    assert speed.uncached.tokens_per_s == pytest.approx(3 / 12)
    assert [p.steps for p in (speed.prefill, speed.decode, speed.uncached)] == [30, 32, 30]


def tick(now, model, ids_BT, caches, offset):
    assert len(ids_BT) == 3
    now[0] += ids_BT.shape[1] + offset / 10
    return torch.zeros(3, 61)


def test_speed_of_a_real_model(monkeypatch):
    monkeypatch.setattr(cache_cost, "MOST_S", 0.02)
    for precision in ("fp32", "bf16"):
        speed = measure_speed(model().eval(), 16, precision)
        for pace in (speed.prefill, speed.decode, speed.uncached):
            assert 0 < pace.quartiles[0] <= pace.tokens_per_s <= pace.quartiles[1]
        assert 0 < speed.decode_ms["p50"] <= speed.decode_ms["p95"]


def test_a_slow_machine_measures_once(monkeypatch):
    monkeypatch.setattr(cache_cost, "MOST_S", 1.0)
    now, calls = [0.0], []

    def measurement():
        calls.append(now[0])
        now[0] += 5
        yield 5.0

    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    assert cache_cost._repeated(measurement) == [5.0]
    assert len(calls) == 2
