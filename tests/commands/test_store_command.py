"""A study is stored, and what is made from the file is what was made from its runs."""

import json
import math
from dataclasses import replace

import pytest

from lab.commands import plot, report, store, table
from lab.commands._stored import again, load
from lab.errors import LabError
from lab.study.cell import Cell
from lab.study.manifest import Manifest
from tests.report.records import record

STEPS = 150
ARMS = {"relu": 0.0, "gelu": -0.1, "elu": 0.2}

PUBLISHED = {"claim": "", "metric": None, "want": None, "arms": {}, "at": None, "margin": None, "note": None}

DECLARED = {
    "name": "acts",
    "question": "Which is best?",
    "baseline": {"name": "relu", "set": {"activation": "relu"}},
    "design": "star",
    "primary": "final_loss",
    "stats": {"alpha": 0.05, "power": 0.8, "margin": 0.02},
    "lr": {"mode": "shared", "grid": [], "extend": 1},
    "variants": [{"name": "gelu", "set": {}}, {"name": "elu", "set": {}}],
    "published": [PUBLISHED | {"claim": "narang2021.activation-order"}],
    "tier": "laptop",
    "verdicts": True,
}


def make(folder):
    """A study of three arms by three seeds in an outputs folder."""
    cells, ids = [], []
    for n, (arm, gain) in enumerate(ARMS.items()):
        for seed in (1, 2, 3):
            ids.append(f"{n}{seed}".ljust(12, "0"))
            cells.append(Cell(arm, (f"seed={seed}",), seed=seed))
            _run(folder / "runs" / ids[-1], arm, seed, 3 + gain + seed / 100 + (seed % 2) * gain / 100)
    study = Manifest("acts", "01234567", ("study=acts",), DECLARED, "2026-01-01T00:00:00+00:00", 9)
    study.with_stage("all", cells, ids).write()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """The file of the study, whose runs are not where they were."""
    folder = tmp_path_factory.mktemp("outputs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_OUTPUTS", str(folder))
        make(folder)
        assert store.main(["acts", "--to", str(folder / "kept")]) == 0
    (folder / "runs").rename(folder / "elsewhere")
    return folder / "kept" / "acts.json"


@pytest.fixture
def outputs(tmp_path, monkeypatch):
    """The same study with its runs."""
    monkeypatch.setenv("LAB_OUTPUTS", str(tmp_path))
    make(tmp_path)
    return tmp_path


def _run(folder, arm, seed, loss, *, lr=0.001, qk_norm=False, init_loss=None):
    folder.mkdir(parents=True)
    settings = {"activation": {"name": arm, "d_ff": None, "ratio": 4.0}, "optim__lr": lr}
    if qk_norm:
        settings["stability"] = {"qk_norm": {"name": "qk_norm"}}
    made = record(folder.name, loss=loss, seed=seed, **settings) | {"init_loss": init_loss}
    made["hashes"] = made["hashes"] | {"batches": str(seed), "tensors": {"emb": f"e{seed}", "q": f"q{seed}"}}
    made |= {"threads": 1, "env": {"commit": "abc-dirty", "lab": "0.1.0", "torch": "2.13", "earlier": []}}
    made["val_losses"] = [[19, loss + 0.9], [STEPS, loss]]
    made["spikes"]["local(w=128,k=7)"]["loss"] |= {"spikes": 1, "steps": [77]}
    (folder / "result.json").write_text(json.dumps(made))
    lines = [{"step": s, "loss": loss + (s == 77) + 1 / s, "grad_norm": 1 / s} for s in range(1, STEPS + 1)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "env.json").write_text(json.dumps({"processor": "x86", "cores": 2, "python": "3.11", "lab": "0.1.0"}))
    times = {"started": "2026-01-01T00:00:00+00:00", "commit": None, "version": "0.1.0", "host": "h", "pid": 1}
    ended = {"attempt": 1, "ended": "2026-01-02T00:20:00+00:00", "status": "done", "reason": None}
    (folder / "attempts.jsonl").write_text(f"{json.dumps({'attempt': 1, **times})}\n{json.dumps(ended)}\n")


