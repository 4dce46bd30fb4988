"""lab: the ablation laboratory for transformer language models."""

__version__ = "0.1.0"
