"""The ledger as it is written: ids, names, and that no claim contradicts its own figures."""

import dataclasses
import re
from collections import Counter

import pytest
import yaml
from each import for_each

from lab import choices
from lab.paths import conf_dir
from lab.study.claims import Claim, Compare, Expect, Read, Want, claims

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
FILES = {
    path.stem: yaml.load(path.read_text(encoding="utf-8"), LOADER)
    for path in (conf_dir() / "claims").glob("*.yaml")
}
CLAIMS = {claim["id"]: claim for listed in FILES.values() for claim in listed}
TOPICS = """
activation attention embeddings initialization logits norm notes optimizer placement position rates settings shape
sparse stability survey systems yardsticks
"""
PUBLISHED = 120
LEVEL = 0.03
"""Two are called level where their figures are so near, as a part of the larger."""

every_claim = for_each(CLAIMS)


def figures(claim):
    """The section that ``at`` names."""
    part = claim["figures"]
    for key in claim["at"].split("."):
        part = part[key]
    return part


def contradictions(claim):
    """The pairs whose figures say otherwise."""
    if not claim.get("at"):
        return []
    known = figures(claim)
    found = []
    for better, worse in claim.get("pairs", []):
        gap = known[better] - known[worse]
        ok = {
            "lower": gap < 0,
            "higher": gap > 0,
            "flat": abs(gap) <= LEVEL * max(abs(known[better]), abs(known[worse])),
        }
        found += [] if ok[claim["want"]] else [(better, worse)]
    return found


def test_all_published_claims_are_there_once_and_by_topic():
    ids = Counter(claim["id"] for listed in FILES.values() for claim in listed)
    assert set(ids.values()) == {1}
    assert sum(not name.startswith("notes.") for name in ids) == PUBLISHED
    assert sorted(FILES) == TOPICS.split()
    assert {claim["id"] for claim in FILES["notes"]} == {name for name in ids if name.startswith("notes.")}


@every_claim
def test_an_id_names_its_paper_and_what_it_says(name):
    claim = CLAIMS[name]
    assert re.fullmatch(r"[a-z0-9_-]+\.[A-Za-z0-9-]+", name)
    year = re.match(r"[a-z]+(20\d\d)\.", name)
    assert year is None or year[1] in claim["source"]
    assert "arXiv" in claim["source"] or name.startswith(("notes.", "cs336.", "dsa2025.")), claim["source"]


@every_claim
def test_the_keys_are_the_fields_and_words_are_among_those_that_are_known(name):
    claim = CLAIMS[name]
    fields = {field.name for field in dataclasses.fields(Claim)}
    assert claim.keys() <= fields
    assert claim.keys() >= {"id", "source", "statement", "setup", "expect", "why", "read"}
    assert claim["expect"] in list(Expect)
    assert claim["read"] in list(Read)
    assert claim.get("want", "flat") in list(Want)
    assert claim.get("compare", "sign") in list(Compare)
    assert all(claim[key] for key in claim)
    for key in ("source", "statement", "setup", "why", "caveat"):
        assert isinstance(claim.get(key, ""), str)


@every_claim
def test_pairs_have_a_direction_and_two_names_and_figures_a_unit(name):
    claim = CLAIMS[name]
    pairs = claim.get("pairs", [])
    assert "want" in claim or not pairs
    assert all(
        len(pair) == 2 and pair[0] != pair[1] and all(isinstance(part, str) for part in pair) for pair in pairs
    )
    assert len({frozenset(pair) for pair in pairs}) == len(pairs)
    assert ("at" in claim) <= bool(pairs)
    assert ("at" in claim) == ("unit" in claim)


@every_claim
def test_the_figures_agree_with_the_claim(name):
    claim = CLAIMS[name]
    if "at" in claim:
        assert all(isinstance(value, (int, float)) for value in figures(claim).values())
        assert {name for pair in claim["pairs"] for name in pair} <= figures(claim).keys()
    assert contradictions(claim) == []


@every_claim
def test_the_figures_turned_round_would_be_noticed(name):
    claim = CLAIMS[name]
    if "at" in claim and claim["want"] != "flat":
        turned = {"lower": "higher", "higher": "lower"}[claim["want"]]
        assert contradictions(claim | {"want": turned}) == [tuple(pair) for pair in claim["pairs"]]


@every_claim
def test_keys_of_figures_can_stand_between_dots(name):
    claim = CLAIMS[name]
    parts = [claim.get("figures", {})]
    for part in parts:
        assert all(isinstance(key, str) and "." not in key for key in part)
        parts += [value for value in part.values() if isinstance(value, dict)]


@for_each([name for name, claim in CLAIMS.items() if "group" in claim])
def test_with_a_group_the_pairs_are_its_choices(name):
    claim = CLAIMS[name]
    assert claim["metric"] == "final_loss"
    assert claim["want"] in ("lower", "flat")
    known = choices.names(claim["group"])
    assert {name for pair in claim["pairs"] for name in pair} <= {*known}


@pytest.mark.slow
def test_every_claim_decodes():
    assert [claim.id for claim in claims()] == [claim["id"] for stem in sorted(FILES) for claim in FILES[stem]]
