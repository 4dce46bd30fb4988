"""What contradicts itself in a study that decodes."""

from collections.abc import Iterator

from lab.errors import ConfigError, did_you_mean
from lab.runs.units import is_loss
from lab.study.claims import Claim, Want, claim
from lab.study.design import arms, contrasts
from lab.study.published import OF_GRID, Published, within_runs
from lab.study.sections import AXES, LrMode
from lab.study.study import LR_KEY, Study
from lab.study.words import Keys, Settings, comparable

PAIRING = "study_seed"
"""A setting that pairs the arms: only a null variant, the baseline again, has its own."""


def check(study: Study, keys: Keys | None = None) -> None:
    """Refuse a study that contradicts itself, at any of its tiers.

    Raises:
        ConfigError: the first thing that is wrong.
    """
    sizes = [study.at(None), *map(study.at, study.tiers)]
    problem = next(_problems(study, sizes), None)
    if problem:
        raise ConfigError(problem)
    for size in sizes:
        known = arms(size, keys=keys)
        if len(known) < 2:
            raise ConfigError("study.axes come to one arm: there is nothing to compare")
        contrasts(size, keys=keys)
    _published(study, [arm.name for arm in arms(sizes[0], keys=keys)])


def _problems(study: Study, sizes: list[Study]) -> Iterator[str]:
    """What is wrong, in order."""
    yield from _parts(study)
    yield from _axes(study)
    yield from _names(study)
    if study.design == "hold-one-out":
        yield from _taken_away(study)
    yield from _starts(study, sizes)
    yield from _kept(study)
    yield from _rates(study, sizes)
    for size in sizes:
        where = f"study.tiers.{size.tier}.report" if size.tier else "study.seeds.report"
        if size.gate and len(size.seeds.report) < 2:
            yield f"{where}: one seed shows no scatter, so study.gate cannot be judged: two or more"


def _parts(study: Study) -> Iterator[str]:
    """Keys that the design has no use for, or needs."""
    if study.design in AXES:
        if study.variants:
            yield f"study.variants and study.design {study.design} exclude each other: arms come from study.axes"
        if study.baseline.set:
            yield (
                f"study.baseline.set and study.design {study.design} exclude each other: the first values of "
                "study.axes are the baseline, and study.set is for all arms"
            )
        if not study.axes:
            yield f"study.axes is not set: study.design {study.design} goes through its values"
        return
    if study.axes:
        yield f"study.axes and study.design {study.design} exclude each other: arms come from study.variants"
    least = 2 if study.design == "pairwise" else 1
    if len(study.variants) < least:
        has = len(study.variants)
        yield f"study.variants has {has} of the {least} or more that study.design {study.design} needs"


def _axes(study: Study) -> Iterator[str]:
    for key, values in study.axes.items():
        if len({comparable({key: value}) for value in values}) < len(values):
            yield f"study.axes.{key} [{', '.join(values)}] has a value twice"
    lengths = {key: len(values) for key, values in study.axes.items()}
    if study.design == "zip" and len({*lengths.values()}) > 1:
        said = ", ".join(f"{key} has {length}" for key, length in lengths.items())
        yield f"study.axes must be of one length for study.design zip: {said}"


def _names(study: Study) -> Iterator[str]:
    if any(variant.name == study.baseline.name for variant in study.variants):
        yield f"study.variants.{study.baseline.name} has the baseline's name"
    nulls = [variant.set for variant in study.variants if variant.set.keys() == {PAIRING}]
    for path, own in _own(study):
        if PAIRING in own and own not in nulls:
            yield f"{path}: '{PAIRING}' pairs the arms, so it goes to study.set, or stands alone"


def _own(study: Study) -> Iterator[tuple[str, Settings]]:
    """What arms set themselves."""
    yield "study.baseline.set", study.baseline.set
    for variant in study.variants:
        yield f"study.variants.{variant.name}.set", variant.set
    yield "study.axes", dict.fromkeys(study.axes, "")


def _taken_away(study: Study) -> Iterator[str]:
    on = {key.partition(".")[0] for key in study.baseline.set}
    for variant in study.variants:
        for key in variant.set:
            if key.partition(".")[0] not in on:
                yield (
                    f"study.variants.{variant.name}.set: '{key}' is nothing that study.baseline.set has on, "
                    "which hold-one-out takes away"
                )


