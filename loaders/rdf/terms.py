"""RDF terms and the values they stand for: IRIs, literals, points as Well-Known Text, and keys of predicates.

A key is the last word of a predicate's IRI, unless another predicate of the source took it first.

`CONVERTERS[datatype]` is the function from a lexical form to its value, or None where the form itself is the value (a
string, or an unknown datatype) or needs its language. A form that its datatype does not allow is a ValueError: the reader
keeps it as text.

A point is `POINT(lon lat)`, with or without the IRI of a reference system or of a globe before it. Longitude comes first,
except in EPSG:4326, which has latitude first. Other geometries, and points in other reference systems, are no Coordinate:
they stay text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import quote, unquote

from pyoxigraph import BlankNode, Literal, NamedNode

from kbdisk.entity import NOVALUE, SOMEVALUE, Coordinate, Date, Known, Link, Quantity, Text, Tree, Value
from kbdisk.schemas.text import dates, numerals
from kbdisk.schemas.text.numerals import Number, number, show

if TYPE_CHECKING:
    import pyoxigraph


# ---------------------------------------------------------------- vocabulary


RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
XSD = "http://www.w3.org/2001/XMLSchema#"
SKOS = "http://www.w3.org/2004/02/skos/core#"
GEO = "http://www.w3.org/2003/01/geo/wgs84_pos#"
WIKIBASE = "http://wikiba.se/ontology#"
OURS = "urn:kbdisk:"  # for what a tree holds and RDF has no term for
KEY = OURS + "key:"  # a key that was no IRI
ID = OURS + "id:"  # an id that was no IRI
THING = OURS + "thing"  # the class of entities without any statement
PART = OURS + "part"  # a part with nothing in it

TYPE = RDF + "type"
FIRST, REST, NIL, LIST = RDF + "first", RDF + "rest", RDF + "nil", RDF + "List"
CHAIN = {FIRST: "rdf:first", REST: "rdf:rest"}  # keys where a collection is not well-formed
SUBCLASS = RDFS + "subClassOf"
LATITUDE, LONGITUDE = GEO + "lat", GEO + "long"
STRING = XSD + "string"

LABELS = (RDFS + "label", SKOS + "prefLabel", "http://schema.org/name", "https://schema.org/name")

WELL_KNOWN = {  # names for predicates whose last word is taken, where a file has no prefix of its own
    RDF: "rdf",
    RDFS: "rdfs",
    SKOS: "skos",
    GEO: "geo",
    "http://www.w3.org/2002/07/owl#": "owl",
    "http://schema.org/": "schema",
    "https://schema.org/": "schema",
    "http://xmlns.com/foaf/0.1/": "foaf",
    "http://purl.org/dc/elements/1.1/": "dc",
    "http://purl.org/dc/terms/": "dcterms",
    "http://dbpedia.org/ontology/": "dbo",
    "http://dbpedia.org/property/": "dbp",
    "http://www.w3.org/ns/prov#": "prov",
    "http://www.opengis.net/ont/geosparql#": "geosparql",
    "http://qudt.org/schema/qudt/": "qudt",
}


# ---------------------------------------------------------------- keys and ids


class Names:
    """The key of each predicate: first come, first served, and the same at every reading of a source.

    `prefixes` are those of the source (prefix -> namespace); they name a predicate whose last word is taken.
    """

    def __init__(self) -> None:
        self.keys: dict[str, str] = {}  # predicate IRI -> key
        self.iris: dict[str, str] = {"@first": FIRST, "@rest": REST, **{key: iri for iri, key in CHAIN.items()}}
        self.prefixes: Mapping[str, str] = {}
        # predicates that need a look each time, kept out of `keys`
        self._special: dict[str, str] = {FIRST: "@first", REST: "@rest"}

    def key(self, iri: str) -> str:
        """The key of a predicate."""
        known = self.keys.get(iri) or self._special.get(iri)
        if known is None:
            known = self.keys[iri] = self._named(iri)
        return known

    def special(self, iri: str) -> str:
        """The key of a predicate that is looked up each time."""
        known = self._special.get(iri)
        if known is None:
            known = self._special[iri] = self._named(iri)
        return known

    def known(self, iri: str) -> str | None:
        """The key of a predicate that has one, else None."""
        return self.keys.get(iri) or self._special.get(iri)

    @property
    def contested(self) -> dict[str, str]:
        """key -> predicate, where another predicate has the same last word: another reading may give it the key."""
        counts = Counter(map(last_word, self.iris.values()))
        return {key: iri for key, iri in self.iris.items() if counts[last_word(iri)] > 1 and key[:1] != "@"}

    def _named(self, iri: str) -> str:
        key = next(name for name in self._candidates(iri) if name not in self.iris)
        self.iris[key] = iri
        return key

    def _candidates(self, iri: str) -> tuple[str, ...]:
        word = last_word(iri)
        if iri.startswith(KEY):
            return (word, iri)
        if not word or word.startswith("@"):
            return (iri,)
        space = iri[: -len(word)]
        prefix = next((prefix for prefix, name in self.prefixes.items() if name == space and prefix), None)
        prefix = prefix or WELL_KNOWN.get(space)
        return (word, f"{prefix}:{word}", iri) if prefix else (word, iri)


def last_word(iri: str) -> str:
    """The last word of an IRI."""
    if iri.startswith(KEY):
        return unquote(iri[len(KEY) :])
    return iri[max(iri.rfind("#"), iri.rfind("/"), iri.rfind(":")) + 1 :]


def iri_of_key(key: str) -> str:
    """The predicate of a key in a source that is no RDF: the key itself where it is an IRI of the web."""
    return key if key.startswith(("http://", "https://")) and is_iri(key) else KEY + quote(key, safe="")


def iri_of_id(id: str) -> str:
    """The IRI of an entity in a source that is no RDF: the id itself where it is an IRI."""
    return id if is_iri(id) and not id.startswith(ID) else ID + quote(id, safe="")


def id_of_iri(iri: str) -> str:
    """The inverse of `iri_of_id`."""
    return unquote(iri[len(ID) :]) if iri.startswith(ID) else iri


def id_of_part(part: Tree) -> str:
    """The id of a part that is a named node; an empty string for a blank one."""
    id = part.get("@id")
    return id if isinstance(id, str) and not id.startswith("_:") else ""


def is_iri(text: str) -> bool:
    """Whether a text can stand as an absolute IRI as it is."""
    import pyoxigraph

    if ":" not in text:
        return False
    try:
        pyoxigraph.NamedNode(text)
    except ValueError:
        return False
    return True


# ---------------------------------------------------------------- points


EARTH = "http://www.wikidata.org/entity/Q2"
_REFERENCE_SYSTEM = re.compile(r"https?://www\.opengis\.net/def/crs/")
_LONGITUDE_FIRST = re.compile(_REFERENCE_SYSTEM.pattern + "(?i:OGC)/[0-9.]+/(?i:CRS84h?)")
_LATITUDE_FIRST = re.compile(_REFERENCE_SYSTEM.pattern + "(?i:EPSG)/[0-9.]+/(?:4326|4979)")
_GEOMETRIES = re.compile(
    "(?i)(?:POINT|LINESTRING|POLYGON|MULTI[A-Z]+|GEOMETRYCOLLECTION|CIRCULARSTRING|COMPOUNDCURVE|CURVEPOLYGON|CURVE|SURFACE"
    "|POLYHEDRALSURFACE|TIN|TRIANGLE|LINEARRING|ENVELOPE|BOX)"
)

_POINT_NUMBER = "[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?"
_POINT = re.compile(
    rf"(?P<before>(?:<(?P<system>[^<>]*)>\s*)?(?i:POINT)(?:\s*(?i:ZM?|M))?\s*\(\s*)"
    rf"(?P<x>{_POINT_NUMBER})(?P<between>[\s,]\s*)(?P<y>{_POINT_NUMBER})(?P<more>(?:\s+{_POINT_NUMBER}){{0,2}})(?P<after>\s*\)\s*)"
)
_DEFAULT_LAYOUT = ("POINT(", " ", ")")


def read_point(text: str) -> Coordinate | str:
    """The coordinate of a point; text where it is another geometry; ValueError where it is none."""
    match = _POINT.fullmatch(text)
    if match is None:
        word = text[text.find(">") + 1 :].lstrip() if text[:1] == "<" else text
        if _GEOMETRIES.match(word) is None:
            raise ValueError(f"expected a geometry such as POINT(19.8 41.3), got {text[:60]!r}")
        return text
    x, y = number(match["x"]), number(match["y"])
    system = match["system"] or ""
    if _LATITUDE_FIRST.fullmatch(system):
        return coordinate_of(x, y)
    if not system or _LONGITUDE_FIRST.fullmatch(system):
        return coordinate_of(y, x)
    return text if _REFERENCE_SYSTEM.match(system) else coordinate_of(y, x, system)


def coordinate_of(latitude: Number | None, longitude: Number | None, globe: str = "") -> Coordinate:
    """A coordinate; ValueError where its degrees are out of range."""
    if latitude is not None and not -90 <= latitude <= 90:
        raise ValueError(f"expected a latitude from -90 to 90, got {latitude}")
    if longitude is not None and not -360 <= longitude <= 360:
        raise ValueError(f"expected a longitude from -360 to 360, got {longitude}")
    return Coordinate(latitude, longitude, "" if globe == EARTH else globe)


def write_point(coordinate: Coordinate, samples: Sequence[str] = ()) -> str:
    """A point as text, spelt as most of the samples are; ValueError where no point is that coordinate."""
    x, y = coordinate.longitude, coordinate.latitude
    if x is None or y is None:
        raise ValueError("expected a latitude and a longitude, got one of them")
    layouts: Counter[tuple[str, str, str, bool]] = Counter()
    for match in filter(None, map(_POINT.fullmatch, samples)):
        system = match["system"] or ""
        if not match["more"] and _globe(system) == coordinate.globe:
            layouts[
                match["before"], match["between"], match["after"], _LATITUDE_FIRST.fullmatch(system) is not None
            ] += 1
    before, between, after, flipped = next(iter(layouts.most_common(1)), ((*_DEFAULT_LAYOUT, False), 0))[0]
    if not layouts and coordinate.globe:
        before = f"<{coordinate.globe}> {before}"
    first, second = (show(y), show(x)) if flipped else (show(x), show(y))
    text = before + first + between + second + after
    if read_point(text) != coordinate:
        raise ValueError(f"expected a place on a globe, got {coordinate}")
    return text


def _globe(system: str) -> str:
    return "" if not system or _REFERENCE_SYSTEM.match(system) or system == EARTH else system


# ---------------------------------------------------------------- literals


Converter: TypeAlias = Callable[[str], Any]

LANGUAGE = RDF + "langString"
ANY_URI = XSD + "anyURI"
BOOLEAN, INTEGER, DECIMAL, DOUBLE = XSD + "boolean", XSD + "integer", XSD + "decimal", XSD + "double"
WKT = "http://www.opengis.net/ont/geosparql#wktLiteral"
POINTS = (WKT, "http://www.openlinksw.com/schemas/virtrdf#Geometry")
EDTF = "http://id.loc.gov/datatypes/edtf/"
OWL_TIME = "http://www.w3.org/2006/time#general"  # owl-time's own names for gDay, gMonth and gYear
UCUM = ("https://w3id.org/cdt/", "http://w3id.org/lindt/custom_datatypes#")
UNIT_ALONE = "ucumunit"
DBPEDIA = "http://dbpedia.org/datatype/"
NOT_UNITS = ("engineConfiguration", "fuelType", "valvetrain")  # DBpedia's datatypes that are kinds of things
BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
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
    **{OWL_TIME + name[1:]: name for name in ("gYear", "gMonth", "gDay")},
    **{EDTF + name: name for name in dates.EDTF},
}
NAMED: dict[str, Known | None] = {OURS + "somevalue": SOMEVALUE, OURS + "novalue": NOVALUE, OURS + "asked": None}
IRIS_OF_KNOWN: dict[Known | None, str] = {value: iri for iri, value in NAMED.items()}
KBDISK_DATATYPES: dict[str, type[Date] | type[Coordinate]] = {OURS + "date": Date, OURS + "coordinate": Coordinate}
OUR_DECIMAL, OUR_TEXT = OURS + "decimal", OURS + "text"

_QUANTITY = re.compile(r"([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)(?: +(\S+))?")


class LexicalLiteral(NamedTuple):
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


def literal_of(value: Value) -> LexicalLiteral:
    """The most natural literal of a value; ValueError where there is none (None, a link, a list, a part)."""
    maker = LITERAL_MAKERS.get(type(value))
    literal = maker(value) if maker else None
    if literal is None:
        raise ValueError(f"expected a value that one literal can say, got {type(value).__name__}")
    return literal


def language_of(literal: pyoxigraph.Literal) -> str | None:
    """The language of a literal, with its base direction where it has one, as RDF 1.2 spells them: `ar--rtl`."""
    language = literal.language
    return f"{language}--{literal.direction.value}" if literal.direction else language


def in_language(text: str, language: str) -> pyoxigraph.Literal:
    """A text in a language as pyoxigraph's literal, with or without a base direction; ValueError where the tag is invalid."""
    import pyoxigraph

    tag, dashes, direction = language.partition("--")
    if not dashes:
        return pyoxigraph.Literal(text, language=language)
    return pyoxigraph.Literal(text, language=tag, direction=pyoxigraph.BaseDirection(direction))


