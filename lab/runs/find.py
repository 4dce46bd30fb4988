"""From what was typed for a run to its folder: an id, the beginning of one, or a path."""

from pathlib import Path

from lab.errors import LabError, did_you_mean
from lab.paths import runs_dir
from lab.runs.store import RunFolder

SHOWN = 6
"""Ids that an error lists."""


def run_ids() -> list[str]:
    """The ids of the runs in the outputs folder, the newest first."""
    files = list(runs_dir().glob("*/config.json"))
    return [file.parent.name for file in sorted(files, key=lambda file: (-file.stat().st_mtime, file))]


def find_run(text: str) -> RunFolder:
    """The folder of a run that was named by its id, by the beginning of its id, or by a path.

    Raises:
        LabError: no run is named so, or several are.
    """
    ids = run_ids()
    if text in ids:
        return RunFolder(runs_dir() / text)
    path = Path(text).expanduser()
    path = path.parent if path.is_file() else path
    if text and (path / "config.json").is_file():
        return RunFolder(path.resolve())
    found = [name for name in ids if text and name.startswith(text)]
    if len(found) == 1:
        return RunFolder(runs_dir() / found[0])
    if found:
        raise LabError(f"run '{text}' could be {_list(found)}: type more of it")
    if not ids:
        raise LabError(f"run '{text}' is not there: no runs in {runs_dir()}; lab train makes one")
    near = did_you_mean(text, ids) or f"; there are {_list(ids)}"
    raise LabError(f"run '{text}' is neither the beginning of an id in {runs_dir()} nor a run's folder{near}")


def _list(names: list[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
