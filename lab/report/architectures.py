"""The table of architectures: what each preset is made of, one cell a column, read from the YAML files alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from lab import choices, preset
from lab.paths import conf_dir

COLUMNS = {
    "norm": "norm, eps",
    "block": "placement",
    "activation": "feed-forward, ratio",
    "bias": "biases",
    "attn": "attention",
    "position": "position",
    "stability": "stability",
    "embeddings": "embeddings and head",
    "vocabulary": "vocabulary",
    "regularization": "regularization",
    "init": "init",
    "source": "source",
}
"""The columns after name and year, with their headings."""

Parts = Mapping[str, Mapping[str, Any]]
"""Settings of each chosen component by group, ``model`` among them, the combined ones by ``group.choice``."""


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """One row."""

    name: str
    title: str
    year: int
    cells: dict[str, str]
    """By column; a column that is not known is left out."""
    corrects: dict[str, str]
    """By column: what the lecture notes say, and what the sources say."""
    unverified: list[str]
    """Columns, and perhaps ``published``, that were not read in a source."""
    published: dict[str, Any]
    """Sizes of the smallest published model."""
    notes: list[str]
    coming: str | None
    """What a row waits for that is no preset yet."""


def names() -> list[str]:
    """The presets, and what is to become one."""
    return sorted([*preset.names(), *(row["name"] for row in load("coming"))])


def architectures() -> list[Architecture]:
    """All rows, by year and name."""
    found = [*map(_of_preset, preset.names()), *map(_of_coming, load("coming"))]
    return sorted(found, key=lambda row: (row.year, row.name))


def chosen(tree: Mapping[str, Any]) -> dict[str, list[str]]:
    """The choices of a preset's file, by group."""
    words = [entry for entry in tree["defaults"] if isinstance(entry, Mapping)]
    pairs = {key.removeprefix("override /"): value for entry in words for key, value in entry.items()}
    return {group: value if isinstance(value, list) else [value] for group, value in pairs.items()}


def _of_preset(name: str) -> Architecture:
    tree = load(f"preset/{name}")
    said = tree["preset"]
    parts = settings(tree)
    cells = {column: form(parts) for column, form in _CELLS.items()}
    size = (said.get("published") or {}).get("model.vocab_size")
    cells["vocabulary"] = "" if size is None else f"{size:,}"
    return _row(said, cells)


def _of_coming(said: Mapping[str, Any]) -> Architecture:
    return _row(said, dict(said["cells"]))


def _row(said: Mapping[str, Any], cells: dict[str, str]) -> Architecture:
    return Architecture(
        name=said["name"],
        title=said["title"],
        year=said["year"],
        cells={column: cells.get(column, "") for column in COLUMNS} | {"source": said["source"]},
        corrects=dict(said.get("corrects") or {}),
        unverified=list(said.get("unverified") or []),
        published=dict(said.get("published") or {}),
        notes=list(said.get("notes") or []),
        coming=said.get("coming"),
    )


def settings(tree: Mapping[str, Any]) -> Parts:
    """What a preset sets, over what its choices have of themselves."""
    parts: dict[str, dict[str, Any]] = {"model": dict(load("model/small"))}
    for group, names in chosen(tree).items():
        for name in names:
            key = f"{group}.{name}" if group in choices.COMBINED else group
            parts[key] = dict(load(f"{group}/{name}"))
    for path, value in tree["preset"]["values"].items():
        group, *inner, key = path.split(".")
        parts[".".join([group, *inner]) if group in choices.COMBINED else group][key] = value
    for part in parts.values():
        for key, value in part.items():
            if value == "${model.bias}":
                part[key] = parts["model"]["bias"]
    return parts


