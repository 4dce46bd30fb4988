"""The menu: what is a choice, and what is not."""

import pytest

from lab import choices
from lab.errors import ConfigError


def test_every_group_lists_its_files():
    assert {"layernorm", "none", "rmsnorm"} <= set(choices.names("norm"))
    for group in choices.GROUPS:
        assert choices.names(group) == sorted(choices.names(group))
        assert choices.names(group)


@pytest.mark.parametrize("group", choices.GROUPS)
def test_every_choice_has_a_config_and_says_in_one_line_what_it_is(group):
    for name in choices.names(group):
        module = choices.load(group, name)
        assert hasattr(module, "Config")
        assert module.__doc__.splitlines()[0].endswith((".", ":"))


def test_an_unknown_choice_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match=r"^norm.name 'rmsnrom' is not one of .*; did you mean 'rmsnorm'\?$"):
        choices.load("norm", "rmsnrom")


def test_a_choice_from_outside(tmp_path, monkeypatch):
    (tmp_path / "outside_pkg").mkdir()
    (tmp_path / "outside_pkg/empty.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"^norm.name 'outside_pkg.empty' .* without a class named Config$"):
        choices.load("norm", "outside_pkg.empty")
    with pytest.raises(ConfigError, match=r"^norm.name 'outside_pkg.gone' cannot be imported: No module"):
        choices.load("norm", "outside_pkg.gone")
