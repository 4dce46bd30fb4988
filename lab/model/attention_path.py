"""Which code computes attention: a shipped table, so that the choice is the same wherever a run is repeated.

On a CPU in bf16 at short lengths the batched products of the plain path beat the fused kernel, whose backward is
slow there; in fp32, at longer lengths and on GPUs the fused kernel wins. ``docs/performance.md`` has the figures.
"""

from typing import Literal

Path = Literal["plain", "sdpa"]
"""``plain``: batched matrix products; ``sdpa``: PyTorch's scaled_dot_product_attention."""

PLAIN_UP_TO = {("cpu", "bf16"): 512}
"""(device, precision) to the longest sequence, in tokens, for which ``plain`` is taken."""


def choose(*, device: str, precision: str, seq_len: int) -> Path:
    """The path for a device kind, a precision and a training length."""
    return "plain" if seq_len <= PLAIN_UP_TO.get((device, precision), 0) else "sdpa"
