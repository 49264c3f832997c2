"""Shared by the importers: their result, notes on what is left out, and the type of a single value, which becomes a kind.

Nothing is dropped in silence: `left_out` has a line for each place that a schema of kbdisk cannot express.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from kbdisk.errors import SchemaError
from kbdisk.plugins import Part
from kbdisk.schemas.composites import Kind
from kbdisk.schemas.composites.coordinate import Coordinate
from kbdisk.schemas.composites.date import Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.quantity import Quantity
from kbdisk.schemas.kinds import Boolean, Category, Label, Link, Number, Set, Text
from kbdisk.schemas.schema import Schema

TypeName: TypeAlias = Literal["", "integer", "number", "boolean", "text", "date", "link", "quantity", "coordinate"]

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XSD = "http://www.w3.org/2001/XMLSchema#"
TYPE_OF_CLASS: dict[str, TypeName] = {  # by the last word of the class of a node that is a value
    **dict.fromkeys(("QuantityValue", "QuantitativeValue", "MonetaryAmount", "Measure"), "quantity"),
    "GeoCoordinates": "coordinate",
}
NO_KIND = "the kind of its values is not determined: left out"
BY_KIND = (
    "values are distinguished by their kind alone: 5, 5.0 and 5e0 are the same number; text fits where it spells a "
    "number, a date, a quantity or an id"
)


@dataclass(frozen=True)
class Importer:
    """A row of IMPORTERS: a language of schemas."""

    label: str  # its name in messages
    read: Part  # path -> Imported
    is_written_in: Part  # the bytes of a file -> whether the file is written in the language


@dataclass(frozen=True)
class Imported:
    """An imported schema, and the parts of the file that it leaves out."""

    schema: Schema
    left_out: list[str]


MAX_SCHEMAS_READ = 20_000  # in a file of a hundred lines, references within references can amount to 2^30


@dataclass
class Notes:
    """The lines on the parts that are left out, in order, without duplicates."""

    lines: list[str] = field(default_factory=list)
    known: set[str] = field(default_factory=set)  # the same lines
    read: int = 0  # shapes, slots or schemas so far, counted wherever they are referenced

    def step(self, file: str) -> None:
        """Count a shape, slot or schema that is read; SchemaError where they are too many."""
        self.read += 1
        if self.read > MAX_SCHEMAS_READ:
            raise SchemaError(
                file,
                f"expected at most {MAX_SCHEMAS_READ:,} schemas, each counted where it is named, got more. Nest them less.",
            )

    def add(self, where: str, problem: str) -> None:
        """Add a line."""
        line = f"{where}: {problem}" if where else problem
        if line not in self.known:
            self.known.add(line)
            self.lines.append(line)

    def back_to(self, count: int) -> None:
        """Keep the first `count` lines alone."""
        self.known.difference_update(self.lines[count:])
        del self.lines[count:]


@dataclass(frozen=True)
class ValueType:
    """The type of a single value in another schema language. `values` are labels, or the ids of links."""

    type: TypeName = ""
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
        """The kind of the type; None where it determines none."""
        if self.type == "link":
            return Link(self.to, tuple(map(str, self.values or ())))
        if self.values is not None:
            if not self.values:
                return None  # nothing fits
            return Boolean() if set(map(type, self.values)) == {bool} and len(self.values) > 1 else self._closed()
        if self.type == "text":
            return Text(self.language, self.max_length, self.min_length)
        if self.type == "date":
            return Date(parts=self.parts, minimum=_year_bound(self.minimum), maximum=_year_bound(self.maximum))
        if self.type in ("number", "integer"):
            return self.number() if self.unit is None else Quantity(self.unit, value=self.number())
        if self.type == "quantity":
            return Quantity(self.unit, value=replace(self, type="number").number(), any_unit=self.unit is None)
        return {"boolean": Boolean(), "coordinate": Coordinate()}.get(self.type)

    def number(self) -> Number:
        """A number with the bounds and decimals of the type."""
        return Number(
            self.type == "integer",
            self.minimum,
            self.maximum,
            decimals=self.decimals,
            above=self.above,
            below=self.below,
        )

    def _closed(self) -> Category:
        return Category(distinct(self.values or ()), closed=True)


def distinct(values: Iterable[Label]) -> tuple[Label, ...]:
    """Labels without duplicates; True and 1 are different labels."""
    return tuple({(isinstance(value, bool), value): value for value in values}.values())


def narrowed(first: ValueType, second: ValueType) -> ValueType:
    """The type of values with both types: the narrower bounds, the common values."""
    unset = [name for name in ("language", "decimals", "to", "unit") if getattr(first, name) is None]
    values = first.values if second.values is None else second.values
    if first.values is not None and second.values is not None:
        values = tuple(value for value in first.values if value in second.values)
    return replace(
        first,
        **{name: getattr(second, name) for name in unset},
        type="integer" if {first.type, second.type} == {"integer", "number"} else first.type or second.type,
        values=values,
        minimum=_of_both(max, first.minimum, second.minimum),
        maximum=_of_both(min, first.maximum, second.maximum),
        above=_of_both(max, first.above, second.above),
        below=_of_both(min, first.below, second.below),
        min_length=max(first.min_length, second.min_length),
        max_length=_of_both(min, first.max_length, second.max_length),
        parts=first.parts if len(first.parts) <= len(second.parts) else second.parts,
    )


def widened(names: Iterable[TypeName]) -> TypeName:
    """The type name that takes the values of all these types; empty where there is none."""
    types = set(names)
    if types == {"integer", "number"}:
        return "number"
    return types.pop() if len(types) == 1 else ""


def several(kind: Kind) -> Kind:
    """The kind of several values: a set of labels or links, a list of other values."""
    if isinstance(kind, Category | Link):
        return Set(kind)
    return Set(Category()) if kind in (Text(), Text("")) else Listed({"": kind})


def of_datatype(iri: str) -> ValueType:
    """The type of literals with an RDF datatype, as the loaders read them; text of unknown datatypes."""
    space, name = (XSD, iri[len(XSD) :]) if iri.startswith(XSD) else ("", iri)
    if space and name in WHOLE_NUMBER_BOUNDS:
        low, high = WHOLE_NUMBER_BOUNDS[name]
        return ValueType("integer", minimum=low, maximum=high)
    if space and name in PARTS_OF_DATE_TYPE:
        return ValueType("date", parts=PARTS_OF_DATE_TYPE[name])
    if iri.startswith("http://id.loc.gov/datatypes/edtf/"):
        return ValueType("date")
    if iri.startswith(("https://w3id.org/cdt/", "http://w3id.org/lindt/custom_datatypes#")):
        return ValueType("quantity")
    return TYPE_OF_DATATYPE.get(iri, ValueType("text"))


def _of_both(choose: Callable[[Iterable[Any]], Any], first: Any, second: Any) -> Any:
    known = [bound for bound in (first, second) if bound is not None]
    return choose(known) if known else None


def _year_bound(bound: float | None) -> int | None:
    return None if bound is None else int(bound)


WHOLE_NUMBER_BOUNDS: dict[str, tuple[int | None, int | None]] = {
    "integer": (None, None),
    "nonNegativeInteger": (0, None),
    "positiveInteger": (1, None),
    "nonPositiveInteger": (None, 0),
    "negativeInteger": (None, -1),
    **{name: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for name, bits in (("int", 32), ("short", 16), ("byte", 8))},
    **{"unsigned" + name: (0, 2**bits - 1) for name, bits in (("Int", 32), ("Short", 16), ("Byte", 8))},
    "long": (None, None),  # its bounds are no floats
    "unsignedLong": (0, None),
}
PARTS_OF_DATE_TYPE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("date", "dateTime", "dateTimeStamp"), ("year", "month", "day")),
    "gYear": ("year",),
    "gYearMonth": ("year", "month"),
    "gMonthDay": ("month", "day"),
    "gMonth": ("month",),
    "gDay": ("day",),
}
TYPE_OF_DATATYPE: dict[str, ValueType] = {
    **{XSD + name: ValueType("number") for name in ("decimal", "double", "float")},
    XSD + "boolean": ValueType("boolean"),
    XSD + "string": ValueType("text", language=""),
    RDF + "langString": ValueType("text"),
    "http://www.opengis.net/ont/geosparql#wktLiteral": ValueType("coordinate"),
}
