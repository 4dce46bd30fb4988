"""From a study to its arms: what the designs mean, and which differences between arms they ask for.

An arm is the settings of all arms, of the baseline, and its own on top; in the design ``list`` its own alone. A
key goes to the arms whose choice has it: a baseline with ``attn: gqa`` and ``attn.n_kv_heads: 1`` hands that key on
to a variant with ``attn: gated``, and not to one with ``attn: mha``.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from lab import choices
from lab.errors import ConfigError, did_you_mean
from lab.study.sections import AXES, LrMode, Matching, Variant
from lab.study.study import LR_KEY, RESERVED, Study
from lab.study.words import Keys, Settings, applicable, comparable, names, quoted, settings, words, yaml_keys


@dataclass(frozen=True)
class Arm:
    """One of the things that are compared."""

    name: str
    """In tables and contrasts."""
    overrides: tuple[str, ...]
    """All that sets it apart from the defaults but seed and learning rate."""
    start: str | None = None
    """The arm whose runs it starts from; None: weights are drawn."""


@dataclass(frozen=True)
class Contrast:
    """A difference that the study asks for."""

    name: str
    """As it is written, ``A - B``."""
    plus: tuple[str, ...]
    """Arms that are added."""
    minus: tuple[str, ...]
    """Arms that are taken away, as many."""


@dataclass(frozen=True)
class _Row:
    """An arm before keys go where they belong."""

    name: str | None
    """None: named by its place on the axes."""
    inherited: Settings
    """From the study, its tier and the baseline."""
    own: Settings
    """Its own, which are left as they are."""
    place: Settings
    """On the axes."""


def arms(study: Study, shared: Sequence[str] = (), keys: Keys | None = None) -> tuple[Arm, ...]:
    """The arms of a study, the baseline first.

    Args:
        study: at its tier.
        shared: words of the command line, which go to all arms.
        keys: of the choices; those of the shipped tree by default.

    Raises:
        ConfigError: arms that cannot be, or come to the same.
    """
    common = study.set | _shared(study, shared)
    rows = list(_ROWS[study.design](study, common))
    every = [*rows, *_left_out(study, common, rows)]
    whole = [row.inherited | row.place | row.own for row in every]
    kept = applicable(whole, keys or yaml_keys(), [row.own for row in every])[: len(rows)]
    starts = {variant.name: variant.start for variant in study.variants}
    found: dict[frozenset[tuple[str, str]], Arm] = {}
    for row, own in zip(rows, kept, strict=True):
        name = row.name or " ".join(f"{key}={own[key]}" for key in row.place if key in own)
        start = starts.get(name)
        arm = Arm(name, words(own), start)
        twin = found.setdefault(comparable(own) | ({("start", start)} if start else set()), arm)
        if twin is not arm and study.design not in AXES:
            raise ConfigError(f"study: '{twin.name}' and '{name}' are the same: {_said(row.own)}")
    first, *others = found.values()
    return (first, *(_matched(study, arm, first) for arm in others))


def _left_out(study: Study, common: Settings, rows: Sequence[_Row]) -> Iterator[_Row]:
    """What the study has at other tiers, which decides with the others where a key goes."""
    if study.left_out:
        names = [row.name for row in rows]
        whole = replace(study, variants=(*study.variants, *study.left_out), left_out=())
        yield from (row for row in _ROWS[study.design](whole, common) if row.name not in names)


def _matched(study: Study, arm: Arm, baseline: Arm) -> Arm:
    """A variant that is made equal to the baseline, where the study says so."""
    if study.match is Matching.none:
        return arm
    target = ",".join(map(quoted, baseline.overrides))
    return replace(arm, overrides=(*arm.overrides, f"match={study.match}", f"match.to=[{target}]"))


def _said(own: Settings) -> str:
    return " ".join(words(own)) or "it changes nothing"


def _shared(study: Study, shared: Sequence[str]) -> Settings:
    """The words of the command line, none of which is for the study to say.

    Raises:
        ConfigError: names the word, and what says it.
    """
    given = settings(shared)
    varied = {key for part in (study.baseline, *study.variants) for key in part.set} | set(study.axes)
    for key, value in given.items():
        first = key.lstrip("+~").partition(".")[0]
        why = RESERVED.get(first) if first != "match" or study.match is not Matching.none else None
        if key in varied:
            why = "its arms set that key themselves"
        elif key == LR_KEY and study.lr.mode is not LrMode.shared:
            why = "study.lr.grid says which are tried"
        if why:
            raise ConfigError(f"{key}={value} cannot be given with study={study.name}: {why}")
    return given


def _star(study: Study, common: Settings) -> Iterator[_Row]:
    """The baseline, and each variant on top of it."""
    yield _Row(study.baseline.name, common, study.baseline.set, {})
    for variant in study.variants:
        yield _Row(variant.name, common | study.baseline.set, variant.set, {})


def _list(study: Study, common: Settings) -> Iterator[_Row]:
    """Arms that share nothing but the study's settings."""
    for variant in (study.baseline, *study.variants):
        yield _Row(variant.name, common, variant.set, {})


