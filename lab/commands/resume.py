"""Go on with a study or sweep: train what is left of it, from where each run stopped."""

from lab.commands._again import add_study, train_again
from lab.commands._parser import Parser
from lab.study.manifest import find


def main(argv: list[str]) -> int:
    """Run ``lab resume``; the exit status.

    Raises:
        LabError: there is no such study, or a run failed.
    """
    parser = Parser(
        prog="lab resume", description=f"{__doc__} The same as the command that asked for it, given again."
    )
    add_study(parser)
    return train_again(find(parser.parse_args(argv).study))
