"""Write what the stored studies say of the claims into docs/notes.md, below each list, and into README.md, by word.

    python scripts/notes.py

Run it after `lab store`. Claims without a verdict are left out of the notes, which are never wrong, only late.
"""

import io
import json
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs/notes.md"
README = Path(__file__).parents[1] / "README.md"

CLAIMS = re.compile(r"^(Claims: (?:.+\n)+)(?:\n<!-- verdicts -->\n(?:.*\n)*?<!-- end -->\n)?", re.MULTILINE)
"""A paragraph of claims, with the verdicts that stand below it."""


COUNTED = re.compile(r"(?<=<!-- ledger -->\n).*?(?=<!-- end -->)", re.DOTALL)
"""Where README.md counts the claims."""

WORDS = {
    "replicated": "**Replicated**: the published sign, or level where level was published",
    "replicated in part": "**Replicated in part**: on some of its pairs",
    "opposite sign": "**The opposite sign** here, on one of its pairs or more",
    "no effect here": "**No effect here** as large as the published one, or as the margin",
    "a difference here": "**A difference here** where none was published",
    "not at that size": "**Not at that size**",
    "inconclusive at this scale": "**Not distinguishable**: inconclusive at this scale and number of seeds",
    "diverged here": "**Diverged here**: one of the two sides broke",
    "baseline unstable": "**The baseline broke**",
    "too few seeds": "**Too few seeds**",
    "not measured": "**Not measured**",
    "incomplete": "**Incomplete**",
}
"""How README.md says what came of a claim, in its order."""

WITHOUT = {
    "not run": "**Not run yet** by the study that names them",
    "no pair": "**No pair**: definitions and settings, with no two things to compare",
    "published only": "**Out of reach**: published only",
}
"""How it says why there is no verdict."""


def ledger() -> dict[str, Mapping[str, Any]]:
    """What `lab claims` knows, by the claims' ids."""
    from lab.commands import claims

    out = io.StringIO()
    with redirect_stdout(out):
        claims.main(["--format", "json"])
    return {row["id"]: row for row in json.loads(out.getvalue())}


def filled(text: str, rows: Mapping[str, Mapping[str, Any]]) -> str:
    """The page with the verdicts of its claims."""
    return CLAIMS.sub(lambda match: match[1] + _block(re.findall(r"`([^`]+)`", match[1]), rows), text)


def _block(ids: list[str], rows: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [_line(rows[name]) for name in ids if rows[name]["verdict"]]
    return "\n".join(["", "<!-- verdicts -->", *lines, "<!-- end -->", ""]) if lines else ""


def _line(row: Mapping[str, Any]) -> str:
    link = f" ([{Path(row['link']).stem}]({row['link'].removeprefix('docs/')}))" if row["link"] else ""
    how = f"{row['scale']}, {row['seeds']} seeds, tested by `{row['metric']}`"
    return f"- `{row['id']}`: **{row['verdict']}**{link}; {how}"


def counted(text: str, rows: Mapping[str, Mapping[str, Any]]) -> str:
    """README.md with its table of what came of the claims, and their names below."""
    lines = ["| what came of it here | claims | in the studies |", "|---|--:|---|"]
    names = ["", "<details>", "<summary>The claims by name</summary>", ""]
    for word, said in WORDS.items():
        of_word = [row for row in rows.values() if row["status"] == word]
        lines += [f"| {said} | {len(of_word)} | {_studies(of_word)} |"] if of_word else []
        names += [f"- *{word}*: {', '.join(map(_linked, of_word))}"] if of_word else []
    counts = Counter(row["status"] for row in rows.values())
    lines += [f"| {said} | {counts[word]} | `lab claims` |" for word, said in WITHOUT.items() if counts[word]]
    return COUNTED.sub(lambda _: "\n".join([*lines, *names, "", "</details>", ""]), text)


def _studies(told: list[Mapping[str, Any]]) -> str:
    """The stored pages that these verdicts are from, each with their number."""
    pages = Counter(row["link"] for row in told)
    return ", ".join(f"[{Path(page).stem}]({page}) {number}" for page, number in sorted(pages.items()))


def _linked(row: Mapping[str, Any]) -> str:
    """A claim with the page of its study, and by what it was tested if that was not the final loss."""
    metric = str(row["metric"]).removeprefix("measures.")
    return f"[{row['id']}]({row['link']})" + ("" if metric == "final_loss" else f" by `{metric}`")


if __name__ == "__main__":
    known = ledger()
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), known), encoding="utf-8")
    README.write_text(counted(README.read_text(encoding="utf-8"), known), encoding="utf-8")
