"""What ``lab`` can talk to from here, and which of its extras are installed."""

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from typing import Any
from urllib.parse import urlsplit

PACKAGE = "ablation-lab"
NOT_FOR_USE = ("dev", "test")
"""Extras of those who work on it."""

SINFO_S = 2.0
"""Seconds that Slurm has for an answer."""


def services() -> dict[str, Any]:
    """Slurm, Weights & Biases, the Hugging Face hub; nothing is waited for longer than two seconds or so."""
    from lab.track.wandb import answers, base_url, has_key

    hub = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    offline = [
        key for key in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE") if os.environ.get(key, "0") not in ("", "0")
    ]
    mode = os.environ.get("WANDB_MODE")
    with ThreadPoolExecutor() as pool:
        asked = {
            "wandb": pool.submit(answers, base_url()) if mode not in ("offline", "disabled") else None,
            "hub": pool.submit(answers, hub) if not offline else None,
            "slurm": pool.submit(_slurm),
        }
        said = {name: None if future is None else future.result() for name, future in asked.items()}
    return {
        "slurm": said["slurm"],
        "wandb": {
            "server": urlsplit(base_url()).netloc,
            "key": has_key(),
            "answers": said["wandb"],
            "mode": mode,
        },
        "hub": {"server": urlsplit(hub).netloc, "answers": said["hub"], "offline_by": offline[:1]},
    }


def _slurm() -> str | None:
    """What Slurm says it is; None where it is not there or does not answer."""
    if shutil.which("sinfo") is None:
        return None
    try:
        done = subprocess.run(["sinfo", "--version"], capture_output=True, text=True, timeout=SINFO_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def extras() -> dict[str, bool]:
    """Each extra with whether everything that it asks for is installed."""
    found: dict[str, bool] = {}
    for line in _requirements():
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        if extra and extra[1] not in NOT_FOR_USE:
            found[extra[1]] = found.get(extra[1], True) and _is_installed(_name(line))
    return found


def missing() -> list[str]:
    """Packages that have to be there, and are not."""
    needed = [_name(line) for line in _requirements() if "extra ==" not in line]
    return [package for package in needed if not _is_installed(package)]


def least(package: str) -> str | None:
    """The oldest version of a package that is good enough."""
    for line in _requirements():
        if _name(line) == package and "extra ==" not in line:
            bound = re.search(r">=\s*([\d.]+)", line)
            return bound[1] if bound else None
    return None


def _requirements() -> list[str]:
    try:
        return metadata.requires(PACKAGE) or []
    except metadata.PackageNotFoundError:  # run from its folder
        return []


def _name(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    return found[0] if found else requirement


def _is_installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True
