import copy

import pytest
import torch
from contracts.menu import SIZES, config, model, shaken, tokens
from transformers.models.t5.configuration_t5 import T5Config
from transformers.models.t5.modeling_t5 import T5Attention

from lab.errors import ConfigError
from lab.model.layer_spec import LayerSpec
from lab.model.position.t5_bias import bucket

N, H = SIZES.n_heads, SIZES.head_dim


@pytest.mark.parametrize(("buckets", "most"), [(32, 128), (8, 16), (9, 40), (2, 5), (64, 1000)])
def test_buckets_are_those_of_t5(buckets, most):
    distance = torch.arange(4 * most)
    expected = T5Attention._relative_position_bucket(
        -distance, bidirectional=False, num_buckets=buckets, max_distance=most
    )
    assert torch.equal(bucket(distance, buckets=buckets, max_distance=most), expected)
    assert (expected[most:] == buckets - 1).all()


def test_buckets_of_the_formula():
    got = bucket(torch.arange(200), buckets=32, max_distance=128).tolist()
    assert got[:16] == list(range(16))
    assert got[16:25] == [16, 16, 16, 17, 17, 18, 18, 18, 19]
    assert got[112] == 30
    assert got[113] == 31
    assert got[128] == got[199] == 31


@torch.no_grad()
@pytest.mark.parametrize(("length", "past"), [(9, 0), (40, 0), (3, 17), (1, 30)])
def test_the_bias_is_that_of_t5(length, past):
    position = config("position", "t5_bias", buckets=8, max_distance=16).build(SIZES)
    torch.nn.init.normal_(position.table.weight, generator=torch.Generator().manual_seed(1))
    setup = T5Config(
        d_model=32,
        num_heads=N,
        is_decoder=True,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=16,
    )
    theirs = T5Attention(setup, has_relative_attention_bias=True, layer_idx=0)
    theirs.relative_attention_bias.weight.copy_(position.table.weight)
    total = past + length
    expected = theirs.compute_bias(length, total, past_seen_tokens=past)[0]
    q_BTNH = torch.zeros(1, length, N, H)
    layer = position.layer(LayerSpec(index=0), H)
    got = layer.score_bias(q_BTNH, range(past, total), range(total), 0.123)
    seen_TS = torch.ones(length, total).tril(past).bool()
    assert torch.equal(got[:, seen_TS], expected[:, seen_TS])


def test_the_table_is_the_models_and_all_layers_use_it():
    net, ids = shaken(model(position="t5_bias")), tokens()
    names = [name for name in net.state_dict() if "position" in name]
    assert names == ["position.table.weight"]
    assert net.position.table.weight.shape == (32, N)
    assert sum(name == names[0] for name, _ in net.named_parameters(remove_duplicate=False)) == 1
    assert len({id(attn.position.shared[0]) for attn in net.attention()} | {id(net.position.table)}) == 1
    net(ids)[0].square().mean().backward()
    assert net.position.table.weight.grad[:16].count_nonzero() == 16 * N
    assert not net.position.table.weight.grad[16:].any()


@torch.no_grad()
def test_a_copy_uses_its_own_table():
    net, ids = shaken(model(position="t5_bias")), tokens()
    before, other = net.logits(ids), copy.deepcopy(net)
    other.position.table.weight += torch.randn(other.position.table.weight.shape)
    assert torch.equal(net.logits(ids), before)
    assert not torch.allclose(other.logits(ids), before, atol=1e-3)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"buckets": 1}, "buckets 1 must be >= 2"),
        ({"max_distance": 16}, "max_distance 16 must be above half the buckets, 16"),
    ],
)
def test_values_out_of_range_are_refused(changed, text):
    with pytest.raises(ConfigError) as refused:
        config("position", "t5_bias", **changed)
    assert str(refused.value) == text
