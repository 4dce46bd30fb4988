"""Multi-head latent attention with decoupled rotary positions: arXiv:2405.04434, section 2.1, equations 9 to 19.

Keys and values come from one latent vector per token, c = norm(W_down x); positions act on an extra part of the
queries and on one extra key that all heads share. A cache holds the latent and that key. Both latents are
normalised, as the paper says after its equations. Scores are scaled by 1/sqrt(H + rope width). Decoding attends to
the latents themselves; ``lab.model.latent_attention`` has both forms.
"""

from dataclasses import dataclass

from lab.model.latent_attention import LatentConfig


@dataclass(frozen=True, kw_only=True)
class Config(LatentConfig):
    """Widths of the latents and of the parts of a head; model.head_dim is that of a key's part without position."""
