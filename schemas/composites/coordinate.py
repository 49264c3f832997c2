"""Coordinates in degrees: latitude within 90, longitude within 180 or from 0 to 360, in whichever form it was given."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kbdisk.entity import Coordinate as Place
from kbdisk.entity import Path
from kbdisk.schemas.composites.base import Parts, fields_of
from kbdisk.schemas.kinds import Number
from kbdisk.schemas.text.numerals import number

NAMES = {"lat": "latitude", "latitude": "latitude"} | dict.fromkeys(("lon", "lng", "long", "longitude"), "longitude")
PAIR = re.compile(r"\s*([-+]?[\d.]+)(?:\s*[,;]\s*|\s+)([-+]?[\d.]+)\s*")
LATITUDE, LONGITUDE, GLOBE = ("latitude",), ("longitude",), ("globe",)


@dataclass(frozen=True)
class Coordinate:
    """(latitude, longitude). A pair without names is latitude first, unless `longitude_first`, as in GeoJSON."""

    longitude_first: bool = False

    def leaves(self) -> dict[Path, Any]:
        """Two numbers."""
        return {LATITUDE: Number(minimum=-90, maximum=90), LONGITUDE: Number(minimum=-180, maximum=360)}

    def apply(self, value: Any) -> Place:
        """A coordinate, a part with lat and lon (however named), a pair, or a pair as text."""
        place = self._read(value)
        for path, leaf in self.leaves().items():
            degrees = getattr(place, str(path[0]))
            if degrees is not None:
                leaf.check(degrees)
        return place

    def split(self, value: Place) -> Parts:
        """The halves that are known, and the globe."""
        parts = {LATITUDE: value.latitude, LONGITUDE: value.longitude, GLOBE: value.globe or None}
        return {path: part for path, part in parts.items() if part is not None}

    def join(self, parts: Mapping[Path, Any]) -> Place:
        """A coordinate, of which one half may be unknown."""
        return Place(parts.get(LATITUDE), parts.get(LONGITUDE), parts.get(GLOBE, ""))

    def _read(self, value: Any) -> Place:
        if isinstance(value, Place):
            return value
        if isinstance(value, dict):
            fields = fields_of(value)
            halves = {NAMES.get(key): half for key, half in fields.items()}
            if None not in halves and len(halves) == len(fields):
                return Place(halves.get("latitude"), halves.get("longitude"))
        match = PAIR.fullmatch(value) if isinstance(value, str) else None
        pair = [number(match[1]), number(match[2])] if match else value
        if not isinstance(pair, list | tuple) or len(pair) != 2 or tuple(pair) == (None, None):
            raise ValueError(f"expected a latitude and a longitude, got {value!r}")
        return Place(pair[1], pair[0]) if self.longitude_first else Place(pair[0], pair[1])
