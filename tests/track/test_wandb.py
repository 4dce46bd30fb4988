"""W&B without a network: what lies on disk, servers that are dead or mute, runs in several segments."""

import gzip
import json
import re
import socket
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lab import choices
from lab.track.wandb import answers, has_key
from lab.training import loop

KEY = "0123456789abcdef" * 2 + "01234567"


def records(file):
    """The records of a ``.wandb`` file: a header of seven bytes, then LevelDB's log of 32 KiB blocks."""
    from wandb.proto.wandb_internal_pb2 import Record

    data = file.read_bytes()
    assert data[:4] == b":W&B"
    at, whole = 7, b""
    while at + 7 <= len(data):
        room = -at % 32768 or 32768
        if room < 7:  # too little for a header: filled up
            at += room
            continue
        size, kind = struct.unpack_from("<HB", data, at + 4)
        whole += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            record = Record()
            record.ParseFromString(whole)
            yield record
            whole = b""


def segments(folder):
    return sorted((p for p in folder.glob("wandb/offline-run-*/*.wandb")), key=lambda p: p.stat().st_mtime_ns)


def history(file):
    for record in records(file):
        if record.WhichOneof("record_type") == "history":
            items = {item.key or ".".join(item.nested_key): item.value_json for item in record.history.item}
            yield {key: json.loads(text) for key, text in items.items()}


def metrics(file):
    return [
        {"step": line["_step"], **{key: value for key, value in line.items() if not key.startswith("_")}}
        for line in history(file)
    ]


def run_record(file):
    return next(r.run for r in records(file) if r.WhichOneof("record_type") == "run")


def summary(file):
    found = {}
    for record in records(file):
        if record.WhichOneof("record_type") == "summary":
            for item in record.summary.update:
                found[item.key or "/".join(item.nested_key)] = json.loads(item.value_json)
    return found


def lines_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def assert_no_key(outputs):
    """Nothing in the whole outputs folder holds the key."""
    files = [path for path in outputs.rglob("*") if path.is_file()]
    assert any(path.suffix == ".wandb" for path in files)
    for path in files:
        assert KEY.encode() not in path.read_bytes(), path


@pytest.mark.slow
def test_the_offline_file_holds_what_the_run_folder_holds(train, config, caplog):
    trained = train("track=wandb", "norm=layernorm", "train.eval_every=10")
    (file,) = segments(trained.folder)
    assert metrics(file) == lines_of(trained.folder)
    run = run_record(file)
    assert (run.run_id, run.project, run.run_group) == (trained.folder.name, "lab", "")
    assert "norm=layernorm" in list(run.tags)
    assert "norm=layernorm" in run.display_name
    assert run.display_name.endswith("seed=1")
    sent = {item.key: json.loads(item.value_json) for item in run.config.update}
    assert sent["norm"] == trained.result["config"]["norm"]
    found = summary(file)
    assert found["final_loss"] == trained.result["final_loss"]
    assert found["status"] == "done"
    assert found["spikes/local(w=128,k=7)/loss/spikes"] == 0
    assert found["spike_steps"]["ncols"] == 5
    assert trained.folder.name == train("norm=layernorm", "train.eval_every=10").folder.name


