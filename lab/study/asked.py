"""From a command line to what is to be trained: the runs of a plain sweep, or those of a study."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lab.config import SWEEP_KEYS
from lab.errors import ConfigError
from lab.study.expand import Override, product, sweep_script
from lab.study.manifest import Manifest, digest, now
from lab.study.settings import SweepSettings
from lab.study.sweeper import Host, Script, Sweep


def asked(
    host: Host,
    tree: Mapping[str, Any],
    overrides: Sequence[Override],
    words: Sequence[str],
    *,
    only: frozenset[str] | None,
    fresh: bool,
) -> tuple[Sweep, Callable[[], Script]]:
    """The sweep that a command asks for, and its stages, as often as they are wanted.

    Args:
        host: Hydra's side.
        tree: what Hydra composed of the overrides that are no sweeps.
        overrides: of the command line, parsed.
        words: the command line.
        only: ids of the runs to train; None: all.
        fresh: whether those that are done are trained again.

    Raises:
        ConfigError: something in it is refused.
    """
    settings = SweepSettings.decode(tree)
    own = [o for o in overrides if o.get_key_element().lstrip("+") not in SWEEP_KEYS]
    fresh = fresh or any(o.input_line == "fresh=true" for o in own)
    if tree.get("study") is not None:
        raise ConfigError("study: not yet")
    if settings.tier is not None or settings.accept_mde:
        key = "tier" if settings.tier is not None else "accept_mde"
        raise ConfigError(f"{key} {getattr(settings, key)} belongs to a study: lab train study=NAME {key}=…")
    runs = product(own)
    manifest = Manifest("sweep", digest(runs), tuple(words), None, now(), len(runs))
    return Sweep(host, settings, manifest, only=only, fresh=fresh), lambda: sweep_script(runs)
