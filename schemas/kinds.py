"""The kinds of leaf: number, category, boolean, text, link, set. Frozen plain data, without tensors.

`check(value)` raises a ValueError `expected ..., got ...` where a value is not of the kind.
To add a kind: a frozen dataclass with `check`, and one row in KINDS with an example.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypeAlias

from kbdisk.entity import Link as LinkValue
from kbdisk.entity import Text as TextValue
from kbdisk.schemas.text.numerals import Number as AnyNumber
from kbdisk.schemas.text.numerals import as_float, is_finite, is_number, is_whole, show

Transform: TypeAlias = Literal["auto", "none", "log", "quantile", "standard"]
Label: TypeAlias = str | int | float | bool  # a value of a category

MAX_NUMBER = 1e300  # sums and differences of larger numbers may be no finite floats
TOO_LARGE = f"expected a number from {-MAX_NUMBER:g} to {MAX_NUMBER:g}"
MAX_EXACT = 10**15  # smaller whole numbers have the same spelling as int, float or Decimal
MAX_LABELS_SHOWN = 8  # in an error


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The error of a predicted number up to which it counts as correct: absolute, or relative to the true number."""

    absolute: float = 0.0
    relative: float = 0.0

    def __post_init__(self) -> None:
        if not all(0 <= size < math.inf for size in (self.absolute, self.relative)):
            raise ValueError("expected a tolerance of at least 0")

    def around(self, value: float) -> float:
        """The largest error at a number."""
        return max(self.absolute, self.relative * abs(value))

    def times(self, factor: float) -> Tolerance:
        """The tolerance in another unit, of which `factor` are one of this unit."""
        return Tolerance(self.absolute * factor, self.relative)


EXACT_NUMBER = Tolerance()  # of parts of dates and lengths of lists


@dataclass(frozen=True, slots=True)
class Number:
    """A number on a real scale, such as a weight or a year. `transform` is advice to the codec."""

    integer: bool = False
    minimum: float | None = None
    maximum: float | None = None
    transform: Transform = "auto"
    decimals: int | None = None
    above: float | None = None  # exclusive bounds
    below: float | None = None
    tolerance: Tolerance | None = None  # None: one that suits the known values

    def check(self, value: Any) -> None:
        """A finite number within the bounds."""
        if not is_number(value) or not is_finite(value):
            raise ValueError(f"expected a number, got {value!r}")
        if not -MAX_NUMBER <= value <= MAX_NUMBER:
            raise ValueError(f"{TOO_LARGE}, got {_described(value)}")
        if self.integer and not is_whole(value):
            raise ValueError(f"expected a whole number, got {value!r}")
        if self.minimum is not None and value < self.minimum:
            raise ValueError(f"expected a number of at least {as_float(self.minimum):.15g}, got {value!r}")
        if self.maximum is not None and value > self.maximum:
            raise ValueError(f"expected a number of at most {as_float(self.maximum):.15g}, got {value!r}")
        if self.above is not None and value <= self.above:
            raise ValueError(f"expected a number above {as_float(self.above):.15g}, got {value!r}")
        if self.below is not None and value >= self.below:
            raise ValueError(f"expected a number below {as_float(self.below):.15g}, got {value!r}")


@dataclass(frozen=True, slots=True)
class Category:
    """One of several labels: if `closed`, one of `values`; else any label, also one that is not among them."""

    values: tuple[Label, ...] = ()
    closed: bool = False
    ordered: bool = False

    def check(self, value: Any) -> None:
        """A label that is allowed."""
        if not isinstance(value, str | int | float | bool | Decimal):
            raise ValueError(f"expected a label, got {value!r}")
        if self.closed and not _is_among(value, self.values):
            raise ValueError(f"expected one of {_listed(self.values)}, got {value!r}")


@dataclass(frozen=True, slots=True)
class Boolean:
    """True or false."""

    def check(self, value: Any) -> None:
        """True or false, and no number."""
        if not isinstance(value, bool):
            raise ValueError(f"expected true or false, got {value!r}")


