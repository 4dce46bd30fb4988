"""What stands around a table: what its runs share, where they ought not to be compared, why some failed."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from lab.report.rows import Row, reason
from lab.report.variants import HASHED, Record, choice, config_of, hash_of, short_hash, show
from lab.stats.spikes import LOCAL

ENV_KEYS = ("commit", "cpu", "gpu", "machine")
"""Keys of a run's environment that are compared, beside everything that looks like a version."""


def footer(records: Sequence[Record], rows: Sequence[Row]) -> list[list[str]]:
    """What the runs share, and how to read the numbers: two lines, in pieces between which one may break."""
    seeds = sorted({seed for row in rows for seed in row.seeds})
    ratios = [row.tokens / row.params for row in rows if row.tokens and row.params]
    shared = [
        f"seed{'s' if len(seeds) > 1 else ''} {ranges(seeds)}",
        _span([row.tokens for row in rows], si, "tokens per run"),
        _span(ratios, "{:.2g}".format, "tokens/parameter"),
        _names("data {}", (choice(record, "data") for record in records)),
        _names("tokenizer {}", (choice(record, "tokenizer") for record in records)),
        _names("{}", (config_of(record).get("device") for record in records)),
        _names("{}", (config_of(record).get("precision") for record in records)),
        _names("threads {}", (config_of(record).get("threads") for record in records)),
        _commits(records),
        _matched(records),
    ]
    read = [
        "± sd of seeds (ddof 1)" if any(row.n > 1 for row in rows) else "",
        "one seed: no spread" if any(row.n == 1 for row in rows) else "",
        f"spikes {LOCAL}: count/counted steps",
    ]
    return [[piece for piece in line if piece] for line in (shared, read)]


def _commits(records: Iterable[Record]) -> str:
    """What the runs were trained with, or of how many commits."""
    envs = [env for record in records if isinstance(env := record.get("env"), Mapping)]
    found = {str(env["commit"]) for env in envs if env.get("commit")}
    return f"commit {found.pop()}" if len(found) == 1 else f"{len(found)} commits" if found else ""


def _matched(records: Sequence[Record]) -> str:
    """What all runs were made equal in, where they were, and how nearly."""
    matches = [record.get("match") for record in records]
    if not all(isinstance(match, Mapping) for match in matches):
        return ""
    kinds = {(match["by"], " ".join(match["to"]) or "the default configuration") for match in matches if match}
    if len(kinds) > 1:
        return ""
    by, to = kinds.pop()
    furthest = max(abs(match["residual"]) for match in matches if match)
    return f"matched in {by} to {to}, within {100 * furthest:.2f} %"


def reasons(records: Iterable[Record]) -> list[str]:
    """One line for each failed or diverged run that says why."""
    ended = [record for record in records if record.get("status") in ("failed", "diverged")]
    return [f"{record['status']} {record.get('id')}: {reason(record)}" for record in ended]


def warnings(records: Sequence[Record], rows: Sequence[Row]) -> list[str]:
    """One line for each thing that makes the rows hard to compare."""
    found = []
    consequence = {
        "data": "losses on other data do not compare",
        "tokenizer": "losses per token do not compare, bits per byte do",
    }
    for kind in HASHED:
        hashes = sorted({h for record in records if (h := hash_of(record, kind))})
        if len(hashes) > 1:
            some = ", ".join(short_hash(h) for h in hashes)
            found.append(f"runs come from {len(hashes)} {kind} hashes ({some}): {consequence[kind]}")
    devices = sorted({str(d) for record in records if (d := config_of(record).get("device"))})
    if len(devices) > 1:
        found.append(f"runs come from {len(devices)} devices ({', '.join(devices)}): tokens/s do not compare")
    found += _env_warnings(records)
    repeats = len(records) - sum(row.asked for row in rows)
    if repeats:
        found.append(f"runs left out because they repeat a seed of their row: {repeats}")
    return found


def si(value: float) -> str:
    """Three significant digits with k, M, G, T: ``1.31M``."""
    for size, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 0.9995 * size:
            scaled = value / size
            digits = 2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0
            return f"{scaled:.{digits}f}{suffix}"
    return f"{value:.3g}"


def _env_warnings(records: Iterable[Record]) -> list[str]:
    seen: dict[str, set[str]] = {}
    before: Any = None
    for record in records:
        env = record.get("env")
        if env == before:  # as of nearly all
            continue
        before = env
        earlier = env.get("earlier", []) if isinstance(env, Mapping) else []  # of a run that was resumed
        for key, value in chain.from_iterable(_env_leaves(part, "") for part in (env, *earlier)):
            seen.setdefault(key, set()).add(value)
    differing = {key: sorted(values) for key, values in seen.items() if len(values) > 1}
    if not differing:
        return []
    return [
        "runs come from several environments: " + "; ".join(f"{k} {', '.join(v)}" for k, v in differing.items())
    ]


def _env_leaves(part: Any, key: str) -> Iterable[tuple[str, str]]:
    """Versions, commits and machines in an environment, by dotted key."""
    if isinstance(part, Mapping):
        for name, value in part.items():
            yield from _env_leaves(value, f"{key}.{name}" if key else str(name))
    elif isinstance(part, str) and (key.rpartition(".")[2] in ENV_KEYS or re.match(r"\d+\.\d+", part)):
        yield key, part


def ranges(seeds: Sequence[int]) -> str:
    """``1–3, 7`` for 1, 2, 3, 7."""
    parts: list[list[int]] = []
    for seed in seeds:
        if parts and seed == parts[-1][-1] + 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]}–{p[-1]}" for p in parts)


def _span(values: Sequence[float | None], form: Callable[[float], str], unit: str) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = form(min(known)), form(max(known))
    return f"{low if low == high else f'{low}–{high}'} {unit}"


def _names(text: str, values: Iterable[Any]) -> str:
    known = sorted({show(value) for value in values if value is not None})
    return text.format(", ".join(known)) if known else ""
