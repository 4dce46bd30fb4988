"""One run on several ranks that torchrun starts: that of one process within roundings; killed, failed, resumed."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from lab.errors import ConfigError
from lab.runs.store import RunFolder, read_results
from lab.training import gradients
from lab.training.ranks import ALONE, Ranks
from training.folders import assert_same, result_of, resumed_from, steps, the_run, wait_for_step

LONG = ("train.steps=80", "train.eval_every=null", "model.dim=64")
"""Long enough to be caught half-way; a width at which no batch makes more of a rounding than a tenth of the bound.

At width 32 the gradient of one batch of the 80 does: its norm moves by 1.9e-5 where a processor rounds otherwise.
"""

PATIENCE_S = 300
"""Seconds until a test gives up: several processes start here, on machines that may be busy."""

MEAN_LSE = (
    "stability=[qk_norm,z_loss]",
    "stability.z_loss.variant=squared_mean_lse",
    "stability.z_loss.weight=1",
    "init=normal",
    "init.std=0.3",
    "optim.grad_clip=100",
)
"""A penalty on a mean over what is computed at once, where it differs from one half of a batch to the other."""

VARIANTS = {
    "default": ("train.eval_every=4",),
    "tied": (
        "model.tie_embeddings=true",
        "regularization=dropout",
        *(f"regularization.dropout.{place}=0" for place in ("embed", "attention", "residual")),
    ),
    "mean-lse": MEAN_LSE,
    "dsa": ("attn=dsa", "attn.top_k=8", "model.n_layers=2"),
    "accumulated": (*MEAN_LSE, "train.batch_size=8", "train.micro_batch_size=2"),
}


@pytest.fixture
def torchrun(words):
    """Start ``lab train`` on several ranks, in a session of its own; all is killed when the test ends."""
    started = []

    def start(*overrides, ranks=2, options=(), entry=("-m", "lab"), **environment):
        launcher = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc_per_node={ranks}",
            *options,
        ]
        process = subprocess.Popen(
            [*launcher, *map(str, entry), "train", *words(*overrides)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ | environment,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        workers = children(process.pid)
        process.kill()
        for worker in workers:
            kill(worker)
        process.communicate()


@pytest.fixture
def trained(torchrun):
    """Train on several ranks to the end: standard output and error, ours alone."""

    def run(*overrides, status=0, **options):
        process = torchrun(*overrides, **options)
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == status, err
        return out, said_in(err)

    return run


def said_in(err):
    """What lab says on standard error, and not torchrun, nor progress of a machine that is slow today."""
    return [line for line in err.splitlines() if line.startswith("lab train: ")]


def children(pid):
    """Ids of the processes that one has started."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def kill(pid):
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def assert_close(folder, single):
    """Two folders hold the same run but for roundings."""
    assert folder.name == single.name
    assert len(lines(folder)) == len(lines(single))
    for found, wanted in zip(lines(folder), lines(single), strict=True):
        assert found.keys() == wanted.keys()
        for key, value in wanted.items():
            assert found[key] == pytest.approx(value, rel=1e-5), (key, wanted["step"])
    found, wanted = result_of(folder), result_of(single)
    for result in (found, wanted):
        del result["ranks"]
        result["spikes"] = None
    numbers = ("final_loss", "early_loss", "init_loss", "best_loss", "bits_per_byte", "clipped_share")
    for key in numbers:
        assert found.pop(key) == pytest.approx(wanted.pop(key), rel=1e-5), key
    for pair, other in zip(found.pop("val_losses"), wanted.pop("val_losses"), strict=True):
        assert pair == pytest.approx(other, rel=1e-5)
    assert found == wanted


def until(condition, *, timeout_s=PATIENCE_S):
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("overrides", [pytest.param(words, id=name) for name, words in VARIANTS.items()])
def test_two_ranks_are_one_process(trained, elsewhere, outputs, tmp_path, overrides):
    """Every loss, gradient norm and validation; with an empty cache, which the first rank fills."""
    out, err = trained(*overrides, LAB_CACHE=str(tmp_path / "cache"))
    folder = the_run(outputs)
    assert (result_of(folder)["ranks"], err) == ([2], [])
    assert out.count("done: val loss") == out.count(" · 2 ranks") == 1
    assert_close(folder, elsewhere(*overrides))


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@pytest.mark.parametrize("overrides", [pytest.param(words, id=name) for name, words in VARIANTS.items()])
def test_two_gpus_are_one(trained, elsewhere, outputs, overrides):
    trained("device=cuda", *overrides)
    found, single = lines(the_run(outputs)), lines(elsewhere("device=cuda", *overrides))
    assert [line["loss"] for line in found] == pytest.approx([line["loss"] for line in single], rel=1e-4)


