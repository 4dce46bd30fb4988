"""Price a study before it is trained: runs, hours, disk, the smallest effect it can see."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lab.commands._parser import Parser

if TYPE_CHECKING:
    from lab.commands._cost import Priced
    from lab.commands._trial import Trial
    from lab.study.forecast import Forecast
    from lab.study.gate import Sight
    from lab.study.study import Study

PIPE_WIDTH = 116
"""Columns where the output is no terminal."""

GIB = 2**30


def main(argv: list[str]) -> int:
    """Run ``lab plan``; the exit status.

    Raises:
        LabError: the study, one of its runs or its data are refused.
    """
    parser = _parser()
    options = parser.parse_with_overrides(argv)
    if options.workers is not None and options.workers < 1:
        parser.error(f"--workers {options.workers} must be 1 or more")
    facts = _facts(options)
    if options.format == "json":
        print(json.dumps(facts, indent=2, ensure_ascii=False))
    else:
        _print_text(facts)
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="lab plan",
        description=f"{__doc__} The baseline is trained for 20 steps, in a folder of its own, to know its speed.",
    )
    parser.add_argument(
        "overrides",
        metavar="OVERRIDE",
        nargs="*",
        help="as for lab train: study=norms tier=laptop model.dim=64",
    )
    parser.add_argument("--config-dir", "-cd", metavar="DIR", help="a folder with configuration files of your own")
    parser.add_argument(
        "--workers", metavar="N", type=int, help="runs side by side (default: one a core, or one a GPU)"
    )
    parser.add_argument("--no-trial", action="store_true", help="train nothing: no hours and no disk")
    parser.add_argument(
        "--format", choices=["text", "json"], default="text", help="for people, or JSON (default: text)"
    )
    return parser


def _facts(options: argparse.Namespace) -> dict[str, Any]:
    """What a study comes to."""
    from lab.commands._cost import priced, refuse_twins
    from lab.commands._trial import trial
    from lab.compose import compose_study
    from lab.study.design import arms, contrasts
    from lab.study.forecast import forecast
    from lab.study.gate import look
    from lab.study.script import script
    from lab.study.slots import slots
    from lab.study.words import yaml_keys

    study, shared = compose_study(options.overrides, config_dir=options.config_dir)
    keys = yaml_keys([options.config_dir] if options.config_dir else [])
    found = {arm.name: priced(arm, config_dir=options.config_dir) for arm in arms(study, shared, keys)}
    refuse_twins(study.name, found.values())
    ahead = forecast(study, script(study, shared, keys), lambda cell: found[cell.arm].ended(cell))
    first = next(iter(found.values())).plan.config
    assert first.threads is not None
    places = slots(options.workers, jobs_per_gpu=1, device=str(first.device), threads=first.threads)
    tried = None if options.no_trial else trial(*next(iter(found.values())).asked, slots=places)
    seen = look(study, ahead.floor, keys)
    return {
        "study": study.name,
        "hash": study.hash(shared),
        "tier": study.tier,
        "question": study.question,
        "verdicts": study.verdicts,
        "design": study.design,
        "match": study.match,
        "arms": [price.facts() for price in found.values()],
        "contrasts": [contrast.name for contrast in contrasts(study, keys=keys)],
        **_amounts(study, found, ahead),
        **_costs(found, ahead, tried, workers=len(places)),
        "sight": asdict(seen) | {"enough": seen.enough, "text": seen.text},
        "by_seeds": list(_by_seeds(study, found, seen, tried, workers=len(places))),
    }


def _amounts(study: "Study", found: "Mapping[str, Priced]", ahead: "Forecast") -> dict[str, Any]:
    """Runs, by stage."""
    from lab.study.sections import LrMode

    stages = [
        {
            "name": part.stage.name,
            "arms": len({cell.arm for cell in part.stage.cells}),
            "rates": len({cell.lr for cell in part.stage.cells if cell.role == "tune"}) or None,
            "seeds": len({cell.seed for cell in part.stage.cells}),
            "runs": len(part.done),
            "done": sum(part.done),
        }
        for part in ahead.stages
    ]
    tuned = study.lr.mode is not LrMode.shared
    return {
        "stages": stages,
        "runs": sum(len(part.done) for part in ahead.stages),
        "done": sum(sum(part.done) for part in ahead.stages),
        "edge_runs": len(found) * study.lr.extend * len(study.seeds.tune) if tuned else 0,
    }


def _costs(
    found: "Mapping[str, Priced]", ahead: "Forecast", tried: "Trial | None", *, workers: int
) -> dict[str, Any]:
    """Time and disk of what is left."""
    from lab.study.forecast import wall_s

    cost: dict[str, Any] = {"workers": workers, "trial": None, "seconds": None, "gib": None}
    if tried is None:
        return cost
    base = next(iter(found.values()))
    seconds = [[found[cell.arm].seconds(base, tried) for cell in part.left] for part in ahead.stages]
    kept = sum(tried.kept_bytes + tried.step_bytes * found[c.arm].steps for part in ahead.stages for c in part.left)
    return cost | {"trial": asdict(tried), "seconds": wall_s(seconds, workers=workers), "gib": kept / GIB}


def _by_seeds(
    study: "Study", found: "Mapping[str, Priced]", seen: "Sight", tried: "Trial | None", *, workers: int
) -> Iterator[dict[str, Any]]:
    """Runs, hours and the smallest visible effects of the same study with other numbers of report seeds."""
    from lab.stats.power import smallest_effect
    from lab.study.design import tuning_runs
    from lab.study.forecast import RHOS, SEEDS

    base = next(iter(found.values()))
    of_seed = None if tried is None else sum(price.seconds(base, tried) for price in found.values())
    for n in sorted({*SEEDS, seen.seeds}):
        each = n + tuning_runs(study)
        effects = {
            f"{rho:g}": smallest_effect(
                seen.sd, n=n, m=seen.contrasts, rho=rho, alpha=study.stats.alpha, power=study.stats.power
            )
            for rho in RHOS
        }
        seconds = None if of_seed is None else of_seed * each / workers
        yield {"seeds": n, "runs": each * len(found), "seconds": seconds, "effects": effects}


def _print_text(facts: Mapping[str, Any]) -> None:
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
    with console.capture() as captured:
        console.print(page, "", tables[0], "", _legend(facts["sight"]), tables[1], sep="\n")
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
        left = number == 0 or title == "settings"
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
    yield "sees", facts["sight"]["text"]


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
