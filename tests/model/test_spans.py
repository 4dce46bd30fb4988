"""Spans against sets of positions."""

import itertools

from each import for_each

from lab.model.spans import joined, places

SETS = [set(), {0}, {2, 3}, {0, 1, 2, 3, 4, 5, 6}, {0, 2, 4, 6}, {1, 2, 5, 6}, {0, 1, 4}, {6}]


def spans_of(positions):
    """By brute force: a span begins wherever the position before is not there."""
    firsts = [p for p in sorted(positions) if p - 1 not in positions]
    return tuple(range(p, next(q for q in itertools.count(p) if q not in positions)) for p in firsts)


@for_each(itertools.product(SETS, repeat=2))
def test_joined_is_the_union(*parts):
    spans = [span for positions in parts for span in (range(5, 5), *reversed(spans_of(positions)))]
    assert joined(*spans) == spans_of(parts[0] | parts[1])


@for_each((h, w) for h in SETS for w in SETS if w <= h)
def test_places_are_where_positions_stand(held, wanted):
    row, parts = sorted(held), places(spans_of(wanted), spans_of(held))
    assert [p for part in parts for p in row[part]] == sorted(wanted)
    assert all(a.stop < b.start for a, b in itertools.pairwise(parts))
