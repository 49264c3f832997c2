"""Edits of a text: changes of byte ranges, made all at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Change = tuple[int, int, bytes]  # start, end, the bytes that replace that range


def inverse_changes(changes: Iterable[Change], text: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """For each change in order: its place in the new text, the bytes it replaced, and the bytes there now."""
    shift = 0
    for start, end, new in sorted(changes):
        yield start + shift, text[start:end], new
        shift += len(new) - (end - start)


def as_text(piece: bytes) -> str:
    """Bytes as text that `as_bytes` turns back, whatever encoding they are in."""
    return piece.decode("utf-8", "surrogateescape")


def as_bytes(text: str) -> bytes:
    """The bytes of a piece of text."""
    return text.encode("utf-8", "surrogateescape")


def apply_changes(text: bytes, changes: Iterable[Change]) -> bytes:
    """The text with changes that do not overlap; every other byte as it was."""
    pieces, last = [], 0
    for start, end, new in sorted(changes):
        pieces += [text[last:start], new]
        last = end
    return b"".join([*pieces, text[last:]])
