"""Statistics of each layer: equal to what autograd and an explicit softmax give, and without a trace in the run."""

import json
import math

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from lab import choices
from lab.errors import ConfigError
from lab.runs.metrics import read_lines, rising_lines
from lab.training.layer_stats import LayerStats, growth_exponent, probe
from lab.training.loop import backward
from lab.training.plan import plan
from lab.training.state import new_state
from training.folders import assert_same, the_run

TWO = ("model.n_layers=2",)
TRACKED = ("track.layers=true", "track.layers_every=3")


def made(config, *overrides):
    planned = plan(config(*overrides))
    return planned.config, new_state(planned.config, planned.architecture), planned.batches


def weights_of(folder):
    files = sorted((folder / "checkpoint").rglob("*.safetensors"))
    assert files
    return {(file.name, name): t.numpy().tobytes() for file in files for name, t in load_file(file).items()}


@pytest.mark.parametrize("rest", [(), ("attn=mha", "position=alibi"), ("attn=sliding_window", "attn.window=5")])
def test_values(config, rest):
    settings, state, batches = made(
        config, *TWO, *TRACKED, "model.max_seq_len=8", "train.micro_batch_size=2", *rest
    )
    model = state.model
    stats = LayerStats(settings)
    backward(settings, state, batches)
    stats.look(model, batches, 0)
    (line,) = stats.until(1)
    assert stats.until(100) == []
    assert line["step"] == 1

    x_BT, y_BT = (torch.as_tensor(array) for array in batches.at(0))
    model.zero_grad()
    F.cross_entropy(model.logits(x_BT).flatten(0, 1), y_BT.flatten().long()).backward()
    norms = [math.sqrt(sum(float((p.grad**2).sum()) for p in block.parameters())) for block in model.blocks]
    torch.testing.assert_close(line["grad_norm"], norms, rtol=1e-4, atol=1e-6)

    few, targets = x_BT[:2], y_BT[:2].long()
    x = model.position.embed(model.embedding(few), 0)
    outs, logits, entropies = [], [], []
    for block in model.blocks:
        attn = block.attn
        h = block.attn_norm(x)
        q, k = (f(h).unflatten(-1, (-1, attn.head_dim)) for f in (attn.q, attn.k))
        q, k = attn.position.rotate(q, k, range(8))
        bias = attn.position.score_bias(q, range(8), range(8), attn.scale)
        for b in range(2):
            for n in range(attn.n_heads):
                key = k[b, :, n // (attn.n_heads // attn.n_kv_heads)]
                for t in range(8):
                    first = max(0, t - 4) if "attn.window=5" in rest else 0
                    score = q[b, t, n] @ key[first : t + 1].T / math.sqrt(attn.head_dim)
                    if bias is not None:
                        score = score + bias.expand(2, attn.n_heads, 8, 8)[b, n, t, first : t + 1]
                    score = score.detach()
                    a = score.exp() / score.exp().sum()
                    logits.append((len(outs), float(score.max())))
                    entropies.append((len(outs), float(-(a * a.log()).sum())))
        x = block(x, None, 0, {})[0]
        x.retain_grad()
        outs.append(x)
    z = F.linear(model.final_norm(x), model.head_weight())
    F.cross_entropy(z.flatten(0, 1), targets.flatten()).backward()
    for layer in range(2):
        top = max(value for of, value in logits if of == layer)
        mean = torch.tensor([value for of, value in entropies if of == layer]).mean()
        assert line["max_attention_logit"][layer] == pytest.approx(top, rel=1e-4)
        assert line["attention_entropy"][layer] == pytest.approx(float(mean), rel=1e-4)
        assert line["activation_rms"][layer] == pytest.approx(
            float((outs[layer].detach() ** 2).mean()) ** 0.5, rel=1e-4
        )
    assert line["logsumexp"] == pytest.approx(float(z.detach().exp().sum(-1).log().mean()), rel=1e-4)
    for key, (first, last) in {
        "growth_exponent": outs, "growth_exponent_gradient": [out.grad for out in outs],
    }.items():  # fmt: skip
        ratio = (last.sum((0, 1)).norm() / first.sum((0, 1)).norm()).detach()
        assert line[key] == pytest.approx(math.log(float(ratio)) / 2, rel=1e-3, abs=1e-6)


def test_no_growth():
    x = torch.ones(1, 2, 3)
    assert growth_exponent(x, 4 * x, 2) == pytest.approx(math.log(2))
    assert growth_exponent(x, 0 * x, 2) is growth_exponent(None, x, 2) is growth_exponent(x, x / 0, 2) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "rest", [("regularization=dropout", "regularization.dropout.attention=0.1", "train.micro_batch_size=2")]
)
def test_changes_nothing(train, monkeypatch, tmp_path, rest):
    plain = train(*TWO, *rest)
    assert plain.result["layers"] is None
    assert not (plain.folder / "layers.jsonl").exists()
    monkeypatch.setenv("LAB_OUTPUTS", str(tmp_path))
    looked = train(*TWO, *TRACKED, *rest)
    assert looked.folder.name == plain.folder.name
    assert (looked.folder / "metrics.jsonl").read_bytes() == (plain.folder / "metrics.jsonl").read_bytes()
    assert weights_of(looked.folder) == weights_of(plain.folder)
    lines = read_lines(looked.folder / "layers.jsonl")
    assert [line["step"] for line in lines] == [1, 4, 7, 10, 13, 16, 19]
    found = looked.result["layers"]
    assert found["step"] == 19
    assert found["max_attention_logit"] == max(line["max_attention_logit"][0] for line in lines)
    assert found["growth_exponent"] == lines[-1]["growth_exponent"]
    assert found["attention_entropy"] == pytest.approx(sum(lines[-1]["attention_entropy"]) / 2)


