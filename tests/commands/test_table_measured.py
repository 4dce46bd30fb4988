"""`lab table D`: finished runs whose caches are measured."""

import csv
import io
import json

import pytest

from lab.commands import table
from lab.compose import compose_config
from lab.errors import ConfigError
from lab.report.formats import FORMATS
from lab.training.resolve import resolve

SMALL = ("model=tiny", "model.dim=32", "model.max_seq_len=32", "threads=1", "device=cpu", "precision=fp32")


@pytest.fixture
def runs(tmp_path):
    """Two seeds of two attentions, as they were left by training."""
    for attn, loss in (("gqa", 3.1), ("mha", 3.0)):
        for seed in (1, 2):
            config = resolve(compose_config([*SMALL, f"attn={attn}", f"seed={seed}"])).as_dict()
            write(tmp_path, f"{attn}{seed}", config=config, final_loss=loss + seed / 100)
    return tmp_path


def write(folder, name, **result):
    (folder / name).mkdir()
    known = {"schema": 1, "id": name, "status": "done", "reason": None, **result}
    (folder / name / "result.json").write_text(json.dumps(known, default=str))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("lab.training.cache_cost.MOST_S", 0.01)


@pytest.fixture
def printed(capsys):
    def call(*argv, status=0):
        assert table.main(["D", *map(str, argv)]) == status
        return capsys.readouterr()

    return call


@pytest.mark.slow
def test_rows_of_finished_runs_with_their_losses(runs, printed):
    found = json.loads(printed(runs, "--baseline", "attn=mha", "--format", "json").out)
    measured = found["throughput"]
    assert [(row["variant"], row["attention"]) for row in measured["rows"]] == [
        ("attn=mha", "mha"),
        ("attn=gqa", "gqa"),
    ]
    sizes = {key: measured[key] for key in ("batch", "context", "prompt", "device", "threads")}
    assert sizes == {"batch": 1, "context": 32, "prompt": 16, "device": "cpu", "threads": 1}
    # 2 heads of 16, 2 bytes each; gqa shares one of them
    assert [(row["bytes"], row["measured_bytes"]) for row in measured["rows"]] == [(128, 128), (64, 64)]
    assert [row["measured_mib"] * 2**20 for row in measured["rows"]] == [2 * 32 * 128, 2 * 32 * 64]
    assert [row["times_baseline"] for row in measured["rows"]] == [1, 0.5]
    assert all(row[kind]["tokens_per_s"] > 0 for row in measured["rows"] for kind in ("prefill", "decode"))
    assert [row["kernel"] for row in measured["rows"]] == ["sdpa fp32"] * 2
    (effect,) = found["effects"]["rows"]
    assert effect["differences"] == {"1": pytest.approx(0.1), "2": pytest.approx(0.1)}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
def test_formats(runs, printed, form):
    out = printed(runs, "--format", form, "--batch", "2", "--context", "48", "--prompt", "40").out
    assert "mha" in out
    if form == "csv":
        lines = [*csv.DictReader(io.StringIO(out))]
        assert len(lines) == 4
        # 2 layers, 2 sequences, 48 tokens
        assert {float(line["measured_mib"]) * 2**20 for line in lines} == {2 * 2 * 48 * 128, 2 * 2 * 48 * 64}
    elif form != "json":
        assert "prompt 40; trained with 32" in out
        assert "2 sequences together" in out


@pytest.mark.slow
def test_what_cannot_be_measured_is_a_row_that_says_why(runs, printed):
    config = json.loads((runs / "mha1" / "result.json").read_text())["config"]
    config["attn"] = {"name": "nsa2", "blocks": 3}
    write(runs, "other", config=config, final_loss=2.0)
    write(runs, "never", config={}, final_loss=None, status="failed", reason="no such data")
    found = printed(runs, "--baseline", "attn=mha")
    rows = [line for line in found.out.splitlines() if "n/a" in line]
    assert len([row for row in rows if row.endswith("–") or "2.0000" in row]) == 2
    (said,) = (line for line in found.out.splitlines() if "its configuration is not of this lab: " in line)
    assert "nsa2" in said
    assert "no run of it has a configuration" in found.out
    assert found.err == ""
    assert json.loads(printed(runs / "never", "--format", "json", status=1).out)["throughput"]["context"] is None


@pytest.mark.slow
def test_a_kind_whose_formula_is_wrong_fails(runs, printed, monkeypatch):
    monkeypatch.setattr("lab.model.attention.DotProductAttention.cache_bytes", lambda *_, **__: 64)
    found = printed(runs, status=1)
    assert found.out.count(" fails ") == 2
    assert found.err.splitlines()[0].startswith(
        "lab table: the cache of attn=gqa is 64 B per token and layer, 2 by"
    )


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["D", "--batch", "0"], "--batch 0 must be >= 1"),
        (["D", "--context", "1"], "--context 1 must be >= 2"),
        (["D", "--prompt", "0"], "--prompt 0 must be >= 1"),
        (["--batch", "2"], "--batch is for table D alone: lab table D"),
        (["B", "--prompt", "2"], "--prompt is for table D alone: lab table D"),
    ],
)
def test_what_is_refused(argv, message):
    with pytest.raises(ConfigError) as caught:
        table.main(argv)
    assert str(caught.value) == message


@pytest.mark.slow
def test_a_prompt_that_is_no_shorter_than_the_context(runs):
    with pytest.raises(ConfigError, match=r"^--prompt 32 must be .*31$"):
        table.main(["D", str(runs), "--prompt", "32"])
