"""The split of entities into those that are learnt from and those that are held out, and samples of both.

The split is the same for the same entities and seed. Duplicates (but for id and name) and entities that link to each
other are on the same side, as a copy of a validation entity in training would make every measure too good.
"""

from __future__ import annotations

import random
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import networkx as nx
import numpy as np

from kbdisk.data.graph import linking, pattern, targets
from kbdisk.data.parse import Reading, read
from kbdisk.entity import Entity, Link, Path, walk
from kbdisk.rng import derive_seed
from kbdisk.schemas.kinds import COLLECTIONS, Text
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Schema

MIN_CLASS_ENTITIES = 10  # entities of a class, below which none is held out
MIN_COPIED_PROPERTIES = 3  # equal properties that make two entities copies
VALIDATION_SHARE, MAX_VALIDATION_SHARE, MIN_VALIDATION_ENTITIES = 0.1, 0.2, 50  # the default; larger for few entities
MAX_GROUP_SHARE = 0.02  # the largest group of linked entities, of all entities
MIN_SAMPLED = 1000  # entities of a class that are in a sample, as far as half of it is enough for those of all classes
SAMPLE_SEED = 17  # mixed with the run's seed


@dataclass(frozen=True)
class Split:
    """The places of training and validation entities, without those of no class of the schema."""

    training: tuple[int, ...]
    validation: tuple[int, ...]
    classes: Sequence[str | None]  # of all entities
    values: int  # known values of all entities

    def __len__(self) -> int:
        return len(self.training) + len(self.validation)

    def sampled(self, most: int, seed: int) -> Split:
        """About so many of the entities: the same share of both sides, and of each class but for small ones, which have a larger share."""
        if len(self) <= most:
            return self
        draw = _Draw((self.classes[place] for side in (self.training, self.validation) for place in side), most, seed)
        training, validation = (
            tuple(place for place in side if draw.takes(self.classes[place]))
            for side in (self.training, self.validation)
        )
        return replace(self, training=training, validation=validation)


