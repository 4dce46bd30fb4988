"""Diagrams of blocks, against what each block's docstring says it computes."""

import pytest

from lab import choices
from lab.figure import block
from tests.figure.designs import config, drawn

ORDERS = {
    "pre": "in norm attn add norm ffn add out",
    "post": "in attn add norm ffn add norm out",
    "reordered": "in attn norm add ffn norm add out",
    "peri": "in norm attn norm add norm ffn norm add out",
    "sandwich": "in norm attn norm add norm ffn norm add out",
    "rezero": "in attn scale add ffn scale add out",
    "parallel": "in norm attn add ffn add out",
    "no_residual": "in norm attn norm ffn out",
}


def order(steps: list[block.Step]) -> str:
    return " ".join(step.kind for step in steps)


@pytest.mark.parametrize("name", sorted(ORDERS))
def test_order_is_the_definitions(name: str) -> None:
    for _, steps in block.different(config(f"block={name}")):
        assert order(steps) == ORDERS[name]


@pytest.mark.slow  # composing takes most of it
@pytest.mark.parametrize("name", choices.names("block"))
def test_every_block_has_both_branches_and_no_two_boxes_in_a_place(name: str) -> None:
    for _, steps in block.different(config(f"block={name}")):
        kinds = [step.kind for step in steps]
        assert kinds.count("attn") == kinds.count("ffn") == 1
        assert len({(step.row, step.column) for step in steps}) == len(steps)
        assert steps[0].column == steps[-1].column == 0


def test_mix_ln_has_two_diagrams() -> None:
    assert len(drawn(block, "block=mix_ln").axes) == 2
