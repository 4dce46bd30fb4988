"""Kill a sweep again and again, start it again with the same command, and compare it with one left in peace.

    python scripts/kill_sweep.py [--kills 20] [--seed 0] [--runs 12] [--steps 150] [--folder DIR] [--json FILE]

A sweep of short runs on two workers is trained once, untouched. Then it is started in another outputs folder; at
random moments a worker, the launcher, the fork server or the whole process group gets SIGKILL, and whenever the
sweep has come to an end the same command starts it again, at once, until every run is done. If there are kills left
then, all that begins anew in a folder of its own. Exit status 0 says that in every such round

- each run of the untouched sweep has one folder, is done, and was trained to its end once;
- metrics.jsonl is the same byte for byte, result.json but for tokens per second, memory and commit;
- no process was left of any sweep, and none lived longer than 15 s after its launcher.
"""

import argparse
import collections
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KINDS = {"worker": 6, "launcher": 2, "group": 2, "fork server": 1}
"""What is killed, and how often of eleven times."""

LINGER_S = 15.0
"""How long a process may outlive its launcher."""

WORDS = "the model run loss step norm seed head of in grows falls holds ends"


@dataclass
class Process:
    """A line of /proc."""

    pid: int
    parent: int
    group: int
    command: str


@dataclass
class Tally:
    """What happened."""

    kills: collections.Counter[str] = field(default_factory=collections.Counter)
    starts: int = 0
    rounds: int = 0
    attempts: int = 0
    resumed: int = 0
    runs: int = 0
    longest_s: float = 0.0
    """Longest time that a process outlived its killed launcher."""


