"""The kinds of value that can stand at a path. Frozen plain data: no tensors, no behaviour but `check`.

    number    category    boolean    text    link    set

To add a kind: a frozen dataclass with `check`, and one row in KINDS with an example. `check(value)` is a
ValueError `expected ..., got ...` where a value is none of this kind.
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
LARGEST = 1e300  # of sums and differences of larger numbers many are no finite floats
TOO_LARGE = f"expected a number from {-LARGEST:g} to {LARGEST:g}"
Label: TypeAlias = str | int | float | bool  # what a category's values are


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a predicted number may be from the true one and still count as right: a distance, or a share of it."""

    absolute: float = 0.0
    relative: float = 0.0

    def __post_init__(self) -> None:
        if not all(0 <= size < math.inf for size in (self.absolute, self.relative)):
            raise ValueError("expected a tolerance of at least 0")

    def around(self, value: float) -> float:
        """The greatest distance from a number."""
        return max(self.absolute, self.relative * abs(value))

    def times(self, factor: float) -> Tolerance:
        """The same in another unit."""
        return Tolerance(self.absolute * factor, self.relative)


EXACT_NUMBER = Tolerance()  # of parts of dates and lengths of lists


@dataclass(frozen=True, slots=True)
class Number:
    """A quantity on a real scale, such as a weight or a year. `transform` is advice to the codec."""

    integer: bool = False
    minimum: float | None = None
    maximum: float | None = None
    transform: Transform = "auto"
    decimals: int | None = None
    above: float | None = None  # bounds that are not reached themselves
    below: float | None = None
    tolerance: Tolerance | None = None  # None: what suits the known values

    def check(self, value: Any) -> None:
        """A finite number within the bounds."""
        if not is_number(value) or not is_finite(value):
            raise ValueError(f"expected a number, got {value!r}")
        if not -LARGEST <= value <= LARGEST:
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
    """One label out of a few: of those in `values` alone where they are closed, else of those that are met."""

    values: tuple[Label, ...] = ()
    closed: bool = False
    ordered: bool = False

    def check(self, value: Any) -> None:
        """A label that is allowed."""
        if not isinstance(value, str | int | float | bool | Decimal):
            raise ValueError(f"expected a label, got {value!r}")
        if self.closed and not _among(value, self.values):
            raise ValueError(f"expected one of {_some(self.values)}, got {value!r}")


@dataclass(frozen=True, slots=True)
class Boolean:
    """True or false."""

    def check(self, value: Any) -> None:
        """A truth."""
        if not isinstance(value, bool):
            raise ValueError(f"expected true or false, got {value!r}")


@dataclass(frozen=True, slots=True)
class Text:
    """Free text, in one language (`en` takes `en-GB`, too) or in any; with the language "" in none."""

    language: str | None = None
    max_length: int | None = None
    min_length: int = 0

    def check(self, value: Any) -> None:
        """A string, in the language where one is told."""
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
    """Another entity, of a class where one is told; one of `values` where there are any."""

    to: str | None = None
    values: tuple[str, ...] = ()  # ids

    def check(self, value: Any) -> None:
        """A link to an entity, or its id."""
        if not isinstance(value, LinkValue | str):
            raise ValueError(f"expected a link to an entity, got {value!r}")
        id = value if isinstance(value, str) else value.id
        if self.values and id not in self.values:
            raise ValueError(f"expected one of {_some(self.values)}, got {id!r}")


@dataclass(frozen=True, slots=True)
class Set:
    """Several labels or links, in no order, none twice."""

    of: Category | Link = Category()
    most: int | None = None

    def check(self, value: Any) -> None:
        """Labels or links; one alone counts as a set of one."""
        several = value if isinstance(value, list | tuple | set | frozenset) else (value,)
        for one in several:
            self.of.check(one)
        if self.most is not None and len(several) > self.most:
            raise ValueError(f"expected at most {self.most} values, got {len(several)}")


class Kind(NamedTuple):
    """A kind of leaf: its dataclass, a leaf of it, and values that fit."""

    leaf: type[Any]
    example: Any
    values: tuple[Any, ...]


KINDS: dict[str, Kind] = {
    "number": Kind(Number, Number(minimum=0), (133.0, 194, Decimal("80.55"))),
    "category": Kind(Category, Category(("No", "3G", "4G"), closed=True, ordered=True), ("No", "4G")),
    "boolean": Kind(Boolean, Boolean(), (True, False)),
    "text": Kind(Text, Text(max_length=60), ("Galaxy S21", "")),
    "link": Kind(Link, Link("Country"), (LinkValue("https://example.org/France"),)),
    "set": Kind(Set, Set(Category()), (["red", "blue"], [])),
}


def _described(value: AnyNumber) -> str:
    """A very large number in few characters."""
    return f"one of {len(show(abs(value))):,} digits" if isinstance(value, int) else str(value)


def _among(value: Any, values: tuple[Label, ...]) -> bool:
    """Whether a label is one of these; to Python true is 1, to a schema it is not."""
    truth = isinstance(value, bool)
    return value in values and (
        value not in (0, 1) or any(one == value and isinstance(one, bool) == truth for one in values)
    )


def _some(values: tuple[Any, ...]) -> str:
    return ", ".join(map(str, values[:8])) + (", ..." if len(values) > 8 else "")


def kind_of(leaf: Any) -> str:
    """What a leaf's kind is called."""
    return next(name for name, kind in KINDS.items() if kind.leaf is type(leaf))
