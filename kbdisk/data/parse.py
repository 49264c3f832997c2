"""An entity parsed by its schema: the leaves of its values, its gaps, and the paths that no property is for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from kbdisk.entity import SOMEVALUE, Entity, Known, Path, is_gap, walk, without_places
from kbdisk.schemas.composites import Kind
from kbdisk.schemas.composites.base import EACH, is_composite
from kbdisk.schemas.composites.listed import COUNT, Listed
from kbdisk.schemas.composites.mapped import ALONE, Mapped
from kbdisk.schemas.composites.quantity import BARE
from kbdisk.schemas.schema import Class, Misfit, Schema

LISTED = (Listed, Mapped)
MAX_CACHED_PATHS = 100_000  # others are looked up again
NOT_LOOKED_UP: Path = ("",)  # in the place of a path without a property


class Whole(Protocol):
    """The entity of a reading and the values of whole properties, which most passes over many entities do not need."""

    @property
    def values(self) -> dict[Path, Any]:
        """Known values of whole properties, ignored ones included, in the forms of their kinds."""

    @property
    def entity(self) -> Entity:
        """The entity."""


class Parsed(NamedTuple):
    """The entity and the values in memory."""

    values: dict[Path, Any]
    entity: Entity


class Reading(NamedTuple):
    """An entity parsed by the properties of its class."""

    id: str  # by which links find it
    class_name: str
    classes: tuple[str, ...]  # all that the entity states
    label: str | None
    leaves: dict[Path, Any]  # known values
    gaps: list[Path]  # places without a value
    occupied: list[Path]  # properties with something that is no known value: it exists, or does not fit the schema
    absent: list[Path]  # properties known not to exist
    whole: Whole

    @property
    def values(self) -> dict[Path, Any]:
        """Known values of whole properties, ignored ones included, in the forms of their kinds."""
        return self.whole.values

    @property
    def entity(self) -> Entity:
        """The entity."""
        return self.whole.entity


def read_all(schema: Schema, entities: Iterable[Entity | Reading]) -> Iterator[Reading]:
    """The readings of all entities that the schema has a class for; a reading stays as it is."""
    for entity in entities:
        reading = entity if isinstance(entity, Reading) else read(schema, entity)
        if reading is not None:
            yield reading


def read(schema: Schema, entity: Entity) -> Reading | None:
    """The reading of an entity; None where the schema has no class for it."""
    entity_class = schema.class_of(entity)
    if entity_class is None:
        return None
    reading = Reading(
        schema.id_of(entity), entity_class.name, entity.classes, entity.label, {}, [], [], [], Parsed({}, entity)
    )
    misfits: list[Misfit] = []
    for path, property, value in schema.applied(entity_class, entity, misfits):
        if value is not None and not isinstance(value, Known):
            reading.values[path] = value
        if property.role == "ignore":
            continue
        if isinstance(value, Known):
            (reading.occupied if value is SOMEVALUE else reading.absent).append(path)
        elif value is None:
            reading.gaps.append(path)
        elif not is_composite(property.kind):
            reading.leaves[path] = value
        else:
            is_listed = isinstance(property.kind, LISTED)
            for within, leaf in property.kind.split(value).items():
                kept = _learnt(property.kind, within, leaf) if is_listed else leaf
                if kept is not None:
                    reading.leaves[_joined(path, within)] = kept
                if within[-1:] == BARE:  # its unit is asked for
                    reading.gaps.append(_joined(path, within[:-1]))
            if is_gap(value):  # a quantity, though its unit may be there
                reading.gaps.append(path)
            if is_listed:
                reading.gaps.extend(_joined(path, within) for within in _blanks(property.kind, value))
    reading.occupied.extend(misfit.path for misfit in misfits)
    return reading


@lru_cache(MAX_CACHED_PATHS)
def _joined(path: Path, within: Path) -> Path:
    """The path of a part. Entities share the paths of their parts, as millions of equal ones take memory."""
    return (*path, *within)


def _learnt(kind: Kind, within: Path, leaf: Any) -> Any:
    """A leaf as it is learnt, or None: of a list longer than its kind's `most`, the first places, and `most` as the length."""
    if not isinstance(kind, LISTED):
        return leaf
    if within == COUNT:
        return leaf if kind.most is None else min(leaf, kind.most)
    place, *rest = within
    if kind.most is not None and isinstance(place, int) and place >= kind.most:
        return None
    if COUNT[0] not in rest and without_places(tuple(rest)) == tuple(rest):
        return leaf
    inner = {path[1:]: inner_kind for path, inner_kind in kind.leaves().items() if path[:1] == (EACH,)}
    beginning = next((path for path in inner if tuple(rest[: len(path)]) == path), None)
    return leaf if beginning is None else _learnt(inner[beginning], tuple(rest[len(beginning) :]), leaf)


