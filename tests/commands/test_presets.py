"""What `lab presets` prints."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lab import preset
from lab.commands.presets import main
from lab.report import architectures
from lab.report.architectures import COLUMNS, number

PAGE = Path(__file__).parents[2] / "docs/presets.md"
WIDTH = 120


@pytest.fixture
def printed(capsys):
    def call(*argv):
        assert main(list(argv)) == 0
        return capsys.readouterr().out

    return call


@pytest.fixture
def rows(printed):
    return lambda *argv: {row["name"]: row for row in json.loads(printed(*argv, "--format", "json"))}


def test_json_has_a_row_for_every_preset_by_year_and_name(rows):
    found = rows()
    assert [name for name, row in found.items() if "coming" not in row] == sorted(
        preset.names(), key=lambda name: (found[name]["year"], name)
    )
    years = [row["year"] for row in found.values()]
    assert years == sorted(years)
    for row in found.values():
        assert row["cells"].keys() == COLUMNS.keys()
        assert set(row["corrects"]) <= COLUMNS.keys()


def test_cells_say_what_the_files_say(rows):
    assert rows("gemma3")["gemma3"]["cells"] == {
        "norm": "rmsnorm_1p 1e-6",
        "block": "sandwich",
        "activation": "geglu tanh 6",
        "bias": "none",
        "attn": "sliding_window 4:1, 0.0156 T, every 6th full, heads 0.889 D",
        "position": "rope 1e4 (1e6 where full)",
        "stability": "qk norm rmsnorm_1p head",
        "embeddings": "tied, embeddings x sqrt(D)",
        "vocabulary": "262,144",
        "regularization": "none",
        "init": "normal 0.02",
        "source": "arXiv:2503.19786",
    }
    found = rows()
    assert found["gpt2"]["cells"]["bias"] == "all"
    assert found["qwen2"]["cells"]["bias"] == "q, k, v"
    assert found["gptj"]["cells"]["bias"] == "ffn"
    assert found["gptj"]["cells"]["position"] == "rope 1e4 interleaved on 0.25 of a head"
    assert found["llama3_1"]["cells"]["position"] == "rope 5e5 llama3 x8"
    assert found["deepseek_v2"]["cells"]["attn"] == "mla kv 0.1 D q 0.3 D, heads 3.2 D"
    assert found["smollm3"]["cells"]["attn"] == "gqa 4:1, every 4th without positions"
    assert found["t5"]["cells"]["embeddings"] == "tied, logits x 1/sqrt(D)"
    assert found["bert_like"]["cells"]["embeddings"] == "tied, bias, layer before head"
    assert found["transformer_2017"]["cells"]["regularization"] == (
        "dropout 0.1 embed+residual; label smoothing 0.1"
    )
    assert found["olmo2"]["cells"]["regularization"] == "decay 0.1, norms+biases too"


def test_the_sources_correct_the_lecture(rows):
    corrected = {(name, column) for name, row in rows().items() for column in row["corrects"]}
    assert corrected >= {
        ("gemma2", "stability"),
        ("olmo2", "stability"),
        ("idefics", "stability"),
        ("palm", "norm"),
        ("llama4", "attn"),
        ("command_a", "attn"),
        ("gemma3", "position"),
        ("falcon2_11b", "activation"),
        ("baichuan2", "stability"),
        ("t5", "activation"),
        ("deepseek_v3_2", "attn"),
        ("nsa", "attn"),
    }


@pytest.fixture
def waiting(monkeypatch):
    """A row that waits for a component."""
    row = {"name": "next", "title": "Next", "year": 2025, "source": "a report", "coming": "needs attn=new"}
    load = architectures.load
    monkeypatch.setattr(
        architectures, "load", lambda file: [{**row, "cells": {"attn": "new"}}] if file == "coming" else load(file)
    )


def test_no_row_waits_for_a_component(rows):
    assert not any("coming" in row for row in rows().values())


def test_rows_that_wait_say_for_what(waiting, rows, printed):
    assert {name: row["coming"] for name, row in rows().items() if "coming" in row} == {"next": "needs attn=new"}
    lines = printed().splitlines()
    assert sum(line.split()[:1] == ["next‡"] for line in lines) == 3
    assert "‡ next needs attn=new" in lines
    assert "needs attn=new" in printed("next")


def test_text_has_every_row_in_every_table_and_explains_the_marks(printed, rows):
    out = printed()
    lines = out.splitlines()
    assert max(map(len, lines)) <= WIDTH
    for name in rows():
        assert sum(line.split()[:1] == [name] for line in lines) == 3
    assert "rmsnorm_1p 1e-6" in out
    assert "* gemma2, stability: the notes give Gemma 2 QK-norm; it has soft-caps" in out
    assert "† from memory" in out
    (falcon,) = [line for line in lines if line.startswith("falcon2_11b") and "parallel" in line]
    assert "gelu 4*†" in falcon


def test_one_preset_is_said_in_full(printed):
    out = printed("olmo2")
    assert out.startswith("preset              olmo2: OLMo 2, 2025\n")
    assert "lab train preset=olmo2" in out
    assert "stability.z_loss.weight 1e-05" in out
    assert "model.dim 2048" in out
    assert "* stability" in out
    assert max(map(len, out.splitlines())) <= WIDTH


def test_a_part_of_a_name_is_taken(rows, printed):
    assert list(rows("gemma")) == ["gemma1", "gemma2", "gemma3"]
    assert list(rows("llama3")) == ["llama3"]
    assert len([line for line in printed("gemma").splitlines() if line.startswith("gemma")]) == 9


def test_a_name_that_is_not_there_is_one_line(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["gema2"])
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("lab presets: NAME 'gema2' is not one of baichuan2, ")
    assert err.endswith("; did you mean 'gemma2'?\n")


def test_the_page_of_the_documentation_is_current(printed):
    assert PAGE.read_text(encoding="utf-8") == printed("--format", "markdown"), (
        "lab presets --format markdown > docs/presets.md"
    )


def test_markdown_is_one_table(printed, rows):
    lines = [line for line in printed("--format", "markdown").splitlines() if line.startswith("|")]
    assert len(lines) == 2 + len(rows())
    assert {line.count("|") for line in lines} == {len(COLUMNS) + 3}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-5, "1e-5"),
        (5e5, "5e5"),
        (2.5e5, "2.5e5"),
        (2.6666667, "2.67"),
        (4.0, "4"),
        (0.0134, "0.0134"),
        (0.006, "6e-3"),
    ],
)
def test_numbers_are_short(value, text):
    assert number(value) == text


def test_the_table_needs_neither_torch_nor_hydra():
    code = "import sys\nfrom lab.commands.presets import main\nmain([])\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert "lab" in loaded
    assert not loaded & {"torch", "hydra", "numpy"}
