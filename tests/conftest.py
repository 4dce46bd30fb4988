"""What all tests share: one thread, an outputs folder a test, a cache for the whole session, runs in a second."""

import atexit
import itertools
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

os.environ["OMP_NUM_THREADS"] = "1"  # before anything imports torch
os.environ["HYDRA_FULL_ERROR"] = "1"

for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) == signal.SIG_IGN:  # as under nohup; what tests start would inherit it
        signal.signal(number, handler)

if "PYTEST_XDIST_WORKER" not in os.environ or "LAB_TEST_CACHE" not in os.environ:  # workers share their parent's
    os.environ["LAB_TEST_CACHE"] = tempfile.mkdtemp(prefix="lab-test-cache-")
    atexit.register(shutil.rmtree, os.environ["LAB_TEST_CACHE"], ignore_errors=True)
os.environ["LAB_CACHE"] = os.environ["LAB_TEST_CACHE"]

SMALL = (
    "data=text",
    "tokenizer=byte",
    "model=tiny",
    "model.dim=32",
    "model.n_layers=1",
    "model.max_seq_len=32",
    "train.steps=20",
    "train.checkpoint_every=5",
    "train.batch_size=4",
    "device=cpu",
    "precision=fp32",
    "threads=1",
)
"""A run of 20 steps in a fifth of a second."""


@pytest.fixture(scope="session")
def every_outputs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Paths of outputs folders without end: making a folder for each of thousands of tests takes long."""
    parent = tmp_path_factory.mktemp("outputs")
    return (parent / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def outputs(every_outputs: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """This test's outputs folder; it is not there until something is written."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)  # a run may have set another number
    folder = next(every_outputs)
    monkeypatch.setenv("LAB_OUTPUTS", str(folder))
    return folder


@pytest.fixture(autouse=True)
def package_logger() -> Iterator[None]:
    """Put the package's logger back as it was after a command has sent it to the console."""
    logger = logging.getLogger("lab")
    handlers, level, propagate = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.propagate = handlers, propagate
    logger.setLevel(level)


@pytest.fixture(scope="session")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100 kB of real prose in one file."""
    from lab.data.corpus.sotu import Config

    text = "\n\n".join(document.text for document in Config(name="sotu").load().train)
    path = tmp_path_factory.mktemp("book") / "book.txt"
    path.write_text(text[:100_000], encoding="utf-8")
    return path


@pytest.fixture
def words(book: Path) -> Callable[..., list[str]]:
    """The command line of a small run, with overrides."""
    return lambda *overrides: [*SMALL, f"data.file={book}", *overrides]


@pytest.fixture(scope="session")
def composed() -> dict[tuple[str, ...], object]:
    """What was composed before, by its overrides; it is frozen."""
    return {}


@pytest.fixture
def config(words, composed):
    """The decoded configuration of a small run, with overrides."""
    from lab.compose import compose_config

    def make(*overrides):
        if overrides not in composed:
            composed[overrides] = compose_config(words(*overrides))
        return composed[overrides]

    return make


@pytest.fixture
def train(config):
    """Train a small run in this process."""
    from lab.training import run

    logger = logging.getLogger("lab")
    level = logger.level
    logger.setLevel(logging.DEBUG)
    yield lambda *overrides: run.train(config(*overrides))
    logger.setLevel(level)


@pytest.fixture
def lab() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run ``lab`` in a process of its own."""

    def run(*argv: object, timeout: float = 120, **options) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "lab", *map(str, argv)]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, **options)

    return run


@pytest.fixture
def start_lab() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start ``lab`` in a process of its own, killed when the test ends."""
    started: list[subprocess.Popen[str]] = []

    def start(*argv: object, **options) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "lab", *map(str, argv)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
