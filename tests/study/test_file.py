"""Studies that are wrong are refused in one line before anything runs; those that are right are kept whole."""

import pytest

from lab.config import SWEEP_KEYS
from lab.errors import ConfigError
from lab.study.file import decode, refuse_strays
from lab.study.sections import LrMode
from lab.study.study import RESERVED
from study.written import GRID, STAR, study

VARIANT = {"set": {"norm": "rmsnorm"}}
TWO = {"a": {"set": {"norm": "rmsnorm"}}, "b": {"set": {"norm": "dyt"}}}


def variants(**settings):
    return {"variants": {"x": {"set": settings}}}


WRONG = {
    "a study that is a word": ("norms", "study 'norms' must be a section"),
    "no question": ({"question": None}, "study.question is not set"),
    "no seeds": ({"seeds": None}, "study.seeds is not set"),
    "unknown key": ({"varaints": {}}, "unknown key 'study.varaints': .*did you mean 'study.variants'"),
    "unknown key of a section": (
        {"lr": {"gird": [1]}},
        "unknown key 'study.lr.gird': study.lr has extend, grid, mode",
    ),
    "unknown key of a variant": (
        {"variants": {"x": {"sets": {}}}},
        "unknown key 'study.variants.x.sets': study.variants.x has note, set, start; did you mean",
    ),
    "a claim that is not there": (
        {"published": [{"claim": "narang2021.rms-norm"}]},
        "study.published.narang2021.rms-norm: .* is no claim of conf/claims; did you mean 'narang2021.rmsnorm'",
    ),
    "an arm of a claim that is not there": (
        {"published": [{"claim": "narang2021.rmsnorm", "arms": {"layernorm": "layer_norm"}}]},
        "study.published.narang2021.rmsnorm.arms.layernorm 'layer_norm' is not .* did you mean 'layernorm'",
    ),
    "a name that a claim has not": (
        {"published": [{"claim": "narang2021.rmsnorm", "arms": {"rms_norm": "rmsnorm"}}]},
        "study.published.narang2021.rmsnorm.arms: 'rms_norm' is not one of the claim's .* did you mean 'rmsnorm'",
    ),
    "a claim about other arms": (
        {"published": [{"claim": "narang2021.glu-vs-relu"}]},
        "study.published.narang2021.glu-vs-relu.arms: no pair of the claim is of two arms",
    ),
    "a claim on an unknown number": (
        {"published": [{"claim": "narang2021.rmsnorm", "metric": "finalloss"}]},
        "study.published.narang2021.rmsnorm.metric 'finalloss' must begin with .* did you mean 'final_loss'",
    ),
    "a claim on what is not measured": (
        {"published": [{"claim": "narang2021.rmsnorm", "metric": "measures.probes.induction"}]},
        "study.published.narang2021.rmsnorm.metric .*: study.measures has no 'probes'",
    ),
    "a claim that is turned round": (
        {"published": [{"claim": "narang2021.rmsnorm", "want": "higher"}]},
        "study.published.narang2021.rmsnorm.want higher: final_loss is better where it is lower",
    ),
    "a claim at figures that are not there": (
        {"published": [{"claim": "narang2021.rmsnorm", "at": "late_loss"}]},
        "study.published.narang2021.rmsnorm: at 'late_loss' must be a section of numbers in figures: .*final_loss",
    ),
    "a measure that is not there": ({"measures": ["probe"]}, "study.measures 'probe' must be .* mean 'probes'"),
    "arms of a tier that are none": (
        {"tiers": {"gpu": {"arms": ["rms_norm"]}}},
        "study.tiers.gpu.arms 'rms_norm' is not one of study.variants: .* did you mean 'rmsnorm'",
    ),
    "a tier without a contrast": (
        {"contrasts": ["gqa - layernorm"], "tiers": {"gpu": {"arms": ["rmsnorm"]}}},
        "study.tiers.gpu.arms leaves out an arm of each of study.contrasts",
    ),
    "unknown design": ({"design": "stars"}, "study.design 'stars' must be one of star, .*; did you mean 'star'"),
    "unknown metric": ({"primary": "loss"}, "study.primary 'loss' must be one of final_loss, .*bits_per_byte"),
    "unknown match": ({"match": "time"}, "study.match 'time' must be one of none, params, flops"),
    "unknown mode": ({"lr": {"mode": "tune"}}, "study.lr.mode 'tune' must be one of shared, tuned, curve; did"),
    "seeds that are no numbers": ({"seeds": {"report": ["a"]}}, "study.seeds.report"),
    "a count of seeds": ({"seeds": {"report": 5}}, "study.seeds.report 5 must be a list"),
    "no report seeds": ({"seeds": {"report": []}}, r"study.seeds.report \[\] must name a seed"),
    "a seed twice": ({"seeds": {"report": [1, 1]}}, r"study.seeds.report \[1, 1\] has 1 twice"),
    "a negative seed": ({"seeds": {"report": [-1]}}, "study.seeds.report -1 must be >= 0"),
    "overlapping seeds": (
        {"seeds": {"report": [1, 2, 3], "tune": [4, 3]}},
        r"study.seeds.tune \[4, 3\] must be apart from report: 3 is in both",
    ),
    "seeds that overlap in a tier": (
        {"seeds": {"report": [1, 2], "tune": [4]}},
        r"study.tiers.gpu: tune \[4\] must be apart from report: 4 is in both",
    ),
    "tuned without seeds": ({"seeds": {"report": [1, 2]}}, "study.seeds.tune is not set: study.lr.mode tuned"),
    "tuned with one rate": (
        {"lr": {"mode": "tuned", "grid": [0.001]}},
        r"study.lr.grid \[0.001\] must have 2 rates or more: lr.mode is tuned",
    ),
    "a curve of two rates": (
        {"lr": {"mode": "curve", "grid": [1, 2]}},
        "study.lr.grid .* must have 3 rates or more",
    ),
    "an uneven curve": ({"lr": {"mode": "curve", "grid": [1, 2, 9]}}, "study.lr.grid .* must rise by one factor"),
    "rates that fall": ({"lr": {"mode": "tuned", "grid": [2, 1]}}, r"study.lr.grid \[2.0, 1.0\] must rise"),
    "a rate of zero": ({"lr": {"mode": "tuned", "grid": [0, 1]}}, "study.lr.grid 0.0 must be > 0"),
    "a grid that nothing tries": (
        {"lr": {"grid": [1, 2]}},
        r"study.lr.grid \[1.0, 2.0\] is of no use: lr.mode is shared, here and in all tiers",
    ),
    "tuning seeds that nothing runs": ({"lr": None}, r"study.seeds.tune \[101, 102\] is of no use"),
    "a rate beside the grid": ({"set": {"optim.lr": 1e-3}}, "study.set: optim.lr and study.lr.mode tuned exclude"),
    "a rate of one arm": (variants(**{"optim.lr": 1e-3}), "study.variants.x.set: optim.lr and study.lr.mode tuned"),
    "a gate without an effect": ({"gate": {"sd": 0.01}}, "study.gate.min_effect is not set"),
    "a gate that sees everything": ({"gate": {"min_effect": 0}}, "study.gate.min_effect 0.0 must be > 0"),
    "a gate without scatter": (
        {"seeds": {"report": [1], "tune": [101]}},
        "study.seeds.report: one seed shows no scatter, so study.gate cannot be judged",
    ),
    "power below chance": ({"stats": {"power": 0.01}}, "study.stats.power 0.01 must be > 0.05 and < 1"),
    "no variants": ({"variants": {}}, "study.variants has 0 of the 1 or more that study.design star needs"),
    "one to pair": (
        {"design": "pairwise", "variants": {"x": VARIANT}},
        "study.variants has 1 of the 2 or more that study.design pairwise needs",
    ),
    "variants without settings": ({"variants": {"rmsnorm": None}}, "study.variants.rmsnorm None must be a section"),
    "variants as a list": ({"variants": ["rmsnorm"]}, r"study.variants \['rmsnorm'\] must be a section of names"),
    "a variant with the baseline's name": (
        {"variants": {"layernorm": VARIANT}},
        "study.variants.layernorm has the baseline's name",
    ),
    "a name with a blank": ({"variants": {"a b": VARIANT}}, "study.variants.a b: 'a b' must be a name of letters"),
    "arms that are the same": (
        {"variants": {"x": VARIANT, "y": VARIANT}},
        "study: 'x' and 'y' are the same: norm=rmsnorm",
    ),
    "a variant that is the baseline": (
        {"variants": {"x": {}}},
        "study: 'layernorm' and 'x' are the same: it changes nothing",
    ),
    "combined choices in another order": (
        {
            "variants": {
                x: {"set": {"stability": s}}
                for x, s in (("x", ["qk_norm", "z_loss"]), ("y", ["z_loss", "qk_norm"]))
            }
        },
        "study: 'x' and 'y' are the same",
    ),
    "a pair that cannot be": (
        {"design": "pairwise", "variants": TWO},
        "study.design pairwise: 'a' and 'b' cannot be together, since both set norm",
    ),
    "taking away what is not on": (
        {"design": "hold-one-out", "variants": {"x": {"set": {"attn": "gqa"}}}},
        "study.variants.x.set: 'attn' is nothing that study.baseline.set has on",
    ),
    "axes beside variants": ({"axes": {"norm": ["dyt"]}}, "study.axes and study.design star exclude each other"),
    "variants in a grid": ({"design": "grid"}, "study.variants and study.design grid exclude each other"),
    "a seed as a setting": ({"set": {"seed": 3}}, "study.set: 'seed' is not set here: study.seeds says which"),
    "a match as a setting": (
        variants(match="params"),
        "study.variants.x.set: 'match' is not set here: study.match",
    ),
    "a setting of Hydra's": ({"set": {"hydra.verbose": True}}, "study.set: 'hydra.verbose' is not set here"),
    "unpaired arms": (
        variants(study_seed=1, norm="dyt"),
        "study.variants.x.set: 'study_seed' pairs the arms, so it goes to study.set, or stands alone",
    ),
    "an unpaired baseline": (
        {"baseline": {"name": "a", "set": {"study_seed": 1}}},
        "study.baseline.set: 'study_seed' pairs the arms",
    ),
    "a key with a plus": (variants(**{"+norm": "x"}), r"study.variants.x.set: '\+norm' must be a key as on the"),
    "a section as a value": (
        variants(train={"steps": 3}),
        "study.variants.x.set.train .* is a section: write each",
    ),
    "settings as a list": ({"set": ["norm=dyt"]}, r"study.set \['norm=dyt'\] must be a section of settings"),
    "contrasts without a list": ({"contrasts": "all"}, "study.contrasts 'all' must be auto or a list"),
    "a contrast of nobody": ({"contrasts": ["rmsnrom - gqa"]}, "no arm 'rmsnrom' among .*; did you mean 'rmsnorm'"),
    "a contrast of one": ({"contrasts": ["gqa"]}, "study.contrasts 'gqa' must take away as many arms as it adds"),
    "a contrast twice": ({"contrasts": ["gqa - rmsnorm"] * 2}, "study.contrasts has 'gqa - rmsnorm' twice"),
    "a tier of no seeds": ({"tiers": {"x": {"report": 0}}}, "study.tiers.x.report 0 must be >= 1"),
    "a tier that cannot tune": (
        {"lr": None, "tiers": {"x": {"lr": "tuned"}}},
        r"study.tiers.x: grid \[\] must have 2 rates or more: lr.mode is tuned",
    ),
    "a tier with a rate": (
        {"tiers": {"x": {"set": {"optim.lr": 1}}}},
        "study.set: optim.lr and study.tiers.x.lr tuned exclude each other",
    ),
}

