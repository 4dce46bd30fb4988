"""Names and shapes of a reference's parameters made into lab's: renames, splits, transposes.

All of it is linear and keeps lengths, so the same map is right for gradients. A table maps the path of a module,
``*`` for the number of the layer, to the path of lab's, or to several and the function that takes a tensor apart.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from torch import Tensor, nn

Take = Callable[[Tensor], Sequence[Tensor]]
Table = Mapping[str, str | tuple[Sequence[str], Take]]

QKV = ("blocks.*.attn.q", "blocks.*.attn.k", "blocks.*.attn.v")
GATE_UP = ("blocks.*.ffn.gate", "blocks.*.ffn.up")


def to_lab(tensors: Mapping[str, Tensor], table: Table, net: nn.Module) -> tuple[dict[str, Tensor], set[str]]:
    """Tensors under the names and in the shapes of lab's parameters, and the names that the table leaves out."""
    shapes = {name: parameter.shape for name, parameter in net.named_parameters()}
    mapped: dict[str, Tensor] = {}
    left_out: set[str] = set()
    for name, tensor in tensors.items():
        path, _, kind = name.rpartition(".")
        found = re.search(r"\.(\d+)\.", name)
        starred = re.sub(r"\.\d+\.", ".*.", f"{path}.", count=1)[:-1]
        entry = table.get(f"{starred}.{kind}", table.get(starred))
        if entry is None:
            left_out.add(name)
            continue
        targets, take = ([entry], lambda t: [t]) if isinstance(entry, str) else entry
        for target, part in zip(targets, take(tensor), strict=True):
            lab_name = _parameter(target.replace("*", found[1] if found else ""), kind, shapes)
            assert lab_name not in mapped, f"{lab_name} comes twice"
            mapped[lab_name] = part.reshape(-1) if "norm" in target else part
    return mapped, left_out


def _parameter(target: str, kind: str, names: Mapping[str, object]) -> str:
    """The parameter of a module that a reference calls weight or bias; lab has other names for gains."""
    options = [target, f"{target}.{kind}"]
    if kind == "weight":
        options += [f"{target}.gain", f"{target}.gain_offset"]
    return next((option for option in options if option in names), f"{target}.{kind}")


def rows(*sizes: int) -> Take:
    """A fused matrix, or its bias, whose parts stand one below the other."""
    return lambda t: t.split(sizes)


def transposed(n_parts: int = 1) -> Take:
    """A Conv1D of GPT-2, (in, out), whose parts stand side by side."""
    return lambda t: [part.T if part.ndim == 2 else part for part in t.chunk(n_parts, dim=-1)]


def groups(n_kv: int, head_dim: int) -> Take:
    """Rows of each key/value group together: its query heads, its key, its value."""

    def take(tensor: Tensor) -> list[Tensor]:
        grouped = tensor.unflatten(0, (n_kv, -1, head_dim))
        parts = (grouped[:, :-2], grouped[:, -2:-1], grouped[:, -1:])
        return [part.flatten(0, 2) for part in parts]

    return take


def heads(n_heads: int, *sizes: int) -> Take:
    """Rows of each head together, of which every head has several parts."""

    def take(tensor: Tensor) -> list[Tensor]:
        return [part.flatten(0, 1) for part in tensor.unflatten(0, (n_heads, -1)).split(sizes, dim=1)]

    return take
