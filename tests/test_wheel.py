"""A wheel built by way of an sdist holds everything, and works outside the checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory):
    """A folder in which it is installed."""
    folder = tmp_path_factory.mktemp("site")
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    return folder


def test_the_wheel_has_every_yaml_and_module(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    yaml = {f"lab/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "conf").rglob("*.yaml")}
    code = {
        path.relative_to(ROOT).as_posix() for top in ("lab", "hydra_plugins") for path in (ROOT / top).rglob("*.py")
    }
    kept = {f"lab/reproductions/{path.name}" for path in (ROOT / "docs" / "reproductions").iterdir()}
    assert yaml <= names
    assert kept <= names
    assert code <= names
    assert not any(
        name.startswith(("conf/", "docs/", "tests/")) or name == "hydra_plugins/__init__.py" for name in names
    )


def test_the_wheel_trains(site, tmp_path):
    book = tmp_path / "book.txt"
    book.write_text("It was the best of times, it was the worst of times.\n" * 400, encoding="utf-8")
    # -P: not from the checkout's folder; PYTHONPATH stands before the editable install
    environment = {**os.environ, "PYTHONPATH": str(site), "LAB_OUTPUTS": str(tmp_path / "outputs")}
    words = ["train", "-m", "norm=layernorm,rmsnorm", "model=tiny", "train.steps=2", "threads=1"]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "lab", *words, "data=text", f"data.file={book}", "tokenizer=byte"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "2 trained" in done.stdout
    where = subprocess.run(
        [sys.executable, "-P", "-c", "import lab; print(lab.__file__)"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert Path(where.strip()).is_relative_to(site)


def test_the_wheel_has_the_stored_studies(site, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(site), "LAB_OUTPUTS": str(tmp_path / "outputs")}
    options = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True}
    stem = sorted((ROOT / "docs" / "reproductions").glob("*.json"))[0].stem
    lab = [sys.executable, "-P", "-m", "lab"]
    table = subprocess.run([*lab, "table", "--stored", stem], **options)
    assert table.returncode == 0, table.stderr
    ledger = subprocess.run([*lab, "claims"], **options)
    assert ledger.returncode == 0, ledger.stderr
    again = subprocess.run([*lab, "store", "--stored", stem], **options)
    assert again.stdout.splitlines()[0] == f"docs/reproductions/{stem}.json"
    assert (tmp_path / "docs" / "reproductions" / f"{stem}.md").is_file()
