"""The same run twice; pairs of runs; what result.json and config.json hold."""

import json
import re
import socket

import pytest

from lab.config import RunConfig
from lab.files import write_json
from lab.training import summary
from lab.training.plan import plan
from lab.training.state import new_state
from training.folders import assert_same, steps

KEYS = {
    "schema", "id", "status", "reason", "config", "steps_done", "early_loss", "final_loss", "bits_per_byte",
    "spikes", "layers", "clipped_share", "parameters", "flops_per_token", "flops_formula", "tokens", "epochs",
    "tokens_per_s", "peak_memory_mib", "threads", "attention_path", "env", "hashes", "match", "init_from",
    "ranks", "stacked", "compile_s", "init_loss", "best_loss", "best_step", "val_losses", "bad_step",
}  # fmt: skip


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param((), marks=pytest.mark.slow),
        pytest.param(("precision=bf16", "train.steps=8", "model.max_seq_len=16"), marks=pytest.mark.slow),
        ("regularization=[dropout,weight_decay]", "stability=[qk_norm,z_loss]", "train.micro_batch_size=2"),
    ],
    ids=["fp32", "bf16", "noise"],
)
def test_equal_bit_for_bit(train, elsewhere, overrides):
    assert_same(train(*overrides).folder, elsewhere(*overrides))


@pytest.mark.slow
def test_two_threads(train, elsewhere):
    assert_same(train("threads=2").folder, elsewhere("threads=2"))


@pytest.mark.slow
def test_seeds_differ(train):
    one, two = train("seed=1"), train("seed=2")
    assert one.folder != two.folder
    assert one.result["final_loss"] != two.result["final_loss"]
    assert (one.folder / "metrics.jsonl").read_bytes() != (two.folder / "metrics.jsonl").read_bytes()
    assert one.result["hashes"]["batches"] != two.result["hashes"]["batches"]


@pytest.mark.slow
def test_a_process_of_its_own_gives_the_same(lab, words, outputs, elsewhere):
    done = lab("train", *words())
    assert (done.returncode, done.stderr) == (0, "")
    (folder,) = (outputs / "runs").iterdir()
    assert_same(folder, elsewhere())


def test_what_a_run_leaves(train, config, book):
    trained = train("train.eval_every=6")
    folder = trained.folder
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "attempts.jsonl", "checkpoint", "config.json", "env.json", "metrics.jsonl", "result.json", "run.log",
        "timing.jsonl", "tokenizer.json",
    }  # fmt: skip
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert steps(folder) == list(range(1, 21))
    assert all(line.keys() - {"val_loss"} == {"step", "loss", "grad_norm", "lr"} for line in lines)
    assert [line["step"] for line in lines if "val_loss" in line] == [3, 6, 12, 18, 20]
    timing = [json.loads(line) for line in (folder / "timing.jsonl").read_text().splitlines()]
    assert [line["step"] for line in timing] == list(range(1, 21))
    assert all(line["wall_s"] > 0 for line in timing)

    text = (folder / "result.json").read_text()
    result = json.loads(text, parse_constant=pytest.fail)
    assert result == {"schema": 1, **trained.result}
    assert result.keys() == KEYS
    assert (result["status"], result["reason"], result["steps_done"], result["threads"]) == ("done", None, 20, 1)
    assert result["early_loss"] == lines[2]["val_loss"]
    assert result["final_loss"] == lines[-1]["val_loss"]
    assert result["init_loss"] == lines[0]["loss"]
    curve = [[line["step"], line["val_loss"]] for line in lines if "val_loss" in line]
    assert result["val_losses"] == curve
    assert [result["best_step"], result["best_loss"]] == min(curve, key=lambda pair: pair[1])
    assert result["bad_step"] is None
    assert result["hashes"].keys() == {"data", "tokenizer", "batches", "tensors"}
    assert result["config"]["data"]["file"] == ["book.txt"]
    assert socket.gethostname() not in re.findall(r"[\w.-]+", text)
    assert not re.search(r"\d\d:\d\d|20\d\d-\d\d", text)
    assert not re.search(r'"[/~\\]', text)

    stored = json.loads((folder / "config.json").read_text())
    assert RunConfig.decode(stored) == plan(config("train.eval_every=6")).config
    assert stored["data"]["file"] == [str(book)]


def test_many_validations_are_thinned_and_the_last_is_kept():
    lines = [{"step": step, "loss": 1.0} | ({"val_loss": 1 / step} if step % 2 else {}) for step in range(1, 702)]
    lines[350]["val_loss"] = 1e-3
    found = summary.validations(lines)
    assert (found["best_loss"], found["best_step"]) == (1e-3, 351)
    assert [step for step, _ in found["val_losses"]] == list(
        range(701 - 8 * 87, 702, 8)
    )  # 351 of them, each fourth
    assert summary.validations([{"step": 1, "loss": 1.0}]) == {
        "best_loss": None, "best_step": None, "val_losses": [],
    }  # fmt: skip


@pytest.mark.slow
def test_the_first_loss_is_that_of_a_guess(train):
    (first, *_) = (train("train.steps=1").folder / "metrics.jsonl").read_text().splitlines()
    assert json.loads(first)["loss"] == pytest.approx(5.549, abs=0.1)  # ln 257


def hashes(config, *overrides):
    planned = plan(config(*overrides))
    tensors = summary.tensor_hashes(new_state(planned.config, planned.architecture).model)
    return planned.batches.hash(20), tensors


@pytest.mark.slow
def test_variants_of_a_seed_are_paired(config):
    batches, tensors = hashes(config, "norm=rmsnorm")
    for override in ("norm=layernorm", "activation=gelu", "attn=mqa", "model.n_layers=3"):
        other_batches, other = hashes(config, override)
        assert other_batches == batches
        shared = tensors.keys() & other.keys()
        differ = {name for name in shared if tensors[name] != other[name]}
        if override == "norm=layernorm":
            assert shared == tensors.keys()
            assert all(name.endswith("norm.bias") for name in other.keys() - shared)
        assert len(shared) > 9
        # only another shape, or another depth in GPT-2's scale of what writes to the residual stream
        allowed = {
            "activation=gelu": r"\.ffn\.",
            "attn=mqa": r"\.attn\.(k|v)\.",
            "model.n_layers=3": r"\.out\.",
        }.get(override)
        assert all(allowed and re.search(allowed, name) for name in differ)


def test_another_seed_shares_nothing_drawn(config):
    batches, tensors = hashes(config)
    for override in ("seed=2", "study_seed=1"):
        other_batches, other = hashes(config, override)
        assert other_batches != batches
        assert other.keys() == tensors.keys()
        same = {name for name in tensors if tensors[name] == other[name]}
        assert same == {name for name in tensors if name.endswith(".gain")}


def test_a_failed_write_leaves_the_result_that_was_there(tmp_path):
    path = tmp_path / "result.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"a": float("nan")})
    assert json.loads(path.read_text()) == {"a": 1}
    assert list(tmp_path.glob(".*")) == []
