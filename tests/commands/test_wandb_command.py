"""`lab wandb` from the command line, without a network."""

import json
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec

import pytest

from lab import cli
from lab.commands import wandb as command
from lab.study.cell import Cell
from lab.study.manifest import Entry, Manifest


@pytest.fixture(autouse=True)
def no_key(monkeypatch, tmp_path):
    for name in ("WANDB_API_KEY", "WANDB_BASE_URL", "WANDB_MODE", "WANDB_ENTITY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "no.netrc"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAB_OUTPUTS", str(tmp_path / "outputs"))


@pytest.fixture
def say(capsys):
    def call(*argv):
        status = cli._run(["wandb", *map(str, argv)])
        output = capsys.readouterr()
        return status, output.out, output.err

    return call


@pytest.fixture
def segments(tmp_path):
    """Two runs of three and of two segments, one of which is uploaded; what is not, in order."""
    wanted = []
    for run, numbers in (("aaaaaaaaaaaa", (1, 2, 3)), ("bbbbbbbbbbbb", (1, 2))):
        folder = tmp_path / "outputs" / "runs" / run
        for number in numbers:
            segment = folder / "wandb" / f"offline-run-20260101_00000{number}-{run}"
            segment.mkdir(parents=True)
            (segment / f"run-{run}.wandb").touch()
            wanted.append(segment)
        (folder / "wandb" / "latest-run").symlink_to(segment)
        (folder / "result.json").write_text("{}")
    (wanted.pop(3) / "run-bbbbbbbbbbbb.wandb.synced").touch()
    return wanted


@pytest.fixture
def server(monkeypatch):
    """A key, and a server that answers; what is asked of wandb's own command."""
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    monkeypatch.setattr("lab.track.wandb.answers", lambda url: True)
    calls = []

    def run(words, **options):
        from pathlib import Path
        from subprocess import CompletedProcess

        calls.append(words)
        if "bbbbbbbbbbbb" in words[-1]:
            return CompletedProcess(words, 1, "", "first\nno room\n")
        for segment in map(Path, words[5:]):
            (segment / "run.wandb.synced").touch()
        return CompletedProcess(words, 0, "", "")

    monkeypatch.setattr(command.subprocess, "run", run)
    return calls


def study(*runs):
    entries = tuple(Entry(run, "variants", Cell("relu", ("activation=relu",))) for run in runs)
    Manifest("norms", "12345678", (), None, "2026-01-01T00:00:00+00:00", len(runs), entries).write()


def test_nothing_to_upload(say):
    assert say("sync") == (0, "nothing to upload\n", "")


def test_dry_run_lists_in_order(say, segments):
    status, out, _ = say("sync", "--dry-run")
    assert status == 0
    assert out.splitlines() == [*map(str, segments), "nothing was uploaded: --dry-run"]


def test_one_line_without_a_key_and_without_a_server(say, segments, monkeypatch):
    said = "lab wandb: nothing was uploaded: there is no key; `wandb login`, or set WANDB_API_KEY\n"
    assert say("sync") == (1, "", said)
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{closed.getsockname()[1]}"
        monkeypatch.setenv("WANDB_BASE_URL", f"http://{place}")
        assert say("sync") == (1, "", f"lab wandb: nothing was uploaded: {place} does not answer\n")
    assert say("sync", "nowhere") == (1, "", "lab wandb: nowhere: no such file or folder\n")


def test_each_run_goes_in_one_call_and_a_failure_is_told(say, segments, server):
    status, out, _ = say("sync")
    assert status == 1
    own = [sys.executable, "-m", "wandb", "sync", "--yes"]
    assert server == [[*own, *map(str, segments[:3])], [*own, str(segments[3])]]
    assert out.splitlines() == [
        "1/2  aaaaaaaaaaaa  3 segments  uploaded",
        "2/2  bbbbbbbbbbbb  1 segment  failed: no room",
    ]
    study("aaaaaaaaaaaa")
    assert say("sync", "norms") == (0, "nothing to upload\n", "")


@pytest.mark.skipif(find_spec("wandb_workspaces") is None, reason="an extra")
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # wandb-workspaces itself
def test_a_dashboard_is_described_in_a_file(say, tmp_path):
    study("aaaaaaaaaaaa")
    status, out, err = say("dashboard", "norms", "-o", "board.json")
    assert (status, out, err) == (0, "not saved (as -o asks); its description is in board.json\n", "")
    text = (tmp_path / "board.json").read_text()
    assert json.loads(text)
    for part in ('"norms-12345678"', '"jobType"', '"loss"', '"grad_norm"', "spike_steps", '"final_loss"'):
        assert part in text, part
    status, out, _ = say("dashboard")
    assert status == 0
    assert out.startswith("not saved (there is no key")
    assert json.loads((tmp_path / "wandb-workspace.json").read_text())


def test_an_extra_that_is_missing_is_named(say, monkeypatch):
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    line = "lab wandb: lab wandb dashboard needs wandb-workspaces: pip install 'ablation-lab[dashboard]'\n"
    assert say("dashboard") == (1, "", line)


@pytest.mark.skipif(find_spec("wandb_workspaces") is None, reason="an extra")
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # wandb-workspaces itself
def test_the_tables_of_a_study_lie_offline_until_they_are_sent(say, tmp_path):
    for run, loss in (("aaaaaaaaaaaa", 3.0), ("bbbbbbbbbbbb", 3.5)):
        folder = tmp_path / "outputs" / "runs" / run
        folder.mkdir(parents=True)
        result = {"schema": 1, "id": run, "status": "done", "config": {"seed": 1, "norm": {"name": run[0]}}}
        (folder / "result.json").write_text(json.dumps({**result, "final_loss": loss}))
    study("aaaaaaaaaaaa", "bbbbbbbbbbbb")
    status, out, err = say("dashboard", "norms")
    assert (status, err) == (0, "")
    place = tmp_path / "outputs" / "studies" / "norms-12345678" / "wandb"
    first, second = out.splitlines()
    assert first == f"tables A and B are in {place}; `lab wandb sync norms` uploads them"
    assert second.startswith("not saved (there is no key")
    (segment,) = place.glob("offline-run-*-norms-12345678-tables")
    found = {
        path.name[: len("table_A")]: json.loads(path.read_text())
        for path in segment.glob("files/media/table/*.json")
    }
    assert {name: made["columns"][0] for name, made in found.items()} == {
        "table_A": "variant",
        "table_B": "variant",
    }
    losses = [row[found["table_A"]["columns"].index("final loss")] for row in found["table_A"]["data"]]
    assert losses == ["3.0000", "3.5000"]
    assert '"table_B"' in (tmp_path / "wandb-workspace.json").read_text()
    for asked in (["norms"], []):
        assert str(segment) in say("sync", "--dry-run", *asked)[1]


class Unable(BaseHTTPRequestHandler):
    """A server that is there and knows nothing of W&B."""

    def do_GET(self):
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_GET

    def log_message(self, *words):
        pass


@pytest.mark.skipif(find_spec("wandb_workspaces") is None, reason="an extra")
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # wandb-workspaces itself
def test_a_dashboard_that_a_server_refuses_is_described_too(say, tmp_path, monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Unable)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{server.server_port}")
    study("aaaaaaaaaaaa")
    status, out, _ = say("dashboard", "norms")
    server.shutdown()
    server.server_close()
    assert status == 0
    assert out.count("\n") == 1
    assert out.startswith("not saved (the server refused: ")
    assert '"norms-12345678"' in (tmp_path / "wandb-workspace.json").read_text()
