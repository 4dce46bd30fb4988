"""Grids as plain text, in panels."""

import pytest

from lab.report.grid import NONE, Column, Grid
from lab.report.panels import panels, text


def grid(*groups, cell="12345", name="row"):
    """A column of seven characters, its gap among them, for each group."""
    columns = [Column(header="name", left=True), *(Column(header=f"h{n}", group=g) for n, g in enumerate(groups))]
    return Grid(title="t", columns=columns, rows=[[name, *[cell] * len(groups)]])


@pytest.mark.parametrize(
    ("width", "found"),
    [
        (None, [[1, 2, 3, 4, 5]]),
        (4 + 35, [[1, 2, 3, 4, 5]]),
        (4 + 34, [[1, 2, 3], [4, 5]]),
        (4 + 21, [[1, 2, 3], [4, 5]]),
    ],
)
def test_groups_stay_together(width, found, monkeypatch):
    monkeypatch.setattr("lab.report.panels.ROOM", 0)
    assert panels(grid("", "a", "a", "b", "b"), width) == found


def test_a_group_that_fits_no_panel_is_broken(monkeypatch):
    monkeypatch.setattr("lab.report.panels.ROOM", 0)
    assert panels(grid("a", "a", "a"), 4 + 14) == [[1, 2], [3]]


def test_long_names_leave_room_all_the_same():
    found = panels(grid(*"abcdef", name="x" * 200), 80)
    assert found == [[1, 2, 3, 4, 5], [6]]


def test_every_panel_names_its_rows():
    assert text(grid("", "", "", name="row" * 3), width=9 + 40) == text(grid("", "", "", name="row" * 3))
    lines = text(grid(*[""] * 9), width=40).splitlines()
    assert [line for line in lines if line.startswith("row")] == [
        "row   12345  12345  12345  12345  12345",
        "row   12345  12345  12345  12345",
    ]
    assert max(map(len, lines)) <= 40


def test_numbers_stand_below_each_other():
    cells = ["1.5 ± 0.25", "10.5 ± 1", NONE, "n/a (400 steps)", "-3.5 [-4, 1] (2/3)"]
    made = Grid(
        title="t", columns=[Column(header="a", left=True), Column(header="b")], rows=[["", c] for c in cells]
    )
    assert text(made).splitlines()[4:] == [
        "    1.5 ± 0.25",
        "   10.5 ± 1",
        "                    –",
        "    n/a (400 steps)",
        "   -3.5 [-4, 1] (2/3)",
    ]


def test_notes_break_between_their_pieces_first():
    made = Grid(
        title="t", columns=[Column(header="a")], rows=[["b"]], notes=["one two · three · four five six seven"]
    )
    assert text(made, width=16).split("\n\n")[-1].splitlines() == ["one two · three", "four five six", "seven"]
    assert text(made).endswith("\n\none two · three · four five six seven")


def test_blocks_have_titles():
    made = Grid(title="t", columns=[Column(header="a")], rows=[["b"]], below=[grid("")])
    assert text(made).split("\n\n")[::2] == ["t", "t"]
