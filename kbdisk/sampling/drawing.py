"""The values of entities whose properties are settled: drawn, and put together such that they are values."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import torch

from kbdisk.data import Codec
from kbdisk.data.encode import Encoding
from kbdisk.data.parse import Reading, read
from kbdisk.data.slots import counts_of
from kbdisk.entity import Entity, Path, with_values
from kbdisk.model.beliefs import Beliefs
from kbdisk.model.diffusion import Model, reveal
from kbdisk.sampling.maps import distinct, maps
from kbdisk.schemas.composites.base import split_kind
from kbdisk.schemas.schema import Class, derived_values
from kbdisk.training.optimizer import autocast
from kbdisk.training.trained import Trained


class Drawing:
    """The values of some entities, drawn round by round: a list's places once it is known how many there are.

    On the way they are leaves: a map whose keys are still to come is no tree.
    """

    def __init__(
        self,
        trained: Trained,
        network: Model,
        draw: random.Random,
        generator: torch.Generator,
        leap: int,
        text: bool,
    ) -> None:
        self.trained, self.codec, self.schema = trained, trained.codec, trained.schema
        self.network, self.draw, self.generator, self.leap, self.text = network, draw, generator, leap, text

    def drawn(self, entities: Sequence[Entity], patterns: Sequence[Iterable[int]]) -> list[Entity]:
        """The entities with their values."""
        known = [self._begun(entity) for entity in entities]
        given = [set(one.leaves) for one in known]
        asks = [self._lacking(one, pattern) for one, pattern in zip(known, patterns, strict=True)]
        last = [ask & self._last for ask in asks]
        asks = [ask - own for ask, own in zip(asks, last, strict=True)]
        decided: list[set[int]] = [set() for _ in entities]
        while any(asks):
            self._draw(known, asks)
            asks = [self._places(one, own) for one, own in zip(known, decided, strict=True)]
        self._draw(known, last)
        return [self._entity(*one) for one in zip(entities, known, given, strict=True)]

    @property
    def _last(self) -> set[int]:
        """The slots that are drawn once all else is: texts, in the order that the schema's is learnt in."""
        in_order = self.trained.run.hiding.is_in_order
        return {number for number, slot in enumerate(self.codec.slots) if in_order and slot.kind == "text"}

    def _draw(self, known: Sequence[Reading], asks: Sequence[set[int]]) -> None:
        """Draw what each is asked for, and know it."""
        going = [place for place, ask in enumerate(asks) if ask]
        revealed = self._revealed([known[place] for place in going], [asks[place] for place in going]) if going else []
        for place, leaves in zip(going, revealed, strict=True):
            known[place].leaves.update(leaves)

    def _begun(self, entity: Entity) -> Reading:
        reading = read(self.schema, entity)
        assert reading is not None
        return reading

    def _revealed(self, readings: Sequence[Reading], asks: Sequence[set[int]]) -> list[dict[Path, Any]]:
        """What each is asked for."""
        own = iter(asks)
        encoding = Encoding(self.codec.index, lambda reading, table: next(own), None)
        for reading in readings:
            encoding.add(reading)
        tokens, run = encoding.tokens().to(self.trained.device), self.trained.run
        batch, order = (
            tokens.batch(torch.arange(len(readings))),
            tokens.layout.order if run.hiding.is_in_order else "random",
        )
        with autocast(run.train.precision, self.trained.device, run.model.width):  # as in training
            met = partial(Beliefs.met, generator=self.generator)
            drawn = reveal(self.network, batch, order=order, leap=self.leap, generator=self.generator, say=met)
        found = self.codec.leaves(drawn, batch.asked)
        for reading, leaves in zip(readings, found, strict=True):
            room = _room(self.codec, reading.of)
            for path in leaves.keys() & room.keys():
                leaves[path] = min(leaves[path], room[path])
        return found

    def _lacking(self, reading: Reading, pattern: Iterable[int]) -> set[int]:
        return {number for number in pattern if self.codec.slots[number].path not in reading.leaves}

    def _places(self, reading: Reading, decided: set[int]) -> set[int]:
        """Which fields the places of an entity's lists have; each is decided upon once.

        A field is there as often as in training, where there was such a place; those of one composite together.
        """
        leaves = reading.leaves
        chance: dict[Path, float] = {}
        asked = set()
        for path, number, share in _listed(self.codec, reading.of):
            if number in decided or not all(leaves.get(count, 0) > at for count, at in counts_of(path)):
                continue
            decided.add(number)
            if path not in leaves and (self.text or self.codec.slots[number].kind != "text"):
                part = path[: _place(path) + 1]
                if chance.setdefault(part, self.draw.random()) < share:
                    asked.add(number)
        return asked

    def _entity(self, entity: Entity, reading: Reading, given: Set[Path]) -> Entity:
        """The entity with the tree of its leaves: no key of a map twice; its id where its class has one in the tree."""
        found, leaves = self.schema.classes[reading.of], dict(reading.leaves)
        for prefix in sorted(maps(found, leaves), key=len, reverse=True):
            distinct(leaves, prefix)
        tree = self.schema.tree(_with_derived(found, leaves, given), reading.of)
        if found.id is not None:
            tree = with_values({str(found.id[0]): None} | tree, {found.id: entity.id})
        return replace(entity, tree=tree)


def _with_derived(schema_class: Class, leaves: Mapping[Path, Any], given: Set[Path]) -> dict[Path, Any]:
    """The leaves of a drawn entity. A drawn property with a formula gets the formula's value, if it has one."""
    paths = [path for path, property in schema_class.properties.items() if property.formula is not None]
    leaves_of = {path: [leaf for leaf in leaves if leaf[: len(path)] == path] for path in paths}
    drawn = {path: parts for path, parts in leaves_of.items() if parts and given.isdisjoint(parts)}
    others = {leaf: value for leaf, value in leaves.items() if not any(leaf in parts for parts in drawn.values())}
    derived = derived_values(schema_class, others) if drawn else ()
    parts_of = {path: split_kind(property.kind, value) for path, property, value in derived}
    for path, parts in drawn.items():
        as_drawn = {leaf[len(path) :]: leaves[leaf] for leaf in parts}
        others |= {(*path, *within): value for within, value in parts_of.get(path, as_drawn).items()}
    return others


@lru_cache(maxsize=64)
def _room(codec: Codec, of: str) -> dict[Path, int]:
    """How many places there can be values in, by where the length of a list of a class stands."""
    room: dict[Path, int] = {}
    for path, _, _ in _listed(codec, of):
        for count, at in counts_of(path):
            room[count] = max(room.get(count, 0), at + 1)
    return room


@lru_cache(maxsize=64)
def _listed(codec: Codec, of: str) -> list[tuple[Path, int, float]]:
    table = codec.index.tables[of]
    own = [(path, table.slot[path]) for path in table.askable if counts_of(path)]
    most: dict[Path, int] = {}
    for path, number in own:
        within = path[: _place(path)]
        most[within] = max(most.get(within, 0), codec.slots[number].count)
    return [(path, number, codec.slots[number].count / most[path[: _place(path)]]) for path, number in own]


def _place(path: Path) -> int:
    """Where the fields of the innermost place begin."""
    return max(at for at, key in enumerate(path) if isinstance(key, int)) + 1
