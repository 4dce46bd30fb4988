"""A Slurm cluster of one node on this machine, to try sweeps on: slurmctld, slurmd and munged, all in one folder.

    python scripts/slurm.py up DIR [--cpus 2]    prints what to export; DIR must be new or empty, its path short
    python scripts/slurm.py down DIR             cancels the jobs, stops the daemons, leaves DIR

Needs Debian's slurmctld, slurmd, slurm-client and munge; any user may start it, and several may stand at once.
The partition ``high`` preempts ``low`` by requeueing; in ``graceful`` a preempted job has 20 seconds more. A job
that was requeued starts again after 5 seconds instead of Slurm's two minutes (the lifetime of its credential).
There is no accounting: ``sacct`` says nothing.
"""

import argparse
import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "scancel", "sinfo")
PATIENCE_S = 30

CONFIG = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.sock,cred_expire=5
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=200000
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
KillWait=5
MinJobAge=300
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} Boards=1 SocketsPerBoard=1 CoresPerSocket={cpus} ThreadsPerCore=1 \
RealMemory={memory_mib} State=UNKNOWN
PartitionName=low Nodes={host} Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE
PartitionName=graceful Nodes={host} MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=20
PartitionName=high Nodes={host} MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


def missing() -> list[str]:
    """The programs that are not installed."""
    return [program for program in PROGRAMS if _path(program) is None]


def up(folder: Path, cpus: int) -> dict[str, str]:
    """Start a cluster in a folder; returns what its users have in their environment."""
    folder = folder.resolve()
    for name in ("state", "spool", "log", "run"):
        (folder / name).mkdir(parents=True)
    folder.chmod(0o755)
    environment = {"SLURM_CONF": str(folder / "slurm.conf")}
    controller_port, node_port = _free_ports()
    (folder / "slurm.conf").write_text(
        CONFIG.format(
            folder=folder,
            host=socket.gethostname().partition(".")[0],
            user=getpass.getuser(),
            controller_port=controller_port,
            node_port=node_port,
            cpus=cpus,
            memory_mib=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20 * 9 // 10,
        )
    )
    _start_munge(folder)
    for program in ("slurmctld", "slurmd"):
        subprocess.run([_path(program)], env={**os.environ, **environment}, check=True)
    deadline = time.monotonic() + PATIENCE_S
    while _ask(environment, "sinfo", "--noheader", "--partition=low", "--format=%T") != "idle":
        if time.monotonic() > deadline:
            down(folder)
            raise SystemExit(f"the node did not come up in {PATIENCE_S} s; see {folder / 'log'}")
        time.sleep(0.1)
    return environment


def down(folder: Path) -> None:
    """Cancel a cluster's jobs and stop its daemons, and wait until they are gone."""
    folder = folder.resolve()
    environment = {"SLURM_CONF": str(folder / "slurm.conf")}
    ids = (_ask(environment, "squeue", "--noheader", "--format=%A") or "").split()
    if ids:
        _ask(environment, "scancel", *ids)
        deadline = time.monotonic() + PATIENCE_S
        while _ask(environment, "squeue", "--noheader") and time.monotonic() < deadline:
            time.sleep(0.2)
    for program in ("slurmd", "slurmctld", "munged"):
        with suppress(FileNotFoundError, ProcessLookupError, ValueError):
            pid = int((folder / "run" / f"{program}.pid").read_text())
            os.kill(pid, signal.SIGTERM)
            _wait_for_end(pid)


def _start_munge(folder: Path) -> None:
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    options = {
        "key-file": key,
        "socket": folder / "run" / "munge.sock",
        "pid-file": folder / "run" / "munged.pid",
        "seed-file": folder / "run" / "munge.seed",
        "log-file": folder / "log" / "munged.log",
    }
    words = [f"--{name}={path}" for name, path in options.items()]
    subprocess.run([_path("munged"), "--force", *words], check=True, stderr=subprocess.DEVNULL)


def _path(program: str) -> str | None:
    """Where a program is; daemons are often not on a user's PATH."""
    return shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]))


def _free_ports() -> list[int]:
    sockets = [socket.socket() for _ in range(2)]
    for opened in sockets:
        opened.bind(("127.0.0.1", 0))
    ports = [opened.getsockname()[1] for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports


def _ask(environment: dict[str, str], *command: str) -> str | None:
    """What a command of Slurm's says; None where it fails."""
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    return None if done.returncode else done.stdout.strip()


def _wait_for_end(pid: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text()
        except FileNotFoundError:
            return
        if re.search(r"\) Z ", state):
            return
        time.sleep(0.05)


def main() -> None:
    """Start or stop a cluster."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["up", "down"])
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--cpus", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    if missing():
        sys.exit(f"not installed: {', '.join(missing())} (apt-get install slurmctld slurmd slurm-client munge)")
    if arguments.action == "down":
        down(arguments.folder)
        return
    for name, value in up(arguments.folder, arguments.cpus).items():
        print(f"export {name}={value}")


if __name__ == "__main__":
    main()
