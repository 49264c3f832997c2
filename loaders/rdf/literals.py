"""Literals to values and back: one table from datatype to what reads it.

`CONVERTERS[datatype]` is the function for a lexical form, or None where the form itself is the value (strings of an unknown
datatype) or needs its language. A form that its datatype does not allow is a ValueError: the reader keeps it as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import quote, unquote

from kbdisk.entity import NOVALUE, SOMEVALUE, Coordinate, Date, Known, Quantity, Text, Value
from kbdisk.loaders.rdf import places
from kbdisk.loaders.rdf.vocabulary import OURS, RDF, STRING, XSD
from kbdisk.schemas.text import dates, numerals
from kbdisk.schemas.text.numerals import Number

if TYPE_CHECKING:
    import pyoxigraph

Converter: TypeAlias = Callable[[str], Any]

LANGUAGE = RDF + "langString"
ANY_URI = XSD + "anyURI"
BOOLEAN, INTEGER, DECIMAL, DOUBLE = XSD + "boolean", XSD + "integer", XSD + "decimal", XSD + "double"
WKT = "http://www.opengis.net/ont/geosparql#wktLiteral"
POINTS = (WKT, "http://www.openlinksw.com/schemas/virtrdf#Geometry")
EDTF = "http://id.loc.gov/datatypes/edtf/"
TIME = "http://www.w3.org/2006/time#general"  # owl-time's own names for gDay, gMonth and gYear
UCUM = ("https://w3id.org/cdt/", "http://w3id.org/lindt/custom_datatypes#")
UNIT_ALONE = "ucumunit"
DBPEDIA = "http://dbpedia.org/datatype/"
NO_UNITS = ("engineConfiguration", "fuelType", "valvetrain")  # DBpedia's datatypes that are kinds of things
TRUTHS = {"true": True, "1": True, "false": False, "0": False}
RANGES: dict[str, tuple[int | None, int | None]] = {
    "nonNegativeInteger": (0, None),
    "positiveInteger": (1, None),
    "nonPositiveInteger": (None, 0),
    "negativeInteger": (None, -1),
    **{
        name: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        for name, bits in (("long", 64), ("int", 32), ("short", 16), ("byte", 8))
    },
    **{"unsigned" + name: (0, 2**bits - 1) for name, bits in (("Long", 64), ("Int", 32), ("Short", 16), ("Byte", 8))},
}
INTEGERS = frozenset({INTEGER, *(XSD + name for name in RANGES)})
NUMBERS = INTEGERS | {DECIMAL, DOUBLE, XSD + "float"}
DATES = {
    **{XSD + name: name for name in dates.FORMS},
    **{TIME + name[1:]: name for name in ("gYear", "gMonth", "gDay")},
    **{EDTF + name: name for name in dates.EDTF},
}
NAMED: dict[str, Known | None] = {OURS + "somevalue": SOMEVALUE, OURS + "novalue": NOVALUE, OURS + "asked": None}
OUR_TYPES: dict[str, type[Date] | type[Coordinate]] = {OURS + "date": Date, OURS + "coordinate": Coordinate}
OUR_DECIMAL, OUR_TEXT = OURS + "decimal", OURS + "text"

_QUANTITY = re.compile(r"([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)(?: +(\S+))?")


class Literal(NamedTuple):
    """A literal: its lexical form, its datatype's IRI, its language."""

    lexical: str
    datatype: str
    language: str | None = None


def value_of(lexical: str, datatype: str, language: str | None = None) -> Value:
    """The value of a literal; ValueError where its form is not one of its datatype."""
    if language:
        return Text(lexical, language)
    convert = CONVERTERS[datatype]
    value: Value = lexical if convert is None else convert(lexical)
    return value


def literal_of(value: Value) -> Literal:
    """The literal that says a value most naturally; ValueError where no literal says it (None, a link, a list, a part)."""
    maker = MAKERS.get(type(value))
    literal = maker(value) if maker else None
    if literal is None:
        raise ValueError(f"expected a value that one literal can say, got {type(value).__name__}")
    return literal


def language_of(literal: pyoxigraph.Literal) -> str | None:
    """The language of a literal, with its base direction where it has one, as RDF 1.2 spells them: `ar--rtl`."""
    language = literal.language
    return f"{language}--{literal.direction.value}" if literal.direction else language


def in_language(text: str, language: str) -> pyoxigraph.Literal:
    """A text in a language as pyoxigraph's literal, with a base direction or without; ValueError where it is no language."""
    import pyoxigraph

    tag, dashes, direction = language.partition("--")
    if not dashes:
        return pyoxigraph.Literal(text, language=language)
    return pyoxigraph.Literal(text, language=tag, direction=pyoxigraph.BaseDirection(direction))


def unit_of(datatype: str) -> str | None:
    """The unit that a DBpedia datatype names."""
    name = datatype[len(DBPEDIA) :] if datatype.startswith(DBPEDIA) else ""
    return name if name and name not in NO_UNITS else None


# ---------------------------------------------------------------- reading


def _truth(lexical: str) -> bool:
    value = TRUTHS.get(lexical)
    if value is None:
        raise ValueError(f"expected true or false, got {lexical!r}")
    return value


