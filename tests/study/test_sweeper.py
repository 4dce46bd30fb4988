"""What a sweep does with its stages, over a host that trains nothing: what is launched, waited for, tried again."""

from contextlib import ExitStack
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from lab.errors import ConfigError, Held, LabError
from lab.paths import runs_dir
from lab.runs.attempts import attempts, begin
from lab.runs.store import RunFolder
from lab.study import sweeper
from lab.study.cell import Cell, Stage
from lab.study.expand import sweep_script
from lab.study.manifest import Manifest, find, read
from lab.study.settings import SweepSettings
from lab.study.sweeper import Job, Sweep


@pytest.fixture(autouse=True)
def outputs(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_OUTPUTS", str(tmp_path / "outputs"))
    monkeypatch.setattr(sweeper, "WAIT_S", 0.0)
    return tmp_path / "outputs"


@dataclass
class Planned:
    words: tuple[str, ...]
    config: object = field(default_factory=lambda: SimpleNamespace(seed=1))

    def id_with(self, seed):
        return f"{'-'.join(w for w in self.words if not w.startswith('seed=')) or 'plain'}-{seed}".replace("=", "")


@dataclass
class Host:
    """Writes a result for each run; ``fails`` and ``held`` say how often a run's first tries come to nothing."""

    fails: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    refuses: str = ""
    losses: dict[str, float] = field(default_factory=dict)
    tells: bool = True
    stops_itself: bool = False
    planned: list[list[str]] = field(default_factory=list)
    batches: list[list[str]] = field(default_factory=list)

    def plan(self, overrides):
        self.planned.append(list(overrides))
        if self.refuses in overrides:
            raise ConfigError(f"{self.refuses} is refused")
        return Planned(tuple(overrides))

    def launch(self, runs, configs):
        assert len(runs) == len(configs)
        self.batches.append([" ".join(words) for words in runs])
        return [self.train(list(words)) for words in runs]

    def train(self, words):
        seed = next((word[5:] for word in words if word.startswith("seed=")), "1")
        run = Planned(tuple(words)).id_with(seed)
        for tries, error in ((self.fails, RuntimeError("out of luck")), (self.held, Held("elsewhere"))):
            if tries.get(run, 0) > 0:
                tries[run] -= 1
                return Job(error)
        RunFolder(runs_dir() / run).path.mkdir(parents=True, exist_ok=True)
        RunFolder(runs_dir() / run).write_result(
            {"id": run, "status": "done", "final_loss": self.losses.get(run, 4.0), "config": {}}
        )
        return Job(None)


def sweep(host, *, on_error="continue", n=0, **options):
    settings = SweepSettings(tier=None, accept_mde=False, on_error=on_error)
    return Sweep(
        host, settings, Manifest("sweep", "01234567", ("-m",), None, "2026-01-01T00:00:00+00:00", n), **options
    )


def go(host, *runs, **options):
    made = sweep(host, **options)
    lists = [run.split() for run in runs]
    made.check(sweep_script(lists))
    made.carry_out(sweep_script(lists))
    return made


def test_all_runs_are_launched_at_once_and_only_once(caplog):
    host = Host()
    with caplog.at_level("INFO", logger="lab"):
        go(host, "a=1 seed=1", "a=1 seed=2", "a=2 seed=1", "a=2 seed=2")
    assert host.batches == [["a=1 seed=1", "a=1 seed=2", "a=2 seed=1", "a=2 seed=2"]]
    assert len(host.planned) == 2, "seeds share a check"
    assert go(host, "a=1 seed=1", "a=3 seed=1").trained == ["a3-1"]
    assert host.batches[1:] == [["a=3 seed=1"]]


def test_nothing_starts_where_one_run_is_refused():
    host = Host(refuses="a=2")
    with pytest.raises(ConfigError, match=r"a=2 is refused \(in the run a=2; none was started\)"):
        go(host, "a=1 seed=1", "a=2 seed=1")
    assert not host.batches
    assert not runs_dir().exists()


def test_a_failure_costs_one_run_and_the_exit_status():
    host = Host(fails={"a1-1": 1})
    with pytest.raises(LabError, match=r"3 runs: 2 trained, 0 already done, 1 failed\."):
        go(host, "a=1 seed=1", "a=1 seed=2", "a=1 seed=3")
    assert go(host, "a=1 seed=1", "a=1 seed=2", "a=1 seed=3").trained == ["a1-1"]


def test_how_a_killed_process_ended_is_noted():
    folder = RunFolder(runs_dir() / "a1-1")
    folder.path.mkdir(parents=True)
    begin(folder, commit=None)
    with pytest.raises(LabError, match="1 failed"):
        go(Host(fails={"a1-1": 1}), "a=1 seed=1", "a=1 seed=2")
    assert [attempt.reason for attempt in attempts(folder)] == ["out of luck"]


@pytest.mark.parametrize(("allowed", "works"), [(1, False), (2, True)])
def test_retries_within_the_sweep(allowed, works):
    host = Host(fails={"a1-1": 2})
    made = sweep(host, on_error=f"retry:{allowed}", n=2)
    script = sweep_script([["a=1", "seed=1"], ["a=1", "seed=2"]])
    if works:
        made.carry_out(script)
        assert made.trained == ["a1-2", "a1-1"]
    else:
        with pytest.raises(LabError, match="1 failed"):
            made.carry_out(script)
    assert len(host.batches) == 1 + allowed


def test_stop_starts_nothing_after_a_failure():
    host = Host(fails={"a1-2": 1})
    with pytest.raises(LabError, match="1 trained, 0 already done, 1 failed, 1 left"):
        go(host, "a=1 seed=1", "a=1 seed=2", "a=1 seed=3", on_error="stop")
    assert host.batches == [["a=1 seed=1"], ["a=1 seed=2"]]


def test_a_run_that_another_process_trains_is_waited_for_and_not_trained():
    host, looks = Host(), []
    with ExitStack() as held:
        held.enter_context(RunFolder(runs_dir() / "a1-1").locked())

        def sleep(_):
            looks.append(len(host.batches))
            if len(looks) == 3:
                host.train(["a=1", "seed=1"])  # the other process ends
                held.close()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sweeper.time, "sleep", sleep)
            made = go(host, "a=1 seed=1", "a=1 seed=2")
    assert host.batches == [["a=1 seed=2"]]
    assert made.trained == ["a1-2"]
    assert len(looks) == 3


