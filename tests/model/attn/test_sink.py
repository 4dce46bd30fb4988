"""Softmax with a sink against its equation head by head, against MHA, and against GPT-OSS in transformers."""

import pytest
import torch
from contracts.menu import PATHS, config, model, shaken
from transformers import GptOssConfig
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssAttention

from .by_heads import D, H, N, assert_same, causal_scores, head, leaves, stream

both_paths = pytest.mark.parametrize("path", PATHS)


def made(sink="learned", *, heads_per_kv=1, path="sdpa", scale=None, **chosen):
    attn = config("attn", "sink", sink=sink, heads_per_kv=heads_per_kv, scale=scale)
    return shaken(model(attn=attn, position="none", path=path, **chosen).double()).attention()[0]


def slow(w, x, n_kv_heads, change=lambda scores: scores, scale=H**-0.5):
    heads = []
    for n in range(N):
        g = n * n_kv_heads // N
        e = change(causal_scores(head(w, x, "q", n), head(w, x, "k", g), scale)).exp()
        nothing = w["sink"][n].exp() if "sink" in w else 1
        heads.append(torch.einsum("bts,bsh->bth", e / (nothing + e.sum(-1, keepdim=True)), head(w, x, "v", g)))
    return torch.cat(heads, dim=-1) @ w["out.weight"].T


@both_paths
@pytest.mark.parametrize("sink", ["learned", "zero"])
@pytest.mark.parametrize("heads_per_kv", [1, 2])
@pytest.mark.parametrize("scale", [None, 0.9])
def test_equals_the_equation_in_value_and_gradient(scale, heads_per_kv, sink, path):
    module = made(sink, heads_per_kv=heads_per_kv, path=path, scale=scale)
    assert module.path == path
    w = leaves(module)
    assert ("sink" in w) == (sink == "learned")
    expected = slow(w, stream(), N // heads_per_kv, scale=scale or H**-0.5)
    assert_same(module, w, module(stream())[0], expected)


@torch.no_grad()
@both_paths
def test_a_sink_far_below_the_scores_is_none(path):
    module, plain = made(path=path), model(attn="mha", position="none", path=path).double().attention()[0]
    plain.load_state_dict(module.state_dict(), strict=False)
    assert not torch.allclose(module(stream())[0], plain(stream())[0], rtol=1e-2, atol=1e-2)
    module.sink.fill_(-1e4)
    torch.testing.assert_close(module(stream())[0], plain(stream())[0], rtol=1e-12, atol=1e-14)


@torch.no_grad()
@both_paths
def test_a_sink_far_above_the_scores_takes_all(path):
    module = made(path=path)
    module.sink.fill_(1e4)
    assert not module(stream())[0].any()


def test_learned_sinks_start_where_the_others_stay():
    learned, fixed = (model(attn=config("attn", "sink", sink=kind)).attention()[0] for kind in ("learned", "zero"))
    assert torch.equal(learned.sink, torch.zeros(N))
    assert torch.equal(fixed.sink, torch.zeros(N))
    assert set(learned.state_dict()) - set(fixed.state_dict()) == {"sink"}


@torch.no_grad()
def test_a_cap_of_the_scores_leaves_the_sink_alone():
    module = made(stability=config("stability", "attn_softcap", cap=0.3))
    module.sink += 2
    assert module.path == "plain"
    w = dict(module.named_parameters())
    capped = slow(w, stream(), N, lambda s: torch.where(s.isinf(), s, 0.3 * (s / 0.3).tanh()))
    torch.testing.assert_close(module(stream())[0], capped, rtol=1e-10, atol=1e-12)


@torch.no_grad()
@both_paths
@pytest.mark.parametrize("position", ["none", "alibi"])
def test_pieces_of_any_length_decode_as_the_whole(position, path):
    attn = config("attn", "sink", heads_per_kv=2)
    module = shaken(model(attn=attn, position=position, path=path).double()).attention()[0]
    module.sink += torch.arange(N) - 1.0
    cache, x_BTD, pieces, offset = module.new_cache(), stream(12), [], 0
    for length in (1, 4, 2, 5):
        pieces.append(module(x_BTD[:, offset : offset + length], cache, offset)[0])
        offset += length
    torch.testing.assert_close(torch.cat(pieces, dim=1), module(x_BTD)[0], rtol=1e-11, atol=1e-12)


@both_paths
def test_equals_gpt_oss(path):
    module = made(heads_per_kv=2, path=path).float()
    sizes = {"hidden_size": D, "num_attention_heads": N, "num_key_value_heads": N // 2, "head_dim": H}
    setting = GptOssConfig(**sizes, attention_bias=False, attn_implementation="eager")
    theirs = GptOssAttention(setting, 0).eval()
    names = {"q_proj.weight": "q.weight", "k_proj.weight": "k.weight", "v_proj.weight": "v.weight"}
    names |= {"o_proj.weight": "out.weight", "sinks": "sink"}
    theirs.load_state_dict({name: module.state_dict()[ours] for name, ours in names.items()})
    x_BTD = stream(dtype=torch.float32)
    still = torch.ones(2, 7, H // 2), torch.zeros(2, 7, H // 2)
    expected = theirs(x_BTD, still, torch.full((1, 1, 7, 7), -torch.inf).triu(1))[0]
    w = {names[name]: parameter for name, parameter in theirs.named_parameters()}
    assert_same(module, w, module(x_BTD)[0], expected, rtol=1e-5, atol=1e-5)
