"""What two run folders must have in common."""

import json
import time
from pathlib import Path
from typing import Any

CLOCK = ("tokens_per_s", "peak_memory_mib")
"""What a result may differ in from another of the same run."""


def result_of(folder: Path) -> dict[str, Any]:
    """``result.json`` without what depends on the machine's mood, or on a commit made meanwhile."""
    result = json.loads((folder / "result.json").read_text())
    for key in CLOCK:
        assert key in result
        del result[key]
    del result["env"]["commit"], result["env"]["earlier"]
    return result


def assert_same(folder: Path, untouched: Path) -> None:
    """The two hold the same run, bit for bit."""
    assert folder != untouched
    assert (folder / "metrics.jsonl").read_bytes() == (untouched / "metrics.jsonl").read_bytes()
    assert result_of(folder) == result_of(untouched)
    assert [path.name for path in folder.rglob(".*")] == []


def resumed_from(folder: Path) -> list[int]:
    """The steps that run.log says the run was resumed from."""
    lines = (folder / "run.log").read_text().splitlines()
    return [int(line.rsplit(" ", 1)[1]) for line in lines if "resumed from step" in line]


def steps(folder: Path) -> list[int]:
    """The steps that have whole lines in the metrics."""
    text = (folder / "metrics.jsonl").read_text()
    return [json.loads(line)["step"] for line in text.splitlines(keepends=True) if line.endswith("\n")]


def the_run(outputs: Path) -> Path:
    """The only run folder."""
    (folder,) = (outputs / "runs").iterdir()
    return folder


def wait_for_step(outputs: Path, step: int, *, timeout_s: float = 90) -> Path:
    """Wait until a process has written the metrics of a step."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        files = list(outputs.glob("runs/*/metrics.jsonl"))
        if files and files[0].read_text().count("\n") >= step:
            return files[0].parent
        time.sleep(0.002)
    raise AssertionError(f"no line of step {step} after {timeout_s} s")
