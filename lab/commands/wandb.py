"""Upload W&B runs that were trained offline, or make a W&B dashboard of a study."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lab.commands._parser import Parser
from lab.commands._wandb_tables import log_tables
from lab.errors import LabError, one_line
from lab.files import write_atomically
from lab.paths import runs_dir

if TYPE_CHECKING:
    from wandb_workspaces.workspaces import Workspace

SPEC = "wandb-workspace.json"
"""Where a dashboard's description goes that cannot be saved."""


def main(argv: list[str]) -> int:
    """Run ``lab wandb``; the exit status, 1 where an upload failed.

    Raises:
        LabError: a path is missing, there is no key or no server, or a package is missing.
    """
    options = _parser().parse_args(argv)
    if options.action == "sync":
        return _sync([Path(path) for path in options.paths], dry=options.dry_run)
    return _dashboard(options.study, project=options.project, entity=options.entity, file=options.output)


def _sync(paths: list[Path], *, dry: bool) -> int:
    """Upload what is not uploaded, each run's segments in the order in which they were written.

    Raises:
        LabError: a path is missing, or there is no key or no server.
    """
    found = list(_unsent(paths))
    if not found:
        print("nothing to upload")
        return 0
    if dry:
        for segments in found:
            for segment in segments:
                print(segment)
        print("nothing was uploaded: --dry-run")
        return 0
    if reason := _unreachable():
        raise LabError(f"nothing was uploaded: {reason}")
    failed = 0
    for number, segments in enumerate(found, start=1):
        run = segments[0].parent.parent.name
        command = [sys.executable, "-m", "wandb", "sync", "--yes", *map(str, segments)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        sent = done.returncode == 0 and all(_is_sent(segment) for segment in segments)
        failed += not sent
        said = (done.stderr + done.stdout).strip().splitlines()
        what = "uploaded" if sent else f"failed: {one_line(Exception(said[-1] if said else 'wandb says nothing'))}"
        print(f"{number}/{len(found)}  {run}  {len(segments)} segment{'' if len(segments) == 1 else 's'}  {what}")
    return int(failed > 0)


def _unsent(paths: list[Path]) -> Iterator[list[Path]]:
    """Each run's offline segments that are not uploaded, the earliest first.

    Raises:
        LabError: a path is missing, and no study either.
    """
    from lab.runs.store import run_folders
    from lab.study.manifest import manifests, named

    folders: list[Path] = []
    for path in paths or [runs_dir()]:
        study = None if path.exists() else named(str(path))
        if study is not None:
            folders += [study.path, *(entry.folder.path for entry in study.runs)]
        elif path.exists() or paths:
            folders += run_folders([path])
    if not paths:
        folders += [study.path for study in manifests()]
    for folder in dict.fromkeys(folders):
        segments = [path for path in sorted(folder.glob("wandb/offline-run-*")) if not path.is_symlink()]
        if unsent := [segment for segment in segments if not _is_sent(segment)]:
            yield unsent


def _is_sent(segment: Path) -> bool:
    return any(segment.glob("*.wandb.synced"))


def _unreachable() -> str | None:
    """Why nothing can be sent."""
    from lab.track.wandb import answers, base_url, has_key

    if not has_key():
        return "there is no key; `wandb login`, or set WANDB_API_KEY"
    return None if answers(base_url()) else f"{urlsplit(base_url()).netloc} does not answer"


def _dashboard(study: str | None, *, project: str, entity: str | None, file: str | None) -> int:
    """Save a workspace, or write what it would be.

    Raises:
        LabError: the package is missing, there is no such study, or the file cannot be written.
    """
    if find_spec("wandb_workspaces") is None:
        raise LabError("lab wandb dashboard needs wandb-workspaces: pip install 'ablation-lab[dashboard]'")
    from lab.study.manifest import find
    from lab.track._dashboard import workspace

    manifest = None if study is None else find(study)
    label = None if manifest is None else manifest.label
    owner = entity or os.environ.get("WANDB_ENTITY")
    reason = "as -o asks" if file else _unreachable()
    if reason is None:
        import wandb

        try:
            owner = owner or str(wandb.Api(timeout=10).default_entity)
            if manifest is not None:
                log_tables(manifest, project=project, entity=owner, online=True)
            made = workspace(entity=owner, project=project, study=label).save()
            print(f"saved: {made.url}")
            return 0
        except Exception as error:
            reason = f"the server refused: {one_line(error)}"
            wandb.teardown()  # it would hold the run of the tables
    if manifest is not None and not file and log_tables(manifest, project=project, entity=owner, online=False):
        print(f"tables A and B are in {manifest.path / 'wandb'}; `lab wandb sync {manifest.name}` uploads them")
    path = Path(file or SPEC)
    _write(workspace(entity=owner or "me", project=project, study=label), path)
    print(f"not saved ({reason}); its description is in {path}")
    return 0


def _write(made: "Workspace", path: Path) -> None:
    """Write a workspace as W&B describes it.

    Raises:
        LabError: it cannot be written.
    """
    text = made._to_model().model_dump_json(by_alias=True, exclude_none=True)  # there is no public way
    try:
        write_atomically(path, (json.dumps(json.loads(text), indent=1) + "\n").encode())
    except OSError as error:
        raise LabError(f"{path}: cannot be written ({error.strerror})") from error


def _parser() -> Parser:
    parser = Parser(prog="lab wandb", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    sync = actions.add_parser("sync", help="upload what was trained offline", description="Upload offline runs.")
    sync.add_argument("paths", metavar="PATH", nargs="*", help="a study, a run folder, or a folder of them")
    sync.add_argument("--dry-run", action="store_true", help="list what would be uploaded, and upload nothing")
    board = actions.add_parser(
        "dashboard",
        help="make a workspace: curves by variant, results, spikes",
        description=f"Make a W&B workspace. Without a key or a server its description is written to {SPEC}.",
    )
    board.add_argument("study", metavar="STUDY", nargs="?", help="of which study (default: all runs)")
    board.add_argument("--project", default="lab", help="project of the runs (default: lab)")
    board.add_argument("--entity", help="user or team (default: the key's own)")
    board.add_argument("-o", "--output", metavar="FILE", help="write its description here, and save nothing")
    return parser
