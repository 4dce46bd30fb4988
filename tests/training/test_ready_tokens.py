"""A run on ready shards of tokens, whose text is not known."""

import json

import numpy as np
import pytest

from lab.commands.eval import main as evaluate
from lab.commands.generate import main as generate
from lab.errors import LabError
from lab.runs.store import RunFolder


@pytest.mark.slow
def test_train_score_and_write(train, tmp_path, capsys, monkeypatch):
    ids = np.random.default_rng(0).integers(0, 40, size=4000).astype("<u2")
    path = tmp_path / "train.bin"
    path.write_bytes(ids.tobytes())
    words = ("data=tokens", f"data.file={path}", "data.vocab_size=40")
    trained = train(*words)
    result = RunFolder(trained.folder).result()
    assert result["status"] == "done"
    assert result["final_loss"] == pytest.approx(np.log(40), abs=0.5)
    assert result["bits_per_byte"] is None
    assert result["config"]["data"]["file"] == ["train.bin"]
    capsys.readouterr()
    assert evaluate([result["id"], "--format", "json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["bits_per_byte"], facts["change"]) == (None, pytest.approx(0, abs=1e-5))
    assert evaluate([result["id"]]) == 0
    assert "bits" not in capsys.readouterr().out
    assert generate([result["id"], "--prompt", "<3> <17>", "--tokens", "5", "--no-stop"]) == 0
    assert capsys.readouterr().out.startswith("<3> <17>")
    with pytest.raises(LabError, match="reads nothing but numbers"):
        generate([result["id"], "--prompt", "Once"])
