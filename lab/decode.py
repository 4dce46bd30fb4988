"""From plain values to a frozen dataclass: unknown keys, wrong types and ranges are refused in one line."""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from omegaconf import OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from lab.errors import ConfigError, did_you_mean

T = TypeVar("T")


def unknown(prefix: str, key: str, known: Iterable[str]) -> str:
    """What to say of a key that is not there."""
    names = sorted(known)
    near = did_you_mean(key, names).replace("mean '", f"mean '{prefix}")
    owner = f"{prefix.rstrip('.')} has" if prefix else "the keys are"
    return f"unknown key '{prefix}{key}': {owner} {', '.join(names) or 'no keys'}{near}"


def section(path: str, kind: type[T], values: Any) -> T:
    """One frozen dataclass of plain values, its keys, types and ranges checked.

    Args:
        path: where the section stands, for messages; empty for the top level.
        kind: the dataclass.
        values: what was written in YAML or on a command line.

    Raises:
        ConfigError: names the key, the value and what is allowed.
    """
    prefix = f"{path}." if path else ""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{path} {values!r} must be a section with keys of its own")
    hints = get_type_hints(kind)
    fields = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for key in values:
        if key not in fields:
            raise ConfigError(unknown(prefix, str(key), [name for name in fields if name != "name"]))
    values = {
        key: [value] if isinstance(value, str) and hints[key] == list[str] else value
        for key, value in values.items()
        if value != "???"
    }
    try:
        merged = OmegaConf.merge(OmegaConf.structured(kind), values)
        return cast(T, OmegaConf.to_object(merged))
    except ConfigError as error:
        raise ConfigError(f"{prefix}{error}") from error
    except MissingMandatoryValue as error:
        missing = next(name for name in fields if name not in values)
        raise ConfigError(f"{prefix}{missing} is not set") from error
    except OmegaConfBaseException as error:
        raise ConfigError(_type_error(prefix, hints, values, error)) from error


def plain(path: str, kind: type[T], values: Mapping[str, Any]) -> T:
    """As ``section``, of a class of texts, numbers, choices and lists: many times as fast, where there are many.

    Args:
        path: where the section stands, for messages.
        kind: the dataclass.
        values: what was written in YAML.

    Raises:
        ConfigError: names the key, the value and what is allowed.
    """
    hints = get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for key in values:
        if key not in fields:
            raise ConfigError(unknown(f"{path}.", str(key), fields))
    for name, field in fields.items():
        if name not in values and field.default is field.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{path}.{name} is not set")
    try:
        return kind(**{key: _made(key, hints[key], value) for key, value in values.items()})
    except ConfigError as error:
        raise ConfigError(f"{path}.{error}") from error


def _made(key: str, hint: Any, value: Any) -> Any:
    """A value of a type.

    Raises:
        ConfigError: it is none.
    """
    options = [hint] if not get_args(hint) or get_origin(hint) in (list, dict) else get_args(hint)
    for option in options:
        if get_origin(option) is list and isinstance(value, list):
            return [_made(key, get_args(option)[0], item) for item in value]
        if option is str and isinstance(value, (str, int, float)) and not isinstance(value, bool):
            return str(value)
        if option is float and isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        if _members(option) and value in _members(option):
            return option(value)
        if option in (int, bool, type(None)) and type(value) is option:
            return value
    said = f"'{value}'" if isinstance(value, str) else json.dumps(value)
    near = did_you_mean(str(value), [name for option in options for name in _members(option)])
    raise ConfigError(f"{key} {said} must be {_words(hint)}{near}")


def _type_error(
    prefix: str, hints: Mapping[str, Any], values: Mapping[str, Any], error: OmegaConfBaseException
) -> str:
    """A value of the wrong type: its whole key, what it is, and what it must be."""
    key = str(error.full_key or error.key or "").split("[")[0].split(".")[0]
    if key not in hints:
        return f"{prefix}{key}: {str(error.msg or error).splitlines()[0]}"
    value = values.get(key)
    text = f"'{value}'" if isinstance(value, str) else json.dumps(value) if value in (None, True, False) else value
    near = did_you_mean(str(value), _members(hints[key]))
    return f"{prefix}{key} {text} must be {_words(hints[key])}{near}"


def _members(hint: Any) -> list[str]:
    return [str(member) for member in hint] if isinstance(hint, type) and issubclass(hint, StrEnum) else []


def _words(hint: Any) -> str:
    """A type in words."""
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", type(None): "null"}
    if hint in names:
        return names[hint]
    if _members(hint):
        return f"one of {', '.join(_members(hint))}"
    if get_origin(hint) is list:
        return "a text or a list like [A,B]" if get_args(hint) == (str,) else "a list like [1,2]"
    return " or ".join(_words(part) for part in get_args(hint)) or str(hint)
