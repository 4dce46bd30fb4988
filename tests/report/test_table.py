import json

import pytest

from lab.report.comparison import compare
from lab.report.formats import FORMATS
from lab.report.main_table import table
from lab.report.notes import footer, si
from lab.report.panels import text as text_of
from lab.report.rows import rows
from lab.report.variants import variants
from report.records import LAYERNORM, record, study


def as_text(records, **options):
    return text_of(table(compare(variants(records))), **options)


def as_json(records):
    return FORMATS["json"](table(compare(variants(records))))


def line_of(text, start, block=0):
    first, second = (line for line in text.splitlines() if line.startswith(start))
    return second if block else first


def test_every_row_is_one_line_however_wide():
    long = [record(f"r{i}", activation__ratio=10**60 + i, optim__lr=1e-3 * i, seed=i % 2) for i in range(4)]
    text = as_text(long)
    assert len([line for line in text.splitlines() if line.startswith("activation.ratio=")]) == 2 * 4
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_numbers_of_a_row():
    text = as_text(study())
    row = line_of(text, "norm=layernorm")
    for part in ("2/3", "1.31M", "1.05M", "8.10M", "15.0k", "3.1867 ± 0.0063"):
        assert part in row
    assert "1 of 3 diverged" in row
    assert "1.05M (-0.1%)" in line_of(text, "norm=rmsnorm")
    further = line_of(text, "norm=layernorm", 1)
    for part in ("0.41", "0/1704", "6/1704", "24.21", "512", "0.001"):
        assert part in further


def test_reasons_are_listed_below():
    lines = as_text(study()).splitlines()
    assert "failed a3: out of memory: tried 3 GiB" in lines
    assert "diverged b3: loss is nan at step 212" in lines


def test_footer():
    text = as_text(study())
    assert "seeds 1–3 · 1.23M tokens per run · 0.94 tokens/parameter · data sotu · tokenizer bpe" in text
    assert "local(w=128,k=7)" in text
    assert "no verdicts, the table is not complete: norm=rmsnorm seed 3 failed" in text
    assert "exploratory: no study declared the family" in text
    assert "one seed: no spread" not in text
    assert "warning" not in text


def test_one_seed_has_no_spread():
    text = as_text([record("a"), record("b", norm=LAYERNORM)])
    assert "one seed: no spread" in text
    assert "±" not in text


def test_a_lone_variant_is_compared_with_nothing():
    text = as_text([record(f"r{seed}", seed=seed) for seed in range(5)])
    assert "verdict" not in text
    assert "Holm" not in text


def test_five_seeds_get_a_verdict_in_text_and_in_every_format():
    losses = [3.20, 3.22, 3.19, 3.21, 3.205]
    runs = [record(f"a{i}", seed=i, loss=loss, norm=LAYERNORM) for i, loss in enumerate(losses)]
    runs += [record(f"b{i}", seed=i, loss=loss - 0.05 + i / 1e4) for i, loss in enumerate(losses)]
    row = line_of(as_text(runs), "norm=rmsnorm")
    assert "-0.0498 [-0.0500, -0.0496]" in row
    assert " 5/5 " in row
    assert "better" in row
    made = table(compare(variants(runs)))
    for form, write in FORMATS.items():
        if form != "csv":
            assert "better" in write(made)
    assert len(FORMATS["csv"](made).splitlines()) == 11
    (effect,) = json.loads(FORMATS["json"](made))["effects"]["rows"]
    assert effect["paired"]["p"] == pytest.approx(effect["p_holm"])
    assert effect["welch"]["n"] == 5


@pytest.mark.parametrize("word", ["better", "worse", "best", "winner", "rank", "significant"])
def test_no_words_of_judgement(word):
    assert word not in as_text(study()).lower()


def test_columns_without_content_are_left_out():
    text = as_text([record("a")])
    for header in ("Δ", "partial", "running", "note"):
        assert header not in text
    unfinished = as_text([record("a", status="running"), record("b", seed=2, status="partial")])
    assert "partial" in unfinished
    assert "running" in unfinished


@pytest.mark.parametrize("width", [100, 120, 160])
def test_a_terminal_gets_panels_that_fit(width):
    text = as_text(study(), width=width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "3.1867 ± 0.0063" in text
    assert "8.10M" in text


def test_panels_keep_all_columns():
    wide = as_text(study()).split("\n\nseeds ")[0].split()
    narrow = as_text(study(), width=100).split("\n\nseeds ")[0].split()
    assert {word for word in wide if "─" not in word} == {word for word in narrow if "─" not in word}
    assert len(narrow) > len(wide)


def test_warnings():
    runs = [
        record("a", env={"versions": {"torch": "2.8.0"}, "commit": "abc"}),
        record("b", seed=2, env={"versions": {"torch": "2.13.0"}, "commit": "abc"}),
        record("c", device="cuda", hashes={"data": "ffee11223344", "tokenizer": "99aabbccddee"}),
    ]
    warned = json.loads(as_json(runs))["warnings"]
    assert warned == [
        "runs come from 2 data hashes (1a2b3c, ffee11): losses on other data do not compare",
        "runs come from 2 devices (cpu, cuda): tokens/s do not compare",
        "runs come from several environments: versions.torch 2.13.0, 2.8.0",
    ]
    assert as_text(runs).count("\nwarning: ") == 3


def test_a_run_that_was_resumed_under_another_commit():
    earlier = [{"lab": "0.1.0", "commit": "abc", "torch": "2.8.0"}]
    runs = [record("a", env={"lab": "0.1.0", "commit": "def", "torch": "2.8.0", "earlier": earlier})]
    assert json.loads(as_json(runs))["warnings"] == ["runs come from several environments: commit abc, def"]
    del runs[0]["env"]["earlier"]
    assert json.loads(as_json(runs))["warnings"] == []


def test_json_is_strict_and_complete():
    runs = [*study(), record("z", seed=9, loss=float("nan"), tokens_per_s=float("inf"))]
    table = json.loads(as_json(runs), parse_constant=pytest.fail)
    assert [row["variant"] for row in table["rows"]] == ["norm=layernorm", "norm=rmsnorm"]
    wanted = (
        "variant n params params_non_embedding flops_per_token tokens_per_s early_loss final_loss "
        "final_loss_sd bits_per_byte spikes_loss spikes_grad_norm spikes_definition epochs done failed "
        "diverged partial seeds settings runs finals"
    )
    for row in table["rows"]:
        assert set(wanted.split()) <= set(row)
    assert table["rows"][0]["settings"] == {"norm": "layernorm"}
    assert [line.partition(":")[0] for line in table["reasons"]] == ["diverged b3", "failed a3"]


def test_text_from_runs_is_not_markup():
    text = as_text([record("a"), record("b", norm={"name": "mine.[red]norm"})])
    assert "norm=mine.[red]norm" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (999, "999"), (999.6, "1.00k"), (15000, "15.0k"), (1_310_000, "1.31M"), (123_456_789, "123M")],
)
def test_si(value, text):
    assert si(value) == text


def test_matched_runs_say_so_once():
    match = {"by": "params", "to": [], "d_ff": 8, "target": 100.0, "value": 99.6, "residual": -0.004}
    runs = [record("a", match=match), record("b", norm=LAYERNORM, match={**match, "residual": 0.001})]
    lines = " ".join(piece for line in footer(runs, rows(runs)) for piece in line)
    assert "matched in params to the default configuration, within 0.40 %" in lines
    assert "matched" not in " ".join(footer([*runs, record("c")], rows(runs))[0])
