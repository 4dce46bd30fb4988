import math

import pytest
import torch
from contracts.menu import PATHS, SIZES, model, shaken
from transformers.models.xlnet.configuration_xlnet import XLNetConfig
from transformers.models.xlnet.modeling_xlnet import XLNetModel

N, H, D, T = SIZES.n_heads, SIZES.head_dim, SIZES.dim, SIZES.max_seq_len
both_paths = pytest.mark.parametrize("path", PATHS)


def attention(path="sdpa"):
    return shaken(model(position="transformer_xl", path=path)).attention()[0]


def inputs(length, dtype=torch.float32):
    return torch.randn(2, length, D, generator=torch.Generator().manual_seed(1), dtype=dtype)


def slow(attn, x_BTD):
    """Section 3.3 of the paper, pair by pair."""
    batch, length, _ = x_BTD.shape
    q, k, v = (m(x_BTD).view(batch, length, N, H) for m in (attn.q, attn.k, attn.v))
    part = attn.position
    u_NH, v_NH = part.u.view(N, H), part.v.view(N, H)
    rates = [10000 ** (-2 * p / D) for p in range(D // 2)]
    mapped = []
    for distance in range(length):
        r_D = [f(distance * rate) for f in (math.sin, math.cos) for rate in rates]
        mapped.append((part.r.weight @ torch.tensor(r_D, dtype=x_BTD.dtype)).view(N, H))
    rows = []
    for i in range(length):
        scores = [
            ((q[:, i] + u_NH) * k[:, j]).sum(-1) + ((q[:, i] + v_NH) * mapped[i - j]).sum(-1) for j in range(i + 1)
        ]
        weights_BSN = (torch.stack(scores, dim=1) / math.sqrt(H)).softmax(dim=1)
        rows.append((weights_BSN[..., None] * v[:, : i + 1]).sum(1))
    return attn.out(torch.stack(rows, dim=1).flatten(2))


@both_paths
@pytest.mark.parametrize("length", [11, T + 5])
def test_equals_the_paper_in_value_and_gradient(length, path):
    """Sinusoids are in fp32, hence the tolerance."""
    attn, x_BTD, outcomes = attention(path).double(), inputs(length, torch.float64), []
    for y_BTD in (attn(x_BTD)[0], slow(attn, x_BTD)):
        attn.zero_grad()
        y_BTD.square().mean().backward()
        outcomes.append([y_BTD.detach(), *(p.grad.clone() for p in attn.parameters())])
    for got, expected in zip(*outcomes, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)


@torch.no_grad()
@both_paths
def test_is_the_relative_attention_of_xlnet(path):
    attn, x_BTD = attention(path), inputs(T)
    setup = XLNetConfig(vocab_size=11, d_model=D, n_layer=1, n_head=N, d_inner=8, attn_type="uni", dropout=0)
    xlnet = XLNetModel(setup).eval()
    theirs = xlnet.layer[0].rel_attn
    for name in ("q", "k", "v"):
        getattr(theirs, name).copy_(getattr(attn, name).weight.T.view(D, N, H))
    theirs.o.copy_(attn.out.weight.view(D, N, H))
    theirs.r.copy_(attn.position.r.weight.T.view(D, N, H))
    theirs.r_w_bias.copy_(attn.position.u.view(N, H))
    theirs.r_r_bias.copy_(attn.position.v.view(N, H))
    theirs.layer_norm = torch.nn.Identity()
    h_TBD = x_BTD.transpose(0, 1)
    hidden_TT11 = torch.ones(T, T).triu(1)[:, :, None, None]
    r_RBD = xlnet.relative_positional_encoding(T, T, bsz=2)
    expected, _ = theirs(h_TBD, None, hidden_TT11, None, r_RBD, None)
    expected = (expected - h_TBD).transpose(0, 1)  # its residual connection
    torch.testing.assert_close(attn(x_BTD)[0], expected, rtol=1e-5, atol=1e-5)


def test_each_layer_has_a_map_and_two_biases_that_start_at_zero():
    net = model(position="transformer_xl")
    assert not net.position.state_dict()
    for attn in net.attention():
        assert {name: tuple(p.shape) for name, p in attn.position.named_parameters()} == {
            "u": (N * H,),
            "v": (N * H,),
            "r.weight": (N * H, D),
        }
        assert not attn.position.u.any()
        assert not attn.position.v.any()
        assert attn.position.r.weight.any()
