"""Figures of a run that was trained, from its folder."""

import json
from argparse import Namespace

import numpy as np
import pytest

from lab.figure import Run, attention, layers, span
from lab.figure._style import context
from lab.runs.store import RunFolder

pytestmark = pytest.mark.slow


def drawn(kind, **options):
    with context("paper"):
        figure = kind.draw(Namespace(style="paper", **options))
        figure.draw_without_rendering()
    return figure


def of_runs(kind, *folders, **options):
    runs = [Run(json.loads((folder / "result.json").read_text()), folder) for folder in folders]
    return drawn(kind, runs=runs, in_order=False, **options)


def test_attention_of_a_run_on_a_text(train):
    folder = train("model.n_layers=2", "model.n_heads=2").folder
    figure = drawn(attention, run=RunFolder(folder), text="a tale", layer=None)
    maps = [axes.images[0].get_array() for axes in figure.axes if axes.images]
    assert len(maps) == 4
    for seen in maps:
        assert seen.shape == (6, 6)
        np.testing.assert_allclose(seen.sum(axis=1), 1, rtol=1e-5)
        assert not np.triu(seen, 1).any()
    one = drawn(attention, run=RunFolder(folder), text="a tale", layer=[1])
    np.testing.assert_array_equal(one.axes[0].images[0].get_array(), maps[2])
    assert [label.get_text() for label in one.axes[0].get_xticklabels()] == list("a tale")


def test_span_of_runs_ends_where_their_windows_do(train):
    folders = [train(word).folder for word in ("attn=mha", "attn=sliding_window")]
    figure = of_runs(span, *folders, sequences=2)
    full, short = (np.asarray(line.get_ydata()) for line in figure.axes[0].get_lines() if line.get_gid())
    assert np.isfinite(full).all()
    assert np.isfinite(short).tolist() == [distance < 8 for distance in range(25)]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "attn=mha",
        "attn=sliding_window: (8 − 1) × 1 layers = 7\ntokens",
        "reach of the masks; beyond it exactly 0",
    ]


def test_layers_of_a_run_that_was_matched_are_those_of_its_words(config):
    """The width that was solved for is in the run's configuration, and is not solved for again."""
    from lab.compose import match_target
    from lab.figure import Choice
    from lab.training import run

    given = config("activation=swiglu", "match=params", "match.to=[model=tiny,model.dim=32,model.n_layers=1]")
    folder = run.train(given, match_target(given)).folder
    choice = Choice("", given, match_target(given))
    found = [
        figure.axes[0].get_lines()[0].get_ydata()
        for figure in (
            of_runs(layers, folder, batches=1),
            drawn(layers, runs=[], choices=[choice], batches=1),
        )
    ]
    np.testing.assert_array_equal(*found)
