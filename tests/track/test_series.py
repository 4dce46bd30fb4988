"""What trackers are told of a run beside its steps."""

import json

from lab.track._series import flat, spike_rows


def test_spikes_with_their_step_and_value(tmp_path):
    lines = [
        {"step": n, "loss": 5 + 0.01 * (n % 7), "grad_norm": 1 + 0.01 * (n % 5), "lr": 0.1} for n in range(1, 81)
    ]
    lines[59]["loss"], lines[69]["grad_norm"], lines[74]["loss"] = 9.0, 50.0, None
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    name = "local(w=128,k=7)"
    steps = {"loss": {"steps": [60, 75]}, "grad_norm": {"steps": [70]}}
    assert spike_rows(tmp_path, {"spikes": None}) == []
    assert spike_rows(tmp_path, {"spikes": {name: steps}}) == [
        (name, 60, "loss", 9.0, 0.1),
        (name, 70, "grad_norm", 50.0, 0.1),
        (name, 75, "loss", None, 0.1),
    ]


def test_outcomes_by_their_path():
    result = {
        "id": "a",
        "config": {"x": 1},
        "status": "done",
        "spikes": {"d": {"loss": {"score": 0.5}}},
        "reason": None,
    }
    assert dict(flat(result)) == {"status": "done", "spikes/d/loss/score": 0.5}
