"""Completion in bash: what each line could become, and the script in a real shell."""

import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab import choices
from lab.commands import listing
from lab.completion import candidates


def group(name, start="", *, spelling=None, before=""):
    return [f"{spelling or name}={before}{choice}" for choice in choices.names(name) if choice.startswith(start)]


LINES = [
    ("lab ", sorted(listing())),
    ("lab tr", ["train"]),
    ("lab --v", ["--version"]),
    ("lab nope ", []),
    ("lab train at", ["attn.", "attn=", "attn_path="]),
    ("lab train norm=", group("norm")),
    ("lab train norm=r", group("norm", "r")),
    ("lab train seed=2 norm=r", group("norm", "r")),
    ("lab train -m seed=1,2 norm=r", group("norm", "r")),
    ("lab train -m norm=none,r", group("norm", "r", before="none,")),
    ("lab train stability=[qk_norm,z", ["stability=[qk_norm,z_loss"]),
    ("lab train attention=", group("attn", spelling="attention")),
    ("lab train attn=gqa attn.n_kv", ["attn.n_kv_heads="]),
    ("lab train attention=gqa attention.n_kv", ["attention.n_kv_heads="]),
    ("lab train train.st", ["train.steps="]),
    ("lab train model=t", ["model=tiny"]),
    ("lab train hydra/sw", ["hydra/sweeper="]),
    ("lab train nonsense=1 norm=r", group("norm", "r")),
    ("lab train [ norm=r", group("norm", "r")),
    ("lab train --mul", ["--multirun"]),
    ("lab train --cfg ", ["all", "hydra", "job"]),
    ("lab train --config-dir ", []),
    ("lab train ./", []),
    ("lab explain norm=r", group("norm", "r")),
    ("lab explain --format js", ["json"]),
    ("lab explain --format=js", ["--format=json"]),
    ("lab table --fo", ["--format"]),
    ("lab table --format ", ["csv", "html", "json", "latex", "markdown", "text"]),
    ("lab table D --con", ["--context"]),
    ("lab table --sto", ["--stored"]),
    ("lab table --stored par", ["parts"]),
    ("lab store --inc", ["--incomplete"]),
    ("lab claims activ", ["activation"]),
    ("lab claims --format m", ["markdown"]),
    ("lab table outp", []),
    ("lab train preset=gem", ["preset=gemma1", "preset=gemma2", "preset=gemma3"]),
    ("lab train preset_", ["preset_size="]),
    ("lab eval --pos", ["--positions"]),
    ("lab eval abc attention=gq", ["attention=gqa"]),
    ("lab profile norm=r", group("norm", "r")),
    ("lab profile --op", ["--operators"]),
    ("lab doctor --format ", ["json", "text"]),
    ("lab measure abc --only len", ["lengths"]),
    ("lab presets gem", ["gemma1", "gemma2", "gemma3"]),
    ("lab presets --format ", ["json", "markdown", "text"]),
    ("lab data l", ["list"]),
    ("lab data list --fo", ["--format"]),
]


OFTEN = {
    "lab eval abc attention=gq",
    "lab nope ",
    "lab --v",
    "lab train norm=r",
    "lab train seed=2 norm=r",
    "lab train [ norm=r",
    "lab train ./",
    "lab explain norm=r",
    "lab explain --format=js",
    "lab profile norm=r",
    "lab table D --con",
    "lab table outp",
    "lab table --fo",
    "lab data l",
    "lab train model=t",
    "lab train -m seed=1,2 norm=r",
    "lab train --mul",
    "lab train preset_",
    "lab presets gem",
}
"""Lines whose way another line goes too: left to the slow tests."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "found"),
    [
        pytest.param(line, found, id=line, marks=[pytest.mark.slow] if line in OFTEN else [])
        for line, found in LINES
    ],
)
def test_what_a_line_could_become(line, found, here, capsys):
    assert candidates(line) == found
    assert capsys.readouterr() == ("", "")


def test_groups_and_keys_come_first_and_hydras_own_are_kept_back(here):
    found = candidates("lab train ")
    assert {f"{name}=" for name in choices.GROUPS} <= set(found)
    assert {"seed=", "train.", "norm."} <= set(found)
    assert not [word for word in found if word.startswith("hydra")]


def test_choices_of_the_users_own_folder(here):
    (here / "mine/norm").mkdir(parents=True)
    (here / "mine/norm/theirs.yaml").write_text("name: their_pkg.theirs\n")
    assert candidates("lab train --config-dir mine norm=t") == ["norm=theirs"]
    assert candidates("lab explain -cd mine norm=t") == ["norm=theirs"]


@pytest.fixture
def bin_folder(tmp_path) -> Path:
    """A folder with a program named lab."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "lab").write_text(f'#!/bin/sh\nexec {sys.executable} -m lab "$@"\n')
    (folder / "lab").chmod(0o755)
    return folder


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize(
    ("line", "breaks", "replies"),
    [
        ("lab train norm=", "=:", choices.names("norm")),  # bash replaces what stands after the =
        pytest.param("lab tr", "=:", ["train"], marks=pytest.mark.slow),
        pytest.param("lab train norm=", ":", group("norm"), marks=pytest.mark.slow),
        pytest.param("lab explain train.st", "=:", ["train.steps="], marks=pytest.mark.slow),
    ],
)
def test_the_script_in_bash(line, breaks, replies, here, bin_folder):
    words = line.replace("=", " = ").split() if "=" in breaks else line.split()
    quoted = " ".join(f"'{word}'" for word in words)
    script = f"""
        eval "$(lab -sc install=bash)"
        complete -p lab
        COMP_WORDBREAKS=$' \\t\\n"{breaks}'
        COMP_LINE='{line}' COMP_POINT={len(line)} COMP_WORDS=({quoted}) COMP_CWORD={len(words) - 1}
        _lab_completion lab
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    env = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, env=env, check=True)
    registered, *found = done.stdout.splitlines()
    assert registered == "complete -o default -F _lab_completion lab"
    assert found == replies


@pytest.mark.slow
def test_a_query_is_quick_and_loads_no_torch(here):
    def seconds(line):
        env = {**os.environ, "COMP_LINE": line}
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "lab", "-sc", "query=bash"],
            capture_output=True,
            text=True,
            env=env,
            check=True,
        )
        assert done.stdout
        loaded = {row.rpartition("|")[2].strip().partition(".")[0] for row in done.stderr.splitlines()}
        assert not loaded & {"torch", "datasets"}
        assert ("hydra" in loaded) == (line != "lab tr")
        return time.perf_counter() - start

    assert statistics.median(seconds("lab tr") for _ in range(3)) < 0.5  # 0.05 when nothing else runs
    assert statistics.median(seconds("lab train at") for _ in range(3)) < 2.5  # 0.5 when nothing else runs