@dataclass(frozen=True, slots=True)
class Text:
    """Free text in one language (`en` includes `en-GB`), or in any (None), or without a language ("")."""

    language: str | None = None
    max_length: int | None = None
    min_length: int = 0

    def check(self, value: Any) -> None:
        """A string of an allowed length, in the language if there is one."""
        if isinstance(value, TextValue):
            if self.language is not None and not f"{value.language}-".lower().startswith(f"{self.language}-".lower()):
                raise ValueError(f"expected text in {self.language or 'no language'}, got {value.language}")
            value = value.text
        if not isinstance(value, str):
            raise ValueError(f"expected text, got {value!r}")
        if self.max_length is not None and len(value) > self.max_length:
            raise ValueError(f"expected at most {self.max_length} characters, got {len(value)}")
        if len(value) < self.min_length:
            raise ValueError(f"expected at least {self.min_length} characters, got {len(value)}")


@dataclass(frozen=True, slots=True)
class Link:
    """A link to another entity: of the class `to`, if set, and among the ids `values`, if there are any."""

    to: str | None = None
    values: tuple[str, ...] = ()  # ids

    def check(self, value: Any) -> None:
        """A link to an entity, or its id."""
        if not isinstance(value, LinkValue | str):
            raise ValueError(f"expected a link to an entity, got {value!r}")
        id = value if isinstance(value, str) else value.id
        if self.values and id not in self.values:
            raise ValueError(f"expected one of {_listed(self.values)}, got {id!r}")


@dataclass(frozen=True, slots=True)
class Set:
    """A set of labels or links."""

    of: Category | Link = Category()
    most: int | None = None

    def check(self, value: Any) -> None:
        """Labels or links; one alone counts as a set of one."""
        members = value if isinstance(value, list | tuple | set | frozenset) else (value,)
        for member in members:
            self.of.check(member)
        if self.most is not None and len(members) > self.most:
            raise ValueError(f"expected at most {self.most} values, got {len(members)}")


class LeafKind(NamedTuple):
    """A row of KINDS: the dataclass of the kind, an example, and values that fit the example."""

    leaf: type[Any]
    example: Any
    values: tuple[Any, ...]


KINDS: dict[str, LeafKind] = {
    "number": LeafKind(Number, Number(minimum=0), (133.0, 194, Decimal("80.55"))),
    "category": LeafKind(Category, Category(("No", "3G", "4G"), closed=True, ordered=True), ("No", "4G")),
    "boolean": LeafKind(Boolean, Boolean(), (True, False)),
    "text": LeafKind(Text, Text(max_length=60), ("Galaxy S21", "")),
    "link": LeafKind(Link, Link("Country"), (LinkValue("https://example.org/France"),)),
    "set": LeafKind(Set, Set(Category()), (["red", "blue"], [])),
}


def kind_of(leaf: Any) -> str:
    """The name of a leaf's kind."""
    return next(name for name, row in KINDS.items() if row.leaf is type(leaf))


def nearest(leaf: Number, number: float) -> float:
    """The number nearest to another that a property can have: whole, with so many decimals, within the bounds."""
    number = number if leaf.decimals is None else round(number, leaf.decimals)
    number = number if leaf.minimum is None else max(number, leaf.minimum)
    number = number if leaf.maximum is None else min(number, leaf.maximum)
    return round(number) if leaf.integer else number


def _described(value: AnyNumber) -> str:
    """A very large number in few characters."""
    return f"one of {len(show(abs(value))):,} digits" if isinstance(value, int) else str(value)


def _is_among(value: Any, values: tuple[Label, ...]) -> bool:
    """Whether a label is one of these. True equals 1 in Python; as labels they differ."""
    is_boolean = isinstance(value, bool)
    return value in values and (
        value not in (0, 1) or any(label == value and isinstance(label, bool) == is_boolean for label in values)
    )


def _listed(values: tuple[Any, ...]) -> str:
    return ", ".join(map(str, values[:MAX_LABELS_SHOWN])) + (", ..." if len(values) > MAX_LABELS_SHOWN else "")