def _starts(study: Study, sizes: list[Study]) -> Iterator[str]:
    """Arms that start from the weights of others."""
    if study.baseline.start is not None:
        yield "study.baseline.start: the baseline runs first, so it starts from no other arm"
    for size in sizes:
        starts = {variant.name: variant.start for variant in size.variants if variant.start is not None}
        names = [size.baseline.name, *(variant.name for variant in size.variants)]
        where = f" at tier {size.tier}" if size.tier else ""
        for name, start in starts.items():
            path = f"study.variants.{name}.start '{start}'"
            if start not in names:
                yield f"{path} is not one of the arms{where}: {', '.join(names)}{did_you_mean(start, names)}"
            chain = [name]
            while (after := starts.get(chain[-1])) is not None and after not in chain:
                chain.append(after)
            if after is not None:
                yield f"{path}: these wait for each other: {', '.join(chain)}"
        if starts and (size.design == "pairwise" or size.lr.mode is not LrMode.shared):
            yield (
                f"study.variants.{next(iter(starts))}.start needs lr.mode shared and single arms: "
                f"design {size.design}, lr.mode {size.lr.mode}{where}"
            )


def _kept(study: Study) -> Iterator[str]:
    """Variants that a tier keeps."""
    names = [variant.name for variant in study.variants]
    for tier in study.tiers.values():
        for name in tier.arms or ():
            if name not in names:
                known = f"one of study.variants: {', '.join(names)}" if names else "there: study.axes make the arms"
                yield f"study.tiers.{tier.name}.arms '{name}' is not {known}{did_you_mean(name, names)}"
        if study.contrasts and not study.at(tier.name).contrasts:
            yield f"study.tiers.{tier.name}.arms leaves out an arm of each of study.contrasts"


def _published(study: Study, known: list[str]) -> None:
    """Claims that are not there, or that this study cannot test.

    Raises:
        ConfigError: the first thing that is wrong.
    """
    for one in study.published:
        where = f"study.published.{one.claim}"
        try:
            found = claim(one.claim)
            found.values(one.at)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from error
        problem = next(_of_claim(study, one, found, known), None)
        if problem:
            raise ConfigError(f"{where}{problem}")


def _of_claim(study: Study, one: Published, found: Claim, known: list[str]) -> Iterator[str]:
    for name, arm in one.arms.items():
        if name not in found.names:
            near = did_you_mean(name, found.names)
            yield f".arms: '{name}' is not one of the claim's {', '.join(found.names)}{near}"
        if arm not in known:
            yield f".arms.{name} '{arm}' is not one of the arms {', '.join(known)}{did_you_mean(arm, known)}"
    between = not within_runs(one.metric or study.primary)
    if not between and one.arms:
        yield f".arms: numbers of one run are set against each other: metric {one.metric}"
    if (
        between
        and found.pairs
        and not any(
            {one.arms.get(better, better), one.arms.get(worse, worse)} <= {*known} for better, worse in found.pairs
        )
    ):
        names = ", ".join(dict.fromkeys(name for pair in found.pairs for name in pair))
        yield f".arms: no pair of the claim is of two arms: {names} are to be named of {', '.join(known)}"
    metric = one.metric or study.primary
    measure = metric.split(".")[1] if metric.startswith("measures.") else None
    if measure and measure not in study.measures:
        yield f".metric '{metric}': study.measures has no '{measure}'{did_you_mean(measure, study.measures)}"
    if metric in OF_GRID and not study.lr.grid:
        yield f".metric '{metric}': study.lr.grid is not set"
    wanted = one.wanted(found, metric)
    if found.pairs and wanted is None:
        yield f".want is not set: the claim does not say which way {metric} is better"
    if wanted is Want.higher and is_loss(metric):
        yield f".want higher: {metric} is better where it is lower"


def _rates(study: Study, sizes: list[Study]) -> Iterator[str]:
    """Contradictions about learning rates."""
    tuning = [size for size in sizes if size.lr.mode is not LrMode.shared]
    for size in tuning:
        where = f"study.tiers.{size.tier}.lr" if size.tier else "study.lr.mode"
        if not size.seeds.tune:
            yield f"study.seeds.tune is not set: {where} {size.lr.mode} chooses by seeds that are not reported"
        for path, own in (("study.set", size.set), *_own(size)):
            if LR_KEY in own:
                yield f"{path}: {LR_KEY} and {where} {size.lr.mode} exclude each other: study.lr.grid sets it"
    if not tuning:
        for key, given in (("study.lr.grid", study.lr.grid), ("study.seeds.tune", study.seeds.tune)):
            if given:
                yield f"{key} {given} is of no use: lr.mode is shared, here and in all tiers"
