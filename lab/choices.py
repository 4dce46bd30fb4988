"""The menu: which choices a config group has, found by listing its folder.

A choice is one file; its stem is the name of its YAML and the value on the command line. Nothing is
registered: a file that exists is a choice, and only the chosen file is imported.
"""

import importlib
import pkgutil
from importlib.util import find_spec
from types import ModuleType

from lab.errors import ConfigError, did_you_mean

GROUPS = {
    "norm": "lab.model.norm",
    "activation": "lab.model.activation",
    "attn": "lab.model.attn",
    "block": "lab.model.block",
    "position": "lab.model.position",
    "regularization": "lab.model.regularization",
    "stability": "lab.model.stability",
    "init": "lab.model.init",
    "data": "lab.data.corpus",
    "tokenizer": "lab.data.tokenizer",
    "optim": "lab.optim",
    "schedule": "lab.schedule",
    "track": "lab.track",
    "match": "lab.match",
}
"""Config group to the package whose modules are its choices."""

COMBINED = ("regularization", "stability")
"""Groups of which several choices apply at once, as in ``stability=[qk_norm,z_loss]``."""


def names(group: str) -> list[str]:
    """The choices of a group, sorted."""
    spec = find_spec(GROUPS[group])
    assert spec is not None
    assert spec.submodule_search_locations is not None
    modules = pkgutil.iter_modules(spec.submodule_search_locations)
    return sorted(m.name for m in modules if not m.name.startswith("_"))


def load(group: str, name: str) -> ModuleType:
    """Import the module of one choice; a dotted name is an import path of the user's own.

    Raises:
        ConfigError: no such choice, or the user's module cannot be imported or has no ``Config``.
    """
    if "." not in name:
        known = names(group)
        if name not in known:
            allowed = ", ".join(known)
            raise ConfigError(f"{group}.name '{name}' is not one of {allowed}{did_you_mean(name, known)}")
        return importlib.import_module(f"{GROUPS[group]}.{name}")
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f"{group}.name '{name}' cannot be imported: {error}") from error
    if not hasattr(module, "Config"):
        raise ConfigError(f"{group}.name '{name}' is a module without a class named Config")
    return module
