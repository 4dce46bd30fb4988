"""Price a study before it is trained: runs, hours, disk, the smallest effect it can see."""

import argparse
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from lab.commands._parser import Parser

if TYPE_CHECKING:
    from lab.commands._cost import Priced
    from lab.commands._trial import Trial
    from lab.study.cell import Cell
    from lab.study.forecast import Forecast
    from lab.study.gate import Sight
    from lab.study.reach import Reach
    from lab.study.study import Study

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
    if options.budget is not None and not 0 < options.budget < inf:
        parser.error(f"--budget {options.budget} must be a number of minutes above 0")
    if options.budget is not None and options.no_trial:
        parser.error("--budget and --no-trial exclude each other: only a trial tells how long it takes")
    facts = _facts(options)
    if options.format == "json":
        print(json.dumps(facts, indent=2, ensure_ascii=False))
    else:
        from lab.commands._plan_page import print_text

        print_text(facts)
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
    parser.add_argument(
        "--budget",
        metavar="MINUTES",
        type=float,
        help="say which arms to leave out to stay below it (default: max_minutes of the tier)",
    )
    parser.add_argument("--no-trial", action="store_true", help="train nothing: no hours and no disk")
    parser.add_argument(
        "--format", choices=["text", "json"], default="text", help="for people, or JSON (default: text)"
    )
    return parser


def _facts(options: argparse.Namespace) -> dict[str, Any]:
    """What a study comes to."""
    from lab.commands._cost import priced, refuse_long, refuse_twins
    from lab.commands._trial import trial
    from lab.compose import compose_whole_study
    from lab.study.design import arms, contrasts
    from lab.study.forecast import forecast
    from lab.study.gate import look
    from lab.study.reach import reaches
    from lab.study.script import script
    from lab.study.slots import slots
    from lab.study.words import yaml_keys

    whole, tier, shared = compose_whole_study(options.overrides, config_dir=options.config_dir)
    study = whole.at(tier)
    keys = yaml_keys([options.config_dir] if options.config_dir else [])
    found = {arm.name: priced(arm, config_dir=options.config_dir) for arm in arms(study, shared, keys)}
    refuse_twins(study.name, found.values())
    refuse_long(study, found.values())
    ahead = forecast(study, script(study, shared, keys), partial(_ended, found, options.config_dir))
    first = next(iter(found.values())).plan.config
    assert first.threads is not None
    places = slots(options.workers, jobs_per_gpu=1, device=str(first.device), threads=first.threads)
    tried = None if options.no_trial else trial(*next(iter(found.values())).asked, slots=places)
    seen = look(study, ahead.floor, keys)
    claims = reaches(study, seen, found, [arm.name for arm in arms(whole.at(None), keys=keys)])
    budget = options.budget or (whole.tiers[tier].max_minutes if tier else None)
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
        "budget": _budget(study, found, ahead, tried, claims, minutes=budget, workers=len(places)),
        "claims": [_claim(one) for one in claims],
        "sight": asdict(seen) | {"enough": seen.enough, "text": seen.text},
        "by_seeds": list(_by_seeds(study, found, seen, tried, workers=len(places))),
    }


def _ended(found: Mapping[str, "Priced"], config_dir: str | None, cell: "Cell") -> Mapping[str, Any] | None:
    """The result of a run, None where it has not ended; of one that starts from another run by all its words."""
    from lab.commands._cost import priced
    from lab.study.design import Arm

    if not any(word.startswith("init_from=") for word in cell.overrides):
        return found[cell.arm].ended(cell)
    return priced(Arm(cell.arm, cell.overrides), config_dir=config_dir).ended(cell)


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
    cost: dict[str, Any] = {"workers": workers, "trial": None, "seconds": None, "gib": None}
    if tried is None:
        return cost
    seconds = _seconds(found, ahead, tried, found, workers=workers)
    kept = sum(tried.kept_bytes + tried.step_bytes * found[c.arm].steps for part in ahead.stages for c in part.left)
    return cost | {"trial": asdict(tried), "seconds": seconds, "gib": kept / GIB}


def _seconds(
    found: "Mapping[str, Priced]", ahead: "Forecast", tried: "Trial", arms: Collection[str], *, workers: int
) -> float:
    """Of what is left of some arms."""
    from lab.study.forecast import wall_s

    base = next(iter(found.values()))
    each = [[found[c.arm].seconds(base, tried) for c in part.left if c.arm in arms] for part in ahead.stages]
    return wall_s(each, workers=workers)


def _budget(
    study: "Study",
    found: "Mapping[str, Priced]",
    ahead: "Forecast",
    tried: "Trial | None",
    claims: "Sequence[Reach]",
    *,
    minutes: float | None,
    workers: int,
) -> dict[str, Any] | None:
    """Whether it fits, and what to leave out if not; None where there is no budget or no time is known."""
    from lab.study.budget import cut, without

    if minutes is None or tried is None:
        return None
    last = {arm for one in claims if one.why is None for arm in one.arms}
    time = partial(_seconds, found, ahead, tried, workers=workers)
    rest = cut(study, limit_s=60 * minutes, seconds=lambda gone: time([*without(found, gone)]), last=last)
    lost = [one.claim.id for one in claims if one.why is None and one.arms & {*rest.dropped}]
    return {
        "minutes": minutes,
        "fits": rest.fits and not rest.dropped,
        "drop": list(rest.dropped),
        "seconds": rest.seconds,
        "word": rest.word(study.tier) if rest.dropped and study.tier else None,
        "claims": lost,
        "text": rest.text(study, seconds=time(found), minutes=minutes, claims=lost),
    }


def _claim(one: "Reach") -> dict[str, Any]:
    return {
        "id": one.claim.id,
        "source": one.claim.source + one.claim.mark,
        "statement": one.claim.statement,
        "metric": one.metric,
        "pairs": [list(pair) for pair in one.pairs],
        "visible": one.visible,
        "effect": one.effect,
        "in_reach": one.why is None,
        "why": one.why,
        "expect": one.claim.expect.value,
        "note": one.note,
    }


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
