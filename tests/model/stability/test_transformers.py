"""Stability choices against the code of transformers, which computes in fp32: values and gradients."""

import pytest
import torch
from contracts.menu import SIZES, config, model, shaken
from transformers import Gemma2Config, Llama4TextConfig
from transformers.models.chameleon.modeling_chameleon import ChameleonLayerNorm
from transformers.models.cohere.modeling_cohere import CohereLayerNorm
from transformers.models.gemma2.modeling_gemma2 import Gemma2Attention
from transformers.models.gemma3.modeling_gemma3 import Gemma3RMSNorm
from transformers.models.llama4.modeling_llama4 import Llama4TextAttention, Llama4TextL2Norm
from transformers.models.olmo2.modeling_olmo2 import Olmo2RMSNorm
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from lab.model.layer_spec import LayerSpec

N, K, H, D = SIZES.n_heads, 2, SIZES.head_dim, SIZES.dim
EPS = 1e-5

NORMS = {
    "qwen3": ({}, lambda n: Qwen3RMSNorm(H, eps=EPS)),
    "gemma3": ({"norm": "rmsnorm_1p"}, lambda n: Gemma3RMSNorm(H, eps=EPS)),
    "llama4": ({"norm": "rmsnorm_plain"}, lambda n: Llama4TextL2Norm(EPS)),
    "olmo2": ({"over": "full"}, lambda n: Olmo2RMSNorm(n * H, eps=EPS)),
    "command-r-plus": (
        {"norm": "layernorm_no_bias", "over": "per_head"},
        lambda n: CohereLayerNorm((n, H), eps=EPS),
    ),
    "chameleon": ({"norm": "layernorm", "over": "per_head"}, lambda n: ChameleonLayerNorm((n, H))),
}


@pytest.mark.parametrize("family", NORMS)
def test_norms_of_queries_and_keys(family):
    keys, make = NORMS[family]
    part = config("stability", "qk_norm", eps=EPS, **keys).build(SIZES).attention(LayerSpec(index=0), SIZES, K)
    generator = torch.Generator().manual_seed(1)
    q, k = (2 * torch.randn(2, 5, n, H, generator=generator) + 1 for n in (N, K))
    ours = part.qkv(q, k, k)
    for x, ours_of, n in ((q, part.q, N), (k, part.k, K)):
        theirs = make(n)
        assert [p.numel() for p in ours_of.parameters()] == [p.numel() for p in theirs.parameters()]
        for mine, other in zip(ours_of.parameters(), theirs.parameters(), strict=True):
            mine.data.normal_(generator=generator)
            other.data.copy_(mine.data.view_as(other))
        x.requires_grad_()
        y, z = ours_of(x), theirs(x.flatten(-2) if family == "olmo2" else x).view_as(x)
        torch.testing.assert_close(y, z, rtol=1e-6, atol=3e-6)
        dy = torch.randn(y.shape, generator=generator)
        for mine, other in zip(
            torch.autograd.grad(y, (x, *ours_of.parameters()), dy),
            torch.autograd.grad(z, (x, *theirs.parameters()), dy),
            strict=True,
        ):
            torch.testing.assert_close(mine.flatten(), other.flatten(), rtol=1e-5, atol=2e-5)
    assert ours[2] is k


SHAPE = {
    "hidden_size": D,
    "num_attention_heads": N,
    "num_key_value_heads": K,
    "head_dim": H,
    "attn_implementation": "eager",
}


def same_layer(net, theirs, length):
    """Our first attention and theirs with its weights, without positions."""
    ours = net.attention()[0]
    for name, map_ in (("q_proj", ours.q), ("k_proj", ours.k), ("v_proj", ours.v), ("o_proj", ours.out)):
        getattr(theirs, name).weight.data.copy_(map_.weight.data)
    x_BTD = torch.randn(2, length, D, generator=torch.Generator().manual_seed(1)).requires_grad_()
    mask = torch.full((length, length), torch.finfo(torch.float32).min).triu(1)[None, None]
    still = torch.ones(2, length, H), torch.zeros(2, length, H)
    y_BTD, z_BTD = ours(x_BTD)[0], theirs(x_BTD, position_embeddings=still, attention_mask=mask)[0]
    torch.testing.assert_close(y_BTD, z_BTD, rtol=1e-5, atol=1e-5)
    dy_BTD = torch.randn(y_BTD.shape, generator=torch.Generator().manual_seed(2))
    for mine, other in zip(
        torch.autograd.grad(y_BTD, (x_BTD, ours.q.weight), dy_BTD),
        torch.autograd.grad(z_BTD, (x_BTD, theirs.q_proj.weight), dy_BTD),
        strict=True,
    ):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)


def test_the_cap_of_gemma_2():
    made = Gemma2Config(**SHAPE, query_pre_attn_scalar=H, attn_logit_softcapping=0.4)
    net = shaken(model(stability=config("stability", "attn_softcap", cap=0.4), attn="gqa", position="none"))
    same_layer(net, Gemma2Attention(made, layer_idx=1), SIZES.max_seq_len)


def test_the_temperature_of_llama_4():
    made = Llama4TextConfig(
        **SHAPE,
        num_hidden_layers=1,
        attn_temperature_tuning=True,
        floor_scale=3,
        attn_scale=0.6,
        no_rope_layers=[0],
    )
    tuning = config("stability", "temperature_tuning", floor_scale=3, attn_scale=0.6)
    net = shaken(model(stability=tuning, attn="gqa", position="none"))
    same_layer(net, Llama4TextAttention(made, layer_idx=0), SIZES.max_seq_len)
