"""New values set into the text of one JSON object, and taken out of it again; every other byte stays as it was.

A null gives way to its value, and so does "" where it marks a gap (`Filled.blank`). A new member follows the last of its
object, a new item the last of its list, in the layout of the text: its indentation, line ends, and blanks after colons
and commas. `restore` is the inverse: a value that replaced a text gives way to it, and a new member or item goes with its
comma, as does a container that was made to hold it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from kbdisk.entity import Filled, Path, read_path, show
from kbdisk.loaders.edits import Change, apply_changes
from kbdisk.loaders.json.styles import JsonStyle
from kbdisk.loaders.json.text import NOT_FINITE
from kbdisk.loaders.kb import NOT_NOTED, Report
from kbdisk.loaders.replaced import Was

# ---------------------------------------------------------------- where values stand in a text


NULL_TOKENS = {b"null", *NOT_FINITE}
_TOKEN = re.compile(rb'[{}\[\],:]|"(?:[^"\\]++|\\.)*+"?+|[^\s{}\[\],:"]++', re.DOTALL)


@dataclass(slots=True)
class TextSpan:
    """The place of a value in the text, and the places of its members or items."""

    kind: Literal["part", "list", "null", "value"]
    start: int
    end: int = 0
    inner: list[Entry] = field(default_factory=list)
    named: dict[str, TextSpan] = field(default_factory=dict)  # by key; the last of equal keys counts


@dataclass(slots=True)
class Entry:
    """A member of a part, or an item of a list: it starts with its key, or with its value."""

    start: int
    key_end: int
    place: TextSpan


def outline(text: bytes) -> TextSpan:
    """The places of the one value in a text."""
    root = TextSpan("list", 0)
    stack = [root]
    key: re.Match[bytes] | None = None
    for token in _TOKEN.finditer(text):
        first = token[0][:1]
        if first in b",:":
            continue
        if first in b"}]":
            stack.pop().end = token.end()
        elif stack[-1].kind == "part" and key is None:
            key = token
        else:
            place = TextSpan(_kind_of(token[0]), token.start(), token.end())
            _enter(stack[-1], key, place)
            key = None
            if first in b"{[":
                stack.append(place)
    return root.inner[0].place


def _kind_of(token: bytes) -> Literal["part", "list", "null", "value"]:
    return "part" if token == b"{" else "list" if token == b"[" else "null" if token in NULL_TOKENS else "value"


def _enter(owner: TextSpan, key: re.Match[bytes] | None, place: TextSpan) -> None:
    if key is None:
        owner.inner.append(Entry(place.start, place.start, place))
    else:
        owner.inner.append(Entry(key.start(), key.end(), place))
        owner.named[orjson.loads(key[0])] = place


# ---------------------------------------------------------------- the layout of a text


class Layout:
    """The layout of a JSON text, learnt from one entity: which parts and lists spread over lines, indentation, colons, commas."""

    def __init__(self, text: bytes, root: TextSpan, style: JsonStyle) -> None:
        self.text = text
        self.root = root
        self.ascii = style.ascii
        places = [place for place in _containers(root) if place.inner]
        self.newline = b"\r\n" if any(b"\r\n" in self._lead(place) for place in places) else b"\n"
        self.colon = next(
            (self._colon(entry) for place in places if place.kind == "part" for entry in place.inner),
            style.colon or b": ",
        )
        self.comma = next(filter(None, map(self._inline_comma, places)), b", " if self.colon[-1:] == b" " else b",")
        self.is_spread = self._spreads([root], False)
        self.spreads_parts = self._spreads(
            [inner for inner in places if inner.kind == "part" and inner is not root], self.is_spread
        )
        self.spreads_lists = self._spreads([inner for inner in places if inner.kind == "list"], self.is_spread)
        self.indent_unit = self._step() if self.is_spread else b""

    # ------------------------------------------------------------ additions

    def added(self, place: TextSpan, new: list[tuple[str | None, Any]]) -> tuple[int, bytes]:
        """Where to put new members (or items: without a key) of a part or list, and their text."""
        if not place.inner:
            return place.start + 1, self._first(place, new)
        last = place.inner[-1]
        gap = self._gap(place)
        colon = self._colon(last) if place.kind == "part" else b""
        spread = b"\n" in gap
        entries = (self._entry(key, value, colon, _indent(gap), spread) for key, value in new)
        return last.place.end, b"".join(gap + entry for entry in entries)

    def list_around(self, place: TextSpan, values: list[Any]) -> tuple[int, bytes]:
        """Where to put values that follow a single value in a new list, and their text, to the end of the list."""
        return place.end, b"".join(self.comma + self.spell(value, b"", False) for value in values) + b"]"

    def _first(self, place: TextSpan, new: list[tuple[str | None, Any]]) -> bytes:
        """The first entries of an empty part or list."""
        spread = self.is_spread and (self.spreads_parts if place.kind == "part" else self.spreads_lists)
        start = self.text.rfind(b"\n", 0, place.start)
        if not spread or start < 0:
            return self.comma.join(self._entry(key, value, self.colon, b"", False) for key, value in new)
        line = self.text[start + 1 : place.start]
        indent = line[: len(line) - len(line.lstrip())]
        lead = self.newline + indent + self.indent_unit
        entries = [self._entry(key, value, self.colon, indent + self.indent_unit, True) for key, value in new]
        closed = b"\n" in self.text[place.start : place.end]
        return lead + (b"," + lead).join(entries) + (b"" if closed else self.newline + indent)

    def _entry(self, key: str | None, value: Any, colon: bytes, indent: bytes, spread: bool) -> bytes:
        text = self.spell(value, indent, spread)
        return text if key is None else self._scalar(key) + colon + text

    def spell(self, value: Any, indent: bytes, spread: bool) -> bytes:
        """A value in this layout; its members or items are indented further than `indent`."""
        if not value or not isinstance(value, dict | list):
            return self._scalar(value)
        opened, closed = (b"{", b"}") if isinstance(value, dict) else (b"[", b"]")
        pairs: Any = value.items() if isinstance(value, dict) else ((None, item) for item in value)
        spread = spread and (self.spreads_parts if isinstance(value, dict) else self.spreads_lists)
        deeper = indent + self.indent_unit if spread else b""
        entries = [self._entry(key, item, self.colon, deeper, spread) for key, item in pairs]
        if not spread:
            return opened + self.comma.join(entries) + closed
        lead = self.newline + deeper
        return opened + lead + (b"," + lead).join(entries) + self.newline + indent + closed

    def _scalar(self, value: Any) -> bytes:
        text = orjson.dumps(value)
        return json.dumps(value).encode() if self.ascii and not text.isascii() else text

    def indent_at(self, place: TextSpan) -> tuple[bytes, bool]:
        """The indentation of the line of a place, and whether a value put there may spread over lines."""
        start = self.text.rfind(b"\n", 0, place.start)
        line = self.text[start + 1 : place.start]
        return line[: len(line) - len(line.lstrip())], self.is_spread and start >= 0

    # ------------------------------------------------------------ the given text

    def _lead(self, place: TextSpan) -> bytes:
        """The text before the first entry."""
        return self.text[place.start + 1 : place.inner[0].start]

    def _gap(self, place: TextSpan) -> bytes:
        """The text between the last entry and a new one."""
        if len(place.inner) > 1:
            return self.text[place.inner[-2].place.end : place.inner[-1].start]
        lead = self._lead(place)
        return b"," + lead if b"\n" in lead else self.comma

    def _colon(self, entry: Entry) -> bytes:
        return self.text[entry.key_end : entry.place.start]

    def _inline_comma(self, place: TextSpan) -> bytes | None:
        gap = self._gap(place) if len(place.inner) > 1 else b"\n"
        return None if b"\n" in gap else gap

    def _spreads(self, places: list[TextSpan], otherwise: bool) -> bool:
        """Whether most of these have each entry on a separate line."""
        flags = [b"\n" in self._lead(place) for place in places if place.inner]
        return 2 * sum(flags) > len(flags) if flags else otherwise

    def _step(self) -> bytes:
        """The additional indentation inside of a bracket."""
        outer = _indent(self.text[: self.root.end - 1][-200:])
        return _indent(self._lead(self.root)).removeprefix(outer)


def _containers(root: TextSpan) -> Iterator[TextSpan]:
    stack = [root]
    while stack:
        place = stack.pop()
        yield place
        stack.extend(entry.place for entry in reversed(place.inner) if entry.place.kind in ("part", "list"))


def _indent(text: bytes) -> bytes:
    """The blanks at the end of a text, back to its last line end, without a comma before them."""
    line = text[text.rfind(b"\n") + 1 :]
    return line[len(line.rstrip(b" \t")) :] if b"\n" in text else b""


# ---------------------------------------------------------------- new values


HAS_VALUE = "has a value already"


@dataclass(slots=True)
class NewValue:
    """A new value at a place, or new values inside of it. `paths` are those of the filled values that it is made of."""

    value: Any = None
    blank: bool = False  # whether an empty string gives way to it
    inner: dict[str | int, NewValue] = field(default_factory=dict)
    paths: list[Path] = field(default_factory=list)


def fill(text: bytes, id: str, filled: Mapping[Path, Filled], style: JsonStyle, report: Report) -> bytes:
    """The text with filled values; values without a place go to the report."""
    refused: dict[Path, str] = {}
    root = NewValue()
    for path, filled_value in filled.items():
        problem = _add_value(root, path, style, filled_value)
        if problem:
            refused[path] = problem
    filling = TextFiller(text, Layout(text, outline(text), style), refused)
    if root.inner:
        filling.into(filling.layout.root, root)
    report.written += len(filled) - len(refused)
    report.unwritable.extend((id, path, reason) for path, reason in refused.items())
    for path, was in filling.was.items():
        if path not in refused:
            report.was.add(id, path, was)
    return filling.done()


def _add_value(new_value: NewValue, path: Path, style: JsonStyle, filled: Filled) -> str:
    """Add a filled value to the new values; returns the reason where that is impossible."""
    if filled.value is None or not path:
        return "is no value"
    try:
        styled = style.write(path, filled.value)
        orjson.dumps(styled)
    except (ValueError, TypeError) as error:  # orjson's own error is a TypeError
        return f"cannot be written as JSON: {error}"
    steps = [new_value]
    for key in path:
        if any(type(other) is not type(key) for other in steps[-1].inner):
            return "would make a part and a list of the same value"
        if steps[-1].value is not None:
            return "stands within another new value"
        steps.append(steps[-1].inner.setdefault(key, NewValue()))
    if steps[-1].inner or steps[-1].value is not None:
        return "has other new values within it"
    steps[-1].value, steps[-1].blank = styled, filled.blank
    for step in steps:
        step.paths.append(path)
    return ""


class TextFiller:
    """Gathers the changes that fill values into one text."""

    def __init__(self, text: bytes, layout: Layout, refused: dict[Path, str]) -> None:
        self.text = text
        self.layout = layout
        self.refused = refused
        self.changes: list[Change] = []
        self.was: dict[Path, Was] = {}  # path of a filled value -> the texts that it replaced

    def done(self) -> bytes:
        """The text with all changes made."""
        return apply_changes(self.text, self.changes)

    def into(self, place: TextSpan, new_value: NewValue, path: Path = ()) -> None:
        """Set a new value, or those inside of it, into the value at a place, which has this path in the text."""
        if place.kind == "null" or (new_value.blank and self.text[place.start : place.end] == b'""'):
            self.replace(place, _value_of(new_value), path, new_value.paths)
        elif new_value.value is not None:
            if _agrees(self.text, place, new_value.value) and _extends(place, new_value.value):
                self.merge(place, new_value.value, path, new_value.paths)
            else:
                self.refuse(new_value, HAS_VALUE)
        elif place.kind == "part" and all(isinstance(key, str) for key in new_value.inner):
            self.into_part(place, new_value, path)
        elif place.kind == "list" and all(isinstance(key, int) for key in new_value.inner):
            self.into_list(place, new_value, path)
        else:
            self.refuse(new_value, "would stand within a value that is no part")

    def into_part(self, place: TextSpan, new_value: NewValue, path: Path) -> None:
        new: list[tuple[str | None, Any]] = []
        for key, inner in new_value.inner.items():
            if key in place.named:
                self.into(place.named[str(key)], inner, (*path, key))
            else:
                new.append((str(key), _value_of(inner)))
                self._note(place, path, key, inner.paths)
        self.add(place, new)

    def into_list(self, place: TextSpan, new_value: NewValue, path: Path) -> None:
        size = len(place.inner)
        for key, inner in new_value.inner.items():
            if int(key) < size:
                self.into(place.inner[int(key)].place, inner, (*path, key))
        last = max(int(key) for key in new_value.inner)
        for i in range(size, last + 1):
            self._note(place, path, i, new_value.inner[i].paths if i in new_value.inner else new_value.paths)
        self.add(
            place,
            [(None, _value_of(new_value.inner[i]) if i in new_value.inner else None) for i in range(size, last + 1)],
        )

    def merge(self, place: TextSpan, value: Any, path: Path, fills: list[Path]) -> None:
        """Set the missing members of a value into the object that has some of them."""
        if place.kind == "null":
            self.replace(place, value, path, fills)
        elif place.kind == "part":
            for key in value.keys() & place.named.keys():
                self.merge(place.named[key], value[key], (*path, key), fills)
            new = [(key, member) for key, member in value.items() if key not in place.named]
            for key, _ in new:
                self._note(place, path, key, fills)
            self.add(place, new)

    def make_list(self, place: TextSpan, values: list[Any]) -> None:
        """Turn the value at a place into the first of a list, followed by more values."""
        start, text = self.layout.list_around(place, values)
        self.changes += [(place.start, place.start, b"["), (start, start, text)]

    def replace(self, place: TextSpan, value: Any, path: Path, fills: list[Path]) -> None:
        before = self.text[place.start : place.end].decode()
        for fill in fills:
            self.was.setdefault(fill, {})[show(path)] = before
        self.changes.append((place.start, place.end, self.layout.spell(value, *self.layout.indent_at(place))))

    def add(self, place: TextSpan, new: list[tuple[str | None, Any]]) -> None:
        if new:
            start, text = self.layout.added(place, new)
            self.changes.append((start, start, text))

    def _note(self, place: TextSpan, path: Path, key: str | int, fills: list[Path]) -> None:
        """Note for some filled values that nothing stood at a key; of an empty object or list, its text."""
        before = None if place.inner else self.text[place.start : place.end].decode()
        for fill in fills:
            self.was.setdefault(fill, {})[show((*path, key) if place.inner else path)] = before

    def refuse(self, new_value: NewValue, reason: str) -> None:
        self.refused.update(dict.fromkeys(new_value.paths, reason))


def _value_of(new_value: NewValue) -> Any:
    """The complete new value."""
    if new_value.value is not None:
        return new_value.value
    if all(isinstance(key, int) for key in new_value.inner):
        last = max(int(key) for key in new_value.inner)
        return [_value_of(new_value.inner[i]) if i in new_value.inner else None for i in range(last + 1)]
    return {str(key): _value_of(inner) for key, inner in new_value.inner.items()}


def _agrees(text: bytes, place: TextSpan, value: Any) -> bool:
    """Whether a value agrees with all values that a place has already."""
    if place.kind == "null":
        return True
    if place.kind == "part" and type(value) is dict:
        return all(key in value and _agrees(text, inner, value[key]) for key, inner in place.named.items())
    try:
        return bool(orjson.loads(text[place.start : place.end]) == orjson.loads(orjson.dumps(value)))
    except orjson.JSONDecodeError:  # a number beyond orjson's
        return text[place.start : place.end] == orjson.dumps(value)


def _extends(place: TextSpan, value: Any) -> bool:
    """Whether a value that agrees adds anything to a place."""
    if place.kind == "part" and type(value) is dict:
        return any(key not in place.named or _extends(place.named[key], value[key]) for key in value)
    return place.kind == "null"


# ---------------------------------------------------------------- values taken out again


WRITTEN_OTHERWISE = "is written in another way than kbdisk wrote it"
DEFAULT_REPLACED = "null"  # replaces a single value where the replaced text was not noted


def restore(text: bytes, values: Mapping[Path, Was | None]) -> tuple[bytes, dict[Path, str]]:
    """The text without the values at these paths, each with the texts that it replaced; and the values that stay, with why."""
    root = outline(text)
    removals, reasons = _Removals(), dict[Path, str]()
    for path, was in values.items():
        problem = removals.add(root, path, was)
        if problem:
            reasons[path] = problem
    return apply_changes(text, _Restoring(removals).changes_of(root)), reasons


@dataclass
class _Removals:
    """The text that replaces the value at each path: the text that is put back, or None where the value is removed."""

    gone: dict[Path, str | None] = field(default_factory=dict)  # paths of values
    made: dict[Path, str | None] = field(default_factory=dict)  # paths of containers made for values, once empty

    def add(self, root: TextSpan, path: Path, was: Was | None) -> str:
        """Take out a value; returns why it stays, if it does."""
        place = _place_at(root, path)
        if place is None:
            return WRITTEN_OTHERWISE
        if was is None:
            if place.kind in ("part", "list"):
                return NOT_NOTED
            self.gone[path] = DEFAULT_REPLACED
            return ""
        before = {read_path(text) if text else (): old for text, old in was.items()}
        within = {place: old for place, old in before.items() if place[: len(path)] == path}
        if any(_place_at(root, place) is None for place in within):
            return WRITTEN_OTHERWISE
        self.gone |= within or {path: None}
        self.made |= {place: old for place, old in before.items() if place not in within}
        return ""

    def made_at(self, path: Path) -> tuple[bool, str | None]:
        """Whether the container at a path was made to hold values, and the text that stood there before."""
        is_within = any(path[:length] in self.made for length in range(1, len(path)))
        if path in self.made and not (
            is_within and isinstance(path[-1], int)
        ):  # a null in a list that was made is no gap
            return True, self.made[path]
        return is_within, None


class _Restoring:
    """Gathers the changes that take values out of one text."""

    def __init__(self, removals: _Removals) -> None:
        self.removals = removals
        self.changes: list[Change] = []

    def changes_of(self, root: TextSpan) -> list[Change]:
        """All changes to the text of an entity."""
        if self.removals.gone and self._within(root, ()) and () in self.removals.made:
            self.changes.clear()
            self._put_back(root, self.removals.made[()])
        return self.changes

    def _within(self, place: TextSpan, path: Path) -> bool:
        """Take values out of an object or a list; returns whether it is left empty."""
        names = {id(inner): key for key, inner in place.named.items()}
        goes = [False] * len(place.inner)
        for i in reversed(range(len(place.inner))):
            inner = place.inner[i].place
            key = i if place.kind == "list" else names.get(id(inner))
            if key is not None:  # another of the same name counts
                is_last = all(goes[i + 1 :])
                goes[i] = self._goes(inner, (*path, key), is_last)
                if goes[i] and place.kind == "list" and not is_last:  # those behind it keep their places
                    goes[i] = self._put_back(inner, DEFAULT_REPLACED)
        self._take_out(place, goes)
        return bool(goes) and all(goes)

    def _goes(self, place: TextSpan, path: Path, is_last: bool) -> bool:
        """Put back the text that stood at a place; returns whether the value is removed."""
        if path in self.removals.gone:
            is_within = isinstance(path[-1], int) and self.removals.made_at(path)[0]
            return self._put_back(place, None if is_within else self.removals.gone[path])
        is_made, before = self.removals.made_at(path)
        if place.kind == "null":  # where it was made, it stands between the last item of a list and a new one
            return is_made and is_last and self._put_back(place, before)
        if place.kind == "value" or not (is_made or self._leads_on(path)):
            return False
        changes = len(self.changes)
        is_empty = self._within(place, path)
        if is_empty and is_made:
            del self.changes[changes:]
            return self._put_back(place, before)
        return False

    def _leads_on(self, path: Path) -> bool:
        return any(place[: len(path)] == path for place in (*self.removals.gone, *self.removals.made))

    def _put_back(self, place: TextSpan, before: str | None) -> bool:
        if before is not None:
            self.changes.append((place.start, place.end, before.encode()))
        return before is None

    def _take_out(self, place: TextSpan, goes: list[bool]) -> None:
        """Take out entries, each with the comma before it, or those at the start with the comma behind them."""
        entries = place.inner
        if goes and all(goes):
            self.changes.append((place.start + 1, place.end - 1, b""))
            return
        first = goes.index(False) if False in goes else 0
        if first:
            self.changes.append((entries[0].start, entries[first].start, b""))
        for i in range(first + 1, len(entries)):
            if goes[i]:
                self.changes.append((entries[i - 1].place.end, entries[i].place.end, b""))


def _place_at(root: TextSpan, path: Path) -> TextSpan | None:
    """The place at a path of the text."""
    place: TextSpan | None = root
    for key in path:
        if place is None:
            return None
        if isinstance(key, int):
            place = place.inner[key].place if place.kind == "list" and key < len(place.inner) else None
        else:
            place = place.named.get(key) if place.kind == "part" else None
    return place
