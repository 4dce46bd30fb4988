"""Completion in bash: the first word from the list of commands, the rest from argparse and Hydra.

Only what a word needs is imported, so that the first one comes at once.
"""

import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from itertools import pairwise

SCRIPT = r"""_lab_completion() {
    local line="${COMP_LINE:0:COMP_POINT}" IFS=$'\n'
    local word="${line##*[[:space:]]}"
    COMPREPLY=($(COMP_LINE="$line" "${COMP_WORDS[0]/#\~/$HOME}" -sc query=bash 2>/dev/null))
    local breaks="${COMP_WORDBREAKS//[^=:]/}"
    if [[ -n "$breaks" ]]; then
        local cut="${word%"${word##*[$breaks]}"}"
        COMPREPLY=("${COMPREPLY[@]#"$cut"}")
    fi
    if [[ ${#COMPREPLY[@]} -eq 1 && "${COMPREPLY[0]}" == *[=./] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o default -F _lab_completion lab"""
"""Readline replaces only what follows the last ``=`` if that breaks words, so what precedes it is cut off."""


def complete(request: str) -> int:
    """Answer ``lab -sc REQUEST``; the exit status."""
    if request == "install=bash":
        print(SCRIPT)
    elif request == "uninstall=bash":
        print("complete -r lab; unset -f _lab_completion")
    elif request == "query=bash":
        line = os.environ.get("COMP_LINE", "")
        for candidate in candidates(line[: int(os.environ.get("COMP_POINT") or len(line))]):
            print(candidate)
    else:
        allowed = "install=bash, uninstall=bash, query=bash"
        print(f"lab: --shell-completion '{request}' is not one of {allowed}", file=sys.stderr)
        return 2
    return 0


def candidates(line: str) -> list[str]:
    """What the last word of a command line could become; nothing where bash's own completion of paths will do."""
    words = line.split()
    word = "" if not words or line[-1].isspace() else words.pop()
    if len(words) < 2:
        from lab.commands import listing

        found = [*listing(), *(["--help", "--version"] if word.startswith("-") else [])]
    else:
        with open(os.devnull, "w") as nowhere, redirect_stderr(nowhere), redirect_stdout(nowhere):  # noqa: PTH123
            found = _arguments(words[1], words[2:], word)
    return sorted({match for match in found if match.startswith(word)})


def _arguments(command: str, words: list[str], word: str) -> list[str]:
    """What an argument of a command could become; a line that makes no sense has no answer."""
    from lab.commands import listing
    from lab.commands._parser import Candidates, Parser

    if command not in listing():
        return []
    Parser.completing = word
    try:
        import_module(f"lab.commands.{command}").main(words)
    except Candidates as found:
        path = word.startswith((".", "/", "~/"))
        return [*found.words, *(_overrides(words, word) if found.overrides and not path else [])]
    except (Exception, SystemExit):
        return []
    finally:
        Parser.completing = None
    return []


def _overrides(words: list[str], word: str) -> list[str]:
    from lab.compose import complete_override

    folders = [after for option, after in pairwise(words) if option in ("-cd", "--config-dir")]
    return complete_override(words, word, config_dir=folders[-1] if folders else None)
