"""Parameters and training FLOPs, by closed formula."""

from dataclasses import dataclass

from torch import nn

from lab.model.layers import Linear
from lab.model.transformer import Transformer

FLOPS_FORMULA = (
    "6 x (weights of the linear maps, head included) + 12 N H T per layer of plain attention, "
    "hidden keys not left out (arXiv:2204.02311, appendix B); a sparse kind that is computed by blocks counts the "
    "keys of its blocks in place of T"
)
"""Forward is 2 FLOPs per weight and token, backward twice that; the head counts though it may be tied. The
path in use is what counts: sparse kinds have all T keys where plain products have to form the scores."""


@dataclass(frozen=True)
class Parameters:
    """Numbers of parameters, frozen ones too."""

    non_embedding: int
    """Without token and position tables and the output head: arXiv:2001.08361, section 2.1."""
    total: int
    """All, a shared one counted once."""


def parameters(model: Transformer) -> Parameters:
    """Count a model's parameters; works on a model without storage too."""
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    tables = ("embedding", "position.", "head")
    inside = sum(size for name, size in sizes.items() if not name.startswith(tables))
    return Parameters(non_embedding=inside, total=sum(sizes.values()))


def training_flops_per_token(model: Transformer, seq_len: int) -> float:
    """FLOPs of one forward and backward pass per token, at sequences of ``seq_len`` tokens."""
    ends = (model.embedding_up, model.head_transform, model.head_down)
    weights = sum(_weights(part) for part in (*model.layers(), *ends) if part is not None)
    head = model.embedding.weight.numel()
    return 6.0 * (weights + head) + 3.0 * sum(attn.flops(seq_len) for attn in model.attention())


def _weights(part: nn.Module) -> int:
    return sum(module.weight.numel() for module in part.modules() if isinstance(module, Linear))
