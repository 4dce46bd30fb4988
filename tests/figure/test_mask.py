"""Masks drawn, against rules written pair by pair."""

import pytest

from lab import choices
from lab.errors import ConfigError
from lab.figure import mask
from tests.figure.designs import config, drawn


@pytest.mark.slow  # composing takes most of it
@pytest.mark.parametrize("name", choices.names("attn"))
def test_every_attention_is_drawn_and_never_looks_ahead(name: str) -> None:
    axes = [a for a in drawn(mask, f"attn={name}", length=24).axes if a.get_visible()]
    for panel in axes:
        seen = panel.images[0].get_array()
        assert not any(seen[t, s] for t in range(24) for s in range(t + 1, 24))
        assert all(seen[t].any() for t in range(24))
    assert len({panel.get_title() for panel in axes}) == len(axes)


def test_a_window_is_what_its_rule_says() -> None:
    found = list(mask.patterns(config("attn=sliding_window", "attn.window=5").attn, config().model.dims(256), 24))
    rules = {5, 24}
    for _, seen in found:
        spans = {int(seen[23].sum())}
        assert spans <= rules
        width = spans.pop()
        assert all(bool(seen[t, s]) == (s <= t < s + width) for t in range(24) for s in range(24))


def test_numbers_are_shortened() -> None:
    assert mask.numbers([0, 1, 2, 3]) == "0–3"
    assert mask.numbers([0, 2, 4, 6]) == "0, 2, …, 6"
    assert mask.numbers([3]) == "3"
    assert mask.numbers([0, 1, 2, 4]) == "0, 1, 2, 4"


def test_a_length_out_of_range_is_refused() -> None:
    with pytest.raises(ConfigError, match="--length 1 must be from 2"):
        drawn(mask, length=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nsa", "dsa", "dsa_mla", "mla", "strided"])
def test_a_choice_among_the_keys_is_called_an_upper_bound(name: str) -> None:
    titles = [axes.get_title() for axes in drawn(mask, f"attn={name}", length=24).axes if axes.get_visible()]
    assert {"upper bound" in title for title in titles} == {name in ("nsa", "dsa", "dsa_mla")}
