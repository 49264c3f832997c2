"""What importing a schema of somebody else's gives, and what the importers share: a value as it is told there, as a kind of ours.

What a schema of ours cannot say is never dropped in silence: it stands in `left_out`, one line for each place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from kbdisk.errors import SchemaError
from kbdisk.schemas.composites import Kind
from kbdisk.schemas.composites.coordinate import Coordinate
from kbdisk.schemas.composites.date import CARRIED, NUMBERS, Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.quantity import UNIT_NAMES, VALUE_NAMES, Quantity
from kbdisk.schemas.kinds import Boolean, Category, Label, Link, Number, Set, Text
from kbdisk.schemas.schema import Schema

Word: TypeAlias = Literal["", "integer", "number", "boolean", "text", "date", "link", "quantity", "coordinate"]

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XSD = "http://www.w3.org/2001/XMLSchema#"
PLACE_NAMES = (frozenset({"lat", "latitude"}), frozenset({"lon", "long", "lng", "longitude"}))
PLACES = [{latitude, longitude} for latitude in PLACE_NAMES[0] for longitude in PLACE_NAMES[1]]
CLASSES: dict[str, Word] = {  # of nodes that are one value, by the last word
    **dict.fromkeys(("QuantityValue", "QuantitativeValue", "MonetaryAmount", "Measure"), "quantity"),
    "GeoCoordinates": "coordinate",
}
BY_KIND = (
    "values are told apart by their kind alone: 5, 5.0 and 5e0 are the same number; text fits where it spells a "
    "number, a date, a quantity or an id"
)


@dataclass(frozen=True)
class Imported:
    """A schema, and what of its origin it does not say."""

    schema: Schema
    left_out: list[str]


MAX_READ = 20_000  # a file of a hundred lines can name one another 2^30 times


@dataclass
class Notes:
    """What is left out, in order, each line once."""

    lines: list[str] = field(default_factory=list)
    known: set[str] = field(default_factory=set)  # the same, to be found fast
    read: int = 0  # shapes, slots or schemas so far, each as often as it is named

    def step(self, file: str) -> None:
        """Count one more that is read; SchemaError where those within one another are too many in all."""
        self.read += 1
        if self.read > MAX_READ:
            raise SchemaError(
                file,
                f"expected at most {MAX_READ:,} schemas, each counted where it is named, got more. Nest them less.",
            )

    def add(self, where: str, what: str) -> None:
        """Note one."""
        line = f"{where}: {what}" if where else what
        if line not in self.known:
            self.known.add(line)
            self.lines.append(line)

    def back_to(self, many: int) -> None:
        """Forget all but the first so many."""
        self.known.difference_update(self.lines[many:])
        del self.lines[many:]


@dataclass(frozen=True)
class Told:
    """A single value as another language of schemas tells it. `values` are labels, or ids where it is a link."""

    word: Word = ""
    values: tuple[Label, ...] | None = None
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    below: float | None = None
    min_length: int = 0
    max_length: int | None = None
    language: str | None = None
    decimals: int | None = None
    to: str | None = None
    unit: str | None = None
    parts: tuple[str, ...] = ("year", "month", "day")

    def kind(self) -> Kind | None:
        """The kind of ours; None where nothing tells it."""
        if self.word == "link":
            return Link(self.to, tuple(map(str, self.values or ())))
        if self.values is not None:
            if not self.values:
                return None  # nothing fits
            return Boolean() if set(map(type, self.values)) == {bool} and len(self.values) > 1 else self._closed()
        if self.word == "text":
            return Text(self.language, self.max_length, self.min_length)
        if self.word == "date":
            return Date(parts=self.parts, minimum=_year(self.minimum), maximum=_year(self.maximum))
        if self.word in ("number", "integer"):
            return self.number() if self.unit is None else Quantity(self.unit, value=self.number())
        if self.word == "quantity":
            return Quantity(self.unit, value=replace(self, word="number").number(), any_unit=self.unit is None)
        return {"boolean": Boolean(), "coordinate": Coordinate()}.get(self.word)

    def number(self) -> Number:
        """Its bounds and decimals as those of a number."""
        return Number(
            self.word == "integer",
            self.minimum,
            self.maximum,
            decimals=self.decimals,
            above=self.above,
            below=self.below,
        )

    def _closed(self) -> Category:
        return Category(distinct(self.values or ()), closed=True)


def distinct(values: Iterable[Label]) -> tuple[Label, ...]:
    """Each label once; true is not 1."""
    return tuple({(isinstance(value, bool), value): value for value in values}.values())


def narrowed(one: Told, other: Told) -> Told:
    """Both at once: the narrower bounds, the values of both."""
    open_ = [name for name in ("language", "decimals", "to", "unit") if getattr(one, name) is None]
    values = one.values if other.values is None else other.values
    if one.values is not None and other.values is not None:
        values = tuple(value for value in one.values if value in other.values)
    return replace(
        one,
        **{name: getattr(other, name) for name in open_},
        word="integer" if {one.word, other.word} == {"integer", "number"} else one.word or other.word,
        values=values,
        minimum=_of_both(max, one.minimum, other.minimum),
        maximum=_of_both(min, one.maximum, other.maximum),
        above=_of_both(max, one.above, other.above),
        below=_of_both(min, one.below, other.below),
        min_length=max(one.min_length, other.min_length),
        max_length=_of_both(min, one.max_length, other.max_length),
        parts=one.parts if len(one.parts) <= len(other.parts) else other.parts,
    )


def widened(words: Iterable[Word]) -> Word:
    """The one word for a value that may be any of these; empty where there is none."""
    found = set(words)
    if found == {"integer", "number"}:
        return "number"
    return found.pop() if len(found) == 1 else ""


def several(kind: Kind) -> Kind:
    """Several values of a kind: a set of labels or links, a list of all others."""
    if isinstance(kind, Category | Link):
        return Set(kind)
    return Set(Category()) if kind in (Text(), Text("")) else Listed({"": kind})


def composite_of(fields: Mapping[str, Kind]) -> Kind | None:
    """The quantity, coordinate or date that a part with these fields is as a whole; None where it is none."""
    names = set(fields)
    value, unit = names & VALUE_NAMES, names & UNIT_NAMES
    if value and unit and value | unit == names:
        return quantity_of(fields[min(value)], [fields[name] for name in sorted(unit)])
    if names in (*PLACES, frozenset().union(*PLACE_NAMES)):
        return Coordinate() if all(isinstance(kind, Number) for kind in fields.values()) else None
    if {"year"} < names <= {*NUMBERS} or names == {*NUMBERS, *CARRIED}:
        year = fields["year"]
        if isinstance(year, Number) and all(isinstance(fields[name], Number) for name in names & {*NUMBERS}):
            parts = tuple(name for name in NUMBERS if name in names)
            return Date(parts=parts, minimum=_year(year.minimum), maximum=_year(year.maximum))
    return None


def quantity_of(value: Kind | None, units: Iterable[Kind]) -> Quantity | None:
    """A quantity of a number and units, where they are that."""
    if value is not None and not isinstance(value, Number):
        return None
    known: dict[str, None] = {}
    for unit in units:
        closed = unit.of if isinstance(unit, Set) else unit
        known |= dict.fromkeys(map(str, getattr(closed, "values", ())))
    number = value if isinstance(value, Number) else Number()
    if len(known) == 1:
        return Quantity(next(iter(known)), value=number)
    return Quantity(None, known, number, any_unit=not known)


def of_datatype(iri: str) -> Told:
    """A literal of an RDF datatype, as the loaders read it; text where the datatype is none of theirs."""
    space, name = (XSD, iri[len(XSD) :]) if iri.startswith(XSD) else ("", iri)
    if space and name in WHOLE:
        low, high = WHOLE[name]
        return Told("integer", minimum=low, maximum=high)
    if space and name in DATED:
        return Told("date", parts=DATED[name])
    if iri.startswith("http://id.loc.gov/datatypes/edtf/"):
        return Told("date")
    if iri.startswith(("https://w3id.org/cdt/", "http://w3id.org/lindt/custom_datatypes#")):
        return Told("quantity")
    return PLAIN.get(iri, Told("text"))


def _of_both(choose: Callable[[Iterable[Any]], Any], one: Any, other: Any) -> Any:
    known = [bound for bound in (one, other) if bound is not None]
    return choose(known) if known else None


def _year(bound: float | None) -> int | None:
    return None if bound is None else int(bound)


WHOLE: dict[str, tuple[int | None, int | None]] = {
    "integer": (None, None),
    "nonNegativeInteger": (0, None),
    "positiveInteger": (1, None),
    "nonPositiveInteger": (None, 0),
    "negativeInteger": (None, -1),
    **{name: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for name, bits in (("int", 32), ("short", 16), ("byte", 8))},
    **{"unsigned" + name: (0, 2**bits - 1) for name, bits in (("Int", 32), ("Short", 16), ("Byte", 8))},
    "long": (None, None),  # beyond what a bound in floating point can say
    "unsignedLong": (0, None),
}
DATED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("date", "dateTime", "dateTimeStamp"), ("year", "month", "day")),
    "gYear": ("year",),
    "gYearMonth": ("year", "month"),
    "gMonthDay": ("month", "day"),
    "gMonth": ("month",),
    "gDay": ("day",),
}
PLAIN: dict[str, Told] = {
    **{XSD + name: Told("number") for name in ("decimal", "double", "float")},
    XSD + "boolean": Told("boolean"),
    XSD + "string": Told("text", language=""),
    RDF + "langString": Told("text"),
    "http://www.opengis.net/ont/geosparql#wktLiteral": Told("coordinate"),
}
