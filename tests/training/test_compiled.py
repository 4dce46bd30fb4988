"""A compiled model: when it is taken, that it trains the same, and that its validation is everybody's."""

import json
import logging

import pytest

from lab.config import Device
from lab.errors import ConfigError
from lab.runs.metrics import column, read_lines
from lab.training import compiled
from lab.training.compiled import FROM_STEPS, chosen
from lab.training.resolve import resolve


def native(test):
    """Compiles for real."""
    test = pytest.mark.skipif(compiled.missing(Device.cpu) is not None, reason="no C++ compiler: make ci-system")(
        test
    )
    test = pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")(test)
    return pytest.mark.slow(test)


@pytest.fixture
def lacks(monkeypatch):
    """Say what the machine lacks."""
    return lambda what: monkeypatch.setattr(compiled, "missing", lambda device: what)


@pytest.mark.parametrize(
    ("wanted", "steps", "what", "taken"),
    [
        (None, FROM_STEPS, None, True),
        (None, FROM_STEPS - 1, None, False),
        (None, FROM_STEPS, "a compiler", False),
        (True, 1, None, True),
        (False, FROM_STEPS, None, False),
        (False, FROM_STEPS, "a compiler", False),
    ],
)
def test_long_runs_are_compiled_where_that_can_be(lacks, wanted, steps, what, taken):
    lacks(what)
    assert chosen(wanted, device=Device.cpu, steps=steps) is taken


def test_another_machine_is_taken_to_have_a_compiler(lacks):
    lacks("a compiler")
    assert chosen(True, device=Device.cuda, steps=1, here=False) is True
    assert chosen(None, device=Device.cuda, steps=FROM_STEPS, here=False) is True


def test_a_machine_without_a_compiler_says_so(lacks):
    lacks("a C++ compiler (g++)")
    with pytest.raises(ConfigError, match=r"^compile=true needs a C\+\+ compiler \(g\+\+\), which this machine"):
        chosen(True, device=Device.cpu, steps=1)


def test_the_compiler_is_looked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert compiled.missing(Device.cpu) == "a C++ compiler (g++)"
    (tmp_path / "g++").touch(0o755)
    assert compiled.missing(Device.cpu) is None


def test_a_resolved_run_has_it_decided(config):
    assert resolve(config("compile=null", "train.steps=3")).compile is False


@native
def test_a_compiled_run_is_the_run(train, outputs, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    caplog.set_level(logging.INFO)
    words = ("attn=gqa", "attn.n_kv_heads=1", "stability=[z_loss]", "train.steps=8")
    plain, quick = (train(*words, f"compile={value}") for value in ("false", "true"))
    assert plain.folder != quick.folder
    assert "compiling at the first step" in caplog.text
    one, other = (column(read_lines(each.folder / "metrics.jsonl"), "loss") for each in (plain, quick))
    assert other == pytest.approx(one, rel=1e-4)
    assert quick.result["final_loss"] == pytest.approx(plain.result["final_loss"], rel=1e-4)
    assert plain.result["compile_s"] is None
    assert 0.5 < quick.result["compile_s"] < 600
    assert quick.result["hashes"]["tensors"] == plain.result["hashes"]["tensors"]
    assert json.loads((quick.folder / "config.json").read_text())["compile"] is True


@native
def test_a_compiled_run_goes_on_byte_for_byte(train, outputs, tmp_path, monkeypatch, kill_at):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    words = ("compile=true", "train.steps=8", "train.checkpoint_every=3")
    whole = (train(*words).folder / "metrics.jsonl").read_bytes()
    monkeypatch.setenv("LAB_OUTPUTS", str(tmp_path / "other"))
    kill_at(5, *words)
    assert (train(*words).folder / "metrics.jsonl").read_bytes() == whole
