"""Weights that go from one model into another."""

import dataclasses

import pytest
import torch
from contracts.menu import SIZES, architecture, config, model, shaken, tokens

from lab.config import Pool
from lab.training.transfer import grouped, in_words, keeps_its_value, transfer


def gqa(kv_heads):
    return config("attn", "gqa", n_kv_heads=kv_heads, q_bias=True, k_bias=True, v_bias=True)


def build(kv_heads, *, scale=0.2, **parts):
    """A model with numbers everywhere, of some key/value heads."""
    return shaken(model(attn=gqa(kv_heads), **parts), scale=scale)


PER_HEAD = config("stability", "qk_norm", over="per_head")


def part(tensors, name, layer=0):
    return tensors[f"blocks.{layer}.attn.{name}"]


def test_the_mean_of_the_heads_of_a_group():
    source = build(4)
    had = source.state_dict()
    for kv_heads in (1, 2):
        moved = transfer(source, build(kv_heads), Pool.mean)
        for name in ("k.weight", "v.weight", "k.bias", "v.bias"):
            value = part(had, name)
            width, size = len(value) // 4, 4 // kv_heads
            for head in range(kv_heads):
                mean = sum(value[width * i : width * (i + 1)] for i in range(size * head, size * (head + 1))) / size
                found = part(moved.tensors, name)[width * head : width * (head + 1)]
                torch.testing.assert_close(found, mean, rtol=1e-6, atol=1e-7)
        assert grouped(moved.converted) == {
            f"blocks.*.attn.{n}": 2 for n in ("k.weight", "k.bias", "v.weight", "v.bias")
        }
        assert (moved.fresh, moved.reshaped, moved.dropped) == ((), (), ())
        assert set(moved.loaded) | set(moved.converted) == set(had)
        assert all(torch.equal(moved.tensors[name], had[name]) for name in moved.loaded)


def test_the_first_head_of_a_group():
    source = build(4)
    value = part(source.state_dict(), "v.weight", 1)
    width = len(value) // 4
    found = part(transfer(source, build(2), Pool.first).tensors, "v.weight", 1)
    assert torch.equal(found, torch.cat((value[:width], value[2 * width : 3 * width])))


@pytest.mark.parametrize("pool", list(Pool))
@pytest.mark.parametrize("stability", ["none", PER_HEAD], ids=["", "gains"])
def test_heads_that_are_equal_may_share(pool, stability):
    """Repeating heads changes nothing, and neither does joining heads that are equal."""
    few, many, ids_BT = build(2, stability=stability), build(4, stability=stability, scale=0.3), tokens()
    wide = transfer(few, many, pool)
    assert wide.converted
    wide.apply(many)
    torch.testing.assert_close(many.logits(ids_BT), few.logits(ids_BT), rtol=1e-5, atol=1e-5)
    back = build(2, stability=stability, scale=0.4)
    transfer(many, back, pool).apply(back)
    assert all(
        torch.equal(a, b) for a, b in zip(back.state_dict().values(), few.state_dict().values(), strict=True)
    )
    assert torch.equal(back.logits(ids_BT), few.logits(ids_BT))


def test_what_has_no_counterpart():
    source = build(4, stability="z_loss")
    dims = dataclasses.replace(SIZES, n_layers=3)
    narrow = config("activation", "swiglu", d_ff=24)
    target = build(4, dims=dims, stability="qk_norm", activation=narrow, norm="layernorm_plain", scale=0.3)
    before = {name: value.clone() for name, value in target.state_dict().items()}
    moved = transfer(source, target, Pool.mean)
    assert {n for n in moved.reshaped if ".0." in n} == {
        f"blocks.0.ffn.{n}" for n in ("gate.weight", "up.weight", "out.weight")
    }
    assert all(name in moved.fresh for name in (*moved.reshaped, "blocks.2.attn.q.weight"))
    assert "blocks.0.attn.stability.qk_norm.q.gain" in moved.fresh
    assert grouped(moved.dropped) == {
        "blocks.*.attn_norm.gain": 2,
        "blocks.*.ffn_norm.gain": 2,
        "final_norm.gain": 1,
    }
    moved.apply(target)
    after = target.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in moved.fresh)
    assert all(torch.equal(after[name], source.state_dict()[name]) for name in moved.loaded)


def test_heads_of_another_width_or_number_do_not_fit():
    for sizes in ({"n_heads": 8}, {"head_dim": 4}):
        moved = transfer(build(4), build(2, dims=dataclasses.replace(SIZES, **sizes)), Pool.mean)
        assert moved.converted == ()
        assert "blocks.0.attn.k.weight" in moved.reshaped


@pytest.mark.parametrize(("dense", "sparse"), [("gqa", "dsa"), ("mla", "dsa_mla")])
def test_from_a_dense_model_to_sparse_attention_only_the_indexer_is_fresh(dense, sparse):
    moved = transfer(shaken(model(attn=dense)), model(attn=sparse), Pool.mean)
    assert moved.fresh
    assert all(".attn.indexer." in name for name in moved.fresh)
    assert (moved.converted, moved.reshaped, moved.dropped) == ((), (), ())


def test_an_outline_is_matched_as_a_model_is():
    source = build(4)
    outline = architecture(attn=gqa(2)).outline()
    moved, same = transfer(source, outline, Pool.mean), transfer(source, build(2), Pool.mean)
    assert (moved.loaded, moved.converted) == (same.loaded, same.converted)
    assert all(torch.equal(value, same.tensors[name]) for name, value in moved.tensors.items())


def test_names_in_words():
    names = ["embedding.weight", "blocks.0.a.weight", "blocks.11.a.weight"]
    assert in_words(names) == "embedding.weight, blocks.*.a.weight (2)"
    assert in_words([]) == "none"
    assert keeps_its_value("blocks.0.norm.gain")
    assert not keeps_its_value("blocks.0.attn.q.weight")
