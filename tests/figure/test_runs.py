"""Figures of runs hold the numbers of the runs."""

import io
import json
import math
from argparse import Namespace

import numpy as np
import pytest

from lab.errors import LabError
from lab.figure import Run, _curves, _style, effects, gradnorm, layers, loss, lr, spikes
from lab.figure._style import context
from lab.report.comparison import compare
from lab.report.variants import variants

STEPS = 80
RATES = {"rmsnorm": 0.0, "layernorm": 0.3}


def series(name: str, seed: int) -> list[dict[str, float]]:
    noise = np.random.default_rng(seed + 10 * len(name)).normal(size=(STEPS, 2))
    lines = [
        {"step": t + 1, "loss": 5 - 0.02 * t + RATES[name] + 0.01 * a, "grad_norm": math.exp(0.1 * b), "lr": 1e-3}
        for t, (a, b) in enumerate(noise)
    ]
    lines[60]["loss"] += 2.0
    lines[70]["grad_norm"] *= 50
    lines[-1]["val_loss"] = lines[-1]["loss"] + 0.1
    return lines


def run(folder, name, seed, *, rate=1e-3, status="done"):
    record = {
        "id": f"{name}{seed}{rate}",
        "schema": 1,
        "status": status,
        "config": {"norm": {"name": name}, "optim": {"name": "adamw", "lr": rate}, "seed": seed},
        "final_loss": None if status == "diverged" else 4 + RATES[name] + 0.01 * seed * (1 + RATES[name]) + rate,
    }
    path = folder / "runs" / record["id"]
    path.mkdir(parents=True)
    (path / "result.json").write_text(json.dumps(record))
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in series(name, seed)))
    return Run(record, path)


@pytest.fixture
def runs(tmp_path):
    return [run(tmp_path, name, seed) for name in RATES for seed in (1, 2, 3)]


def drawn(kind, runs, **options):
    with context("paper"):
        options = {"style": "paper", "in_order": False, "smooth": 1, "first": 0} | options
        figure = kind.draw(Namespace(runs=runs, **options))
        figure.draw_without_rendering()
        figure.savefig(io.BytesIO(), format="png")
    return figure


def lines(figure, gid):
    every = [line for axes in figure.axes for line in axes.get_lines()]
    return [line for line in every if str(line.get_gid()).startswith(gid)]


@pytest.mark.parametrize(("kind", "key"), [(loss, "loss"), (gradnorm, "grad_norm")])
def test_curves_are_the_metrics(runs, kind, key):
    figure = drawn(kind, runs)
    layernorm = [[line[key] for line in series("layernorm", seed)] for seed in (1, 2, 3)]
    for line, values in zip(lines(figure, "seed 0"), layernorm, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), values)
    mean, other = lines(figure, "mean")
    np.testing.assert_allclose(mean.get_ydata(), np.mean(layernorm, axis=0), rtol=1e-14)
    assert mean.get_linewidth() > 2 * lines(figure, "seed 0")[0].get_linewidth()
    assert mean.get_color() != other.get_color()
    assert mean.get_linestyle() != other.get_linestyle() or mean._dash_pattern != other._dash_pattern
    flagged = {float(x) for line in lines(figure, "spikes") for x in line.get_xdata()}
    assert flagged == {61.0 if key == "loss" else 71.0}


def test_held_out_losses_are_points(runs):
    (first, _) = lines(drawn(loss, runs), "held out")
    ends = [series("layernorm", seed)[-1]["val_loss"] for seed in (1, 2, 3)]
    assert first.get_xdata().tolist() == [STEPS]
    np.testing.assert_allclose(first.get_ydata(), [np.mean(ends)], rtol=1e-14)


def test_smoothing_is_said(runs):
    figure = drawn(loss, runs, smooth=5)
    values = np.array([line["loss"] for line in series("layernorm", 1)])
    smooth = lines(figure, "seed 0")[0].get_ydata()
    np.testing.assert_allclose(smooth[10], values[6:11].mean(), rtol=1e-12)
    np.testing.assert_allclose(smooth[1], values[:2].mean(), rtol=1e-12)
    assert "mean of 5 steps" in figure.axes[0].get_ylabel()
    with pytest.raises(LabError, match="--smooth 0"):
        drawn(loss, runs, smooth=0)


def test_curves_may_begin_late(runs):
    figure = drawn(loss, runs, first=65)
    for line in (*lines(figure, "seed"), *lines(figure, "mean")):
        assert line.get_xdata().tolist() == list(range(65, STEPS + 1))
    assert not lines(figure, "spikes")
    with pytest.raises(LabError, match="from step 99 on"):
        drawn(loss, runs, first=99)


@pytest.mark.slow
@pytest.mark.parametrize("style", _style.STYLES)
def test_a_legend_takes_the_columns_that_fit(style):
    with context(style):
        for words, columns in (("gelu", 4), ("baseline_again (n = 5)", 2), (" ".join(["norm.eps=1e-05"] * 3), 1)):
            figure = _style.new_figure(style)
            (handle,) = figure.add_subplot().plot([0, 1])
            _style.legend_below(figure, [handle] * 7, [words] * 7)
            figure.draw_without_rendering()
            (legend,) = figure.legends
            box = legend.get_window_extent()
            assert (legend._ncols, box.width <= figure.bbox.width) == (columns, True)


