from pathlib import Path

import pytest

from lab.data.corpus import SPLITS
from lab.data.corpus.text import Config
from lab.errors import ConfigError

LINES = "".join(f"line {i} of the text\n" for i in range(200))


def load(*files: Path | str):
    return Config(name="text", file=[str(file) for file in files]).load()


def write(path: Path, data: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


@pytest.mark.parametrize(
    "text",
    [
        LINES,
        LINES.replace("\n", "\r\n"),
        LINES.replace("\n", "\r"),
        LINES.rstrip("\n"),
        "\ufeff\n\n" + LINES + "\n \n",
        "été 漢字 🙂\u2028\x85\x0b\x0c\x1c<|endoftext|>\n" * 100,
        "no line ends, only spaces " * 100,
        "漢" * 1000,
    ],
)
def test_the_text_is_unchanged(tmp_path, text):
    corpus = load(write(tmp_path / "a.txt", text))
    parts = [document.text for name in SPLITS for document in corpus.split(name)]
    assert "".join(parts) == text
    assert [len(corpus.split(name)) for name in SPLITS] == [1, 1, 1]
    assert len(parts[0]) == pytest.approx(0.90 * len(text), abs=0.02 * len(text) + 1)
    assert len(parts[1]) == pytest.approx(0.05 * len(text), abs=0.04 * len(text) + 1)


def test_one_file_is_cut_at_line_ends(tmp_path):
    corpus = load(write(tmp_path / "a.txt", LINES))
    assert all(corpus.split(name)[0].text.endswith("\n") for name in SPLITS)
    assert "cut by position" in corpus.note


def test_names_and_folders_do_not_enter_the_hash(tmp_path):
    first = load(write(tmp_path / "a.txt", LINES))
    assert first.hash == load(write(tmp_path / "other" / "[b]*.txt", LINES)).hash
    assert first.hash != load(write(tmp_path / "a.txt", LINES + "x")).hash


def test_several_files_are_split_by_document(tmp_path):
    files = [write(tmp_path / f"{i}.txt", f"text {i}\n") for i in range(100)]
    corpus = load(*files)
    assert {name: len(corpus.split(name)) for name in SPLITS} == {"train": 83, "val": 10, "test": 7}
    assert "split by the sha256" in corpus.note


def test_few_files_are_cut_by_position(tmp_path):
    files = [write(tmp_path / f"{i}.txt", f"file {i}\n" + LINES) for i in range(2)]
    corpus = load(*files)
    assert [len(corpus.split(name)) for name in SPLITS] == [2, 2, 2]
    assert "2 files (too few to split by document)" in corpus.note


def test_two_files_of_one_name_are_kept_apart(tmp_path):
    corpus = load(write(tmp_path / "1" / "a.txt", LINES), write(tmp_path / "2" / "a.txt", LINES + "b\n"))
    assert [document.id for document in corpus.train] == ["a.txt/train", "a.txt (2)/train"]


def test_paths_from_the_current_directory_and_home(tmp_path, monkeypatch):
    write(tmp_path / "a.txt", LINES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load("a.txt").hash == load("~/a.txt").hash


def error(*files: Path | str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(*files)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_no_file():
    assert error() == "file is not set: give a path, as in data.file=book.txt"


def test_missing_file():
    assert error("nowhere.txt") == "file 'nowhere.txt' does not exist"


def test_folder(tmp_path):
    assert error(tmp_path) == f"file '{tmp_path}' is a folder, not a text file"


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("/dev/zero", "is not a regular file"),
        ("~no-such-user/a.txt", "cannot be read: Could not determine home directory."),
        ("x" * 300, "cannot be read: File name too long"),
        (f"{__file__}/a.txt", "does not exist"),
    ],
)
def test_names_that_are_no_text_file(name, what):
    assert error(name) == f"file '{name}' {what}"


def test_given_twice(tmp_path):
    path = write(tmp_path / "a.txt", LINES)
    assert "is given twice" in error(path, tmp_path / "." / "a.txt")


def test_no_permission(tmp_path, monkeypatch):
    path = write(tmp_path / "a.txt", LINES)

    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert error(path) == f"file '{path}' cannot be read: Permission denied"


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "is empty"),
        (b" \n\t\r\n", "holds nothing but white space"),
        ("\u3000\n".encode(), "holds nothing but white space"),
        (b"abc\0def", "is not a text file: NUL at byte 3"),
        (b"caf\xe9 noir", "is not UTF-8 text: 0xe9 at byte 3; convert it to UTF-8"),
        (b"tiny", "is too short to cut into train, val and test: 4 characters"),
        (b"x" * 100 + b"\n" * 100, "is too short to cut into train, val and test: 200 characters"),
    ],
)
def test_unusable_content(tmp_path, data, what):
    path = write(tmp_path / "a.txt", data)
    assert error(path) == f"file '{path}' {what}"
