"""What `lab kv` prints."""

import json
import re

import pytest

from lab import preset
from lab.commands import kv
from lab.completion import candidates
from lab.errors import ConfigError

pytestmark = pytest.mark.slow

SMALL = ("model=tiny", "model.dim=32", "model.max_seq_len=32", "threads=1", "device=cpu", "precision=fp32")


@pytest.fixture
def printed(capsys):
    def call(*argv):
        assert kv.main([*argv, *SMALL]) == 0
        out, err = capsys.readouterr()
        assert all(line.startswith("kv: attentions measured") for line in err.splitlines())  # where it is slow
        return out

    return call


@pytest.fixture
def facts(printed):
    return lambda *argv: json.loads(printed(*argv, "--format", "json"))


def test_the_four_attentions_of_the_lecture(facts):
    found = facts("--no-speed")
    assert [row["attention"] for row in found["rows"]] == ["mha", "gqa", "mqa", "mla"]
    # 2 heads of 16; gqa shares a head between two, so as many as mqa; mla: latents of 16 and keys of 8
    numbers = [2 * 2 * 16, 2 * 16, 2 * 16, 16 + 8]
    assert [row["bytes"] for row in found["rows"]] == [2 * n for n in numbers]
    assert [row["measured_bytes"] for row in found["rows"]] == [2 * n for n in numbers]
    assert [row["share"] for row in found["rows"]] == [n / 64 for n in numbers]
    assert (found["tokens"], found["dim"], found["device"], found["threads"]) == (32, 32, "cpu", 1)
    # 2 layers of 32 tokens, 2 bytes each
    assert [row["measured_mib"] * 2**20 for row in found["rows"]] == [2 * 32 * 2 * n for n in numbers]
    assert "decode" not in found["rows"][0]


def test_a_batch_has_so_many_caches(facts):
    one, four = (facts("--no-speed", "attn=gqa", *more) for more in ([], ["--batch", "4"]))
    assert (one["batch"], four["batch"]) == (1, 4)
    assert one["rows"][0]["bytes"] == four["rows"][0]["measured_bytes"]
    assert four["rows"][0]["measured_mib"] == 4 * one["rows"][0]["measured_mib"]


def test_attentions_and_values_of_ones_own(facts):
    rows = facts("--no-speed", "attention=gqa,sliding_window", "attn.n_kv_heads=1")["rows"]
    assert (rows[0]["attention"], rows[0]["share"]) == ("gqa", 0.5)
    assert rows[1]["bytes"] < rows[0]["bytes"]
    assert rows[1]["bytes"] == rows[1]["measured_bytes"]


def test_presets_at_their_published_sizes(facts):
    """Keys and values of Llama 3 8B: 8 heads of 128. DeepSeek-V2-Lite: 512 + 64, against 2 x 16 x 128."""
    rows = {row["preset"]: row for row in facts("llama3", "--no-speed", "deepseek_v2")["rows"]}
    llama, deepseek = rows["llama3"], rows["deepseek_v2"]
    assert (llama["published_bytes"], llama["published_share"], llama["published_tokens"]) == (4096, 0.25, 8192)
    assert (deepseek["attention"], deepseek["published_bytes"]) == ("mla", 2 * 576)
    assert deepseek["published_share"] == 576 / 4096
    for row in rows.values():
        assert row["bytes"] == row["measured_bytes"]


@pytest.mark.slow
def test_every_fourth_preset_has_a_row(facts):
    names = preset.names()[::4]
    rows = facts(*names, "--no-speed")["rows"]
    assert [row["preset"] for row in rows] == names
    for row in rows:
        assert row["bytes"] == row["measured_bytes"], row["preset"]
        assert 0 < row["published_share"] <= 1, row["preset"]


def test_text_and_markdown_say_the_same(printed, monkeypatch):
    monkeypatch.setattr("lab.training.cache_cost.MOST_S", 0.01)
    text = printed("attn=mha", "--batch", "2")
    first, second, _, row = (re.split(r"  +", line.strip()) for line in text.splitlines()[:4])
    assert first == ["B per token", "MiB at", "prefill", "decode", "no cache", "p50 / p95", "peak"]
    assert second == [
        "attention",
        "and layer",
        "of MHA",
        "2 × 32",
        "tok/s",
        "tok/s",
        "tok/s",
        "ms",
        "MiB",
        "kernel",
    ]
    assert row[:4] == ["mha", "128", "100.0 %", f"{2 * 2 * 32 * 128 / 2**20:.4f}"]
    assert all(re.fullmatch(r"[\d,.]+", cell) for cell in row[4:7])
    assert re.fullmatch(r"[\d,.]+ / [\d,.]+", row[7])
    assert row[-1] == "sdpa fp32"
    assert max(map(len, text.splitlines())) <= kv.PIPE_WIDTH
    flowing = " ".join(text.split())
    assert re.search(r"prefill of 32 tokens \(n ≥ \d+\), decode after a prompt of 16 \(n ≥ \d+\)", flowing)
    assert "32 wide, 2 layers, 2 heads of 16; context 32, batch 2; cpu fp32, 1 threads" in flowing
    lines = printed("gpt2", "--no-speed", "--format", "markdown").splitlines()
    assert lines[0].startswith("| preset | attention | published B per token and layer | published of MHA |")
    assert lines[2] == "| gpt2 | mha | 3,072 | 100.0 % | 1,024 | 128 | 100.0 % | 0.00781 |"


def test_a_kind_whose_formula_is_wrong_fails(monkeypatch, capsys):
    monkeypatch.setattr("lab.model.attention.DotProductAttention.cache_bytes", lambda *_, **__: 64)
    assert kv.main(["attn=mha", "--no-speed", *SMALL]) == 1
    assert " fails\n" in capsys.readouterr().out


def test_the_context_is_long_unless_it_is_given():
    assert kv._variants([], ["attn=mqa", "model=tiny"])[0].architecture.dims.max_seq_len == kv.TOKENS


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["gema2"], r"^preset 'gema2' is not one of baichuan2, .*; did you mean 'gemma2'\?$"),
        (["attn=gqaa"], r"^attn 'gqaa' .*; did you mean 'gqa'\?$"),
        (["attn=mha", "attn.n_kv_heads=1"], r"^unknown key 'attn.n_kv_heads'"),
        (["attn=gqa", "attn.n_kv_heads=3"], r"^attn.n_kv_heads 3 does not divide model.n_heads 2$"),
        (["llama3", "preset_size=published"], r"^preset_size is not for lab kv"),
        (["--batch", "0"], r"^--batch 0 must be >= 1$"),
        (["gpt2", "attn=mha,mqa"], r"^attn=mha,mqa has several values"),
    ],
)
def test_what_is_refused(argv, message):
    with pytest.raises(ConfigError, match=message) as caught:
        kv.main([*argv, *SMALL])
    assert "\n" not in str(caught.value)


def test_completion_knows_presets_and_overrides():
    assert candidates("lab kv gem") == ["gemma1", "gemma2", "gemma3"]
    assert candidates("lab kv attn=mq") == ["attn=mqa"]
    assert candidates("lab kv attn=mha,mq") == ["attn=mha,mqa"]
    assert candidates("lab kv --no") == ["--no-speed"]
