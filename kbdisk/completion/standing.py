"""Where a value that was filled in stands in an entity: as it was written, or as the cells of a table spell it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kbdisk.entity import Path, Text, Tree, at, walk
from kbdisk.loaders.table.cells import TRUTHS
from kbdisk.loaders.values import columns
from kbdisk.loaders.values.numbers import Separators
from kbdisk.schemas.text.numerals import is_number


def standing(tree: Tree, path: Path, value: Any, *, cells: bool, beside: bool = False) -> dict[Path, Any]:
    """What of a tree a value is, and where; nothing where something else, or more, is there.

    A table has places for more than there is. With `cells` the value may be in columns: a quantity in two, a link as
    its id, what is one value as the first of a list. With `beside` other sources may have put values beside it.
    """
    try:
        there = at(tree, path)
    except KeyError:
        there = None
    if there is not None and _leaves(there) == _leaves(value):
        return {path: value}
    if beside and isinstance(there, list) and not isinstance(value, list):
        return next(({(*path, i): value} for i, one in enumerate(there) if _leaves(one) == _leaves(value)), {})
    return _in_cells(tree, path, value) if cells else {}


def _leaves(value: Any) -> dict[Path, tuple[bool, Any]]:
    """What there is of a value; to Python true is 1."""
    return {path: (isinstance(one, bool), one) for path, one in walk({"": value}) if one is not None}


def _in_cells(tree: Tree, path: Path, value: Any) -> dict[Path, Any]:
    said = {_column(at, leaf): leaf for at, leaf in columns.leaves_of(path, value) if leaf is not None}
    place = _place(tree, next(iter(said)) if isinstance(value, Text) else path)
    if place is None:
        return {}
    there = {(*place, *within[1:]): leaf for within, leaf in walk({"": at(tree, place)}) if leaf is not None}
    places = [_place(tree, column) for column in said]
    found = [there.get(one, there.get((*one, 0))) if one is not None else None for one in places]
    same = len(there) == len(said) and all(map(_is_cell, found, said.values()))
    return {place: at(tree, place)} if same else {}


def _column(path: Path, leaf: Any) -> Path:
    return columns.in_language(path, leaf.language) if isinstance(leaf, Text) else path


def _place(tree: Tree, path: Path) -> Path | None:
    """Where a table has what stands at a path: what is one value elsewhere is the first where others have a list."""
    here: Any = tree
    place: Path = ()
    for key in path:
        if isinstance(here, list) and isinstance(key, str) and here:
            here, place = here[0], (*place, 0)
        try:
            here, place = at(here, (key,)), (*place, key)
        except KeyError:
            return None
    return place


def _is_cell(there: Any, value: Any) -> bool:
    """Whether a cell was read as this, of whatever type."""
    if there is None:
        return False
    if is_number(there) and is_number(value):
        return bool(there == value if type(there) is type(value) else float(there) == float(value))
    if isinstance(value, str) and (isinstance(there, bool) or is_number(there)):
        return any(_is_cell(there, one) for one in _readings(value))
    try:
        return columns.text_of(there) == columns.text_of(value)
    except ValueError:
        return False


def _readings(text: str) -> Iterator[Any]:
    """What a column may read a text as, that is text elsewhere."""
    if text in TRUTHS:
        yield TRUTHS[text]
    for marks in (Separators(), Separators(comma=True), Separators(comma=True, comma_is_decimal=True)):
        if marks.see(text, 1) and marks.decimal is not None:
            yield marks.reader()(text)
