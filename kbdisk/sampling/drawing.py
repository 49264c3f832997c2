"""The values of entities whose properties are settled: drawn, and put together such that they are values."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch

from kbdisk.codec import Codec
from kbdisk.codec.slots import counts_of
from kbdisk.diffusion import reveal
from kbdisk.entity import Entity, Path, Tree, with_values
from kbdisk.graph import Graph
from kbdisk.sampling.maps import distinct, maps
from kbdisk.training.trained import Trained


class Drawing:
    """The values of some entities, drawn round by round: a list's places once it is known how many there are."""

    def __init__(
        self, trained: Trained, draw: random.Random, generator: torch.Generator, leap: int, text: bool
    ) -> None:
        self.trained, self.codec, self.schema = trained, trained.codec, trained.schema
        self.draw, self.generator, self.leap, self.text = draw, generator, leap, text

    def drawn(self, entities: list[Entity], patterns: list[set[int]]) -> list[Entity]:
        """The entities with their values."""
        done = list(entities)
        decided: list[set[int]] = [set() for _ in entities]
        asks = [self._lacking(entity, pattern) for entity, pattern in zip(entities, patterns, strict=True)]
        while going := [place for place, ask in enumerate(asks) if ask]:
            revealed = self._revealed([done[place] for place in going], [asks[place] for place in going])
            for place, entity in zip(going, revealed, strict=True):
                done[place] = entity
            for place in range(len(done)):
                asks[place] = self._places(done[place], decided[place])
        return [self._named(entity) for entity in done]

    def _revealed(self, entities: list[Entity], asks: list[set[int]]) -> list[Entity]:
        """The entities with what they are asked for."""
        own = iter(asks)
        tokens = self.trained.encode(entities, lambda reading, table: next(own), Graph(self.schema))
        batch = tokens.batch(torch.arange(len(entities)))
        drawn = reveal(self.trained.network, batch, leap=self.leap, generator=self.generator)
        found = self.codec.leaves(drawn, batch.asked)
        names = [self.codec.classes[number] for number in batch.classes.tolist()]
        return [
            replace(entity, tree=self._tree(of, self.schema.leaves(entity) | leaves))
            for entity, of, leaves in zip(entities, names, found, strict=True)
        ]

    def _lacking(self, entity: Entity, pattern: set[int]) -> set[int]:
        known = self.schema.leaves(entity)
        return {number for number in pattern if self.codec.slots[number].path not in known}

    def _places(self, entity: Entity, decided: set[int]) -> set[int]:
        """Which fields the places of an entity's lists have; each list is decided upon once.

        A field is there as often as in training, where there was such a place; those of one composite together.
        """
        found, leaves = self.schema.class_of(entity), self.schema.leaves(entity)
        assert found is not None
        chance: dict[Path, float] = {}
        asked = set()
        for path, number, share in self._listed(found.name):
            if number in decided or not all(leaves.get(count, 0) > at for count, at in counts_of(path)):
                continue
            decided.add(number)
            if path not in leaves and (self.text or self.codec.slots[number].kind != "text"):
                part = path[: _place(path) + 1]
                if chance.setdefault(part, self.draw.random()) < share:
                    asked.add(number)
        return asked

    def _listed(self, of: str) -> list[tuple[Path, int, float]]:
        """What stands in lists of a class: its path, its slot, and in what share of such places it is."""
        return _listed(self.codec, of)

    def _tree(self, of: str, leaves: dict[Path, Any]) -> Tree:
        """The tree of some leaves: no more places than there can be values in, no key of a map twice."""
        room: dict[Path, int] = {}
        for path, _, _ in self._listed(of):
            for count, at in counts_of(path):
                room[count] = max(room.get(count, 0), at + 1)
        for path in [path for path in leaves if path in room]:
            leaves[path] = min(leaves[path], room[path])
        for prefix in maps(self.schema.classes[of], leaves):
            distinct(leaves, prefix)
        return self.schema.tree(leaves, of)

    def _named(self, entity: Entity) -> Entity:
        """The entity with its id where its class has one in the tree."""
        found = self.schema.class_of(entity)
        if found is None or found.id is None:
            return entity
        return replace(entity, tree=with_values(entity.tree, {found.id: entity.id}))


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
