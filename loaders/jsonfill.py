"""New values set into the text of one entity, and nothing else changed.

A null gives way to its value, "" to one that may stand there instead (`Filled.blank`); a new member follows the last of its object, a new item the last of its list,
in the manner of the text: its indentation, its line ends, its blanks after colons and commas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from kbdisk.entity import Filled, Path, show
from kbdisk.loaders.edits import Change, spliced
from kbdisk.loaders.habits import Habits
from kbdisk.loaders.kb import Report, Was
from kbdisk.loaders.manner import Manner
from kbdisk.loaders.outline import Place, outline

TAKEN = "has a value already"


@dataclass(slots=True)
class Wish:
    """What is to stand somewhere: a value, or something further inside. `paths` are the fills it is made of."""

    value: Any = None
    blank: bool = False  # whether an empty string gives way to it
    inner: dict[str | int, Wish] = field(default_factory=dict)
    paths: list[Path] = field(default_factory=list)


def fill(text: bytes, id: str, filled: Mapping[Path, Filled], habits: Habits, report: Report) -> bytes:
    """The text with what was filled in it; what has no place is told to the report."""
    refused: dict[Path, str] = {}
    root = Wish()
    for path, one in filled.items():
        problem = _add(root, path, habits, one)
        if problem:
            refused[path] = problem
    filling = Filling(text, Manner(text, outline(text), habits), refused)
    if root.inner:
        filling.into(filling.manner.root, root)
    report.written += len(filled) - len(refused)
    report.unwritable.extend((id, path, reason) for path, reason in refused.items())
    report.was |= {(id, path): was for path, was in filling.was.items() if path not in refused}
    return filling.done()


def _add(wish: Wish, path: Path, habits: Habits, filled: Filled) -> str:
    """Put one value among the wishes; the reason where it cannot be."""
    if filled.value is None or not path:
        return "is no value"
    try:
        plain = habits.plain(path, filled.value)
        orjson.dumps(plain)
    except (ValueError, TypeError) as error:  # orjson's own error is a TypeError
        return f"cannot be written as JSON: {error}"
    steps = [wish]
    for key in path:
        if any(type(other) is not type(key) for other in steps[-1].inner):
            return "would make a part and a list of the same value"
        if steps[-1].value is not None:
            return "stands within another new value"
        steps.append(steps[-1].inner.setdefault(key, Wish()))
    if steps[-1].inner or steps[-1].value is not None:
        return "has other new values within it"
    steps[-1].value, steps[-1].blank = plain, filled.blank
    for step in steps:
        step.paths.append(path)
    return ""


class Filling:
    """Gathers the changes to one text."""

    def __init__(self, text: bytes, manner: Manner, refused: dict[Path, str]) -> None:
        self.text = text
        self.manner = manner
        self.refused = refused
        self.changes: list[Change] = []
        self.was: dict[Path, Was] = {}  # of each fill, what stood in the places that it took

    def done(self) -> bytes:
        """The text with all changes made."""
        return spliced(self.text, self.changes)

    def into(self, place: Place, wish: Wish, path: Path = ()) -> None:
        """Set wishes into what stands at a place, which is at this path of the text."""
        if place.kind == "null" or (wish.blank and self.text[place.start : place.end] == b'""'):
            self.replace(place, _made(wish), path, wish.paths)
        elif wish.value is not None:
            if _fits(self.text, place, wish.value) and _adds(place, wish.value):
                self.merge(place, wish.value, path, wish.paths)
            else:
                self.refuse(wish, TAKEN)
        elif place.kind == "part" and all(isinstance(key, str) for key in wish.inner):
            self.into_part(place, wish, path)
        elif place.kind == "list" and all(isinstance(key, int) for key in wish.inner):
            self.into_list(place, wish, path)
        else:
            self.refuse(wish, "would stand within a value that is no part")

    def into_part(self, place: Place, wish: Wish, path: Path) -> None:
        new: list[tuple[str | None, Any]] = []
        for key, inner in wish.inner.items():
            if key in place.named:
                self.into(place.named[str(key)], inner, (*path, key))
            else:
                new.append((str(key), _made(inner)))
                self._note(place, path, key, inner.paths)
        self.add(place, new)

    def into_list(self, place: Place, wish: Wish, path: Path) -> None:
        size = len(place.inner)
        for key, inner in wish.inner.items():
            if int(key) < size:
                self.into(place.inner[int(key)].place, inner, (*path, key))
        last = max(int(key) for key in wish.inner)
        for i in range(size, last + 1):
            self._note(place, path, i, wish.inner[i].paths if i in wish.inner else wish.paths)
        self.add(place, [(None, _made(wish.inner[i]) if i in wish.inner else None) for i in range(size, last + 1)])

    def merge(self, place: Place, value: Any, path: Path, fills: list[Path]) -> None:
        """Set what is missing of a value into the part that has some of it."""
        if place.kind == "null":
            self.replace(place, value, path, fills)
        elif place.kind == "part":
            for key in value.keys() & place.named.keys():
                self.merge(place.named[key], value[key], (*path, key), fills)
            new = [(key, one) for key, one in value.items() if key not in place.named]
            for key, _ in new:
                self._note(place, path, key, fills)
            self.add(place, new)

    def make_list(self, place: Place, values: list[Any]) -> None:
        """Put values behind the one that stands at a place, which becomes the first of a list."""
        start, text = self.manner.behind(place, values)
        self.changes += [(place.start, place.start, b"["), (start, start, text)]

    def replace(self, place: Place, value: Any, path: Path, fills: list[Path]) -> None:
        before = self.text[place.start : place.end].decode()
        for fill in fills:
            self.was.setdefault(fill, {})[show(path)] = before
        self.changes.append((place.start, place.end, self.manner.written(value, *self.manner.indent_at(place))))

    def add(self, place: Place, new: list[tuple[str | None, Any]]) -> None:
        if new:
            start, text = self.manner.added(place, new)
            self.changes.append((start, start, text))

    def _note(self, place: Place, path: Path, key: str | int, fills: list[Path]) -> None:
        """Note for some fills that nothing stood at a key; of an empty part or list, how its brackets looked."""
        before = None if place.inner else self.text[place.start : place.end].decode()
        for fill in fills:
            self.was.setdefault(fill, {})[show((*path, key) if place.inner else path)] = before

    def refuse(self, wish: Wish, reason: str) -> None:
        self.refused.update(dict.fromkeys(wish.paths, reason))


def _made(wish: Wish) -> Any:
    """The value that a wish comes to."""
    if wish.value is not None:
        return wish.value
    if all(isinstance(key, int) for key in wish.inner):
        last = max(int(key) for key in wish.inner)
        return [_made(wish.inner[i]) if i in wish.inner else None for i in range(last + 1)]
    return {str(key): _made(inner) for key, inner in wish.inner.items()}


def _fits(text: bytes, place: Place, value: Any) -> bool:
    """Whether a value has all that stands at a place already."""
    if place.kind == "null":
        return True
    if place.kind == "part" and type(value) is dict:
        return all(key in value and _fits(text, inner, value[key]) for key, inner in place.named.items())
    try:
        return bool(orjson.loads(text[place.start : place.end]) == orjson.loads(orjson.dumps(value)))
    except orjson.JSONDecodeError:  # a number beyond orjson's
        return text[place.start : place.end] == orjson.dumps(value)


def _adds(place: Place, value: Any) -> bool:
    """Whether a fitting value has anything that does not stand there."""
    if place.kind == "part" and type(value) is dict:
        return any(key not in place.named or _adds(place.named[key], value[key]) for key in value)
    return place.kind == "null"
