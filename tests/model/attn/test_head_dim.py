"""A head width of one's own, N H other than D."""

import dataclasses

import pytest
import torch
from contracts.menu import PATHS, SIZES, model, shaken, tokens
from omegaconf import OmegaConf

from lab import choices
from lab.errors import ConfigError
from lab.model.sizes import ModelConfig
from lab.paths import conf_dir

SECTION = ModelConfig(
    **{**OmegaConf.load(conf_dir() / "model" / "tiny.yaml"), "dim": 32, "n_heads": 4, "max_seq_len": 16}
)


@torch.no_grad()
@pytest.mark.slow
@pytest.mark.parametrize("attn", choices.names("attn"))
@pytest.mark.parametrize("path", PATHS)
def test_heads_need_not_fill_the_model(attn, path):
    net = shaken(model(attn=attn, path=path, dims=dataclasses.replace(SIZES, head_dim=6)))
    assert net.logits(tokens()).isfinite().all()


def test_the_head_width_follows_from_dim_and_heads():
    assert SECTION.dims(50).head_dim == 8
    assert dataclasses.replace(SECTION, head_dim=16).dims(50).head_dim == 16


def test_the_vocabulary_is_the_tokenizers_or_larger():
    assert SECTION.dims(50).vocab_size == 50
    padded = dataclasses.replace(SECTION, vocab_size=64)
    assert padded.dims(50).vocab_size == 64
    with pytest.raises(ConfigError) as refused:
        padded.dims(65)
    assert str(refused.value) == "model.vocab_size 64 is smaller than the tokenizer's 65 entries"


def test_heads_that_do_not_divide_the_model_are_refused():
    with pytest.raises(ConfigError) as refused:
        dataclasses.replace(SECTION, n_heads=5)
    assert str(refused.value) == "n_heads 5 must divide model.dim 32 when head_dim is null"
    assert dataclasses.replace(SECTION, n_heads=5, head_dim=8).dims(50).n_heads == 5
