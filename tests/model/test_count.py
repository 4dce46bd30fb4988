"""Numbers of parameters and FLOPs by hand, for the default sizes and for GPT-2's."""

import pytest
from contracts.menu import architecture, model

from lab.model.count import parameters, training_flops_per_token
from lab.model.sizes import Dims

SMALL = Dims(dim=128, n_layers=4, n_heads=4, head_dim=32, max_seq_len=128, vocab_size=2048)
GPT2 = Dims(dim=768, n_layers=12, n_heads=12, head_dim=64, max_seq_len=1024, vocab_size=50257)


@pytest.mark.parametrize(("tied", "tables"), [(False, 2), (True, 1)], ids=["untied", "tied"])
def test_the_default_model(tied, tables):
    """Per layer 4 D D of attention, 3 D F of SwiGLU with F = 344, two gains; and the final gain."""
    d, d_ff, n_layers, vocab_size = 128, 344, 4, 2048
    inside = n_layers * (4 * d * d + 3 * d * d_ff + 2 * d) + d
    counted = parameters(architecture(dims=SMALL, tied=tied).outline())
    assert counted.non_embedding == inside == 791_680
    assert counted.total == inside + tables * vocab_size * d


def test_gpt2_small_has_124_million():
    """124,439,808 with biases, which the default configuration leaves out of the linear maps."""
    chosen = {"norm": "layernorm", "activation": "gelu", "position": "learned"}
    counted = parameters(architecture(dims=GPT2, tied=True, **chosen).outline())
    biases = 12 * (3 * 768 + 768 + 4 * 768 + 768)
    assert counted.total + biases == 124_439_808
    assert counted.total - counted.non_embedding == (50257 + 1024) * 768


def test_a_shared_head_counts_for_flops_though_not_for_parameters():
    tied, untied = (architecture(dims=SMALL, tied=tied).outline() for tied in (True, False))
    assert training_flops_per_token(tied, 128) == training_flops_per_token(untied, 128)


def test_flops_of_the_default_model():
    weights = 4 * (4 * 128 * 128 + 3 * 128 * 344) + 2048 * 128
    attention = 4 * 12 * 128 * 128
    assert training_flops_per_token(architecture(dims=SMALL).outline(), 128) == 6 * weights + attention


def test_counting_does_not_change_a_model():
    net = model()
    before = {name: p.clone() for name, p in net.named_parameters()}
    parameters(net), training_flops_per_token(net, 16)
    assert all((p == before[name]).all() for name, p in net.named_parameters())
