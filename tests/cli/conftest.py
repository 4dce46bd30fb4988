"""Command lines run in this process, from a folder of their own."""

import logging
import sys
from pathlib import Path

import pytest

from lab import cli

TEXT = "".join(f"Line {i} of a small text about nothing at all.\n" for i in range(100))

FILES = {
    "text.txt": TEXT.encode(),
    "empty.txt": b"",
    "binary.txt": bytes(range(256)),
    "words.txt": b"a few words",
    "short.txt": b"some words here\n" * 8,
    "broken/norm/torn.yaml": b"name: [rmsnorm\n",
    "broken/norm/empty.yaml": b"",
}


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """The current directory, with some files in it."""
    folder = tmp_path / "here"
    for name, data in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(autouse=True)
def undone(monkeypatch):
    """Put back what a command changes in its process."""
    logger = logging.getLogger("lab")
    before = logger.handlers[:], logger.level, logger.propagate
    monkeypatch.setattr(sys, "argv", sys.argv)
    yield
    logger.handlers[:], logger.level, logger.propagate = before


@pytest.fixture
def run(capsys):
    """Run a command line in this process: its status, standard output and standard error."""

    def call(*argv):
        capsys.readouterr()
        try:
            status = cli._run(list(argv))
        except SystemExit as stop:  # argparse
            status = stop.code or 0
        output = capsys.readouterr()
        return status, output.out, output.err

    return call
