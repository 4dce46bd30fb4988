"""docs/studies.md shows studies that are right, and describes every key."""

import dataclasses
import re
from pathlib import Path

from omegaconf import OmegaConf

from lab.study.design import arms, count
from lab.study.file import SECTIONS, decode
from lab.study.sections import DESIGNS, Gate, Lr, LrMode, Matching, Metric, Plain, Seeds, Stats, Tier

PAGE = (Path(__file__).parents[2] / "docs/studies.md").read_text(encoding="utf-8")


def test_its_studies_decode_and_expand_as_it_says():
    star, grid = (
        decode(OmegaConf.create(block)["study"], "docs") for block in re.findall(r"```yaml\n(.+?)```", PAGE, re.S)
    )
    assert count(star) == 3 * (5 + 3)
    assert [arm.overrides for arm in arms(grid)] == [
        ("attn=mha",),
        ("attn=gqa", "attn.n_kv_heads=1"),
        ("attn=gqa", "attn.n_kv_heads=2"),
    ]


def test_every_key_and_choice_is_described():
    keys = [
        field.name
        for part in (Plain, Gate, Stats, Tier)
        for field in dataclasses.fields(part)
        if field.name != "name"
    ]
    keys += [
        f"{name}.{field.name}"
        for name, part in (("seeds", Seeds), ("lr", Lr))
        for field in dataclasses.fields(part)
    ]
    sections = [name for name in SECTIONS if name not in ("seeds", "lr")]
    for word in (*keys, *sections, *DESIGNS, *LrMode, *Matching, *Metric):
        assert f"`{word}`" in PAGE, word
