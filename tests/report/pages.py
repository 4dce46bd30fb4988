"""Invented pages of reports."""

import json

import numpy as np

from lab.report.grid import Column, Grid
from lab.report.page.build import Page
from lab.report.variants import Variant
from report.records import record

HOSTILE = "%{x}</script><script>alert(1)</script>`${alert(2)}`\u2028\"'&lt;<!--<img src=x onerror=alert(3)>"
"""Of a name: everything that could end an element, an attribute, a string or a template."""


def folder_of(path, *, seed=0, steps=200, spike=150):
    path.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    lines = []
    for step in range(1, steps + 1):
        loss = 4 - step / 100 + rng.normal(0, 0.01) + (3.0 if step == spike else 0.0)
        line = {"step": step, "loss": loss, "grad_norm": float(np.exp(rng.normal(0, 0.1))), "lr": 1e-3}
        lines.append(json.dumps(line))
    (path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    return path


def page_of(tmp_path, names=("relu", HOSTILE), seeds=2, steps=200):
    variants, folders = [], {}
    for v, name in enumerate(names):
        records = []
        for seed in range(seeds):
            run = f"r{v}-{seed}" + (HOSTILE if name == HOSTILE else "")
            folders[run] = folder_of(tmp_path / f"{v}-{seed}", seed=10 * v + seed, steps=steps)
            records.append(record(run, seed=seed, spikes={}, activation__name=name))
        variants.append(Variant(name, {}, tuple(records)))
    grid = Grid(
        title="Losses",
        columns=[Column(header="variant", left=True), Column(header="final\nloss")],
        rows=[[name, "3.2"] for name in names],
    )
    return Page(
        title=f"study {HOSTILE}",
        question=f"Does it & why? {HOSTILE}",
        declared={"seeds": {"report": [0, 1]}, "match": "params"},
        variants=variants,
        grids=[grid],
        folders=folders,
    )
