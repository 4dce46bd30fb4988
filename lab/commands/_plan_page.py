"""The page of `lab plan` for people."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

PIPE_WIDTH = 116
"""Columns where the output is no terminal."""


def print_text(facts: Mapping[str, Any]) -> None:
    """Print what a study comes to."""
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    page = Table.grid(padding=(0, 2))
    page.add_column(style="bold", no_wrap=True)
    page.add_column(overflow="fold")
    for label, text in _lines(facts):
        page.add_row(label, text)
    tables = [_table(("arm", "parameters", "FLOPs/token", "settings"), _arm_rows(facts["arms"]))]
    effects = [f"rho {rho}" for rho in facts["by_seeds"][0]["effects"]]
    tables.append(_table(("seeds", "runs", "time", *effects), _seed_rows(facts["by_seeds"])))
    claims = (
        [_table(("claim", "pairs", "published", "here"), _claim_rows(facts["claims"])), ""]
        if facts["claims"]
        else []
    )
    with console.capture() as captured:
        console.print(page, "", *claims, tables[0], "", _legend(facts["sight"]), tables[1], sep="\n")
    text = captured.get()
    if not console.is_terminal:  # no blanks up to the width
        text = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
    sys.stdout.write(text)


def _legend(sight: Mapping[str, Any]) -> str:
    return (
        f"smallest visible effect in {sight['unit']} at sd {sight['sd']:.2g}, by report seeds, "
        "and by the correlation rho of an arm's seeds with the baseline's"
    )


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, title in enumerate(head):
        left = number == 0 or title in ("settings", "here")
        table.add_column(title, justify="left" if left else "right", overflow="fold", no_wrap=not left)
    for row in rows:
        table.add_row(*row)
    return table


def _lines(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    from lab.study.board import duration

    tier = f"tier {facts['tier']}" if facts["tier"] else "no tier"
    tier += "" if facts["verdicts"] else ", without verdicts"
    yield "study", f"{facts['study']}-{facts['hash']}, {tier}"
    yield "question", facts["question"]
    equal = (
        "" if facts["match"] == "none" else f", variants equal in {facts['match']} to {facts['arms'][0]['name']}"
    )
    yield (
        "design",
        f"{facts['design']}, {len(facts['contrasts'])} contrasts: {'; '.join(facts['contrasts'])}{equal}",
    )
    for number, stage in enumerate(facts["stages"]):
        rates = f" x {stage['rates']} learning rates" if stage["rates"] else ""
        arms = f"{stage['arms']} arm{'' if stage['arms'] == 1 else 's'}"
        seeds = f"{stage['seeds']} seed{'' if stage['seeds'] == 1 else 's'}"
        done = f", {stage['done']} done" if stage["done"] else ""
        yield "" if number else "stages", f"{stage['name']}: {arms}{rates} x {seeds} = {stage['runs']} runs{done}"
    more = f"; up to {facts['edge_runs']} more where the best rate is at the edge" if facts["edge_runs"] else ""
    yield "runs", f"{facts['runs']}, {facts['done']} of them done{more}"
    base = facts["arms"][0]
    yield "tokens", f"{base['tokens']:,} a run: {base['steps']:,} steps, {base['epochs']:.2f} epochs of the corpus"
    if facts["trial"] is None:
        yield "time", "not tried (--no-trial)"
    else:
        yield (
            "time",
            f"about {duration(facts['seconds'])} for what is left on this machine, {facts['workers']} runs side by "
            f"side: {facts['trial']['step_s']:.3g} s a step and {duration(facts['trial']['rest_s'])} a run beside, "
            "measured on the baseline; the others by their FLOPs",
        )
        yield "disk", f"about {facts['gib']:.2g} GiB more"
    if facts["budget"] is not None:
        yield "budget", facts["budget"]["text"]
    yield "sees", facts["sight"]["text"]
    if facts["claims"]:
        near = sum(claim["in_reach"] for claim in facts["claims"])
        yield "claims", f"{near} of {len(facts['claims'])} in reach here"


def _claim_rows(claims: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[str]]:
    """Claims in reach first, each group in the file's order."""
    for claim in sorted(claims, key=lambda claim: not claim["in_reach"]):
        pairs = len(claim["pairs"])
        some = claim["in_reach"] and claim["visible"] is not None
        counted = f"{claim['visible']} of {pairs}" if some else str(pairs)
        effect = "–" if claim["effect"] is None else f"{claim['effect']:.2g}"
        near = f"in reach {claim['note']}" if claim["note"] else "in reach"
        yield claim["id"], counted, effect, near if claim["in_reach"] else f"out of reach: {claim['why']}"


def _arm_rows(arms: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[str]]:
    base = arms[0]
    common = set.intersection(*(set(arm["overrides"]) for arm in arms))
    for arm in arms:
        own = [word for word in arm["overrides"] if word not in common and not word.startswith("match")]
        sizes = [
            f"{arm[key]:,.0f}" + ("" if arm is base else f" ({100 * (arm[key] / base[key] - 1):+.1f} %)")
            for key in ("parameters", "flops_per_token")
        ]
        yield arm["name"], *sizes, " ".join(own)


def _seed_rows(rows: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[str]]:
    from lab.study.board import duration

    for row in rows:
        time = "n/a" if row["seconds"] is None else duration(row["seconds"])
        effects = ["n/a" if effect is None else f"{effect:.2g}" for effect in row["effects"].values()]
        yield str(row["seeds"]), f"{row['runs']:,}", time, *effects
