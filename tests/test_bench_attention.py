"""The script that measures attention, on one short length."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


def test_the_script_measures_and_prints_a_table(tmp_path):
    figures = tmp_path / "figures.json"
    command = [sys.executable, str(ROOT / "scripts/bench/attention.py"), "--least", "64", "--most", "128"]
    command += ["--kinds", "mha", "strided", "--head-dim", "8", "--json", str(figures)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    rows = json.loads(figures.read_text())
    assert [(row["kind"], row["length"]) for row in rows] == [(k, n) for k in ("mha", "strided") for n in (64, 128)]
    assert all(row["seconds"] > 0 for row in rows)
    assert "| attn | T = 64 | T = 128 |" in printed


def test_the_page_has_a_place_for_the_table():
    text = (ROOT / "docs/attention.md").read_text(encoding="utf-8")
    assert text.index("<!-- table -->\n") < text.index("\n<!-- end -->")
    assert (ROOT / "docs/attention_cost.svg").is_file()
