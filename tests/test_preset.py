"""Where a preset's values apply, and what they yield to; on trees made here, and through the command line."""

import pytest

from lab import preset
from lab.compose import compose_config
from lab.errors import ConfigError


def tree(**changed):
    made = {
        "preset": {
            "name": "mine",
            "values": {
                "attn.mla.kv_rank_share": 0.1,
                "attn.gqa.heads_per_kv": 4,
                "stability.z_loss.weight": 1e-5,
                "model.bias": True,
            },
            "published": {"model.dim": 512, "attn.mla.kv_rank": 64},
        },
        "preset_size": None,
        "attn": {"name": "mla", "kv_rank_share": 0.5, "kv_rank": None},
        "stability": {"z_loss": {"name": "z_loss", "weight": 1e-4}},
        "model": {"dim": 64, "bias": False},
    }
    return made | changed


def test_values_apply_where_their_choice_stands_and_the_name_remains():
    made = tree()
    preset.apply(made, [])
    assert made["attn"] == {"name": "mla", "kv_rank_share": 0.1, "kv_rank": None}
    assert made["stability"] == {"z_loss": {"name": "z_loss", "weight": 1e-5}}
    assert made["model"] == {"dim": 64, "bias": True}
    assert made["preset"] == "mine"


def test_another_choice_drops_the_values_of_the_first():
    made = tree(attn={"name": "gqa", "heads_per_kv": 2}, stability={"none": {"name": "none"}})
    preset.apply(made, ["attn", "stability"])
    assert made["attn"] == {"name": "gqa", "heads_per_kv": 4}
    assert made["stability"] == {"none": {"name": "none"}}


@pytest.mark.parametrize(
    ("given", "section", "kept"),
    [
        ("attn.kv_rank_share", "attn", {"name": "mla", "kv_rank_share": 0.5, "kv_rank": None}),
        ("stability.z_loss.weight", "stability", {"z_loss": {"name": "z_loss", "weight": 1e-4}}),
        ("stability.z_loss", "stability", {"z_loss": {"name": "z_loss", "weight": 1e-4}}),
        ("model.bias", "model", {"dim": 64, "bias": False}),
    ],
)
def test_a_key_given_by_hand_is_left_alone(given, section, kept):
    made = tree()
    preset.apply(made, [given])
    assert made[section] == kept


@pytest.mark.parametrize("given", ["attn", "model", "stability"])
def test_a_choice_given_by_hand_keeps_the_values_that_belong_to_it(given):
    by_hand, alone = tree(), tree()
    preset.apply(by_hand, [given])
    preset.apply(alone, [])
    assert by_hand == alone


def test_published_sizes_are_taken_when_asked_for_and_yield_to_the_command_line():
    made = tree(preset_size="published")
    preset.apply(made, ["attn.kv_rank"])
    assert made["model"] == {"dim": 512, "bias": True}
    assert made["attn"]["kv_rank"] is None


def test_what_was_decoded_before_is_left_as_it_is():
    made = tree(preset="mine")
    preset.apply(made, [])
    assert made == tree(preset="mine")


def test_a_preset_without_a_name_is_refused():
    with pytest.raises(ConfigError, match="has no name: use preset=NAME"):
        preset.apply(tree(preset={"values": {}}), [])


def test_published_sizes_of_a_preset_without_any_are_refused():
    with pytest.raises(
        ConfigError, match=r"^preset_size 'published' needs a preset with sizes; preset 'none' has none$"
    ):
        compose_config(["preset_size=published"])


def test_shipped_presets_are_told_from_others():
    assert preset.is_shipped("gemma2")
    assert not preset.is_shipped("none")
    assert not preset.is_shipped("mine")
    assert "none" not in preset.names()


def test_a_preset_on_the_command_line():
    config = compose_config(["preset=gemma2", "model=tiny", "norm=rmsnorm_1p", "attn.heads_per_kv=1"])
    assert config.preset == "gemma2"
    assert (config.model.dim, config.model.tie_embeddings, config.model.embed_scale) == (64, True, "sqrt_dim")
    assert (config.norm.name, config.norm.eps) == ("rmsnorm_1p", 1e-6)
    assert (config.attn.heads_per_kv, config.attn.window_share) == (1, 0.5)
    assert sorted(config.stability) == ["attn_softcap", "logit_softcap"]


def test_a_preset_with_one_choice_replaced():
    config = compose_config(["preset=deepseek_v2", "attn=gqa", "norm=layernorm"])
    assert (config.attn.name, config.attn.heads_per_kv) == ("gqa", 2)
    assert (config.norm.name, config.norm.eps) == ("layernorm", 1e-5)
    assert config.model.heads_ratio == 3.2


def test_a_preset_that_is_not_one_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match=r"^preset 'gema2' is not one of .*; did you mean 'gemma2'\?$"):
        compose_config(["preset=gema2"])
    with pytest.raises(ConfigError, match=r"^preset takes one choice and not a list"):
        compose_config(["preset=[gemma2,gpt2]"])


def test_a_preset_of_the_users_own(tmp_path):
    (tmp_path / "preset").mkdir()
    (tmp_path / "preset/mine.yaml").write_text(
        "# @package _global_\n"
        "defaults:\n  - override /norm: layernorm\n  - _self_\n"
        "preset:\n  name: mine\n  values:\n    norm.layernorm.eps: 1.0e-3\n"
    )
    config = compose_config(["preset=mine"], config_dir=str(tmp_path))
    assert (config.preset, config.norm.name, config.norm.eps) == ("mine", "layernorm", 1e-3)
    with pytest.raises(ConfigError, match="preset 'mine' has none"):
        compose_config(["preset=mine", "preset_size=published"], config_dir=str(tmp_path))