WRONG_GRIDS = {
    "no axes": ({"axes": None}, "study.axes is not set: study.design grid goes through its values"),
    "an empty axis": ({"axes": {"norm": []}}, r"study.axes.norm \[\] must be a list of values, one or more"),
    "an axis of one": ({"axes": {"norm": ["dyt"]}}, "study.axes come to one arm: there is nothing to compare"),
    "an axis that is no list": ({"axes": {"norm": "dyt"}}, "study.axes.norm 'dyt' must be a list of values"),
    "a value twice": ({"axes": {"norm": ["dyt", "dyt"]}}, r"study.axes.norm \[dyt, dyt\] has a value twice"),
    "axes as a list": ({"axes": ["norm"]}, r"study.axes \['norm'\] must be a section of lists"),
    "a zip of two lengths": (
        {"design": "zip", "axes": {"norm": ["dyt", "none"], "attn": ["mha"]}},
        "study.axes must be of one length for study.design zip: norm has 2, attn has 1",
    ),
    "a baseline beside the axes": (
        {"baseline": {"set": {"norm": "dyt"}}},
        "study.baseline.set and study.design grid exclude each other",
    ),
    "seeds on an axis": ({"axes": {"seed": [1, 2]}}, "study.axes: 'seed' is not set here"),
}


