"""Styles per kind: how a value is observed, in which forms it is written, and how its missing parts are filled.

A form is a value of Python in a tree; how it is spelt in a file is the format's business. Where there is no schema, a value takes
the form that its neighbours seem to have (`Examples`).

    numbers, labels, truths, texts, links    as themselves, or as a string; a text in a language
    dates           parts, years, ISO strings, or strings in the schema's order with the usual separators and zeros
    quantities      parts with value and unit, text such as 6.9 kg or $6.90, or bare numbers in the main unit
    coordinates     parts, pairs, text
    other kinds     parts, text, or as themselves

The row of a kind names its style; a new style needs an example in tests/styles/test_styles.py.

The layout of a date is its text with Y, M and D in the place of its numbers: Y-M-D, D. M. Y, Y-00-00, Y-M-DT00:00:00Z. A new
date has a time of day where most have the same one. Where each has a time of its own, no date is written without one.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from math import isclose
from typing import Any, NamedTuple

from kbdisk.entity import Coordinate, Date, Link, Path, Quantity, Text, with_values
from kbdisk.plugins import load_part
from kbdisk.schemas.composites import Kind, Parts, kind_rows
from kbdisk.schemas.composites.base import apply_kind, fields_of, split_kind
from kbdisk.schemas.composites.coordinate import LATITUDE, LONGITUDE, NAMES, PAIR
from kbdisk.schemas.composites.coordinate import Coordinate as CoordinateKind
from kbdisk.schemas.composites.date import CARRIED, NUMBERS, NUMERIC_DATE
from kbdisk.schemas.composites.date import Date as DateKind
from kbdisk.schemas.composites.quantity import MAX_CONVERTED_ERROR, UNIT, VALUE, shortest
from kbdisk.schemas.composites.quantity import Quantity as QuantityKind
from kbdisk.schemas.text import dates
from kbdisk.schemas.text.numerals import Measure, has_int, is_finite, measure, show_digits
from kbdisk.styles.habits import TYPED, Form, Habit, write_in_first_form
from kbdisk.styles.numbers import measured_as

STRING, PARTS = Form("string"), Form("parts")  # of a number or a link; of a composite
BARE, DIGITS, PAIRED = Form("bare"), Form("digits"), Form("pair")  # of quantities, and of coordinates
YEAR, ISO = Form("year"), Form("iso")  # of dates
TIMED, CLOCK = "timed", "clock"  # text with a time of day that recurs; with one of too many
MAX_TIMES = 20  # times of day that are forms of their own
UNKNOWN_PART = "00"  # in the text of a date
OPTIONAL_PARTS = (("precision",), ("time",))  # of a date, that may be written without being in the value
MAX_EXAMPLES = 20  # values kept of each path
NUMBER_TYPES = (int, float, Decimal)

_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_DAY_LAYOUTS = {  # the layout of a full day, by what it looks like
    re.compile(r"\d{8}"): "YMD",
    re.compile(r"\d{4}/\d\d/\d\d"): "Y/M/D",
    re.compile(r"\d\d\.\d\d\.\d{4}"): "D.M.Y",
}
_VALUE_KEYS = ("value", "amount", "quantity", "number", "magnitude")
_UNIT_KEYS = ("unit", "units", "unitText", "unitCode", "currency")
_COORDINATE_KEYS = (("latitude", "longitude"), ("lat", "lon"), ("lat", "lng"), ("lat", "long"))
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[A-Za-z0-9]+)*")


class KindStyle(NamedTuple):
    """The functions of a kind. `write` raises a ValueError where a form cannot express a value."""

    observe: Callable[[Any, Any, Habit], None]
    forms: Callable[[Any, Any, Habit], Iterator[Form]]
    write: Callable[[Any, Form, Any, Habit], Any]
    fill: Callable[[Any, Any, Parts, Habit], dict[Path, Any]]
    shared: bool = False  # a path without values takes the form of other values of its kind
    types: tuple[type[Any], ...] = ()  # of values in the schema's form that `resemble` takes
    resemble: Callable[[Any, list[Any], list[Any]], Any] | None = None  # without a schema: see `Examples`


# ---------------------------------------------------------------- one value at one path


def write_value(kind: Kind, value: Any, habit: Habit) -> Any:
    """A value in the most common form that can express it; ValueError where none can."""
    style = style_of(kind)

    def write(form: Form) -> Any:
        raw = style.write(kind, form, value, habit)
        if not is_read_as(kind, raw, value):
            raise ValueError
        return raw

    try:
        return write_in_first_form(style.forms(kind, value, habit), write)
    except ValueError as error:
        if not habit.forms:
            return style.write(kind, TYPED, value, habit)
        raise ValueError(str(error) or f"no form of the others can say {value!r}") from None


def fill_value(kind: Kind, raw: Any, value: Any, habit: Habit) -> dict[Path, Any]:
    """The missing parts of a value that is given in part.

    ValueError where the given parts differ from those of the value, or where there is no place for the missing ones.
    """
    empty = isinstance(raw, dict) and all(part is None for part in raw.values())
    if empty and isinstance(written := write_value(kind, value, habit), dict):
        return {(key,): part for key, part in written.items()}
    given = {} if empty else split_kind(kind, apply_kind(kind, raw))
    wanted = split_kind(kind, value)
    for path in sorted(given.keys() & wanted.keys()):  # the unit before its amount
        if not is_same(given[path], wanted[path]):
            part_name = f"the {path[0]} " if path else ""
            raise ValueError(f"{part_name}{given[path]!r} is given, which {wanted[path]!r} would change")
    missing = {path: leaf for path, leaf in wanted.items() if path not in given}
    put = style_of(kind).fill(kind, raw, missing, habit) if missing else {}
    full = [path[0] for path in put if isinstance(raw, dict) and raw.get(path[0]) == []]
    if full:
        raise ValueError(f"[] is given as its {full[0]}, and has no place for more")
    return put


def is_read_as(kind: Kind, raw: Any, value: Any) -> bool:
    """Whether a raw value is read as the value. It may also state the precision of a date and its usual time of day."""
    read, wanted = split_kind(kind, apply_kind(kind, raw)), split_kind(kind, value)
    near = tolerance(kind)
    has_all = all(path in read and is_same(leaf, read[path], near) for path, leaf in wanted.items())
    return has_all and all(path in wanted or path in OPTIONAL_PARTS for path in read)


def is_same(first: Any, second: Any, near: float = 0.0) -> bool:
    """Whether two leaves are equal: links by their ids, texts by their words, sets in any order, numbers within a tolerance."""
    if isinstance(first, list) and isinstance(second, list):
        first_members, second_members = ([_comparable(value) for value in members] for members in (first, second))
        return all(value in second_members for value in first_members) and all(
            value in first_members for value in second_members
        )
    if near and is_number(first) and is_number(second):
        return isclose(first, second, rel_tol=near)
    return bool(_comparable(first) == _comparable(second))


def _comparable(value: Any) -> Any:
    """A leaf in a form in which true does not equal 1, as it does in Python."""
    value = value.id if isinstance(value, Link) else value.text if isinstance(value, Text) else value
    return isinstance(value, bool), value


def is_number(value: Any) -> bool:
    """Whether a value is a number, and no truth."""
    return not isinstance(value, str | bool | Text | Link) and hasattr(value, "__float__")


def tolerance(kind: Kind) -> float:
    """The relative tolerance of a number that is read back: conversion between units is inexact."""
    return MAX_CONVERTED_ERROR if isinstance(kind, QuantityKind) and kind.normal else 0.0


def no_place(raw: Any) -> ValueError:
    """The error that a given value has no place for more."""
    return ValueError(f"{raw!r} is given, and has no place for more")


# ---------------------------------------------------------------- numbers, labels, truths, texts, links


def observe_scalar(kind: Kind, raw: Any, habit: Habit) -> None:
    """Observe whether a value is stored as a string, and the language of a text."""
    if is_number(raw):
        habit.numbers.observe(raw)
    elif isinstance(raw, str):
        habit.numbers.observe_text(raw)
    if isinstance(raw, str):
        habit.observe(STRING)
    else:
        habit.observe(Form("typed", raw.language) if isinstance(raw, Text) else TYPED)


def scalar_forms(kind: Kind, value: Any, habit: Habit) -> Iterator[Form]:
    """All forms, the most common first."""
    return habit.ranked_forms()


def write_number(kind: Kind, form: Form, value: Any, habit: Habit) -> Any:
    """A number, or its digits."""
    return habit.numbers.text(value) if form == STRING else habit.numbers.typed(value)


def write_label(kind: Kind, form: Form, value: Any, habit: Habit) -> Any:
    """A label as it is; the label 1 as 1.0 where the others are floats."""
    return habit.numbers.typed(value) if is_number(value) else value


def write_unchanged(kind: Kind, form: Form, value: Any, habit: Habit) -> Any:
    """The value as it is."""
    return value


def write_link(kind: Kind, form: Form, value: Any, habit: Habit) -> Any:
    """A link, or its id."""
    id = value.id if isinstance(value, Link) else value
    return id if form == STRING else Link(id)


def write_text(kind: Kind, form: Form, value: Any, habit: Habit) -> Any:
    """A text in the usual language, unless it states its own."""
    return Text(value, form.detail) if form.detail and isinstance(value, str) else value


def fill_scalar(kind: Kind, raw: Any, new: Parts, habit: Habit) -> dict[Path, Any]:
    """Always a ValueError: a leaf has no parts that could be missing."""
    raise no_place(raw)


# ---------------------------------------------------------------- other kinds: as they are, as text, or as parts


def observe_other(kind: Kind, raw: Any, habit: Habit) -> None:
    """Observe whether a value is text, or parts, and the order of their keys."""
    if isinstance(raw, dict):
        for number in filter(is_number, raw.values()):
            habit.numbers.observe(number)
        habit.observe_keys(tuple(raw))
        habit.observe(PARTS)
    else:
        observe_scalar(kind, raw, habit)


def write_other(kind: Kind, form: Form, value: Any, habit: Habit) -> Any:
    """A value as text, its leaves as parts, or the value as it is."""
    if form == PARTS:
        parts: dict[str, Any] = {"": {}}
        for path, leaf in split_kind(kind, value).items():
            parts = with_values(parts, {("", *path): write_label(kind, form, leaf, habit)})
        return habit.ordered(parts[""])
    if form == STRING:
        return habit.numbers.text(value) if is_number(value) else str(value)
    return write_label(kind, form, value, habit)


def fill_other(kind: Kind, raw: Any, new: Parts, habit: Habit) -> dict[Path, Any]:
    """The missing leaves of a value in parts."""
    if not isinstance(raw, dict):
        raise no_place(raw)
    return {path: write_label(kind, PARTS, leaf, habit) for path, leaf in new.items()}


# ---------------------------------------------------------------- dates


def observe_date(kind: DateKind, raw: Any, habit: Habit) -> None:
    """Observe the form of a date by which of its parts are known."""
    group = known_parts(kind.apply(raw))
    if isinstance(raw, Date):
        _observe_date_form(habit, Form(TYPED.name, raw.time), group)
    elif isinstance(raw, dict):
        for name in NUMBERS:
            if raw.get(name) not in (None, []):
                habit.numbers.observe(raw[name])
        habit.observe_keys(tuple(key for key in raw if key in NUMBERS))
        habit.observe(Form("parts"), group)
    elif isinstance(raw, str):
        _observe_date_form(habit, _date_form(kind, raw, habit), group)
    else:
        habit.numbers.observe(raw)
        habit.observe(YEAR, group)


def known_parts(day: Date) -> str:
    """The initials of the parts that are known: dates without a day may be written in another form."""
    return "".join(name[0].upper() for name in NUMBERS if getattr(day, name) is not None)


def _observe_date_form(habit: Habit, form: Form, group: str) -> None:
    """Count a form; beyond MAX_TIMES times of day all further ones count as one form."""
    if _is_timed(form) and (form, group) not in habit.forms:
        group_forms = [recorded_form for recorded_form, other_group in habit.forms if other_group == group]
        form = Form(CLOCK, form.detail) if sum(map(_is_timed, group_forms)) >= MAX_TIMES else form
        form = next((recorded_form for recorded_form in group_forms if recorded_form.name == form.name == CLOCK), form)
    habit.observe(form, group)


def _is_timed(form: Form) -> bool:
    return form.name == TIMED or (form.name == TYPED.name and form.detail != "")


def _date_form(kind: DateKind, text: str, habit: Habit) -> Form:
    """The form of a date as text, with its layout; observes zeros before months and days."""
    match = (dates.ISO if kind.order == "iso" else NUMERIC_DATE).fullmatch(text)
    if match is None:
        return ISO
    letters = "YMD" if kind.order == "iso" else kind.order.upper()
    layout, end = "", 0
    for number, letter in enumerate(letters, 1):
        digits = match[number]
        if digits is None:
            break
        written = digits if digits == UNKNOWN_PART else letter
        layout += text[end : match.start(number)] + "+" * (digits[0] == "+") + written
        end = match.end(number)
        if letter != "Y" and digits != UNKNOWN_PART:
            habit.padded += (digits[0] == "0") - (len(digits) == 1)
    time = match["time"] if kind.order == "iso" else None
    return Form(TIMED, layout + time) if time else Form("text", layout.strip())


def date_forms(kind: DateKind, value: Date, habit: Habit) -> Iterator[Form]:
    """The forms of dates with the same parts, then others; among texts an unknown part is 00 or left out as elsewhere."""
    group = known_parts(value)
    forms = {form: count for (form, form_group), count in habit.forms.items() if form_group == group}
    forms = forms or _counts_of_forms(habit)
    timed = Counter({form: count for form, count in forms.items() if _is_timed(form) or form.name == CLOCK})
    is_usual = 2 * timed.total() > sum(forms.values())
    if is_usual:
        yield _usual_time(timed)
    yield from (form for form in habit.ranked_forms(group) if not _is_timed(form) and form.name != CLOCK)
    if timed and not is_usual:
        yield _usual_time(timed)
    layouts = [form.detail for form, _ in habit.forms if form.name == "text"]
    if any(UNKNOWN_PART in layout for layout in layouts):
        yield Form("text", "Y-M-00" if value.month else "Y-00-00")
    if kind.order == "iso" and (layouts or any(form == ISO for form, _ in habit.forms)):
        yield ISO


def _counts_of_forms(habit: Habit) -> dict[Form, int]:
    counts = Counter[Form]()
    for (form, _), count in habit.forms.items():
        counts[form] += count
    return counts


def _usual_time(timed: Counter[Form]) -> Form:
    """The form with the time of day that most have; where there is none, one that nothing can be written in."""
    ((form, count),) = timed.most_common(1)
    return form if 2 * count > timed.total() and form.name != CLOCK else Form(CLOCK, form.detail)


def write_date(kind: DateKind, form: Form, value: Date, habit: Habit) -> Any:
    """A date in a form; ValueError where the form cannot express it."""
    match form.name:
        case "typed":
            return replace(value, time=value.time or form.detail)
        case "parts":
            return habit.ordered({str(name): _date_part(part, habit) for (name,), part in kind.split(value).items()})
        case "year":
            if value != Date(value.year) or value.year is None:
                raise ValueError("the others are years alone")
            return habit.numbers.typed(value.year)
        case "iso":
            return dates.write_iso(value)
        case "clock":
            raise ValueError("the others have a time of day each")
    return write_layout(value, form.detail, is_padded=habit.padded >= 0)


def write_layout(day: Date, layout: str, *, is_padded: bool = True) -> str:
    """A date in a layout such as D.M.Y; ValueError where it lacks a part."""
    numbers = {"Y": _year(day.year), "M": _two_digits(day.month, is_padded), "D": _two_digits(day.day, is_padded)}
    written = [numbers.get(letter, letter) for letter in layout]
    if None in written:
        raise ValueError(f"the others are whole dates, such as {_example_date(layout)}")
    return "".join(map(str, written))


def fill_date(kind: DateKind, raw: Any, new: Parts, habit: Habit) -> dict[Path, Any]:
    """The missing parts of a date in parts."""
    if not isinstance(raw, dict):
        missing = ", ".join(str(path[0]) for path in new if path[0] not in CARRIED)
        # without the date: a summary counts equal reasons
        raise ValueError(f"the given date has no place for a {missing}") if missing else no_place(raw)
    return {path: _date_part(part, habit) for path, part in new.items()}


def _date_part(part: Any, habit: Habit) -> Any:
    return part if isinstance(part, str) else habit.numbers.typed(part)


def _year(year: int | None) -> str | None:
    return None if year is None else f"{'-' * (year < 0)}{abs(year):04d}"


def _two_digits(part: int | None, is_padded: bool) -> str | None:
    return None if part is None else f"{part:02d}" if is_padded else str(part)


def _example_date(layout: str) -> str:
    return layout.replace("Y", "1912").replace("M", "11").replace("D", "28")


# ---------------------------------------------------------------- quantities


def observe_quantity(kind: QuantityKind, raw: Any, habit: Habit) -> None:
    """Observe the form of a quantity by its unit; a unit alone is not counted."""
    unit: str | None = None
    if kind.apply(raw).value is None:
        return
    if isinstance(raw, Quantity):
        form, unit, number = TYPED, raw.unit, raw.value
    elif isinstance(raw, dict):
        number, unit = _number_and_unit(kind, raw)
        names = [key for key, part in zip(kind.names, (number, unit), strict=True) if part is not None]
        form = Form("part", " ".join(key for key in raw if key in names))
    elif isinstance(raw, str):
        spelt = measure(raw)
        assert spelt is not None
        habit.numbers.observe_text(kind.pointed(spelt.number))
        unit, number = spelt.unit, None
        form = Form("price" if spelt.before else "text", spelt.gap) if unit else DIGITS
    else:
        form, number = BARE, raw
    if number is not None:
        habit.numbers.observe(number)
    habit.observe(form, unit or kind.unit or "")


def quantity_forms(kind: QuantityKind, value: Quantity, habit: Habit) -> Iterator[Form]:
    """The forms of quantities of the same unit, then others."""
    return habit.ranked_forms(value.unit or "")


def write_quantity(kind: QuantityKind, form: Form, value: Quantity, habit: Habit) -> Any:
    """A quantity in a form."""
    if form == TYPED:
        return value
    if value.value is None:
        raise ValueError("expected a number, got a unit alone")
    match form.name:
        case "part":
            parts = dict(zip(kind.names, (habit.numbers.typed(value.value), value.unit), strict=True))
            return {key: parts[key] for key in form.detail.split() if parts[key] is not None}
        case "text" | "price":
            spelt = Measure("", gap=form.detail, before=form.name == "price")
            return spelt.like(kind.pointed(habit.numbers.text(value.value)), str(value.unit))
        case "digits":
            return kind.pointed(habit.numbers.text(value.value))
    return habit.numbers.typed(value.value)


def fill_quantity(kind: QuantityKind, raw: Any, new: Parts, habit: Habit) -> dict[Path, Any]:
    """The number or the unit of a quantity that has the other; the number is converted to the given unit."""
    if not isinstance(raw, Quantity | dict):
        raise no_place(raw)
    number, unit = (raw.value, raw.unit) if isinstance(raw, Quantity) else _number_and_unit(kind, raw)
    if number is not None:
        new = {path: part for path, part in new.items() if path != VALUE}
    elif VALUE in new and kind.normal and unit is not None:
        new = {**new, VALUE: _converted(kind, new[VALUE], unit)}
    elif VALUE in new:
        given_unit: Parts = {UNIT: unit} if unit is not None else {}
        new = {**new, VALUE: kind.join({**new, **given_unit}).value}
    if isinstance(raw, Quantity):
        return {(): replace(raw, **{str(path[0]): part for path, part in new.items()})}
    names: dict[Path, str] = {VALUE: kind.names[0], UNIT: kind.names[1]}
    return {(names[path],): habit.numbers.typed(part) if path == VALUE else part for path, part in new.items()}


def _number_and_unit(kind: QuantityKind, part: dict[str, Any]) -> tuple[Any, Any]:
    fields = fields_of(part)
    return fields.get(kind.names[0]), fields.get(kind.names[1])


def _converted(kind: QuantityKind, amount: Any, unit: str) -> Any:
    """An amount of the main unit in another unit."""
    conversion = kind.into_main(unit) if unit != kind.unit else None
    return amount if conversion is None else shortest(conversion.back(amount), conversion)


# ---------------------------------------------------------------- coordinates


def observe_coordinate(kind: CoordinateKind, raw: Any, habit: Habit) -> None:
    """Observe the form of a coordinate."""
    form = TYPED
    coordinate = kind.apply(raw)
    if isinstance(raw, dict):
        form = Form("part", " ".join(key for key in raw if key in NAMES))
    elif isinstance(raw, str):
        spelt = PAIR.fullmatch(raw)
        assert spelt is not None
        habit.numbers.observe_text(spelt[1])
        habit.numbers.observe_text(spelt[2])
        form = Form("text", raw[spelt.end(1) : spelt.start(2)])
    elif not isinstance(raw, Coordinate):
        form = PAIRED
    for degrees in (coordinate.latitude, coordinate.longitude) if not isinstance(raw, str) else ():
        if degrees is not None:
            habit.numbers.observe(degrees)
    habit.observe(form)


def write_coordinate(kind: CoordinateKind, form: Form, value: Coordinate, habit: Habit) -> Any:
    """A coordinate in a form."""
    known = {name: degrees for name in ("latitude", "longitude") if (degrees := getattr(value, name)) is not None}
    match form.name:
        case "typed":
            return value
        case "part":
            part = {key: known.get(NAMES[key]) for key in form.detail.split()}
            return {key: habit.numbers.typed(degrees) for key, degrees in part.items() if degrees is not None}
    if len(known) < 2:
        raise ValueError("expected a latitude and a longitude, got one of them")
    pair = [known["latitude"], known["longitude"]]
    pair = pair[::-1] if kind.longitude_first else pair
    return form.detail.join(map(habit.numbers.text, pair)) if form.name == "text" else [*map(habit.numbers.typed, pair)]


def fill_coordinate(kind: CoordinateKind, raw: Any, new: Parts, habit: Habit) -> dict[Path, Any]:
    """The missing half of a coordinate."""
    if isinstance(raw, Coordinate):
        return {(): replace(raw, **{str(path[0]): part for path, part in new.items()})}
    degrees = {path: habit.numbers.typed(part) for path, part in new.items() if path in (LATITUDE, LONGITUDE)}
    if isinstance(raw, list) and len(raw) == 2:
        first = (LONGITUDE,) if kind.longitude_first else (LATITUDE,)
        return {(0 if path in first else 1,): part for path, part in degrees.items()}
    if isinstance(raw, dict):
        return {(_key(str(path[0]), raw, habit),): part for path, part in degrees.items()}
    raise no_place(raw)


def _key(half: str, raw: dict[str, Any], habit: Habit) -> str:
    """The key of the latitude or the longitude: as in the part itself, else as in the others."""
    example_keys = [key for form in habit.ranked_forms() if form.name == "part" for key in form.detail.split()]
    return next((key for key in [*raw, *example_keys] if NAMES.get(key) == half), half)


# ---------------------------------------------------------------- forms by examples alone


class Examples:
    """The first values at one path of a tree. Without a schema, a new value takes the form that they seem to have."""

    __slots__ = ("_alike", "lists", "values")

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.lists: list[list[Any]] = []  # which the path leads to; their items are values at the path, too
        self._alike: list[Any] | None = None  # the values of the most frequent type, once they are asked for

    def observe(self, raw: Any) -> None:
        """Take in a value."""
        examples = self.lists if type(raw) is list else self.values
        if raw is not None and len(examples) < MAX_EXAMPLES:
            examples.append(raw)
            self._alike = None

    def write(self, value: Any) -> Any:
        """A value in the form of most examples; ValueError where they have none for it."""
        type_: Any = type(value)
        style = _style_of_values(type_)
        if style is None or style.resemble is None:
            return value
        if self._alike is None:
            types = Counter(map(_type_of, self.values)).most_common(1)
            self._alike = [raw for raw in self.values if _type_of(raw) is types[0][0]]
        raw = style.resemble(value, self._alike, self.lists)
        if raw is None:
            raise ValueError(f"no form of the others can express a {type(value).__name__}")
        return raw


def _type_of(raw: Any) -> type[Any]:
    return float if type(raw) in NUMBER_TYPES else type(raw)


def _all_match(pattern: re.Pattern[str], examples: list[Any]) -> bool:
    return bool(examples) and all(type(raw) is str and pattern.fullmatch(raw) for raw in examples)


def resemble_number(number: int | float | Decimal, examples: list[Any], _: list[Any]) -> Any:
    """A number, as an integer where all are integers; or its digits."""
    if not is_finite(number):
        return None
    if _all_match(_NUMBER, examples):
        return _digits(number)
    is_whole = bool(examples) and all(type(raw) is int for raw in examples) and has_int(number)
    return int(number) if is_whole else number


def _digits(number: int | float | Decimal) -> str:
    return show_digits(number) if type(number) is int else str(number)


def resemble_date(date: Date, examples: list[Any], _: list[Any]) -> Any:
    """A date as text in the layout of all, a year, or parts."""
    first = examples[0] if examples else None
    if type(first) is str:
        layout = next((layout for pattern, layout in _DAY_LAYOUTS.items() if _all_match(pattern, examples)), None)
        is_full = date.year is not None and date.month is not None and date.day is not None
        return (write_layout(date, layout) if layout and is_full else dates.show_day(date)) + date.time
    if type(first) is int and date.year is not None:
        return date.year
    if type(first) is dict and "year" in first:
        return {key: part for key in NUMBERS if (part := getattr(date, key)) is not None}
    return None


def resemble_quantity(quantity: Quantity, examples: list[Any], _: list[Any]) -> Any:
    """The number alone, text with its unit, or a part with both."""
    first = examples[0] if examples else None
    if type(first) in NUMBER_TYPES:
        return quantity.value
    if type(first) is str and quantity.value is not None and is_finite(quantity.value):
        spelt = measured_as(examples, quantity.unit)
        if spelt is not None:
            return spelt.like(_digits(quantity.value), quantity.unit or "")
        return _digits(quantity.value) if _all_match(_NUMBER, examples) else None
    if type(first) is dict:
        keys = {key for part in examples for key in part}
        value_key = next((key for key in _VALUE_KEYS if key in keys), None)
        unit_key = next((key for key in _UNIT_KEYS if key in keys), None)
        if value_key and unit_key:
            parts = {value_key: quantity.value, unit_key: quantity.unit}
            return {key: part for key, part in parts.items() if part is not None}
    return None


def resemble_coordinate(place: Coordinate, examples: list[Any], lists: list[Any]) -> Any:
    """A part with both halves, a pair, or text."""
    first = examples[0] if examples else None
    if type(first) is dict:
        keys = next((keys for keys in _COORDINATE_KEYS if all(key in first for key in keys)), None)
        return dict(zip(keys, (place.latitude, place.longitude), strict=True)) if keys else None
    if lists and all(len(pair) == 2 and all(type(part) in NUMBER_TYPES for part in pair) for pair in lists):
        return [place.latitude, place.longitude]
    if type(first) is str:
        return f"{place.latitude},{' ' if ', ' in first else ''}{place.longitude}"
    return None


def resemble_link(link: Link, examples: list[Any], _: list[Any]) -> Any:
    """The id, or a part with it."""
    first = examples[0] if examples else None
    if type(first) is str:
        return link.id
    if type(first) is int and link.id.isdecimal():
        return int(link.id)
    key = next((key for key in ("@id", "id") if type(first) is dict and key in first), None)
    return {key: link.id} if key else None


def resemble_text(text: Text, examples: list[Any], _: list[Any]) -> Any:
    """The text alone, or by its language."""
    first = examples[0] if examples else None
    if type(first) is str:
        return text.text
    if type(first) is dict and all(_LANGUAGE.fullmatch(key) and type(inner) is str for key, inner in first.items()):
        return {text.language: text.text}
    return None


# ---------------------------------------------------------------- the styles that rows name


NUMBER_STYLE = KindStyle(
    observe_scalar, scalar_forms, write_number, fill_scalar, types=NUMBER_TYPES, resemble=resemble_number
)
LABEL_STYLE = KindStyle(observe_scalar, scalar_forms, write_label, fill_scalar)
UNCHANGED_STYLE = KindStyle(observe_scalar, scalar_forms, write_unchanged, fill_scalar)
TEXT_STYLE = KindStyle(observe_scalar, scalar_forms, write_text, fill_scalar, types=(Text,), resemble=resemble_text)
LINK_STYLE = KindStyle(
    observe_scalar, scalar_forms, write_link, fill_scalar, shared=True, types=(Link,), resemble=resemble_link
)
DATE_STYLE = KindStyle(
    observe_date, date_forms, write_date, fill_date, shared=True, types=(Date,), resemble=resemble_date
)
QUANTITY_STYLE = KindStyle(
    observe_quantity,
    quantity_forms,
    write_quantity,
    fill_quantity,
    shared=True,
    types=(Quantity,),
    resemble=resemble_quantity,
)
COORDINATE_STYLE = KindStyle(
    observe_coordinate,
    scalar_forms,
    write_coordinate,
    fill_coordinate,
    shared=True,
    types=(Coordinate,),
    resemble=resemble_coordinate,
)
DEFAULT_STYLE = KindStyle(observe_other, scalar_forms, write_other, fill_other)  # of kinds without a style of their own


@functools.cache
def _style_of_type(type_: Any) -> KindStyle:
    row = next((row for row in kind_rows().values() if row.type is type_), None)
    return DEFAULT_STYLE if row is None or row.style is None else load_part(row.style)


@functools.cache
def _style_of_values(type_: Any) -> KindStyle | None:
    """The style of a kind that has values of a type."""
    styles = (load_part(row.style) for row in kind_rows().values() if row.style is not None)
    return next((style for style in styles if type_ in style.types), None)


def style_of(kind: Kind) -> KindStyle:
    """The style of a kind, by its row."""
    type_: Any = type(kind)
    return _style_of_type(type_)
