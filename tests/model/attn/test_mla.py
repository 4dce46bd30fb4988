"""MLA against the equations of arXiv:2405.04434, with W_UK folded into the query and W_UV into the output."""

import pytest
import torch
from contracts.menu import PATHS, SIZES, config, model, shaken, tokens

from lab.errors import ConfigError
from lab.model.position import LayerPosition

T, N, H, R, V, RANK = 7, SIZES.n_heads, SIZES.head_dim, 4, 6, 10
MADE = {"rope_dim": R, "v_dim": V, "kv_rank": RANK}

both_paths = pytest.mark.parametrize("path", PATHS)
compressed = pytest.mark.parametrize("q_rank", [None, 12], ids=["plain-q", "low-rank-q"])


def stream():
    return torch.randn(2, T, SIZES.dim, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def rms(x, gain, eps=1e-6):
    return gain * x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt()


def turn(x, t):
    """RoPE of a vector at position t: pairs (p, p + R/2) as complex numbers; angles in fp32 as lab has them."""
    angle = torch.tensor(float(t)) * 10000.0 ** (-torch.arange(R // 2).float() * 2 / R)
    turned = torch.complex(x[: R // 2], x[R // 2 :]) * torch.polar(torch.ones_like(angle), angle).to(
        torch.complex128
    )
    return torch.cat((turned.real, turned.imag))


def slow(w, x_BTD, *, compress, turn):
    """One query of one head at a time; keys and values are never formed, only latents are attended to."""
    batch = []
    for x in x_BTD.unbind():
        queries = x @ w["q.weight"].T
        if compress:
            queries = rms(x @ w["q_down.weight"].T, w["q_norm.gain"]) @ w["q_up.weight"].T
        c = rms(x @ w["kv_down.weight"].T, w["kv_norm.gain"])
        k_rope = [turn(k, t) for t, k in enumerate((x @ w["k_rope.weight"].T).unbind())]
        rows = []
        for t in range(T):
            row = torch.zeros(SIZES.dim, dtype=x.dtype)
            for n in range(N):
                q = queries[t, n * (H + R) : (n + 1) * (H + R)]
                folded, q_rope = w["k_up.weight"][n * H : (n + 1) * H].T @ q[:H], turn(q[H:], t)
                scores = [(folded @ c[s] + q_rope @ k_rope[s]) / (H + R) ** 0.5 for s in range(t + 1)]
                weights = torch.stack(scores).exp()
                latent = (weights / weights.sum()) @ c[: t + 1]
                out = w["out.weight"][:, n * V : (n + 1) * V] @ w["v_up.weight"][n * V : (n + 1) * V]
                row = row + out @ latent
            rows.append(row)
        batch.append(torch.stack(rows))
    return torch.stack(batch)


@both_paths
@compressed
# Rotary angles are fp32 on both sides and may differ by a rounding, about 1e-6 at 6 radians.
@pytest.mark.parametrize(("position", "tolerance"), [("none", 1e-10), ("rope", 1e-5)])
def test_equals_the_equations_in_value_and_gradient(position, tolerance, q_rank, path):
    attn = config("attn", "mla", **MADE, q_rank=q_rank)
    module = shaken(model(attn=attn, position=position, path=path).double()).attention()[0]
    w = {key: p.detach().clone().requires_grad_() for key, p in module.named_parameters()}
    if q_rank is None:
        assert not any(key.startswith(("q_down", "q_norm", "q_up")) for key in w)
    else:
        w["q.weight"] = torch.zeros(1, SIZES.dim, dtype=torch.float64)  # not read
    x_BTD, y_BTD = stream(), module(stream())[0]
    rotated = turn if position == "rope" else lambda x, t: x
    expected = slow(w, x_BTD, compress=q_rank is not None, turn=rotated)
    torch.testing.assert_close(y_BTD, expected, rtol=tolerance, atol=tolerance)
    (y_BTD * x_BTD).sum().backward()
    (expected * x_BTD).sum().backward()
    for key, parameter in module.named_parameters():
        torch.testing.assert_close(parameter.grad, w[key].grad, rtol=tolerance, atol=10 * tolerance)


def test_sizes():
    module = model(attn=config("attn", "mla", **MADE, q_rank=12)).attention()[0]
    shapes = {name: tuple(p.shape) for name, p in module.named_parameters()}
    assert shapes == {
        "q_down.weight": (12, SIZES.dim),
        "q_norm.gain": (12,),
        "q_up.weight": (N * (H + R), 12),
        "kv_down.weight": (RANK, SIZES.dim),
        "kv_norm.gain": (RANK,),
        "k_rope.weight": (R, SIZES.dim),
        "k_up.weight": (N * H, RANK),
        "v_up.weight": (N * V, RANK),
        "out.weight": (SIZES.dim, N * V),
    }
    assert module.cache_bytes(10, element_bytes=2) == (RANK + R) * 10 * 2
    assert module.flops(16) == 2 * N * 16 * (H + R + V)


@pytest.mark.parametrize(
    ("changed", "widths"),
    [
        ({}, (16, None, 4, 8)),
        ({"kv_rank_share": 0.3}, (10, None, 4, 8)),
        ({"kv_rank_share": 0.3, "kv_rank": 5}, (5, None, 4, 8)),
        ({"q_rank_share": 0.25}, (16, 8, 4, 8)),
        ({"q_rank_share": 0.25, "q_rank": 3}, (16, 3, 4, 8)),
        ({"rope_dim": 6, "v_dim": 5}, (16, None, 6, 5)),
    ],
)
def test_widths_follow_from_the_model_unless_given(changed, widths):
    module = model(attn=config("attn", "mla", **changed)).attention()[0]
    assert (module.kv_rank, module.q_rank, module.rope_dim, module.v_dim) == widths


@pytest.mark.parametrize(("init", "scale"), [("gpt2", (H + R) ** -0.5), ("mup", 1 / (H + R)), ("t5", 1.0)])
def test_the_scale_goes_by_the_width_of_a_whole_key(init, scale):
    module = model(attn=config("attn", "mla", **MADE), init=init).attention()[0]
    assert module.scale == pytest.approx(scale, rel=1e-15)


@torch.no_grad()
def test_eps_is_that_of_both_latents():
    attn = config("attn", "mla", **MADE, q_rank=12, eps=0.3)
    module = shaken(model(attn=attn, position="none").double()).attention()[0]
    for norm in (module.q_norm, module.kv_norm):
        c = torch.linspace(-1, 1, len(norm.gain), dtype=torch.float64)
        torch.testing.assert_close(norm(c), rms(c, norm.gain, eps=0.3), rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kv_rank": 0}, "kv_rank 0 must be >= 1"),
        ({"q_rank": 0}, "q_rank 0 must be >= 1"),
        ({"rope_dim": 0}, "rope_dim 0 must be >= 1"),
        ({"v_dim": 0}, "v_dim 0 must be >= 1"),
        ({"kv_rank_share": 0}, "kv_rank_share 0 must be > 0"),
        ({"q_rank_share": -1}, "q_rank_share -1 must be > 0"),
        ({"eps": 0}, "eps 0 must be > 0"),
    ],
)
def test_values_out_of_range_are_refused(changed, message):
    with pytest.raises(ConfigError) as refused:
        config("attn", "mla", **changed)
    assert str(refused.value) == message


def test_what_would_change_keys_is_refused():
    with pytest.raises(ConfigError) as refused:
        model(attn="mla", stability=["qk_norm", "z_loss"])
    assert str(refused.value).startswith("attn=mla with stability=qk_norm is refused")
    assert model(attn="mla", stability="z_loss").logits(tokens()).isfinite().all()


def test_a_position_that_changes_values_is_refused(monkeypatch):
    monkeypatch.setattr(LayerPosition, "biases_values", True)
    with pytest.raises(ConfigError) as refused:
        model(attn="mla", position="none")
    assert str(refused.value) == "attn=mla has no values per position that a position component could change"