def _pairwise(study: Study, common: Settings) -> Iterator[_Row]:
    """A star, and each two of its variants together."""
    yield from _star(study, common)
    base = common | study.baseline.set
    for one, two in itertools.combinations(study.variants, 2):
        yield _Row(_pair(one.name, two.name), base, _together(one, two, base), {})


def _pair(one: str, two: str) -> str:
    return f"{one}+{two}"


def _together(one: Variant, two: Variant, base: Settings) -> Settings:
    """What two variants set, together: of combined choices those that either adds and neither takes away.

    Raises:
        ConfigError: they set one key to different values.
    """
    both = one.set | two.set
    for key in one.set.keys() & two.set.keys():
        if key in choices.COMBINED:
            before, first, second = (names(part.get(key, "none")) for part in (base, one.set, two.set))
            gone = ({*before} - {*first}) | ({*before} - {*second}) | {"none"}
            left = [name for name in dict.fromkeys([*before, *first, *second]) if name not in gone]
            both[key] = f"[{','.join(left)}]" if left else "none"
        elif one.set[key] != two.set[key]:
            raise ConfigError(
                f"study.design pairwise: '{one.name}' and '{two.name}' cannot be together, since both set {key}"
            )
    return both


def _grid(study: Study, common: Settings) -> Iterator[_Row]:
    """Every combination of the values; the first values are the baseline."""
    return _on_axes(study, common, itertools.product(*study.axes.values()))


def _zip(study: Study, common: Settings) -> Iterator[_Row]:
    """The first values of all axes, the second, and so on; the first are the baseline."""
    return _on_axes(study, common, zip(*study.axes.values(), strict=True))


def _on_axes(study: Study, common: Settings, places: Iterator[tuple[str, ...]]) -> Iterator[_Row]:
    for number, values in enumerate(places):
        name = study.baseline.name if number == 0 else None
        yield _Row(name, common, {}, dict(zip(study.axes, values, strict=True)))


_ROWS: dict[str, Callable[[Study, Settings], Iterator[_Row]]] = {
    "star": _star,
    "hold-one-out": _star,
    "pairwise": _pairwise,
    "list": _list,
    "grid": _grid,
    "zip": _zip,
}


def contrasts(study: Study, keys: Keys | None = None) -> tuple[Contrast, ...]:
    """The differences the study asks for; their number decides the correction for many.

    Raises:
        ConfigError: one that is written out cannot be read, or names an arm that is not there.
    """
    known = [arm.name for arm in arms(study, keys=keys)]
    found = asked_for(known, study.contrasts, study.design, [variant.name for variant in study.variants])
    twice = next((one for one, two in itertools.combinations(found, 2) if one == two), None)
    if twice:
        raise ConfigError(f"study.contrasts has '{twice.name}' twice")
    return found


def asked_for(
    known: Sequence[str], written: Sequence[str] | None, design: str, single: Sequence[str]
) -> tuple[Contrast, ...]:
    """The differences that are asked for of arms that are there.

    Args:
        known: names of all arms, the baseline first.
        written: contrasts that are written out; None: those of the design.
        design: of the study.
        single: names of its variants, without what comes of two of them.

    Raises:
        ConfigError: one that is written out cannot be read, or names an arm that is not there.
    """
    if written is not None:
        return tuple(_parsed(each, known) for each in written)
    base = known[0]
    names = known[1:] if design != "pairwise" else single
    alone = [Contrast(f"{name} - {base}", (name,), (base,)) for name in names]
    pairs = itertools.combinations(single, 2) if design == "pairwise" else ()
    return (*alone, *(_interaction(_pair(one, two), one, two, base) for one, two in pairs))


def _interaction(both: str, one: str, two: str, base: str) -> Contrast:
    """What two changes do together beyond what each does alone."""
    return Contrast(f"{both} - {one} - {two} + {base}", (both, base), (one, two))


def _parsed(written: str, known: Sequence[str]) -> Contrast:
    """A contrast that is written out: ``A - B``, ``AB - A - B + 0``."""
    first, *rest = re.split(r"\s+([+-])\s+", written.strip())
    signs, parts = ["+", *rest[::2]], [first, *rest[1::2]]
    for name in parts:
        if name not in known:
            near = did_you_mean(name, known)
            raise ConfigError(f"study.contrasts '{written}': no arm '{name}' among {', '.join(known)}{near}")
    plus, minus = (tuple(n for n, s in zip(parts, signs, strict=True) if s == sign) for sign in "+-")
    if len(plus) != len(minus) or len({*plus, *minus}) != len(parts):
        raise ConfigError(
            f"study.contrasts '{written}' must take away as many arms as it adds, each once, like A - B"
        )
    return Contrast(" ".join(written.split()), plus, minus)


def count(study: Study, keys: Keys | None = None) -> int:
    """How many runs it is, without those that an edge of the grid of learning rates may add."""
    return len(arms(study, keys=keys)) * (len(study.seeds.report) + tuning_runs(study))


def tuning_runs(study: Study) -> int:
    """How many runs of each arm choose its learning rate."""
    return 0 if study.lr.mode is LrMode.shared else len(study.lr.grid) * len(study.seeds.tune)
