"""NSA by the sums of arXiv:2502.11089, one query of one head at a time; blocks are numbered from 1, as printed."""

import math

import torch


def turn(x_H, t):
    """RoPE of a vector at position t: pairs (p, p + H/2) as complex numbers; angles in fp32 as lab has them."""
    half = len(x_H) // 2
    angle = torch.tensor(float(t)) * 10000.0 ** (-torch.arange(half).float() / half)
    turned = torch.complex(x_H[:half], x_H[half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat((turned.real, turned.imag))


def compress(w, name, block_LH):
    """One vector for a block: its tokens and their places, through an MLP with one hidden layer."""
    x = w[f"{name}.up.weight"] @ (block_LH + w[f"{name}.place.weight"]).flatten()
    return w[f"{name}.down.weight"] @ (x * (1 + torch.erf(x / math.sqrt(2))) / 2)


def read(q, keys, values, scale):
    """Softmax over a list of keys."""
    weights = torch.stack([scale * (q @ k) for k in keys]).exp()
    weights = weights / weights.sum()
    return weights @ torch.stack(list(values)), weights


def best(shares, t, sizes):
    """Selection blocks of a query from the weights of compression blocks, both by number."""
    wide, narrow = sizes.select_block // sizes.stride, sizes.block // sizes.stride
    own = t // sizes.select_block + 1
    score = {
        j: sum(shares.get(wide * j - m - n, 0.0) for m in range(wide) for n in range(narrow))
        for j in range(1, own + 1)
    }
    kept = {1, own, max(own - 1, 1)}
    ranked = sorted(score, key=lambda j: (j not in kept, -score[j], j))
    return ranked[: sizes.n_selected]


def attend(w, x_TD, sizes, n_heads, n_kv, turn=lambda vector, t: vector):
    """The branch of one sequence, (T, D)."""
    heads, length = {}, len(x_TD)
    for name in ("q", *(f"{kind}_{branch}" for kind in "kv" for branch in ("compressed", "selected", "window"))):
        heads[name] = (x_TD @ w[f"{name}.weight"].T).unflatten(-1, (n_heads if name == "q" else n_kv, -1))
    gates = torch.sigmoid(x_TD @ w["gate.weight"].T + w.get("gate.bias", 0)).unflatten(-1, (3, n_heads))
    width = heads["q"].shape[-1]
    scale, rows = width**-0.5, [[None] * n_heads for _ in range(length)]
    for g in range(n_kv):
        blocks = {}  # by number: last token, key, value
        for first in range(0, length - sizes.block + 1, sizes.stride):
            tokens = slice(first, first + sizes.block)
            made = [compress(w, f"{kind}_map", heads[f"{kind}_compressed"][tokens, g]) for kind in "kv"]
            blocks[len(blocks) + 1] = (first + sizes.block - 1, *made)
        turned = {
            branch: [turn(k, s) for s, k in enumerate(heads[f"k_{branch}"][:, g])]
            for branch in ("selected", "window")
        }
        members = range(g * n_heads // n_kv, (g + 1) * n_heads // n_kv)
        for t in range(length):
            done = {i: block for i, block in blocks.items() if block[0] <= t}
            shares, compressed = dict.fromkeys(done, 0.0), {}
            for n in members:
                compressed[n] = torch.zeros(width, dtype=x_TD.dtype)
                if done:
                    _, keys, values = zip(*done.values(), strict=True)
                    compressed[n], weights = read(heads["q"][t, n], keys, values, scale)
                    for i, share in zip(done, weights.tolist(), strict=True):
                        shares[i] += share
            chosen = best(shares, t, sizes)
            reach = {
                "selected": [s for s in range(t + 1) if s // sizes.select_block + 1 in chosen],
                "window": list(range(max(0, t - sizes.window + 1), t + 1)),
            }
            for n in members:
                row = gates[t, 0, n] * compressed[n]
                for c, (branch, seen) in enumerate(reach.items(), start=1):
                    keys, values = [turned[branch][s] for s in seen], heads[f"v_{branch}"][seen, g]
                    row = row + gates[t, c, n] * read(turn(heads["q"][t, n], t), keys, values, scale)[0]
                rows[t][n] = row
    return torch.stack([torch.cat(row) for row in rows]) @ w["out.weight"].T
