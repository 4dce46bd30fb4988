"""Composing outside `lab train`: other spellings, folders of the user's own, the state Hydra keeps."""

import pytest
from hydra.core.global_hydra import GlobalHydra

from lab.compose import compose_config
from lab.errors import ConfigError
from lab.hints import check_tiers, spelled, unknown_key
from lab.paths import conf_dir


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("attention=gqa", "attn=gqa"),
        ("attention.n_kv_heads=1", "attn.n_kv_heads=1"),
        ("+attention.x=1", "+attn.x=1"),
        ("~attention", "~attn"),
        ("attention_x=1", "attention_x=1"),
        ("data.file=attention=1", "data.file=attention=1"),
        ("attn=gqa", "attn=gqa"),
        ("init_from=12e456789012", 'init_from="12e456789012"'),
        ("init_from=012345,null,abc", 'init_from="012345",null,"abc"'),
        ("init_from=abc", "init_from=abc"),
        ("init_from=out/runs/1", "init_from=out/runs/1"),
        ("init_from=null", "init_from=null"),
        ("study.tiers.laptop.arms=[a,b]", "++study.tiers.laptop.arms=[a,b]"),
        ("study.max_epochs=2", "++study.max_epochs=2"),
        ("study.variants.a.note=b", "study.variants.a.note=b"),
    ],
)
def test_other_spellings_of_a_group(typed, meant):
    assert spelled(typed) == meant


def test_a_tier_that_the_file_has_not_is_refused():
    check_tiers("norms", ["study.tiers.smoke.arms", "study.question", "tier"], [conf_dir()])
    with pytest.raises(
        ConfigError, match=r"^study\.tiers\.smoek: study norms has the tiers smoke, .*mean 'smoke'\?$"
    ):
        check_tiers("norms", ["study.tiers.smoek.arms"], [conf_dir()])


@pytest.mark.slow
def test_an_id_that_looks_like_a_number_is_a_text():
    assert compose_config(["init_from=12e456789012"]).init_from == "12e456789012"
    assert compose_config(["init_from=0123"]).init_from == "0123"
    assert compose_config(["init_from=null"]).init_from is None


def test_attention_is_attn():
    assert compose_config(["attention=gqa", "attention.n_kv_heads=1"]) == compose_config(
        ["attn=gqa", "attn.n_kv_heads=1"]
    )


@pytest.mark.slow
def test_composing_leaves_no_state_and_bears_an_earlier_one():
    compose_config([])
    assert not GlobalHydra.instance().is_initialized()
    with pytest.raises(ConfigError):
        compose_config(["norm=nope"])
    assert compose_config(["norm=none"]).norm.name == "none"


@pytest.mark.slow
def test_a_folder_of_the_users_own_with_an_awkward_name(tmp_path):
    folder = tmp_path / "it's mine, {really}"
    (folder / "norm").mkdir(parents=True)
    (folder / "norm/strict.yaml").write_text("name: rmsnorm\neps: 1.0e-3\n")
    assert compose_config(["norm=strict"], config_dir=str(folder)).norm.eps == 1e-3
    with pytest.raises(
        ConfigError, match=r"norm 'strcit' is not one of dyt, .*, rmsnorm_partial, scalenorm, strict; did"
    ):
        compose_config(["norm=strcit"], config_dir=str(folder))
    with pytest.raises(ConfigError, match=r"unknown key 'norm.epz': norm=rmsnorm has eps"):
        compose_config(["norm=strict", "norm.epz=1"], config_dir=str(folder))


def test_a_key_is_explained_by_the_section_it_would_be_in():
    tree = {"seed": 1, "train": {"steps": 3}, "norm": {"name": "none"}}
    assert unknown_key("train.stesp", "train.stesp", tree) == (
        "unknown key 'train.stesp': train has steps; did you mean 'train.steps'?"
    )
    assert unknown_key("norm.eps", "norm.eps", tree).startswith("unknown key 'norm.eps': norm=none has no keys; it")
    assert unknown_key("steps", "steps", tree).endswith("; did you mean 'train.steps'?")
