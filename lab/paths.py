"""Where things live: the shipped conf/ tree, the outputs folder, the cache."""

import os
from pathlib import Path


def conf_dir() -> Path:
    """The YAML tree: ``lab/conf`` in an installed wheel, ``conf/`` beside ``lab/`` in a checkout."""
    package = Path(__file__).resolve().parent
    installed = package / "conf"
    return installed if (installed / "train.yaml").is_file() else package.parent / "conf"


def reproductions_dir() -> Path:
    """The finished studies: ``lab/reproductions`` in an installed wheel, ``docs/reproductions`` in a checkout."""
    package = Path(__file__).resolve().parent
    checkout = package.parent / "docs" / "reproductions"
    return checkout if not (package / "conf" / "train.yaml").is_file() else package / "reproductions"


def outputs_dir() -> Path:
    """``$LAB_OUTPUTS``, or ``outputs/`` under the current directory."""
    return Path(os.environ.get("LAB_OUTPUTS") or "outputs").expanduser()


def runs_dir() -> Path:
    """The folder that holds one folder a run."""
    return outputs_dir() / "runs"


def studies_dir() -> Path:
    """The folder that holds one folder a study or sweep."""
    return outputs_dir() / "studies"


def cache_dir() -> Path:
    """``$LAB_CACHE``, or ``lab`` under the user's cache folder. Holds what can be made again."""
    given = os.environ.get("LAB_CACHE")
    if given:
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "lab"
