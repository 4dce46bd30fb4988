"""What a run is to people: the study it is part of, its variant, and what sets it apart from the defaults."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from lab.paths import conf_dir, studies_dir


@dataclass(frozen=True)
class Place:
    """Where a run belongs."""

    study: str | None
    """Name of the study's folder; None for a run of its own."""
    variant: str | None
    overrides: tuple[str, ...]
    """As Hydra takes them."""

    def title(self, seed: object) -> str:
        """A short name, seed included."""
        said = self.variant or " ".join(self.overrides) or "default"
        return said if "seed=" in said else f"{said} seed={seed}"


def place(run_id: str, config: Mapping[str, Any]) -> Place:
    """Find a run in the studies of the outputs folder, in the one that was asked for last."""
    found: list[tuple[str, Place]] = []
    for file in studies_dir().glob("*/study.json"):
        try:
            study = json.loads(file.read_text(encoding="utf-8"))
            cells = [run["cell"] for run in study["runs"] if run["id"] == run_id]
            asked = str(study["asked"])
            found += [(asked, Place(file.parent.name, str(c["arm"]), tuple(c["overrides"]))) for c in cells]
        except (OSError, ValueError, KeyError, TypeError):  # damaged, or of another version
            continue
    if found:
        return max(found, key=lambda pair: pair[0])[1]
    return Place(None, None, tuple(_unusual(config)))


def _unusual(config: Mapping[str, Any]) -> list[str]:
    """The choices that are not those of ``train.yaml``."""
    tree = yaml.safe_load((conf_dir() / "train.yaml").read_text(encoding="utf-8"))
    usual = {k: v for entry in tree["defaults"] if isinstance(entry, Mapping) for k, v in entry.items()}
    chosen = {k: v["name"] for k, v in config.items() if isinstance(v, Mapping) and isinstance(v.get("name"), str)}
    return [f"{k}={v}" for k, v in chosen.items() if k in usual and v != usual[k] and k != "track"]
