"""Rules: exact dependencies of a property on others, such as `living = above + basement`.

A rule has a target property, a kind (a row of KINDS), and the paths that the value follows from. `evaluate` computes it from
an entity's own values, in decimal arithmetic. The kinds `determined`, `linked`, `inverse` and `transitive` need the other
entities of a source: `kbdisk.completion.rules` has an index of them.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation, localcontext
from typing import Any, NamedTuple

from kbdisk.entity import Coordinate, Date, Path, Quantity, Text, show
from kbdisk.schemas.kinds import MAX_EXACT
from kbdisk.schemas.text import numerals
from kbdisk.schemas.text.calendars import date_of_day_number, day_number, whole_years
from kbdisk.schemas.text.numerals import as_decimal

Values = Mapping[Path, Any]  # an entity's values in the form of their kinds, by property

TO_ITSELF = ("inverse", "transitive")  # kinds of rules of a property by itself
MAX_ADDENDS = 8
MAX_SLOTS = 8  # paths in a template
SIGNIFICANT = 15  # digits of a result whose property has no fixed number of decimals


@dataclass(frozen=True)
class Rule:
    """The dependency of a property on others.

    Only some kinds have a `factor`, an `offset` or a `template`. A computed number is rounded to `decimals`. A rule without
    a class is for the entities of every class with the property. `support` and `exceptions` count the known values that
    agree with the rule and that do not.
    """

    target: Path
    kind: str
    of: tuple[Path, ...]
    factor: float = 1.0
    offset: float = 0.0
    template: str = ""
    decimals: int | None = None
    class_name: str | None = None
    support: int = 0
    exceptions: int = 0

    def __post_init__(self) -> None:
        row = KINDS.get(self.kind)
        if row is None:
            raise ValueError(f"expected a rule of {', '.join(KINDS)}, got {self.kind!r}")
        if not row.least <= len(self.of) <= row.most:
            wanted = f"{row.least}" if row.least == row.most else f"{row.least} to {row.most}"
            noun = "path" if row.most == 1 else "paths"
            raise ValueError(f"expected {wanted} {noun} for a rule of the kind {self.kind}, got {len(self.of)}")
        if self.target in (self.of[:1] if self.kind == "linked" else self.of) and self.kind not in TO_ITSELF:
            raise ValueError(f"expected paths of other properties, got {show(self.target)}")
        for name, plain in (("factor", 1.0), ("offset", 0.0), ("template", "")):
            if getattr(self, name) != plain and name not in row.keys:
                raise ValueError(f"expected no {name} for a rule of the kind {self.kind}, got one")
        if self.kind == "linear" and self.factor == 0:
            raise ValueError("expected a factor other than 0, got 0")
        if "template" in row.keys:
            slots = slots_of(self.template)
            if slots != len(self.of):
                raise ValueError(f"expected a template with {len(self.of)} times {{}}, got {self.template!r}")

    @property
    def confidence(self) -> float:
        """The probability that a value by the rule is right, by Laplace's rule of succession."""
        return (self.support + 1) / (self.support + self.exceptions + 2)

    @property
    def text(self) -> str:
        """The rule as a formula for people."""
        names = [show(path) for path in self.of]
        if self.kind == "template":
            return f"{show(self.target)} = {self.template.format(*(f'{{{name}}}' for name in names))!r}"
        factor = "" if self.factor == 1 else f"{self.factor:.15g} * "
        offset = "" if not self.offset else f" {'+' if self.offset > 0 else '-'} {abs(self.offset):.15g}"
        shown = KINDS[self.kind].shown
        if self.kind == "determined":
            right = f"{shown} {' and '.join(names)}"
        else:
            right = f" {shown} ".join(names) if len(shown) == 1 else shown.format(*names)
        days = " days" if self.kind == "shifted" else ""
        return f"{show(self.target)} = {factor}{right}{offset}{days}"