def unit_of(datatype: str) -> str | None:
    """The unit of a DBpedia datatype, or None."""
    name = datatype[len(DBPEDIA) :] if datatype.startswith(DBPEDIA) else ""
    return name if name and name not in NOT_UNITS else None


# ---------------------------------------------------------------- reading


def _boolean(lexical: str) -> bool:
    value = BOOLEANS.get(lexical)
    if value is None:
        raise ValueError(f"expected true or false, got {lexical!r}")
    return value


def _in_range(low: int | None, high: int | None, lexical: str) -> int:
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


def _value_of_fields(kind: type[Date] | type[Coordinate], lexical: str) -> Any:
    """A value of kbdisk's datatypes: `year=2012;precision=decade`, texts percent-encoded."""
    known = {field.name: field.default == "" for field in fields(kind)}  # name -> whether it is a text
    values: dict[str, Any] = {} if kind is Date else {"latitude": None, "longitude": None}
    for pair in filter(None, lexical.split(";")):
        name, equals, text = pair.partition("=")
        if not equals or name not in known:
            raise ValueError(f"expected fields such as year=2012, got {lexical!r}")
        values[name] = unquote(text, errors="surrogatepass") if known[name] else numerals.number(text)
    return kind(**values)


def _language_text(lexical: str) -> Text:
    language, at, text = lexical.partition("@")
    if not at:
        raise ValueError(f"expected a language and a text such as en@house, got {lexical!r}")
    return Text(text, unquote(language))


