"""Overrides that are read back as they were meant, and keys that go where they belong."""

import itertools
import random

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from lab import choices
from lab.compose import parse_override
from lab.errors import ConfigError
from lab.study.words import applicable, comparable, names, quoted, settings, without_redundant, word, yaml_keys

PLAIN = [
    None,
    True,
    False,
    0,
    -3,
    10**20,
    1e-5,
    0.1,
    1e22,
    float("inf"),
    [],
    ["qk_norm", "z_loss"],
    [1, [2.5, None]],
]
TEXTS = [
    *(
        "rmsnorm",
        "a/b.txt",
        "null",
        "True",
        "NaN",
        "inf",
        "1",
        "1e-3",
        "0x1",
        "on",
        "",
        " ",
        " a ",
        "a b",
        "é",
        "~",
    ),
    *(
        "a,b",
        "[a,b]",
        "{a:1}",
        "a=b",
        "a:b",
        "1,2",
        "range(3)",
        "glob(*)",
        "choice(a)",
        "sqrt(2)",
        "#",
        "!",
        "a\nb",
    ),
    *("'", '"', "it's", "\\", "a\\", "\\'", "a\\'b", "\\\\'", "''", "$", "${model.dim}", "-", ".5", "_", "*", "\t"),
]


@pytest.mark.parametrize("value", [*PLAIN, *TEXTS, TEXTS], ids=repr)
def test_a_value_is_read_back_as_it_was(value):
    override = parse_override(word("some.key", value))
    assert override.key_or_group == "some.key"
    assert not override.is_sweep_override()
    assert override.value() == value
    assert type(override.value()) is type(value)


def test_any_text_is_read_back_as_it_was():
    draw, parser = random.Random(0), OverridesParser.create()
    for _ in range(500):
        text = "".join(draw.choices("ab1.'\"\\ ,=[]{}()$:~+-#\n", k=draw.randrange(1, 12))).replace("${", "$")
        assert parser.parse_override(word("key", [text])).value() == [text]


def test_a_value_that_follows_another_stays_one():
    tree = OmegaConf.create({"model": {"dim": 32}, "width": parse_override(word("width", "${model.dim}")).value()})
    assert tree.width == 32


def test_overrides_in_an_override_are_read_back_as_they_were():
    inner = [word("a", "it's"), word("stability", ["qk_norm", "z_loss"]), word("b", ["x\\'y"])]
    assert parse_override(f"match.to=[{','.join(map(quoted, inner))}]").value() == inner


def test_a_section_is_no_value():
    with pytest.raises(ConfigError, match=r"is a section: write each of its keys as KEY.KEY: VALUE"):
        word("train", {"steps": 30})


def test_the_choices_that_a_value_names():
    assert names("mha") == names("[mha]") == names("'mha'") == ["mha"]
    assert names("[qk_norm, z_loss]") == ["qk_norm", "z_loss"]
    assert names("[]") == []
    one, other = (
        {"stability": f"[{a},{b}]", "seed": "1"} for a, b in (("z_loss", "qk_norm"), ("qk_norm", "z_loss"))
    )
    assert comparable(one) == comparable(other) != comparable(one | {"stability": "z_loss"})


def test_keys_of_choices_are_those_of_their_files(tmp_path):
    keys = yaml_keys()
    assert "n_kv_heads" in keys("attn", "gqa")
    assert "n_kv_heads" not in keys("attn", "mha")
    assert keys("attn", "mine") is None
    (tmp_path / "attn").mkdir()
    (tmp_path / "attn/mine.yaml").write_text("name: my.mine\nn_kv_heads: 3\n")
    assert yaml_keys([tmp_path])("attn", "mine") == {"name", "n_kv_heads"}


def sweep(*axes):
    """The rows of `-m`, the last axis fastest."""
    return [
        list(row) for row in itertools.product(*([f"{key}={value}" for value in values] for key, values in axes))
    ]


ATTN, HEADS, SEEDS = ("attn", ["mha", "gqa"]), ("attn.n_kv_heads", [1, 2]), ("seed", [1, 2])


def test_a_choice_without_a_swept_key_makes_no_redundant_run():
    assert without_redundant(sweep(ATTN, HEADS), yaml_keys()) == [
        ["attn=mha"],
        ["attn=gqa", "attn.n_kv_heads=1"],
        ["attn=gqa", "attn.n_kv_heads=2"],
    ]
    assert len(without_redundant(sweep(ATTN, HEADS, SEEDS), yaml_keys())) == 6
    assert len(without_redundant(sweep(HEADS, SEEDS, ATTN), yaml_keys())) == 6


def test_a_key_that_no_choice_has_is_left_to_be_refused():
    for rows in (sweep(ATTN, ("attn.n_kv_haeds", [1, 2])), sweep(("attn", ["mha"]), HEADS), sweep(HEADS)):
        assert without_redundant(rows, yaml_keys()) == rows


def test_a_key_goes_to_the_combined_choice_that_it_is_of():
    rows = sweep(
        ("stability", ["none", "[qk_norm]", "[z_loss,qk_norm]"]), ("stability.z_loss.weight", ["1e-4", "1e-3"])
    )
    assert without_redundant(rows, yaml_keys()) == [
        ["stability=none"],
        ["stability=[qk_norm]"],
        ["stability=[z_loss,qk_norm]", "stability.z_loss.weight=1e-4"],
        ["stability=[z_loss,qk_norm]", "stability.z_loss.weight=1e-3"],
    ]


def test_choices_of_the_users_own_and_other_words_are_left_as_they_are():
    rows = [["attn=mine", "attn.n_kv_heads=1"], ["attn=gqa", "attn.n_kv_heads=1"], ["~track", "+x=1"], ["seed=1"]]
    assert without_redundant(rows, yaml_keys()) == rows
    assert without_redundant([["seed=1"], ["seed=2"], ["seed=1"]], yaml_keys()) == [["seed=1"], ["seed=2"]]


def test_fixed_keys_stay():
    rows = [settings(row) for row in (["attn=mha", "attn.n_kv_heads=1"], ["attn=gqa", "attn.n_kv_heads=1"])]
    assert applicable(rows, yaml_keys()) == [{"attn": "mha"}, rows[1]]
    assert applicable(rows, yaml_keys(), [["attn.n_kv_heads"], []]) == rows


def test_each_shipped_choice_has_a_file_whose_keys_are_known():
    keys = yaml_keys()
    for group in choices.GROUPS:
        assert all("name" in keys(group, name) for name in choices.names(group))