class Sweep:
    """The command that is started again and again, and where it leaves its runs."""

    def __init__(self, folder: Path, arguments: argparse.Namespace) -> None:
        self.folder, self.text, self.steps = folder, folder / "text.txt", arguments.steps
        draw = random.Random(0)
        self.text.write_text("\n".join(" ".join(draw.choices(WORDS.split(), k=12)) + "." for _ in range(2000)))
        arms = "norm=rmsnorm,layernorm,scalenorm,dyt"
        seeds = ",".join(str(seed) for seed in range(1, arguments.runs // 4 + 1))
        self.command = [
            *(sys.executable, "-m", "lab", "train", "-m", arms, f"seed={seeds}", f"train.steps={arguments.steps}"),
            *("data=text", f"data.file={self.text}", "tokenizer=byte", "model=tiny", "model.dim=32"),
            *("model.n_layers=1", "model.max_seq_len=32", "train.batch_size=4", "train.checkpoint_every=10"),
            *("device=cpu", "precision=fp32", "hydra/launcher=pool", "hydra.launcher.n_jobs=2"),
        ]

    def environment(self, outputs: Path) -> dict[str, str]:
        """As `lab` is to find it."""
        own = {"LAB_OUTPUTS": str(outputs), "LAB_CACHE": str(self.folder / "cache"), "OMP_NUM_THREADS": "1"}
        return {**os.environ, **own}

    def start(self, outputs: Path) -> "subprocess.Popen[str]":
        """Start it, in a process group of its own."""
        with (self.folder / "errors.txt").open("a") as errors:
            return subprocess.Popen(
                self.command,
                env=self.environment(outputs),
                stdout=subprocess.DEVNULL,
                stderr=errors,
                text=True,
                start_new_session=True,
            )


def processes() -> list[Process]:
    """All that live, zombies apart."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (folder / "stat").read_text().rpartition(")")
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, parent, group = rest.split()[:3]
        if state != "Z":
            found.append(Process(int(name.split()[0]), int(parent), int(group), command))
    return found


def group_of(leader: int) -> list[Process]:
    """What belongs to a sweep."""
    return [process for process in processes() if process.group == leader]


def victims(kind: str, leader: int) -> list[int]:
    """The processes of a kind in a sweep."""
    group = group_of(leader)
    servers = [p.pid for p in group if p.parent == leader and "forkserver" in p.command]
    if kind == "worker":
        return [p.pid for p in group if p.parent in servers]
    return servers if kind == "fork server" else [p.pid for p in group if p.pid == leader]


@dataclass
class Blow:
    """The next kill: of what, and when."""

    kind: str
    after_s: float | None
    """Seconds from the start or the last blow, be there something to lose or not; None: ``after_steps`` counts."""
    after_steps: int
    """Steps of all runs together."""

    @classmethod
    def drawn(cls, draw: random.Random, steps: int) -> "Blow":
        """A random one, after as many steps as a run has at most."""
        kind = draw.choices(list(KINDS), list(KINDS.values()))[0]
        early = kind in ("launcher", "group") and draw.random() < 0.25
        return cls(kind, draw.uniform(0.0, 4.0) if early else None, draw.randint(0, steps))

    def falls(self, leader: int, seconds: float, steps: int) -> bool:
        """Kill, if it is time and there is something to kill."""
        if seconds < self.after_s if self.after_s is not None else steps < self.after_steps:
            return False
        with contextlib.suppress(ProcessLookupError):
            if self.kind == "group":
                os.killpg(leader, signal.SIGKILL)
                return True
            if found := victims(self.kind, leader):
                os.kill(random.choice(found), signal.SIGKILL)
                return True
        return False


class Steps:
    """Counts what the runs of an outputs folder do; what is cut off and done again counts twice."""

    def __init__(self, outputs: Path) -> None:
        self.outputs, self.known, self.total = outputs, collections.Counter[Path](), 0

    def count(self) -> int:
        """All so far."""
        for file in self.outputs.glob("runs/*/metrics.jsonl"):
            lines = file.read_bytes().count(b"\n")
            self.total += max(0, lines - self.known[file])
            self.known[file] = lines
        return self.total


def one_round(sweep: Sweep, outputs: Path, kills: int, draw: random.Random, tally: Tally) -> None:
    """Kill and start until every run is done; ``kills`` at most."""
    ended: dict[int, float] = {}
    blow, steps, spent, last = Blow.drawn(draw, sweep.steps), Steps(outputs), 0, 0
    while True:
        process, began = sweep.start(outputs), time.monotonic()
        tally.starts += 1
        while process.poll() is None:
            watch(ended, tally)
            done = steps.count()
            if spent < kills and blow.falls(process.pid, time.monotonic() - began, done - last):
                tally.kills[blow.kind] += 1
                blow, spent, last, began = Blow.drawn(draw, sweep.steps), spent + 1, done, time.monotonic()
            time.sleep(0.02)
        ended[process.pid] = time.monotonic()
        if process.returncode == 0:
            break
        assert process.returncode in (1, -signal.SIGKILL), f"exit status {process.returncode}"
    while ended:
        watch(ended, tally)
        time.sleep(0.02)


def watch(ended: dict[int, float], tally: Tally) -> None:
    """Look at what the sweeps that have ended left behind."""
    living = {process.group for process in processes()} if ended else set()
    for leader, moment in list(ended.items()):
        lived = time.monotonic() - moment
        if leader not in living:
            tally.longest_s = max(tally.longest_s, lived)
            del ended[leader]
        assert lived < LINGER_S, f"left over: {group_of(leader)}"


def compare(outputs: Path, untouched: Path, tally: Tally) -> None:
    """The two sweeps' folders hold the same runs."""
    folders = {path.name: path for path in (untouched / "runs").iterdir()}
    found = {path.name: path for path in (outputs / "runs").iterdir()}
    assert found.keys() == folders.keys(), f"{sorted(found)} and not {sorted(folders)}"
    for name, folder in found.items():
        other = folders[name]
        assert (folder / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes(), folder
        assert result(folder) == result(other), folder
        assert not list(folder.rglob(".*")), folder
        log = (folder / "run.log").read_text()
        assert log.count(" INFO   done: ") == 1, folder
        attempts = [json.loads(line) for line in (folder / "attempts.jsonl").read_text().splitlines()]
        assert sum(line.get("status") == "done" for line in attempts) == 1, folder
        tally.attempts += len({line["attempt"] for line in attempts})
        tally.resumed += "resumed from step" in log
    tally.runs += len(found)


def result(folder: Path) -> dict[str, Any]:
    """``result.json`` but for what may differ."""
    found: dict[str, Any] = json.loads((folder / "result.json").read_text())
    assert found["status"] == "done", f"{folder}: {found['status']}"
    del found["tokens_per_s"], found["peak_memory_mib"], found["env"]["commit"]
    found["env"].pop("earlier", None)  # commits, where one was made meanwhile
    return found


def left_over(folder: Path) -> list[str]:
    """Processes that work in the folder, in whatever group."""
    found = []
    for process in processes():
        try:
            environment = Path(f"/proc/{process.pid}/environ").read_bytes()
        except OSError:
            continue
        if f"LAB_OUTPUTS={folder}".encode() in environment:
            found.append(f"{process.pid} {process.command}")
    return found


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--kills", type=int, default=20)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--runs", type=int, default=12, help="a multiple of four")
    made.add_argument("--steps", type=int, default=150)
    made.add_argument("--folder", type=Path)
    made.add_argument("--json", type=Path)
    return made


def main() -> None:
    """Kill, compare, print."""
    arguments = parser().parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="lab-kill-"))
    folder.mkdir(parents=True, exist_ok=True)
    sweep, tally, draw = Sweep(folder.resolve(), arguments), Tally(), random.Random(arguments.seed)
    random.seed(arguments.seed)
    untouched = sweep.folder / "untouched"
    began = time.monotonic()
    process = sweep.start(untouched)
    assert process.wait() == 0, (sweep.folder / "errors.txt").read_text()
    print(f"untouched: {time.monotonic() - began:.0f} s", flush=True)
    began = time.monotonic()
    while (left := arguments.kills - tally.kills.total()) > 0:
        tally.rounds += 1
        outputs = sweep.folder / f"round-{tally.rounds}"
        one_round(sweep, outputs, left, draw, tally)
        compare(outputs, untouched, tally)
        took = time.monotonic() - began
        print(f"round {tally.rounds}: {dict(tally.kills)}, {tally.starts} starts, {took:.0f} s", flush=True)
    assert not left_over(sweep.folder), left_over(sweep.folder)
    said = {
        **{f"kills of the {kind}": tally.kills[kind] for kind in KINDS},
        "kills": tally.kills.total(),
        "rounds": tally.rounds,
        "runs": tally.runs,
        "starts": tally.starts,
        "attempts": tally.attempts,
        "resumed runs": tally.resumed,
        "longest life after the launcher, s": round(tally.longest_s, 1),
        "wall time, s": round(time.monotonic() - began),
    }
    print("\n".join(f"{key}: {value}" for key, value in said.items()))
    if arguments.json:
        arguments.json.write_text(json.dumps(said, indent=1))


if __name__ == "__main__":
    main()
