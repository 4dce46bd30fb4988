"""Train one run, or with -m a sweep: `lab train norm=rmsnorm attn=gqa seed=1`."""

import logging
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import hydra
from omegaconf import DictConfig

from lab.errors import ConfigError, LabError
from lab.paths import conf_dir

if TYPE_CHECKING:
    from lab.training.run import Trained

log = logging.getLogger("lab")

_ended: list["Trained"] = []
_failed: list[LabError] = []


def main(argv: list[str]) -> int:
    """Hand the arguments to Hydra, and say in the end what came of them.

    Raises:
        LabError: something in the arguments is refused, or the only run failed.
    """
    from lab.compose import one_line_errors, spelled

    words = [spelled(word) for word in argv]
    if "--version" in words:
        import lab

        print(lab.__version__)
        return 0
    sys.argv = ["lab train", *words]
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra hands its errors on instead of printing them
    _log_to_console()
    _ended.clear()
    _failed.clear()
    with one_line_errors(words, config_dir=_config_dir(words)):
        _hydra_main()
    return _report()


def _task(cfg: DictConfig) -> float | None:
    """One job of Hydra's."""
    from lab.config import RunConfig
    from lab.training.run import train

    try:
        trained = train(RunConfig.decode(cfg))
    except ConfigError:
        raise
    except LabError as error:  # the other runs of a sweep go on
        log.error("%s", error)
        _failed.append(error)
        return None
    _ended.append(trained)
    loss: float | None = trained.result["final_loss"]
    return loss


_hydra_main = hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="train")(_task)


def _report() -> int:
    """The last lines, and the exit status: 1 if a run failed."""
    done = sum(trained.was_done for trained in _ended)
    if len(_ended) + len(_failed) > 1:
        diverged = sum(trained.result["status"] == "diverged" for trained in _ended)
        parts = [f"{len(_ended) - done} trained", f"{done} already done"]
        parts += [f"{diverged} of them diverged"] if diverged else []
        parts += [f"{len(_failed)} failed"] if _failed else []
        log.info("%d runs: %s. `lab table` shows them.", len(_ended) + len(_failed), ", ".join(parts))
    return 1 if _failed else 0


def _config_dir(words: list[str]) -> str | None:
    """The value of --config-dir, which Hydra reads itself, for the choices an error lists."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word in ("--config-dir", "-cd"):
            return following
        if word.startswith("--config-dir="):
            return word.partition("=")[2]
    return None


def _between(low: int, high: int) -> Callable[[logging.LogRecord], bool]:
    return lambda record: low <= record.levelno <= high


def _log_to_console() -> None:
    """Print what the package logs, as it is, on standard output; warnings on standard error."""
    logger = logging.getLogger("lab")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    if any(getattr(handler, "is_console", False) for handler in logger.handlers):
        return
    for stream, low, high in ((sys.stdout, logging.INFO, logging.INFO), (sys.stderr, logging.WARNING, 100)):
        handler = logging.StreamHandler(stream)
        handler.setFormatter(logging.Formatter("%(message)s"))
        handler.addFilter(_between(low, high))
        handler.is_console = True  # type: ignore[attr-defined]
        logger.addHandler(handler)
