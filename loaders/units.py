"""Bare numbers whose unit the user tells: read as quantities, written as the numbers they were.

A path here is its names alone: `cameras.aperture` is that of every camera.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from kbdisk.entity import Completion, Entity, Path, Quantity, show

NUMBERS = (int, float, Decimal)


class Units:
    """The units of some paths, and at which of them no number was met yet."""

    def __init__(self, units: Mapping[Path, str]) -> None:
        self.units = {_names(path): unit for path, unit in units.items()}
        self.unmet = set(self.units)

    def measured(self, entity: Entity) -> Entity:
        """The entity with its bare numbers as quantities; what it was read from stays as it was."""
        for names, unit in self.units.items():
            entity.tree = self._measured(entity.tree, names, names, unit)
        if entity.made:
            entity.made = {
                path: self._measured(value, (), _names(path), self.units[_names(path)])
                if _names(path) in self.units
                else value
                for path, value in entity.made.items()
            }
        return entity

    def bare(
        self, items: Iterable[Entity | Completion], refused: list[tuple[str, Path, str]]
    ) -> Iterator[Entity | Completion]:
        """Completions whose quantities at these paths are bare numbers again; other units are refused."""
        for item in items:
            if not isinstance(item, Completion):
                yield item
                continue
            filled = dict(item.filled)
            for path, one in item.filled.items():
                unit = self.units.get(_names(path))
                if unit is None or not isinstance(one.value, Quantity):
                    continue
                if one.value.unit in (unit, None):
                    filled[path] = replace(one, value=one.value.value)
                else:
                    del filled[path]
                    reason = f"is in {one.value.unit!r}, and the numbers of this property are in {unit!r}"
                    refused.append((item.entity.id, path, reason))
            yield Completion(item.entity, filled)

    def oddities(self) -> Iterator[str]:
        """What is to be said of paths without a number."""
        return (f"no number at {show(names)}, which was to have a unit" for names in sorted(self.unmet))

    def _measured(self, value: Any, way: tuple[str, ...], names: tuple[str, ...], unit: str) -> Any:
        if isinstance(value, list):
            return [self._measured(one, way, names, unit) for one in value]
        if way:
            within = isinstance(value, dict) and way[0] in value
            return {**value, way[0]: self._measured(value[way[0]], way[1:], names, unit)} if within else value
        if type(value) in NUMBERS:
            value = Quantity(value, unit)
        if isinstance(value, Quantity):  # some formats tell the unit themselves
            self.unmet.discard(names)
        return value


def _names(path: Path) -> tuple[str, ...]:
    return tuple(key for key in path if isinstance(key, str))
