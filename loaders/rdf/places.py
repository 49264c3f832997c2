"""Points as Well-Known Text: `POINT(lon lat)`, with or without the IRI of a reference system or of a globe before it.

Longitude comes first, except in EPSG:4326, which says latitude first. Other geometries, and points in other reference
systems, are no Coordinate: they stay text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from kbdisk.entity import Coordinate
from kbdisk.schemas.text.numerals import Number, number, show

EARTH = "http://www.wikidata.org/entity/Q2"
SYSTEM = re.compile(r"https?://www\.opengis\.net/def/crs/")
LONGITUDE_FIRST = re.compile(SYSTEM.pattern + "(?i:OGC)/[0-9.]+/(?i:CRS84h?)")
LATITUDE_FIRST = re.compile(SYSTEM.pattern + "(?i:EPSG)/[0-9.]+/(?:4326|4979)")
GEOMETRIES = re.compile(
    "(?i)(?:POINT|LINESTRING|POLYGON|MULTI[A-Z]+|GEOMETRYCOLLECTION|CIRCULARSTRING|COMPOUNDCURVE|CURVEPOLYGON|CURVE|SURFACE"
    "|POLYHEDRALSURFACE|TIN|TRIANGLE|LINEARRING|ENVELOPE|BOX)"
)

_NUMBER = "[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?"
_POINT = re.compile(
    rf"(?P<before>(?:<(?P<system>[^<>]*)>\s*)?(?i:POINT)(?:\s*(?i:ZM?|M))?\s*\(\s*)"
    rf"(?P<x>{_NUMBER})(?P<between>[\s,]\s*)(?P<y>{_NUMBER})(?P<more>(?:\s+{_NUMBER}){{0,2}})(?P<after>\s*\)\s*)"
)
DEFAULT = ("POINT(", " ", ")")


def read(text: str) -> Coordinate | str:
    """The coordinate of a point; text where it is another geometry; ValueError where it is none."""
    match = _POINT.fullmatch(text)
    if match is None:
        word = text[text.find(">") + 1 :].lstrip() if text[:1] == "<" else text
        if GEOMETRIES.match(word) is None:
            raise ValueError(f"expected a geometry such as POINT(19.8 41.3), got {text[:60]!r}")
        return text
    x, y = number(match["x"]), number(match["y"])
    system = match["system"] or ""
    if LATITUDE_FIRST.fullmatch(system):
        return place(x, y)
    if not system or LONGITUDE_FIRST.fullmatch(system):
        return place(y, x)
    return text if SYSTEM.match(system) else place(y, x, system)


def place(latitude: Number | None, longitude: Number | None, globe: str = "") -> Coordinate:
    """A coordinate; ValueError where no globe has such a place."""
    if latitude is not None and not -90 <= latitude <= 90:
        raise ValueError(f"expected a latitude from -90 to 90, got {latitude}")
    if longitude is not None and not -360 <= longitude <= 360:
        raise ValueError(f"expected a longitude from -360 to 360, got {longitude}")
    return Coordinate(latitude, longitude, "" if globe == EARTH else globe)


def write(coordinate: Coordinate, samples: Sequence[str] = ()) -> str:
    """A point, spelt as most of the samples are; ValueError where a point cannot say it."""
    x, y = coordinate.longitude, coordinate.latitude
    if x is None or y is None:
        raise ValueError("expected a latitude and a longitude, got one of them")
    layouts: Counter[tuple[str, str, str, bool]] = Counter()
    for match in filter(None, map(_POINT.fullmatch, samples)):
        system = match["system"] or ""
        if not match["more"] and _globe(system) == coordinate.globe:
            layouts[
                match["before"], match["between"], match["after"], LATITUDE_FIRST.fullmatch(system) is not None
            ] += 1
    before, between, after, flipped = next(iter(layouts.most_common(1)), ((*DEFAULT, False), 0))[0]
    if not layouts and coordinate.globe:
        before = f"<{coordinate.globe}> {before}"
    first, second = (show(y), show(x)) if flipped else (show(x), show(y))
    text = before + first + between + second + after
    if read(text) != coordinate:
        raise ValueError(f"expected a place on a globe, got {coordinate}")
    return text


def _globe(system: str) -> str:
    return "" if not system or SYSTEM.match(system) or system == EARTH else system
