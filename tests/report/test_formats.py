import csv
import io
import json
import os
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from lab.report.formats import FORMATS, latex, tex
from lab.report.grid import Column, Grid
from lab.report.stability_table import HEADERS

HOSTILE = (
    r"""<script>alert('x')</script> & 50% $x_1^2$ #{a}|b ~ \end{tabular} "q" `c` """
    "[red] *b* ± Δ ρ η é ² × – [1, 2] 名"
)

GRID = Grid(
    title="Losses & more",
    columns=[Column(header="variant", left=True), Column(header="final\nloss"), Column(header="bits/\nbyte")],
    rows=[["baseline", "3.2", "–"], [HOSTILE, "3.25 ± 0.01", "1.5"], ["[0.1, 0.2]", "1", "2"]],
    below=[Grid(title="<i>below</i>", columns=[Column(header="name", left=True)], rows=[[HOSTILE], ["b"], ["c"]])],
    notes=["± sd of seeds", HOSTILE],
    data={"rows": [{"variant": HOSTILE, "loss": 3.2}]},
    per_seed=[{"variant": HOSTILE, "seed": 1, "loss": 3.2}, {"variant": "b,c", "seed": 2, "loss": None}],
)


class Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text.append(data)


def test_html_is_inert_and_whole():
    page = Cells()
    page.feed(FORMATS["html"](GRID))
    assert not {"script", "i"} & {*page.tags}
    assert page.text.count(HOSTILE) == 3
    assert page.tags.count("td") == 9 + 3
    assert page.tags.count("table") == 2


def test_numbers_are_not_broken_in_html():
    assert "<td>3.25\u00a0±\u00a00.01</td>" in FORMATS["html"](GRID)


def test_text_lines_up():
    lines = FORMATS["text"](GRID).splitlines()
    assert lines[2].split() == ["final", "bits/"]
    assert lines[3].split() == ["variant", "loss", "byte"]
    assert lines[5].startswith("baseline ")
    assert lines[5].endswith("–")
    assert lines[5].index("3.2") - lines[6].index("3.25 ± 0.01") == 1 + 1  # 名 takes two columns


def test_markdown_has_a_cell_a_column():
    lines = [line for line in FORMATS["markdown"](GRID).splitlines() if line.startswith("|")]
    assert lines[0] == "| variant | final loss | bits/byte |"
    assert [line.replace(r"\|", "").count("|") for line in lines] == [4] * 5 + [2] * 5
    assert r"\<script\>" in lines[3]


def test_csv_has_a_record_a_seed():
    records = list(csv.DictReader(io.StringIO(FORMATS["csv"](GRID))))
    assert [record["seed"] for record in records] == ["1", "2"]
    assert (records[0]["variant"], records[1]["loss"]) == (HOSTILE, "")


def test_json_is_strict():
    value = json.loads(FORMATS["json"](GRID), parse_constant=pytest.fail)
    assert value["rows"][0]["variant"] == HOSTILE
    assert value["per_seed"][1]["loss"] is None


def test_latex_says_every_character():
    assert tex(r"50% a_b \x") == r"50\% a\_b \textbackslash{}x"
    assert tex("± Δ é 名") == r"$\pm$ $\Delta$ é ?"
    assert tex("-1 [-2, -3] (-4%) e-5 olmo-2") == r"$-$1 {[}$-$2, $-$3{]} ($-$4\%) e-5 olmo-2"
    assert not {"?"} & {*"".join(map(tex, HEADERS))}


@pytest.mark.slow
def test_latex_compiles(tmp_path):
    if shutil.which("pdflatex") is None and "CI" not in os.environ:
        pytest.skip("pdflatex is not installed")
    words = [r"\documentclass{article}", r"\usepackage{booktabs}", r"\usepackage[T1]{fontenc}"]
    (tmp_path / "t.tex").write_text("\n".join([*words, r"\begin{document}", latex(GRID), r"\end{document}"]))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, made.stdout[-2000:]
    assert "Missing character" not in made.stdout
