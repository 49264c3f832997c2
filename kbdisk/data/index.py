"""A codec's slots, looked at from all sides: by class and path, by leaf codec, as arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kbdisk.data.dataset import Layout
from kbdisk.data.graph import linking, pattern
from kbdisk.data.pooling import Pools
from kbdisk.data.queries import Table
from kbdisk.data.repair import CompositeRepair, ListRepair
from kbdisk.data.slots import CLASSES, Over, Slot, Source, counts_of
from kbdisk.data.superclasses import Superclasses
from kbdisk.entity import Path
from kbdisk.schemas.schema import Schema

Ints = npt.NDArray[np.int64]
NOT_OWN = -1  # the number of a slot that no entity can lack


class Column(NamedTuple):
    """A leaf codec, and the kind that it is of. Values of all slots that it serves are coded at once."""

    kind: str
    codec: Any


@dataclass(frozen=True, eq=False)
class Index:
    """Slots by their numbers, and numbers by what is known of slots."""

    schema: Schema
    slots: Sequence[Slot]
    pools: Pools
    entities: Mapping[str, int]  # how many training entities each class has
    superclasses: Superclasses  # visible beside the classes of an entity

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The names of all classes, by their numbers in a batch."""
        return tuple(sorted(self.schema.classes))

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The leaf codecs, in the order of their first slots."""
        return tuple({id(slot.codec): Column(slot.kind, slot.codec) for slot in self.slots}.values())

    @cached_property
    def column(self) -> Ints:
        """(S,) which leaf codec each slot has."""
        place = {id(column.codec): number for number, column in enumerate(self.columns)}
        return np.array([place[id(slot.codec)] for slot in self.slots], np.int64)

    @cached_property
    def tables(self) -> Mapping[str, Table]:
        """The own slots of each class by their paths; several classes may share some."""
        slots_of_classes: dict[str, list[tuple[int, Slot]]] = {name: [] for name in self.schema.classes}
        for number, slot in enumerate(self.slots):
            if slot.role != "evidence":
                for name in self.members(slot):
                    slots_of_classes[name].append((number, slot))
        return {
            name: Table(self.schema.classes[name], several, self.pools.places)
            for name, several in slots_of_classes.items()
        }

    def members(self, slot: Slot) -> tuple[str, ...]:
        """The classes that have a slot; of evidence none."""
        return self.pools.members.get(Source(slot.of, pattern(slot.path)), ())

    def fill(self, class_name: str, number: int) -> float:
        """The share of a class's training entities that have a slot."""
        slot, entities = self.slots[number], self.entities.get(class_name, 0)
        return slot.counts.get(class_name, 0) / entities if entities else slot.fill

    @cached_property
    def classes_slot(self) -> int | None:
        """The slot of an entity's classes, where these are visible."""
        return next((n for n, slot in enumerate(self.slots) if slot.role == "evidence" and slot.path == CLASSES), None)

    @cached_property
    def over(self) -> Mapping[tuple[str, Over], int]:
        """The slots of evidence, by class and link."""
        return {(slot.of, slot.over): number for number, slot in enumerate(self.slots) if slot.over is not None}

    @cached_property
    def links(self) -> frozenset[int]:
        """The own slots of links, and of sets of links."""
        return frozenset(
            number
            for number, slot in enumerate(self.slots)
            if slot.role != "evidence" and linking({slot.path: slot.leaf})
        )

    @cached_property
    def composites(self) -> CompositeRepair:
        """Repairs composites."""
        return CompositeRepair(self.schema, self.slots)

    @cached_property
    def lists(self) -> ListRepair:
        """Repairs lists and maps."""
        return ListRepair(self.schema)

    @cached_property
    def unit(self) -> Ints:
        """(S,) the unit of each slot."""
        return np.array([slot.unit for slot in self.slots], np.int64)

    @cached_property
    def is_evidence(self) -> npt.NDArray[np.bool_]:
        """(S,)"""
        return np.array([slot.role == "evidence" for slot in self.slots], bool)

    @cached_property
    def _own_keys(self) -> Ints:
        """The slots that entities of each class may lack, as one ascending number for each class and slot."""
        slots, offsets = self.layout.own.numpy(), self.layout.offsets.numpy()
        keys: Ints = np.repeat(np.arange(len(self.classes)), np.diff(offsets)) * len(self.slots) + slots
        return keys

    def numbers(self, classes: Ints, slots: Ints) -> Ints:
        """(n,) the place of each slot among those that an entity of its class may lack; NOT_OWN where it may not."""
        keys = classes * len(self.slots) + slots
        place = np.searchsorted(self._own_keys, keys).clip(max=max(len(self._own_keys) - 1, 0))
        if not len(self._own_keys):
            return np.full(len(keys), NOT_OWN)
        return np.where(self._own_keys[place] == keys, place - self.layout.offsets.numpy()[classes], NOT_OWN)

    @cached_property
    def layout(self) -> Layout:
        """What a data set has to know."""
        kinds = Counter(slot.kind for slot in self.slots)  # in the slots' own order
        ends = accumulate(kinds.values(), initial=0)
        slots_of_classes = {
            name: sorted(n for n in self.tables[name].slot.values() if not self.slots[n].fixed) for name in self.classes
        }
        return Layout(
            spans=dict(zip(kinds, pairwise(ends), strict=True)),
            fixed=torch.tensor([slot.fixed for slot in self.slots], dtype=torch.bool),
            own=torch.tensor([n for several in slots_of_classes.values() for n in several], dtype=torch.long),
            offsets=torch.tensor(list(accumulate(map(len, slots_of_classes.values()), initial=0))),
            order=torch.tensor(self._order, dtype=torch.long),
            lists=self._lists,
            blocks=torch.tensor(self._blocks, dtype=torch.long),
        )

    @property
    def _lists(self) -> Tensor:
        """(S, L) by slots, the lengths of the lists that each stands in."""
        number = {(slot.of, slot.path): place for place, slot in enumerate(self.slots)}
        lengths = [[number.get((slot.of, count), -1) for count, _ in counts_of(slot.path)] for slot in self.slots]
        most = max(map(len, lengths), default=0)
        padded = [[*of_slot, *[-1] * (most - len(of_slot))] for of_slot in lengths]
        return torch.tensor(padded, dtype=torch.long).reshape(len(lengths), most)

    @property
    def _blocks(self) -> list[int]:
        """(S,) the first slot of the class that has the same first key."""
        first: dict[tuple[str, str | int], int] = {}
        return [first.setdefault((slot.of, slot.path[0]), place) for place, slot in enumerate(self.slots)]

    @property
    def _order(self) -> list[int]:
        """(S,) the place of each slot in the schema: what stands in lists after all else, as it is drawn, and texts last.

        Evidence is in no order.
        """
        first: dict[tuple[str, Path], int] = {}
        for place, (class_name, path) in enumerate(self.pools.places):
            for end in range(len(path)):
                first.setdefault((class_name, path[: end + 1]), place)

        def key(slot: Slot) -> tuple[bool, int, list[int]]:
            path, parts = slot.path, list[int]()
            for at, path_part in enumerate(path):
                if isinstance(path_part, int):
                    parts += [first.get((slot.of, pattern(path[:at])), 0), path_part]
            return slot.kind == "text", len(parts), [*parts, first.get((slot.of, pattern(path)), 0)]

        keys = list(map(key, self.slots))
        order = [0] * len(keys)
        for place, number in enumerate(sorted(range(len(keys)), key=keys.__getitem__)):
            order[number] = place
        return order
