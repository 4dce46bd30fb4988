"""Positions with gaps between them, as spans in ascending order that do not touch."""

Spans = tuple[range, ...]
"""Each of one position at the least."""


def joined(*parts: range) -> Spans:
    """The positions of any of ``parts``, which may overlap and come in any order."""
    found: list[range] = []
    for part in sorted(filter(len, parts), key=lambda part: part.start):
        if found and part.start <= found[-1].stop:
            found[-1] = range(found[-1].start, max(found[-1].stop, part.stop))
        else:
            found.append(part)
    return tuple(found)


def places(wanted: Spans, held: Spans) -> list[slice]:
    """Where the wanted positions stand in a row of those that are held, neighbours as one slice."""
    found: list[slice] = []
    row, spans = 0, iter(held)
    span = next(spans, range(0))
    for part in wanted:
        while part.start >= span.stop:
            row, span = row + len(span), next(spans)
        first = row + part.start - span.start
        if found and found[-1].stop == first:
            found[-1] = slice(found[-1].start, first + len(part))
        else:
            found.append(slice(first, first + len(part)))
    return found
