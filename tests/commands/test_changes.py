"""Overrides of a run that is done."""

import pytest

from lab.commands._changes import changed
from lab.errors import ConfigError

OWN = (
    "stability=[qk_norm,z_loss]",
    "stability.qk_norm.eps=1e-3",
    "attn=sliding_window",
    "attn.window=7",
    "model.bias=true",
)


@pytest.fixture
def own(config):
    """What the run was trained with."""
    return config(*OWN)


def differing(a, b, path=""):
    """The dotted keys in which two trees differ."""
    if not (isinstance(a, dict) and isinstance(b, dict)):
        return set() if a == b else {path.removeprefix(".")}
    return set().union(*(differing(a.get(key), b.get(key), f"{path}.{key}") for key in {*a, *b}))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "keys"),
    [
        ([], set()),
        (["attn.window=32"], {"attn.window"}),
        (["attention.window=32", "norm.eps=1e-3"], {"attn.window", "norm.eps"}),
        (["stability=[z_loss]"], {"stability.qk_norm"}),
        (["stability=z_loss"], {"stability.qk_norm"}),
        (["stability=none"], {"stability.qk_norm", "stability.z_loss", "stability.none"}),
        (["stability=[qk_norm,z_loss,attn_softcap]"], {"stability.attn_softcap"}),
        (["attn=sliding_window"], set()),
        (["position=none", "position=rope"], set()),
        (["model.max_seq_len=128"], {"model.max_seq_len"}),
        (["device=auto", "attn_path=plain"], {"device", "attn_path"}),
        (["data=sotu"], {"data.name", "data.file"}),
    ],
)
def test_only_what_is_named_changes(own, line, keys):
    assert differing(own.as_dict(), changed(own, line).as_dict()) == keys


def test_a_choice_that_is_new_comes_with_its_yaml_and_values_come_after(own):
    attn = changed(own, ["attn.heads_per_kv=2", "attn=gqa"]).attn
    assert (attn.name, attn.heads_per_kv, attn.n_kv_heads) == ("gqa", 2, None)
    assert attn.q_bias is True  # ${model.bias} is the run's


def test_a_folder_of_the_users_own(own, tmp_path):
    (tmp_path / "norm").mkdir()
    (tmp_path / "norm/strict.yaml").write_text("name: rmsnorm\neps: 1.0e-3\n")
    assert changed(own, ["norm=strict"], config_dir=str(tmp_path)).norm.eps == 1e-3


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("attn.wndow=3", r"^unknown key 'attn.wndow': attn=sliding_window has .*; did you mean 'attn.window'\?$"),
        ("nrom=x", r"^unknown key 'nrom': the keys are .*; did you mean 'norm'\?$"),
        ("norm.eps.x=1", r"^unknown key 'norm.eps.x': norm.eps is a value and has no keys$"),
        ("stability.attn_softcap.cap=3", r"^unknown key 'stability.attn_softcap.cap': "),
        ("norm=rmsnrom", r"^norm 'rmsnrom' is not one of .*; did you mean 'rmsnorm'\?$"),
        ("stability=[qk_norm,nope]", r"^stability 'nope' is not one of "),
        ("stability=[none,z_loss]", r"^stability \[none, z_loss\] is contradictory"),
        ("norm.eps=x", r"^norm.eps 'x' must be a number$"),
        ("norm.eps=-1", r"^norm.eps -1.0 must be > 0$"),
        ("norm.eps=1,2", r"^norm.eps=1,2 has several values: one at a time; a list is norm.eps=\[A,B\]$"),
        ("norm", r"^'norm' is not an override: write norm=VALUE, one of "),
        ("~norm", r"^'~norm': nothing can be taken out"),
        ("optim.lr=1", r"^optim.lr=1: optim cannot be changed here: nothing is trained$"),
        ("train.steps=1", r"^train.steps=1: train cannot be changed here: nothing is trained$"),
        ("tokenizer=byte", r"^tokenizer=byte: tokenizer cannot be changed here: the model knows no other tokens$"),
        ("preset=gemma2", r"^preset=gemma2: preset cannot be changed here: name the groups one by one$"),
    ],
)
def test_mistakes_are_said_in_one_line(own, word, message):
    with pytest.raises(ConfigError, match=message) as refused:
        changed(own, [word])
    assert "\n" not in str(refused.value)
