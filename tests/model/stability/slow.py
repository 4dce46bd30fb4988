"""One layer's attention of MHA or GQA, query by query, with whatever a choice does to it."""

import torch


def attention(module, x_BTD, *, before=None, after=None, score=None, scale=None):
    """``before`` and ``after`` map (q, k, v) on the two sides of the positions, ``score`` the scaled scores."""
    B, T, _ = x_BTD.shape
    N, K, H = module.n_heads, module.n_kv_heads, module.head_dim
    q, k, v = (x_BTD @ m.weight.T for m in (module.q, module.k, module.v))
    q, k, v = q.view(B, T, N, H), k.view(B, T, K, H), v.view(B, T, K, H)
    q, k, v = before(q, k, v) if before else (q, k, v)
    q, k = module.position.rotate(q, k, range(T))
    q, k, v = after(q, k, v) if after else (q, k, v)
    rows = []
    for t in range(T):
        heads = []
        for n in range(N):
            g = n // (N // K)
            scores = (k[:, : t + 1, g] * q[:, t, n, None]).sum(-1) * (H**-0.5 if scale is None else scale)
            weights = (score(scores) if score else scores).softmax(-1)
            heads.append((weights[..., None] * v[:, : t + 1, g]).sum(1))
        rows.append(torch.cat(heads, dim=-1))
    return torch.stack(rows, dim=1) @ module.out.weight.T


def rms(x, eps):
    return x / ((x * x).sum(-1, keepdim=True) / x.shape[-1] + eps).sqrt()


def centred(x, eps):
    x = x - x.sum(-1, keepdim=True) / x.shape[-1]
    return rms(x, eps)