@cache
def load(file: str) -> Any:
    """A file of conf/ by the quick parser, as a table reads a hundred of them; interpolations stay as they are."""
    text = (conf_dir() / f"{file}.yaml").read_text(encoding="utf-8")
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def number(value: float) -> str:
    """A number as short as it can be said: 1e-5, 5e5, 2.67, 0.5."""
    if isinstance(value, bool | str):
        return str(value)
    if value and (abs(value) >= 1e4 or abs(value) < 1e-2):
        mantissa, _, exponent = f"{value:.3e}".partition("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _norm(parts: Parts) -> str:
    norm = parts["norm"]
    return " ".join([norm["name"], *([number(norm["eps"])] if "eps" in norm else [])])


def _activation(parts: Parts) -> str:
    ffn = parts["activation"]
    form = [ffn["approximate"]] if ffn.get("approximate", "none") != "none" else []
    return " ".join([ffn["name"], *form, number(ffn["ratio"])])


def _bias(parts: Parts) -> str:
    attn, ffn = parts["attn"], parts["activation"]
    have = {key: attn[f"{key}_bias"] for key in ("q", "k", "v", "out") if f"{key}_bias" in attn}
    have["ffn"] = ffn["bias"]
    if len(set(have.values())) == 1:
        return "all" if ffn["bias"] else "none"
    return ", ".join(key for key, on in have.items() if on)


def _attn(parts: Parts) -> str:
    attn, model = parts["attn"], parts["model"]
    name = attn["name"] + (f" {attn['heads_per_kv']}:1" if "heads_per_kv" in attn else "")
    ranks = [
        f"{word} {number(attn[key])} D"
        for word, key in (("kv", "kv_rank_share"), ("q", "q_rank_share"))
        if attn.get(key)
    ]
    words = [" ".join([name, *ranks])]
    if "window_share" in attn:
        words.append(f"{number(attn['window_share'])} T")
    if "selected_share" in attn:
        words.append(f"the best blocks of {number(attn['selected_share'])} T")
    if "top_k_share" in attn:
        words.append(f"the best {number(attn['top_k_share'])} T")
    kinds = {"full": attn.get("global_every"), "without positions": attn.get("nope_every")}
    for every in sorted({every for every in kinds.values() if every}):
        words.append(f"every {_th(every)} {' and '.join(kind for kind in kinds if kinds[kind] == every)}")
    if model["heads_ratio"] != 1:
        words.append(f"heads {number(model['heads_ratio'])} D")
    return ", ".join(words)


def _th(count: int) -> str:
    return f"{count}{ {2: 'nd', 3: 'rd'}.get(count, 'th') }"


def _position(parts: Parts) -> str:
    position, attn = parts["position"], parts["attn"]
    words = [position["name"]]
    if "theta" in position:
        words.append(number(position["theta"]))
    if attn.get("global_theta"):
        words.append(f"({number(attn['global_theta'])} where full)")
    if position.get("layout", "half") not in _USUAL:
        words.append(position["layout"])
    if position.get("fraction", 1) != 1:
        words.append(f"on {number(position['fraction'])} of a head")
    if position.get("scaling", "none") != "none":
        words.append(f"{position['scaling']} x{number(position['factor'])}")
    if "buckets" in position:
        words.append(f"{position['buckets']} to {position['max_distance']}")
    return " ".join(words)


_USUAL = ("", "all", "before", "squared_lse", "half")
"""Settings that go without saying."""


def _combined(group: str, said: Sequence[str]) -> Callable[[Parts], str]:
    """Names and the settings that tell variants apart."""

    def form(parts: Parts) -> str:
        found = [(key.partition(".")[2], part) for key, part in parts.items() if key.startswith(f"{group}.")]
        return "; ".join(
            " ".join(
                [name.replace("_", " "), *(number(part[key]) for key in said if part.get(key, "") not in _USUAL)]
            )
            for name, part in found
        )

    return form


def _regularization(parts: Parts) -> str:
    words = []
    dropout, decay = parts.get("regularization.dropout"), parts.get("regularization.weight_decay")
    if dropout:
        rates = {key: dropout[key] for key in ("embed", "attention", "residual")}
        where = [key for key, rate in rates.items() if rate]
        places = "" if len(where) == len(rates) else f" {'+'.join(where)}"
        words.append(f"dropout {number(max(rates.values()))}{places}")
    if decay:
        also = [key for key in ("embeddings", "norms", "biases") if decay[key]]
        words.append(f"decay {number(decay['rate'])}{f', {chr(43).join(also)} too' if also else ''}")
    smooth = parts.get("regularization.label_smoothing")
    if smooth:
        words.append(f"label smoothing {number(smooth['share'])}")
    return "; ".join(words) or "none"


def _embeddings(parts: Parts) -> str:
    model = parts["model"]
    words = ["tied" if model["tie_embeddings"] else "untied"]
    for key, word in (("embed_scale", "embeddings"), ("logit_scale", "logits")):
        if model[key] not in (None, 1):
            words.append(f"{word} x {_SCALES.get(model[key]) or number(model[key])}")
    words += [word for key, word in (("head_bias", "bias"), ("head_transform", "layer before head")) if model[key]]
    return ", ".join(words)


_SCALES = {"sqrt_dim": "sqrt(D)", "inv_sqrt_dim": "1/sqrt(D)", "inv_dim": "1/D"}


def _init(parts: Parts) -> str:
    init = parts["init"]
    return " ".join([init["name"], *(number(init[key]) for key in ("std",) if key in init)])


_CELLS: dict[str, Callable[[Parts], str]] = {
    "norm": _norm,
    "block": lambda parts: str(parts["block"]["name"]),
    "activation": _activation,
    "bias": _bias,
    "attn": _attn,
    "position": _position,
    "stability": _combined("stability", ("norm", "over", "order", "layers", "cap", "limit", "weight", "variant")),
    "embeddings": _embeddings,
    "regularization": _regularization,
    "init": _init,
}
