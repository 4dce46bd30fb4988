import pytest

from lab.commands._parser import Parser


@pytest.fixture
def parser():
    parser = Parser(prog="lab thing")
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list")
    listing.add_argument("path", nargs="?")
    listing.add_argument("--format", choices=["text", "json"], default="text")
    listing.add_argument("-n", "--number", type=int)
    return parser


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["lisst"], "lab thing: command 'lisst' is not one of list; did you mean 'list'?"),
        (["zzz"], "lab thing: command 'zzz' is not one of list"),
        ([], "lab thing: command is missing: one of list"),
        (
            ["list", "--fromat=json"],
            "lab thing: '--fromat=json' is not an option or argument here; did you mean '--format'?",
        ),
        (
            ["list", "--form", "json"],
            "lab thing: '--form' is not an option or argument here; did you mean '--format'?",
        ),
        (["list", "a", "b"], "lab thing: 'b' is not an option or argument here"),
        (["list", "--format"], "lab thing list: --format: expected one argument"),
        (["list", "-n", "x"], "lab thing list: -n/--number: invalid int value: 'x'"),
        (["list", "--format", "xml"], "lab thing list: --format 'xml' is not one of text, json"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(parser, capsys, argv, line):
    with pytest.raises(SystemExit) as caught:
        parser.parse_args(argv)
    assert caught.value.code == 2
    assert capsys.readouterr() == ("", f"{line}\n")


def test_what_is_right_is_parsed(parser):
    options = parser.parse_args(["list", "a", "--format", "json", "-n", "3"])
    assert vars(options) == {"command": "list", "path": "a", "format": "json", "number": 3}


def test_help_is_argparse_own(parser, capsys):
    with pytest.raises(SystemExit) as caught:
        parser.parse_args(["list", "--help"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("usage: lab thing list")
