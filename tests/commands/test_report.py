import base64
import json
from html.parser import HTMLParser

import pytest
from report.records import record

from lab.cli import main
from lab.commands import report


@pytest.mark.slow
def test_one_file_of_a_run(words, tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        main(["train", *words()])
    assert not end.value.code
    file = tmp_path / "report.html"
    assert report.main(["-o", str(file)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(file)
    text = file.read_text(encoding="utf-8")
    begin = text.index('id="curves">') + len('id="curves">')
    (one,) = json.loads(text[begin : text.index("</script>", begin)])["variants"]
    (seed,) = one["loss"]["seeds"]
    assert (seed["at"]["first"], len(base64.b64decode(seed["at"]["values"]))) == (1, 20 * 4)
    assert "What all runs share" in text


ODD = "</script>`\u2028\"'&<#@~>"
"""Letters that the book has not, and that a page must not take for its own."""


class Cells(HTMLParser):
    """The cells of the table of spikes, each with the text in it."""

    def __init__(self):
        super().__init__()
        self.rows, self.inside = [], False

    def handle_starttag(self, tag, attrs):
        self.inside = dict(attrs).get("class") == "spikes" if tag == "table" else self.inside
        if self.inside and tag == "tr":
            self.rows.append([])
        if self.inside and tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_data(self, data):
        if self.inside and self.rows and self.rows[-1]:
            self.rows[-1][-1] += data

    def handle_endtag(self, tag):
        self.inside = self.inside and tag != "table"


@pytest.mark.slow
def test_spikes_of_a_real_run_show_the_text_that_caused_them(words, book, outputs, tmp_path, capsys):
    prose, strange, file = book.read_text(encoding="utf-8"), tmp_path / "strange.txt", tmp_path / "report.html"
    strange.write_text(prose[:18_000] + ODD * 25 + prose[18_000:36_000], encoding="utf-8")
    more = ("train.steps=80", "model.n_layers=2", "optim.lr=3e-3", "track.layers=true", "track.layers_every=1")
    with pytest.raises(SystemExit) as end:
        main(["train", *words(f"data.file={strange}", *more)])
    assert not end.value.code
    assert report.main(["-o", str(file)]) == 0
    (folder,) = (outputs / "runs").iterdir()
    logged, layers = (
        {line["step"]: line for line in map(json.loads, (folder / name).read_text().splitlines())}
        for name in ("metrics.jsonl", "layers.jsonl")
    )
    text = file.read_text(encoding="utf-8")
    assert "</script>`" not in text
    parser = Cells()
    parser.feed(text)
    heads, *rows = parser.rows
    assert rows
    for row in rows:
        cells = dict(zip(heads, row, strict=True))
        at, before = logged[step := int(cells["step"])], logged[int(cells["step"]) - 1]
        assert cells["run"] == folder.name
        assert cells["LR"] == f"{at['lr']:.3g}"
        for key, name in (("loss", "loss"), ("grad_norm", "gradient norm")):
            assert cells[name] == f"{before[key]:.4g} → {at[key]:.4g}"
        norms = layers[step]["grad_norm"]
        assert cells["largest layer"] == f"{norms.index(max(norms)) + 1} of 2"
        assert float(cells["height"]) >= 7
        assert cells["batch"].startswith("text: 4 sequences")
    assert any("#@~" in row[-1] for row in rows), "the strange text made a spike"


@pytest.mark.slow
@pytest.mark.parametrize(("rates", "there"), [((1e-3,), False), ((1e-3, 2e-3), True)])
def test_learning_rates_have_a_table_where_there_are_several(outputs, tmp_path, rates, there):
    for lr in rates:
        for seed in range(2):
            one = record(f"r{lr}-{seed}", seed=seed, loss=3 + lr, optim__lr=lr)
            folder = outputs / "runs" / one["id"]
            folder.mkdir(parents=True)
            (folder / "result.json").write_text(json.dumps(one))
    file = tmp_path / "report.html"
    assert report.main(["-o", str(file)]) == 0
    text = file.read_text(encoding="utf-8")
    assert (">Learning rates</span></caption>" in text) is there
    assert ("Table C (learning rates) is left out" in text) is not there
    assert "Table D (KV cache and throughput) is left out" in text


def test_no_runs(tmp_path, capsys):
    assert report.main([]) == 1
    assert "lab report: no runs in" in capsys.readouterr().err
