"""Numbers in a sentence."""

import pytest

from lab.stats.digits import two


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.0374, "0.037"), (0, "0"), (1.66, "1.7"), (24.0, "24"), (99.4, "99"), (99.6, "100"), (-1684.0, "-1,700")],
)
def test_two_digits_and_no_power_of_ten(value, said):
    assert two(value) == said
