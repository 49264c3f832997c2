"""One value that stands at one place: ROWS says for each kind how its form is learnt, written, and filled where some of it is given.

To add a kind: one row, and an example in tests/test_shapes.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isclose
from typing import Any, NamedTuple

from kbdisk.entity import Link as LinkValue
from kbdisk.entity import Path
from kbdisk.entity import Text as TextValue
from kbdisk.schemas.composites import Kind, Parts
from kbdisk.schemas.composites.base import apply_kind, split_kind
from kbdisk.schemas.composites.coordinate import Coordinate
from kbdisk.schemas.composites.date import Date
from kbdisk.schemas.composites.quantity import MAX_CONVERTED_ERROR, Quantity
from kbdisk.schemas.kinds import Boolean, Category, Link, Number, Text
from kbdisk.shapes import amounts, dates, scalars
from kbdisk.shapes.habit import TYPED, Form, Habit

UNSAID = (("precision",), ("time",))  # of a date, that others have and a new one may be written with


class Row(NamedTuple):
    """What there is to do for one kind. `write` is a ValueError where a form cannot say a value."""

    see: Callable[[Any, Any, Habit], None]
    ways: Callable[[Any, Any, Habit], Iterator[Form]]
    write: Callable[[Any, Form, Any, Habit], Any]
    fill: Callable[[Any, Any, Parts, Habit], dict[Path, Any]]
    shared: bool = False  # whether a place without values takes the form of others of its kind


ROWS: dict[type[Any], Row] = {
    Number: Row(scalars.see, scalars.ways, scalars.write_number, scalars.fill),
    Category: Row(scalars.see, scalars.ways, scalars.write_label, scalars.fill),
    Boolean: Row(scalars.see, scalars.ways, scalars.write_itself, scalars.fill),
    Text: Row(scalars.see, scalars.ways, scalars.write_text, scalars.fill),
    Link: Row(scalars.see, scalars.ways, scalars.write_link, scalars.fill, shared=True),
    Date: Row(dates.see, dates.ways, dates.write, dates.fill, shared=True),
    Quantity: Row(
        amounts.see_quantity, amounts.quantity_ways, amounts.write_quantity, amounts.fill_quantity, shared=True
    ),
    Coordinate: Row(
        amounts.see_coordinate, amounts.coordinate_ways, amounts.write_coordinate, amounts.fill_coordinate, shared=True
    ),
}


def see(kind: Kind, raw: Any, habits: list[Habit]) -> None:
    """Take note of a value that fits: at its place, and for all of its kind."""
    for habit in habits:
        ROWS[type(kind)].see(kind, raw, habit)


def write(kind: Kind, value: Any, habit: Habit) -> Any:
    """A value as the others are written: in the most common form that can say it; ValueError where none can."""
    row = ROWS[type(kind)]
    reason = ""
    for form in row.ways(kind, value, habit):
        try:
            raw = row.write(kind, form, value, habit)
            if says(kind, raw, value):
                return raw
        except ValueError as error:
            reason = reason or str(error)
    if not habit.forms:
        return row.write(kind, TYPED, value, habit)
    raise ValueError(reason or f"no form of the others can say {value!r}")


def fill(kind: Kind, raw: Any, value: Any, habit: Habit) -> dict[Path, Any]:
    """What of a value is missing where some of it stands; ValueError where what stands there says otherwise, or has no place."""
    empty = isinstance(raw, dict) and all(one is None for one in raw.values())
    if empty and isinstance(whole := write(kind, value, habit), dict):
        return {(key,): part for key, part in whole.items()}
    given = {} if empty else split_kind(kind, apply_kind(kind, raw))
    wanted = split_kind(kind, value)
    for path in sorted(given.keys() & wanted.keys()):  # the unit before its amount
        if not is_same(given[path], wanted[path]):
            what = f"the {path[0]} " if path else ""
            raise ValueError(f"{what}{given[path]!r} is given, which {wanted[path]!r} would change")
    new = {path: leaf for path, leaf in wanted.items() if path not in given}
    put = ROWS[type(kind)].fill(kind, raw, new, habit) if new else {}
    full = [path[0] for path in put if isinstance(raw, dict) and raw.get(path[0]) == []]
    if full:
        raise ValueError(f"[] is given as its {full[0]}, and has no place for more")
    return put


def says(kind: Kind, raw: Any, value: Any) -> bool:
    """Whether what is written is read as the value. A date may be told to be no more precise than it is, and have a usual time."""
    read, wanted = split_kind(kind, apply_kind(kind, raw)), split_kind(kind, value)
    near = MAX_CONVERTED_ERROR if amounts.loose(kind) else 0.0
    same = all(path in read and is_same(leaf, read[path], near) for path, leaf in wanted.items())
    return same and all(path in wanted or path in UNSAID for path in read)


def is_same(one: Any, other: Any, near: float = 0.0) -> bool:
    """Whether two leaves are one value: links by their ids, texts by what they say, sets whatever their order."""
    if isinstance(one, list) and isinstance(other, list):
        ones, others = [_plain(value) for value in one], [_plain(value) for value in other]
        return all(value in others for value in ones) and all(value in ones for value in others)
    if near and scalars.is_number(one) and scalars.is_number(other):
        return isclose(one, other, rel_tol=near)
    return bool(_plain(one) == _plain(other))


def _plain(value: Any) -> Any:
    """To Python true is 1; to a knowledge base it is not."""
    value = value.id if isinstance(value, LinkValue) else value.text if isinstance(value, TextValue) else value
    return isinstance(value, bool), value