class _Converters(dict[str, Converter | None]):
    """The table; datatypes of units are added when they are looked up."""

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
        BOOLEAN: _boolean,
        INTEGER: numerals.integer,
        **{XSD + name: partial(_in_range, low, high) for name, (low, high) in RANGES.items()},
        DECIMAL: numerals.decimal,
        DOUBLE: numerals.double,
        XSD + "float": numerals.double,
        XSD + "time": dates.READERS["time"],
        **{datatype: dates.READERS[name] for datatype, name in DATES.items()},
        **dict.fromkeys(POINTS, read_point),
        **{datatype: partial(_value_of_fields, kind) for datatype, kind in KBDISK_DATATYPES.items()},
        OUR_DECIMAL: numerals.number,
        OUR_TEXT: _language_text,
    }
)


# ---------------------------------------------------------------- writing


def _float_literal(value: float) -> LexicalLiteral:
    """Decimals where nothing is lost by them: no exponent, no negative zero."""
    text = repr(value)
    if "e" not in text and text != "-0.0":
        return LexicalLiteral(text, DECIMAL)
    mantissa, _, exponent = text.partition("e")
    mantissa += "" if "." in mantissa else ".0"
    return LexicalLiteral(f"{mantissa}E{int(exponent or 0)}", DOUBLE)


