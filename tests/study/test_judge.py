"""What a study says between its stages, and when it does not go on."""

import pytest

from lab.errors import LabError
from lab.study.cell import Cell, Stage
from lab.study.judge import Judge
from lab.study.settings import SweepSettings
from study.written import study


def judge(*, answer=False, accept=False, tier=None, **changes):
    asked = []
    seen = {"gate": {"min_effect": 0.1}} | changes
    settings = SweepSettings(tier=tier, accept_mde=accept, on_error="continue")
    made = Judge(study(**seen).at(tier), settings, asks=lambda text: asked.append(text) or answer)
    return made, asked


def baseline(*losses):
    cells = [Cell("layernorm", (f"seed={n}",), seed=n) for n in range(len(losses))]
    results = dict(zip(cells, ({"status": "done", "final_loss": loss} for loss in losses), strict=True))
    return Stage("baseline", tuple(cells)), results


def test_a_study_that_sees_enough_goes_on(caplog):
    made, asked = judge()
    with caplog.at_level("INFO", logger="lab"):
        made.after(*baseline(4.0, 4.001, 4.002))
    assert not asked
    assert "within study.gate.min_effect 0.1" in caplog.text


def test_one_that_does_not_stops_in_one_line():
    made, asked = judge()
    with pytest.raises(LabError, match=r"study written: the smallest effect .* accept_mde=true") as error:
        made.after(*baseline(4.0, 4.2, 4.4))
    assert "\n" not in str(error.value)
    assert len(asked) == 1


@pytest.mark.parametrize("options", [{"answer": True}, {"accept": True}, {"tier": "smoke"}])
def test_unless_somebody_wants_it_or_it_is_a_smoke_test(options):
    made, asked = judge(**options)
    made.after(*baseline(4.0, 4.2, 4.4))
    assert len(asked) == ("answer" in options)


def test_a_declared_scatter_is_judged_before_anything_is_trained():
    made, _ = judge(gate={"min_effect": 0.001, "sd": 0.5})
    with pytest.raises(LabError, match="declared"):
        made.before()
    judge()[0].before()


def test_other_stages_are_not_gated():
    made, asked = judge()
    _, results = baseline(4.0, 4.2, 4.4)
    made.after(Stage("variants", tuple(results)), results)
    assert not asked


def test_the_rates_that_were_picked(caplog):
    made, _ = judge()
    losses = {0.001: 4.2, 0.002: 4.1, 0.004: None}
    cells = {rate: Cell("layernorm", (f"optim.lr={rate}",), "tune", 7, rate) for rate in losses}
    results = {
        cells[rate]: {"status": "diverged" if loss is None else "done", "final_loss": loss}
        for rate, loss in losses.items()
    }
    with caplog.at_level("INFO", logger="lab"):
        made.after(Stage("baseline, tuning", tuple(results)), results)
    assert caplog.messages == ["layernorm: best rate 0.002 of 0.001: 4.2000, 0.002: 4.1000, 0.004: diverged"]
    with caplog.at_level("INFO", logger="lab"):
        made.after(
            Stage("baseline, tuning", (cells[0.004],)), {cells[0.004]: {"status": "done", "final_loss": 4.0}}
        )
    assert "best rate 0.004" in caplog.messages[-1]
    assert caplog.messages[-1].endswith("it is at the edge of what was tried, a better one may lie beyond")
