"""Designs: how many arms, and what each of them is."""

import pytest

from lab.errors import ConfigError
from lab.study.design import arms, contrasts, count
from study.written import GRID, STAR, study

PLAIN = {"lr": None, "tiers": None, "seeds": {"report": [1, 2, 3]}}
"""Changes that leave the learning rate alone."""


def made(one, shared=()):
    return {arm.name: " ".join(arm.overrides) for arm in arms(one, shared)}


def asked(one):
    return [contrast.name for contrast in contrasts(one)]


def test_star():
    one = study(**PLAIN)
    assert made(one) == {
        "layernorm": "norm=layernorm",
        "rmsnorm": "norm=rmsnorm",
        "gqa": "norm=layernorm attn=gqa attn.n_kv_heads=1",
    }
    assert asked(one) == ["rmsnorm - layernorm", "gqa - layernorm"]
    assert count(one) == 9


def test_runs_of_a_tuned_star():
    one = study()
    assert count(one) == 3 * (3 + 3 * 2)
    assert count(one.at("smoke")) == 3 * 2
    assert count(one.at("gpu")) == 3 * (8 + 3 * 2)


def test_hold_one_out():
    on = {
        "norm": "rmsnorm",
        "activation": "swiglu",
        "stability": ["qk_norm", "z_loss"],
        "stability.z_loss.weight": 1e-3,
    }
    without = {
        "no_rmsnorm": {"set": {"norm": "layernorm"}},
        "no_glu": {"set": {"activation": "gelu"}},
        "no_qk_norm": {"set": {"stability": ["z_loss"]}},
        "no_z_loss": {"set": {"stability": ["qk_norm"]}},
    }
    one = study(**PLAIN, design="hold-one-out", baseline={"name": "all", "set": on}, variants=without)
    rest = "stability=[qk_norm,z_loss] stability.z_loss.weight=0.001"
    assert made(one) == {
        "all": f"norm=rmsnorm activation=swiglu {rest}",
        "no_rmsnorm": f"norm=layernorm activation=swiglu {rest}",
        "no_glu": f"norm=rmsnorm activation=gelu {rest}",
        "no_qk_norm": "norm=rmsnorm activation=swiglu stability=[z_loss] stability.z_loss.weight=0.001",
        "no_z_loss": "norm=rmsnorm activation=swiglu stability=[qk_norm]",
    }
    assert asked(one) == ["no_rmsnorm - all", "no_glu - all", "no_qk_norm - all", "no_z_loss - all"]
    assert count(one) == 15


def test_pairwise():
    variants = {
        "qk_norm": {"set": {"stability": ["qk_norm"]}},
        "z_loss": {"set": {"stability": ["z_loss"], "stability.z_loss.weight": 0.01}},
        "dyt": {"set": {"norm": "dyt"}},
    }
    one = study(**PLAIN, design="pairwise", baseline={"name": "plain"}, variants=variants)
    assert made(one) == {
        "plain": "",
        "qk_norm": "stability=[qk_norm]",
        "z_loss": "stability=[z_loss] stability.z_loss.weight=0.01",
        "dyt": "norm=dyt",
        "qk_norm+z_loss": "stability=[qk_norm,z_loss] stability.z_loss.weight=0.01",
        "qk_norm+dyt": "stability=[qk_norm] norm=dyt",
        "z_loss+dyt": "stability=[z_loss] stability.z_loss.weight=0.01 norm=dyt",
    }
    assert asked(one) == [
        "qk_norm - plain",
        "z_loss - plain",
        "dyt - plain",
        "qk_norm+z_loss - qk_norm - z_loss + plain",
        "qk_norm+dyt - qk_norm - dyt + plain",
        "z_loss+dyt - z_loss - dyt + plain",
    ]
    assert contrasts(one)[3].plus == ("qk_norm+z_loss", "plain")
    assert contrasts(one)[3].minus == ("qk_norm", "z_loss")


def test_a_pair_keeps_what_both_keep_and_loses_what_either_takes_away():
    base = {"set": {"stability": ["qk_norm", "logit_softcap", "fc_norm"]}}
    variants = {
        "a": {"set": {"stability": ["qk_norm", "fc_norm", "z_loss"]}},
        "b": {"set": {"stability": ["qk_norm", "logit_softcap"]}},
    }
    one = study(**PLAIN, design="pairwise", baseline=base, variants=variants)
    assert made(one)["a+b"] == "stability=[qk_norm,z_loss]"


def test_list():
    variants = {"gqa": {"set": {"attn": "gqa"}}, "mqa": {"set": {"attn": "mqa"}, "note": "one head"}}
    one = study(**PLAIN, design="list", set={"train.steps": 9}, variants=variants)
    assert made(one) == {
        "layernorm": "train.steps=9 norm=layernorm",
        "gqa": "train.steps=9 attn=gqa",
        "mqa": "train.steps=9 attn=mqa",
    }


def test_grid():
    one = study(GRID, **PLAIN, axes={"norm": ["layernorm", "none"], "attn": ["mha", "gqa", "mqa"]})
    assert list(made(one).values()) == [
        f"norm={norm} attn={attn}" for norm in ("layernorm", "none") for attn in ("mha", "gqa", "mqa")
    ]
    assert list(made(one))[:3] == ["baseline", "norm=layernorm attn=gqa", "norm=layernorm attn=mqa"]
    assert len(contrasts(one)) == 5


