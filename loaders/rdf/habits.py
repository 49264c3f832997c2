"""Lexical habits: how a property's literals of one datatype are spelt, so that a new one is spelt so too.

    1.50, 12.00        at least two decimals        +965.465    a sign on what is positive
    9.5E2, 1.0e+03     exponents                    1990Z       the same zone on every date
    Point(19.8 41.3)   how a point is spelt         1, 0        truths as digits

`write` never rounds: a value that the datatype cannot hold is a ValueError.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from kbdisk.entity import Coordinate, Date, Link, Quantity, Text
from kbdisk.loaders.numberhabit import NumberHabit, most
from kbdisk.loaders.rdf import literals, places
from kbdisk.loaders.rdf.vocabulary import XSD
from kbdisk.schemas.text import dates, numerals
from kbdisk.schemas.text.numerals import Number, has_int

Samples = Sequence[str]


def write(value: Any, datatype: str, samples: Samples = ()) -> str:
    """The lexical form of a value in a datatype, spelt as the samples are; ValueError where it does not fit."""
    if datatype in WRITERS:
        return WRITERS[datatype](value, datatype, samples)
    if literals.unit_of(datatype) is not None or literals.is_ucum(datatype):
        return _quantity(value, datatype, samples)
    return _string(value, datatype, samples)


# ---------------------------------------------------------------- numbers


def as_number(value: Any) -> Number:
    """A number, or the number of a quantity (its unit is known elsewhere), or a year; ValueError else."""
    if isinstance(value, Quantity):
        value = value.value
    elif isinstance(value, Date) and value.year is not None and dates.plain(value) == Date(value.year):
        value = value.year
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError(f"expected a number, got {_shown(value)}")
    return value


def _number(value: Any, datatype: str, samples: Samples) -> str:
    number = as_number(value)
    if datatype in literals.INTEGERS:
        if not has_int(number):
            raise ValueError(f"expected a whole number, got {number}")
        lexical = NumberHabit(0, NumberHabit.of(samples).plus).show(int(number))
    else:
        habit = NumberHabit.of(samples)
        if not samples and datatype != literals.DECIMAL:
            habit = NumberHabit(1, exponent="E0" if "e" in repr(number) else "")
        elif not samples:
            habit = NumberHabit(isinstance(number, float))
        lexical = (replace(habit, exponent="") if datatype == literals.DECIMAL else habit).show(number)
    read = literals.value_of(lexical, datatype)
    if read != number and read != _as_float(number):
        raise ValueError(f"expected a number that {datatype} can hold, got {number}")
    return lexical


def _as_float(number: Number) -> float | None:
    try:
        return float(number)
    except OverflowError:
        return None


def _truth(value: Any, datatype: str, samples: Samples) -> str:
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, got {_shown(value)}")
    digits = bool(samples) and most(text in ("0", "1") for text in samples)
    return str(int(value)) if digits else str(value).lower()


# ---------------------------------------------------------------- dates, places, quantities


def _date(value: Any, datatype: str, samples: Samples) -> str:
    """A date, with the time of day or zone that most have where it has none itself; a whole number as a year."""
    name = literals.DATES[datatype]
    date = Date(value) if type(value) is int else dates.plain(value) if isinstance(value, Date) else value
    if isinstance(date, Date) and not date.time and name not in dates.EDTF:
        times = Counter(_time(text, datatype) for text in samples)
        usual, count = next(iter(times.most_common(1)), ("", 0))
        date = replace(date, time=usual or "") if 2 * count > len(samples) else date
    return dates.write(date if isinstance(date, Date | dict) else _shown(date), name)


def _time(text: str, datatype: str) -> str | None:
    try:
        return getattr(literals.value_of(text, datatype), "time", "")
    except ValueError:
        return None


def _clock(value: Any, datatype: str, samples: Samples) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected a time of day such as 12:00:00, got {_shown(value)}")
    literals.value_of(value, datatype)
    return value


def _point(value: Any, datatype: str, samples: Samples) -> str:
    if isinstance(value, str) and isinstance(literals.value_of(value, datatype), str):
        return value  # another geometry
    if not isinstance(value, Coordinate):
        raise ValueError(f"expected a coordinate, got {_shown(value)}")
    return places.write(value, samples)


def _quantity(value: Any, datatype: str, samples: Samples) -> str:
    """A number, with its unit where the datatype does not name it."""
    unit = literals.unit_of(datatype)
    quantity = Quantity(value, unit) if unit and isinstance(value, int | float | Decimal) else value
    if not isinstance(quantity, Quantity) or quantity.value is None or quantity.unit is None:
        raise ValueError(f"expected a number with its unit, got {_shown(value)}")
    if unit and quantity.unit != unit:
        raise ValueError(f"expected a quantity in {unit}, got one in {quantity.unit}")
    number = NumberHabit.of([text.partition(" ")[0] for text in samples]).show(as_number(quantity))
    lexical = number if unit else f"{number} {quantity.unit}".rstrip()
    if literals.value_of(lexical, datatype) != quantity:
        raise ValueError(f"expected a number with its unit, got {_shown(value)}")
    return lexical


# ---------------------------------------------------------------- strings


def _string(value: Any, datatype: str, samples: Samples) -> str:
    """A string; what is no string only where the samples are spelt so: numbers among numbers, dates among dates."""
    if isinstance(value, str | Text):
        return value if isinstance(value, str) else value.text
    if isinstance(value, Link) and ":" not in value.id:
        return value.id
    read, spelt = SPELT.get(type(value), (None, None))
    if read is None or spelt is None or not samples or not all(_reads(read, text) for text in samples):
        raise ValueError(f"expected a string, got {_shown(value)}")
    return spelt(value, samples)


def _uri(value: Any, datatype: str, samples: Samples) -> str:
    return value.id if isinstance(value, Link) else _string(value, datatype, samples)


def _reads(read: Callable[[str], Any], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def _number_as_string(value: Number, samples: Samples) -> str:
    return NumberHabit.of(samples).show(value)


SPELT: dict[type[Any], tuple[Callable[[str], Any], Callable[[Any, Samples], str]]] = {
    **dict.fromkeys((int, float, Decimal), (numerals.number, _number_as_string)),
    bool: (
        lambda text: literals.value_of(text, literals.BOOLEAN),
        lambda value, samples: _truth(value, literals.BOOLEAN, samples),
    ),
    Date: (dates.read_iso, lambda value, samples: dates.write_iso(dates.plain(value))),
}


def _shown(value: Any) -> str:
    """A value in an error message."""
    match value:
        case Link():
            return f"a link to <{value.id}>"
        case Quantity():
            return f"{value.value} of unit {value.unit}"
        case dict() | list():
            return f"a {'part' if isinstance(value, dict) else 'list'}"
    return repr(value) if isinstance(value, str) else numerals.show(value) if type(value) is int else str(value)


WRITERS: dict[str, Callable[[Any, str, Samples], str]] = {
    **dict.fromkeys(literals.NUMBERS, _number),
    literals.BOOLEAN: _truth,
    **dict.fromkeys(literals.DATES, _date),
    XSD + "time": _clock,
    **dict.fromkeys(literals.POINTS, _point),
    literals.ANY_URI: _uri,
}
