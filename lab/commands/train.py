"""Train one run, or with -m a sweep: `lab train norm=rmsnorm attn=gqa seed=1`."""

import argparse
import logging
import os
import sys
from contextlib import redirect_stderr, redirect_stdout, suppress
from string import Template
from textwrap import wrap
from typing import TYPE_CHECKING, Any, cast

import hydra
from hydra import compose
from hydra._internal.utils import get_args_parser
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict

from lab.commands._parser import Parser
from lab.compose import CONFIG_NAME, conf_dirs, hydra_here, match_target, one_line_errors, search_path
from lab.errors import Held, LabError
from lab.hints import group_choices, spelled
from lab.paths import conf_dir
from lab.preset import given_keys
from lab.progress import hide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.config import RunConfig
    from lab.training.run import Trained

HELP_WIDTH = 100

log = logging.getLogger("lab")

_refused: list[LabError] = []
"""Why the one run of a call without -m came to nothing: Hydra prints lines of its own about an exception."""


def main(argv: list[str]) -> int:
    """Hand the arguments to Hydra; the exit status.

    Of the processes that torchrun starts on a machine only the first has something to say of what all of them find.

    Raises:
        LabError: something in the arguments is refused, or a run failed.
    """
    if not _started_together() or os.environ.get("LOCAL_RANK", "0") == "0":
        return _main(argv)
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):  # noqa: PTH123
        with suppress(LabError, KeyboardInterrupt, SystemExit):
            _main(argv)
        return 0


def _started_together() -> bool:
    """Whether this is one of several processes that torchrun has started for one run."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def _main(argv: list[str]) -> int:
    if "--version" in argv:
        import lab

        print(lab.__version__)
        return 0
    parser = Parser(prog="lab train", parents=[get_args_parser()], add_help=False)
    options = parser.parse_with_overrides([spelled(word) for word in argv])
    _check_options(parser, options)
    if _started_together() and (options.multirun or any(w.startswith("study=") for w in options.overrides)):
        raise LabError(
            "a sweep is refused under torchrun: it trains each run in a process of its own; start it without "
            "torchrun, or give torchrun one run at a time"
        )
    sys.argv = ["lab train", *_flags(parser, options), *options.overrides]
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra hands its errors on instead of printing them
    log_to_console()
    _refused.clear()
    GlobalHydra.instance().clear()
    with one_line_errors(options.overrides, config_dir=options.config_dir):
        if options.help:
            print(_wrapped(_help(options)))
        else:
            _hydra_main()
    if _refused:
        raise _refused.pop()
    return 0


def _help(options: argparse.Namespace) -> str:
    """The help of `lab train`: its template with the menus of the groups, and the values of the overrides.

    Hydra's own reads the configuration again for every group.
    """
    with hydra_here():
        tree = compose(
            CONFIG_NAME, [*options.overrides, *search_path(options.config_dir)], return_hydra_config=True
        )
    template = Template(tree.hydra.help.template)
    folders = [folder for root in conf_dirs(options.config_dir) for folder in root.iterdir() if folder.is_dir()]
    groups = sorted({folder.name for folder in folders} - {"hydra"})
    menus = [f"{group}: {', '.join(group_choices(group, options.config_dir))}" for group in groups]
    with open_dict(tree):
        del tree["hydra"]
    values = OmegaConf.to_yaml(tree, resolve=options.resolve)
    return template.substitute(APP_CONFIG_GROUPS="\n".join(menus) + "\n", CONFIG=values)


def _wrapped(text: str) -> str:
    lines = [
        wrap(line, HELP_WIDTH, subsequent_indent="  ", break_on_hyphens=False) if len(line) > HELP_WIDTH else [line]
        for line in text.split("\n")
    ]
    return "\n".join(part for parts in lines for part in parts)


def _check_options(parser: Parser, options: argparse.Namespace) -> None:
    """Refuse what Hydra answers with a traceback."""
    modes = [f"--{mode}" for mode in ("run", "multirun", "cfg", "info") if getattr(options, mode)]
    if len(modes) > 1:
        parser.error(f"{' and '.join(modes)} exclude each other")
    if options.resolve and not (options.cfg or options.help):
        parser.error("--resolve goes with --cfg or --help")
    if options.experimental_rerun:
        parser.error("--experimental-rerun is not supported: give the overrides again, a run is resumed or found")
    if options.shell_completion:
        parser.error('--shell-completion belongs to lab itself: eval "$(lab -sc install=bash)"')


def _flags(parser: Parser, options: argparse.Namespace) -> list[str]:
    """The options that were given, in front: Hydra takes no override after an option that follows one."""
    flags: list[str] = []
    for action in parser._actions:
        value = getattr(options, action.dest, None)
        if action.option_strings and value:
            flags += [action.option_strings[0]] + ([] if value is True else [value])
    return flags


def _task(cfg: DictConfig) -> "Trained | None":
    """One job of Hydra's, perhaps in a process of its own."""
    from lab.config import RunConfig
    from lab.study.settings import refuse_alone
    from lab.training.run import train

    _speak()
    try:
        overrides = cast(list[str], OmegaConf.to_container(HydraConfig.get().overrides.task))  # `${…}` as it is
        if HydraConfig.get().mode is RunMode.RUN:
            if cfg.get("study") is not None:  # its file did not ask for a sweep, so this is a single run
                name = HydraConfig.get().runtime.choices["study"]
                raise LabError(
                    f"study '{name}': its file must open with '# @package _global_' and hold the lines "
                    "'hydra: {mode: MULTIRUN}' and 'study:'"
                )
            refuse_alone(cast(dict[str, Any], cfg))
        config = RunConfig.decode(cfg, given_keys(overrides))
        return train(config, match_target(config))
    except Exception as error:
        if HydraConfig.get().mode is RunMode.MULTIRUN:  # the other runs go on; the sweeper counts
            _tell(error, HydraConfig.get().overrides.task)
            raise
        if not isinstance(error, LabError):
            raise
        _refused.append(error)
        return None


