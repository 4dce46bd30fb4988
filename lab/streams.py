"""Seeds of the independent random streams: a pure function of (study seed, seed, stream, …).

Protocol: four streams. ``init`` draws weights, ``data`` orders batches, ``noise`` drives dropout and other
training noise, ``eval`` is for sampling in evaluation. None of them advances another, so two variants of one
seed see the same batches however much noise one of them draws.
"""

import hashlib
from typing import Literal

Stream = Literal["init", "data", "noise", "eval"]


def stream_seed(study_seed: int, seed: int, stream: Stream, *keys: object) -> int:
    """A 63-bit seed for one stream, or with keys (a parameter's name, a step) for one draw of it."""
    text = "/".join(str(part) for part in (study_seed, seed, stream, *keys))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
