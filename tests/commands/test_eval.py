"""`lab eval` from the command line."""

import json

import pytest

from lab import cli

WORDS = ("train.steps=6", "stability=qk_norm")


@pytest.fixture
def folder(train):
    """The folder of a run that is done."""
    return train(*WORDS).folder


@pytest.fixture
def call(capsys):
    """Run `lab eval`: the facts, or the page."""

    def call(*argv, page=False):
        capsys.readouterr()
        status = cli._run(["eval", *map(str, argv), *([] if page else ["--format", "json"])])
        output = capsys.readouterr()
        assert (status, output.err) == (0, ""), output.err
        return output.out if page else json.loads(output.out)

    return call


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.slow
def test_the_run_itself_another_length_and_a_part_taken_away(folder, call):
    before = contents(folder.parent)
    own = json.loads((folder / "result.json").read_text())
    facts = call(folder.name[:6])
    assert (facts["run"], facts["step"], facts["overrides"]) == (folder.name, 6, [])
    assert (facts["loss"], facts["bits_per_byte"], facts["change"]) == (own["final_loss"], own["bits_per_byte"], 0)
    assert (facts["documents"], facts["standard_error"]) == (1, None)
    assert len(facts["positions"]) == 8

    facts = call(folder, "stability=none", "--positions", 4, "model.max_seq_len=64")
    assert facts["change"] == facts["loss"] - own["final_loss"] != 0
    assert facts["weights"]["dropped"] == {f"blocks.*.attn.stability.qk_norm.{part}.gain": 1 for part in "qk"}
    assert [bucket["first"] for bucket in facts["positions"]] == [0, 16, 32, 48]

    page = call(folder, "stability=none", page=True)
    assert page.startswith(f"run {folder.name} at step 6 with stability=none\n  taken away: blocks.*.attn.stab")
    assert f"against the run's final loss {own['final_loss']:.4f}" in page
    assert page.splitlines()[-8].startswith("    0–3  ")
    assert max(map(len, page.splitlines())) <= 160
    assert contents(folder.parent) == before


@pytest.mark.slow
def test_other_data_are_not_compared(folder, call, tmp_path):
    (tmp_path / "other.txt").write_text("Other things are said in other words here.\n" * 60, encoding="utf-8")
    words = (folder.name, "data=text", f"data.file={tmp_path / 'other.txt'}")
    assert call(*words)["change"] is None
    assert "no comparison: other data" in call(*words, page=True)
