"""Two sweeps at once that want the same runs: each run is trained once, and both end with all of them."""

import re

import pytest

from lab.runs.attempts import attempts
from lab.runs.store import RunFolder

pytestmark = pytest.mark.slow


def test_each_run_is_trained_by_one_of_them(start_lab, words, outputs):
    sweep = ["train", "-m", *words("train.steps=60", "norm=layernorm,rmsnorm", "seed=1,2,3")]
    both = [start_lab(*sweep) for _ in range(2)]
    said = [process.communicate(timeout=400) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    folders = [RunFolder(path) for path in (outputs / "runs").iterdir()]
    assert [folder.result()["status"] for folder in folders] == ["done"] * 6
    assert [len(attempts(folder)) for folder in folders] == [1] * 6
    found = [re.search(r"6 runs: (\d) trained, (\d) already done", out) for out, _ in said]
    trained = [int(match[1]) for match in found]
    assert sum(trained) == 6, said
    assert [int(match[2]) for match in found] == [6 - n for n in trained]