def test_a_choice_without_the_key_of_an_axis_makes_no_redundant_arm():
    one = study(GRID, **PLAIN, baseline={"name": "old"})
    assert made(one) == {
        "old": "norm=layernorm attn=mha",
        "norm=layernorm attn=gqa attn.n_kv_heads=1": "norm=layernorm attn=gqa attn.n_kv_heads=1",
        "norm=layernorm attn=gqa attn.n_kv_heads=2": "norm=layernorm attn=gqa attn.n_kv_heads=2",
        "norm=rmsnorm attn=mha": "norm=rmsnorm attn=mha",
        "norm=rmsnorm attn=gqa attn.n_kv_heads=1": "norm=rmsnorm attn=gqa attn.n_kv_heads=1",
        "norm=rmsnorm attn=gqa attn.n_kv_heads=2": "norm=rmsnorm attn=gqa attn.n_kv_heads=2",
    }
    assert count(one) == 18


def test_zip():
    one = study(GRID, **PLAIN, design="zip", axes={"model.n_layers": [2, 4, 8], "model.dim": [64, 48, 32]})
    assert made(one) == {
        "baseline": "model.n_layers=2 model.dim=64",
        "model.n_layers=4 model.dim=48": "model.n_layers=4 model.dim=48",
        "model.n_layers=8 model.dim=32": "model.n_layers=8 model.dim=32",
    }


def test_a_variant_takes_over_what_its_choice_has_of_the_baseline():
    variants = {"gated": {"set": {"attn": "gated"}}, "mha": {"set": {"attn": "mha"}}}
    base = {"set": {"attn": "gqa", "attn.n_kv_heads": 1, "attn.q_bias": True}}
    one = study(**PLAIN, baseline=base, variants=variants)
    assert made(one)["mha"] == "attn=mha attn.q_bias=true"
    assert made(one)["gated"] == "attn=gated attn.n_kv_heads=1 attn.q_bias=true"


def test_what_a_variant_sets_itself_is_left_to_be_refused():
    variants = {"wrong": {"set": {"attn": "mha", "attn.n_kv_heads": 2}}, "gqa": STAR["variants"]["gqa"]}
    assert made(study(**PLAIN, variants=variants))["wrong"].endswith("attn=mha attn.n_kv_heads=2")
    arms_of = {"baseline": {"set": {"attn": "mqa"}}, "variants": {"gqa": {"set": {"attn": "gqa"}}}}
    typo = study(**PLAIN, set={"attn.n_kv_haeds": 2}, **arms_of)
    assert all("n_kv_haeds" in words for words in made(typo).values())


def test_settings_of_the_study_its_tier_and_the_command_line_go_to_all_arms():
    one = study(set={"train.steps": 9, "model": "tiny"}, tiers={"big": {"set": {"train.steps": 90}}}).at("big")
    for words in made(one, ["model=small", "threads=1"]).values():
        assert words.startswith("train.steps=90 model=small threads=1 ")


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("norm=rmsnorm", "its arms set that key themselves"),
        ("attn.n_kv_heads=2", "its arms set that key themselves"),
        ("seed=3", "study.seeds says which are run"),
        ("optim.lr=1e-3", "study.lr.grid says which are tried"),
        ("match.to=[norm=none]", "study.match says it"),
    ],
)
def test_a_word_cannot_contradict_the_study(word, why):
    with pytest.raises(
        ConfigError, match=rf"^{word.partition('[')[0]}.* cannot be given with study=written: {why}$"
    ):
        arms(study(match="params"), [word])


def test_a_match_may_be_asked_for_where_the_study_has_none():
    assert all("match=params" in words for words in made(study(), ["match=params"]).values())


def test_variants_are_matched_to_the_whole_baseline():
    one = study(
        **PLAIN, set={"train.steps": 9}, match="flops", baseline={"name": "b", "set": {"data.file": "it's"}}
    )
    matched = made(one, ["threads=1"])
    assert matched["b"] == "train.steps=9 threads=1 data.file='it\\'s'"
    for name in ("rmsnorm", "gqa"):
        assert matched[name].endswith(
            " match=flops match.to=['train.steps=9','threads=1','data.file=\\'it\\\\\\'s\\'']"
        )


def test_contrasts_that_are_written_out():
    written = ["gqa - rmsnorm", "rmsnorm + gqa  - layernorm - gqa"]
    with pytest.raises(ConfigError, match="must take away as many arms as it adds, each once"):
        study(contrasts=written)
    one = study(contrasts=["gqa  -  rmsnorm"])
    assert [(c.name, c.plus, c.minus) for c in contrasts(one)] == [("gqa - rmsnorm", ("gqa",), ("rmsnorm",))]
    axes = study(GRID, contrasts=["norm=rmsnorm attn=mha - baseline"])
    assert contrasts(axes)[0].plus == ("norm=rmsnorm attn=mha",)


def test_a_key_of_arms_that_a_tier_leaves_out_is_no_mistake():
    variants = {"rmsnorm": {"set": {"norm": "rmsnorm"}}, "gqa": {"set": {"attn": "gqa"}}}
    whole = {"set": {"attn": "mha", "attn.n_kv_heads": 1}, "variants": variants}
    one = study(**{**PLAIN, **whole, "tiers": {"less": {"arms": ["rmsnorm"]}}})
    assert made(one.at("less")) == {name: words for name, words in made(one).items() if name != "gqa"}
    assert "attn.n_kv_heads=1" in made(one)["gqa"]
    assert "n_kv_heads" not in made(one)["rmsnorm"]
    assert "left_out" not in one.at("less").as_dict()
