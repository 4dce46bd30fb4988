"""Every pair of choices: two training steps, or the refusal that docs/compatibility.md lists."""

import itertools
import re
from pathlib import Path

import pytest
import torch
from allpairspy import AllPairs

from contracts.menu import MODEL_GROUPS, SIZES, architecture, config, tokens
from lab import choices
from lab.errors import ConfigError
from lab.model.loss import token_loss

DOCS = Path(__file__).parents[2] / "docs" / "compatibility.md"
MENU = {group: choices.names(group) for group in MODEL_GROUPS}
ROWS = [dict(zip(MENU, row, strict=True)) for row in AllPairs(list(MENU.values()))]


def refused():
    """Pairs of the documented table, with their reason."""
    found = {}
    for words, reason in re.findall(r"^\| `([^`]+=[^`]+ [^`]+)` \| (.+) \|$", DOCS.read_text(), re.MULTILINE):
        found[frozenset(tuple(word.split("=")) for word in words.split())] = reason
    return found


REFUSED = refused()


def reasons(chosen):
    return [reason for pair, reason in REFUSED.items() if pair <= chosen.items()]


def two_steps(arch):
    """Losses of two updates and of the model that they leave."""
    net, ids = arch.build(study_seed=0, seed=1), tokens()
    optimizer = config("optim", "adamw").build(
        [{"params": list(net.parameters()), "lr_scale": 1.0, "hidden": False}]
    )
    losses = []
    for step in range(3):
        torch.manual_seed(step)
        x_BTD, extra = net(ids)
        loss = token_loss(net, x_BTD, ids.roll(-1, dims=1), denominator=ids.numel()).objective + sum(extra.values())
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return torch.tensor(losses)


def test_the_set_covers_every_pair():
    pairs = {(a, x, b, y) for a, b in itertools.combinations(MENU, 2) for x in MENU[a] for y in MENU[b]}
    assert pairs == {(a, row[a], b, row[b]) for row in ROWS for a, b in itertools.combinations(MENU, 2)}


def test_the_documented_refusals_are_pairs_of_choices():
    assert REFUSED
    for pair in REFUSED:
        for group, name in pair:
            assert name in MENU[group]


@pytest.mark.slow
@pytest.mark.parametrize("chosen", ROWS, ids=lambda row: "-".join(row.values()))
def test_two_steps_or_a_documented_refusal(chosen):
    expected = reasons(chosen)
    if expected:
        with pytest.raises(ConfigError) as error:
            architecture(**chosen).outline()
        assert any(reason in str(error.value) for reason in expected)
        assert "\n" not in str(error.value)
        return
    losses = two_steps(architecture(**chosen))
    assert losses.isfinite().all()


@pytest.mark.parametrize("group", MODEL_GROUPS)
def test_a_single_choice_is_never_refused(group):
    for name in MENU[group]:
        assert architecture(**{group: name}).outline().n_layers == SIZES.n_layers, name
