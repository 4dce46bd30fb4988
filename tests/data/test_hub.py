"""Streaming from the hub, on local files and with the hub's answers made up."""

import json
import os
from pathlib import Path

import pytest

from lab.data import hub
from lab.data.corpus import SPLITS, _streamed
from lab.data.corpus.hub import Config
from lab.data.corpus.wikitext103 import Config as Wikitext
from lab.data.tokenizer.byte import Config as Byte
from lab.data.tokens import prepare
from lab.errors import ConfigError, LabError

TEXTS = [f"document {i}: " + "été " * (i % 7) for i in range(400)]


@pytest.fixture
def jsonl(tmp_path) -> Path:
    path = tmp_path / "some texts.jsonl"
    path.write_text("".join(json.dumps({"id": i, "body": text}) + "\n" for i, text in enumerate(TEXTS)))
    return path


@pytest.fixture
def parquet(tmp_path) -> list[Path]:
    import pyarrow
    import pyarrow.parquet

    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path, texts in zip(paths, (TEXTS[:150], TEXTS[150:]), strict=True):
        pyarrow.parquet.write_table(pyarrow.table({"text": texts}), path, row_group_size=40)
    return paths


def make(dataset, *files, field="text", tokens=None, begins=None, subset=None, split="train"):
    return Config(
        name="hub",
        dataset=dataset,
        subset=subset,
        split=split,
        field=field,
        begins=begins,
        tokens=tokens,
        file=[str(file) for file in files],
    )


def all_texts(corpus):
    """Its documents in the order of the stream."""
    documents = [document for name in SPLITS for document in corpus.split(name)]
    return [document.text for document in sorted(documents, key=lambda document: int(document.id))]


def streamed(config):
    """Its documents without a split."""
    source = config.source()
    hub.fetch(source, config.n_bytes)
    return list(hub.documents(source, config.n_bytes))


@pytest.mark.slow
def test_json_lines(jsonl):
    corpus = make("json", jsonl, field="body").load()
    assert all_texts(corpus) == TEXTS
    assert all(corpus.split(name) for name in SPLITS)
    assert corpus.note.startswith("the first 400 documents of json, split by")


@pytest.mark.slow
def test_parquet_is_the_same_text_in_other_files(parquet, jsonl):
    assert all_texts(made := make("parquet", *parquet).load()) == TEXTS
    assert made.hash == make("json", jsonl, field="body").load().hash


@pytest.mark.slow
def test_tokens_are_four_bytes_and_a_larger_number_goes_on(parquet, monkeypatch, cache):
    monkeypatch.setattr(hub, "PART", 1000)
    opened = []
    real = hub._open
    monkeypatch.setattr(hub, "_open", lambda source, stored: opened.append(stored.bytes) or real(source, stored))
    few = streamed(make("parquet", *parquet, tokens=1000))
    assert few == TEXTS[: len(few)]
    assert sum(len(text.encode()) for text in few[:-1]) < 4000 <= sum(len(text.encode()) for text in few)
    less = streamed(make("parquet", *parquet, tokens=700))
    assert less == few[: len(less)]
    assert len(less) < len(few)
    more = streamed(make("parquet", *parquet, tokens=2000))
    assert more == TEXTS[: len(more)]
    assert streamed(make("parquet", *parquet)) == TEXTS
    assert streamed(make("parquet", *parquet, tokens=10**9)) == TEXTS
    assert len(opened) == 3
    assert 0 == opened[0] < opened[1] < opened[2]
    (folder,) = (path for path in (cache / "hub").iterdir() if path.is_dir())
    assert len(list(folder.glob("0*.json"))) > 5


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_a_stream_that_breaks_off_goes_on(kind, jsonl, parquet, monkeypatch):
    monkeypatch.setattr(hub, "PART", 1000)
    files, field = ([jsonl], "body") if kind == "json" else (parquet, "text")
    real, left = hub._text, [170]

    def broken(row, source):
        left[0] -= 1
        if left[0] == 0:
            raise ConnectionError("the line is\ndead")
        return real(row, source)

    monkeypatch.setattr(hub, "_text", broken)
    with pytest.raises(LabError, match=r"broke off after 0.0 MB \(ConnectionError: the line is dead\); the same"):
        make(kind, *files, field=field).load()
    assert all_texts(make(kind, *files, field=field).load()) == TEXTS
    assert left[0] > -380  # rows before the break were not all read again


