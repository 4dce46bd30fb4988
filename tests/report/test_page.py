import base64
import html
import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from lab.report.page.build import build
from lab.report.page.curves import charted, mean, packed, read_series, thinned
from lab.report.page.library import bare, lines_alone
from lab.report.page.parts import embedded
from lab.report.page.spike_list import spikes
from lab.report.variants import Variant
from report.pages import HOSTILE, page_of
from report.records import LOCAL, record


class Strict(HTMLParser):
    """Every element that needs an end has one, in its place."""

    VOID = ("meta", "link", "input", "br")

    def __init__(self):
        super().__init__()
        self.open, self.addresses, self.scripts = [], [], 0

    def handle_starttag(self, tag, attrs):
        self.scripts += tag == "script"
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_is_well_formed_and_asks_for_nothing(tmp_path):
    text = build(page_of(tmp_path))
    parser = Strict()
    parser.feed(text)
    assert parser.open == []
    assert parser.scripts == 3  # the curves, plotly, ours
    assert parser.addresses
    assert all(address.startswith("data:") for address in parser.addresses)
    ours = text[: text.index('<script type="application/json"')]
    assert not re.search(r"url\(|@import|https?://", ours)


def test_names_are_escaped(tmp_path):
    text = build(page_of(tmp_path))
    assert HOSTILE not in text
    assert text.count(f"study {html.escape(HOSTILE)}") == 2  # the heading, and the title of the window
    assert "<img" not in text[: text.index('id="curves"')]


def test_embedded_json_cannot_end_its_element():
    value = ["</script><!-- & \u2028"]
    text = embedded(value)
    assert not {"<", ">", "&"} & set(text)
    assert json.loads(text) == value


def test_thinned_keeps_ends_spikes_and_gaps():
    values = np.random.default_rng(0).normal(size=5000)
    values[1234], values[3210], values[4000] = 99.0, -99.0, math.nan
    steps, kept = thinned((np.arange(5000.0), values), 400)
    assert len(steps) <= 402
    assert {0, 1234, 3210, 4000, 4999} <= set(steps.astype(int))
    assert np.array_equal(kept, values[steps.astype(int)], equal_nan=True)
    assert (np.diff(steps) > 0).all()


def test_mean_is_over_the_steps_that_all_seeds_have():
    long, short = (np.arange(1.0, 5), np.array([1.0, 2, 3, 4])), (np.arange(1.0, 3), np.array([3.0, 4]))
    steps, values = mean([long, short])
    assert steps.tolist() == [1, 2]
    assert values.tolist() == [2, 3]


def test_spikes_are_listed_with_what_is_known(tmp_path):
    page = page_of(tmp_path, names=("relu",), seeds=1)
    (tmp_path / "0-0" / "layers.jsonl").write_text('{"step": 141, "grad_norm": [1.0, 3.0, 2.0]}\n')
    series = {run: read_series(folder) for run, folder in page.folders.items()}
    (found,), total = spikes(page.variants, series, page.folders)
    assert total == 1
    assert (found.step, found.series, found.lr, found.layer) == (150, "loss", 1e-3, "2 of 3 (at step 141)")
    assert found.above > 100
    assert found.around["loss"] == (pytest.approx(2.5, abs=0.05), pytest.approx(5.5, abs=0.05))
    assert found.around["grad_norm"] == tuple(series["r0-0"]["grad_norm"][1][148:150])
    assert "not at hand" in found.missing


def test_what_a_result_says_of_spikes_is_not_judged_again(tmp_path, monkeypatch):
    page = page_of(tmp_path, names=("relu",), seeds=2)
    series = {run: read_series(folder) for run, folder in page.folders.items()}
    said = [{LOCAL: {"loss": {"spikes": n}, "grad_norm": {"spikes": 0}}} for n in (0, 1)]
    runs = [record(f"r0-{seed}", seed=seed, spikes=one) for seed, one in enumerate(said)]
    (found,), total = spikes([Variant("relu", {}, tuple(runs))], series, page.folders)
    assert (found.run, total) == ("r0-1", 1)
    monkeypatch.setattr("lab.report.page.spike_list.MOST", 0)
    assert spikes([Variant("relu", {}, tuple(runs))], series, page.folders) == ([], 1)


def unpacked(curve):
    values = np.frombuffer(base64.b64decode(curve["values"]), "<f4")
    if curve["steps"] is None:
        return curve["first"] + np.arange(len(values)), values
    return np.frombuffer(base64.b64decode(curve["steps"]), "<i4"), values


@pytest.mark.parametrize("steps", [[5, 6, 7, 8], [1, 2, 4, 8]])
def test_packed_curves_are_what_they_were(steps):
    values = np.array([1.5, math.nan, 3.25, -4.0])
    found = unpacked(packed((np.array(steps, dtype=float), values)))
    assert found[0].tolist() == steps
    assert np.array_equal(found[1], values.astype("f4"), equal_nan=True)


def test_curves_of_many_values_are_thinned_and_said_to_be(monkeypatch):
    one = Variant("relu", {}, (record("a", seed=0), record("b", seed=1)))
    series = {run: {"loss": (np.arange(1.0, 3001), np.arange(3000.0))} for run in "ab"}
    whole = charted([one], series)
    assert whole["whole"]
    assert len(unpacked(whole["variants"][0]["loss"]["seeds"][1]["at"])[0]) == 3000
    monkeypatch.setattr("lab.report.page.curves.MOST", 100)
    few = charted([one], series)
    assert not few["whole"]
    assert len(unpacked(few["variants"][0]["loss"]["mean"])[0]) <= few["most"] == 1000


@pytest.mark.slow
def test_the_installed_library_sets_up_lines_alone_and_keeps_its_licence():
    from plotly.offline import get_plotlyjs

    script = get_plotlyjs()
    short = bare(script)
    assert short.startswith("/**\n* plotly.js")
    assert "MIT license" in short[:300]
    assert short.count("license") == script.count("license")
    assert "moduleName" in script
    assert "moduleName" not in short
    assert len(lines_alone(short)) < len(short)
    assert lines_alone(bare("var Plotly = {};")) == "var Plotly = {};"
