"""The presets' files: what they override and set exists and is applied, and makes models of the published sizes."""

import dataclasses
import re

import pytest
from each import for_each

from lab import choices, preset
from lab.compose import compose_config
from lab.model.count import parameters
from lab.model.sizes import ModelConfig
from lab.paths import conf_dir
from lab.report.architectures import COLUMNS, architectures, chosen, load

GROUPS = ["norm", "block", "activation", "attn", "position", "stability", "regularization", "init"]
KEYS = {"name", "title", "year", "source", "values", "published", "corrects", "notes", "unverified"}

LECTURE = {
    "Transformer": "transformer_2017",
    "BERT": "bert_like",
    "GPT-1": "gpt1",
    "GPT-2": "gpt2",
    "GPT-3": "gpt3",
    "GPT-J": "gptj",
    "T5": "t5",
    "T5 v1.1": "t5v1_1",
    "LaMDA": "lamda",
    "PaLM": "palm",
    "Chinchilla": "chinchilla",
    "LLaMA-1": "llama1",
    "LLaMA2": "llama2",
    "Llama 3": "llama3",
    "LLaMA4": "llama4",
    "Mistral": "mistral",
    "Qwen2": "qwen2",
    "Qwen2.5": "qwen2_5",
    "Qwen3": "qwen3",
    "Yi": "yi",
    "InternLM": "internlm2",
    "InternLM 3": "internlm3",
    "Phi-3": "phi3",
    "Phi-4": "phi4",
    "Gemma": "gemma1",
    "Gemma 2": "gemma2",
    "Gemma 3": "gemma3",
    "OLMo": "olmo",
    "OLMo 2": "olmo2",
    "SmolLM": "smollm2",
    "SmolLM3": "smollm3",
    "Falcon": "falcon_7b",
    "Falcon 2 11B": "falcon2_11b",
    "Nemotron 340B": "nemotron4",
    "Grok": "grok1",
    "Baichuan 2": "baichuan2",
    "Command R": "command_r",
    "Command A": "command_a",
    "DeepSeek-V2": "deepseek_v2",
    "DeepSeek-V3": "deepseek_v3",
    "DeepSeek-V3.2-Exp": "deepseek_v3_2",
    "NSA": "nsa",
    "DCLM": "dclm",
    "Chameleon": "chameleon_7b",
    "Idefics": "idefics",
    "BLOOM": "bloom",
    "MPT": "mpt",
}
COMING: dict[str, str] = {}
"""The models that the lecture speaks of, and what the table of its families lists."""

MILLIONS = {
    "gpt1": 116.5,
    "gpt2": 124.4,
    "gpt3": 125.2,
    "gptj": 6051,
    "bloom": 559,
    "llama1": 6738,
    "llama2": 6738,
    "llama3": 8030,
    "llama3_1": 8030,
    "mistral": 7242,
    "qwen2": 494,
    "qwen2_5": 494,
    "qwen3": 596,
    "yi": 6061,
    "internlm2": 1889,
    "phi3": 3821,
    "phi4": 14660,
    "phi4_mini": 3836,
    "gemma1": 2506,
    "gemma2": 2614,
    "gemma3": 1000,
    "olmo": 1177,
    "olmo2": 1485,
    "smollm2": 134.5,
    "smollm3": 3075,
    "falcon_7b": 6920,
    "nemotron4": 15650,
    "command_r": 34980,
    "command_r7b": 8028,
    "mpt": 6650,
    "chameleon_7b": 7040,
}
"""Parameters of the published models, in millions, a tied table counted once."""

OTHER_SIZES = {"deepseek_v2", "t5v1_1"}
"""Presets with the ratios of a larger model than their sizes are of."""

QUICK = {"gemma2", "bloom"}
SLOW = pytest.mark.slow

every_preset = for_each(preset.names())


def tree(name):
    return load(f"preset/{name}")


def section(path, taken):
    """The keys of the choice that a path of a preset's names, which is one of its own."""
    group, *inner, _ = path.split(".")
    if group == "model":
        assert inner == []
        return [field.name for field in dataclasses.fields(ModelConfig)]
    assert len(inner) == 1
    assert inner[0] in taken[group], f"{path} is not applied: {group} is {taken[group]}"
    return [key for key in load(f"{group}/{inner[0]}") if key != "name"]


@every_preset
def test_a_preset_overrides_every_group_of_the_architecture_with_choices_that_exist(name):
    lines = (conf_dir() / "preset" / f"{name}.yaml").read_text().splitlines()
    assert lines[0] == "# @package _global_"
    assert re.fullmatch(r"# .{15,}[^.]\.", lines[1])
    assert tree(name)["defaults"][-1] == "_self_"
    taken = chosen(tree(name))
    assert list(taken) == GROUPS
    assert {f"override /{group}" for group in GROUPS} == {k for d in tree(name)["defaults"][:-1] for k in d}
    for group, names in taken.items():
        assert set(names) <= set(choices.names(group))
        assert names == ["none"] or "none" not in names or group in ("norm", "position")


