"""Write below each list of claims in docs/notes.md the verdicts that the stored studies give them.

    python scripts/notes.py

Run it after `lab store`. Claims without a verdict are left out, so that a page is never wrong, only late.
"""

import io
import json
import re
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs/notes.md"

CLAIMS = re.compile(r"^(Claims: (?:.+\n)+)(?:\n<!-- verdicts -->\n(?:.*\n)*?<!-- end -->\n)?", re.MULTILINE)
"""A paragraph of claims, with the verdicts that stand below it."""


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
    return f"- `{row['id']}`: **{row['verdict']}**{link}; {row['scale']}, {row['seeds']} seeds"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), ledger()), encoding="utf-8")
