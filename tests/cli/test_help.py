"""What `lab` says of itself, and how soon."""

import re
import statistics
import subprocess
import sys
import time

import pytest

from lab import __version__, choices
from lab.commands import listing
from lab.paths import conf_dir


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"], ["help"]])
def test_help_lists_commands_and_every_choice(argv, run):
    status, out, err = run(*argv)
    assert (status, err) == (0, "")
    known = {"train", "table", "explain", "kv", "generate", "eval", "probe", "measure", "profile", "doctor"}
    known |= {"store", "claims"}
    assert known <= set(listing())
    for command, text in listing().items():
        assert f"  {command} " in out
        assert text.endswith(".")
        assert text in out
    unbroken = re.sub(r",\n +", ", ", out)
    for group in choices.GROUPS:
        assert f"  {group:<15} {', '.join(choices.names(group))}\n" in unbroken
    assert max(map(len, out.splitlines())) <= 100


def test_help_imports_neither_torch_nor_hydra():
    code = "import sys, lab.cli\ntry: lab.cli.main(['--help'])\nfinally: print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert "lab" in loaded
    assert not loaded & {"torch", "hydra", "omegaconf", "numpy", "rich", "datasets", "yaml", "wandb"}


@pytest.mark.slow
def test_help_comes_at_once():
    def seconds():
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "lab", "--help"], capture_output=True, check=True)
        return time.perf_counter() - start

    assert (
        statistics.median(seconds() for _ in range(7)) < 0.5
    )  # 0.08 when nothing else runs; torch alone takes 1.5


def test_version(run):
    for argv in (["--version"], ["train", "--version"]):
        assert run(*argv) == (0, f"{__version__}\n", "")


def test_train_help_is_our_own_and_lists_groups_and_values(run):
    status, out, err = run("train", "--help", "attention=gqa")
    assert (status, err) == (0, "")
    assert "usage: lab train" in out
    assert "-m norm=layernorm,rmsnorm" in out
    assert "Powered by Hydra" not in out
    groups = {path.parent.name for path in conf_dir().glob("*/*.yaml")}
    unbroken = re.sub(r",\n +", ", ", out)
    for group in groups:
        menu = ", ".join(sorted(path.stem for path in (conf_dir() / group).glob("*.yaml")))
        assert f"\n{group}: {menu}\n" in unbroken
    assert "  heads_per_kv: 2\n" in out
    assert '"$(lab -sc install=bash)"' in out
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.slow
@pytest.mark.parametrize("command", sorted(set(listing()) - {"train"}))
def test_each_command_has_help(command, run):
    status, out, err = run(command, "--help")
    assert (status, err) == (0, "")
    assert out.startswith(f"usage: lab {command}")


@pytest.mark.slow
def test_configuration_can_be_shown_wherever_the_option_stands(run, here):
    shown = [
        run("train", "--cfg", "job", "norm=none", "attention=gqa", "attention.n_kv_heads=1"),
        run("train", "norm=none", "--cfg", "job", "attn=gqa", "attn.n_kv_heads=1"),
    ]
    assert shown[0] == shown[1]
    status, out, err = shown[0]
    assert (status, err) == (0, "")
    assert "norm:\n  name: none\n" in out
    assert "  n_kv_heads: 1\n" in out
    assert "hydra" not in out