@pytest.fixture
def rates(tmp_path, monkeypatch):
    """A study of two arms at three learning rates on two seeds, and at the best on three more."""
    monkeypatch.setenv("LAB_OUTPUTS", str(tmp_path))
    cells, ids = [], []
    for n, arm in enumerate(("baseline", "qk_norm")):
        for role, seeds, lrs in (("tune", (101, 102), (0.001, 0.01, 0.1)), ("report", (1, 2, 3), (0.01,))):
            for seed in seeds:
                for lr in lrs:
                    ids.append(f"{n}{seed}{lr:g}".replace(".", "").ljust(12, "0"))
                    cells.append(Cell(arm, (), role, seed, lr))
                    loss = 3 + abs(math.log10(lr) + 2) * (1 - n / 2) + (seed % 5) / 100 * (1 + n / 50)
                    _run(tmp_path / "runs" / ids[-1], "relu", seed, loss, lr=lr, qk_norm=bool(n), init_loss=7.0)
    lr = {"mode": "curve", "grid": [0.001, 0.01, 0.1], "extend": 0}
    claim = PUBLISHED | {"claim": "wortsman2023.qk-norm", "metric": "lr_sensitivity"}
    declared = DECLARED | {"lr": lr, "baseline": {"name": "baseline", "set": {}}, "published": [claim]}
    declared |= {"variants": [{"name": "qk_norm", "set": {}}], "tier": "night"}
    study = Manifest("rates", "01234567", ("study=rates",), declared, "2026-01-01T00:00:00+00:00", 18)
    study.with_stage("all", cells, ids).write()
    return tmp_path


def test_a_study_of_learning_rates_keeps_the_runs_that_chose_them(rates, capsys):
    before = told(capsys, "C", "rates"), told(capsys, "A", "rates")
    assert store.main(["rates", "--to", str(rates)]) == 0
    (rates / "runs").rename(rates / "elsewhere")
    capsys.readouterr()
    path = rates / "rates-night.json"
    assert near(before[0], told(capsys, "C", "--stored", path))
    assert near(before[1], told(capsys, "A", "--stored", path))
    kept = load(str(path))
    (claim,) = kept.claims
    assert (claim["metric"], claim["seeds"], claim["verdict"]) == ("lr_sensitivity", 2, "too few seeds")
    assert claim["pairs"][0]["mean"] == pytest.approx(-1 / 3, abs=1e-3)
    assert sum(run.curve is None for run in kept.runs) == 12
    page = path.with_suffix(".md").read_text()
    assert "12 more at other learning rates or on tuning seeds" in page
    assert "**Learning rates**" in page
    assert "![rates-night-lr](rates-night-lr.svg)" in page