def test_an_unfinished_seed_does_not_cut_the_mean_short(runs, tmp_path):
    stopped = run(tmp_path, "layernorm", 9, status="diverged")
    text = (stopped.folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (stopped.folder / "metrics.jsonl").write_text("".join(text[:10]))
    figure = drawn(loss, [*runs, stopped])
    assert len(lines(figure, "mean 0")[0].get_xdata()) == STEPS
    assert any("1 diverged" in text.get_text() for text in figure.legends[0].get_texts())


def test_spikes_lie_where_they_are(runs):
    figure = drawn(spikes, runs)
    assert {x for line in lines(figure, "loss") for x in line.get_xdata()} == {61}
    assert {x for line in lines(figure, "grad_norm") for x in line.get_xdata()} == {71}
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert sum(text.startswith("3, 3 / ") for text in texts) == 2


def test_learning_rates_make_no_variants(tmp_path):
    runs = [run(tmp_path, name, seed, rate=rate) for name in RATES for seed in (1, 2) for rate in (1e-3, 1e-2)]
    runs += [run(tmp_path, "rmsnorm", seed, rate=0.1, status="diverged") for seed in (1, 2)]
    figure = drawn(lr, runs)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["norm=layernorm", "norm=rmsnorm"]
    mean = lines(figure, "mean 1")[0]
    assert list(mean.get_xdata()) == [1e-3, 1e-2]
    np.testing.assert_allclose(mean.get_ydata(), [4.016, 4.025], rtol=1e-12)
    assert len(lines(figure, "seeds 1")[0].get_xdata()) == 4
    assert [list(line.get_xdata()) for line in lines(figure, "diverged 1")] == [[0.1]]
    assert "2/2" in [text.get_text() for text in figure.axes[0].texts]
    assert figure.axes[1].get_xlabel()  # the strip stands above


def test_effects_are_the_tables(runs):
    found = compare(variants([run.record for run in runs]))
    figure = drawn(effects, runs, comparison=found)
    (row,) = found.effects.rows
    assert sorted(lines(figure, "seeds 0")[0].get_xdata()) == sorted(row.differences.values())
    assert list(lines(figure, "interval 0")[0].get_xdata()) == list(row.contrast.family_interval)
    assert list(lines(figure, "mean 0")[0].get_xdata()) == [row.contrast.mean]
    assert any((row.verdict or "no verdict")[:10] in text.get_text() for text in figure.axes[0].texts)
    with pytest.raises(LabError, match="nothing to compare"):
        drawn(effects, runs, comparison=compare(variants([runs[0].record])))


def test_no_metrics_is_said(runs):
    for one in runs:
        (one.folder / "metrics.jsonl").unlink()
    for kind in (loss, gradnorm, spikes):
        with pytest.raises(LabError, match=r"metrics\.jsonl"):
            drawn(kind, runs)


def test_looks_differ():
    looks = [_style.look(number) for number in range(_style.MOST)]
    assert len({(look.colour, str(look.line)) for look in looks}) == _style.MOST


def test_long_labels_are_broken_and_cut():
    found = _style.shortened(" ".join(["norm.eps=1e-05"] * 20), width=40)
    assert len(found.splitlines()) == 2
    assert all(len(line) <= 40 for line in found.splitlines())
    assert found.endswith("\N{HORIZONTAL ELLIPSIS}")


def test_a_mean_needs_common_steps():
    one, two = (_curves.Curve(np.array([1.0, 2.0]) + k, np.array([4.0, 6.0])) for k in (0, 1))
    assert _curves.mean([one, two]).values.tolist() == [5.0]


@pytest.mark.slow
def test_layers_are_the_gradient_of_the_mean_loss(tmp_path, monkeypatch):
    from lab.compose import compose_config
    from lab.figure import Choice
    from lab.training.loop import backward
    from lab.training.plan import plan
    from lab.training.state import new_state

    words = [
        "model=tiny",
        "device=cpu",
        "precision=fp32",
        "threads=1",
        "train.batch_size=2",
        "model.max_seq_len=16",
    ]
    config = compose_config(words)
    planned = plan(config)
    sums: dict[str, object] = {}
    for step in (0, 1):
        state = new_state(planned.config, planned.architecture)
        state.step = step
        backward(planned.config, state, planned.batches)
        for name, parameter in state.model.named_parameters():
            sums[name] = sums.get(name, 0) + parameter.grad / 2
    expected = [
        math.sqrt(sum(float((g**2).sum()) for name, g in sums.items() if name.startswith(f"blocks.{layer}.")))
        for layer in range(planned.architecture.dims.n_layers)
    ]
    figure = drawn(layers, [], choices=[Choice("", config)], batches=2)
    np.testing.assert_allclose(figure.axes[0].get_lines()[0].get_ydata(), expected, rtol=1e-5)
