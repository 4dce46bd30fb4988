"""`lab doctor`: what it says of a machine, of what is chosen on it, and of what is wrong with it."""

import json

import pytest

from lab import cli
from lab.commands import _services, _warnings, doctor
from lab.commands._warnings import warnings
from lab.compose import compose_config
from lab.training import machine
from lab.training.compiled import FROM_STEPS
from lab.training.resolve import bf16_is_faster, resolve, usable_cores

GIB = 2**30


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Measurements of a moment, and no network."""
    monkeypatch.setattr(machine, "PRODUCTS", (16, 32))
    monkeypatch.setattr(machine, "PRODUCT_S", 0.001)
    monkeypatch.setattr(machine, "COPIED", 1 << 16)
    monkeypatch.setattr(machine, "WRITTEN", 1 << 16)
    monkeypatch.setattr("lab.track.wandb.answers", lambda url: False)
    for name in (*_warnings.THREAD_COUNTS, *_warnings.PINNING, "WANDB_MODE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def said(capsys, monkeypatch):
    """Run `lab doctor`: status, output, errors."""

    def call(*argv):
        capsys.readouterr()
        try:
            status = cli._run(["doctor", *argv])
        except SystemExit as ended:
            status = ended.code
        output = capsys.readouterr()
        return status, output.out, output.err

    return call


@pytest.mark.slow
def test_facts_are_those_of_the_code_that_chooses(said, outputs):
    status, out, err = said("--format", "json")
    assert (status, err) == (0, "")
    facts = json.loads(out)
    chosen, config = facts["chosen"], resolve(compose_config([]))
    assert chosen["device"] == config.device
    assert chosen["precision"] == config.precision
    assert chosen["threads"] == config.threads == usable_cores()
    assert chosen["bf16_is_faster"] == bf16_is_faster(config.device)
    assert chosen["attention_path"]["128"] == config.attn_path
    assert chosen["compile"]["from_steps"] == FROM_STEPS
    if config.device == "cpu":
        assert chosen["sweep"] == {"slots": usable_cores(), "threads": 1}
    assert facts["missing"] == []
    assert facts["services"]["wandb"]["answers"] is False
    assert not outputs.exists()


@pytest.mark.slow
def test_a_page_for_people(said, monkeypatch):
    status, out, err = said()
    assert (status, err) == (0, "")
    assert max(map(len, out.splitlines())) <= doctor.PIPE_WIDTH
    for label in ("processor", "memory", "products", "outputs", "Slurm", "W&B", "precision", "sweep", "attention"):
        assert any(line.startswith(f"{label} ") for line in out.splitlines()), label
    monkeypatch.setenv("KMP_AFFINITY", "compact")
    monkeypatch.setenv("WANDB_MODE", "offline")
    status, out, err = said()
    assert "KMP_AFFINITY=compact" in out
    assert "unset KMP_AFFINITY" in out
    assert "offline by WANDB_MODE=offline" in out
    assert status == 0


@pytest.mark.slow
def test_what_makes_training_fail_is_named_and_is_the_status(said, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("LAB_OUTPUTS", str(tmp_path / "file/below"))
    status, out, err = said()
    assert status == 1
    assert err.startswith("lab doctor: lab train would fail: nothing can be written to")
    assert err.count("\n") == 1
    assert "set LAB_OUTPUTS" in " ".join(out.split())


@pytest.fixture
def fine():
    """Facts with which nothing is wrong."""
    place = {"folder": "outputs", "free": 100 * GIB, "bytes_per_s": 1e9, "reason": None}
    return {
        "processor": {"usable_cores": 8, "logical_cores": 8, "quota": None, "load": 0.1},
        "memory": {"total": 32 * GIB, "available": 30 * GIB, "limit": None, "swapped": 0},
        "gpus": [],
        "torch": {"version": "2.13.0+cpu", "mkldnn": True},
        "disk": {"outputs": place, "cache": place},
        "missing": [],
        "chosen": {"error": None},
    }


def change(facts, section, **values):
    return facts | {section: facts[section] | values}


def test_nothing_is_wrong_with_a_good_machine(fine):
    assert warnings(fine, "2.9") == []


@pytest.mark.parametrize(
    ("section", "values", "words", "fails"),
    [
        ("torch", {"version": "2.4.1"}, ["torch 2.4.1 is older than 2.9", "pip install 'torch>=2.9'"], True),
        ("torch", {"mkldnn": False}, ["oneDNN"], False),
        ("processor", {"quota": 2.5}, ["2.5 cores' worth", "threads=2"], False),
        ("processor", {"usable_cores": 2}, ["2 of 8 cores"], False),
        ("processor", {"usable_cores": 1, "logical_cores": 1}, ["one core"], False),
        ("processor", {"load": 7.0}, ["load 7.0 on 8 cores"], False),
        ("memory", {"available": GIB}, ["1.0 GiB of memory left", "micro_batch_size"], False),
        ("memory", {"limit": GIB}, ["1.0 GiB of memory left"], False),
        ("memory", {"swapped": 2 * GIB}, ["2.0 GiB are swapped out"], False),
        ("chosen", {"error": "device 'cuda' is not on this machine"}, ["device 'cuda'"], True),
    ],
)
def test_each_warning_says_what_to_do(section, values, words, fails, fine):
    (found,) = warnings(change(fine, section, **values), "2.9")
    for word in words:
        assert word in f"{found.what}: {found.do}"
    assert found.do
    assert found.fails == fails


@pytest.mark.parametrize(("free", "fails"), [(GIB, False), (1 << 20, True)])
def test_disks_that_fill(free, fails, fine):
    disk = fine["disk"]
    full = fine | {"disk": disk | {"outputs": disk["outputs"] | {"free": free}}}
    (found,) = warnings(full, "2.9")
    assert "LAB_OUTPUTS" in found.do
    assert found.fails == fails


def test_packages_that_are_not_there(fine):
    (found,) = warnings(fine | {"missing": ["safetensors"]}, None)
    assert found.fails
    assert "pip install safetensors" in found.do


def test_what_threads_are_set_by(fine, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    (found,) = warnings(fine, None)
    assert "OMP_NUM_THREADS=3" in found.what
    assert "threads=3" in found.do


def test_extras_and_versions_are_read_from_the_package(monkeypatch):
    lines = [
        "torch>=2.9",
        "gone<4,>=3",
        "submitit>=1.5; extra == 'slurm'",
        "gone; extra == 'other'",
        "x; extra == 'dev'",
    ]
    monkeypatch.setattr(_services, "_requirements", lambda: lines)
    monkeypatch.setattr(_services, "_is_installed", lambda package: package != "gone")
    assert _services.extras() == {"slurm": True, "other": False}
    assert _services.missing() == ["gone"]
    assert (_services.least("torch"), _services.least("gone"), _services.least("nothing")) == ("2.9", "3", None)


def test_offline_is_asked_of_nobody(monkeypatch):
    monkeypatch.setattr("lab.track.wandb.answers", lambda url: pytest.fail("asked"))
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found = _services.services()
    assert found["hub"]["offline_by"] == ["HF_HUB_OFFLINE"]
    assert found["wandb"]["mode"] == "offline"


def test_slurm_says_its_version(monkeypatch, tmp_path):
    sinfo = tmp_path / "sinfo"
    sinfo.write_text("#!/bin/sh\necho slurm 23.11\n")
    sinfo.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert _services._slurm() == "slurm 23.11"
    sinfo.write_text("#!/bin/sh\nexit 1\n")
    assert _services._slurm() is None


def test_no_arguments_are_taken(said):
    status, out, err = said("norm=rmsnorm")
    assert (status, out) == (2, "")
    assert "'norm=rmsnorm'" in err
    assert err.count("\n") == 1
