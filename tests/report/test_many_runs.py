"""CPU time of `lab table` and `lab status` for each of many runs."""

import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from lab import cli
from report.records import record

SCRIPT = Path(__file__).parents[2] / "scripts" / "bench" / "many_runs.py"

RUNS = 2000

MOST_MS = {"table": 1.2, "table sweep": 1.2, "status": 0.6, "status sweep": 0.6, "status sweep --all": 0.9}
"""Milliseconds of CPU a run: about three times what each takes."""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    spec = spec_from_file_location("many_runs", SCRIPT)
    many_runs = module_from_spec(spec)
    spec.loader.exec_module(many_runs)
    folder = tmp_path_factory.mktemp("outputs")
    tensors = {f"blocks.{i // 10}.{i % 10}.weight": f"{i:016x}" for i in range(50)}
    hashes = {"data": "1a2b3c4d5e6f", "tokenizer": "99aabbccddee", "batches": "00", "tensors": tensors}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_OUTPUTS", str(folder))
        many_runs.make(record("a", hashes=hashes), folder, RUNS)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("command", MOST_MS)
def test_cpu_time_of_a_run(outputs, monkeypatch, capsys, command):
    monkeypatch.setenv("LAB_OUTPUTS", str(outputs))
    times = []
    for _ in range(3):
        began = time.process_time()
        assert cli._run(command.split()) == 0
        times.append(1e3 * (time.process_time() - began) / RUNS)
        assert str(RUNS) in (out := capsys.readouterr().out) or len(out.splitlines()) > RUNS / 5
    assert min(times) < MOST_MS[command], times