def _blanks(kind: Kind, value: Any) -> Iterator[Path]:
    """The paths of places of a list or map that have no value."""
    if is_gap(value):
        yield ()
    elif isinstance(kind, Listed):
        for place, item in enumerate(value):
            alone = not isinstance(item, dict) or "" in kind.fields
            for name, inner in [("", item)] if alone else item.items():
                if name in kind.fields or inner is None:
                    within = _blanks(kind.fields.get(name), inner)
                    yield from ((place, *([] if alone else [name]), *rest) for rest in within)
    elif isinstance(kind, Mapped):
        entries = [entry for key, entry in value.items() if key[:1] != "@"]
        for place, entry in enumerate(entries):
            alone = not isinstance(entry, dict) or "" in kind.fields
            for name, inner in [("", entry)] if alone else entry.items():
                if name in kind.fields or inner is None:
                    field = ALONE if alone else name if name.strip("_") != "key" else name + "_"
                    yield from ((place, field, *rest) for rest in _blanks(kind.fields.get(name), inner))


class Unlearnt:
    """Finds the paths of entities that no property of a schema is for. The schema is asked once about each path."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._beginnings = {
            name: {path[:length] for path in entity_class.properties for length in range(1, len(path) + 1)}
            for name, entity_class in schema.classes.items()
        }
        self._known: dict[str, dict[Path, Path | None]] = {name: {} for name in schema.classes}
        self.noted: set[tuple[str, Path]] = set()  # by class

    def note(self, entity: Entity) -> None:
        """Note the paths of an entity."""
        entity_class = self.schema.class_of(entity)
        if entity_class is not None:
            self.noted.update((entity_class.name, path) for path, _ in self.of(entity_class, entity))

    def noting(self, entities: Iterable[Entity]) -> Iterator[Entity]:
        """The same entities; the paths of each are noted as it passes."""
        for entity in entities:
            self.note(entity)
            yield entity

    def of(self, entity_class: Class, entity: Entity) -> Iterator[tuple[Path, Any]]:
        """Each such path of an entity, without places of lists, with a value there, which may be a gap.

        Where no property is for any value of a part, the path is that of the part.
        """
        values: dict[Path, Any] = {}
        known = self._known[entity_class.name]
        for path, value in walk(entity.tree):
            unlearnt = known.get(path, NOT_LOOKED_UP)
            if unlearnt is NOT_LOOKED_UP:
                names = without_places(path)
                unlearnt = known[names] if names in known else self._unlearnt(entity_class, names)
                if len(known) < MAX_CACHED_PATHS:
                    known[names] = known[path] = unlearnt
            if unlearnt is not None and values.get(unlearnt) is None:
                values[unlearnt] = value
        yield from values.items()

    def _unlearnt(self, entity_class: Class, names: Path) -> Path | None:
        if entity_class.knows(names):
            return None
        beginnings = self._beginnings[entity_class.name]
        beginning = (names[:length] for length in range(1, len(names)) if names[:length] not in beginnings)
        return next((path for path in beginning if not entity_class.knows(path)), names)