def _decimal_literal(value: Decimal) -> LexicalLiteral:
    try:
        return LexicalLiteral(numerals.show(value), DECIMAL)
    except ValueError:
        return LexicalLiteral(str(value), OUR_DECIMAL)


def _date_literal(value: Date) -> LexicalLiteral:
    name = dates.natural_datatype(value)
    if not name:
        return _kbdisk_literal(value)
    return LexicalLiteral(dates.write(value, name), (EDTF if name in dates.EDTF else XSD) + name)


def _coordinate_literal(value: Coordinate) -> LexicalLiteral:
    try:
        return LexicalLiteral(write_point(value), WKT)
    except ValueError:
        return _kbdisk_literal(value)


def _kbdisk_literal(value: Date | Coordinate) -> LexicalLiteral:
    pairs = ((field.name, getattr(value, field.name)) for field in fields(value))
    shown = ";".join(f"{name}={_field_text(item)}" for name, item in pairs if item is not None and item != "")
    return LexicalLiteral(shown, OURS + type(value).__name__.lower())


def _field_text(item: str | Number) -> str:
    if isinstance(item, str):
        return quote(item, errors="surrogatepass", safe=":/")
    return numerals.show(item) if isinstance(item, int) else str(item)


def _text_literal(value: Text) -> LexicalLiteral:
    """A text with its language, or a literal of kbdisk's own where the tag is no valid one."""
    try:
        in_language(value.text, value.language)
    except ValueError:
        return LexicalLiteral(f"{quote(value.language, safe='')}@{value.text}", OUR_TEXT)
    return LexicalLiteral(value.text, LANGUAGE, value.language)


