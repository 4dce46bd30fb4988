import json

import pytest

from lab import probe
from lab.commands.probe import main
from lab.errors import LabError
from lab.measure.probes import held_out
from lab.training.load import find_run, load_model

pytestmark = pytest.mark.slow


def answers(capsys, *argv):
    assert main([*map(str, argv), "--device", "cpu", "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def run(train):
    return train("model.max_seq_len=128", "train.steps=2").folder


def test_json(run, capsys):
    found = answers(capsys, run, "--items", "6")
    assert {key: found[key] for key in ("run", "step", "seed")} == {"run": run.name, "step": 2, "seed": 0}
    assert [row["probe"] for row in found["probes"]] == probe.names()
    for row in found["probes"]:
        assert row["asks"].partition("?")[1] == "?"
        assert row["items"] in (6, 0)
        if row["items"]:
            assert row["accuracy"] == row["right"] / 6
            assert 0 <= row["interval"][0] <= row["accuracy"] <= row["interval"][1] <= 1
            assert 0 < row["chance"] <= 0.5
            assert row["verdict"] in ("", "above chance", "below chance")
    assert sum(row["items"] > 0 for row in found["probes"]) >= 5
    again = answers(capsys, run.name[:8], "--items", "6", "--only", "recall", "--only", "agreement")["probes"]
    assert again == [row for row in found["probes"] if row["probe"] in ("agreement", "recall")]


def test_documents_are_those_that_were_not_trained_on(run, book):
    documents = held_out(load_model(find_run(str(run))))
    assert [document.id for document in documents] == ["book.txt/val", "book.txt/test"]
    text = book.read_text(encoding="utf-8")
    assert text.endswith("".join(document.text for document in documents))
    assert sum(len(document.text) for document in documents) < 0.12 * len(text)


def test_text(run, capsys):
    assert main([str(run), "--items", "4", "--only", "induction", "--seed", "3"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    head, row, _, *lines = out.splitlines()
    assert head.split()[:3] == ["probe", "items", "accuracy"]
    assert row.split()[:2] == ["induction", "4"]
    assert " % to " in row
    assert f"run {run.name} at step 2, questions drawn with seed 3" in lines
    assert lines[-1].startswith("induction: Which token")


def test_a_window_too_short_is_said(train, capsys):
    folder = train("model.max_seq_len=4", "train.steps=1").folder
    assert main([str(folder), "--only", "last_word"]) == 0
    out = capsys.readouterr().out
    assert "last_word: the text or the model's window is too short for any" in out
    (row,) = answers(capsys, folder, "--only", "last_word")["probes"]
    assert row["items"] == 0
    assert row["accuracy"] is None
    assert row["verdict"] is None


@pytest.mark.slow
def test_another_text_is_refused(words, tmp_path, book, capsys):
    from lab.compose import compose_config
    from lab.training.run import train

    copy = tmp_path / "book.txt"
    text = book.read_text(encoding="utf-8")
    copy.write_text(text, encoding="utf-8")
    folder = train(compose_config(words(f"data.file={copy}", "train.steps=1"))).folder
    copy.write_text(text + "more\n", encoding="utf-8")
    with pytest.raises(LabError, match="was trained on another text than data=text has now"):
        main([str(folder), "--only", "agreement"])
    assert answers(capsys, folder, "--only", "induction")["probes"][0]["items"] == 200
    copy.unlink()
    with pytest.raises(LabError, match=r"data\.file '.*book\.txt' does not exist"):
        main([str(folder), "--only", "agreement"])


def test_published_sets_from_files(run, tmp_path, capsys):
    pairs, passages = tmp_path / "order.jsonl", tmp_path / "passages.jsonl"
    rows = [{"sentence_good": "We are the people.", "sentence_bad": "We are people the."}] * 3
    pairs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    passages.write_text(json.dumps({"text": "Of the people, by the people, for the people"}) + "\n")
    (row,) = answers(capsys, run, "--only", "blimp", "--file", pairs, pairs, "--items", "5")["probes"]
    assert (row["probe"], row["items"], row["chance"]) == ("blimp", 5, 0.5)
    assert row["subsets"]["known words"]["items"] == row["paradigms"]["order"]["known"]["items"] == 5
    assert row["right"] == row["paradigms"]["order"]["right"]
    assert main([str(run), "--only", "lambada", "--file", str(passages)]) == 0
    out = capsys.readouterr().out
    assert "lambada: perplexity of the last word " in out
    assert "–" in out.splitlines()[1]


def test_a_published_set_without_a_network_is_one_line(run, monkeypatch):
    from huggingface_hub import HfApi

    def refuse(*args, **kwargs):
        raise ConnectionError

    monkeypatch.setattr(HfApi, "dataset_info", refuse)
    line = (
        r"^data set 'nyu-mll/blimp' is not in the cache and the hub cannot be reached \(ConnectionError\): "
        "fetch it where there is a network, with: lab probe; or give its files with --file$"
    )
    with pytest.raises(LabError, match=line):
        main([str(run), "--only", "blimp"])


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["a", "--only", "recal"], "--only 'recal' is not one of "),
        (["a", "--items", "1"], "--items: '1' is not a whole number of 2 or more"),
        (["a", "--file", "b.jsonl"], "--file needs one published set, as --only blimp"),
        (["a", "--only", "recall", "--file", "b.jsonl"], "--file needs one published set, as --only blimp"),
        (["a", "--seed", "-1"], "--seed: '-1' is not a whole number of 0 or more"),
        ([], "RUN is missing"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(capsys, argv, line):
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"lab probe: {line}")
    assert err.count("\n") == 1