@pytest.mark.parametrize(
    ("base", "changes", "says"),
    [*((STAR, *pair) for pair in WRONG.values()), *((GRID, *pair) for pair in WRONG_GRIDS.values())],
    ids=[*WRONG, *WRONG_GRIDS],
)
def test_a_wrong_study_is_refused_in_one_line(base, changes, says):
    with pytest.raises(ConfigError, match=says) as caught:
        decode(changes, "written") if isinstance(changes, str) else study(base, **changes)
    assert "\n" not in str(caught.value)


def test_an_unknown_tier_is_refused_with_those_there_are():
    with pytest.raises(ConfigError, match=r"^tier 'gpus' is not one of smoke, gpu; did you mean 'gpu'"):
        study().at("gpus")
    with pytest.raises(ConfigError, match=r"^tier 'gpu' is not there: study written has no tiers$"):
        study(tiers=None).at("gpu")


def test_a_tier_sets_what_it_says_and_leaves_the_rest():
    one = study()
    smoke, gpu, whole = one.at("smoke"), one.at("gpu"), one.at(None)
    assert (smoke.set, smoke.seeds.report, smoke.lr.mode) == ({"train.steps": "30"}, [1, 2], LrMode.shared)
    assert (gpu.set, gpu.seeds.report, gpu.lr) == ({}, [1, 2, 3, 4, 5, 6, 7, 8], one.lr)
    assert (whole.tier, whole.seeds, whole.gate) == (None, one.seeds, one.gate)


