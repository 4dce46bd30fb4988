"""Every command that README.md and CONTRIBUTING.md show is run, made short where it would train for long."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHORT = ["train.steps=2", "model=tiny", "threads=1"]


def shown_commands() -> list[str]:
    """Lines of the bash blocks, and inline code that is a whole command."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = [line for block in re.findall(r"```bash\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    inline = re.findall(r"`((?:lab|make) [^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    commands = [re.sub(r"\s+#.*", "", line).strip() for line in [*lines, *inline]]
    return sorted({command for command in commands if command and not command.startswith("source ")})


def test_the_readme_shows_commands():
    commands = shown_commands()
    for wanted in ("make quickstart", "make test", "lab train norm=rmsnorm attn=gqa", "lab table"):
        assert wanted in commands


@pytest.mark.parametrize("command", [c for c in shown_commands() if c.startswith("make ")])
def test_make_targets_exist(command):
    subprocess.run([*shlex.split(command), "-n"], cwd=ROOT, check=True, capture_output=True)


def _named(word: str, folder: Path) -> str:
    """A word in which RUN stands for the run that was trained first, STUDY for a study."""
    if word == "STUDY":
        return next(folder.glob("outputs/studies/norms-*")).name
    if word.rpartition("=")[2] != "RUN":
        return word
    first = min(folder.glob("outputs/runs/*/result.json"), key=lambda path: path.stat().st_mtime)
    return word.replace("RUN", first.parent.name)


@pytest.mark.slow
def test_lab_commands_run(tmp_path):
    """In one test and in order: `lab table` shows what the trainings before it left."""
    environment = {**os.environ, "LAB_OUTPUTS": str(tmp_path / "outputs")}
    commands = [c for c in shown_commands() if c.startswith("lab ")]
    for command in sorted(commands, key=lambda c: not c.startswith("lab train ")):
        words = [_named(word, tmp_path) for word in shlex.split(command)[1:]]
        if "-o" in words:  # not into the checkout
            words[words.index("-o") + 1] = str(tmp_path / words[words.index("-o") + 1])
        if words[0] == "store":
            words += ["--to", str(tmp_path / "kept")]
        trains = words[0] == "train" and "--help" not in words
        done = subprocess.run(
            [sys.executable, "-m", "lab", *words, *(SHORT if trains else [])],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        assert done.stdout, command
