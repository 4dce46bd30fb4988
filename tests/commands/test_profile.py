"""`lab profile`: tables and pictures of small steps, and nothing left behind."""

import csv
import io
import json

import pytest

from lab import cli
from lab.commands import profile
from lab.figure import _step
from lab.figure._style import STYLES, context
from lab.report import profile_table
from lab.report.formats import FORMATS
from lab.training.profile.classes import CLASSES

BEGINNINGS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}

MIB = 2**20


@pytest.fixture
def facts():
    """A measurement, made up."""
    shares = [0.5, 0.2, 0.05, 0.1, 0.05, 0.05, 0.01, 0.01, 0.03]
    return {
        "machine": "a machine",
        "torch": "2.0",
        "device": "cpu",
        "precision": "fp32",
        "threads": 2,
        "attention_path": ["sdpa"],
        "model": {"dim": 128, "n_layers": 4, "n_heads": 4, "max_seq_len": 128, "vocab_size": 2048},
        "batch_size": 16,
        "micro_batch_size": None,
        "tokens": 2048,
        "steps": 10,
        "compiled": None,
        "step_ms": 200.0,
        "step_quartiles_ms": [190.0, 210.0],
        "profiled_step_ms": 205.0,
        "tokens_per_s": 10240.0,
        "flops": 10**10,
        "flops_by_formula": 1e10,
        "contractions_flops_share": 0.99,
        "contractions_time_share": 0.6,
        "classes": [
            {
                "name": name,
                "holds": holds,
                "ms": 200 * share,
                "time_share": share,
                "flops": int(share * 10**10) if share >= 0.05 else 0,
                "flops_share": share if share >= 0.05 else 0.0,
                "bytes": 3 * MIB,
            }
            for share, (name, holds) in zip(shares, CLASSES.items(), strict=True)
        ],
        "memory": {
            "weights": 5 * MIB,
            "gradients": 5 * MIB,
            "optimizer": 10,
            "saved": 1,
            "loss": 1,
            "most": 64 * MIB,
        },
        "floor": {
            "ms": 90.0,
            "quartiles_ms": [88.0, 92.0],
            "share": 0.45,
            "products": 96,
            "flops": 9 * 10**9,
            "flops_per_s": 1e11,
        },
        "gpu": None,
        "operators": [
            {"class": "norms", "operator": "mul", "backward": True, "ms": 1.0, "calls": 4.0},
        ],
    }


def test_a_row_a_class_and_what_else_is_held(facts):
    made = profile_table.grid(facts)
    assert [row[0] for row in made.rows] == [*CLASSES, "weights", "gradients", "whole step"]
    assert made.rows[0] == ["matrix products", "100.00", "50.0", "5.000", "50.00", "3.0"]
    assert made.rows[6][3:5] == ["–", "–"]
    assert made.rows[-1] == ["whole step", "200.00", "100.0", "10.000", "100.00", "64.0"]
    notes = "\n".join(made.notes)
    for said in (
        "90.00 ms at 100.0 GFLOP/s, 45.0 % of the step (median of pairs)",
        "10,240 tokens/s",
        "99.00 % of FLOPs",
        "2 threads",
    ):
        assert said in notes
    assert "MFU" not in notes
    assert "compiled" not in notes
    compiled = {"step_ms": 180.0, "quartiles_ms": [170.0, 190.0], "first_step_s": 41.0, "floor_share": 0.5}
    notes = "\n".join(profile_table.grid(facts | {"compiled": compiled}).notes)
    assert "compiled: 180.00 ms a step, after a first one of 41.0 s; the floor is 50.0 %" in notes


def test_what_only_a_gpu_has(facts):
    gpu = {"mfu": 0.41, "peak_tflops": 989, "bytes_per_s": 2e12, "kernels": 1234.0}
    notes = "\n".join(profile_table.grid(facts | {"gpu": gpu, "device": "cuda"}).notes)
    assert "MFU 41.0 % of 989 TFLOP/s; 1,234 kernels a step; 2,000 GB/s" in notes
    unknown = profile_table.grid(facts | {"gpu": gpu | {"mfu": None}, "device": "cuda"})
    assert "MFU unknown" in "\n".join(unknown.notes)


def test_every_format_says_it(facts):
    for form, render in FORMATS.items():
        assert "cross-entropy" in render(profile_table.grid(facts)), form
    assert "mul" in FORMATS["text"](profile_table.operators(facts, 5))
    found = json.loads(FORMATS["json"](profile_table.grid(facts)))
    assert found["floor"]["share"] == 0.45


@pytest.mark.parametrize("style", STYLES)
def test_bars_are_the_shares_and_the_floor_is_marked(style, facts):
    with context(style):
        figure = _step.draw(facts, style)
        figure.draw_without_rendering()
        (axes,) = figure.axes
        widths = [bar.get_width() for bar in axes.patches]
        assert widths[: len(CLASSES)] == pytest.approx([one["time_share"] for one in facts["classes"]])
        assert widths[len(CLASSES) :] == pytest.approx([one["flops_share"] for one in facts["classes"]])
        (floor,) = [line for line in axes.lines if line.get_gid() == "floor"]
        assert list(floor.get_xdata()) == [0.45, 0.45]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", BEGINNINGS)
def test_a_profile_is_printed_and_drawn(suffix, words, tmp_path, outputs, capsys):
    picture = tmp_path / f"step.{suffix}"
    assert profile.main([*words(), "--steps", "2", "-o", str(picture)]) == 0
    out, err = capsys.readouterr()
    assert "matrix products" in out
    assert "floor" in out
    assert max(map(len, out.splitlines())) <= profile.PIPE_WIDTH
    assert err.endswith(f"{picture}\n")
    assert picture.read_bytes().startswith(BEGINNINGS[suffix])
    assert not outputs.exists()


@pytest.mark.slow
def test_json_and_csv_can_be_read(words, capsys):
    assert profile.main([*words(), "--steps", "2", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sum(one["ms"] for one in found["classes"]) == pytest.approx(found["step_ms"])
    assert found["floor"]["ms"] <= found["step_ms"]
    assert profile.main([*words(), "--steps", "2", "--format", "csv"]) == 0
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert len({len(row) for row in rows}) == 1
    assert profile.main([*words(), "--steps", "2", "--operators", "20"]) == 0
    assert " mm " in capsys.readouterr().out


def said(capsys, *argv):
    with pytest.raises(SystemExit) as exit_:
        cli.main(["profile", *argv])
    err = capsys.readouterr().err
    assert exit_.value.code in (1, 2)
    assert err.count("\n") == 1
    return err


def test_errors_are_one_line(words, outputs, capsys):
    assert "--steps 1 must be >= 2" in said(capsys, "--steps", "1")
    assert ".png, .svg, .pdf" in said(capsys, "-o", "x.jpg")
    assert "'--fromat'" in said(capsys, "--fromat", "json")
    assert "did you mean 'rmsnorm'" in said(capsys, "norm=rmsnrom")
    assert not outputs.exists()
