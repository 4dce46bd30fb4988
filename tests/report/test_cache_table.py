"""The table of KV caches, from figures made up."""

import pytest

from lab.report.cache_table import as_markdown, as_text, disagreeing

PACE = {"tokens_per_s": 1234.5, "quartiles": [1000.0, 1300.0], "steps": 30}
SPEED = {
    "prefill": PACE,
    "decode": {"tokens_per_s": 56.78, "quartiles": [50.0, 60.0], "steps": 64},
    "uncached": {"tokens_per_s": 0.5, "quartiles": [0.5, 0.5], "steps": 1},
    "decode_ms": {"p50": 17.6, "p95": 123.4},
    "peak_mib": 7.5,
    "kernel": "plain+sdpa fp32",
}
PUBLISHED = {"published_bytes": 1120.0, "published_share": 0.0546875, "published_tokens": 262144}


def facts(*rows, **changed):
    common = {"n_heads": 4, "head_dim": 32, "bytes": 160.5, "share": 0.3125, "measured_bytes": 160.5}
    return {
        "batch": 16,
        "tokens": 4096,
        "dim": 128,
        "n_layers": 4,
        "device": "cpu",
        "precision": "fp32",
        "threads": 2,
        "steps": 32,
        "rows": [{"attention": "sliding_window", "measured_mib": 40.125, **common, **row} for row in rows],
        **changed,
    }


def test_bytes_alone():
    found = as_text(facts({}), 120)
    assert found.splitlines()[:4] == [
        "                B per token              MiB at",
        "attention         and layer  of MHA  16 × 4,096",
        "───────────────────────────────────────────────",
        "sliding_window          160  31.2 %        40.1",
    ]
    assert "one by one" not in found
    assert "tok/s" not in found
    assert "4,096 tokens of 16 sequences together; counted, and equal to the formula" in found.replace("\n", " ")


def test_one_table_where_it_fits_and_two_where_not():
    lines = as_text(facts(SPEED), 120).splitlines()
    row = "sliding_window 160 31.2 % 40.1 1,234 56.8 0.500 17.6 / 123 7.50 plain+sdpa fp32"
    assert " ".join(lines[3].split()) == row
    assert max(map(len, lines)) <= 120
    assert not lines[4]
    lines = as_text(facts({"preset": "chameleon_34b", **PUBLISHED, **SPEED}), 120).splitlines()
    assert max(map(len, lines)) <= 120
    assert lines[3].split()[:7] == ["chameleon_34b", "sliding_window", "1,120", "5.5", "%", "262,144", "160"]
    assert lines[8].split()[:4] == ["chameleon_34b", "sliding_window", "1,234", "56.8"]


def test_markdown_has_the_quartiles():
    lines = as_markdown(facts(SPEED)).splitlines()
    assert lines[0] == (
        "| attention | B per token and layer | of MHA | MiB at 16 × 4,096 | prefill tok/s | decode tok/s "
        "| no cache tok/s | p50 / p95 ms | peak MiB | kernel |"
    )
    assert lines[2] == (
        "| sliding_window | 160 | 31.2 % | 40.1 | 1,234 [1,000–1,300] | 56.8 [50.0–60.0] | 0.500 [0.500–0.500] "
        "| 17.6 / 123 | 7.50 | plain+sdpa fp32 |"
    )
    assert {line.count("|") for line in lines[:3]} == {11}
    assert all(line.startswith("- ") for line in lines[4:])


def test_the_legend_says_how_it_was_measured():
    slower = {**SPEED, "prefill": {**PACE, "steps": 12}}
    found = " ".join(as_text(facts(SPEED, slower), 120).split())
    assert "prefill of 4,096 tokens (n ≥ 12), decode after a prompt of 4,064 (n ≥ 64)" in found
    assert "(n ≥ 1). Half of the times are within 23 % of their median" in found
    assert "context 4,096, batch 16; cpu fp32, 2 threads" in found
    assert "PyTorch's allocator" not in found
    assert "PyTorch's allocator" in as_text(facts(SPEED, device="cuda"), 120)


def test_a_row_fails_whose_tensors_are_not_what_the_formula_says():
    found = facts({}, {"measured_bytes": 161.0})
    assert disagreeing(found) == [found["rows"][1]]
    first, second = as_text(found, 120).splitlines()[3:5]
    assert first.endswith(" 40.1")
    assert second.endswith(" 40.1 fails")
    assert "equal to the formula" not in as_text(found, 120)


@pytest.mark.parametrize(("mib", "text"), [(0.0684, "0.0684"), (0.25, "0.250"), (99.97, "100"), (2048, "2,048")])
def test_three_digits_that_count(mib, text):
    assert as_text(facts({"measured_mib": mib}), 120).splitlines()[3].split()[-1] == text