@pytest.mark.slow
def test_noise_is_each_ranks_own_and_can_be_repeated(trained, elsewhere, outputs, tmp_path):
    """Losses with dropout differ from one process's, but not from one time to the next."""
    dropout = ("regularization=dropout", "regularization.dropout.residual=0.3")
    trained(*dropout)
    trained(*dropout, LAB_OUTPUTS=str(tmp_path))
    assert_same(the_run(tmp_path), the_run(outputs))
    found, single = lines(the_run(outputs)), lines(elsewhere(*dropout))
    assert found[5]["loss"] != pytest.approx(single[5]["loss"], rel=1e-4)
    assert found[-1]["loss"] == pytest.approx(single[-1]["loss"], rel=0.1)


@pytest.mark.slow
def test_killed_on_two_ranks_and_resumed_on_one(torchrun, train, elsewhere, outputs):
    process = torchrun(*LONG)
    folder = wait_for_step(outputs, 11, timeout_s=PATIENCE_S)
    for pid in (process.pid, *children(process.pid)):
        kill(pid)
    until(lambda: not RunFolder(folder).is_locked())
    ((result,), _) = read_results([outputs])
    assert (result["status"], result["ranks"]) == ("partial", [2])
    kept = len(steps(folder))
    assert 11 <= kept < 80
    assert train(*LONG).result["ranks"] == [2, 1]
    (step,) = resumed_from(folder)
    assert kept - 10 < step <= kept
    assert_close(folder, elsewhere(*LONG))


@pytest.mark.slow
def test_ranks_end_with_torchrun(torchrun, outputs):
    """They are in sessions of their own, so that nobody kills them with it."""
    process = torchrun("train.steps=100000")
    folder = wait_for_step(outputs, 11, timeout_s=PATIENCE_S)
    workers = children(process.pid)
    assert len(workers) == 2
    os.killpg(process.pid, signal.SIGKILL)
    until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers), timeout_s=20)
    ((result,), _) = read_results([outputs])
    assert (result["status"], RunFolder(folder).is_locked()) == ("partial", False)


@pytest.mark.slow
def test_a_run_of_one_process_goes_on_with_two_ranks(kill_at, trained, elsewhere, outputs):
    kill_at(13)
    trained()
    folder = the_run(outputs)
    assert (resumed_from(folder), result_of(folder)["ranks"]) == ([10], [1, 2])
    assert_close(folder, elsewhere())


