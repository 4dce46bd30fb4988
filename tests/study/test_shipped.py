"""The studies that come with lab: each decodes, expands, and consists of runs that compose."""

import pytest
from omegaconf import OmegaConf

from lab.compose import compose_config, compose_study, match_target
from lab.errors import ConfigError
from lab.paths import conf_dir
from lab.study.design import arms, contrasts, count
from lab.study.file import decode

SHIPPED = sorted(path.stem for path in (conf_dir() / "study").glob("*.yaml"))

COUNTS = {
    "glu": {"smoke": (8, 7, 16), "laptop": (8, 7, 64), "gpu": (8, 7, 88)},
    "narang-ffn": {
        "smoke": (12, 11, 24),
        "laptop": (9, 8, 45),
        "night": (12, 11, 60),
        "gpu": (12, 11, 96),
        "paper": (12, 11, 60),
    },
    "rybakov-lr-limit": {
        "smoke": (9, 8, 18),
        "laptop": (8, 7, 320),
        "night": (9, 8, 360),
        "gpu": (9, 8, 360),
        "paper": (9, 8, 72),
    },
    "wortsman-lr-sensitivity": {
        "smoke": (8, 7, 16),
        "laptop": (8, 7, 240),
        "night": (8, 7, 240),
        "gpu": (8, 7, 240),
        "paper": (8, 7, 144),
    },
    "olmo2-stability": {
        "smoke": (11, 10, 22),
        "laptop": (9, 8, 45),
        "night": (11, 10, 33),
        "gpu": (11, 10, 55),
        "paper": (11, 10, 22),
    },
    "xiong-prepost": {
        "smoke": (9, 9, 18),
        "laptop": (9, 9, 45),
        "night": (9, 9, 45),
        "gpu": (9, 9, 72),
        "paper": (9, 9, 27),
    },
    "narang-norm": {
        "smoke": (8, 7, 16),
        "laptop": (8, 7, 40),
        "night": (8, 7, 40),
        "gpu": (8, 7, 64),
        "paper": (8, 7, 24),
    },
    "softcap": {
        "smoke": (9, 8, 18),
        "laptop": (9, 8, 45),
        "night": (9, 8, 45),
        "gpu": (9, 8, 72),
        "paper": (9, 8, 27),
    },
    "depth-width": {
        "smoke": (5, 6, 10),
        "laptop": (5, 6, 85),
        "night": (5, 6, 85),
        "gpu": (5, 6, 85),
        "paper": (5, 6, 75),
    },
    "kaplan-shape": {
        "smoke": (11, 10, 22),
        "laptop": (9, 8, 72),
        "night": (11, 10, 88),
        "gpu": (11, 10, 121),
        "paper": (11, 10, 66),
    },
    "narang-shape": {
        "smoke": (8, 9, 16),
        "laptop": (8, 9, 40),
        "night": (8, 9, 40),
        "gpu": (8, 9, 64),
        "paper": (8, 9, 24),
    },
    "heads-low-rank": {
        "smoke": (9, 8, 18),
        "laptop": (9, 8, 45),
        "night": (9, 8, 45),
        "gpu": (9, 8, 72),
        "paper": (9, 8, 18),
    },
    "attention-scale": {
        "smoke": (5, 4, 10),
        "laptop": (5, 4, 85),
        "night": (5, 4, 85),
        "gpu": (5, 4, 85),
        "paper": (5, 4, 75),
    },
    "shazeer-glu": {
        "smoke": (8, 7, 16),
        "laptop": (8, 7, 64),
        "night": (8, 7, 64),
        "gpu": (8, 7, 88),
        "paper": (8, 7, 24),
    },
    "norms": {"smoke": (5, 4, 10), "laptop": (5, 4, 25), "gpu": (5, 4, 40)},
    "parts": {"smoke": (7, 6, 14)},
    "precision": {"smoke": (4, 3, 8), "laptop": (4, 3, 20), "night": (4, 3, 20), "gpu": (4, 3, 32)},
    "stability": {"smoke": (4, 3, 8), "laptop": (4, 3, 60), "gpu": (4, 3, 72)},
    "biases": {"smoke": (6, 5, 12), "laptop": (6, 5, 30), "night": (6, 5, 102), "gpu": (6, 5, 102)},
    "kv-sharing": {
        "smoke": (6, 5, 12),
        "laptop": (6, 5, 30),
        "night": (6, 5, 30),
        "gpu": (6, 5, 48),
        "paper": (6, 5, 18),
    },
    "modern": {"smoke": (11, 10, 22), "laptop": (9, 8, 45), "night": (11, 10, 55), "gpu": (11, 10, 88)},
    "positions": {
        "smoke": (9, 8, 18),
        "laptop": (6, 5, 30),
        "night": (9, 8, 45),
        "gpu": (9, 8, 72),
        "paper": (6, 5, 18),
    },
    "weight-decay": {
        "smoke": (9, 8, 18),
        "laptop": (9, 8, 45),
        "night": (9, 8, 45),
        "gpu": (9, 8, 72),
        "paper": (6, 5, 18),
    },
    "rope-theta": {"smoke": (7, 6, 14), "laptop": (7, 6, 35), "night": (7, 6, 35), "gpu": (7, 6, 56)},
    "nope-hybrid": {"smoke": (8, 7, 16), "laptop": (8, 7, 40), "night": (8, 7, 40), "gpu": (8, 7, 64)},
    "vocab": {"smoke": (2, 1, 4), "laptop": (6, 5, 30), "night": (6, 5, 30), "gpu": (7, 6, 56)},
    "dropout-one-epoch": {"smoke": (5, 4, 10), "laptop": (5, 4, 25), "night": (5, 4, 25), "gpu": (5, 4, 40)},
    "sparse": {
        "smoke": (9, 8, 18),
        "laptop": (9, 8, 45),
        "night": (9, 8, 45),
        "gpu": (9, 8, 72),
        "paper": (3, 2, 9),
    },
    "recipes": {
        "smoke": (5, 4, 10),
        "laptop": (5, 4, 25),
        "night": (5, 4, 25),
        "gpu": (5, 4, 40),
        "paper": (5, 4, 15),
    },
    "retrofit": {"smoke": (7, 5, 14), "laptop": (7, 5, 35), "night": (7, 5, 35), "gpu": (7, 5, 56)},
    "data-movement": {"smoke": (6, 5, 12), "laptop": (6, 5, 30), "night": (6, 5, 30), "gpu": (6, 5, 30)},
}
"""Arms, contrasts and runs at each tier."""