def _within(low: int | None, high: int | None, lexical: str) -> int:
    value = numerals.integer(lexical)
    if (low is not None and value < low) or (high is not None and value > high):
        limits = f"from {low}" if high is None else f"up to {high}" if low is None else f"from {low} to {high}"
        raise ValueError(f"expected a whole number {limits}, got {lexical!r}")
    return value


def _quantity(lexical: str) -> Quantity:
    match = _QUANTITY.fullmatch(lexical)
    if match is None:
        raise ValueError(f"expected a number and a unit such as '1.2 km', got {lexical!r}")
    return Quantity(numerals.number(match[1]), match[2] or "")


def _of_unit(unit: str, lexical: str) -> Quantity:
    return Quantity(numerals.number(lexical), unit)


def _fields(kind: type[Date] | type[Coordinate], lexical: str) -> Any:
    """Our own datatypes: `year=2012;precision=decade`, texts percent-encoded."""
    known = {field.name: field.default == "" for field in fields(kind)}  # name -> whether it is a text
    values: dict[str, Any] = {} if kind is Date else {"latitude": None, "longitude": None}
    for pair in filter(None, lexical.split(";")):
        name, equals, text = pair.partition("=")
        if not equals or name not in known:
            raise ValueError(f"expected fields such as year=2012, got {lexical!r}")
        values[name] = unquote(text, errors="surrogatepass") if known[name] else numerals.number(text)
    return kind(**values)


def _text(lexical: str) -> Text:
    language, at, text = lexical.partition("@")
    if not at:
        raise ValueError(f"expected a language and a text such as en@house, got {lexical!r}")
    return Text(text, unquote(language))


class _Converters(dict[str, Converter | None]):
    """The table; datatypes that name a unit enter it when they are met."""

    def __missing__(self, datatype: str) -> Converter | None:
        unit = unit_of(datatype)
        if unit is not None:
            self[datatype] = partial(_of_unit, unit)
        else:
            self[datatype] = _quantity if is_ucum(datatype) else None
        return self[datatype]

    def get(self, datatype: str, default: Any = None) -> Any:
        return self[datatype]


def is_ucum(datatype: str) -> bool:
    """Whether a datatype is one of number and UCUM unit, such as cdt:length."""
    return datatype.startswith(UCUM) and not datatype.endswith(UNIT_ALONE)


CONVERTERS: Mapping[str, Converter | None] = _Converters(
    {
        STRING: None,
        LANGUAGE: None,
        ANY_URI: None,
        BOOLEAN: _truth,
        INTEGER: numerals.integer,
        **{XSD + name: partial(_within, low, high) for name, (low, high) in RANGES.items()},
        DECIMAL: numerals.decimal,
        DOUBLE: numerals.double,
        XSD + "float": numerals.double,
        XSD + "time": dates.READERS["time"],
        **{datatype: dates.READERS[name] for datatype, name in DATES.items()},
        **dict.fromkeys(POINTS, places.read),
        **{datatype: partial(_fields, kind) for datatype, kind in OUR_TYPES.items()},
        OUR_DECIMAL: numerals.number,
        OUR_TEXT: _text,
    }
)


# ---------------------------------------------------------------- writing


def _float(value: float) -> Literal:
    """Decimals where nothing is lost by them: no exponent, no negative zero."""
    text = repr(value)
    if "e" not in text and text != "-0.0":
        return Literal(text, DECIMAL)
    mantissa, _, exponent = text.partition("e")
    mantissa += "" if "." in mantissa else ".0"
    return Literal(f"{mantissa}E{int(exponent or 0)}", DOUBLE)


def _decimal(value: Decimal) -> Literal:
    try:
        return Literal(numerals.show(value), DECIMAL)
    except ValueError:
        return Literal(str(value), OUR_DECIMAL)


def _date(value: Date) -> Literal:
    name = dates.natural_datatype(value)
    if not name:
        return _ours(value)
    return Literal(dates.write(value, name), (EDTF if name in dates.EDTF else XSD) + name)


def _coordinate(value: Coordinate) -> Literal:
    try:
        return Literal(places.write(value), WKT)
    except ValueError:
        return _ours(value)


def _ours(value: Date | Coordinate) -> Literal:
    pairs = ((field.name, getattr(value, field.name)) for field in fields(value))
    shown = ";".join(f"{name}={_field(item)}" for name, item in pairs if item is not None and item != "")
    return Literal(shown, OURS + type(value).__name__.lower())


def _field(item: str | Number) -> str:
    if isinstance(item, str):
        return quote(item, errors="surrogatepass", safe=":/")
    return numerals.show(item) if isinstance(item, int) else str(item)


def _language(value: Text) -> Literal:
    """Language tags are compared without regard to case, and parsers write them small."""
    try:
        in_language(value.text, value.language)
    except ValueError:
        return Literal(f"{quote(value.language, safe='')}@{value.text}", OUR_TEXT)
    return Literal(value.text, LANGUAGE, value.language)


MAKERS: dict[type[Any], Callable[[Any], Literal]] = {
    bool: lambda value: Literal(str(value).lower(), BOOLEAN),
    int: lambda value: Literal(numerals.show(value), INTEGER),
    float: _float,
    Decimal: _decimal,
    str: lambda value: Literal(value, STRING),
    Text: _language,
    Date: _date,
    Coordinate: _coordinate,
}
