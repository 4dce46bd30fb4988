"""The folded form of MLA, which decodes from latents, against the plain one."""

import pytest
import torch
from contracts.menu import PATHS, SIZES, config, model, shaken, tokens
from torch.utils.flop_counter import FlopCounterMode

from lab import choices
from lab.model.latent_attention import LatentAttention
from lab.model.stability import AttentionStability

pytestmark = pytest.mark.slow

MADE = {"rope_dim": 4, "v_dim": 6, "kv_rank": 10}
KINDS = [{"position": name} for name in choices.names("position")]
KINDS += [{"stability": name} for name in ("attn_softcap", "sigma_reparam", "temperature_tuning")]

both_paths = pytest.mark.parametrize("path", PATHS)


def made(path="plain", **chosen):
    return shaken(model(attn=config("attn", "mla", **MADE), path=path, **chosen).double()).eval()


def steps(net, ids, lengths):
    caches, pieces, offset = net.new_caches(), [], 0
    for length in lengths:
        pieces.append(net(ids[:, offset : offset + length], caches, offset)[0])
        offset += length
    return torch.cat(pieces, dim=1)


def always(monkeypatch, folds):
    monkeypatch.setattr(LatentAttention, "folding_is_less", lambda *_: folds)


@torch.no_grad()
@both_paths
@pytest.mark.parametrize("chosen", KINDS, ids=lambda chosen: "-".join(chosen.values()))
@pytest.mark.parametrize(
    "lengths",
    [pytest.param([1] * 16, id="single", marks=pytest.mark.slow), pytest.param([9, 1, 1, 5], id="chunks")],
)
def test_both_forms_decode_alike(chosen, lengths, path, monkeypatch):
    net, ids, found = made(path, **chosen), tokens(), []
    for folds in (True, False):
        always(monkeypatch, folds)
        found.append(steps(net, ids, lengths))
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(found[0], net(ids)[0], rtol=1e-10, atol=1e-10)


@both_paths
def test_both_forms_have_the_same_gradients(path, monkeypatch):
    net, ids, found = made(path), tokens(), []
    for folds in (True, False):
        always(monkeypatch, folds)
        net.zero_grad()
        net(ids, net.new_caches())[0].square().sum().backward()
        found.append([parameter.grad.clone() for parameter in net.blocks.parameters()])
    for folded, plain in zip(*found, strict=True):
        torch.testing.assert_close(folded, plain, rtol=1e-9, atol=1e-9)


@torch.no_grad()
def test_a_hook_sees_the_same_scores_in_both_forms(monkeypatch):
    seen = []

    class Look(AttentionStability):
        changes_scores = True

        def scores(self, scores_BNTS):
            seen.append(scores_BNTS)
            return scores_BNTS

    net = made()
    for folds in (True, False):
        always(monkeypatch, folds)
        for attn in net.attention():
            attn.stability = Look()
        steps(net, tokens(), [9, 7])
    half = len(seen) // 2
    assert half == 2 * SIZES.n_layers
    for folded, plain in zip(seen[:half], seen[half:], strict=True):
        torch.testing.assert_close(folded, plain, rtol=1e-10, atol=1e-10)


@torch.no_grad()
def test_a_single_token_is_decoded_without_keys_and_values():
    net, ids = made(), tokens()
    caches = net.new_caches()
    net(ids[:, :9], caches)

    def forbidden(*_):
        raise AssertionError("keys or values were formed")

    for attn in net.attention():
        attn.k_up.register_forward_hook(forbidden)
        attn.v_up.register_forward_hook(forbidden)
    assert net(ids[:, 9:10], caches, 9)[0].isfinite().all()


def test_what_trains_is_the_plain_form(monkeypatch):
    monkeypatch.setattr(LatentAttention, "folded", None)
    made()(tokens())


@torch.no_grad()
@pytest.mark.parametrize("kv_rank", [5, 40])
@pytest.mark.parametrize(("length", "past"), [(1, 0), (1, 2), (4, 4), (9, 3), (9, 60), (30, 60)])
def test_the_form_is_the_one_with_fewer_products(length, past, kv_rank, monkeypatch):
    attn = config("attn", "mla", **{**MADE, "kv_rank": kv_rank})
    module = model(attn=attn, path="plain").attention()[0]
    x_BTD, counts, chosen = (
        torch.randn(1, past + length, SIZES.dim),
        {},
        module.folding_is_less(length, past + length),
    )
    for folds in (True, False):
        always(monkeypatch, folds)
        cache = module.new_cache()
        if past:
            module(x_BTD[:, :past], cache)
        with FlopCounterMode(display=False) as counter:
            module(x_BTD[:, past:], cache, past)
        counts[folds] = counter.get_total_flops()
    assert chosen == (counts[True] < counts[False])
