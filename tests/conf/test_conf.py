"""The YAML tree against the code: names, keys, decoding, and that every field is described."""

import ast
import dataclasses
import inspect
import re
import textwrap

import pytest
from each import for_each
from omegaconf import OmegaConf

from lab import choices
from lab.compose import compose_config
from lab.config import TrainConfig
from lab.errors import ConfigError
from lab.model.sizes import ModelConfig
from lab.paths import conf_dir
from lab.runs.identity import run_id

EVERY = [(group, name) for group in choices.GROUPS for name in choices.names(group)]
COMBINED = [(group, name) for group, name in EVERY if group in choices.COMBINED]
NO_PAPER_GROUPS = {"data", "tokenizer", "track"}
NO_PAPER = {("init", "normal"), ("schedule", "constant"), ("schedule", "linear")}
NEEDED = {("data", "text"): ["data.file=book.txt"]}
"""What a choice cannot do without, and YAML cannot know."""

every_choice = for_each(EVERY)


def yaml(group, name):
    return {key: value for key, value in values(group, name).items() if key != "defaults"}


def values(group, name):
    tree = OmegaConf.create({"model": {"bias": False}})
    tree.choice = OmegaConf.load(conf_dir() / group / f"{name}.yaml")
    return OmegaConf.to_container(tree, resolve=True)["choice"]


@for_each(choices.GROUPS)
def test_each_module_has_a_yaml_and_each_yaml_a_module(group):
    assert sorted(path.stem for path in (conf_dir() / group).glob("*.yaml")) == choices.names(group)


def test_there_is_no_folder_but_groups_models_and_studies():
    folders = {path.name for path in conf_dir().iterdir() if path.is_dir()}
    assert folders - {"study", "preset", "hydra", "claims"} == {*choices.GROUPS, "model"}


@every_choice
def test_the_keys_are_the_fields_and_the_name_is_the_stem(group, name):
    values = yaml(group, name)
    fields = [field.name for field in dataclasses.fields(choices.load(group, name).Config)]
    assert sorted(values) == sorted(fields)
    assert values["name"] == name


@pytest.mark.parametrize("name", sorted(path.stem for path in (conf_dir() / "model").glob("*.yaml")))
def test_each_model_has_all_sizes_and_decodes(name):
    assert list(yaml("model", name)) == [field.name for field in dataclasses.fields(ModelConfig)]
    assert compose_config([f"model={name}"]).model == ModelConfig(**yaml("model", name))


def composed(number):
    """The run that takes choice ``number`` of every group, since composing for each choice alone takes long."""
    menu = {group: choices.names(group) for group in choices.GROUPS}
    taken = [(group, names[number % len(names)]) for group, names in menu.items()]
    words = [*map("=".join, taken), *(word for choice in taken for word in NEEDED.get(choice, []))]
    return compose_config(words), taken


@pytest.mark.slow
@pytest.mark.parametrize("number", range(max(len(choices.names(group)) for group in choices.GROUPS)))
def test_every_choice_decodes_to_what_its_yaml_says(number):
    run, taken = composed(number)
    for group, name in taken:
        part = getattr(run, group)
        if group in choices.COMBINED:
            assert list(part) == [name]
            part = part[name]
        expected = yaml(group, name)
        if (group, name) in NEEDED:
            expected |= {"file": ["book.txt"]}
        assert dataclasses.asdict(part) == expected, f"{group}={name}"


@for_each(COMBINED)
def test_choices_that_combine_name_their_package(group, name):
    first = (conf_dir() / group / f"{name}.yaml").read_text().splitlines()[0]
    assert first == f"# @package {group}.{name}"


def test_other_choices_do_not():
    for group, name in set(EVERY) - set(COMBINED):
        assert "@package" not in (conf_dir() / group / f"{name}.yaml").read_text()


def undescribed(kind):
    """Fields of a dataclass, its bases included, without a string below them."""
    missing, fields = [], {field.name for field in dataclasses.fields(kind)}
    for base in inspect.getmro(kind):
        if not base.__module__.startswith("lab."):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
            if isinstance(node, ast.AnnAssign) and node.target.id in fields:
                said = isinstance(after, ast.Expr) and isinstance(getattr(after.value, "value", None), str)
                if not said or not after.value.value.strip():
                    missing.append(f"{base.__module__}.{base.__name__}.{node.target.id}")
    return missing


@every_choice
def test_every_field_is_described(group, name):
    assert undescribed(choices.load(group, name).Config) == []


@pytest.mark.parametrize("kind", [ModelConfig, TrainConfig])
def test_every_field_of_the_sections_is_described(kind):
    assert undescribed(kind) == []


@every_choice
def test_every_module_says_what_it_is_and_where_it_comes_from(group, name):
    module = choices.load(group, name)
    first = inspect.getdoc(module).splitlines()[0]
    assert first.strip()
    assert first.endswith(".")
    if group not in NO_PAPER_GROUPS and (group, name) not in NO_PAPER and name != "none":
        assert re.search(r"arXiv:\d{4}\.\d{4,5}\b|\breport\b", module.__doc__), module.__doc__


@pytest.mark.slow
def test_the_order_of_combined_choices_does_not_matter():
    one, other = (compose_config([f"stability=[{names}]"]) for names in ("z_loss,qk_norm", "qk_norm,z_loss"))
    assert one == other
    assert list(one.stability) == ["qk_norm", "z_loss"]
    ids = {run_id(c.as_dict(), data_hash="d", tokenizer_hash="t") for c in (one, other, compose_config([]))}
    assert len(ids) == 2


def test_none_excludes_the_others():
    with pytest.raises(ConfigError, match="none"):
        compose_config(["stability=[none,z_loss]"])


def test_a_user_choice_decodes_to_the_default_when_spelled_out():
    spelled = ["norm=rmsnorm", "attn=mha", "stability=[none]", "regularization=[none]", "optim.lr=0.003"]
    assert compose_config(spelled) == compose_config([])
