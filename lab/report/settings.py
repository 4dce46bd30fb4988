"""The settings of many configs as they are compared, section by section.

Of thousands of runs few differ in much: sections that are equal are made once and shared.
"""

import json
import marshal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from lab.choices import COMBINED
from lab.runs.identity import NO_EFFECT, completed, without

IGNORED = ("seed", "study_seed", *NO_EFFECT)
"""Settings, or whole sections, that do not make a variant: seeds, and what cannot change a result."""

WORDS = ("norm", "block", "activation", "attn", "position")
"""The components that describe a model in words, in that order."""

PRESET = (*WORDS, *COMBINED, "init", "model")
"""The sections that a preset sets."""

_ORDER = (*WORDS, *COMBINED)


@dataclass(frozen=True)
class Setting:
    """One value of a config."""

    key: str
    """Dotted."""
    scope: str
    """The choice within which this setting is compared; empty: among all."""
    value: Any


@dataclass(frozen=True, eq=False)
class Part:
    """One section of a config, as it is compared; groups that agree in it share it."""

    name: str
    is_section: bool
    """Whether it has settings, and is not a single one."""
    settings: tuple[Setting, ...]

    @cached_property
    def scopes(self) -> frozenset[str]:
        """Of its settings."""
        return frozenset(s.scope for s in self.settings)

    @cached_property
    def said(self) -> list[tuple[tuple[str, str], str]]:
        """By key and scope each value as text."""
        return [((s.key, s.scope), _said(s.value)) for s in self.settings]

    @cached_property
    def text(self) -> str:
        """What other settings do not come to."""
        return json.dumps(sorted((s.key, s.scope, json.dumps(s.value, sort_keys=True)) for s in self.settings))

    def within(self, preset: str) -> "Part":
        """With a preset for a scope, where it is one that a preset sets."""
        if self.name not in PRESET:
            return self
        return replace(self, settings=tuple(replace(s, scope=f"preset={preset} {s.scope}") for s in self.settings))


class Parts:
    """The sections of many configs, equal ones made once: of thousands of runs few differ in much."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[Part, ...]] = {}
        self._by_bytes: dict[tuple[str, bytes], Part] = {}
        self._by_text: dict[tuple[str, str], Part] = {}

    def of(self, config: Mapping[str, Any]) -> tuple[Part, ...]:
        """A part for each section that counts: components first, then sections, then single settings."""
        counting = {section: value for section, value in config.items() if section not in IGNORED}
        key = _bytes(counting)
        return self._known.get(key) or self._known.setdefault(key, self._parts(counting))

    def _parts(self, config: Mapping[str, Any]) -> tuple[Part, ...]:
        """Those of sections that all count."""
        found = []
        for section, value in config.items():
            value = completed(section, value)
            key = section, _bytes(value)
            found.append(self._by_bytes.get(key) or self._by_bytes.setdefault(key, self._made(section, value)))
        return tuple(sorted(found, key=_place))

    def _made(self, section: str, value: Any) -> Part:
        """The part of a section; text is the same where bytes differ in what does not count."""
        text = json.dumps(without({section: value}, IGNORED)[section], sort_keys=True)
        return self._by_text.setdefault((section, text), part_of(section, json.loads(text)))


def _bytes(value: Any) -> bytes:
    """The same for what is the same; of a result that was never in a file, by the file's text."""
    try:
        return marshal.dumps(value, 2)
    except ValueError:  # it has enums still
        return json.dumps(value).encode()


def part_of(section: str, value: Any) -> Part:
    """A section, or a single setting."""
    return Part(section, isinstance(value, Mapping), tuple(_settings(section, value)))


def _place(part: Part) -> tuple[bool, int, str]:
    place = _ORDER.index(part.name) if part.name in _ORDER else len(_ORDER)
    return not part.is_section, place, part.name


def _settings(section: str, part: Any) -> Iterator[Setting]:
    """The settings of a section that may make a variant."""
    if not isinstance(part, Mapping):
        yield Setting(section, "", part)
    elif section in COMBINED:
        yield Setting(section, "", combined(part))
        for name in combined(part):
            yield Setting(section, f"{section}.{name}", True)
            yield from _leaves(_inside(part[name]), f"{section}.{name}", f"{section}.{name}")
    elif isinstance(part.get("name"), str):
        yield Setting(section, "", part["name"])
        yield Setting(section, f"{section}={part['name']}", True)
        yield from _leaves(_inside(part), section, f"{section}={part['name']}")
    else:
        yield from _leaves(part, section, "")


def combined(part: Any) -> list[str]:
    """The choices of a section in which several apply at once, sorted, without ``none``."""
    return sorted(name for name in part if name != "none") if isinstance(part, Mapping) else []


def _inside(component: Any) -> Any:
    """A component without its name, which is compared as the choice of its section."""
    return {k: v for k, v in component.items() if k != "name"} if isinstance(component, Mapping) else component


def _leaves(part: Any, key: str, scope: str) -> Iterator[Setting]:
    if not isinstance(part, Mapping):
        yield Setting(key, scope, part)
        return
    for name, value in part.items():
        yield from _leaves(value, f"{key}.{name}", scope)


def _said(value: Any) -> str:
    """A value as text that no other value has; numbers and words, of which there are most, the quick way."""
    return (
        repr(value) if isinstance(value, (str, int, float)) or value is None else json.dumps(value, sort_keys=True)
    )
