import json
import math

import pytest

from lab.runs.metrics import JsonLines, column, read_lines


def write(path, *steps, keep_steps=100):
    file = JsonLines(path, keep_steps=keep_steps)
    for step in steps:
        file.append({"step": step, "loss": 1 / step})
    file.close()


def test_lines_are_seen_at_once(tmp_path):
    path = tmp_path / "metrics.jsonl"
    file = JsonLines(path, keep_steps=0)
    assert path.read_text() == ""
    for step in (1, 2):
        file.append({"step": step, "loss": 0.1})
        assert file.n_lines == step
        assert [line["step"] for line in read_lines(path)] == list(range(1, step + 1))
    file.sync()
    file.close()


def test_numbers_survive_exactly(tmp_path):
    path = tmp_path / "metrics.jsonl"
    values = [0.1 + 0.2, 1e-45, 1.7976931348623157e308, 2.0, 5.549076080322266]
    file = JsonLines(path, keep_steps=0)
    for step, value in enumerate(values, 1):
        file.append({"step": step, "loss": value})
    file.close()
    before = path.read_bytes()
    JsonLines(path, keep_steps=100).close()
    assert path.read_bytes() == before
    assert column(read_lines(path), "loss") == values


def test_what_is_not_finite_is_null(tmp_path):
    path = tmp_path / "metrics.jsonl"
    file = JsonLines(path, keep_steps=0)
    for step, value in enumerate((math.nan, math.inf, -math.inf), 1):
        file.append({"step": step, "loss": value})
    file.close()
    lines = [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()]
    assert [line["loss"] for line in lines] == [None] * 3
    assert all(math.isnan(value) for value in column(read_lines(path), "loss"))


def test_a_column_of_some_lines():
    assert column([{"step": 1}, {"step": 2, "val_loss": 3}, {"step": 3}], "val_loss") == [3.0]


@pytest.mark.parametrize("keep", [0, 3, 5, 9])
def test_rewinding(tmp_path, keep):
    path = tmp_path / "metrics.jsonl"
    write(path, *range(1, 6))
    whole = path.read_text().splitlines(keepends=True)
    file = JsonLines(path, keep_steps=keep)
    assert file.n_lines == min(keep, 5)
    file.close()
    assert path.read_text().splitlines(keepends=True) == whole[:keep]
    assert [p.name for p in tmp_path.iterdir()] == ["metrics.jsonl"]


@pytest.mark.parametrize(
    "tail", ['{"step": 6, "lo', "6", "null\n", '{"loss": 1}\n', "\0\0\0\0", "\xff\xfe{", "[6]\n"]
)
def test_a_torn_tail(tmp_path, tail):
    path = tmp_path / "metrics.jsonl"
    write(path, *range(1, 6))
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(tail.encode("latin-1"))
    assert [line["step"] for line in read_lines(path)] == [1, 2, 3, 4, 5]
    write(path, 6)
    assert path.read_bytes() == whole + b'{"step": 6, "loss": 0.16666666666666666}\n'


def test_a_gap_ends_it(tmp_path):
    path = tmp_path / "metrics.jsonl"
    write(path, 1, 2, 4, 5)
    file = JsonLines(path, keep_steps=100)
    assert file.n_lines == 2
    file.close()
    assert [line["step"] for line in read_lines(path)] == [1, 2]