def slots_of(template: str) -> int:
    """The number of values in a template; ValueError where it is none."""
    try:
        parsed = list(string.Formatter().parse(template))
    except ValueError:
        raise ValueError(f"expected a template such as '{{}} {{}}', got {template!r}") from None
    if any(name or spec or conversion for _, name, spec, conversion in parsed):
        raise ValueError(f"expected a template with plain {{}} alone, got {template!r}")
    return sum(name is not None for _, name, _, _ in parsed)


# ---------------------------------------------------------------- values at paths


def value_at(values: Values, path: Path) -> Any:
    """The value at a path: of a property, or of a part of a date, quantity or coordinate; None where there is none."""
    if path in values:
        return values[path]
    for length in range(len(path) - 1, 0, -1):
        if path[:length] in values:
            value = values[path[:length]]
            for key in path[length:]:
                value = value.get(key) if isinstance(value, dict) else getattr(value, str(key), None)
            return value
    return None


def series_at(values: Values, path: Path) -> list[Any]:
    """The value at a path in each part of a list, None where a part lacks it; the list's own values at the list's path."""
    for length in range(len(path), 0, -1):
        items = values.get(path[:length])
        if isinstance(items, list):
            within = path[length:]
            return [value_at({(): item, **_parts(item)}, within) if within else item for item in items]
    return []


def _parts(item: Any) -> dict[Path, Any]:
    return {(key,): value for key, value in item.items()} if isinstance(item, dict) else {}


def number_of(value: Any) -> int | float | Decimal | None:
    """A value as a number: a quantity's without its unit, a date's year where that is all of it; None where it is none."""
    if isinstance(value, Quantity):
        value = value.value
    elif isinstance(value, Date) and value.month is None and value.precision in ("", "year"):
        value = value.year
    return value if numerals.is_number(value) else None