def test_the_counts_are_of_all_there_are():
    assert sorted(COUNTS) == SHIPPED


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_study_decodes_and_expands_at_each_tier(name):
    words = [f"study={name}", "threads=1", "tier=smoke", "hydra.verbose=false", "on_error=stop"]
    smoke, shared = compose_study(words)
    assert (smoke.name, smoke.tier, shared) == (name, "smoke", ("threads=1",))
    whole = decode(OmegaConf.load(conf_dir() / f"study/{name}.yaml")["study"], name)
    assert whole.at("smoke") == smoke
    for tier, expected in COUNTS[name].items():
        one = whole.at(tier)
        assert (len(arms(one)), len(contrasts(one)), count(one)) == expected
        assert one.question.endswith("?")


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_the_runs_of_a_shipped_study_compose(name):
    one, shared = compose_study([f"study={name}", "tier=smoke", "threads=1"])
    decoded = [compose_config(arm.overrides) for arm in arms(one, shared)]
    assert all(decoded.count(each) == 1 for each in decoded)
    for config in decoded:
        match_target(config)


def test_words_of_the_command_line_change_the_study():
    one, shared = compose_study(["study=norms", "study.seeds.report=[7,8]", "tier=laptop", "attention=gqa"])
    assert (one.seeds.report, shared) == ([7, 8], ("attn=gqa",))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], f"study=NAME is missing: one of {', '.join(SHIPPED)}"),
        (["study=norm"], f"study 'norm' is not one of {', '.join(SHIPPED)}; did you mean 'norms'"),
        (["study=norms,glu"], "study=NAME is missing"),
        (["study=norms", "seed=1,2"], "seed=1,2 has several values: a study says itself what its runs differ in"),
        (["study=norms", "tier=laptpo"], "tier 'laptpo' is not one of smoke, laptop, gpu; did you mean 'laptop'"),
        (["study=norms", "study.lr.mood=tuned"], "unknown key 'study.lr"),
        (["study=norms", "study.design=stars"], "study.design 'stars' must be one of"),
    ],
)
def test_a_wrong_line_is_refused(words, says):
    with pytest.raises(ConfigError, match=says) as caught:
        compose_study(words)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_study_of_the_users_own(tmp_path):
    (tmp_path / "study").mkdir()
    (tmp_path / "study/mine.yaml").write_text(
        "# @package _global_\nstudy: {question: A, design: grid, axes: {norm: [dyt, none]}, seeds: {report: [1]}}\n"
    )
    one, _ = compose_study(["study=mine"], config_dir=str(tmp_path))
    assert [arm.overrides for arm in arms(one)] == [("norm=dyt",), ("norm=none",)]
    with pytest.raises(
        ConfigError, match=f"study 'mien' is not one of {', '.join(sorted([*SHIPPED, 'mine']))}; did you mean"
    ):
        compose_study(["study=mien"], config_dir=str(tmp_path))