def told(capsys, *argv):
    assert table.main([*map(str, argv), "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def near(one, other):
    """Whether two values of JSON are equal but for the eighth digit of a number."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(near(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(near, one, other))
    return one == pytest.approx(other, rel=1e-3, abs=1e-6) if isinstance(one, float) else one == other


@pytest.mark.parametrize("letter", ["A", *(pytest.param(letter, marks=pytest.mark.slow) for letter in "BC")])
def test_the_tables_are_those_of_the_runs(letter, path, outputs, capsys):
    before = told(capsys, letter, "acts")
    (outputs / "runs").rename(outputs / "elsewhere")
    assert near(before, told(capsys, letter, "--stored", path))


def test_it_says_what_ran_where_and_how_long(path):
    kept = load(str(path))
    assert (kept.stem, kept.tier, kept.hash, kept.expected) == ("acts", "laptop", "01234567", 9)
    assert (kept.date, kept.commits, kept.dirty) == ("2026-01-02", ["abc"], True)
    assert kept.machine == [{"processor": "x86", "cores": 2, "gpu": None, "platform": None}]
    assert kept.threads == [1]
    assert kept.hours == pytest.approx(9 * (24 + 1 / 3), abs=0.01)
    assert kept.versions == {"lab": ["0.1.0"], "python": ["3.11"]}
    assert kept.declared == DECLARED


@pytest.mark.slow
def test_equal_runs_make_equal_files_and_small_ones(path, outputs):
    before = path.read_bytes()
    assert store.main(["acts", "--to", str(outputs / "again")]) == 0
    assert (outputs / "again" / "acts.json").read_bytes() == before
    assert len(before) < 9 * 5000
    assert load(str(path)).text().encode() == before


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["effects", "spikes", "loss"])
def test_figures_are_drawn_from_it(kind, path, tmp_path):
    picture = tmp_path / "x.svg"
    assert plot.main([kind, "--stored", str(path), "-o", str(picture)]) == 0
    assert b"<svg" in picture.read_bytes()


@pytest.mark.slow
def test_the_report_is_written_from_it(path, tmp_path):
    page = tmp_path / "x.html"
    assert report.main(["--stored", str(path), "-o", str(page)]) == 0
    assert "Which is best?" in page.read_text()
    assert "27 flagged steps" in page.read_text()
    assert "batches are not stored" in page.read_text()


@pytest.mark.parametrize(
    ("command", "argv", "words"),
    [
        (table, ["D"], "table D is measured"),
        (table, ["A", "runs"], "exclude each other"),
        (
            plot,
            ["span", "-o", "x.svg"],
            "drawn from models, which are not stored: --stored is for effects, gradnorm",
        ),
        (plot, ["loss", "-o", "x.svg", "--smooth", "9"], "stored curves are thinned"),
        (report, ["runs"], "exclude each other"),
    ],
)
def test_what_cannot_be_made_from_it_is_one_line(command, argv, words, path):
    with pytest.raises(LabError, match=words):
        command.main([*argv, "--stored", str(path)])


def test_the_page_says_what_was_asked_and_what_came_of_it(path):
    page = path.with_suffix(".md").read_text()
    for said in (
        "# acts\n\nWhich is best?",
        "**Tier** laptop: 3 variants, seeds 1–3, 9 runs",
        "219 hours of training",
        "| narang2021.activation-order: relu \\< elu | final\\_loss |",
        "replicated (sign) on 2 of",
        "published: Narang et al. 2021, arXiv:2102.11972, Table 1",
        "Every difference from the baseline",
        "![acts-effects](acts-effects.svg)",
        "make repro-acts TIER=laptop",
        "x86, 2 cores · lab 0.1.0 · python 3.11 · commit abc with changes that were not committed",
        "study acts-01234567",
        "[acts.json](acts.json)",
    ):
        assert said in page, page
    assert path.with_name("acts-effects.svg").stat().st_size < 60_000


def test_verdicts_come_of_the_stored_values_alone(path, tmp_path):
    kept = load(str(path))
    (claim,) = kept.claims
    assert (claim["tier"], claim["seeds"], claim["kind"]) == ("laptop", 3, "replicated")
    assert [pair["arms"] for pair in claim["pairs"]] == [["relu", "elu"], ["gelu", "elu"]]
    assert again(kept) == kept
    reversed_ = {**DECLARED, "published": [DECLARED["published"][0] | {"arms": {"relu": "elu", "elu": "relu"}}]}
    (wrong,) = again(replace(kept, declared=reversed_)).claims
    assert wrong["verdict"].startswith("not replicated: opposite sign")


@pytest.mark.slow
def test_a_stored_study_is_judged_anew_without_its_runs(path, tmp_path):
    assert store.main(["--stored", str(path), "--to", str(tmp_path)]) == 0
    for file in path.parent.iterdir():
        assert (tmp_path / file.name).read_bytes() == file.read_bytes(), file.name


@pytest.mark.parametrize(
    ("before", "after"), [('"final_loss":3.23', '"final_loss":3.13'), ('"seed":3', '"seed":4')]
)
def test_a_result_changed_by_hand_is_noticed(before, after, path, tmp_path):
    text = path.read_text()
    assert before in text
    (tmp_path / "x.json").write_text(text.replace(before, after, 1))
    with pytest.raises(LabError, match=r"x\.json: its runs were changed after they were stored"):
        load(str(tmp_path / "x.json"))


@pytest.mark.parametrize("argv", [[], ["acts", "--stored", "acts"]])
def test_one_study_is_named(argv, capsys):
    with pytest.raises(SystemExit):
        store.main(argv)
    assert capsys.readouterr().err == "lab store: name a study, or with --stored one that was stored\n"


def test_what_is_not_there_is_one_line(outputs):
    with pytest.raises(LabError, match="--stored 'act' is not a stored study"):
        table.main(["--stored", "act"])
    with pytest.raises(LabError, match=r"study 'nope' is not one of acts-01234567"):
        store.main(["nope"])
    (outputs / "runs" / "010000000000" / "result.json").unlink()
    with pytest.raises(LabError, match="1 of 9 runs have no result; lab resume acts-01234567, or --incomplete"):
        store.main(["acts"])


def test_a_tier_picks_the_study(outputs):
    smoke = Manifest("acts", "89abcdef", (), DECLARED | {"tier": "smoke"}, "2026-02-01T00:00:00+00:00", 9)
    smoke.write()
    with pytest.raises(LabError, match="acts-89abcdef is not complete: 9 of 9 runs"):
        store.main(["acts"])
    with pytest.raises(LabError, match="study acts was not run at tier 'gpu', but at laptop, smoke"):
        store.main(["acts", "--tier", "gpu"])
    assert store.main(["acts", "--tier", "laptop", "--to", str(outputs)]) == 0
    assert load(str(outputs / "acts.json")).hash == "01234567"


def test_a_study_is_measured_before_it_is_stored(outputs):
    file = outputs / "studies" / "acts-01234567" / "study.json"
    value = json.loads(file.read_text())
    value["declared"]["measures"] = ["lengths"]
    value["declared"]["published"][0]["metric"] = "measures.lengths.loss_x2"
    file.write_text(json.dumps(value))
    for n, run in enumerate(sorted((outputs / "runs").iterdir())):
        names = {"lengths": {"loss_x2": 3.0 + n**2 / 100}} if n != 4 else {"probes": {}}
        (run / "measures.json").write_text(json.dumps({"schema": 1, "values": names}))
    with pytest.raises(
        LabError, match=r"acts-01234567: measures .* are lacking, of runs: 1; lab measure acts-01234567, or --inc"
    ):
        store.main(["acts", "--to", str(outputs)])
    (run.parent / "120000000000" / "measures.json").write_text('{"schema": 1, "values": {"lengths": {}}}')
    (outputs / "acts-lr.svg").touch()
    (outputs / "acts-night-lr.svg").touch()
    assert store.main(["acts", "--to", str(outputs)]) == 0
    assert load(str(outputs / "acts.json")).runs[0].result["measures"] == {"lengths": {"loss_x2": 3.0}}
    page = (outputs / "acts.md").read_text()
    assert "**Measured: lengths**" in page
    assert "The same of measures.lengths.loss\\_x2, for the pairs that a claim is about." in page
    assert {file.name.removeprefix("acts-") for file in outputs.glob("*.svg")} == {
        *("effects.svg", "effects-lengths_loss_x2.svg", "loss.svg"),
        "night-lr.svg",  # of another tier; lr.svg is of an earlier page
    }


def test_what_is_missing_is_said_of_a_study_stored_without_it(outputs, capsys):
    (outputs / "runs" / "130000000000" / "result.json").unlink()
    assert store.main(["acts", "--incomplete", "--to", str(outputs)]) == 0
    capsys.readouterr()
    assert table.main(["--stored", str(outputs / "acts.json"), "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert "acts was stored without 1 of its 9 runs" in err
    assert {row["verdict"] for row in json.loads(out)["effects"]["rows"]} == {""}