def text_of(value: Any) -> str | None:
    """The text of a value in a template; None where it has none."""
    if isinstance(value, Text):
        return value.text
    if isinstance(value, str):
        return value
    if isinstance(value, Quantity):
        value = value.value
    if numerals.is_number(value):
        return str(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else numerals.show(value)  # fmt: skip
    if isinstance(value, Date) and day_number(value) is not None:
        return f"{value.year:04d}-{value.month:02d}-{value.day:02d}"
    return None


def order_of(value: Any) -> float | None:
    """The position of a date, or of a number that is a year, in time."""
    if isinstance(value, Date):
        return None if value.year is None else value.year + ((value.month or 1) - 1) / 12 + ((value.day or 1) - 1) / 372
    number = number_of(value)
    return None if number is None else float(number)


# ---------------------------------------------------------------- exact results


def evaluate(rule: Rule, values: Values) -> Any:
    """The exact value that a rule gives by an entity's own values; None where a value that it needs is missing."""
    row = KINDS[rule.kind]
    if row.compute is None:
        return None
    try:
        return row.compute(rule, values)
    except (InvalidOperation, ArithmeticError, ValueError):
        return None


def _copy(rule: Rule, values: Values) -> Any:
    value = value_at(values, rule.of[0])
    return None if isinstance(value, Quantity) and value.value is None else value


def _numbers(rule: Rule, values: Values) -> list[Decimal] | None:
    numbers = [number_of(value_at(values, path)) for path in rule.of]
    return None if None in numbers else [as_decimal(number) for number in numbers]  # type: ignore[arg-type]


def _arithmetic(
    result: Callable[[Rule, list[Decimal]], Decimal], is_exact: bool = True
) -> Callable[[Rule, Values], Any]:
    def compute(rule: Rule, values: Values) -> Any:
        numbers = _numbers(rule, values)
        if numbers is None:
            return None
        with localcontext() as context:
            context.prec = 60
            return rounded(result(rule, numbers), rule.decimals, is_exact)

    return compute


def rounded(result: Decimal, decimals: int | None, is_exact: bool = True) -> int | float | Decimal | None:
    """A result with so many decimals, as an int where it is whole, else a float where that loses no digit.

    A quotient, which may have no end, has SIGNIFICANT digits where its property has no fixed number of decimals.
    """
    if not result.is_finite():
        return None
    if decimals is not None:
        result = result.quantize(Decimal(1).scaleb(-decimals))
    elif result and not is_exact:
        last = result.adjusted() - SIGNIFICANT + 1
        exponent = result.as_tuple().exponent
        if isinstance(exponent, int) and exponent < last:
            result = result.quantize(Decimal(1).scaleb(last)).normalize()
    if result == result.to_integral_value():
        return int(result)
    number = float(result)
    return number if Decimal(repr(number)) == result else result.normalize()


def _linear(rule: Rule, numbers: list[Decimal]) -> Decimal:
    return as_decimal(rule.factor) * numbers[0] + as_decimal(rule.offset)


def _sum(rule: Rule, numbers: list[Decimal]) -> Decimal:
    return sum(numbers, Decimal(0))


def _difference(rule: Rule, numbers: list[Decimal]) -> Decimal:
    return numbers[0] - numbers[1]


def _product(rule: Rule, numbers: list[Decimal]) -> Decimal:
    return as_decimal(rule.factor) * numbers[0] * numbers[1]


def _ratio(rule: Rule, numbers: list[Decimal]) -> Decimal:
    return as_decimal(rule.factor) * numbers[0] / numbers[1]


def _years(rule: Rule, values: Values) -> int | None:
    return whole_years(value_at(values, rule.of[0]), value_at(values, rule.of[1]))


def _days(rule: Rule, values: Values) -> int | None:
    later, earlier = (day_number(value_at(values, path)) for path in rule.of)
    return None if later is None or earlier is None else later - earlier


def _shifted(sign: int) -> Callable[[Rule, Values], Date | None]:
    def compute(rule: Rule, values: Values) -> Date | None:
        start, days = day_number(value_at(values, rule.of[0])), number_of(value_at(values, rule.of[1]))
        is_whole = start is not None and days is not None and days == int(days)
        return date_of_day_number(start + sign * int(days)) if is_whole else None  # type: ignore[operator, arg-type]

    return compute


def _later_by_offset(rule: Rule, values: Values) -> Date | None:
    start = day_number(value_at(values, rule.of[0]))
    return None if start is None or rule.offset != int(rule.offset) else date_of_day_number(start + int(rule.offset))


def _template(rule: Rule, values: Values) -> str | None:
    texts = [text_of(value_at(values, path)) for path in rule.of]
    return None if any(not text for text in texts) else rule.template.format(*texts)


def _by_date(choose: Callable[..., Any]) -> Callable[[Rule, Values], Any]:
    def compute(rule: Rule, values: Values) -> Any:
        items, dates = (series_at(values, path) for path in rule.of)
        return by_date(items, dates, choose)

    return compute


def by_date(items: Sequence[Any], dates: Sequence[Any], choose: Callable[..., Any]) -> Any:
    """The value with the latest or earliest date; None where two values share that date, or a part has none."""
    times = [order_of(date) for date in dates]
    if not times or None in times or len(times) != len(items):
        return None
    best = choose(times)
    values = [value for time, value in zip(times, items, strict=True) if time == best]
    return values[0] if all(value == values[0] for value in values) else None


def _of_series(choose: Callable[[list[Any]], Any]) -> Callable[[Rule, Values], Any]:
    def compute(rule: Rule, values: Values) -> Any:
        return of_series(series_at(values, rule.of[0]), choose)

    return compute


def of_series(items: Sequence[Any], choose: Callable[[list[Any]], Any]) -> Any:
    """The choice among a list's values; None where a part lacks its value, which might be the choice."""
    return None if not items or any(item is None for item in items) else choose(list(items))


def of_numbers(choose: Callable[[list[Decimal]], Decimal]) -> Callable[[list[Any]], Any]:
    """A choice among numbers that is None where an item is no number."""

    def chosen(items: list[Any]) -> Any:
        numbers = [number_of(item) for item in items]
        return None if None in numbers else rounded(choose([as_decimal(number) for number in numbers]), None)  # type: ignore[arg-type]

    return chosen


SERIES: dict[str, Callable[[list[Any]], Any]] = {
    "greatest": of_numbers(max),
    "least": of_numbers(min),
    "total": of_numbers(sum),  # type: ignore[arg-type]
    "count": len,
    "first": lambda items: items[0],
    "last": lambda items: items[-1],
}
DATED: dict[str, Callable[..., Any]] = {"latest": max, "earliest": min}


class RuleKind(NamedTuple):
    """A kind of rule: the least and the greatest number of paths, its form in messages, its function, its further keys."""

    least: int
    most: int
    shown: str  # an operator between the paths, or a pattern
    compute: Callable[[Rule, Values], Any] | None  # None: by other entities, too
    description: str
    keys: tuple[str, ...] = ()


KINDS: dict[str, RuleKind] = {
    "copy": RuleKind(1, 1, "{}", _copy, "The same value as another property."),
    "linear": RuleKind(1, 1, "{}", _arithmetic(_linear, is_exact=False), "factor * x + offset.", ("factor", "offset")),
    "sum": RuleKind(2, MAX_ADDENDS, "+", _arithmetic(_sum), "The sum of numbers."),
    "difference": RuleKind(2, 2, "-", _arithmetic(_difference), "The first number less the second."),
    "product": RuleKind(2, 2, "*", _arithmetic(_product), "factor * x * y.", ("factor",)),
    "ratio": RuleKind(2, 2, "/", _arithmetic(_ratio, is_exact=False), "factor * x / y.", ("factor",)),
    "years": RuleKind(2, 2, "years from {1} to {0}", _years, "The whole years to the first date from the second."),
    "days": RuleKind(2, 2, "days from {1} to {0}", _days, "The days to the first date from the second."),
    "later": RuleKind(2, 2, "{0} + {1} days", _shifted(1), "A date so many days later."),
    "earlier": RuleKind(2, 2, "{0} - {1} days", _shifted(-1), "A date so many days earlier."),
    "shifted": RuleKind(1, 1, "{}", _later_by_offset, "A date offset days later.", ("offset",)),
    "template": RuleKind(1, MAX_SLOTS, "", _template, "A string put together, {} for each path.", ("template",)),
    "latest": RuleKind(
        2, 2, "{0} of the latest {1}", _by_date(max), "The value of a list's part with the latest date."
    ),
    "earliest": RuleKind(2, 2, "{0} of the earliest {1}", _by_date(min), "The one with the earliest date."),
    "determined": RuleKind(1, 2, "as by", None, "What other entities with the same value have."),
    "linked": RuleKind(2, 2, "{1} of the entity at {0}", None, "The value that the linked entity has."),
    "inverse": RuleKind(1, 1, "inverse of {}", None, "The entities that link here by a path."),
    "transitive": RuleKind(1, 1, "{0} of the entity at {0}", None, "What is linked from a linked entity, too."),
} | {
    name: RuleKind(1, 1, f"{name} of {{}}", _of_series(choose), f"The {name} of a list's values.")
    for name, choose in SERIES.items()
}


def plain(value: Any) -> Any:
    """A hashable form of a value for comparison: numbers by their amount, sets without order."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float) and -MAX_EXACT < value < MAX_EXACT:
        return ("number", value)
    if isinstance(value, Decimal | int | float):
        decimal = Decimal(repr(value) if isinstance(value, float) else value).normalize()
        is_small = decimal.is_finite() and -MAX_EXACT < decimal < MAX_EXACT
        is_float = is_small and Decimal(repr(float(decimal))) == decimal
        return ("number", float(decimal) if is_float else decimal)
    if isinstance(value, Quantity):
        return ("quantity", plain(value.value), value.unit)
    if isinstance(value, Coordinate):
        return ("coordinate", plain(value.latitude), plain(value.longitude), value.globe)
    if isinstance(value, list | tuple | set | frozenset):
        items = {plain(item) for item in value if not isinstance(item, dict)}
        return next(iter(items)) if len(items) == 1 else frozenset(items) or None
    if isinstance(value, dict):
        return None
    return value