def train_stacked(runs: "Sequence[tuple[RunConfig, Sequence[str]]]") -> "list[Trained | Exception]":
    """Jobs of Hydra's that are trained as one batched model, in a process of their own; what came of each."""
    from lab.training import stacked

    _speak()
    came = stacked.train_stacked([(config, match_target(config)) for config, _ in runs])
    for (_, words), one in zip(runs, came, strict=True):
        if isinstance(one, Exception):
            _tell(one, words)
    return came


def _tell(error: Exception, words: "Sequence[str]") -> None:
    """Say why a run of a sweep came to nothing."""
    known = isinstance(error, LabError)
    if not isinstance(error, Held):  # the sweeper knows what to do
        log.error("%s (in the run %s)", error, " ".join(words), exc_info=None if known else error)


def _speak() -> None:
    """Set up what a job says; one that a launcher gave a process of its own leaves the console to the launcher."""
    from lab.training.interrupt import ask_once

    hydra_config = HydraConfig.get()
    apart = hydra_config.mode is RunMode.MULTIRUN and hydra_config.runtime.choices["hydra/launcher"] != "basic"
    log_to_console(quiet=apart)
    if apart:
        hide()
        ask_once()


_hydra_main = hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name=CONFIG_NAME)(_task)


class _Console(logging.Handler):
    """Prints what the package logs, as it is, on standard output; warnings on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        stream = sys.stdout if record.levelno < logging.WARNING else sys.stderr
        try:
            print(self.format(record), file=stream, flush=True)
        except OSError:  # `lab train | head`, a lost terminal, a full disk: the run goes on, run.log has it all
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def log_to_console(*, quiet: bool = False) -> None:
    """Let the package speak, in each process once; ``quiet`` where nobody listens yet, and then warnings alone."""
    logger = logging.getLogger("lab")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    if quiet and logger.handlers:
        return
    if not any(isinstance(handler, _Console) for handler in logger.handlers):
        logger.addHandler(_Console(level=logging.WARNING if quiet else logging.INFO))
