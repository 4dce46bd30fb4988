"""What holds for all choices, or all relative ones."""

import dataclasses

import pytest
import torch
from contracts.menu import PATHS, SIZES, config, model, shaken, tokens, values

from lab import choices

N, H, T = SIZES.n_heads, SIZES.head_dim, SIZES.max_seq_len
NAMES = choices.names("position")
ABSOLUTE = {"none", "learned", "sinusoidal"}
RELATIVE = [name for name in NAMES if name not in ABSOLUTE]

SCALED = {"scaling": "yarn", "factor": 4.0, "original_max_seq_len": 256}
OTHER = {
    ("rope", "theta"): (50.0, {}),
    ("rope", "fraction"): (0.5, {}),
    ("rope", "layout"): ("interleaved", {}),
    ("rope", "scaling"): ("linear", {"factor": 4.0}),
    ("rope", "factor"): (8.0, {"scaling": "linear", "factor": 4.0}),
    ("rope", "original_max_seq_len"): (None, SCALED),
    ("rope", "low_freq_factor"): (2.5, {**SCALED, "scaling": "llama3", "theta": 100.0}),
    ("rope", "high_freq_factor"): (16.0, {**SCALED, "scaling": "llama3"}),
    ("rope", "beta_fast"): (4.0, {**SCALED, "theta": 100.0}),
    ("rope", "beta_slow"): (8.0, {**SCALED, "theta": 100.0}),
    ("sinusoidal", "layout"): ("half", {}),
    ("t5_bias", "buckets"): (8, {"max_distance": 16, "buckets": 16}),
    ("t5_bias", "max_distance"): (12, {"max_distance": 16, "buckets": 8}),
    ("shaw", "clip"): (5, {}),
    ("shaw", "values"): (True, {}),
}
"""Another value of each key, and the values of others with which it matters."""

KEYS = [(name, key) for name in NAMES for key in values("position", name) if key != "name"]


def net_of(name, **changed):
    return shaken(model(position=config("position", name, **changed))).eval()


@torch.no_grad()
@pytest.mark.parametrize(("name", "key"), KEYS, ids=map("-".join, KEYS))
def test_no_key_is_without_effect(name, key):
    other, companions = OTHER[name, key]
    one, two = net_of(name, **companions), net_of(name, **{**companions, key: other})
    same = dict(one.named_parameters())
    for parameter_name, parameter in two.named_parameters():
        if parameter_name in same:
            rows = min(len(parameter), len(same[parameter_name]))
            parameter[:rows] = same[parameter_name][:rows]
    assert (one.logits(tokens()) - two.logits(tokens())).abs().max() > 1e-4


@torch.no_grad()
@pytest.mark.parametrize("name", RELATIVE)
@pytest.mark.parametrize("start", [0, 5, 40])
def test_scores_of_equal_vectors_depend_on_the_distance_alone(name, start):
    net = shaken(model(position=name))
    part, generator = net.attention()[0].position, torch.Generator().manual_seed(1)
    q_BTNH, k_BTNH = (torch.randn(1, 1, N, H, generator=generator).expand(1, T, N, H) for _ in range(2))
    pos_T = range(start, start + T)
    q_BTNH, k_BTNH = part.rotate(q_BTNH, k_BTNH, pos_T)
    bias = part.score_bias(q_BTNH, pos_T, pos_T, H**-0.5)
    scores_NTS = torch.einsum("btnh,bsnh->nts", q_BTNH, k_BTNH) * H**-0.5 + (0 if bias is None else bias)
    scores_NTS = scores_NTS.reshape(N, T, T)
    for distance in range(T):
        diagonal = scores_NTS.diagonal(-distance, dim1=1, dim2=2)
        torch.testing.assert_close(diagonal, diagonal[:, :1].expand_as(diagonal), rtol=1e-5, atol=1e-5)
    assert (scores_NTS[:, :, 0].std(dim=1) > 0.01).all()


@torch.no_grad()
@pytest.mark.parametrize("name", RELATIVE)
def test_a_bias_by_blocks_is_part_of_the_whole(name):
    net = shaken(model(position=name))
    part = net.attention()[0].position
    q_BTNH = torch.randn(2, 3 * T, N, H, generator=torch.Generator().manual_seed(1))
    whole = part.score_bias(q_BTNH, range(3 * T), range(3 * T), 0.3)
    if whole is None:
        return
    for t, s in ((range(20, 21), range(21)), (range(8, 24), range(4, 24)), (range(30, 40), range(2, 9))):
        block = part.score_bias(q_BTNH[:, t.start : t.stop], t, s, 0.3)
        seen_TS = torch.tensor([[i >= j for j in s] for i in t])
        expected = whole[..., t.start : t.stop, s.start : s.stop][..., seen_TS]
        torch.testing.assert_close(block[..., seen_TS], expected, rtol=1e-5, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("name", [name for name in NAMES if name != "learned"])
@pytest.mark.parametrize("path", PATHS)
def test_all_but_learned_ones_go_on_beyond_the_training_length(name, path):
    net, ids = shaken(model(position=name, path=path)).eval(), tokens(2, 3 * T)
    whole = net(ids)[0]
    caches = net.new_caches()
    pieces = [net(ids[:, i : i + 7], caches, i)[0] for i in range(0, 3 * T, 7)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, rtol=2e-5, atol=2e-5)


@torch.no_grad()
@pytest.mark.parametrize("name", [name for name in NAMES if name != "none"])
def test_order_is_known(name):
    """In one layer: with two, the causal mask alone tells earlier tokens apart."""
    net = shaken(model(position=name, dims=dataclasses.replace(SIZES, n_layers=1)).double())
    ids = tokens(1)
    swapped = ids.clone()
    swapped[:, [2, 5]] = ids[:, [5, 2]]
    assert (net(ids)[0] - net(swapped)[0])[0, -1].abs().max() > 1e-4


@pytest.mark.parametrize("name", NAMES)
def test_no_parameter_is_registered_twice(name):
    net = model(position=name)
    parts = [net.position, *(attn.position for attn in net.attention())]
    owned = [id(parameter) for part in parts for parameter in part.parameters()]
    assert len(owned) == len(set(owned))
