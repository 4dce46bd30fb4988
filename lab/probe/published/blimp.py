"""Which of two sentences that differ in little is grammatical? BLiMP, arXiv:1912.00582.

67 paradigms of 1,000 pairs each, made from templates and a vocabulary, and named by what the pairs differ in. The
sentence with the larger summed log-probability is the model's answer, each read from end-of-text on; chance is one
half. The pairs of a paradigm come from one template, and small models have whole paradigms right or wrong: so the
interval takes paradigms as independent draws, and is that of a mean over them, weighted by their pairs. Most pairs
hold words that a small corpus has not, of which its model cannot know how they are used: those whose every word
occurs ``KNOWN`` times or more in the run's training text, in any case of letters, are counted apart. Licence of the
set: CC BY 4.0.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lab.probe import Choice, Source, shuffled
from lab.probe._score import CONFIDENCE, Reading, Score, facts
from lab.probe.published import Published, Read, Row

KNOWN = 5
"""Occurrences in the training text from which a word is known."""

PARADIGMS = """
adjunct_island anaphor_gender_agreement anaphor_number_agreement animate_subject_passive animate_subject_trans
causative complex_NP_island coordinate_structure_constraint_complex_left_branch
coordinate_structure_constraint_object_extraction determiner_noun_agreement_1 determiner_noun_agreement_2
determiner_noun_agreement_irregular_1 determiner_noun_agreement_irregular_2 determiner_noun_agreement_with_adj_2
determiner_noun_agreement_with_adj_irregular_1 determiner_noun_agreement_with_adj_irregular_2
determiner_noun_agreement_with_adjective_1 distractor_agreement_relational_noun
distractor_agreement_relative_clause drop_argument ellipsis_n_bar_1 ellipsis_n_bar_2
existential_there_object_raising existential_there_quantifiers_1 existential_there_quantifiers_2
existential_there_subject_raising expletive_it_object_raising inchoative intransitive
irregular_past_participle_adjectives irregular_past_participle_verbs irregular_plural_subject_verb_agreement_1
irregular_plural_subject_verb_agreement_2 left_branch_island_echo_question left_branch_island_simple_question
matrix_question_npi_licensor_present npi_present_1 npi_present_2 only_npi_licensor_present only_npi_scope
passive_1 passive_2 principle_A_c_command principle_A_case_1 principle_A_case_2 principle_A_domain_1
principle_A_domain_2 principle_A_domain_3 principle_A_reconstruction regular_plural_subject_verb_agreement_1
regular_plural_subject_verb_agreement_2 sentential_negation_npi_licensor_present sentential_negation_npi_scope
sentential_subject_island superlative_quantifiers_1 superlative_quantifiers_2 tough_vs_raising_1
tough_vs_raising_2 transitive wh_island wh_questions_object_gap wh_questions_subject_gap
wh_questions_subject_gap_long_distance wh_vs_that_no_gap wh_vs_that_no_gap_long_distance wh_vs_that_with_gap
wh_vs_that_with_gap_long_distance
""".split()  # noqa: SIM905 (67 lines)

_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")


@dataclass(frozen=True)
class Pair:
    """Two sentences."""

    choice: Choice
    paradigm: str
    known: bool


@dataclass(frozen=True)
class ByParadigm(Score):
    """A score whose independent draws are paradigms."""

    paradigms: tuple[tuple[int, int], ...]
    """Of each, items and right answers."""

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of a ratio over clusters, by t; not narrower than that of independent pairs."""
        from scipy.stats import t

        low, high = super().interval
        k = len(self.paradigms)
        if k == 1:
            return low, high
        squares = sum((right - self.accuracy * items) ** 2 for items, right in self.paradigms)
        half = float(t.ppf((1 + CONFIDENCE) / 2, k - 1)) * math.sqrt(k / (k - 1) * squares) / self.items
        return max(0.0, min(low, self.accuracy - half)), min(1.0, max(high, self.accuracy + half))


class Asked(Published):
    """Minimal pairs."""

    DATASET = "nyu-mll/blimp"
    SUBSETS = tuple(PARADIGMS)
    SPLIT = "train"
    COLUMNS = ("sentence_good", "sentence_bad")
    WHERE_ANY = ("UID",)

    def answers(self, rows: Sequence[Row], source: Source, read: Read, rng: np.random.Generator) -> dict[str, Any]:
        """See ``Published``."""
        pairs = _pairs(rows, source, rng)
        readings = read([pair.choice for pair in pairs])
        found = [(pair, _is_right(pair, reading)) for pair, reading in zip(pairs, readings, strict=True)]
        by_paradigm: dict[str, list[tuple[Pair, bool]]] = {}
        for pair, right in found:
            by_paradigm.setdefault(pair.paradigm, []).append((pair, right))
        return _facts(found) | {
            "too_long": len(rows) - len(pairs),
            "subsets": {"known words": _facts(_known(found))},
            "paradigms": {
                name: _counts(part) | {"known": _counts(_known(part))} for name, part in sorted(by_paradigm.items())
            },
        }

    def says(self, found: dict[str, Any]) -> list[str]:
        """See ``Published``."""
        known = found["subsets"]["known words"]["items"]
        lines = [
            f"known words: each occurs {KNOWN} times or more in the training text, which holds for {known} of "
            f"{found['items']} pairs of {len(found['paradigms'])} paradigms (each paradigm: --format json)"
        ]
        if found["too_long"]:
            lines.append(f"{found['too_long']} pairs are longer than the model's window, and were not asked")
        return lines


def words(text: str) -> list[str]:
    """The words of a text, in small letters."""
    return _WORD.findall(text.replace("\u2019", "'").lower())


def known_words(texts: Iterable[str]) -> set[str]:
    """Those that occur often enough."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(words(text))
    return {word for word, n in counts.items() if n >= KNOWN}


def _pairs(rows: Sequence[Row], source: Source, rng: np.random.Generator) -> list[Pair]:
    """The pairs that fit into the model's window."""
    known = known_words(document.text for document in source.documents)
    good, bad = (source.encode(*(row[column] for row in rows)) for column in Asked.COLUMNS)
    context = (source.tokenizer.eot,)
    return [
        Pair(
            shuffled(context, (one, other), rng),
            row.get("UID") or row["part"],
            known.issuperset(words(f"{row['sentence_good']} {row['sentence_bad']}")),
        )
        for row, one, other in zip(rows, good, bad, strict=True)
        if min(len(one), len(other)) > 0 and max(len(one), len(other)) < source.window
    ]


def _is_right(pair: Pair, reading: Reading) -> bool:
    return reading.best == pair.choice.answer


def _known(found: Sequence[tuple[Pair, bool]]) -> list[tuple[Pair, bool]]:
    return [(pair, right) for pair, right in found if pair.known]


def _facts(found: Sequence[tuple[Pair, bool]]) -> dict[str, Any]:
    items = Counter(pair.paradigm for pair, _ in found)
    right = Counter(pair.paradigm for pair, is_right in found if is_right)
    parts = tuple((n, right[name]) for name, n in sorted(items.items()))
    return facts(ByParadigm(len(found), right.total(), 0.5, None, parts) if found else None)


def _counts(found: Sequence[tuple[Pair, bool]]) -> dict[str, Any]:
    right = sum(right for _, right in found)
    return {"items": len(found), "right": right, "accuracy": right / len(found) if found else None}
