import json

import pytest

from lab import measure, probe
from lab.commands.probe import main

pytestmark = pytest.mark.slow


def test_what_lab_probe_says(loaded, folder, capsys):
    words = ("model.max_seq_len=96", "train.steps=1")
    found = measure.take("probes", loaded(*words))
    assert main([str(folder(*words).path), "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["probes"]
    assert found == {row["probe"]: row["accuracy"] for row in rows if row["items"]}
    assert found.keys() <= {*probe.names()}
    assert len(found) >= 5
