"""The ``lab`` command: the first word picks a file in ``lab/commands``, which is imported then and not before."""

import os
import signal
import sys
from importlib import import_module
from types import FrameType
from typing import NoReturn

from lab.commands import listing
from lab.errors import LabError, Stopped, did_you_mean

USAGE = "usage: lab COMMAND [ARGUMENTS]"

HELP_WIDTH = 100


def main(argv: list[str] | None = None) -> None:
    """Run one command and exit: 0 done, 1 refused or failed, 2 not understood, 128 + N stopped by signal N."""
    words = sys.argv[1:] if argv is None else argv
    terminals = [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        if number == signal.SIGHUP:  # the terminal is gone, and writing to it fails
            _send_to_nowhere(terminals)
        raise Stopped("stopped", number)

    for number in (signal.SIGTERM, signal.SIGHUP):  # like Ctrl-C: what is half written is cleared away
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, stop)
    sys.exit(_run(words))


def _run(words: list[str]) -> int:
    if words[:1] in (["-sc"], ["--shell-completion"]):
        from lab.completion import complete

        return complete(words[1] if len(words) > 1 else "")
    if not words or words[0] in ("-h", "--help", "help"):
        return _print(_help())
    if words[0] == "--version":
        import lab

        return _print(lab.__version__)
    known = listing()
    if words[0] not in known:
        names = ", ".join(known)
        near = did_you_mean(words[0], known)
        print(f"lab: unknown command '{words[0]}'; the commands are {names}{near}", file=sys.stderr)
        return 2
    return _call(words[0], words[1:])


def _call(command: str, arguments: list[str]) -> int:
    try:
        status: int = import_module(f"lab.commands.{command}").main(arguments)
        sys.stdout.flush()
    except LabError as error:
        print(f"lab {command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stop:
        number = stop.signal_number if isinstance(stop, Stopped) else signal.SIGINT
        print(f"lab {command}: {str(stop) or 'stopped'}", file=sys.stderr)
        return 128 + number
    except OSError as error:
        if error.filename is not None:  # a bug: it ought to have been said what the file is for
            raise
        return _unwritten(f"lab {command}", error)
    return status


def _print(text: str) -> int:
    try:
        print(text, flush=True)
    except OSError as error:
        return _unwritten("lab", error)
    return 0


def _unwritten(label: str, error: OSError) -> int:
    """Nobody reads on, as in ``lab table | head``, or the output goes to a disk that is full."""
    _send_to_nowhere([sys.stdout.fileno()])
    if not isinstance(error, BrokenPipeError):
        print(f"{label}: the output cannot be written ({error.strerror})", file=sys.stderr)
    return 1


def _send_to_nowhere(descriptors: list[int]) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in descriptors:
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _help() -> str:
    from textwrap import wrap

    from lab import choices

    listed = listing()
    lines = ["The ablation laboratory for transformer language models.", "", USAGE, "", "commands:"]
    lines += [f"  {name:<9} {text}" for name, text in listed.items()]
    lines += ["", "components, as in `lab train norm=rmsnorm attn=gqa`:"]
    for group in choices.GROUPS:
        menu = f"  {group:<15} {', '.join(choices.names(group))}"
        lines += wrap(menu, HELP_WIDTH, subsequent_indent=" " * 18, break_on_hyphens=False)
    lines += [
        "",
        "`lab COMMAND --help` says more. `lab train -m norm=layernorm,rmsnorm seed=1,2,3` runs a sweep.",
        'Completion in bash: eval "$(lab -sc install=bash)"',
    ]
    return "\n".join(lines)