LITERAL_MAKERS: dict[type[Any], Callable[[Any], LexicalLiteral]] = {
    bool: lambda value: LexicalLiteral(str(value).lower(), BOOLEAN),
    int: lambda value: LexicalLiteral(numerals.show(value), INTEGER),
    float: _float_literal,
    Decimal: _decimal_literal,
    str: lambda value: LexicalLiteral(value, STRING),
    Text: _text_literal,
    Date: _date_literal,
    Coordinate: _coordinate_literal,
}


# ---------------------------------------------------------------- terms


Term: TypeAlias = NamedNode | BlankNode | Literal


def value_of_term(term: Any) -> Any:
    """The value of a term; a literal that its datatype does not allow is text."""
    if isinstance(term, NamedNode):
        return NAMED[term.value] if term.value in NAMED else Link(id_of_iri(term.value))
    if isinstance(term, Literal):
        try:
            return value_of(term.value, term.datatype.value, language_of(term))
        except ValueError:
            return term.value
    return Link(f"_:{term.value}") if isinstance(term, BlankNode) else str(term)


def link_term(link: Link) -> NamedNode | BlankNode:
    """A link as a term; an id that is no IRI, or that has a meaning here, becomes an IRI of kbdisk."""
    if link.id.startswith("_:"):
        try:
            return BlankNode(link.id[2:])
        except ValueError:
            raise ValueError(f"expected a node with a label, got the anonymous {link.id}") from None
    return NamedNode(ID + quote(link.id, safe="") if link.id in NAMED else iri_of_id(link.id))


def literal_term(lexical: str, datatype: str, language: str | None = None) -> Literal:
    """A literal as a term; ValueError where it has a lone surrogate, which no RDF file can hold."""
    try:
        lexical.encode()
    except UnicodeEncodeError:
        raise ValueError(f"expected text that can be written as UTF-8, got {lexical!r}") from None
    if language is not None:
        return in_language(lexical, language)
    return Literal(lexical) if datatype == STRING else Literal(lexical, datatype=NamedNode(datatype))
