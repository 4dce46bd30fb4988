"""From a command line to what is to be trained: the runs of a plain sweep, or those of a study."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lab.config import SWEEP_KEYS
from lab.errors import ConfigError
from lab.paths import conf_dir
from lab.study.design import count
from lab.study.expand import Override, product, sweep_script
from lab.study.file import decode, refuse_strays
from lab.study.judge import Judge
from lab.study.manifest import Manifest, digest, now
from lab.study.script import script as study_script
from lab.study.settings import SweepSettings
from lab.study.sweeper import Host, Script, Sweep
from lab.study.words import without_redundant, yaml_keys


def asked(
    host: Host,
    tree: Mapping[str, Any],
    overrides: Sequence[Override],
    words: Sequence[str],
    *,
    only: frozenset[str] | None,
    fresh: bool,
    name: str = "",
    folders: Sequence[str] = (),
) -> tuple[Sweep, Callable[[], Script]]:
    """The sweep that a command asks for, and its stages, as often as they are wanted.

    Args:
        host: Hydra's side.
        tree: what Hydra composed of the overrides that are no sweeps.
        overrides: of the command line, parsed.
        words: the command line.
        only: ids of the runs to train; None: all.
        fresh: whether those that are done are trained again.
        name: of the study, where there is one.
        folders: other trees of choices than the shipped one.

    Raises:
        ConfigError: something in it is refused.
    """
    settings = SweepSettings.decode(tree)
    fresh = fresh or any(o.input_line == "fresh=true" for o in overrides)
    own = [o for o in overrides if _of_a_run(o) and o.input_line != "fresh=true"]  # that is a wish
    keys = yaml_keys(folders)
    if tree.get("study") is not None:
        refuse_strays(name, [*map(Path, folders), conf_dir()])
        study = decode(tree["study"], name).at(settings.tier)
        shared = _shared(own, name)
        manifest = Manifest(name, study.hash(shared), tuple(words), study.as_dict(), now(), count(study))
        script = partial(study_script, study, shared, keys)
        judge = Judge(study, settings, keys)
        sweep = Sweep(host, settings, manifest, only=only, fresh=fresh, before=judge.before, after=judge.after)
        return sweep, script
    if settings.tier is not None or settings.accept_mde:
        key = "tier" if settings.tier is not None else "accept_mde"
        value = f"'{settings.tier}'" if settings.tier is not None else "true"
        raise ConfigError(f"{key} {value} belongs to a study: lab train study=NAME {key}=…")
    runs = without_redundant(product(own), keys)
    manifest = Manifest("sweep", digest(runs), tuple(words), None, now(), len(runs))
    return Sweep(host, settings, manifest, only=only, fresh=fresh), partial(sweep_script, runs)


def _of_a_run(override: Override) -> bool:
    """Whether an override is one of runs, and not of the sweep as a whole.

    Raises:
        ConfigError: it is one of the sweep, and has several values.
    """
    key = override.get_key_element().lstrip("+").split(".")[0]
    if key in SWEEP_KEYS and override.is_sweep_override():
        raise ConfigError(
            f"'{override.input_line}' has several values, and a sweep has one {key}: start one for each"
        )
    return key not in SWEEP_KEYS


def _shared(overrides: Sequence[Override], name: str) -> list[str]:
    """Words that go to all runs of a study.

    Raises:
        ConfigError: one of them has several values.
    """
    for override in overrides:
        if override.is_sweep_override():
            raise ConfigError(
                f"'{override.input_line}' has several values, which study={name} does not take: its file says what "
                "varies; give one value, or sweep without the study"
            )
    return [str(override.input_line) for override in overrides if not str(override.input_line).startswith("hydra")]