@pytest.mark.slow
def test_resumed(kill_at, train, elsewhere, outputs):
    kill_at(13, *TRACKED)
    folder = the_run(outputs)
    assert [line["step"] for line in rising_lines(folder / "layers.jsonl")] == [1, 4, 7, 10]
    train(*TRACKED)
    untouched = elsewhere(*TRACKED)
    assert (folder / "layers.jsonl").read_bytes() == (untouched / "layers.jsonl").read_bytes()
    assert_same(folder, untouched)


def test_doubled_lines_are_dropped(tmp_path):
    file = tmp_path / "layers.jsonl"
    file.write_text("".join(json.dumps({"step": step}) + "\n" for step in (1, 4, 4, 7)))
    assert [line["step"] for line in rising_lines(file)] == [1, 4]
    assert rising_lines(tmp_path / "none.jsonl") == []


@pytest.mark.parametrize(
    "attn",
    [
        pytest.param(name, marks=[] if name in ("mha", "nsa") else pytest.mark.slow)
        for name in choices.names("attn")
    ],
)
def test_every_attention(config, attn):
    _, state, batches = made(config, "model.n_layers=2", f"attn={attn}")
    before = torch.get_rng_state()
    x_BT, y_BT = (torch.as_tensor(array[:2]) for array in batches.at(0))
    line = probe(state.model, x_BT, y_BT)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(p.grad is None for p in state.model.parameters())
    assert all("attend" not in vars(layer) for layer in state.model.attention())
    assert not any(block._forward_hooks for block in state.model.blocks)
    for key in ("max_attention_logit", "attention_entropy"):
        assert len(line[key]) == 2
        assert all(value is None or math.isfinite(value) for value in line[key])
    assert (line["max_attention_logit"][0] is None) == (attn in ("nsa", "dsa", "dsa_mla")), line
    assert all(value > 0 for value in line["activation_rms"])
    assert math.isfinite(line["logsumexp"])


def test_refused(config):
    with pytest.raises(ConfigError, match=r"track\.layers_every 0 must be >= 1"):
        config("track.layers_every=0")
