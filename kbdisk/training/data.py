"""The data of a run: the training and validation split, the fitted codec, and both sides encoded.

The split is the same for the same entities and seed. Duplicates (but for id and name) and entities that link to each
other are on the same side, as a copy of a validation entity in training would make every measure too good.

Of more entities than a time budget has time for, a sample of each class is learnt from; all that are not held out are evidence.

S slots
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any

import networkx as nx
import numpy as np
from torch import Tensor

from kbdisk.data import Codec
from kbdisk.data.dataset import Tokens
from kbdisk.data.graph import Graph, linking, pattern, targets
from kbdisk.data.parse import Reading, Unlearnt, read, read_all
from kbdisk.data.propagation import ChainSearch
from kbdisk.data.scales import with_scales
from kbdisk.data.spool import Selection, selected, spooled
from kbdisk.data.superclasses import hierarchy_of
from kbdisk.entity import Entity, Link, Path, show
from kbdisk.errors import SchemaError
from kbdisk.experts.base import Report, ignored
from kbdisk.rng import derive_seed
from kbdisk.schemas.kinds import COLLECTIONS, Text
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Schema
from kbdisk.training.reserve import without_reserved, without_slots
from kbdisk.training.run import Run
from kbdisk.training.trained import Trained

MIN_ENTITIES = 2  # entities of a training set
CHAIN_GROUPS_PER_SECOND = 120_000  # of a time budget: groups of far ends that chains of links are fitted to
MAX_ENTITIES_NAMED = 1000  # entities whose classes an error names


@dataclass(frozen=True)
class Data:
    """The codec, and training and validation entities encoded with it."""

    codec: Codec
    training: Tokens
    validation: Tokens
    complete: Tokens | None = None  # training with its reserved values; None: none are reserved
    left_out: int = 0  # the number of entities that are neither learnt from nor held out

    @property
    def missing(self) -> int:
        """The number of values that the entities lack, of those that can be predicted. Each part of a property counts."""
        sides = (self.training if self.complete is None else self.complete, self.validation)
        return sum(int(tokens.lacks.sum()) for tokens in sides)

    @property
    def held_out_values(self) -> Tensor:
        """(S,) the number of known values in each slot that no network and no expert learns from at first."""
        slots = len(self.codec.slots)
        held_out = self.validation.slot[self.validation.free].bincount(minlength=slots)
        if self.complete is None:
            return held_out
        reserved = self.complete.free & ~self.training.known
        return held_out + self.complete.slot[reserved].bincount(minlength=slots)

    @classmethod
    def prepare(
        cls,
        schema: Schema,
        entities: Sequence[Entity],
        run: Run,
        held_out: Sequence[Entity] = (),
        report: Report = ignored,
        readings: Sequence[Reading] | None = None,
        folder: FilePath | None = None,
    ) -> Data:
        """Split, fit and encode. With `held_out` entities, which have other ids, nothing is split off.

        `readings` are those of the entities by the schema, if the caller has them; `folder` is for files of encoded entities.
        Training entities are evidence for validation entities, but not the other way round.
        """
        readings = spooled(read_all(schema, entities), folder) if readings is None else readings
        parts = split(schema, readings, 0 if held_out else run.train.validation, run.seed)
        if len(parts.training) < MIN_ENTITIES:
            raise SchemaError("the entities", _too_few(schema, entities, len(parts.training)))
        learnt = parts.sampled(_max_entities(parts, run), run.seed)
        training: Sequence[Reading] = Selection(readings, parts.training)
        validation = selected(readings, learnt.validation, folder)
        if held_out:
            validation = [*validation, *read_all(schema, held_out)]
        unseen, finder = {reading.id for reading in validation}, Unlearnt(schema)
        hierarchy = hierarchy_of(entity for entity in finder.noting(entities) if schema.id_of(entity) not in unseen)
        for entity in held_out:
            finder.note(entity)
        schema, training, validation = with_scales(schema, training, validation, folder)
        known = Graph.read(schema, training)
        if len(learnt.training) < len(parts.training):
            training = selected(training, np.searchsorted(parts.training, learnt.training).tolist(), folder)
        chain_search = ChainSearch(
            None if run.train.seconds is None else int(CHAIN_GROUPS_PER_SECOND * run.train.seconds), report
        )
        codec = Codec.fit(schema, training, run.codec, known, hierarchy, chain_search, finder.noted)
        codec = codec.with_held_out(validation, finder.noted)
        if all(slot.fixed for slot in codec.slots):
            raise SchemaError("the schema", _nothing_to_learn(codec))
        complete = codec.encode(training, graph=known, folder=folder)
        # Without links held-out entities measure experts as well, and no values need be reserved.
        reserves = run.experts_share > 0 and len(validation) and len(complete.needs)
        known.add_all(validation)  # after the training entities are encoded
        return cls(
            codec,
            without_reserved(complete, run.seed) if reserves else complete,
            codec.encode(validation, graph=known, folder=folder),
            complete if reserves else None,
            left_out=len(parts) - len(learnt),
        )

    @classmethod
    def continuing(cls, start: Trained, entities: Sequence[Entity], folder: FilePath | None = None) -> Data:
        """Encode with the codec of a model of nearly the same entities. Its held-out entities and values stay held out."""
        codec = replace(start.codec, schema=replace(start.schema, rules=None))
        readings = spooled(read_all(codec.schema, entities), folder)
        held_out = frozenset(start.record.validation)
        ids = [reading.id for reading in readings]
        training = Selection(readings, [place for place, id in enumerate(ids) if id not in held_out])
        validation = selected(readings, [place for place, id in enumerate(ids) if id in held_out], folder)
        codec = codec.with_held_out(validation)
        complete = codec.encode(training, graph=Graph.read(codec.schema, training), folder=folder)
        return cls(
            codec,
            without_slots(complete, start.reserved) if start.reserved else complete,
            codec.encode(validation, graph=Graph.read(codec.schema, readings), folder=folder),
            complete if start.reserved else None,
        )


def _max_entities(parts: Split, run: Run) -> int:
    """The number of entities that a run learns from and holds out, at most."""
    if run.train.entities is not None or run.train.seconds is None:
        return run.train.entities or len(parts)
    return max(int(VALUES_PER_SECOND * run.train.seconds * len(parts) / max(parts.values, 1)), MIN_SAMPLED)


def _too_few(schema: Schema, entities: Sequence[Entity], usable: int) -> str:
    classes = ", ".join(name or "no name" for name in schema.classes) or "none"
    seen = (
        ", ".join(dict.fromkeys(name for entity in entities[:MAX_ENTITIES_NAMED] for name in entity.classes)) or "none"
    )
    advice = f" Their classes are: {seen}." if entities and not usable else ""
    return f"expected at least {MIN_ENTITIES} of the schema's classes ({classes}), got {usable} of {len(entities)}.{advice}"


def _nothing_to_learn(codec: Codec) -> str:
    fixed = [f"{show(path)} ({why})" for (_, path), why in list(codec.left_out.items())[:3]]
    fixed += [f"{show(slot.path)} (role: {slot.role})" for slot in codec.slots if slot.role == "given"][:3]
    return f"expected a property that can be predicted, got {', '.join(fixed) or 'no property'}."


MIN_CLASS_ENTITIES = 10  # entities of a class, below which none is held out
MIN_COPIED_PROPERTIES = 3  # equal properties that make two entities copies
VALIDATION_SHARE, MAX_VALIDATION_SHARE, MIN_VALIDATION_ENTITIES = 0.1, 0.2, 50  # the default; larger for few entities
MAX_GROUP_SHARE = 0.02  # the largest group of linked entities, of all entities
VALUES_PER_SECOND = 8000  # of a time budget: values of entities that are learnt from and held out
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
        sides = self.training, self.validation
        sizes = Counter(self.classes[place] for side in sides for place in side)
        least = min(MIN_SAMPLED, most // (2 * len(sizes)))
        share = _share_of_large_classes(sizes.values(), most, least)
        shares = {name: max(share, least / size) for name, size in sizes.items()}
        random_numbers = random.Random(derive_seed(seed, SAMPLE_SEED))
        training, validation = (
            tuple(place for place in side if random_numbers.random() < shares[self.classes[place]]) for side in sides
        )
        return replace(self, training=training, validation=validation)


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
    leader = list(range(len(entities)))
    size = [1] * len(entities)
    classes: list[str | None] = []
    known_values = 0

    def find(place: int) -> int:
        while leader[place] != place:
            leader[place] = place = leader[leader[place]]
        return place

    def join(first: int, second: int, max_size: float) -> None:
        first, second = find(first), find(second)
        if first != second and size[first] + size[second] <= max_size:
            leader[second] = first
            size[first] += size[second]

    seen: dict[int, int] = {}  # by the hash of its values, the first entity that has it
    place_of: dict[str, int] = {}
    names = {name: _NamePaths(schema_class.properties) for name, schema_class in schema.classes.items()}
    linking_paths = {name: linking(entity_class.leaves()) for name, entity_class in schema.classes.items()}
    links: set[tuple[str, str]] = set()
    for place, entity in enumerate(entities):
        reading = _reading(schema, entity)
        classes.append(None if reading is None else reading.class_name)
        if reading is None:
            continue
        known_values += len(reading.leaves)
        join(place_of.setdefault(reading.id, place), place, len(entities))
        paths = linking_paths[reading.class_name]
        if paths:
            links.update(
                (reading.id, target)
                for path, value in reading.leaves.items()
                if path in paths or pattern(path) in paths
                for target in targets(value)
            )
        values = _compared_values(reading, names)
        if len(values) > MIN_COPIED_PROPERTIES:  # beside the class
            before = seen.setdefault(hash(values), place)
            earlier = _reading(schema, entities[before]) if before != place else None
            if earlier is not None and _compared_values(earlier, names) == values:
                join(place_of[earlier.id], place, len(entities))
    most = max(2.0, MAX_GROUP_SHARE * len(entities))
    mutual: nx.Graph[str] = nx.Graph((source, target) for source, target in links if (target, source) in links)
    for ids in sorted(sorted(component) for component in nx.connected_components(mutual)):
        first, *others = (place_of[id] for id in ids)
        for other in others:
            join(first, other, most)
    return classes, [find(place) for place in range(len(entities))], known_values


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
