"""The pool on its own: fresh processes, so many at once, each ended with the one that asked for it."""

import itertools
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from multiprocessing import forkserver
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab.errors import ConfigError, Held, LabError, Stopped
from lab.study import pool, slots
from lab.study.pool import Job, Pool
from study import pool_jobs as do


@pytest.fixture(autouse=True)
def light(monkeypatch):
    """A fork server that imports nothing ahead, and starts at once."""
    monkeypatch.setattr(pool, "PRELOAD", [])
    monkeypatch.setattr(pool, "ALIKE", ())


def run(*calls, at_once=2, **options):
    return Pool([{}] * at_once, **options).run(Job(f"job {i}", call) for i, call in enumerate(calls))


def gone(pid, *, within_s=10.0):
    """Whether a process, of whatever parent, is no more."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False


def wait_for(folder, pattern, count, *, within_s=60.0):
    end = time.monotonic() + within_s
    while len(found := [path for path in folder.glob(pattern) if path.read_text()]) < count:
        assert time.monotonic() < end, f"{len(found)} of {count} {pattern}"
        time.sleep(0.01)
    return found


def test_values_come_back_in_order_each_from_a_process_of_its_own():
    ended = run(*(partial(do.answer, i) for i in range(5)))
    values, pids = zip(*(end.value for end in ended), strict=True)
    assert values == (0, 1, 2, 3, 4)
    assert len({*pids, os.getpid()}) == 6


@pytest.mark.slow
def test_as_many_at_once_as_there_are_slots_and_each_in_its_own(tmp_path):
    gpus = [{"CUDA_VISIBLE_DEVICES": "3"}, {"CUDA_VISIBLE_DEVICES": "5"}]
    jobs = (Job(str(i), partial(do.mark, tmp_path, str(i), 0.1)) for i in range(6))
    ended = Pool(gpus).run(jobs)
    assert {end.value for end in ended} == {"3", "5"}
    spans = sorted((float(a), float(b), gpu) for a, b, gpu in (p.read_text().split() for p in tmp_path.iterdir()))
    for gpu in ("3", "5"):
        own = [span for span in spans if span[2] == gpu]
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(own))
    assert any(before[1] > after[0] for before, after in itertools.pairwise(spans))  # two were


@pytest.mark.slow
def test_the_next_job_is_made_while_the_one_before_runs(tmp_path):
    made = []

    def jobs():
        for i in range(2):
            made.append(time.monotonic())
            yield Job(str(i), partial(do.mark, tmp_path, str(i), 0.3))

    Pool([{}]).run(jobs())
    assert made[1] < float((tmp_path / "0").read_text().split()[1]) - 0.1


@pytest.mark.parametrize(
    "error", [LabError("a"), ConfigError("b"), Held("run 1 is being trained by process 2"), OSError(28, "full")]
)
def test_an_error_comes_back_as_it_was_and_the_others_go_on(error):
    first, second, third = run(partial(do.answer, 1), partial(do.fail, error), partial(do.answer, 3))
    assert (first.value[0], third.value[0]) == (1, 3)
    assert (type(second.error), str(second.error)) == (type(error), str(error))


def test_what_cannot_be_pickled_is_told_in_words():
    first, second = run(do.stubborn, do.unspeakable)
    assert str(first.error) == "StubbornError: no way"
    assert "pickle" in str(second.error)


def test_a_kill_takes_one_job_and_no_other(caplog):
    ended = run(partial(do.kill_self, signal.SIGKILL), partial(do.answer, 1), partial(do.leave, 7))
    assert str(ended[0].error) == "killed by SIGKILL, perhaps for want of memory"
    assert ended[1].value[0] == 1
    assert str(ended[2].error) == "its process was lost (exit status 7)"
    assert "killed by SIGKILL, perhaps for want of memory (in the run job 0)" in caplog.text


@pytest.mark.slow
def test_workers_outlive_their_server_and_the_next_gets_another():
    ended = run(*(partial(do.kill_server, i) for i in range(4)))
    assert [end.value for end in ended] == [0, 1, 2, 3]


@pytest.mark.parametrize("deaths", [1, pool.ATTEMPTS])
@pytest.mark.skipif(pool.METHOD != "forkserver", reason="there is no fork server")
def test_a_server_that_dies_before_it_has_forked_is_started_again(monkeypatch, deaths):
    left, connect = [None] * deaths, forkserver.connect_to_new_process

    def dying(fds):
        if not left:
            return connect(fds)
        left.pop()
        forkserver.ensure_running()
        server = forkserver._forkserver._forkserver_pid
        os.kill(server, signal.SIGSTOP)
        ends = connect(fds)
        os.kill(server, signal.SIGKILL)
        os.waitid(os.P_PID, server, os.WEXITED | os.WNOWAIT)
        return ends

    monkeypatch.setattr(forkserver, "connect_to_new_process", dying)
    if deaths < pool.ATTEMPTS:
        assert [end.value[0] for end in run(partial(do.answer, 7))] == [7]
    else:
        with pytest.raises(LabError, match="was killed 3 times"):
            run(partial(do.answer, 7))


@pytest.mark.slow
def test_a_worker_that_leaves_a_child_has_ended_all_the_same():
    began = time.monotonic()
    (ended,) = run(partial(do.leave_a_child, 30))
    assert "SIGKILL" in str(ended.error)
    assert time.monotonic() - began < 20


def test_a_signal_for_a_worker_alone_stops_its_job_and_no_other():
    first, second = run(partial(do.kill_self, signal.SIGTERM), partial(do.answer, 1), at_once=1)
    assert str(first.error) == "stopped"
    assert second.value[0] == 1


def test_after_a_failure_nothing_starts_where_that_is_wanted():
    failing = partial(do.fail, LabError("no"))
    assert len(run(failing, partial(do.answer, 1), at_once=1)) == 2
    assert len(run(failing, partial(do.answer, 1), at_once=1, stop_on_error=True)) == 1


def test_warnings_of_a_worker_are_said_by_the_launcher(caplog):
    caplog.set_level(logging.DEBUG)
    run(partial(do.warn, "beware"))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [("WARNING", "beware")]


def later(folder, pattern, count, act):
    def body():
        wait_for(folder, pattern, count)
        act()

    thread = threading.Thread(target=body)
    thread.start()
    return thread


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, marks=pytest.mark.slow),
    ],
)
def test_a_signal_stops_every_worker_and_nothing_starts(tmp_path, number):
    before = signal.getsignal(number)
    jobs = [partial(do.wait_for_stop, tmp_path, str(i)) for i in range(5)]
    thread = later(tmp_path, "*.begun", 2, lambda: os.kill(os.getpid(), number))
    with pytest.raises(Stopped, match="2 runs were being trained") as caught:
        run(*jobs)
    thread.join()
    assert caught.value.signal_number == number
    assert signal.getsignal(number) == before
    assert sorted(path.name for path in tmp_path.glob("*")) == ["0.begun", "0.stopped", "1.begun", "1.stopped"]


@pytest.mark.slow
def test_a_worker_that_hears_it_twice_still_saves(tmp_path):
    """As when a whole group is signalled, and its leader hands the signal on."""

    def both():
        os.kill(int((tmp_path / "0.begun").read_text()), signal.SIGTERM)
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = later(tmp_path, "*.begun", 1, both)
    with pytest.raises(Stopped):
        run(partial(do.wait_for_stop, tmp_path, "0", tidy_s=0.5))
    thread.join()
    assert (tmp_path / "0.stopped").exists()


@pytest.mark.slow
def test_a_second_signal_acts_at_once(tmp_path):
    def twice():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    thread = later(tmp_path, "*.begun", 1, twice)
    began = time.monotonic()
    with pytest.raises(Stopped, match="stopped at once"):
        run(partial(do.wait_for_stop, tmp_path, "0", deaf=True))
    thread.join()
    assert time.monotonic() - began < 30
    assert gone(int((tmp_path / "0.begun").read_text()))


@pytest.mark.slow
def test_a_mistake_of_the_launcher_leaves_no_worker(tmp_path):
    def jobs():
        yield Job("0", partial(do.wait_for_stop, tmp_path, "0"))
        wait_for(tmp_path, "0.begun", 1)
        raise RuntimeError("cannot be composed")

    with pytest.raises(RuntimeError, match="cannot be composed"):
        Pool([{}]).run(jobs())
    assert gone(int((tmp_path / "0.begun").read_text()))
    assert (tmp_path / "0.stopped").exists()


LAUNCHER = """
import sys
from functools import partial
from pathlib import Path
from lab.study import pool
from lab.study.pool import Job, Pool
from study import pool_jobs as do

