"""Matching through the command line and the run's folder."""

import json

import pytest

from lab.compose import compose_config, match_target
from lab.errors import ConfigError
from lab.training.plan import plan
from lab.training.run import train

pytestmark = pytest.mark.slow

TO = 'match.to=["data=text","tokenizer=byte","model=tiny","model.dim=32","model.n_layers=1","model.max_seq_len=32"]'


@pytest.fixture
def matched(words):
    """A small run, equal in parameters to the same with RMSNorm and MHA."""

    def make(*overrides):
        config = compose_config(words("match=params", TO, "activation.multiple_of=1", *overrides))
        return config, match_target(config)

    return make


def test_a_matched_run_says_to_what_and_how_nearly(matched, caplog):
    caplog.set_level("INFO", logger="lab")
    config, target = matched("norm=layernorm", "attn=mqa", "train.steps=2")
    ended = train(config, target)
    result = json.loads((ended.folder / "result.json").read_text())
    said = result["match"]
    assert said["by"] == "params"
    assert said["to"] == target_words()
    assert abs(said["residual"]) < 0.01
    assert said["value"] == result["parameters"]["total"]
    assert result["config"]["activation"]["d_ff"] == said["d_ff"]
    assert "matched in params to data=text tokenizer=byte model=tiny" in caplog.text
    assert f"activation.d_ff {said['d_ff']}" in caplog.text


def target_words():
    return json.loads(TO.removeprefix("match.to="))


def test_a_matched_run_is_the_run_of_its_width(matched, config):
    matched_config, target = matched("attn=mqa")
    planned = plan(matched_config, target)
    width = planned.match.d_ff
    by_hand = plan(config("attn=mqa", "activation.multiple_of=1", f"activation.d_ff={width}"))
    assert planned.run_id == by_hand.run_id


def test_overrides_in_match_to_need_no_quotes(words):
    config = compose_config(words("match=params", "match.to=[attn=mqa,stability=[qk_norm,z_loss],attention=gqa]"))
    assert config.match.to == ["attn=mqa", "stability=[qk_norm,z_loss]", "attn=gqa"]


def test_a_target_that_is_matched_itself_is_refused(words):
    with pytest.raises(ConfigError, match="matched to something itself"):
        match_target(compose_config(words("match=params", "match.to=[match=flops]")))
