"""What lies on the disk is not as a command needs it: one line that says what to do, and nothing changed."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SMALL = [
    "data=text", "data.file=text.txt", "tokenizer=byte", "model=tiny", "model.n_layers=1", "train.steps=4",
    "train.checkpoint_every=2", "device=cpu", "precision=fp32", "threads=1",
]  # fmt: skip

SWEEP = ["train", "-m", *SMALL, "hydra/launcher=basic", "seed=1,2"]

AFTER = ["norm=none", "checkpoint.after=none"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """An outputs folder with a sweep of two runs and a run without weights, made by the first test."""
    return tmp_path_factory.mktemp("trained") / "outputs"


@pytest.fixture
def there(trained, here, outputs, run):
    """The outputs folder, as it is when all went well."""
    if not trained.exists():
        for line in (SWEEP, ["train", *SMALL, *AFTER]):
            status, _, err = run(*line)
            assert (status, err) == (0, "")
        shutil.copytree(outputs, trained)
    else:
        shutil.copytree(trained, outputs)
    return outputs


@pytest.fixture
def bare(there):
    """The id of the run without weights."""
    (folder,) = (path for path in (there / "runs").iterdir() if not list((path / "checkpoint").iterdir()))
    return folder.name


@pytest.fixture
def full(there, bare):
    """The folder of a run of the sweep."""
    return next(path for path in sorted((there / "runs").iterdir()) if path.name != bare)


@pytest.fixture
def refused(run, there):
    """Run a command line that is refused; its one line."""

    def call(*argv, status=1):
        before = contents(there)
        found, out, err = run(*argv)
        assert (found, err.count("\n")) == (status, 1), err
        assert out == "" or out.startswith("lab train ")  # what resume and retry come to
        assert "Traceback" not in err
        assert contents(there) == before
        return err

    return call


def contents(folder: Path):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def damage(path: Path, at: int = -20) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "line", ["eval RUN", "generate RUN", "probe RUN", "measure RUN", "train norm=none init_from=RUN"]
)
def test_a_run_without_weights(line, bare, refused):
    argv = [bare[:8] if word == "RUN" else word.replace("RUN", bare) for word in line.split()]
    says = refused(*argv, *(SMALL if argv[0] == "train" else []))
    where = "init_from: " if argv[0] == "train" else ""
    assert says == (
        f"lab {argv[0]}: {where}run {bare} keeps no weights (checkpoint.after=none): "
        "train it again with fresh=true checkpoint.after=weights\n"
    )


def test_a_sweep_that_starts_from_a_run_without_weights(bare, refused):
    says = refused("train", "-m", *SMALL, f"init_from=null,{bare}")
    assert f"run {bare} keeps no weights" in says
    assert "none was started" in says


def test_weights_that_are_damaged(full, refused, caplog):
    (path,) = (full / "checkpoint").iterdir()
    damage(path)
    assert refused("eval", full.name).endswith(
        f"run {full.name} has no checkpoint that is whole: train it again with fresh=true\n"
    )
    assert f"{path} is damaged (its checksum does not fit); there is none before" in caplog.text


def test_files_of_a_run_that_are_torn(full, refused):
    for name in ("config.json", "result.json", "tokenizer.json"):
        whole = (full / name).read_bytes()
        (full / name).write_bytes(whole[: len(whole) // 2])
        assert str(full / name) in refused("eval", full.name) or name in refused("eval", full.name)
        (full / name).write_bytes(whole)


def test_names_of_runs_and_studies(there, refused, bare):
    (label,) = (path.name for path in (there / "studies").iterdir())
    assert f"study 'swep' is not one of {label}; did you mean 'sweep'?" in refused("status", "swep")
    assert f"study 'swep' is not one of {label}; did you mean" in refused("resume", "swep")
    assert f"run 'zzz' is not a run of {label}" in refused("retry", "sweep", "zzz")
    assert f"run '{bare}' is not a run of {label}" in refused("retry", "sweep", bare)


def test_there_is_nothing_to_try_again(there, run):
    (label,) = (path.name for path in (there / "studies").iterdir())
    assert run("retry", "sweep") == (0, f"{label}: no run failed\n", "")
    assert run("retry", label, "--diverged") == (0, f"{label}: no run diverged\n", "")


def test_a_sweeps_file_that_is_torn(there, refused, run):
    (path,) = there.glob("studies/*/study.json")
    path.write_bytes(path.read_bytes()[:100])
    assert "no studies in" in refused("status")
    assert "study 'sweep' is not there" in refused("resume", "sweep")
    status, out, err = run(*SWEEP)
    assert (status, err) == (0, "")
    assert "2 runs: 0 trained, 2 already done" in out
    assert run("status", "sweep")[0] == 0


def test_a_run_that_another_process_trains(full, refused, run):
    code = (
        "import sys; from pathlib import Path; from lab.runs.store import RunFolder\n"
        "with RunFolder(Path(sys.argv[1])).locked(): print('held', flush=True); sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code, full], **pipes) as process:
        assert process.stdout.readline() == "held\n"
        seed = "seed=1" if '"seed": 1,' in (full / "config.json").read_text() else "seed=2"
        says = refused("train", *SMALL, seed, "fresh=true")
        assert f"run {full.name} is being trained by process {process.pid} on " in says
        assert run("gc", "--weights")[1].splitlines()[-1] == "left alone: 1 run that a process trains now"
        process.kill()


@pytest.mark.parametrize("line", ["status", "status sweep", "gc", "gc --dry-run", "table"])
def test_reading_needs_no_writing(line, there, run):
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a disk read-only needs root and mount")
    if subprocess.run(["mount", "--bind", there, there], capture_output=True, check=False).returncode:
        pytest.skip("this container does not allow mount")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", there], check=True)
        status, out, err = run(*line.split(), *([str(there)] if line == "table" else []))
        assert (status, err) == (0, "")
        assert out
    finally:
        subprocess.run(["umount", "-l", there], check=True)


@pytest.mark.parametrize("command", ["resume sweep", "retry sweep RUN"])
def test_going_on_needs_writing(command, there, full, refused):
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a disk read-only needs root and mount")
    (full / "result.json").unlink()
    if subprocess.run(["mount", "--bind", there, there], capture_output=True, check=False).returncode:
        pytest.skip("this container does not allow mount")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", there], check=True)
        says = refused(*command.replace("RUN", full.name).split())
        assert "cannot be written" in says
        assert "Read-only file system" in says or "no permission to write" in says
        assert "LAB_OUTPUTS" in says
    finally:
        subprocess.run(["umount", "-l", there], check=True)


def test_a_killed_run_says_so_in_the_status(there, full, run):
    (full / "result.json").write_text((full / "result.json").read_text().replace('"done"', '"running"'))
    lines = (full / "attempts.jsonl").read_text().splitlines()
    (full / "attempts.jsonl").write_text("\n".join(lines[:-1]) + "\n")
    (full / "lock").write_text("process 1 on nowhere")
    status, out, err = run("status", "sweep")
    assert (status, err) == (0, "")
    assert "1 done, 1 partial" in out
    assert signal.SIGKILL.name not in out  # nobody saw how
    assert run("resume", "sweep")[0] == 0
    assert "2 done" in run("status", "sweep")[1]
