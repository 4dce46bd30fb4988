"""What is asked of Slurm and made of its answers; tests/slurm has the real one."""

from types import SimpleNamespace

import pytest
import yaml

from lab.errors import LabError
from lab.paths import conf_dir
from lab.study import cluster

JOBS = [SimpleNamespace(job_id="7_0"), SimpleNamespace(job_id="7_1"), SimpleNamespace(job_id="7_2")]


@pytest.fixture
def squeue(tmp_path, monkeypatch):
    """Let ``squeue`` say something."""

    def says(text, *, status=0, to=1):
        program = tmp_path / "squeue"
        program.write_text(f"#!/bin/sh\necho '{text}' >&{to}\nexit {status}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return says


def there():
    return cluster.Cluster("slurm", {})._there(JOBS)


def test_jobs_that_the_queue_still_has(squeue):
    squeue("7_1\n7_2\n8_0")
    assert there() == {"7_1", "7_2"}


def test_jobs_that_slurm_has_forgotten_are_gone(squeue):
    squeue("slurm_load_jobs error: Invalid job id specified", status=1, to=2)
    assert there() == set()


def test_a_controller_that_does_not_answer_loses_no_job(squeue):
    squeue("slurm_load_jobs error: Unable to contact slurm controller", status=1, to=2)
    assert there() == {"7_0", "7_1", "7_2"}


@pytest.mark.parametrize(("state", "in_grace"), [("RUNNING", True), ("COMPLETING", False), ("", False)])
def test_a_job_that_slurm_lets_run_is_in_grace(squeue, monkeypatch, state, in_grace):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    squeue(state)
    assert cluster._is_in_grace() is in_grace


def test_without_submitit_a_line_says_what_to_install(monkeypatch):
    from hydra_plugins.lab import submitit

    monkeypatch.setattr(submitit, "find_spec", lambda name: None)
    with pytest.raises(LabError, match=r"pip install 'ablation-lab\[slurm\]'"):
        submitit.SlurmLauncher().setup(hydra_context=None, task_function=None, config=None)


def test_submitit_knows_every_key_of_the_launchers():
    from submitit.slurm.slurm import SlurmExecutor

    from hydra_plugins.lab.submitit import SHARED

    tree = yaml.safe_load((conf_dir() / "hydra/launcher/submitit_slurm.yaml").read_text())
    keys = tree.keys() - {"_target_", "max_num_timeout", *SHARED}
    assert keys <= SlurmExecutor._valid_parameters()
