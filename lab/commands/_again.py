"""Training a study's runs once more: the argument STUDY, and the command that it was asked for with."""

import json
from collections.abc import Sequence

from lab.commands._parser import Parser
from lab.commands._runs import AnyOf
from lab.study.manifest import Manifest, manifests


def add_study(parser: Parser) -> None:
    """Take a study: ``options.study``, for ``lab.study.manifest.find``."""
    parser.add_argument(
        "study",
        metavar="STUDY",
        choices=None if Parser.completing is None else AnyOf([manifest.label for manifest in manifests()]),
        help="a study or sweep: its name, the beginning of it, or its folder",
    )


def train_again(manifest: Manifest, *, only: Sequence[str] | None = None, fresh: bool = False) -> int:
    """Give the command again that asked for the study; the exit status.

    Args:
        manifest: of the study.
        only: ids of the runs to train; None: all that are not done.
        fresh: whether to begin at step 0.

    Raises:
        LabError: a run failed, or the command is refused now.
    """
    from lab.commands import train

    print(f"lab train {' '.join(manifest.words)}", flush=True)
    extra = [] if only is None else [f"hydra.sweeper.only={json.dumps(list(only), separators=(',', ':'))}"]
    extra += ["hydra.sweeper.fresh=true"] if fresh else []
    return train.main([*manifest.words, *extra])
