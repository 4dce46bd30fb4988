from dataclasses import fields

import pytest

from lab import choices
from lab.data.corpus import Corpus, CorpusConfig, CorpusFacts, Document, hash_texts, split_by_id
from lab.paths import conf_dir


def corpus(train: list[str], val: list[str], test: list[str], id: str = "x") -> Corpus:
    def part(texts: list[str]) -> tuple[Document, ...]:
        return tuple(Document(f"{id}{i}", text) for i, text in enumerate(texts))

    return Corpus(train=part(train), val=part(val), test=part(test), note="")


def test_hash_ignores_ids_and_notes():
    assert corpus(["a"], ["b"], ["c"]).hash == corpus(["a"], ["b"], ["c"], id="other").hash


@pytest.mark.parametrize(
    "other",
    [(["a", "b"], [], ["c"]), (["b"], ["a"], ["c"]), (["a"], ["b"], ["c", ""]), (["a"], ["bc"], [""])],
)
def test_hash_tells_splits_and_documents_apart(other):
    assert corpus(["a"], ["b"], ["c"]).hash != corpus(*other).hash


def test_hash_texts_frames_each_text():
    assert hash_texts(["ab", "c"])[0] != hash_texts(["a", "bc"])[0] != hash_texts(["abc"])[0]


def test_hash_texts_counts_bytes():
    assert hash_texts(["aé", "€"])[1] == 6


def test_split_by_id_does_not_depend_on_the_other_documents():
    documents = [Document(str(i), "") for i in range(400)]
    parts = split_by_id(documents)
    assert {name: len(part) for name, part in parts.items()} == {"train": 359, "val": 14, "test": 27}
    assert split_by_id(documents[::2])["val"] == tuple(d for d in parts["val"] if int(d.id) % 2 == 0)


@pytest.mark.parametrize("group", ["data", "tokenizer"])
def test_every_choice_has_a_yaml_with_the_fields_of_its_config(group):
    for name in choices.names(group):
        lines = (conf_dir() / group / f"{name}.yaml").read_text().splitlines()
        assert lines[0].startswith("# ")
        keys = [line.partition(":")[0] for line in lines[1:]]
        assert keys == [field.name for field in fields(choices.load(group, name).Config)]
        assert lines[1] == f"name: {name}"


@pytest.mark.parametrize("name", choices.names("data"))
def test_every_corpus_has_facts(name):
    module = choices.load("data", name)
    assert isinstance(module.FACTS, CorpusFacts)
    assert issubclass(module.Config, CorpusConfig)