@pytest.mark.slow
def test_three_segments_hold_every_step_once(train, kill_at, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    import wandb

    for step in (8, 13):
        kill_at(step, "track=wandb", "track.mode=offline")
        wandb.teardown()
        time.sleep(1.1)  # folders are named by the second
    trained = train("track=wandb", "track.mode=offline")
    files = segments(trained.folder)
    assert len(files) == 3
    told = [line for file in files for line in metrics(file)]
    assert told == lines_of(trained.folder)
    assert {run_record(file).run_id for file in files} == {trained.folder.name}
    assert_no_key(trained.folder.parents[1])


@pytest.mark.slow
def test_a_run_that_was_begun_without_is_told_whole(train, kill_at):
    kill_at(8)
    trained = train("track=wandb")
    (file,) = segments(trained.folder)
    assert metrics(file) == lines_of(trained.folder)


@pytest.fixture(params=["closed", "mute"])
def dead_server(request):
    """An address where nobody listens, and one where a server takes connections and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if request.param == "mute":
            server.listen(64)
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_who_does_not_answer_is_not_waited_for(dead_server, monkeypatch):
    monkeypatch.setattr("lab.track.wandb.PROBE_S", 0.1)
    begun = time.monotonic()
    assert not answers(dead_server)
    assert time.monotonic() - begun < 1


def test_a_key_is_found_where_wandb_finds_it(monkeypatch, tmp_path):
    assert not has_key()
    (tmp_path / "no.netrc").write_text(f"machine api.wandb.ai\n  login user\n  password {KEY}\n")
    assert has_key()
    monkeypatch.setenv("WANDB_BASE_URL", "http://other")
    assert not has_key()
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    assert has_key()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "online"])
def test_a_dead_server_costs_seconds_and_no_run(train, dead_server, monkeypatch, mode):
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("WANDB_BASE_URL", dead_server)
    begun = time.monotonic()
    trained = train("track=wandb", f"track.mode={mode}")
    took = time.monotonic() - begun
    print(f"{mode} {dead_server}: {took:.1f} s")
    assert took < 20
    assert trained.result["status"] == "done"
    assert metrics(segments(trained.folder)[-1]) == lines_of(trained.folder)
    assert_no_key(trained.folder.parents[1])


class Dying(ThreadingHTTPServer):
    """Answers as W&B does until told to die; then it refuses, or takes requests and says nothing."""

    daemon_threads = True

    def __init__(self, how):
        self.how, self.dead, self.asked, self.late = how, threading.Event(), [], 0
        super().__init__(("127.0.0.1", 0), Answers)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def die(self):
        self.dead.set()
        if self.how == "refuses":
            self.socket.close()


class Answers(BaseHTTPRequestHandler):
    """The few answers without which wandb does not begin a run."""

    def do_GET(self):
        self.reply({})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        query = json.loads(body or b"{}").get("query", "") if self.path.startswith("/graphql") else ""
        name = next(iter(re.findall(r"(?:query|mutation)\s+(\w+)", query)), self.path)
        self.server.asked.append(name)
        self.reply({"data": data_of(name)} if query else {})

    def reply(self, value):
        if self.server.dead.is_set():
            self.server.late += 1
            time.sleep(60)
            return
        said = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *words):
        pass


def data_of(name):
    project = {"id": "p", "name": "lab", "entity": {"id": "e", "name": "me"}}
    bucket = {
        "id": "b",
        "name": "r",
        "displayName": "r",
        "description": None,
        "config": "{}",
        "historyLineCount": 0,
    }
    return {
        "UpsertBucket": {"upsertBucket": {"bucket": {**bucket, "project": project}, "inserted": True}},
        "Viewer": {"viewer": {"id": "u", "entity": "me", "username": "me", "flags": "{}", "teams": {"edges": []}}},
        "ServerInfo": {"serverInfo": {"cliVersionInfo": {}, "latestLocalVersionInfo": None}},
    }.get(name, {})


@pytest.mark.slow
@pytest.mark.parametrize("how", ["refuses", "hangs"])
def test_a_server_that_dies_meanwhile_costs_seconds_and_no_run(train, monkeypatch, how):
    import wandb

    wandb.teardown()  # it would hold the run of another test
    train("seed=9")  # what is imported the first time is no cost of the server
    server = Dying(how)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("WANDB_BASE_URL", server.url)
    real = loop.train_step

    def train_step(config, state, batches, ranks):
        if state.step == 10:
            server.die()
        return real(config, state, batches, ranks)

    monkeypatch.setattr(loop, "train_step", train_step)
    begun = time.monotonic()
    trained = train("track=wandb")
    took = time.monotonic() - begun
    print(f"{how}: {took:.1f} s; asked {server.asked}")
    assert took < 20
    assert trained.result["status"] == "done"
    assert "UpsertBucket" in server.asked  # it was online before
    wandb.teardown()  # as at the end of the process: then the file is whole
    (file,) = trained.folder.glob("wandb/run-*/*.wandb")
    assert metrics(file) == lines_of(trained.folder)
    assert_no_key(trained.folder.parents[1])


@pytest.mark.slow
def test_disabled_leaves_nothing(train):
    assert not list(train("track=wandb", "track.mode=disabled").folder.glob("wandb/*run-*"))


def test_the_study_is_found(tmp_path, monkeypatch):
    from lab.track._place import place

    monkeypatch.setenv("LAB_OUTPUTS", str(tmp_path))
    folder = tmp_path / "studies" / "norms-12345678"
    folder.mkdir(parents=True)
    cell = {"arm": "layernorm", "overrides": ["norm=layernorm", "seed=2"]}
    (folder / "study.json").write_text(json.dumps({"asked": "2026", "runs": [{"id": "a", "cell": cell}]}))
    (tmp_path / "studies" / "torn-1").mkdir()
    (tmp_path / "studies" / "torn-1" / "study.json").write_text("{")
    found = place("a", {})
    assert (found.study, found.variant, found.overrides) == (folder.name, "layernorm", tuple(cell["overrides"]))
    assert found.title(2) == "layernorm seed=2"
    assert place("b", {"norm": {"name": "rmsnorm"}, "seed": 1}).title(1) == "default seed=1"


def test_it_is_a_choice():
    assert {"wandb", "tensorboard"} <= set(choices.names("track"))
