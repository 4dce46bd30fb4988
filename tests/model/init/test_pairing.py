"""Pairing of weights by name: what two variants of one seed share, and that nothing is drawn twice."""

import dataclasses

import pytest
import torch
from contracts.menu import SIZES, architecture, config, model

from lab import choices
from lab.model.init import initialize

SCALED = {"deepnorm"}
"""Blocks that change the drawn weights by a factor, which tests/model/block holds them to."""

every_init = pytest.mark.parametrize("init", choices.names("init"))


def drawn(state):
    return {name: tensor for name, tensor in state.items() if name.endswith(".weight")}


def shared(first, second):
    """Names and shapes that agree, checked to hold equal values; and the names that do not."""
    first, second = first.state_dict(), second.state_dict()
    same = {name for name in first.keys() & second.keys() if first[name].shape == second[name].shape}
    for name in same:
        assert torch.equal(first[name], second[name]), name
    return same, (first.keys() | second.keys()) - same


@pytest.mark.parametrize(
    "init", ["gpt2", *(pytest.param(n, marks=pytest.mark.slow) for n in choices.names("init") if n != "gpt2")]
)
@pytest.mark.parametrize(
    "group", ["norm", "activation", "attn", "block", "position", "stability", "regularization"]
)
def test_variants_of_one_seed_share_every_tensor_whose_name_and_shape_agree(group, init):
    names = [name for name in choices.names(group) if name not in SCALED]
    if group == "block" and config("init", init).zero_branches:  # some blocks are refused with such an init
        names = [name for name in names if config("block", name).passes_zero]
    nets = [model(**{group: name}, init=init) for name in names]
    for net in nets[1:]:
        same, _ = shared(nets[0], net)
        assert {"embedding.weight", "head.weight"} <= same


def test_only_gains_and_biases_differ_between_norms():
    _, apart = shared(model(norm="layernorm"), model(norm="rmsnorm"))
    assert apart
    assert all(name.endswith("norm.bias") for name in apart)


def test_gated_and_plain_feed_forward_share_everything_else():
    _, apart = shared(model(activation="swiglu"), model(activation="gelu"))
    assert apart
    assert all(".ffn." in name for name in apart)


def test_two_plain_activations_share_all():
    _, apart = shared(model(activation="relu"), model(activation="gelu"))
    assert not apart


def test_grouped_and_full_attention_share_all_but_keys_and_values():
    _, apart = shared(model(attn="mha"), model(attn="gqa"))
    assert apart == {f"blocks.{i}.attn.{part}.weight" for i in range(SIZES.n_layers) for part in "kv"}


def test_depth_leaves_the_first_layers_alone():
    deeper = dataclasses.replace(SIZES, n_layers=3)
    same, apart = shared(model(init="normal"), model(init="normal", dims=deeper))
    assert all(name.startswith("blocks.2.") for name in apart)
    assert any(name.startswith("blocks.1.") for name in same)


@every_init
@pytest.mark.parametrize(("study_seed", "seed"), [(0, 2), (1, 1), (1, 0)])
def test_other_seeds_differ_in_every_drawn_tensor(init, study_seed, seed):
    arch = architecture(init=init, position="learned", norm="layernorm")
    first = drawn(arch.build(study_seed=0, seed=1).state_dict())
    second = drawn(arch.build(study_seed=study_seed, seed=seed).state_dict())
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        if tensor.any() or second[name].any():  # some rules start some matrices at zero
            assert not (tensor == second[name]).any(), name


@every_init
def test_no_two_tensors_of_a_model_are_drawn_alike(init):
    weights = [w for w in drawn(model(init=init, attn="mha").state_dict()).values() if w.any()]
    starts = {tuple((w.flatten()[:4] / w.flatten()[0]).tolist()) for w in weights}
    assert len(starts) == len(weights)


@every_init
def test_drawing_again_gives_the_same_whatever_the_weights_were(init):
    arch = architecture(init=init)
    net, fresh = arch.build(study_seed=0, seed=9), arch.build(study_seed=0, seed=1)
    initialize(net, arch.init, arch.dims, study_seed=0, seed=1)
    for name, tensor in drawn(fresh.state_dict()).items():
        assert torch.equal(tensor, net.state_dict()[name]), name


@every_init
def test_what_is_drawn_is_multiplied_by_a_gain_of_its_name(init):
    arch = architecture(init=init)
    net, plain = arch.build(study_seed=0, seed=1), arch.build(study_seed=0, seed=1)

    def gain(name):
        return 0.5 if name == "blocks.1.attn.v.weight" else 1.0

    initialize(net, arch.init, arch.dims, study_seed=0, seed=1, gain=gain)
    for name, tensor in drawn(plain.state_dict()).items():
        assert torch.equal(net.state_dict()[name], gain(name) * tensor), name


def test_gains_start_at_one_and_biases_at_zero():
    net = model(norm="layernorm", stability="qk_norm")
    for name, parameter in net.named_parameters():
        if name.endswith((".gain", ".bias")):
            assert (parameter == (1 if name.endswith(".gain") else 0)).all(), name
