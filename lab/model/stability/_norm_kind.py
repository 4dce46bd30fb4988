"""Norms by name, for choices of which a norm is a part."""

from enum import StrEnum

from torch import nn

from lab.model.layers import LayerNorm, LayerNormNoBias, RMSNorm, RMSNorm1p, RMSNormPlain


class NormKind(StrEnum):
    """A norm of ``lab.model.layers``."""

    rmsnorm = "rmsnorm"
    rmsnorm_1p = "rmsnorm_1p"
    rmsnorm_plain = "rmsnorm_plain"
    layernorm = "layernorm"
    layernorm_no_bias = "layernorm_no_bias"


KINDS = {
    NormKind.rmsnorm: RMSNorm,
    NormKind.rmsnorm_1p: RMSNorm1p,
    NormKind.rmsnorm_plain: RMSNormPlain,
    NormKind.layernorm: LayerNorm,
    NormKind.layernorm_no_bias: LayerNormNoBias,
}


def build_norm(kind: str, dim: int, *, eps: float) -> nn.Module:
    """The norm of that name for vectors of width ``dim``."""
    return KINDS[NormKind(kind)](dim, eps=eps)
