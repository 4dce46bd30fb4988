import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from lab.data.corpus import SPLITS, sotu
from lab.errors import LabError

VAL = "1791 1792 1847 1860 1893 1942 1971 1978 1985 2008"
TEST = "1790 1794 1830 1837 1855 1889 1914 1918 1922 1937 1988 2004 2011 2012 2019"


@pytest.fixture(scope="module")
def corpus():
    return sotu.Config(name="sotu").load()


def test_counts_are_those_of_the_release(corpus):
    sizes = {n: (len(corpus.split(n)), sum(len(d.text.encode()) for d in corpus.split(n))) for n in SPLITS}
    assert sizes == {"train": (212, 10_864_978), "val": (10, 467_428), "test": (15, 614_893)}
    assert sum(size for _, size in sizes.values()) == 11_947_299


def test_val_and_test_are_the_documented_years(corpus):
    assert " ".join(d.id[:4] for d in corpus.val) == VAL
    assert " ".join(d.id[:4] for d in corpus.test) == TEST


def test_hash_is_fixed(corpus):
    assert corpus.hash == "6cc9c83e7e0b03fd120a7fdd9526358b03f1233bef2b46d36152bfd6ac44f20d"


def test_the_package_is_not_imported():
    code = (
        "import sys; from lab.data.corpus.sotu import Config; Config(name='sotu').load(); "
        "assert not {'sotu', 'pandas', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


class Fake:
    """An installed distribution in a folder of the test."""

    def __init__(self, folder: Path, version: str = sotu.VERSION) -> None:
        self.folder, self.version = folder, version

    def locate_file(self, path: str) -> Path:
        return self.folder / path


def message(monkeypatch: pytest.MonkeyPatch, distribution: object) -> str:
    monkeypatch.setattr(metadata, "distribution", distribution)
    with pytest.raises(LabError) as caught:
        sotu.Config(name="sotu").load()
    assert "\n" not in str(caught.value)
    assert f"sotu=={sotu.VERSION}" in str(caught.value)
    return str(caught.value)


def test_missing_package(monkeypatch):
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    assert "not installed" in message(monkeypatch, missing)


def test_other_version(monkeypatch, tmp_path):
    assert "but 0.2.0 is installed" in message(monkeypatch, lambda name: Fake(tmp_path, "0.2.0"))


def test_changed_file(monkeypatch, tmp_path):
    folder = tmp_path / "sotu" / "data"
    (folder / "speeches").mkdir(parents=True)
    (folder / "metadata.csv").write_text("fileid,is_sotu,sha256\n1790-a,True,00\n")
    (folder / "speeches" / "1790-a.txt").write_text("changed")
    assert "1790-a.txt is not the file" in message(monkeypatch, lambda name: Fake(tmp_path))


def test_missing_file(monkeypatch, tmp_path):
    assert "metadata.csv: No such file" in message(monkeypatch, lambda name: Fake(tmp_path))
