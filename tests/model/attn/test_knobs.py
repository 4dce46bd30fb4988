"""No dead knob: every key of every attention changes the graph, the parameters or the logits."""

import pytest
import torch
from contracts.menu import SIZES, config, model, shaken, tokens, values

from lab import choices

OTHER = {
    "scale": 1.0,
    "nope_every": 2,
    "n_kv_heads": 1,
    "heads_per_kv": 4,
    "window": 3,
    "window_share": 0.5,
    "global_every": 2,
    "global_theta": 100.0,
    "kv_rank": 5,
    "kv_rank_share": 0.25,
    "q_rank": 6,
    "q_rank_share": 0.5,
    "rope_dim": 2,
    "v_dim": 4,
    "eps": 0.5,
    "top_k": 2,
    "top_k_share": 0.5,
    "index_n_heads": 1,
    "index_n_heads_share": 1.0,
    "index_head_dim": 4,
    "index_rope_share": 1.0,
    "stage": "dense",
    "combine": "merged",
    "stride": 3,
    "block": 3,
    "columns": 2,
    "stride_share": 0.25,
    "block_strides": 3,
    "select_block": 2,
    "select_strides": 2,
    "n_selected": 4,
    "selected_share": 1.0,
    "n_global": 3,
    "gate": "headwise",
    "score_bias": 0.5,
    "sink": "zero",
    "mix": "fixed",
    "own_share": 1.0,
    "first_share": 0.0,
    "lambda_init": 0.6,
}
"""Another value of each key that is not true or false."""

WITH = {"global_theta": {"global_every": 2}}
"""What a key acts together with."""

KNOBS = [(name, key) for name in choices.names("attn") for key in values("attn", name) if key != "name"]


def outcome(attn):
    net = shaken(model(attn=attn, seed=1))
    return {name: p.shape for name, p in net.named_parameters()}, net.logits(tokens())


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize(("name", "key"), KNOBS)
def test_every_key_changes_something(name, key):
    before = values("attn", name)[key]
    after = OTHER.get(key, not before)
    assert after != before
    shapes, logits = outcome(config("attn", name, **WITH.get(key, {})))
    other_shapes, other_logits = outcome(config("attn", name, **{**WITH.get(key, {}), key: after}))
    same = shapes == other_shapes and torch.allclose(logits, other_logits, rtol=1e-4, atol=1e-4)
    assert not same


def test_there_are_layers_enough_for_a_pattern():
    assert SIZES.n_layers == 2