def test_a_run_that_was_taken_in_between_is_no_failure():
    made = go(Host(held={"a1-1": 2}), "a=1 seed=1", "a=1 seed=2")
    assert sorted(made.trained) == ["a1-1", "a1-2"]
    assert not made.failed


def test_only_some_runs_and_afresh():
    host = Host()
    go(host, "a=1 seed=1", "a=1 seed=2")
    made = go(host, "a=1 seed=1", "a=1 seed=2", only=frozenset({"a1-2"}), fresh=True)
    assert host.batches[1:] == [["a=1 seed=2 fresh=true"]]
    assert made.trained == ["a1-2"]


def staged(losses):
    """Two rates on seed 7, then the better one on seed 1."""
    tuning = tuple(Cell("arm", (f"lr={lr}", "seed=7"), "tune", 7, lr) for lr in (1, 2))
    results = yield Stage("tuning", tuning)
    best = min(tuning, key=lambda cell: results[cell]["final_loss"])
    yield Stage("report", (Cell("arm", (f"lr={best.lr}", "seed=1"), "report", 1, best.lr),))


def test_a_later_stage_follows_from_the_results_of_the_one_before():
    host = Host(losses={"lr1-7": 4.0, "lr2-7": 3.0})
    made = sweep(host)
    made.check(staged({}))
    assert made.manifest.expected == 3
    made.carry_out(staged({}))
    assert host.batches == [["lr=1 seed=7", "lr=2 seed=7"], ["lr=2 seed=1"]]
    manifest = read(made.manifest.path)
    assert [(run.stage, run.id) for run in manifest.runs] == [
        ("tuning", "lr1-7"),
        ("tuning", "lr2-7"),
        ("report", "lr2-1"),
    ]
    again = sweep(host)
    again.carry_out(staged({}))
    assert len(host.batches) == 2, "the same stages again, and nothing to train"


def test_a_stage_that_is_not_whole_is_the_last():
    host = Host(fails={"lr1-7": 1})
    with pytest.raises(LabError, match="1 failed"):
        sweep(host, n=3).carry_out(staged({}))
    assert len(host.batches) == 1


def test_the_manifest_is_stamped_before_the_first_run(monkeypatch):
    host, seen = Host(), []
    real = host.launch
    host.launch = lambda *given: seen.append(find("sweep")) or real(*given)
    go(host, "a=1 seed=1", "a=1 seed=2")
    assert [entry.id for entry in seen[0].runs] == ["a1-1", "a1-2"]
    stamped = seen[0].asked
    later = sweep(host, n=2)
    later.manifest = Manifest("sweep", "01234567", ("-m",), None, "2027-01-01T00:00:00+00:00", 2)
    later.carry_out(sweep_script([["a=1", "seed=1"]]))
    assert find("sweep").asked == stamped


def test_two_cells_of_one_run_train_it_once():
    host = Host()
    go(host, "a=1 seed=1", "seed=1 a=1")
    assert sum(len(batch) for batch in host.batches) == 1