pool.PRELOAD = sys.argv[2:]
folder = Path(sys.argv[1])
if __name__ == "__main__":
    kinds = [do.wait_for_stop, do.ignore_and_wait]
    try:
        Pool([{}] * 2).run(Job(str(i), partial(kind, folder, str(i))) for i, kind in enumerate(kinds))
    except KeyboardInterrupt as stop:
        print(stop)
"""


@pytest.fixture
def launcher(tmp_path):
    """Start a launcher in a process group of its own."""
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    path = f"{tmp_path}:{Path(__file__).parent.parent}"
    command = [sys.executable, str(tmp_path / "launcher.py"), str(tmp_path)]
    return lambda *preload, **options: subprocess.Popen(
        [*command, *preload],
        **options,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_workers_end_when_their_launcher_is_killed(tmp_path, launcher):
    process = launcher()
    workers = [int(path.read_text()) for path in wait_for(tmp_path, "*.begun", 2)]
    group = in_group(process.pid)
    assert {process.pid, *workers} < group  # and the fork server, and Python's resource tracker
    process.kill()
    process.communicate()
    assert all(gone(pid) for pid in group)
    assert [path.name for path in tmp_path.glob("*.stopped")] == ["0.stopped"]  # the other was ended by force


@pytest.mark.slow
def test_modules_are_those_of_the_launcher_and_not_those_that_lie_around(tmp_path, launcher):
    (tmp_path / "here").mkdir()
    (tmp_path / "here/decimal.py").write_text("raise SystemExit('not mine')")
    process = launcher("decimal", cwd=tmp_path / "here")
    wait_for(tmp_path, "*.begun", 2)
    process.kill()
    assert process.communicate() == ("", "")


SLOW = """
import pathlib, time
pathlib.Path(__file__).with_name("slow.begun").write_text("now")
time.sleep(1.0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_group_is_signalled_while_the_fork_server_starts(tmp_path, launcher, number):
    (tmp_path / "slow.py").write_text(SLOW)
    process = launcher("slow")
    wait_for(tmp_path, "slow.begun", 1)
    time.sleep(0.1)
    os.killpg(process.pid, number)
    said, errors = process.communicate(timeout=60)
    assert said.startswith("stopped; ")
    assert errors == ""
    assert all(gone(pid) for pid in in_group(process.pid))  # the server notices a moment later


def in_group(group):
    """The processes of a process group."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.add(int(path.parent.name))
    return found


@pytest.mark.slow
def test_where_there_is_no_fork(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "METHOD", "spawn")
    first, second, third = run(
        partial(do.answer, 1), partial(do.kill_self, signal.SIGKILL), partial(do.fail, Held("held"))
    )
    assert first.value[0] == 1
    assert "SIGKILL" in str(second.error)
    assert isinstance(third.error, Held)


@pytest.mark.parametrize(
    ("gpus", "n_jobs", "jobs_per_gpu", "device", "threads", "expected"),
    [
        ([], None, 1, "auto", 1, [{}] * 4),
        ([], None, 1, "auto", 2, [{}] * 2),
        ([], None, 1, "cpu", 8, [{}]),
        ([], 7, 1, "cpu", 8, [{}] * 7),
        (["0", "1"], None, 1, "cpu", 1, [{}] * 4),
        (["0", "1"], None, 1, "auto", 1, ["0", "1"]),
        (["2", "GPU-5"], None, 2, "cuda", 1, ["2", "GPU-5", "2", "GPU-5"]),
        (["0", "1"], 3, 1, "cuda", 1, ["0", "1", "0"]),
    ],
)
def test_slots(monkeypatch, gpus, n_jobs, jobs_per_gpu, device, threads, expected):
    monkeypatch.setattr(slots, "_gpus", lambda: gpus)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    found = slots.slots(n_jobs, jobs_per_gpu=jobs_per_gpu, device=device, threads=threads)
    assert found == [{"CUDA_VISIBLE_DEVICES": gpu} if gpu else {} for gpu in expected]


def test_gpus_are_those_that_this_process_may_use(monkeypatch):
    torch = SimpleNamespace(cuda=SimpleNamespace(device_count=lambda: 2))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert slots._gpus() == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,GPU-abc")
    assert slots._gpus() == ["4", "GPU-abc"]
