"""What an entity that was read as JSON is called: its id, its classes, its label.

The id is the value of `--id`, or of the first of "@id", "id", "_id" that the first entity has as a string or a
whole number; "@id" counts in every entity. Where there is none, the id is the entity's number: entities count from 1, in the order
of their source, in every format; headers and blank lines do not count.
The classes are in "@type"; the label is the first of "name", "label", "title" that is a string.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

from kbdisk.entity import Path, Tree, at, show
from kbdisk.schemas.text.numerals import show_digits

ID_KEYS = ("@id", "id", "_id")
LABEL_KEYS = ("name", "label", "title")
NAMES = ("@id", "@type")
NO_PROPERTY = "stands under a key that begins with @, which only JSON can say"
UNNAMED = "an entity without an id where the others have one; its number is its id"


class Naming:
    """How the entities of one source are called; settled by the first."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.key: str | None = None
        self.settled = False

    def settle(self, tree: Tree) -> None:
        """Look at the first entity."""
        if not self.settled:
            self.settled = True
            told = self.path[0] if self.path is not None and len(self.path) == 1 else None
            usual = next((key for key in ID_KEYS if _as_id(tree.get(key)) is not None), None)
            self.key = told if isinstance(told, str) else usual if self.path is None else None

    def id_of(self, tree: Tree) -> str | None:
        """An entity's id, or None; ValueError where it was to be at a told path and is not."""
        if self.path is None:
            own = _as_id(tree.get("@id"))
            return own if own is not None or self.key is None else _as_id(tree.get(self.key))
        try:
            value = at(tree, self.path)
        except KeyError:
            raise ValueError(f"expected an id at {show(self.path)}, got nothing. Add it, or leave --id out.") from None
        found = _as_id(value)
        if found is None:
            raise ValueError(f"expected an id at {show(self.path)}, got {value!r}. Ids are strings or whole numbers.")
        return found

    def ids(self, trees: list[Any], first: int) -> list[str] | None:
        """All their ids, fast: None where not each is an object with a plain string under the key.

        No tree may have a key that begins with "@". Where there is no key, the numbers from `first` on.
        """
        if self.key is None:
            usual = self.path is None and set(map(type, trees)) == {dict}
            return list(map(str, range(first, first + len(trees)))) if usual else None
        try:
            found = list(map(itemgetter(self.key), trees))
            "".join(found)  # fails unless all are strings
        except (KeyError, TypeError):
            return None
        return found if all(found) else None


def labels(trees: list[Tree]) -> Iterable[str]:
    """The label of each, fast."""
    try:
        found = list(map(itemgetter(LABEL_KEYS[0]), trees))
        "".join(found)  # fails unless all are strings
    except (KeyError, TypeError):
        return map(label_of, trees)
    return found


def label_of(tree: Tree) -> str:
    """The first of the usual keys that is a string, or nothing."""
    for key in LABEL_KEYS:
        label = tree.get(key)
        if type(label) is str:
            return label
    return ""


def classes_of(tree: Tree) -> tuple[str, ...]:
    """The classes in "@type": one, or a list of them."""
    told = tree.get("@type")
    if type(told) is str:
        told = [told]
    return tuple(one for one in told if type(one) is str and one) if type(told) is list else ()


def no_properties(tree: Tree) -> Iterator[Path]:
    """Where values stand that `walk` passes by: keys that begin with "@", and neither name nor classify."""
    stack: list[tuple[Path, Any]] = [((), tree)]
    while stack:
        path, value = stack.pop()
        if type(value) is list:
            stack.extend(((*path, i), one) for i, one in enumerate(value))
        elif type(value) is dict:
            stack.extend(((*path, key), one) for key, one in value.items() if key[:1] != "@")
            yield from ((*path, key) for key in value if key[:1] == "@" and key not in NAMES and value[key] is not None)


def _as_id(value: object) -> str | None:
    if type(value) is str:
        return value or None
    return show_digits(value) if type(value) is int else None
