"""Studies as they would be written."""

from typing import Any

from lab.study.file import decode
from lab.study.study import Study

STAR: dict[str, Any] = {
    "question": "Does it matter?",
    "baseline": {"name": "layernorm", "set": {"norm": "layernorm"}},
    "variants": {"rmsnorm": {"set": {"norm": "rmsnorm"}}, "gqa": {"set": {"attn": "gqa", "attn.n_kv_heads": 1}}},
    "design": "star",
    "seeds": {"report": [1, 2, 3], "tune": [101, 102]},
    "lr": {"mode": "tuned", "grid": [0.001, 0.002, 0.004]},
    "gate": {"min_effect": 0.02},
    "tiers": {"smoke": {"set": {"train.steps": 30}, "report": 2, "lr": "shared"}, "gpu": {"report": 8}},
}
"""One that is right."""

GRID = {key: value for key, value in STAR.items() if key not in ("baseline", "variants", "design")} | {
    "design": "grid",
    "axes": {"norm": ["layernorm", "rmsnorm"], "attn": ["mha", "gqa"], "attn.n_kv_heads": [1, 2]},
}
"""Another one, on axes."""


def study(base: dict[str, Any] = STAR, **changes: Any) -> Study:
    """A decoded study, some of its keys written otherwise; None leaves a key out."""
    tree = {key: value for key, value in {**base, **changes}.items() if value is not None}
    return decode(tree, "written")
