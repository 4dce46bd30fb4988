"""Scoring a run that is done."""

import json
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from lab.config import Device, Pool
from lab.errors import ConfigError
from lab.runs.store import RunFolder
from lab.training.load import load_model
from lab.training.score import by_document, by_position, score

pytestmark = pytest.mark.slow

WORDS = ("train.steps=6", "model.n_heads=4", "stability=qk_norm")


@pytest.fixture
def loaded(elsewhere):
    """A run that is done, loaded."""
    return load_model(RunFolder(elsewhere(*WORDS)))


@pytest.fixture
def scored(loaded):
    """Score the run with sections replaced."""
    return lambda n_buckets=8, **sections: score(loaded, replace(loaded.config, **sections), n_buckets=n_buckets)


@pytest.fixture
def part(config):
    """A section of a composed configuration."""
    return lambda section, *words: getattr(config(*WORDS, *words), section)


@pytest.mark.parametrize("precision", ["fp32", pytest.param("bf16", marks=pytest.mark.slow)])
def test_the_run_itself_scores_its_final_loss(precision, elsewhere):
    folder = elsewhere(*WORDS, f"precision={precision}") if precision != "fp32" else elsewhere(*WORDS)
    own = json.loads((folder / "result.json").read_text())
    loaded = load_model(RunFolder(folder))
    found = score(loaded, loaded.config, n_buckets=8)
    assert found.evaluation.loss == own["final_loss"] == found.own_loss
    assert found.evaluation.bits_per_byte == own["bits_per_byte"]
    assert found.transfer.fresh == found.transfer.converted == found.transfer.dropped == ()


@pytest.mark.parametrize("n_buckets", [5, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 8, 32))])
def test_positions_sum_to_the_loss(scored, n_buckets):
    found = scored(n_buckets)
    buckets = found.positions
    assert (len(buckets), buckets[0].first, buckets[-1].last) == (n_buckets, 0, 31)
    assert all(a.last + 1 == b.first for a, b in pairwise(buckets))
    assert sum(b.tokens for b in buckets) == found.n_tokens
    assert sum(b.loss * b.tokens for b in buckets) / found.n_tokens == pytest.approx(
        found.evaluation.loss, rel=1e-6
    )


def test_the_first_position_is_scored_by_plain_logits(loaded, scored):
    tokens = scored().tokens.val.astype(np.int64)
    starts = np.arange(0, len(tokens) - 1, 32)
    with torch.no_grad():
        logits_BV = loaded.model.logits(torch.from_numpy(tokens[starts])[:, None])[:, 0].double()
    nats = torch.nn.functional.cross_entropy(logits_BV, torch.from_numpy(tokens[starts + 1]))
    assert scored(32).positions[0].loss == pytest.approx(nats.item(), rel=1e-5)


def test_a_norm_of_queries_and_keys_is_taken_away(scored, part):
    plain, without = scored(), scored(stability=part("stability", "stability=none"))
    assert without.evaluation.loss != plain.evaluation.loss
    assert len(without.transfer.dropped) == 2
    assert without.transfer.fresh == ()
    assert without.own_loss == plain.own_loss


def test_a_gain_that_the_run_has_not_keeps_its_value(scored, part):
    found = scored(norm=part("norm", "norm=layernorm"))
    assert {name.rpartition(".")[2] for name in found.transfer.fresh} == {"bias"}
    assert math.isfinite(found.evaluation.loss)


@pytest.mark.parametrize("length", [8, 128])
def test_another_length(scored, part, length):
    found = scored(model=part("model", f"model.max_seq_len={length}"))
    assert found.positions[-1].last == length - 1
    assert found.n_tokens == scored().n_tokens
    assert found.evaluation.loss != scored().evaluation.loss
    if length == 8:  # the same contexts in the first eight positions of the windows; other windows
        assert found.evaluation.loss == pytest.approx(scored(4).positions[0].loss, abs=0.2)


@pytest.mark.slow
def test_the_model_stays_as_long_as_it_was_trained(scored, part):
    """The original length of YaRN is the one of training, also where it is not written down."""
    long = part("model", "model.max_seq_len=128")
    words = ("position.scaling=yarn", "position.factor=4", "position.beta_fast=4", "position.beta_slow=0.1")
    open_, said = (part("position", *words, *more) for more in ((), ("position.original_max_seq_len=32",)))
    found = scored(model=long, position=open_)
    assert found.evaluation == scored(model=long, position=said).evaluation
    assert found.evaluation != scored(model=long).evaluation


