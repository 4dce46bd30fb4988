"""Free disk space: remove what no table needs of runs that have ended."""

from contextlib import suppress
from pathlib import Path

from lab.commands._parser import Parser
from lab.errors import LabError
from lab.files import remove_temporaries
from lab.paths import cache_dir, runs_dir
from lab.progress import progress
from lab.runs import leftovers
from lab.runs.store import RunFolder, unwritable

Row = tuple[str, str, str, int]
"""A run or ``cache``, its status, what goes, and how many bytes that frees."""


def main(argv: list[str]) -> int:
    """Run ``lab gc``; the exit status.

    Raises:
        LabError: something cannot be removed.
    """
    options = _parser().parse_args(argv)
    folders = [RunFolder(file.parent) for file in sorted(runs_dir().glob("*/config.json"))]
    spared = leftovers.sources(folders) if options.weights else set()
    rows: list[Row] = []
    held = 0
    with progress("gc: runs looked at", len(folders)) as bar:
        for number, folder in enumerate(folders, start=1):
            kept = "none" if options.weights and folder.path.name not in spared else leftovers.kept_of(folder)
            try:
                rows += _of_run(folder, kept, dry=options.dry_run)
            except LabError:
                if not folder.is_locked():
                    raise
                held += 1
            bar.update(number)
    rows += _of_cache(dry=options.dry_run)
    _print(rows, dry=options.dry_run)
    if held:
        print(f"left alone: {held} run{'' if held == 1 else 's'} that a process trains now")
    if starts := sorted(spared & {folder.path.name for folder in folders}):
        print(f"weights kept, for runs start from them: {', '.join(starts)}")
    return 0


def _of_run(folder: RunFolder, kept: str, *, dry: bool) -> list[Row]:
    """What goes of one run.

    Raises:
        LabError: a process holds it, or its folder cannot be written.
    """
    if folder.is_locked():
        raise LabError(f"run {folder.path.name} is being trained")
    found = leftovers.of_run(folder, kept=kept)
    if not found:
        return []
    status = (folder.result_now() or {}).get("status", "unknown")
    freed = sum(one.bytes for one in found)
    if not dry:
        before = _size(folder.path)
        with folder.locked():  # makes a lock and removes it: one of a dead process is gone then
            try:
                _thin_out(folder, kept)
                remove_temporaries(folder.path)
                remove_temporaries(folder.checkpoints)
            except OSError as error:
                raise unwritable(folder.path, error) from error
        freed = max(0, before - _size(folder.path))
    return [(folder.path.name, str(status), ", ".join(one.what for one in found), freed)]


def _thin_out(folder: RunFolder, kept: str) -> None:
    if leftovers.has_ended(folder) and kept != "all":
        from lab.config import After
        from lab.training.checkpoint import thin_out

        thin_out(folder.checkpoints, After(kept))


def _of_cache(*, dry: bool) -> list[Row]:
    """What goes of the cache.

    Raises:
        LabError: it cannot be removed.
    """
    found = leftovers.of_cache()
    if found and not dry:
        try:
            leftovers.clear_cache()
        except OSError as error:
            raise LabError(f"{error.filename or cache_dir()}: cannot be removed ({error.strerror})") from error
    return [("cache", "", "half-written files", sum(size for _, size in found))] if found else []


def _size(folder: Path) -> int:
    """Bytes of the files in a folder that is being written to at most by this process."""
    size = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            size += path.stat().st_size if path.is_file() else 0
    return size


def _print(rows: list[Row], *, dry: bool) -> None:
    if not rows:
        print("nothing to remove")
        return
    table = [("run", "status", "what goes" if dry else "what went", "MiB")]
    table += [(run, status, what, _mib(size)) for run, status, what, size in rows]
    table += [("total", "", "", _mib(sum(row[3] for row in rows)))]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for *words, size in table:
        left = "  ".join(word.ljust(width) for word, width in zip(words, widths, strict=False))
        print(f"{left}  {size.rjust(widths[-1])}")
    if dry:
        print("nothing was removed: --dry-run")


def _mib(size: int) -> str:
    return f"{size / 2**20:.2f}"


def _parser() -> Parser:
    parser = Parser(
        prog="lab gc",
        description=f"{__doc__} That is the optimizer's state and all but the newest checkpoint, unless the run "
        "was trained with checkpoint.after=all; and what killed processes left half-written. Results, metrics and "
        "logs stay, and so does everything that a run needs which is not done.",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be removed, and remove nothing")
    parser.add_argument(
        "--weights",
        action="store_true",
        help="remove weights too, which lab eval, generate and probe need; those that other runs start from stay",
    )
    return parser
