"""The other measures, each computed another way."""

import math
import re
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from lab import measure
from lab.measure._text import few, tokens_of
from lab.measure.train_gap import seen
from lab.measure.transplant import rescaled
from lab.training.plan import batches_of


def mean_loss(run, x_WT, y_WT):
    with torch.no_grad():
        return float(F.cross_entropy(run.model.logits(x_WT).flatten(0, 1).double(), y_WT.flatten()))


def test_outputs(loaded):
    run = loaded()
    x_WT, _ = few(tokens_of(run).val, 32, 64)
    model = run.model
    with torch.no_grad():
        x_WTD, tops = model.embedding(x_WT), []
        for block in model.blocks:
            x_WTD, _ = block(x_WTD, None, 0, {})
            tops.append(float(x_WTD.abs().max()))
        log_z = F.linear(model.final_norm(x_WTD), model.head_weight()).double().exp().sum(-1).log()
    found = measure.take("outputs", run)
    assert found["max_activation"] == pytest.approx(max(tops), rel=1e-5)
    assert found["mean_log_z"] == pytest.approx(float(log_z.mean()), rel=1e-5)
    assert found["mean_log_z_squared"] == pytest.approx(float((log_z**2).mean()), rel=1e-5)
    entries = model.embedding.weight.double().flatten().tolist()
    assert found["embedding_rms"] == pytest.approx(math.sqrt(sum(e * e for e in entries) / len(entries)))


def test_train_gap(loaded):
    run = loaded()
    x_WT, y_WT = seen(run)
    there = [batches_of(run.config, tokens_of(run)).at(step) for step in (0, 1)]
    assert torch.equal(x_WT, torch.cat([torch.from_numpy(x) for x, _ in there]))
    found = measure.take("train_gap", run)
    assert found["train_loss"] == pytest.approx(mean_loss(run, x_WT, y_WT), rel=1e-5)
    assert found["gap"] == pytest.approx(run.result["final_loss"] - found["train_loss"])


def test_more_windows_than_are_scored_are_spread_over_the_run(loaded, monkeypatch):
    monkeypatch.setattr("lab.measure.train_gap.WINDOWS", 3)
    run = loaded()
    batches = batches_of(run.config, tokens_of(run))
    x_WT, _ = seen(run)
    assert torch.equal(x_WT, torch.stack([torch.from_numpy(batches.at(n // 4)[0][n % 4]) for n in (0, 4, 7)]))


def test_rescaled():
    q, k = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 2, 8)
    big_q, _, rest = rescaled(100, q, k, "rest")
    assert rest == "rest"
    torch.testing.assert_close(big_q, 10 * q / q.square().mean(-1, keepdim=True).sqrt())
    same = (big_q * big_q).sum(-1) / math.sqrt(8)  # a query times itself is the largest there can be
    torch.testing.assert_close(same, torch.full_like(same, 100 * math.sqrt(8)))


@pytest.mark.slow
def test_kappa_1_is_query_key_norm(loaded):
    run = loaded("stability=qk_norm")
    for name, parameter in run.model.named_parameters():
        if "q_norm" in name or "k_norm" in name or "stability" in name:
            torch.nn.init.ones_(parameter)
    found = measure.take("transplant", run)
    assert found["loss_k1"] == pytest.approx(found["loss_as_is"], rel=1e-4)
    assert found["loss_as_is"] == pytest.approx(mean_loss(run, *few(tokens_of(run).val, 32, 64)), rel=1e-5)
    assert found["loss_k10000"] != pytest.approx(found["loss_k1"], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overrides", "numbers"),
    [((), 2 * 2 * 16), (("attn=gqa", "attn.n_kv_heads=1"), 2 * 16), (("attn=sliding_window", "attn.window=8"), 16)],
)
def test_cache(overrides, numbers, loaded):
    """Two bytes a number: keys and values of N or K heads of 16; of a window of 8 in 32 tokens a quarter."""
    found = measure.take("cache", loaded(*overrides))
    assert found["bytes_per_token_layer"] == found["measured_bytes"] == 2 * numbers
    assert found["share_of_mha"] == numbers / 64
    assert found["decode_tokens_per_s"] > 0


@pytest.mark.slow
def test_compression_of_bytes(loaded):
    found = measure.take("compression", loaded())
    assert found["bytes_per_token"] == 1
    assert found.get("bytes_per_token_chinese", 1) == 1


@pytest.mark.slow
def test_compression_of_a_trained_tokenizer(loaded):
    run = loaded("tokenizer=bpe", "tokenizer.vocab_size=400")
    text = "".join(document.text for document in run.config.data.load().val)
    found = measure.take("compression", run)
    assert found["bytes_per_token"] == pytest.approx(
        len(text.encode()) / len(run.tokenizer.encode_batch([text])[0]), rel=1e-3
    )
    if "bytes_per_token_chinese" in found:
        assert found["bytes_per_token_chinese"] < found["bytes_per_token"]


@pytest.mark.slow
def test_step(loaded):
    run = loaded()
    found = measure.take("step", run)
    again = measure.take("step", replace(run, config=replace(run.config, seed=2)))
    for kind in ("flops", "time"):
        parts = [found[f"{part}_{kind}"] for part in ("contractions", "norms", "elementwise")]
        assert all(0 < part < 1 for part in parts)
        assert sum(parts) < 1
    assert {k: v for k, v in found.items() if "flops" in k} == {k: v for k, v in again.items() if "flops" in k}
    assert found["contractions_flops"] > 0.9
    assert found["step_ms"] > 0


@pytest.mark.slow
def test_the_same_each_time(loaded, monkeypatch):
    monkeypatch.setattr("lab.measure.gradients.DEPTHS", (2, 3))
    words = ("model.max_seq_len=96", "train.steps=1")
    clock = re.compile("decode_tokens_per_s|step_ms|.*_(time|excess)")
    for name in measure.names():
        one, two = (measure.take(name, loaded(*words)) for _ in range(2))
        assert one
        assert one.keys() == two.keys()
        assert {k: v for k, v in one.items() if not clock.fullmatch(k)} == {
            k: two[k] for k in one if not clock.fullmatch(k)
        }