class _Draw:
    """Draws about so many entities by their classes."""

    def __init__(self, classes: Iterable[str | None], most: int, seed: int) -> None:
        """`classes` are those of all entities that may be drawn."""
        sizes = Counter(classes)
        least = min(MIN_SAMPLED, most // (2 * len(sizes)))
        share = _share_of_large_classes(sizes.values(), most, least)
        self._shares = {name: max(share, least / size) for name, size in sizes.items()}
        self._random = random.Random(derive_seed(seed, SAMPLE_SEED))

    def takes(self, class_name: str | None) -> bool:
        """Whether an entity of a class is drawn."""
        return self._random.random() < self._shares[class_name]


def sampled_entities(
    schema: Schema, entities: Sequence[Entity], most: Callable[[int, int], int], seed: int
) -> tuple[list[int], int] | None:
    """The places of about so many of the entities that a schema has a class for, drawn by class, and how many are left out.

    `most` says by the number of entities and of values how many are drawn; None: there are no more.
    """
    classes: list[str | None] = []
    count, values = 0, 0
    for entity in entities:
        entity_class = schema.class_of(entity)
        classes.append(None if entity_class is None else entity_class.name)
        if entity_class is not None:
            count += 1
            values += sum(value is not None for _, value in walk(entity.tree))
    wanted = most(count, values)
    if count <= wanted:
        return None
    draw = _Draw((name for name in classes if name is not None), wanted, seed)
    places = [place for place, name in enumerate(classes) if name is not None and draw.takes(name)]
    return places, count - len(places)


def _share_of_large_classes(sizes: Iterable[int], most: int, least: int) -> float:
    """The share of the entities of a large class, so that with `least` entities of each small class there are `most`."""
    large, left = list(sizes), most
    while True:
        share = left / sum(large)
        small = [size for size in large if share * size < least]
        if not small:
            return share
        large = [size for size in large if share * size >= least]
        left -= sum(min(size, least) for size in small)


def split(schema: Schema, entities: Sequence[Entity | Reading], share: float | None, seed: int) -> Split:
    """Hold out a share of the entities of each class, group by group; none of a class with fewer than `MIN_CLASS_ENTITIES`.

    None: the default share for the number of all entities, as properties that classes share are learnt together.
    """
    classes, group, values = _groups(schema, entities)
    members: dict[int, list[int]] = {}
    sizes: dict[str, int] = {}
    for place, name in enumerate(classes):
        if name is not None:
            members.setdefault(group[place], []).append(place)
            sizes[name] = sizes.get(name, 0) + 1
    share = validation_share(max(sum(sizes.values()), 1)) if share is None else share
    left = {name: round(share * size) for name, size in sizes.items() if size >= MIN_CLASS_ENTITIES}
    order = list(members.values())
    random.Random(seed).shuffle(order)
    training: list[int] = []
    validation: list[int] = []
    for places in order:
        names = [name for place in places if (name := classes[place]) is not None]
        is_held_out = all(left.get(name, 0) >= names.count(name) for name in set(names))
        for name in names if is_held_out else ():
            left[name] -= 1
        (validation if is_held_out else training).extend(places)
    return Split(tuple(sorted(training)), tuple(sorted(validation)), classes, values)


def validation_share(size: int) -> float:
    """The default share of validation entities: a tenth, and up to a fifth of small data."""
    return min(max(VALIDATION_SHARE, MIN_VALIDATION_ENTITIES / size), MAX_VALIDATION_SHARE)


def _groups(schema: Schema, entities: Sequence[Entity | Reading]) -> tuple[list[str | None], list[int], int]:
    """The class of each entity, its group by the place of one of its members, and the number of known values of all."""
    groups, links = _Groups(len(entities)), _Links()
    classes: list[str | None] = []
    known_values = 0
    seen: dict[int, int] = {}  # by the hash of its values, the first entity that has it
    place_of: dict[str, int] = {}
    names = {name: _NamePaths(schema_class.properties) for name, schema_class in schema.classes.items()}
    linking_paths = {name: linking(entity_class.leaves()) for name, entity_class in schema.classes.items()}
    for place, entity in enumerate(entities):
        reading = _reading(schema, entity)
        classes.append(None if reading is None else reading.class_name)
        if reading is None:
            continue
        known_values += len(reading.leaves)
        groups.join(place_of.setdefault(reading.id, place), place, len(entities))
        if paths := linking_paths[reading.class_name]:
            for path, value in reading.leaves.items():
                if path in paths or pattern(path) in paths:
                    links.add(reading.id, targets(value))
        values = _compared_values(reading, names)
        if len(values) > MIN_COPIED_PROPERTIES:  # beside the class
            before = seen.setdefault(hash(values), place)
            earlier = _reading(schema, entities[before]) if before != place else None
            if earlier is not None and _compared_values(earlier, names) == values:
                groups.join(place_of[earlier.id], place, len(entities))
    most = max(2.0, MAX_GROUP_SHARE * len(entities))
    for ids in sorted(sorted(component) for component in nx.connected_components(links.mutual())):
        first, *others = (place_of[id] for id in ids)
        for other in others:
            groups.join(first, other, most)
    return classes, [groups.find(place) for place in range(len(entities))], known_values


class _Groups:
    """Disjoint groups of entities, by their places; at first each entity is a group."""

    def __init__(self, entities: int) -> None:
        self._leader, self._size = list(range(entities)), [1] * entities

    def find(self, place: int) -> int:
        """The member that stands for the group of an entity."""
        leader = self._leader
        while leader[place] != place:
            leader[place] = place = leader[leader[place]]
        return place

    def join(self, first: int, second: int, max_size: float) -> None:
        """Join the groups of two entities, unless they are too large together."""
        first, second = self.find(first), self.find(second)
        if first != second and self._size[first] + self._size[second] <= max_size:
            self._leader[second] = first
            self._size[first] += self._size[second]


class _Links:
    """Links between ids, which are numbered."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._sources, self._targets = array("i"), array("i")

    def add(self, source: str, linked: Iterable[str]) -> None:
        """Add the links of an id."""
        numbers = self._numbers
        for target in linked:
            self._sources.append(numbers.setdefault(source, len(numbers)))
            self._targets.append(numbers.setdefault(target, len(numbers)))

    def mutual(self) -> nx.Graph[str]:
        """The links that lead both ways."""
        count, ids = max(len(self._numbers), 1), list(self._numbers)
        there = np.unique(np.array(self._sources, np.int64) * count + np.array(self._targets, np.int64))
        source, target = np.divmod(there, count)
        is_mutual = np.isin(target * count + source, there)
        pairs = zip(source[is_mutual].tolist(), target[is_mutual].tolist(), strict=True)
        return nx.Graph((ids[one], ids[other]) for one, other in pairs)


def _reading(schema: Schema, entity: Entity | Reading) -> Reading | None:
    return entity if isinstance(entity, Reading) else read(schema, entity)


class _NamePaths(dict[Path, bool]):
    """Whether paths of a class are texts or unique to an entity. Each path is looked up once."""

    def __init__(self, properties: Mapping[Path, Property]) -> None:
        self._properties = properties

    def __missing__(self, path: Path) -> bool:
        beginnings = (path[:length] for length in range(1, len(path) + 1))
        property = next((self._properties[path] for path in beginnings if path in self._properties), None)
        self[path] = is_name = property is not None and (property.unique or isinstance(property.kind, Text))
        return is_name


def _compared_values(reading: Reading, names: Mapping[str, _NamePaths]) -> frozenset[Any]:
    """The class, and by path the values but for names and links: those of copies are equal."""
    is_name = names[reading.class_name]
    values: list[Any] = [reading.class_name]
    for path, value in reading.leaves.items():
        if is_name[path] or isinstance(value, Link):
            continue
        if not isinstance(value, COLLECTIONS):
            values.append((path, value))
        elif not any(isinstance(item, Link) for item in value):  # copies of one thing may differ in links
            values.append((path, tuple(value) if isinstance(value, list) else value))
    return frozenset(values)
