"""docs/parts.md and README.md print what the tables beside them hold."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["README.md", "docs/parts.md"])
def test_its_table_is_the_one_of_the_runs(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    table = json.loads((ROOT / "docs/parts/table_a.json").read_text(encoding="utf-8"))
    finals = {row["variant"]: row["final_loss"] for row in table["rows"]}
    for row in table["effects"]["rows"]:
        name = row["variant"].replace("_", r"\_")
        (line,) = (line for line in text.splitlines() if line.startswith(f"| {name} |"))
        assert f"{finals[row['variant']]:.4f}" in line
        assert f"{row['test']['mean']:+.4f}" in line
        assert row["verdict"] in line


def test_every_picture_is_there():
    text = (ROOT / "docs/parts.md").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("!["):
            assert (ROOT / "docs" / line.partition("](")[2].rstrip(")")).is_file()
