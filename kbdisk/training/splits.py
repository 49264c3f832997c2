"""Which entities are held out: the same for the same entities and seed.

Duplicates but for id and name stand on one side, and so do entities that link to each other.
A copy of a held-out entity among those trained on would make every figure better than it is.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kbdisk.data.graph import Graph
from kbdisk.data.parse import Reading, read
from kbdisk.entity import Entity, Link, Path
from kbdisk.schemas.kinds import Text
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Schema

FEWEST = 10  # entities of a class that some are held out of
ENOUGH = 3  # properties that entities must have alike to be copies
TENTH, FIFTH, HELD = 0.1, 0.2, 50  # held out where nobody says how many; of few more, so that they tell enough
SHARED = 0.02  # of all entities: how many may stand together because of their links, at most


@dataclass(frozen=True)
class Split:
    """The entities of two sides, by their places; those of no class of the schema are on neither."""

    training: tuple[int, ...]
    validation: tuple[int, ...]


def split(schema: Schema, entities: Sequence[Entity | Reading], share: float | None, seed: int) -> Split:
    """Hold out a share of the entities of each class, group by group; none where a class has fewer than `FEWEST`.

    None: what fits the number of all entities, as what classes share is learnt, and judged, together.
    """
    readings = [entity if isinstance(entity, Reading) else read(schema, entity) for entity in entities]
    group = _groups(schema, readings)
    members: dict[int, list[int]] = {}
    for place, reading in enumerate(readings):
        if reading is not None:
            members.setdefault(group[place], []).append(place)
    sizes: dict[str, int] = {}
    for reading in readings:
        if reading is not None:
            sizes[reading.of] = sizes.get(reading.of, 0) + 1
    whole = fitting(max(sum(sizes.values()), 1)) if share is None else share
    left = {of: round(whole * size) for of, size in sizes.items() if size >= FEWEST}
    order = list(members.values())
    random.Random(seed).shuffle(order)
    training: list[int] = []
    validation: list[int] = []
    for together in order:
        classes = [one.of for place in together if (one := readings[place]) is not None]
        out = all(left.get(of, 0) >= classes.count(of) for of in set(classes))
        for of in classes if out else ():
            left[of] -= 1
        (validation if out else training).extend(together)
    return Split(tuple(sorted(training)), tuple(sorted(validation)))


def fitting(size: int) -> float:
    """The share of so many entities that is held out where nobody says: a tenth, and of few as many as tell something."""
    return min(max(TENTH, HELD / size), FIFTH)


def _groups(schema: Schema, readings: Sequence[Reading | None]) -> list[int]:
    """The group of each entity, by the place of one of its members."""
    leader = list(range(len(readings)))
    size = [1] * len(readings)

    def find(place: int) -> int:
        while leader[place] != place:
            leader[place] = place = leader[leader[place]]
        return place

    def join(one: int, other: int, most: float) -> None:
        one, other = find(one), find(other)
        if one != other and size[one] + size[other] <= most:
            leader[other] = one
            size[one] += size[other]

    seen: dict[bytes, int] = {}
    graph = Graph(schema)
    place_of: dict[str, int] = {}
    for place, reading in enumerate(readings):
        if reading is None:
            continue
        join(place_of.setdefault(reading.id, place), place, len(readings))
        graph.add(reading.id, reading.of, reading.leaves)
        fingerprint = _fingerprint(schema, reading)
        if fingerprint is not None:
            join(seen.setdefault(fingerprint, place), place, len(readings))
    most = max(2.0, SHARED * len(readings))
    for together in graph.groups(mutual=True):
        first, *others = (place_of[id] for id in together if id in place_of)
        for other in others:
            join(first, other, most)
    return [find(place) for place in range(len(readings))]


def _fingerprint(schema: Schema, reading: Reading) -> bytes | None:
    """The same for entities that say the same but for names; None where too little is said to be a copy."""
    properties = schema.classes[reading.of].properties
    said = [
        (repr(path), repr(value))
        for path, value in reading.leaves.items()
        if not _is_name(properties, path) and not _is_linked(value)
    ]
    if len(said) < ENOUGH:
        return None
    return hashlib.blake2b(repr((reading.of, sorted(said))).encode(), digest_size=16).digest()


def _is_name(properties: Mapping[Path, Property], path: Path) -> bool:
    """Whether a leaf is a text, or else what no two entities share."""
    found = next((properties[path[:n]] for n in range(1, len(path) + 1) if path[:n] in properties), None)
    return found is not None and (found.unique or isinstance(found.kind, Text))


def _is_linked(value: Any) -> bool:
    """Whether a leaf is a link, or several: copies of one thing may be told apart by what leads to each."""
    several = value if isinstance(value, list | tuple | set | frozenset) else (value,)
    return any(isinstance(one, Link) for one in several)
