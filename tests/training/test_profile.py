"""Where a step goes: classes, counts and the floor, against formulas and steps made heavier in one place."""

import pytest
import torch
from torch import nn

from lab.config import Device
from lab.model.count import training_flops_per_token
from lab.training import parts
from lab.training.compiled import missing
from lab.training.plan import plan
from lab.training.profile import classes
from lab.training.profile.classes import (
    ATTENTION,
    CLASSES,
    ELEMENTWISE,
    LOSS,
    NORMS,
    OTHER,
    PRODUCTS,
    Scopes,
    classify,
)
from lab.training.profile.counted import operator_flops
from lab.training.profile.facts import facts
from lab.training.profile.measure import measure
from lab.training.profile.timed import watch


class Silence:
    def update(self, done, note=""):
        pass


@pytest.fixture
def measured(config):
    """A small step's profile."""

    def run(*overrides, steps=3):
        planned = plan(config(*overrides))
        return facts(planned, measure(planned, steps, Silence()))

    return run


def of(found, name):
    return next(one for one in found["classes"] if one["name"] == name)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["plain", "sdpa"])
@pytest.mark.parametrize("extra", [(), ("attn=gqa", "block=parallel"), ("train.micro_batch_size=2",)])
def test_classes_sum_to_the_step_and_flops_are_the_formulas(path, extra, measured, outputs):
    found = measured(f"attn_path={path}", *extra)
    assert [one["name"] for one in found["classes"]] == list(CLASSES)
    assert sum(one["ms"] for one in found["classes"]) == pytest.approx(found["step_ms"])
    assert sum(one["time_share"] for one in found["classes"]) == pytest.approx(1)
    assert sum(one["flops"] for one in found["classes"]) == found["flops"]
    assert found["contractions_flops_share"] * found["flops"] == pytest.approx(found["flops_by_formula"], rel=0.02)
    assert of(found, PRODUCTS)["flops"] == pytest.approx(found["floor"]["flops"], rel=0.001)
    assert all(one["ms"] > 0 for one in found["classes"])
    assert 0 < found["floor"]["ms"] <= found["step_ms"]
    assert found["attention_path"] == [path]
    assert not outputs.exists()


@pytest.mark.slow
def test_formula_and_count_agree_for_a_model_of_biases_and_layernorm(measured, config):
    words = ("model.bias=true", "norm=layernorm", "activation=gelu", "position=learned", "attn_path=plain")
    found = measured(*words)
    planned = plan(config(*words))
    tokens = 4 * 32
    assert found["flops_by_formula"] == training_flops_per_token(planned.outline, 32) * tokens
    assert found["contractions_flops_share"] * found["flops"] == pytest.approx(found["flops_by_formula"], rel=0.02)


@pytest.mark.slow
def test_what_is_made_heavier_is_where_the_step_goes(measured):
    light, heavy = measured(), measured("model.vocab_size=4112")  # 16 times 257
    assert of(heavy, LOSS)["ms"] > of(light, LOSS)["ms"]
    assert of(heavy, LOSS)["flops"] > 12 * of(light, LOSS)["flops"]
    both = [sum(of(found, name)["time_share"] for name in (LOSS, PRODUCTS)) for found in (light, heavy)]
    assert both[1] > both[0]
    assert heavy["memory"]["loss"] > 4 * light["memory"]["loss"]
    assert of(measured("norm=none"), NORMS)["ms"] == 0 < of(light, NORMS)["ms"]
    longer = measured("model.max_seq_len=256", "attn_path=plain")
    assert of(longer, ATTENTION)["time_share"] > of(light, ATTENTION)["time_share"]


@pytest.mark.slow
def test_memory_is_that_of_the_tensors(measured, config):
    model = plan(config()).outline
    size = sum(p.numel() for p in model.parameters())
    held = measured()["memory"]
    assert held["weights"] >= 4 * size  # and the buffers
    assert held["gradients"] == 4 * size
    assert 8 * size <= held["optimizer"] < 8 * size + 1024  # two moments, and a step for each tensor
    assert held["most"] > held["weights"] + held["optimizer"]
    longer = measured("train.batch_size=8")["memory"]
    assert longer["saved"] == pytest.approx(2 * held["saved"], rel=0.02)
    assert longer["weights"] == held["weights"]


@pytest.mark.slow
def test_bf16_multiplies_in_bf16_and_its_casts_are_elementwise(measured):
    found = measured("precision=bf16")
    casts = [o for o in found["operators"] if o["operator"] in ("_to_copy", "copy_") and o["class"] == ELEMENTWISE]
    assert sum(o["calls"] for o in casts) >= 7  # the weights of a layer
    assert found["contractions_flops_share"] * found["flops"] == pytest.approx(found["flops_by_formula"], rel=0.02)


@pytest.mark.slow
def test_what_a_kernel_pads_is_counted_and_the_optimizers_products_are_its_own(measured):
    padded = measured("attn=mla", "attn_path=sdpa")
    assert 1.02 < padded["contractions_flops_share"] * padded["flops"] / padded["flops_by_formula"] < 1.1
    muon = measured("optim=muon")
    assert of(muon, PRODUCTS)["flops"] == of(measured(), PRODUCTS)["flops"]
    assert of(muon, "optimizer")["flops"] > 10 * of(measured(), "optimizer")["flops"]