@pytest.mark.slow
def test_rows_are_joined_to_documents(tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "PART", 300)
    rows, articles = [], []
    for i in range(60):
        article = [f" = Title {i} = \n", "", " = = Part = = \n", f" Text {i} = {i} . \n", " "]
        rows, articles = rows + article, [*articles, "".join(article)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    begins = "^ = [^=].* = $"
    assert streamed(make("json", path, begins=begins, tokens=400)) == articles[:34]
    assert streamed(make("json", path, begins=begins)) == articles


def test_the_shorthand_for_wikitext_has_that_pattern():
    from lab.paths import conf_dir

    assert "begins: '^ = [^=].* = $'" in (conf_dir() / "data" / "wikitext103.yaml").read_text()


@pytest.mark.slow
def test_val_and_test_are_small(jsonl, monkeypatch):
    whole = make("json", jsonl, field="body").load()
    monkeypatch.setattr(_streamed, "HELD_OUT", 100)
    small = make("json", jsonl, field="body").load()
    assert small.train == whole.train
    for name in ("val", "test"):
        kept = small.split(name)
        assert kept == whole.split(name)[: len(kept)]
        assert 1 < len(kept) < len(whole.split(name))


@pytest.mark.slow
def test_changed_files_are_read_again_and_a_changed_cache_is_refused(jsonl, cache):
    before = make("json", jsonl, field="body").load()
    jsonl.write_text(jsonl.read_text().replace("document 7:", "other 7:"))
    assert make("json", jsonl, field="body").load().hash != before.hash
    for path in cache.glob("hub/json-*/00000.json"):
        path.write_text(path.read_text().replace("document 8:", "other 8:"))
    with pytest.raises(LabError, match=r"00000.json was changed: remove .*json-.* and it is fetched again"):
        make("json", jsonl, field="body").load()


@pytest.mark.slow
def test_it_can_be_encoded(jsonl):
    tokens = prepare(make("json", jsonl, field="body"), Byte(name="byte"))
    assert sum(tokens.bytes.values()) == sum(len(text.encode()) for text in TEXTS)


def error(config):
    with pytest.raises(LabError) as caught:
        config.load()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_settings_that_do_not_go_together(jsonl, tmp_path):
    assert error(make("")) == "dataset '' is not set: give a name of the hub, as in OWNER/NAME"
    assert error(make("a/b", jsonl)).startswith(
        f"file '{jsonl}' needs data.dataset to be their format, one of json,"
    )
    assert error(make("json")) == "file '' is not set: the files of format json"
    assert error(make("json", tmp_path / "no.jsonl")) == f"file '{tmp_path / 'no.jsonl'}' is not a file"
    with pytest.raises(ConfigError, match=r"^tokens 0 must be >= 1"):
        make("json", tokens=0)


@pytest.mark.slow
def test_what_is_not_in_the_files(jsonl):
    assert error(make("json", jsonl)) == "field 'text' is not a column of json: it has id, body"
    assert error(make("json", jsonl, field="id")) == "field 'id' of json holds int, not text"
    assert "Bad split: val. Available splits: ['train']" in error(make("json", jsonl, field="body", split="val"))
    few = error(make("json", jsonl, field="body", tokens=5))
    assert few == "dataset 'json': 2 documents are too few, none is in val, test"
    jsonl.write_text("no json {\n")
    assert "JSON parse error" in error(make("json", jsonl))


def wikitext():
    return Wikitext(
        name="wikitext103",
        dataset="Salesforce/wikitext",
        subset="wikitext-103-raw-v1",
        split="train",
        field="text",
        begins=None,
        tokens=5,
    )


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (
            "OfflineModeIsEnabled",
            "data.dataset 'Salesforce/wikitext' is not in the cache and the hub cannot be reached "
            "(OfflineModeIsEnabled): fetch it where there is a network, with: lab data get",
        ),
        ("RepositoryNotFoundError", "dataset 'Salesforce/wikitext' is not on the hub, or not for everybody"),
    ],
)
def test_no_network_and_no_such_set_are_one_line(kind, line, monkeypatch):
    from huggingface_hub import HfApi, errors

    def refuse(*args, **kwargs):
        known = getattr(errors, kind)
        raise known.__new__(known, "no")

    monkeypatch.setattr(HfApi, "dataset_info", refuse)
    assert error(wikitext()) == line


@pytest.mark.slow
def test_the_revision_that_was_begun_is_gone_on_with(jsonl, monkeypatch):
    import datasets
    from huggingface_hub import HfApi

    revisions, asked = iter(["first", "second"]), []

    class Info:
        def __init__(self):
            self.sha = next(revisions)

    real = datasets.load_dataset

    def load(name, subset, *, split, streaming, revision):
        asked.append((name, subset, split, revision))
        return real("json", data_files=[str(jsonl)], split=split, streaming=streaming)

    monkeypatch.setattr(HfApi, "dataset_info", lambda *args, **kwargs: Info())
    monkeypatch.setattr(datasets, "load_dataset", load)
    for tokens in (1500, 1000, 2500):
        texts = streamed(make("owner/name", field="body", subset="s", tokens=tokens))
        assert texts == TEXTS[: len(texts)]
    assert asked == [("owner/name", "s", "train", "first")] * 2


@pytest.mark.slow
def test_a_command_without_a_network_is_one_line(lab):
    env = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": "0"}
    done = lab("data", "get", "tinystories", env=env)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("lab data: data.dataset 'roneneldan/TinyStories' is not in the cache and the hub cannot")
