"""In which unit a difference of a number of runs is, and whether the number is better where it is lower."""

LOSSES = ("nats", "bits per byte")
"""Units of losses."""


def unit(metric: str) -> str:
    """Of a difference in a number that is named by its path; empty where it has none, or it is not known."""
    name = metric.rpartition(".")[2]
    if metric == "first_diverging_lr":
        return "octaves"
    if metric.startswith(("measures.lengths.", "measures.transplant.")) or name.endswith("_loss"):
        return "nats"
    return {
        "bits_per_byte": "bits per byte",
        "lr_sensitivity": "nats",
        "tokens_per_s": "tokens/s",
        "peak_memory_mib": "MiB",
    }.get(name, "")


def is_loss(metric: str) -> bool:
    """Whether it is a loss, or made of losses, and so better where it is lower."""
    return unit(metric) in LOSSES
