import json
import math
import statistics
from dataclasses import asdict

import pytest

from lab.report.rows import rows
from lab.report.variants import natural, variants
from report.records import LAYERNORM, LOCAL, record, study


def labels(*records):
    return [variant.label for variant in variants(records)]


def test_seeds_are_folded():
    (row,) = rows([record(f"r{seed}", seed=seed, loss=3 + seed / 10) for seed in (3, 1, 2)])
    assert (row.n, row.asked, row.done) == (3, 3, 3)
    assert row.seeds == [1, 2, 3]
    assert row.runs == ["r1", "r2", "r3"]
    assert row.finals == [3.1, 3.2, 3.3]
    assert row.final_loss == pytest.approx(3.2)
    assert row.final_loss_sd == pytest.approx(statistics.stdev([3.1, 3.2, 3.3]))
    assert (row.spikes_loss, row.spikes_grad_norm, row.spikes_grad_norm_counted) == (0, 6, 3 * 568)
    assert row.spikes_definition == LOCAL


def test_one_variant_is_described_in_words():
    assert labels(record("a")) == ["rmsnorm pre swiglu gqa rope"]
    steady = {"z_loss": {"name": "z_loss"}, "qk_norm": {"name": "qk_norm"}}
    assert labels(record("a", stability=steady)) == ["rmsnorm pre swiglu gqa rope qk_norm z_loss"]


def test_defaults_of_other_choices_do_not_show():
    assert labels(record("a"), record("b", norm=LAYERNORM)) == ["norm=layernorm", "norm=rmsnorm"]


def test_keys_show_among_variants_of_one_choice_only():
    found = labels(record("a"), record("b", norm__eps=1e-5), record("c", norm=LAYERNORM))
    assert found == ["norm=layernorm", "norm=rmsnorm norm.eps=1e-06", "norm=rmsnorm norm.eps=1e-05"]


def test_plain_sections_and_single_settings():
    found = labels(record("a"), record("b", model__dim=64), record("c", precision="bf16"))
    assert found == [
        "model.dim=64 precision=fp32",
        "model.dim=128 precision=bf16",
        "model.dim=128 precision=fp32",
    ]


def test_combined_choices():
    def qk(eps):
        return {"qk_norm": {"name": "qk_norm", "eps": eps}}

    both = qk(1e-6) | {"z_loss": {"name": "z_loss", "weight": 1e-4}}
    assert labels(record("a"), record("b", stability=both)) == ["stability=none", "stability=qk_norm,z_loss"]
    assert labels(record("a"), record("b", stability=both), record("c", stability=qk(1e-3))) == [
        "stability=none",
        "stability=qk_norm stability.qk_norm.eps=0.001",
        "stability=qk_norm,z_loss stability.qk_norm.eps=1e-06",
    ]


def test_what_does_not_make_a_variant():
    runs = [
        record("a"),
        record("b", seed=2, study_seed=7),
        record("c", seed=3, track={"name": "wandb", "project": "x"}),
        record("d", seed=4, train__checkpoint_every=7, fresh=True),
        record("e", seed=5, data={"name": "sotu", "file": "/elsewhere/same.txt"}),
    ]
    assert len(variants(runs)) == 1


def test_other_data_under_equal_settings():
    other = {"data": "sha256:ffee11223344", "tokenizer": "99aabbccddee"}
    found = variants([record("a"), record("b", hashes=other)])
    assert [v.label for v in found] == ["data#1a2b3c", "data#ffee11"]
    assert found[1].settings == {"data#": "sha256:ffee11223344"}


def test_other_files_are_told_apart_by_what_they_hold():
    files = [{"name": "text", "file": [name]} for name in ("a.txt", "b.txt", "copy_of_a.txt")]
    hashes = [{"data": text, "tokenizer": "t"} for text in ("aaaaaaaa", "bbbbbbbb", "aaaaaaaa")]
    runs = [record(f"r{i}", seed=i, data=d, hashes=h) for i, (d, h) in enumerate(zip(files, hashes, strict=True))]
    assert [(v.label, len(v.records)) for v in variants(runs)] == [("data#aaaaaa", 2), ("data#bbbbbb", 1)]


def test_other_data_settings_need_no_hash():
    other = {"data": "ffee11223344", "tokenizer": "99aabbccddee"}
    assert labels(record("a"), record("b", data={"name": "text"}, hashes=other)) == ["data=sotu", "data=text"]


def test_a_run_without_hashes_belongs_to_its_variant():
    (variant,) = variants([record("a"), record("b", seed=2, status="failed", hashes={})])
    assert len(variant.records) == 2


def test_a_key_that_older_runs_lack():
    old = record("a")
    del old["config"]["norm"]["eps"]
    assert sorted(labels(old, record("b"))) == ["norm.eps=1e-06", "rmsnorm pre swiglu gqa rope"]