@every_preset
def test_a_preset_says_what_it_is(name):
    said = tree(name)["preset"]
    assert tree(name).keys() == {"defaults", "preset"}
    assert said["name"] == name
    assert {"title", "year", "source", "values", "published", "unverified"} <= said.keys() <= KEYS
    assert 2017 <= said["year"] <= 2025
    assert re.fullmatch(r"arXiv:\d{4}\.\d{5}|released code", said["source"])
    assert set(said.get("corrects", {})) <= COLUMNS.keys()
    assert set(said["unverified"]) <= {*COLUMNS, "published"}
    assert all(isinstance(note, str) for note in [*said.get("notes", []), *said.get("corrects", {}).values()])


@every_preset
def test_every_value_belongs_to_a_choice_of_the_preset(name):
    said, taken = tree(name)["preset"], chosen(tree(name))
    for path in [*said["values"], *said["published"]]:
        assert path.rpartition(".")[2] in section(path, taken), path


@every_preset
def test_values_are_ratios_and_sizes_stay_free(name):
    sizes = {"dim", "n_layers", "n_heads", "head_dim", "max_seq_len", "vocab_size", "d_ff", "window", "n_kv_heads"}
    sizes |= {"kv_rank", "q_rank", "rope_dim", "v_dim", "floor_scale", "original_max_seq_len"}
    said = tree(name)["preset"]
    assert not {path.rpartition(".")[2] for path in said["values"]} & sizes
    assert {f"model.{key}" for key in ModelConfig.__annotations__ if key in sizes} <= said["published"].keys()
    assert {"model.bias", "model.tie_embeddings", "model.heads_ratio"} <= said["values"].keys()


def read(config, path):
    found = config
    for part in path.split("."):
        found = found[part] if isinstance(found, dict) else getattr(found, part)
    return found


def target(path):
    group, *_, key = path.split(".")
    return path if group in choices.COMBINED or group == "model" else f"{group}.{key}"


@every_preset
def test_the_ratios_are_those_of_the_published_model(name):
    said = tree(name)["preset"]
    values = {path.rpartition(".")[2]: value for path, value in said["values"].items()}
    sizes = {path.rpartition(".")[2]: value for path, value in said["published"].items()}
    if name in OTHER_SIZES:
        return
    dim, heads = sizes["dim"], sizes["n_heads"]
    assert heads * sizes["head_dim"] / dim == pytest.approx(values["heads_ratio"], rel=1e-6)
    assert sizes["d_ff"] / dim >= values["ratio"] * (1 - 1e-6)
    assert sizes["d_ff"] / dim == pytest.approx(
        values["ratio"], rel=0.04
    )  # some are rounded up to a multiple of 256
    assert sizes.get("n_kv_heads", heads) * values.get("heads_per_kv", 1) == heads


@pytest.mark.slow
@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=SLOW) for name in MILLIONS])
def test_published_sizes_make_the_published_number_of_parameters(name):
    config = compose_config([f"preset={name}", "preset_size=published", "attn_path=plain"])
    outline = config.architecture(256).outline()
    assert parameters(outline).total / 1e6 == pytest.approx(MILLIONS[name], rel=0.02)


def test_every_model_of_the_lecture_is_there_or_marked_as_coming():
    assert set(LECTURE.values()) <= set(preset.names())
    coming = {row.name: row.coming for row in architectures() if row.coming}
    assert set(coming) == set(COMING.values())
    for name, reason in coming.items():
        assert name not in preset.names()
        group, _, choice = reason.removeprefix("needs ").partition("=")
        assert choice not in choices.names(group), f"{reason} is there: {name} can be a preset"


@pytest.mark.slow
@pytest.mark.parametrize("name", preset.names())
def test_what_a_preset_says_is_what_the_run_has(name):
    said = tree(name)["preset"]
    config = compose_config([f"preset={name}", "preset_size=published"])
    paths = said["values"] | said["published"]
    assert {path: read(config, target(path)) for path in paths} == paths
    for group, names in chosen(tree(name)).items():
        part = getattr(config, group)
        assert (sorted(part) if group in choices.COMBINED else [part.name]) == sorted(names)


@pytest.mark.slow
@pytest.mark.parametrize("name", preset.names())
def test_a_preset_trains_at_a_tiny_size(name, train):
    trained = train(
        f"preset={name}",
        *("model.dim=32", "model.n_layers=4", "model.n_heads=2", "model.max_seq_len=32", "train.steps=2"),
    )
    assert trained.result["status"] == "done"
