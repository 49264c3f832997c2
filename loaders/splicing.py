"""Changes to a text, made all at once."""

from __future__ import annotations

from collections.abc import Iterable

Change = tuple[int, int, bytes]  # from, to, what stands there then


def spliced(text: bytes, changes: Iterable[Change]) -> bytes:
    """The text with changes that do not overlap; every other byte as it was."""
    pieces, last = [], 0
    for start, end, new in sorted(changes):
        pieces += [text[last:start], new]
        last = end
    return b"".join([*pieces, text[last:]])
