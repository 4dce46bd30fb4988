import math

import pytest
import torch
from contracts.menu import PATHS, SIZES, config, model, shaken, tokens

from lab.errors import ConfigError

N, H, D = SIZES.n_heads, SIZES.head_dim, SIZES.dim
both = pytest.mark.parametrize("values", [False, True], ids=["keys", "values"])


def net_of(values, clip=3, path="sdpa", **chosen):
    return shaken(model(position=config("position", "shaw", clip=clip, values=values), path=path, **chosen))


def slow(attn, x_BTD, clip):
    """Equations 3 and 4 of the paper, pair by pair."""
    batch, length, _ = x_BTD.shape
    q, k, v = (m(x_BTD).view(batch, length, N, H) for m in (attn.q, attn.k, attn.v))
    keys, values = attn.position.keys.weight, attn.position.values
    rows = []
    for i in range(length):
        row = [min(i - j, clip) for j in range(i + 1)]
        k_BSNH = k[:, : i + 1] + keys[row][None, :, None]
        v_BSNH = v[:, : i + 1] + (values.weight[row][None, :, None] if values is not None else 0)
        weights_BSN = ((q[:, i : i + 1] * k_BSNH).sum(-1) / math.sqrt(H)).softmax(dim=1)
        rows.append((weights_BSN[..., None] * v_BSNH).sum(1))
    return attn.out(torch.stack(rows, dim=1).flatten(2))


@both
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("clip", [1, 3, 20])
def test_equals_the_equations_in_value_and_gradient(clip, path, values):
    attn = net_of(values, clip, path).double().attention()[0]
    x_BTD = torch.randn(2, 11, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    outcomes = []
    for y_BTD in (attn(x_BTD)[0], slow(attn, x_BTD, clip)):
        attn.zero_grad()
        y_BTD.square().mean().backward()
        outcomes.append([y_BTD.detach(), *(p.grad.clone() for p in attn.parameters())])
    for got, expected in zip(*outcomes, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("attn", ["mha", "gqa", "sliding_window", "chunked"])
def test_values_are_changed_in_decoding_too(attn):
    net, ids = net_of(True, attn=attn), tokens()
    caches, pieces, offset = net.new_caches(), [], 0
    for length in (5, 1, 7, 3):
        pieces.append(net(ids[:, offset : offset + length], caches, offset)[0])
        offset += length
    torch.testing.assert_close(torch.cat(pieces, dim=1), net(ids)[0], rtol=1e-5, atol=1e-5)


def test_values_leave_the_model_causal():
    net, ids = net_of(True), tokens(1)
    embedded = []
    net.embedding.register_forward_hook(lambda _, __, out: embedded.append(out))
    x_BTD, _ = net(ids)
    for t in (0, 6, 15):
        (gradient,) = torch.autograd.grad(x_BTD[0, t, ::3].sum(), embedded, retain_graph=True)
        assert gradient[0].any(dim=-1).tolist() == [s <= t for s in range(ids.shape[1])]


@both
def test_tables_are_each_layers_own_and_heads_share_them(values):
    state = net_of(values).state_dict()
    names = [name for name in state if ".position." in name]
    kinds = ["keys", "values"] if values else ["keys"]
    assert names == [f"blocks.{i}.attn.position.{kind}.weight" for i in range(SIZES.n_layers) for kind in kinds]
    assert all(state[name].shape == (4, H) for name in names)


@both
def test_only_values_rule_out_a_fused_kernel(values):
    assert {attn.path for attn in net_of(values).attention()} == {"plain" if values else "sdpa"}


def test_latent_attention_has_no_values_to_change():
    with pytest.raises(ConfigError, match="attn=mla has no values per position"):
        net_of(True, attn="mla")


def test_a_clip_of_zero_is_refused():
    with pytest.raises(ConfigError, match=r"^clip 0 must be >= 1$"):
        config("position", "shaw", clip=0)
