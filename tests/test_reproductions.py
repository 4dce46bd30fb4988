"""The stored studies: what their files say of claims is what the values of their seeds come to, word for word."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from lab.commands._ledger import ledger, studies_by_claim
from lab.commands._stored import load, verdicts
from lab.commands._stored_page import made
from lab.errors import LabError
from lab.report.stored import merged, read
from lab.report.stored_index import FILE, index
from lab.study.claims import claims

FOLDER = Path(__file__).parents[1] / "docs" / "reproductions"

FILES = sorted(FOLDER.glob("*.json"))

LARGEST = 300_000


def each(*, slow=True):
    marks = [pytest.mark.slow] if slow else []
    return pytest.mark.parametrize("file", [pytest.param(file, id=file.stem, marks=marks) for file in FILES])


@each()
def test_verdicts_are_what_the_values_of_the_seeds_come_to(file):
    kept = load(str(file))
    found = verdicts(kept)
    assert [one["verdict"] for one in found] == [one["verdict"] for one in kept.claims]
    assert found == kept.claims


@each()
def test_the_page_is_what_the_tool_writes(file):
    """Where this fails after a change of the words: ``lab store --stored STEM`` writes it anew."""
    text, pictures = made(load(str(file)))
    assert file.with_suffix(".md").read_text(encoding="utf-8") == text
    assert {path.name for path in FOLDER.glob(f"{file.stem}-*.svg")} >= pictures.keys()


@each()
def test_a_loss_changed_by_hand_is_noticed(file, tmp_path):
    text = file.read_text(encoding="utf-8")
    wrong = re.sub(r'"final_loss":(\d)', lambda found: f'"final_loss":{9 - int(found[1])}', text, count=1)
    assert wrong != text
    (tmp_path / file.name).write_text(wrong, encoding="utf-8")
    with pytest.raises(LabError, match="changed after they were stored"):
        load(str(tmp_path / file.name))
    kept = load(str(file))
    named = {arm for one in kept.claims if one["metric"] == "final_loss" for p in one["pairs"] for arm in p["arms"]}
    for run in [run for run in kept.runs if run.arm in named and run.role == "report"][:1]:
        result = merged(run.result, {"final_loss": (run.result["final_loss"] or 3.0) + 0.5, "status": "done"})
        changed = [replace(one, result=result) if one is run else one for one in kept.runs]
        assert verdicts(replace(kept, runs=changed)) != kept.claims


@each(slow=False)
def test_it_is_small_and_whole(file):
    assert file.stat().st_size < LARGEST
    assert all(path.stat().st_size < 60_000 for path in FOLDER.glob(f"{file.stem}-*.svg"))
    value = json.loads(file.read_text(encoding="utf-8"))
    assert len(value["runs"]) == value["expected"]
    assert value["commits"]
    assert "smoke" not in file.stem


def test_the_list_has_them_all():
    assert (FOLDER / FILE).read_text(encoding="utf-8") == index([read(file) for file in FILES])


@pytest.mark.slow
def test_the_ledger_has_every_claim_and_every_stored_verdict():
    kept = [load(str(file)) for file in FILES]
    entries = {entry.claim.id: entry for entry in ledger(kept)}
    assert [*entries] == [one.id for one in claims()]
    assert studies_by_claim().keys() <= entries.keys()
    for one in kept:
        for said in one.claims:
            told = [(k.stem, s["verdict"]) for k, s in entries[said["claim"]].found]
            assert (one.stem, said["verdict"]) in told or not said["verdict"]
