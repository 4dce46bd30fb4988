"""The limits the project sets itself, on its own files."""

import ast
import re
import subprocess
from pathlib import Path

from each import for_each

ROOT = Path(__file__).parents[1]
SOURCES = sorted([*ROOT.glob("lab/**/*.py"), *ROOT.glob("hydra_plugins/**/*.py"), *ROOT.glob("scripts/**/*.py")])


@for_each(SOURCES)
def test_files_and_functions_are_short(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 300
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < 50, f"{node.name} is too long"


def test_the_loop_is_under_250_lines_and_has_no_callbacks():
    text = (ROOT / "lab/training/loop.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 250
    assert "callback" not in text.lower()


def test_no_file_is_named_for_being_useful():
    assert not {path.stem for path in SOURCES} & {"utils", "common", "helpers", "misc", "util", "helper"}


def test_hydra_is_imported_in_three_places_only():
    importing = {
        path.relative_to(ROOT).as_posix()
        for path in SOURCES
        if re.search(r"^\s*(import|from) hydra\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    adapters = {path for path in importing if path.startswith("hydra_plugins/lab/")}
    assert importing - adapters <= {"lab/compose.py", "lab/commands/train.py"}


def test_no_component_is_chosen_by_comparing_its_name():
    for path in ROOT.glob("lab/model/**/*.py"):
        assert not re.search(r"\bif .*\bname\s*==", path.read_text(encoding="utf-8")), path


def test_contributing_fits_on_a_page():
    assert len((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()) <= 80


def test_make_help_lists_every_target():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^\.PHONY: (\S+)", makefile, re.MULTILINE)
    listed = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert targets == [line.split()[0] for line in listed.splitlines()]
    assert {"install", "quickstart", "test", "check", "ci", "ci-system"} <= set(targets)
