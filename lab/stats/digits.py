"""Numbers in a sentence."""


def two(value: float) -> str:
    """Two significant digits, never in powers of ten: 0.037, 1.7, 24, 1,700."""
    return f"{value:.2g}" if abs(value) < 99.5 else f"{float(f'{value:.2g}'):,.0f}"
