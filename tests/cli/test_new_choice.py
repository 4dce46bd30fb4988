"""A new choice is one Python file and one YAML, in the tree or outside of it; nothing else has to know."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lab.choices import names
from lab.paths import conf_dir

ROOT = Path(__file__).parents[2]

MODULE = '''"""Power norm, g x / mean(|x|^p)^(1/p): arXiv:0000.00000, made up."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lab.component import check_number
from lab.model.norm import NormConfig, Site


@dataclass(frozen=True, kw_only=True)
class Config(NormConfig):
    """One gain a width."""

    power: float
    """p, above 0."""

    def __post_init__(self) -> None:
        check_number("power", self.power, above=0)

    def build(self, dim: int, *, site: Site) -> nn.Module:
        return PowerNorm(dim, self.power)


class PowerNorm(nn.Module):
    def __init__(self, dim: int, power: float) -> None:
        super().__init__()
        self.gain_D = nn.Parameter(torch.ones(dim))
        self.power = power

    def forward(self, x_BTD: Tensor) -> Tensor:
        x = x_BTD.float()
        size = ((x.abs() + 1e-6) ** self.power).mean(-1, keepdim=True) ** (1 / self.power)
        return (x / size * self.gain_D).to(x_BTD.dtype)
'''

pytestmark = pytest.mark.slow

RUN = ("data=text", "data.file=text.txt", "tokenizer=byte", "model=tiny", "threads=1", "train.steps=2")


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """A copy of the tree with a norm named powernorm: two new files."""
    root = tmp_path_factory.mktemp("copy")
    leave = shutil.ignore_patterns("__pycache__")
    for name in ("lab", "hydra_plugins", "tests", "docs"):
        shutil.copytree(ROOT / name, root / name, ignore=leave)
    shutil.copytree(conf_dir(), root / "conf")
    shutil.copy(ROOT / "pyproject.toml", root)
    (root / "lab/model/norm/powernorm.py").write_text(MODULE)
    (root / "conf/norm/powernorm.yaml").write_text("# lab/model/norm/powernorm.py\nname: powernorm\npower: 3.0\n")
    return root


@pytest.fixture
def python(copy, here):
    """Run Python over the copy."""

    def call(*argv, path=copy, cwd=here, env=None):
        env = {**os.environ, "PYTHONPATH": str(path), **(env or {})}
        command = [sys.executable, *argv]
        return subprocess.run(command, capture_output=True, text=True, env=env, cwd=cwd, check=False)

    return call


def test_help_and_completion_list_it(python):
    for words in (("--help",), ("train", "--help")):
        assert "none, powernorm, rmsnorm," in " ".join(python("-m", "lab", *words).stdout.split())
    asked = python("-m", "lab", "-sc", "query=bash", env={"COMP_LINE": "lab train norm=p"})
    assert asked.stdout == "norm=powernorm\n"
    wrong = python("-m", "lab", "train", "norm=pwrnorm")
    assert "none, powernorm, rmsnorm, " in wrong.stderr
    assert "did you mean 'powernorm'?" in wrong.stderr


def test_it_is_explained_and_trained_and_checked(python, outputs):
    explained = python("-m", "lab", "explain", *RUN, "norm=powernorm", "--format", "json")
    facts = json.loads(explained.stdout)
    norm = next(part for part in facts["components"] if part["group"] == "norm")
    assert norm["description"] == MODULE.splitlines()[0].strip('"')
    assert norm["settings"] == {"power": 3.0}
    trained = python("-m", "lab", "train", *RUN, "norm=powernorm", "norm.power=2")
    assert trained.returncode == 0, trained.stderr
    (result,) = outputs.glob("runs/*/result.json")
    assert json.loads(result.read_text())["config"]["norm"] == {"name": "powernorm", "power": 2.0}
    wrong = python("-m", "lab", "train", *RUN, "norm=powernorm", "norm.power=0")
    assert wrong.stderr == "lab train: norm.power 0.0 must be > 0\n"


def test_the_contracts_find_it_and_hold(python, copy):
    found = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/contracts", "-k", "powernorm", cwd=copy)
    assert found.returncode == 0, found.stdout
    assert " passed" in found.stdout


def test_a_norm_of_someone_elses_package(python, here, tmp_path, outputs):
    package = tmp_path / "path/their_pkg"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "theirs.py").write_text(MODULE)
    (here / "mine/norm").mkdir(parents=True)
    (here / "mine/norm/theirs.yaml").write_text("name: their_pkg.theirs\npower: 4.0\n")
    options = ("--config-dir", "mine", "norm=theirs")
    explained = python("-m", "lab", "explain", *RUN, *options, path=package.parent)
    assert "Power norm" in explained.stdout, explained.stderr
    trained = python("-m", "lab", "train", *RUN, *options, path=package.parent)
    assert trained.returncode == 0, trained.stderr
    sweep = python("-m", "lab", "train", "-m", *RUN, "-cd", "mine", "norm=theirs,rmsnorm", path=package.parent)
    assert sweep.stdout.splitlines()[-1] == "2 runs: 1 trained, 1 already done. `lab table` shows them."
    results = [json.loads(file.read_text()) for file in outputs.glob("runs/*/result.json")]
    assert {result["config"]["norm"]["name"] for result in results} == {"their_pkg.theirs", "rmsnorm"}
    wrong = python("-m", "lab", "train", *RUN, *options, "norm=thiers", path=package.parent)
    menu = ", ".join(sorted([*names("norm"), "theirs"]))
    assert wrong.stderr == f"lab train: norm 'thiers' is not one of {menu}; did you mean 'theirs'?\n"
