"""How a JSON text is laid out, and new members and items in the same manner.

Learnt from the text of one entity: whether its parts and lists spread over lines, how far they are indented,
what stands after a colon and after a comma.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import orjson

from kbdisk.loaders.habits import Habits
from kbdisk.loaders.outline import Entry, Place


class Manner:
    """The layout of one text."""

    def __init__(self, text: bytes, root: Place, habits: Habits) -> None:
        self.text = text
        self.root = root
        self.ascii = habits.ascii
        places = [place for place in _containers(root) if place.inner]
        self.newline = b"\r\n" if any(b"\r\n" in self._lead(place) for place in places) else b"\n"
        self.colon = next(
            (self._colon(entry) for place in places if place.kind == "part" for entry in place.inner),
            habits.colon or b": ",
        )
        self.comma = next(filter(None, map(self._inline_comma, places)), b", " if self.colon[-1:] == b" " else b",")
        self.spread = self._spreads([root], False)
        self.spread_parts = self._spreads(
            [one for one in places if one.kind == "part" and one is not root], self.spread
        )
        self.spread_lists = self._spreads([one for one in places if one.kind == "list"], self.spread)
        self.unit = self._step() if self.spread else b""

    # ------------------------------------------------------------ additions

    def added(self, place: Place, new: list[tuple[str | None, Any]]) -> tuple[int, bytes]:
        """Where to put new members (or items: without a key) of a part or list, and their text."""
        if not place.inner:
            return place.start + 1, self._first(place, new)
        last = place.inner[-1]
        gap = self._gap(place)
        colon = self._colon(last) if place.kind == "part" else b""
        spread = b"\n" in gap
        entries = (self._entry(key, value, colon, _indent(gap), spread) for key, value in new)
        return last.place.end, b"".join(gap + entry for entry in entries)

    def behind(self, place: Place, values: list[Any]) -> tuple[int, bytes]:
        """Where to put values that make a list of one that stands alone, and their text, to the end of the list."""
        return place.end, b"".join(self.comma + self.written(value, b"", False) for value in values) + b"]"

    def _first(self, place: Place, new: list[tuple[str | None, Any]]) -> bytes:
        """The first entries of an empty part or list."""
        spread = self.spread and (self.spread_parts if place.kind == "part" else self.spread_lists)
        start = self.text.rfind(b"\n", 0, place.start)
        if not spread or start < 0:
            return self.comma.join(self._entry(key, value, self.colon, b"", False) for key, value in new)
        line = self.text[start + 1 : place.start]
        indent = line[: len(line) - len(line.lstrip())]
        lead = self.newline + indent + self.unit
        entries = [self._entry(key, value, self.colon, indent + self.unit, True) for key, value in new]
        closed = b"\n" in self.text[place.start : place.end]
        return lead + (b"," + lead).join(entries) + (b"" if closed else self.newline + indent)

    def _entry(self, key: str | None, value: Any, colon: bytes, indent: bytes, spread: bool) -> bytes:
        text = self.written(value, indent, spread)
        return text if key is None else self._scalar(key) + colon + text

    def written(self, value: Any, indent: bytes, spread: bool) -> bytes:
        """A value in this manner; what it holds is indented further than `indent`."""
        if not value or not isinstance(value, dict | list):
            return self._scalar(value)
        opened, closed = (b"{", b"}") if isinstance(value, dict) else (b"[", b"]")
        pairs: Any = value.items() if isinstance(value, dict) else ((None, one) for one in value)
        spread = spread and (self.spread_parts if isinstance(value, dict) else self.spread_lists)
        deeper = indent + self.unit if spread else b""
        entries = [self._entry(key, one, self.colon, deeper, spread) for key, one in pairs]
        if not spread:
            return opened + self.comma.join(entries) + closed
        lead = self.newline + deeper
        return opened + lead + (b"," + lead).join(entries) + self.newline + indent + closed

    def _scalar(self, value: Any) -> bytes:
        text = orjson.dumps(value)
        return json.dumps(value).encode() if self.ascii and not text.isascii() else text

    def indent_at(self, place: Place) -> tuple[bytes, bool]:
        """How far the line of a place is indented, and whether what is put there may spread."""
        start = self.text.rfind(b"\n", 0, place.start)
        line = self.text[start + 1 : place.start]
        return line[: len(line) - len(line.lstrip())], self.spread and start >= 0

    # ------------------------------------------------------------ what there is

    def _lead(self, place: Place) -> bytes:
        """What stands before the first entry."""
        return self.text[place.start + 1 : place.inner[0].start]

    def _gap(self, place: Place) -> bytes:
        """What is to stand between the last entry and a new one."""
        if len(place.inner) > 1:
            return self.text[place.inner[-2].place.end : place.inner[-1].start]
        lead = self._lead(place)
        return b"," + lead if b"\n" in lead else self.comma

    def _colon(self, entry: Entry) -> bytes:
        return self.text[entry.key_end : entry.place.start]

    def _inline_comma(self, place: Place) -> bytes | None:
        gap = self._gap(place) if len(place.inner) > 1 else b"\n"
        return None if b"\n" in gap else gap

    def _spreads(self, places: list[Place], otherwise: bool) -> bool:
        """Whether most of these have their entries on lines of their own."""
        told = [b"\n" in self._lead(place) for place in places if place.inner]
        return 2 * sum(told) > len(told) if told else otherwise

    def _step(self) -> bytes:
        """How much further the inside of a bracket is indented."""
        outer = _indent(self.text[: self.root.end - 1][-200:])
        return _indent(self._lead(self.root)).removeprefix(outer)


def _containers(root: Place) -> Iterator[Place]:
    stack = [root]
    while stack:
        place = stack.pop()
        yield place
        stack.extend(entry.place for entry in reversed(place.inner) if entry.place.kind in ("part", "list"))


def _indent(text: bytes) -> bytes:
    """The blanks that a text ends with, back to its last line end; a comma before them is left out."""
    line = text[text.rfind(b"\n") + 1 :]
    return line[len(line.rstrip(b" \t")) :] if b"\n" in text else b""
