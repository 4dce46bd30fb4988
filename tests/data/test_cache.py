import pytest

from lab.data import cache
from lab.errors import LabError


def test_replace_file_leaves_only_the_file(tmp_path):
    path = tmp_path / "entry.json"
    (tmp_path / ".entry.json.4711.tmp").write_bytes(b"half")
    cache.replace_file(path, b"one")
    cache.replace_file(path, b"two")
    assert [p.name for p in tmp_path.iterdir()] == ["entry.json"]
    assert path.read_bytes() == b"two"


def test_a_full_disk_is_one_line_that_names_the_cache(tmp_path, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(cache, "write_atomically", full)
    with pytest.raises(LabError, match="No space left on device; set LAB_CACHE") as caught:
        cache.replace_file(tmp_path / "entry.json", b"")
    assert str(tmp_path) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "file"))
    with (
        pytest.raises(LabError, match=r"cannot write the cache at .*file.*: .*; set LAB_CACHE \(now .*file\)"),
        cache.locked(tmp_path / "file" / "tokens" / "0"),
    ):
        raise AssertionError("locked")
