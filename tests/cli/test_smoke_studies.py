"""Every study of conf/study is trained at tier smoke: all runs come to an end, are measured, and have a table."""

import json

import pytest

from lab.paths import conf_dir

pytestmark = pytest.mark.slow

STUDIES = sorted(path.stem for path in (conf_dir() / "study").glob("*.yaml"))


@pytest.fixture(scope="module")
def one_folder(tmp_path_factory):
    """An outputs folder for all: runs that studies have in common are trained once."""
    return tmp_path_factory.mktemp("studies")


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_runs_at_tier_smoke(name, lab, book, one_folder, monkeypatch):
    monkeypatch.setenv("LAB_OUTPUTS", str(one_folder))
    words = ["data=text", f"data.file={book}", "threads=1", "device=cpu"]
    trained = lab("train", f"study={name}", "tier=smoke", *words, timeout=600)
    assert trained.returncode == 0, trained.stderr
    folder = max((one_folder / "studies").glob(f"{name}-*"), key=lambda path: path.stat().st_mtime)
    study = json.loads((folder / "study.json").read_text())
    runs = {run["id"] for run in study["runs"]}
    assert len(study["runs"]) == study["expected"] > 1
    for run in runs:
        result = json.loads((one_folder / "runs" / run / "result.json").read_text())
        assert result["status"] == "done", (run, result["reason"])
    for measure in study["declared"].get("measures", ()):
        taken = [one_folder / "runs" / run / "measures.json" for run in runs]
        assert any(measure in json.loads(path.read_text())["values"] for path in taken if path.exists())
    table = lab("table", folder.name)
    assert (table.returncode, table.stderr) == (0, "")
    assert study["declared"]["baseline"]["name"] in table.stdout
