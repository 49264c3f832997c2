"""Properties that several classes share: one definition for each path, wide enough for all of them.

A class with enough values keeps its own bounds, decimals and target of links. A class with few values takes those of the
definition, as its own would be due to chance. If other classes have sets of links, single links of a class with few values
become a set, provided that the source writes a set of one in the same way as a link. Texts of such a class, which have too
few repetitions to be labels, become labels where other classes have labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeAlias, TypeVar

from kbdisk.entity import Path
from kbdisk.schemas.composites.base import Kind
from kbdisk.schemas.composites.quantity import Quantity
from kbdisk.schemas.infer.numbers import factor_of
from kbdisk.schemas.kinds import Category, Link, Number, Set, Text
from kbdisk.schemas.merging import merge_kinds
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema

MIN_OWN_VALUES = 20  # with fewer a class has no bounds of its own

T = TypeVar("T")
Place: TypeAlias = tuple[str, Path]  # a class and a path in it


@dataclass
class _Group:
    """Properties of classes at one path whose kinds go together."""

    kind: Kind
    properties: dict[str, Property]  # by class

    def take(self, name: str, property: Property) -> bool:
        """Add a property of another class where its kind goes together with these; returns whether it was added."""
        role = next(iter(self.properties.values())).role
        kind = merge_kinds(self.kind, property.kind) if role == property.role else None
        if kind is None:
            return False
        self.kind, self.properties[name] = kind, property
        return True

    def definition(self) -> Property:
        """The property of all these classes."""
        properties = list(self.properties.values())
        return Property(
            self.kind,
            properties[0].role,
            required=all(property.required for property in properties),
            unique=all(property.unique for property in properties),
            many=_most_frequent(property.many for property in properties) or "",
            missing=tuple(dict.fromkeys(chain.from_iterable(property.missing for property in properties))),
            novalue=tuple(dict.fromkeys(chain.from_iterable(property.novalue for property in properties))),
            iri=_most_frequent(property.iri for property in properties),
            label=_most_frequent(property.label for property in properties) or "",
        )


def share(schema: Schema, counts: Mapping[Place, int], unlisted: Collection[Place] = ()) -> Schema:
    """The schema with definitions of the properties that several classes share.

    `counts` has the values of each class and path; `unlisted` the places of which some values are outside of lists. Each class has
    the unchanged shared properties before all others. Without shared properties the schema itself is returned.
    """
    schema = in_one_unit(schema, counts)
    groups: dict[Path, list[_Group]] = {}
    for name, class_ in schema.classes.items():
        for path, property in class_.properties.items():
            known = groups.setdefault(path, [])
            if not any(group.take(name, property) for group in known):
                known.append(_Group(property.kind, {name: property}))
    for path, path_groups in groups.items():
        _join_links(path, path_groups, counts, unlisted)
        _join_texts(path, path_groups, counts)
    largest = {path: max(path_groups, key=lambda group: len(group.properties)) for path, path_groups in groups.items()}
    shared = {path: group for path, group in largest.items() if len(group.properties) > 1}
    if not shared:
        return schema
    definitions = {path: group.definition() for path, group in shared.items()}
    classes: dict[str, Class] = {}
    for name, class_ in schema.classes.items():
        properties = dict(class_.properties)
        for path, property in properties.items():
            if path in shared and name in shared[path].properties:
                has_own_kind = counts.get((name, path), 0) >= MIN_OWN_VALUES
                properties[path] = _of_class(definitions[path], property, has_own_kind)
        unchanged = {
            path: shared_property
            for path, shared_property in properties.items()
            if shared_property == definitions.get(path)
        }
        classes[name] = replace(class_, properties={**unchanged, **properties})
    return replace(schema, classes=classes, properties=definitions)


def _join_links(path: Path, groups: list[_Group], counts: Mapping[Place, int], unlisted: Collection[Place]) -> None:
    """Moves links of classes with few values to the group of classes with sets of links, if there is one."""
    sets = next((group for group in groups if isinstance(group.kind, Set) and isinstance(group.kind.of, Link)), None)
    if sets is None or not any((name, path) in unlisted for name in sets.properties):
        return
    _move_small_classes(path, groups, counts, sets, _set_of_links)


def _join_texts(path: Path, groups: list[_Group], counts: Mapping[Place, int]) -> None:
    """Moves texts of classes with few values to the group of classes with labels, whose vocabulary is open from then on."""
    labels = next((group for group in groups if isinstance(group.kind, Category) and not group.kind.ordered), None)
    if labels is not None:
        _move_small_classes(path, groups, counts, labels, _open_labels)


def _set_of_links(property: Property) -> Property | None:
    return replace(property, kind=Set(property.kind), many="") if isinstance(property.kind, Link) else None


def _open_labels(property: Property) -> Property | None:
    is_text = isinstance(property.kind, Text) and property.kind.language is None
    return replace(property, kind=Category()) if is_text else None


def _move_small_classes(
    path: Path,
    groups: list[_Group],
    counts: Mapping[Place, int],
    target: _Group,
    convert: Callable[[Property], Property | None],
) -> None:
    """Moves the properties of classes with few values to a group that takes them, once converted to its kind."""
    for group in groups:
        for name, property in list(group.properties.items()):
            converted = convert(property) if counts.get((name, path), 0) < MIN_OWN_VALUES else None
            if converted is not None and target.take(name, converted):
                del group.properties[name]
    groups[:] = [group for group in groups if group.properties]


def _of_class(definition: Property, property: Property, own_kind: bool) -> Property:
    """A shared property as a class has it: required and unique as in the class, and with its kind where `own_kind`."""
    kind = _scaled_like(property.kind, definition.kind) if own_kind else definition.kind
    return replace(definition, kind=kind, unique=property.unique, required=property.required)


def _scaled_like(kind: Kind, definition: Kind) -> Any:
    """A kind on the scale of the definition: a scale is no bound of a class."""
    if isinstance(kind, Quantity):
        factors = {unit: factor for unit, factor in definition.factors.items() if unit != kind.unit}
        return replace(kind, value=_scaled_like(kind.value, definition.value), factors=factors)
    return replace(kind, transform=definition.transform) if isinstance(kind, Number) else kind


def _most_frequent(values: Iterable[T]) -> T | None:
    """The most frequent value that is not empty; of equally frequent ones the first."""
    counts = Counter(value for value in values if value)
    return max(counts, key=counts.__getitem__, default=None)


# ---------------------------------------------------------------- the main unit


def in_one_unit(schema: Schema, counts: Mapping[tuple[str, Path], int]) -> Schema:
    """The schema in which all classes have the same main unit of a property: that of most values, if the units convert."""
    votes: dict[Path, Counter[str]] = {}
    for name, class_ in schema.classes.items():
        for path, property_ in class_.properties.items():
            if isinstance(property_.kind, Quantity) and property_.kind.learnt_in is not None:
                votes.setdefault(path, Counter())[property_.kind.learnt_in] += counts.get((name, path), 0)
    mains = {path: max(sorted(units), key=units.__getitem__) for path, units in votes.items() if len(units) > 1}
    classes = {}
    for name, class_ in schema.classes.items():
        properties = {
            path: replace(property_, kind=_with_main(property_.kind, mains[path])) if path in mains else property_
            for path, property_ in class_.properties.items()
        }
        classes[name] = replace(class_, properties=properties)
    return replace(schema, classes=classes) if mains else schema


def _with_main(kind: Any, main: str) -> Any:
    """A quantity with another main unit; unchanged where its own main unit does not convert."""
    if not isinstance(kind, Quantity) or kind.learnt_in in (None, main):
        return kind
    units = dict.fromkeys((main, *kind.units()))
    factors = {unit: factor_of(unit, main) for unit in units}
    own_factor = factor_of(str(kind.learnt_in), main)
    money = not any(factor for unit, factor in factors.items() if unit != main)  # no factor is known
    if own_factor is None and not money:
        return kind
    if kind.unit is None:
        return replace(kind, factors=dict.fromkeys(units) if money else {**factors, main: 1.0})
    minimum = kind.value.minimum
    value = replace(kind.value, integer=False, decimals=None, minimum=0 if minimum is not None and minimum >= 0 else None, maximum=None)  # fmt: skip
    return replace(
        kind, unit=main, factors={unit: factor for unit, factor in factors.items() if unit != main}, value=value
    )
