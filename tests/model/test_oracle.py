"""Two whole models against plain ones written here, which use nothing of lab: logits and every gradient."""

import math

import pytest
import torch
import torch.nn.functional as F
from contracts.menu import PATHS, model, shaken, tokens

from lab.model.loss import token_loss

LAYERS, N, H = 2, 4, 8


def attention(w, x, prefix, n_kv, turn):
    B, T, _ = x.shape
    q, k, v = (
        (x @ w[f"{prefix}.{part}.weight"].T).view(B, T, heads, H).transpose(1, 2)
        for part, heads in (("q", N), ("k", n_kv), ("v", n_kv))
    )
    q, k = turn(q), turn(k)
    outputs = []
    for head in range(N):
        group = head * n_kv // N
        scores = q[:, head] @ k[:, group].transpose(-1, -2) / math.sqrt(H)
        scores = scores.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -math.inf)
        outputs.append(scores.softmax(-1) @ v[:, group])
    return torch.cat(outputs, dim=-1) @ w[f"{prefix}.out.weight"].T


def half_split_rope(x):
    """Pair (p, p + H/2) as one complex number, turned by t 10000^(-2p/H); angles in fp32."""
    T, half = x.shape[-2], H // 2
    angle = torch.arange(T).float()[:, None] * 10000.0 ** (-torch.arange(half).float() * 2 / H)
    turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat((turned.real, turned.imag), dim=-1).to(x.dtype)


def llama_like(w, ids):
    def norm(x, gain):
        return gain * x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()

    x = w["embedding.weight"][ids]
    for i in range(LAYERS):
        b = f"blocks.{i}"
        x = x + attention(w, norm(x, w[f"{b}.attn_norm.gain"]), f"{b}.attn", 2, half_split_rope)
        y = norm(x, w[f"{b}.ffn_norm.gain"])
        gate = y @ w[f"{b}.ffn.gate.weight"].T
        x = x + (gate * gate.sigmoid() * (y @ w[f"{b}.ffn.up.weight"].T)) @ w[f"{b}.ffn.out.weight"].T
    return norm(x, w["final_norm.gain"]) @ w["head.weight"].T


def gpt2_like(w, ids):
    def norm(x, name):
        centred = x - x.mean(-1, keepdim=True)
        scaled = centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()
        return w[f"{name}.gain"] * scaled + w[f"{name}.bias"]

    x = w["embedding.weight"][ids] + w["position.table.weight"][: ids.shape[1]]
    for i in range(LAYERS):
        b = f"blocks.{i}"
        x = x + attention(w, norm(x, f"{b}.attn_norm"), f"{b}.attn", N, lambda q: q)
        y = norm(x, f"{b}.ffn_norm") @ w[f"{b}.ffn.up.weight"].T
        x = x + (y / 2 * (1 + torch.erf(y / math.sqrt(2)))) @ w[f"{b}.ffn.out.weight"].T
    return norm(x, "final_norm") @ w["embedding.weight"].T


def gpt2_like_post(w, ids):
    """The same with norms after the additions and none at the end."""

    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], w[f"{name}.gain"], w[f"{name}.bias"], 1e-5)

    x = w["embedding.weight"][ids] + w["position.table.weight"][: ids.shape[1]]
    for i in range(LAYERS):
        b = f"blocks.{i}"
        x = norm(x + attention(w, x, f"{b}.attn", N, lambda q: q), f"{b}.attn_norm")
        y = F.relu(x @ w[f"{b}.ffn.up.weight"].T) @ w[f"{b}.ffn.out.weight"].T
        x = norm(x + y, f"{b}.ffn_norm")
    return x @ w["embedding.weight"].T


LLAMA = {"norm": "rmsnorm", "block": "pre", "activation": "swiglu", "attn": "gqa", "position": "rope"}
GPT2 = {"norm": "layernorm", "block": "pre", "activation": "gelu", "attn": "mha", "position": "learned"}
POST = {**GPT2, "block": "post", "activation": "relu"}

CASES = {
    # Rotary angles are fp32 on both sides, and may differ there by a rounding: about 1e-6 at 15 radians.
    "llama": (llama_like, {**LLAMA, "tied": False}, torch.float64, 1e-5),
    "llama-fp32": (llama_like, {**LLAMA, "tied": False}, torch.float32, 1e-5),
    "gpt2": (gpt2_like, {**GPT2, "tied": True}, torch.float64, 1e-10),
    "gpt2-fp32": (gpt2_like, {**GPT2, "tied": True}, torch.float32, 1e-5),
    "post": (gpt2_like_post, {**POST, "tied": True}, torch.float64, 1e-10),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("case", CASES)
def test_the_model_equals_a_plain_one(case, path):
    oracle, chosen, dtype, tolerance = CASES[case]
    net, ids = shaken(model(**chosen, path=path).to(dtype)), tokens()
    weights = {name: p.detach().clone().requires_grad_() for name, p in net.named_parameters()}
    target = ids.roll(-1, dims=1)

    expected = oracle(weights, ids)
    loss = F.cross_entropy(expected.flatten(0, 1), target.flatten())
    loss.backward()
    objective = token_loss(net, net(ids)[0], target, denominator=target.numel()).objective
    objective.backward()

    torch.testing.assert_close(net.logits(ids), expected, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(objective, loss, rtol=tolerance, atol=0)
    for name, parameter in net.named_parameters():
        torch.testing.assert_close(parameter.grad, weights[name].grad, rtol=tolerance, atol=tolerance)
