"""Gated attention against its equation head by head, against MHA, and against Qwen3-Next's in transformers."""

import pytest
import torch
from contracts.menu import PATHS, config, model, shaken
from transformers import Qwen3NextConfig
from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextAttention

from .by_heads import D, H, N, assert_same, causal_scores, head, leaves, stream, weighted

both_paths = pytest.mark.parametrize("path", PATHS)
GATES = {"elementwise": H, "headwise": 1}


def made(gate="elementwise", *, heads_per_kv=1, path="sdpa", **chosen):
    attn = config("attn", "gated", gate=gate, heads_per_kv=heads_per_kv)
    return shaken(model(attn=attn, position="none", path=path, **chosen).double()).attention()[0]


def slow(w, x, width, n_kv_heads):
    heads = []
    for n in range(N):
        g = n * n_kv_heads // N
        found = weighted(causal_scores(head(w, x, "q", n), head(w, x, "k", g)), head(w, x, "v", g))
        heads.append(found / (1 + (-head(w, x, "gate", n, width)).exp()))
    return torch.cat(heads, dim=-1) @ w["out.weight"].T


@both_paths
@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("heads_per_kv", [1, 2])
def test_equals_the_equation_in_value_and_gradient(heads_per_kv, gate, path):
    module = made(gate, heads_per_kv=heads_per_kv, path=path)
    assert module.path == path
    assert module.gate.weight.shape == (N * GATES[gate], D)
    w = leaves(module)
    assert_same(module, w, module(stream())[0], slow(w, stream(), GATES[gate], N // heads_per_kv))


@torch.no_grad()
@pytest.mark.parametrize("gate", GATES)
def test_gates_of_zero_leave_half(gate):
    module, plain = made(gate), model(attn="mha", position="none").double().attention()[0]
    plain.load_state_dict(module.state_dict(), strict=False)
    assert set(module.state_dict()) - set(plain.state_dict()) == {"gate.weight"}
    module.gate.weight.zero_()
    torch.testing.assert_close(module(stream())[0], plain(stream())[0] / 2, rtol=1e-12, atol=1e-14)


@torch.no_grad()
def test_one_gate_a_head_is_one_for_each_of_its_entries():
    headwise, elementwise = made("headwise"), made("elementwise")
    state = headwise.state_dict()
    state["gate.weight"] = state["gate.weight"].repeat_interleave(H, dim=0)
    elementwise.load_state_dict(state)
    torch.testing.assert_close(headwise(stream())[0], elementwise(stream())[0], rtol=1e-12, atol=1e-14)


@torch.no_grad()
@both_paths
def test_equals_qwen3_next(path):
    qk_norm = config("stability", "qk_norm", norm="rmsnorm_1p", eps=1e-5)
    module = made(heads_per_kv=2, path=path, stability=qk_norm).float()
    sizes = {"hidden_size": D, "num_attention_heads": N, "num_key_value_heads": N // 2, "head_dim": H}
    setting = Qwen3NextConfig(**sizes, rms_norm_eps=1e-5, attention_bias=False, attn_implementation="eager")
    theirs, w = Qwen3NextAttention(setting, 0).eval(), module.state_dict()
    q_NHD, gate_NHD = (w[name].view(N, H, D) for name in ("q.weight", "gate.weight"))
    theirs.load_state_dict(
        {
            "q_proj.weight": torch.cat((q_NHD, gate_NHD), dim=1).flatten(0, 1),
            "k_proj.weight": w["k.weight"],
            "v_proj.weight": w["v.weight"],
            "o_proj.weight": w["out.weight"],
            "q_norm.weight": w["stability.qk_norm.q.gain_offset"],
            "k_norm.weight": w["stability.qk_norm.k.gain_offset"],
        }
    )
    x_BTD = stream(dtype=torch.float32)
    still = torch.ones(2, 7, H), torch.zeros(2, 7, H)
    mask = torch.full((1, 1, 7, 7), -torch.inf).triu(1)
    torch.testing.assert_close(module(x_BTD)[0], theirs(x_BTD, still, mask)[0], rtol=1e-5, atol=1e-5)