def test_presets_are_named_and_what_comes_with_them_is_not():
    gpt2 = {"preset": "gpt2", "norm": LAYERNORM, "block": {"name": "post"}, "model__dim": 64}
    olmo2 = {"preset": "olmo2", "init": {"name": "olmo2", "sd": 0.02}}
    found = labels(record("a", **gpt2), record("b", **olmo2), record("c", **{**gpt2, "block": {"name": "pre"}}))
    assert found == ["preset=gpt2 block=post", "preset=gpt2 block=pre", "preset=olmo2"]
    assert labels(record("a", **gpt2), record("b", preset="none")) == ["preset=gpt2", "preset=none"]
    steps = labels(record("a", **gpt2), record("b", **olmo2, train__steps=60))
    assert steps == ["preset=gpt2 train.steps=600", "preset=olmo2 train.steps=60"]


def test_one_preset_is_like_none():
    both = labels(record("a", preset="gpt2"), record("b", preset="gpt2", norm=LAYERNORM))
    assert both == ["norm=layernorm", "norm=rmsnorm"]


def test_a_preset_is_no_variant_of_its_own_settings():
    (row,) = rows([record("a", preset="gpt2"), record("b", preset="none", seed=2)])
    assert row.n == 2


def test_numbers_order_as_numbers():
    sizes = [record(f"r{dim}", model__dim=dim) for dim in (64, 1024, 128, 8)]
    assert labels(*sizes) == [f"model.dim={dim}" for dim in (8, 64, 128, 1024)]
    rates = ["lr=1e-05", "lr=0.0003", "lr=0.001", "lr=1"]
    assert sorted(["lr=1", "lr=0.001", "lr=1e-05", "lr=0.0003"], key=natural) == rates
    assert sorted(["x=1", "x=-2"], key=natural) == ["x=-2", "x=1"]


def test_order_is_never_by_loss():
    runs = [record("a", loss=9.0), record("b", norm=LAYERNORM, loss=1.0)]
    more = [record("a", loss=1.0), record("b", norm=LAYERNORM, loss=9.0)]
    assert [r.variant for r in rows(runs)] == [r.variant for r in rows(reversed(more))]


def test_failed_and_diverged_seeds():
    layer, rms = rows(study())
    assert (rms.n, rms.asked, rms.failed, rms.diverged, rms.flags) == (2, 3, 1, 0, [])
    assert (layer.n, layer.asked, layer.failed, layer.diverged) == (2, 3, 0, 1)
    assert layer.flags == ["1 of 3 diverged"]
    assert layer.finals == [3.1822, 3.1911, None]
    assert layer.final_loss == pytest.approx((3.1822 + 3.1911) / 2)
    assert layer.early_loss == pytest.approx(layer.final_loss + 0.9)


def test_a_diverged_seed_is_not_averaged_even_if_it_has_numbers():
    runs = [
        record("a", seed=1, loss=3.0),
        record("b", seed=2, status="diverged", early_loss=9.0, final_loss=99.0),
    ]
    (row,) = rows(runs)
    assert (row.early_loss, row.final_loss, row.final_loss_sd) == (3.9, 3.0, None)
    assert row.finals == [3.0, None]


def test_all_seeds_diverged():
    (row,) = rows([record("a", status="diverged", final_loss=math.inf)])
    assert (row.n, row.final_loss, row.flags) == (0, None, ["1 of 1 diverged"])


def test_differences_of_parameters_are_against_the_first_row():
    layer, rms = rows(study())
    assert layer.params_difference == 0
    assert rms.params_difference == pytest.approx(100 * (1_310_000 / 1_311_280 - 1))
    assert rms.params_non_embedding_difference == pytest.approx(100 * (1_050_000 / 1_051_280 - 1))


def test_spikes_without_counted_steps_are_not_zero():
    none = {LOCAL: {"loss": {"score": None, "spikes": 0, "counted": 0, "shifts": 0}}}
    (row,) = rows([record("a", spikes=none)])
    assert row.spikes_loss is None
    assert row.spikes_grad_norm is None


def test_level_shifts_are_flagged():
    moved = {LOCAL: {"loss": {"score": 3.0, "spikes": 17, "counted": 500, "shifts": 1}}}
    (row,) = rows([record("a", spikes=moved)])
    assert (row.shifts, row.flags) == (1, ["1 level shift of loss"])


def test_a_seed_is_not_counted_twice():
    runs = [
        record("a", status="failed"),
        record("b", train__checkpoint_every=7),
        record("c", status="partial"),
    ]
    (row,) = rows(runs)
    assert (row.n, row.asked, row.runs) == (1, 1, ["b"])


def test_seeds_of_two_study_seeds_are_two_seeds():
    (row,) = rows([record("a", study_seed=0), record("b", study_seed=1)])
    assert (row.n, row.seeds) == (2, [1, 1])


def test_median_speed():
    (row,) = rows([record(f"r{i}", seed=i, tokens_per_s=speed) for i, speed in enumerate((10.0, 999.0, 11.0))])
    assert row.tokens_per_s == 11.0


def test_a_bare_record_makes_a_row():
    (row,) = rows([{"schema": 1, "id": "a", "status": "failed", "reason": "x", "config": None}])
    assert row.variant == "no config"
    assert row.failed == 1
    json.dumps(asdict(row), allow_nan=False)
