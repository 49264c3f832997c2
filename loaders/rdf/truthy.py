"""New values for a Wikibase in RDF, as truthy triples: `wd:Q1 wdt:P2 "+1.9"^^xsd:decimal`.

Only the Wikibase gives statements their ids, so a full statement cannot be written. A truthy triple has no
room for a unit, nor for a precision coarser than a day.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pyoxigraph import Literal, NamedNode

from kbdisk.entity import Coordinate, Date, Known, Link, Quantity, Text
from kbdisk.loaders.rdf.literals import in_language
from kbdisk.loaders.rdf.vocabulary import XSD
from kbdisk.schemas.text import numerals
from kbdisk.schemas.text.calendars import to_wikibase
from kbdisk.schemas.text.dates import write

_DIRECT = re.compile(r"(.+/prop/direct/)P[1-9][0-9]*")
_KEY = re.compile(r"P[1-9][0-9]*")
_WKT = "http://www.opengis.net/ont/geosparql#wktLiteral"


def truthy_predicate(predicates: Iterable[str], key: str) -> str | None:
    """The predicate of a property's truthy values, where a knowledge base with these predicates has such; else None."""
    if _KEY.fullmatch(key) is None:
        return None
    return next((found[1] + key for one in predicates if (found := _DIRECT.fullmatch(one))), None)


def truthy_term(value: Any) -> Literal | NamedNode:
    """A value as a Wikibase spells it in a truthy triple; ValueError where it cannot."""
    match value:
        case bool() | Known() | dict() | list() | None:
            raise ValueError("a truthy triple cannot say that")
        case Text():
            return in_language(value.text, value.language)
        case str():
            return Literal(value)
        case Link():
            if value.id.startswith("_:"):
                raise ValueError("a Wikibase has no blank nodes for things")
            return NamedNode(value.id)
        case Date():
            return Literal(write(to_wikibase(value)[0], "dateTime"), datatype=NamedNode(XSD + "dateTime"))
        case Coordinate():
            return Literal(_point(value), datatype=NamedNode(_WKT))
        case Quantity(value=None):
            raise ValueError("the number is not known")
        case Quantity():
            return truthy_term(value.value)
    shown = numerals.show(value).removesuffix(".0")
    return Literal(shown if shown.startswith("-") else "+" + shown, datatype=NamedNode(XSD + "decimal"))


def _point(place: Coordinate) -> str:
    if place.latitude is None or place.longitude is None:
        raise ValueError("half of the place is not known")
    point = f"Point({numerals.show(place.longitude)} {numerals.show(place.latitude)})"
    return f"<{place.globe}> {point}" if place.globe else point
