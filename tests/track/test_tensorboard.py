"""TensorBoard's file read back by its own reader."""

import json

import pytest

pytest.importorskip("tensorboard")


def scalars(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0}).Reload()
    return {name: [(e.step, e.value) for e in events.Scalars(name)] for name in events.Tags()["scalars"]}


@pytest.mark.slow
def test_every_step_once_also_after_a_resume(train, kill_at):
    kill_at(8, "track=tensorboard")
    trained = train("track=tensorboard")
    lines = [json.loads(line) for line in (trained.folder / "metrics.jsonl").read_text().splitlines()]
    found = scalars(trained.folder)
    for name in ("loss", "grad_norm", "lr", "val_loss"):
        wanted = [(line["step"], line[name]) for line in lines if name in line]
        assert [step for step, _ in found[name]] == [step for step, _ in wanted]
        assert [value for _, value in found[name]] == pytest.approx([value for _, value in wanted], rel=1e-6)
    assert found["result/final_loss"] == [(20, pytest.approx(trained.result["final_loss"], rel=1e-6))]