def test_heads_may_be_joined(scored, part):
    one = part("attn", "attn=mqa")
    losses = {scored(attn=one, init_from_pool=pool).evaluation.loss for pool in Pool}
    assert len(losses) == 2


def test_other_data_by_the_runs_own_tokenizer(elsewhere, book, tmp_path, config):
    words = ("train.steps=2", "tokenizer=bpe", "tokenizer.vocab_size=300")
    loaded = load_model(RunFolder(elsewhere(*words)))
    other = tmp_path / "other.txt"
    other.write_text("What else could be said of this, in a text that nobody has read? " * 60, encoding="utf-8")
    found = score(loaded, replace(loaded.config, data=config(*words, f"data.file={other}").data), n_buckets=4)
    assert found.tokens.tokenizer_hash == loaded.tokenizer.hash
    assert (found.own_loss, found.tokens.data_hash == loaded.result["hashes"]["data"]) == (None, False)
    n_bytes = found.tokens.bytes["val"]
    nats = found.evaluation.loss * found.n_tokens
    assert found.evaluation.bits_per_byte == pytest.approx(nats / math.log(2) / n_bytes, rel=1e-12)


def test_what_cannot_be_done_without_training(scored, part):
    for section, words, message in (
        ("position", ["position=learned"], "has no weights for position.table.weight: only"),
        ("activation", ["activation.d_ff=8"], r"ffn\.gate\.weight, blocks\.\*\.ffn\.up\.weight, .* can be changed"),
        ("model", ["model.dim=64"], "and 11 more: only what needs none can be changed"),
    ):
        with pytest.raises(ConfigError, match=message):
            scored(**{section: part(section, *words)})
    with pytest.raises(ConfigError, match=r"--positions 33 must be at most model.max_seq_len 32"):
        scored(33)


@pytest.mark.slow
def test_learned_positions_end(elsewhere, config):
    words = ("train.steps=2", "position=learned")
    loaded = load_model(RunFolder(elsewhere(*words)))
    longer = replace(loaded.config, model=config(*words, "model.max_seq_len=33").model)
    with pytest.raises(ConfigError, match=r"model.max_seq_len 33: position=learned ends at 32"):
        score(loaded, longer, n_buckets=1)
    shorter = replace(loaded.config, model=config(*words, "model.max_seq_len=16").model)
    assert math.isfinite(score(loaded, shorter, n_buckets=1).evaluation.loss)


def test_a_device_that_is_not_here_gives_way(scored, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    found = scored(device=Device.cuda)
    assert found.config.device in ("cpu", "mps")


def test_ranges_of_positions():
    nats_WT = torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0], [3.0, 0.0, 0.0, 0.0, 0.0]])
    y_WT = torch.tensor([[1, 1, 1, 1, 1], [1, -1, -1, -1, -1]])
    (first, second) = by_position(nats_WT, y_WT, 2)
    assert (first.first, first.last, first.tokens, first.loss) == (0, 1, 3, 2.0)
    assert (second.first, second.last, second.tokens, second.loss) == (2, 4, 3, 4.0)
    assert by_position(nats_WT[:, :1], torch.tensor([[-1], [-1]]), 1)[0].loss is None


def test_the_standard_error_is_that_of_documents():
    """Against the error of a plain mean where all documents are as long, and against resampling where not."""
    generator = torch.Generator().manual_seed(1)
    nats_DT = torch.rand(50, 6, generator=generator, dtype=torch.float64) + torch.rand(50, 1, generator=generator)
    x_WT = torch.ones(1, 300, dtype=torch.long)
    x_WT[0, ::6] = 0
    found = by_document(nats_DT.view(1, -1), x_WT, torch.ones_like(x_WT), eot=0)
    assert found == pytest.approx(nats_DT.mean(dim=1).std().item() / math.sqrt(50), rel=1e-12)
    assert by_document(nats_DT[:1], x_WT[:, :6], torch.ones(1, 6), eot=0) is None

    lengths = torch.randint(1, 12, (200,), generator=generator)
    documents = [torch.rand(int(n), generator=generator).double() + 0.1 * n for n in lengths]
    x_T = torch.cat([torch.cat((torch.zeros(1), torch.ones(int(n) - 1))) for n in lengths]).long()
    found = by_document(torch.cat(documents)[None], x_T[None], torch.ones_like(x_T)[None], eot=0)
    sums, counts = torch.stack([d.sum() for d in documents]), lengths.double()
    drawn = torch.randint(200, (4000, 200), generator=generator)
    resampled = (sums[drawn].sum(dim=1) / counts[drawn].sum(dim=1)).std().item()
    assert found == pytest.approx(resampled, rel=0.1)