@pytest.mark.slow
@pytest.mark.skipif(missing(Device.cpu) is not None, reason="no C++ compiler: make ci-system")
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
def test_a_compiled_step_is_timed_beside_the_other(measured):
    found = measured("compile=true")
    assert found["compiled"]["first_step_s"] > found["compiled"]["step_ms"] / 1000
    assert found["compiled"]["floor_share"] == found["floor"]["ms"] / found["compiled"]["step_ms"]
    assert of(found, PRODUCTS)["ms"] > 0
    assert measured("compile=false")["compiled"] is None


@pytest.mark.parametrize(
    ("op", "scope", "group"),
    [
        ("mm", "linear", PRODUCTS),
        ("mm", "attention", PRODUCTS),
        ("addmm_", "loss", PRODUCTS),
        ("bmm", "attention", ATTENTION),
        ("bmm", None, PRODUCTS),
        ("_softmax", "attention", ATTENTION),
        ("mul", "norm", NORMS),
        ("mv", "norm", NORMS),
        ("exp_", "loss", LOSS),
        ("_to_copy", "linear", ELEMENTWISE),
        ("silu", None, ELEMENTWISE),
        ("AccumulateGrad", None, ELEMENTWISE),
        ("mm", "optimizer", "optimizer"),
        ("_foreach_norm", "clip", "optimizer"),
        ("lab.linear", "linear", PRODUCTS),
        ("lab.step", None, OTHER),
    ],
)
def test_operators_are_sorted_by_name_and_part(op, scope, group):
    assert classify(op, scope) == group


def test_what_computes_nothing_is_of_what_calls_it():
    assert classify("transpose", "linear", PRODUCTS) == PRODUCTS
    assert classify("view", None) == ELEMENTWISE


def test_a_backward_belongs_to_the_part_of_its_forward():
    scopes = Scopes()
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    with scopes.open("attention"):
        z = y.exp()
        with scopes.open("norm"):
            w = z.sin()
        v = w.cos()
    last = v.sqrt()
    found = [scopes.made_in(t.grad_fn._sequence_nr()) for t in (y, z, w, v, last)]
    assert found == [None, "attention", "norm", "attention", None]
    assert scopes.now is None


def test_a_profile_is_sorted_whole():
    weight = torch.randn(64, 64, requires_grad=True)
    scopes = Scopes()

    def step():
        with scopes.open("attention"):
            y = torch.softmax(weight @ weight, dim=-1)
        y.sum().backward()

    seen = watch(step, 2, scopes, cuda=False)
    for total, found in zip(seen.step_ms, seen.class_ms, strict=True):
        assert sum(found.values()) == pytest.approx(total, rel=1e-6)
    named = {(o.group, o.name, o.backward): seen.calls[o] for o in seen.operator_ms}
    assert named[PRODUCTS, "mm", False] == 2
    assert named[PRODUCTS, "mm", True] == 4
    assert named[ATTENTION, "_softmax", False] == 2
    assert named[ATTENTION, "_softmax_backward_data", True] == 2


def test_modules_are_parts_while_they_are_watched():
    model = nn.Sequential(classes.layers.RMSNorm(4, eps=1e-5), classes.layers.Linear(4, 4, bias=False), nn.GELU())
    nn.init.ones_(model[1].weight)
    scopes, seen = Scopes(), []
    for module in model:
        module.register_forward_pre_hook(lambda *_: seen.append(scopes.now))
    with classes.modules_in(model, (), scopes):
        model(torch.ones(1, 4))
    model(torch.ones(1, 4))
    assert seen == [None, None, None, None, None, None]  # hooks that were there before come first
    assert scopes.stack == []


def test_flops_of_operators():
    a, b = torch.ones(3, 4), torch.ones(4, 5)
    q = torch.ones(2, 3, 8, 4)
    out = torch.ones(3, 5)
    assert operator_flops("mm", (a, b), {}, out) == 2 * 3 * 4 * 5
    assert operator_flops("addmm_", (out, a, b), {}, out) == 2 * 3 * 4 * 5
    assert (
        operator_flops("_scaled_dot_product_flash_attention_for_cpu", (q, q, q), {}, q) == 2 * 2 * 2 * 3 * 8 * 8 * 4
    )
    assert operator_flops("mul", (a, 2.0), {}, a) == 12
    assert operator_flops("_foreach_mul_", ([a, b], 2.0), {}, None) == 32
    assert operator_flops("copy_", (a, a), {}, a) == 0


def test_parts_are_told_to_one_who_listens_and_to_nobody_else():
    scopes, seen = Scopes(), []
    with parts.heard(scopes.open), parts.part("loss"):
        seen.append(scopes.now)
        with parts.heard(Scopes().open), parts.part("clip"):
            seen.append(scopes.now)
    with parts.part("loss"):
        seen.append(scopes.now)
    assert seen == ["loss", "loss", None]
