"""Holds constraints in what is written: those of the model's schema, and those of a shapes file.

The values that an entity would get are proposals, and those of one gap belong together. Where they break a constraint
with the given values or with each other, the surest are kept; see `constraints`. Values that were filled in for other
entities in the same run count, too, so that unique values stay unique.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from kbdisk.completion.constraints import (
    OTHER_ENTITIES,
    Interval,
    Others,
    Proposal,
    Restriction,
    excluded,
    restriction,
)
from kbdisk.completion.gaps import Gap
from kbdisk.data.superclasses import hierarchy_of
from kbdisk.entity import Entity, Filled, Path, with_values
from kbdisk.schemas.kinds import Category, Number
from kbdisk.schemas.schema import Class, Schema


@dataclass(frozen=True)
class _Demands:
    """A schema whose constraints hold, and what it needs to know of other entities."""

    schema: Schema
    others: Others | None
    is_of_model: bool  # so that values of the kinds of its properties are predicted anyway


class Consistency:
    """The constraints on the entities of a source."""

    def __init__(self, schema: Schema, shapes: Schema | None, entities: Iterable[Entity]) -> None:
        self.missing = schema.missing
        self.hierarchy: Mapping[str, Collection[str]] = {}
        stated = [schema] if any(of.constraints for of in schema.classes.values()) else []
        if shapes is not None:
            stated.append(renamed(shapes, schema))
            self.hierarchy = hierarchy_of(entities)
        self.demands = [
            _Demands(each, self._others(each, entities, each is not schema), each is schema) for each in stated
        ]

    def _others(self, schema: Schema, entities: Iterable[Entity], links: bool) -> Others | None:
        """The index of other entities, where a constraint needs one; `links`: the classes of linked entities count."""
        constraints = (constraint for of in schema.classes.values() for constraint in of.constraints)
        needs = links or any(
            constraint.kind in OTHER_ENTITIES or constraint.where is not None for constraint in constraints
        )
        return Others.of(schema, entities, self.hierarchy) if needs else None

    def restrictions(self, entity: Entity, gaps: Iterable[Gap]) -> dict[Path, list[Restriction]]:
        """What the given values of an entity leave to be stated in its gaps, by their paths."""
        found: dict[Path, list[Restriction]] = {}
        for demand in self.demands:
            for of in self._classes(demand.schema, entity):
                for gap in gaps:
                    if gap.path == gap.of.top and gap.path in _restricted(demand, of):
                        unit = getattr(gap.of.kind, "learnt_in", None)
                        found.setdefault(gap.path, []).append(self._restriction(demand, of, entity, gap.path, unit))
        return found

    def _restriction(self, demand: _Demands, of: Class, entity: Entity, path: Path, unit: str | None) -> Restriction:
        one = restriction(
            of,
            entity.tree,
            path,
            unit=unit,
            missing=self.missing,
            id=demand.schema.id_of(entity),
            others=demand.others,
        )
        kind = of.properties[path].kind if path in of.properties else None
        if isinstance(kind, Number):  # what a shapes file says of a number alone
            interval = one.interval or Interval()
            for bound, is_open, low in (
                (kind.minimum, False, True),
                (kind.above, True, True),
                (kind.maximum, False, False),
                (kind.below, True, False),
            ):
                if bound is not None:
                    interval = interval.above(bound, is_open) if low else interval.below(bound, is_open)
            return replace(one, interval=interval)
        if isinstance(kind, Category) and kind.closed:
            labels = frozenset(kind.values)
            return replace(one, allowed=labels if one.allowed is None else one.allowed & labels)
        return one

    def refused(self, entity: Entity, filled: Mapping[Path, Filled]) -> dict[Path, str]:
        """Which of the values that an entity would get are not written, and why; the others count for entities after it."""
        refused: dict[Path, str] = {}
        for demand in self.demands:
            for of in self._classes(demand.schema, entity):
                left = {path: one for path, one in filled.items() if path not in refused}
                refused |= self._refused(demand, of, entity, left)
        written = {path: one.value for path, one in filled.items() if path not in refused}
        for demand in self.demands if written else ():
            if demand.others is not None:
                for of in self._classes(demand.schema, entity):
                    id = demand.schema.id_of(entity)
                    demand.others.add(demand.schema, of, id, with_values(entity.tree, written))
        return refused

    def _refused(self, demand: _Demands, of: Class, entity: Entity, filled: Mapping[Path, Filled]) -> dict[Path, str]:
        if not filled:
            return {}
        paths = list(filled)
        proposals = [
            Proposal(path, one.value, 1.0 if one.confidence is None else one.confidence, _gap_of(path, one))
            for path, one in filled.items()
        ]
        tree = with_values(entity.tree, entity.made) if entity.made else entity.tree
        found = excluded(
            of, tree, proposals, missing=self.missing, id=demand.schema.id_of(entity), others=demand.others
        )
        return {paths[one.index]: f"breaks a constraint: {one.problem}" for one in found}

    def _classes(self, schema: Schema, entity: Entity) -> list[Class]:
        """All classes of a schema that an entity is of, those above its own ones included."""
        names, ahead = dict.fromkeys(entity.classes), list(entity.classes)
        while ahead:
            for name in self.hierarchy.get(ahead.pop(), ()):
                if name not in names:
                    names[name] = None
                    ahead.append(name)
        single = [replace(entity, classes=(name,)) for name in names] or [entity]
        found = (schema.class_of(one) for one in single)
        return list({id(of): of for of in found if of is not None}.values())


def _restricted(demand: _Demands, of: Class) -> set[Path]:
    """The properties of a class that a belief about them is restricted for."""
    stated = {path for constraint in of.constraints for path in (constraint.path, constraint.other) if path}
    return stated if demand.is_of_model else stated | set(of.properties)


def _gap_of(path: Path, one: Filled) -> Path:
    """What a value was filled with as one."""
    return getattr(one.belief, "gap", path)


def renamed(shapes: Schema, schema: Schema) -> Schema:
    """Shapes whose properties have the paths of a schema's properties with the same IRIs."""
    paths = {known.iri: path for of in schema.classes.values() for path, known in of.properties.items() if known.iri}
    classes = {}
    for name, of in shapes.classes.items():
        new = {path: paths.get(known.iri or "", path) for path, known in of.properties.items()}
        constraints = tuple(
            replace(
                constraint,
                path=new.get(constraint.path, constraint.path),
                other=new.get(constraint.other, constraint.other),
                allowed=tuple(new.get(path, path) for path in constraint.allowed),
            )
            for constraint in of.constraints
        )
        classes[name] = replace(
            of, properties={new[path]: known for path, known in of.properties.items()}, constraints=constraints
        )
    return replace(shapes, classes=classes)