def test_a_smoke_tier_has_no_gate_and_no_verdicts_unless_it_says_so():
    one = study()
    assert (one.at("smoke").gate, one.at("smoke").verdicts) == (None, False)
    assert (one.at("gpu").gate, one.at("gpu").verdicts) == (one.gate, True)
    said = study(tiers={"smoke": {"verdicts": True}, "quick": {"verdicts": False}})
    assert said.at("smoke").gate == one.gate
    assert said.at("quick").gate is None


def test_the_hash_is_of_what_is_asked_for():
    one = study()
    same = study(seeds=dict(reversed(STAR["seeds"].items())), tiers=STAR["tiers"] | {"more": {}})
    assert one.at("gpu").hash() == same.at("gpu").hash()
    assert one.at("gpu").hash(["a=1", "b=2"]) == one.at("gpu").hash(["b=2", "a=1"])
    others = [
        one.at("gpu").hash(["a=1"]),
        one.at("smoke").hash(),
        one.at(None).hash(),
        study(seeds={"report": [1, 2, 4], "tune": [101]}).at(None).hash(),
        study(question="And?").at(None).hash(),
        study(gate={"min_effect": 0.03}).at(None).hash(),
        study(variants=dict(reversed(STAR["variants"].items()))).at(None).hash(),
    ]
    assert len({one.at("gpu").hash(), *others}) == 1 + len(others)


def test_keys_of_a_sweep_are_not_settings_of_an_arm():
    assert set(SWEEP_KEYS) <= set(RESERVED)


def test_settings_beside_the_study_are_refused(tmp_path):
    (tmp_path / "study").mkdir()
    file = tmp_path / "study/mine.yaml"
    for text, stray in (
        ("study: {}\ntrain: {steps: 3}\n", "train"),
        ("defaults: [{override /norm: dyt}]\nstudy: {}\n", "override /norm"),
        ("defaults: [{override hydra/launcher: pool}, _self_]\nhydra: {mode: MULTIRUN}\nstudy: {}\n", None),
    ):
        file.write_text(text)
        if stray is None:
            refuse_strays("mine", [tmp_path])
        else:
            with pytest.raises(ConfigError, match=f"mine.yaml: '{stray}' stands beside study: .* study.set$"):
                refuse_strays("mine", [tmp_path])