@pytest.mark.slow
def test_three_ranks_go_on_bit_for_bit(torchrun, trained, outputs, tmp_path):
    """Which DistributedDataParallel does not; one rank is told to stop, and all stop after the same step."""
    words = (*LONG, "train.batch_size=6")
    process = torchrun(*words, ranks=3)
    folder = wait_for_step(outputs, 11, timeout_s=PATIENCE_S)
    os.kill(children(process.pid)[1], signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE_S)
    kept = len(steps(folder))
    assert 11 <= kept < 80
    assert said_in(err) == [f"lab train: stopped after step {kept} of 80"]
    assert (result_of(folder)["status"], RunFolder(folder).is_locked()) == ("partial", False)
    trained(*words, ranks=3)
    assert resumed_from(folder) == [kept]
    trained(*words, ranks=3, LAB_OUTPUTS=str(tmp_path))
    assert_same(folder, the_run(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_torchrun_saves(torchrun, train, elsewhere, outputs, number):
    process = torchrun(*LONG)
    folder = wait_for_step(outputs, 11, timeout_s=PATIENCE_S)
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE_S)
    kept = len(steps(folder))
    assert process.returncode != 0
    assert said_in(err) == [f"lab train: stopped after step {kept} of 80"]
    assert result_of(folder)["status"] == "partial"
    train(*LONG)
    assert resumed_from(folder) == [kept]
    assert_close(folder, elsewhere(*LONG))


FAULTY = """
import os, signal
from lab.cli import main
from lab.training import loop

real = loop.train_step

def train_step(config, state, *others):
    first_try = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    if os.environ["RANK"] == "{rank}" and state.step == 6 and first_try:
        {fault}
    return real(config, state, *others)

loop.train_step = train_step
main()
"""

FAULTS = {
    "raises": (1, "raise RuntimeError('the roof' + chr(10) + 'fell in')", "rank 1: RuntimeError: the roof fell in"),
    "first-raises": (0, "raise RuntimeError('the roof fell in')", "RuntimeError: the roof fell in"),
    "killed": (
        1,
        "os.kill(os.getpid(), signal.SIGKILL)",
        "ExchangeError: an exchange with the other ranks came to",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("rank", "fault", "reason"), FAULTS.values(), ids=FAULTS)
def test_one_that_fails_ends_all(trained, train, outputs, tmp_path, rank, fault, reason):
    """At once, with the reason in the result and, for people, in one line."""
    script = tmp_path / "faulty.py"
    script.write_text(FAULTY.format(rank=rank, fault=fault))
    _, err = trained(entry=(script,), status=1)
    folder = the_run(outputs)
    assert time.time() - (folder / "metrics.jsonl").stat().st_mtime < 15
    result = result_of(folder)
    assert (result["status"], result["steps_done"]) == ("failed", 6)
    assert result["reason"].startswith(reason)
    said = f"lab train: run {folder.name} failed: {result['reason']}; see {folder / 'run.log'}"
    assert err == ([f"lab train: {reason}"] if fault.startswith("raise") and rank else []) + [said] or err[
        ::-1
    ] == [
        f"lab train: {reason}",
        said,
    ]
    assert "Traceback" in (folder / "run.log").read_text()
    assert train().result["ranks"] == [2, 1]
    assert resumed_from(folder) == [5]


@pytest.mark.slow
def test_torchrun_begins_again(trained, elsewhere, outputs, tmp_path):
    """Its store knows of the first time; the ranks of the second do not listen to it."""
    script = tmp_path / "faulty.py"
    script.write_text(FAULTY.format(rank=1, fault=FAULTS["killed"][1]))
    trained(entry=(script,), options=("--max-restarts=1",))
    folder = the_run(outputs)
    assert resumed_from(folder) == [5]
    assert_close(folder, elsewhere())


@pytest.mark.slow
def test_a_batch_that_cannot_be_shared_is_refused_once(trained, outputs):
    _, err = trained("train.batch_size=3", status=1)
    assert err == ["lab train: train.batch_size 3 must be divisible by 2 ranks"]
    assert not outputs.exists()


REFUSED = "a sweep is refused under torchrun: it trains each run in a process of its own; start it without torchrun"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("-m", "seed=1,2"), REFUSED),
        (("study=norms",), REFUSED),
        (("norm=rmsnrom",), "norm 'rmsnrom' is not one of dyt, "),
        ((), "WORLD_SIZE is 2, but the other ranks cannot be joined ("),
    ],
    ids=["sweep", "study", "typo", "without torchrun"],
)
def test_what_is_refused_before_ranks_join_is_said_once(lab, words, outputs, monkeypatch, argv, said):
    monkeypatch.setenv("WORLD_SIZE", "2")
    done = lab("train", *words(*argv))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"lab train: {said}")
    assert done.stderr.count("\n") == 1
    monkeypatch.setenv("LOCAL_RANK", "1")
    done = lab("train", *words(*argv))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not outputs.exists()


class Several(Ranks):
    """One of several ranks, for what needs no exchange."""

    def __init__(self, rank, size, here=1):
        self.rank, self.size, self.here = rank, size, here


def test_ranks_share_rows(config):
    assert [Several(rank, 3).rows(12) for rank in range(3)] == [slice(0, 4), slice(4, 8), slice(8, 12)]
    assert ALONE.rows(12) == slice(0, 12)
    with pytest.raises(ConfigError, match=r"^train.batch_size 4 must be divisible by 3 ranks$"):
        Several(0, 3).check(config().train)
    with pytest.raises(
        ConfigError, match=r"^train.batch_size 4 must be divisible by 4 ranks × train.micro_batch_size 2$"
    ):
        Several(0, 4).check(config("train.micro_batch_size=2").train)
    for size in (1, 2, 4):
        Several(0, size).check(config().train)


def test_ranks_share_threads_of_a_machine():
    assert [Several(0, 4, here=here).threads(8) for here in (1, 2, 4)] == [8, 4, 2]
    assert Several(0, 4, here=4).threads(1) == 1
    assert ALONE.threads(8) == 8


@pytest.fixture
def alone_in_a_group():
    """A process group of one."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("alone_in_a_group")
def test_gradients_come_back_as_they_went(monkeypatch):
    """In buckets of any size, over several passes, where some have none and some are frozen."""
    torch.manual_seed(1)
    model = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)])
    model[1].requires_grad_(False)
    x = torch.randn(3, 4)

    def loss():
        return model[3](model[1](model[0](x))).square().sum()

    (2 * loss()).backward()
    wanted = {name: p.grad for name, p in model.named_parameters()}
    assert wanted["1.weight"] is wanted["2.weight"] is None
    for size, buckets in ((1 << 20, 1), (70, 3), (1, 6)):
        monkeypatch.setattr(gradients, "BUCKET_BYTES", size)
        assert len(gradients._buckets(model)) == buckets
        model.zero_grad()
        loss().backward()
        with gradients.summed(model):
            loss().backward()
        for name, parameter in model.named_parameters():
            if wanted[name] is None:
                assert parameter.grad is None
            else:
                assert torch.equal(parameter.grad, wanted[name])
        assert not any(parameter._post_accumulate_grad_hooks for parameter in model.parameters())
