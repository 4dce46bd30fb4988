"""Presets against transformers' models of the same weights: logits, loss and the gradient of every parameter."""

import pytest

from lab import preset
from lab.compose import compose_config
from oracles import composed
from oracles.cases import CASES, WITHOUT
from oracles.compare import SIZES, Case, compare

QUICK = ("gpt2", "llama2", "gemma2", "llama4", "olmo2", "falcon_40b", "deepseek_v3", "t5")
"""Cases that the fast suite compares, on one path; the others are compared where all tests are run."""


def speed(case: Case):
    return case if str(case) in QUICK else pytest.param(case, marks=pytest.mark.slow)


def test_the_quick_cases_are_cases():
    assert set(QUICK) <= {str(case) for case in CASES}


@pytest.mark.parametrize("path", ["plain", pytest.param("sdpa", marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", [speed(case) for case in CASES], ids=str)
def test_a_preset_equals_its_reference(case: Case, path: str):
    found = compare(case, path=path)

    worst = sorted(found.gradients.items(), key=lambda item: -item[1])[:3]
    assert found.equal, f"logits {found.logits:.2e}, loss {found.loss:.2e}, gradients over allowed {worst}"


def test_every_preset_is_held_against_something_or_says_why_not():
    covered = {case.preset for case in CASES}

    assert covered.isdisjoint(WITHOUT)
    assert sorted(covered | set(WITHOUT)) == preset.names()


def test_cases_have_names_of_their_own():
    assert len({str(case) for case in CASES}) == len(CASES)


@pytest.mark.parametrize(
    "name", ["gemma3", *(pytest.param(n, marks=pytest.mark.slow) for n in ("gpt2", "llama4", "transformer_2017"))]
)
def test_what_is_put_together_here_is_what_hydra_composes(name):
    changed = {**SIZES, "norm.eps": 1e-4, "position": "none"}
    words = [f"{key}={value}" for key, value in changed.items()]

    expected = compose_config([f"preset={name}", *words, "device=cpu", "precision=fp32", "threads=1"])

    assert composed.configuration(name, changed) == expected
