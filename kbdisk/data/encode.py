"""Entities into tokens. Entity by entity, values are put into one column per leaf codec; then every column is coded at once.

A value that came over a link is coded once, however many entities it comes to.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

import numpy as np

from kbdisk.data.assemble import UNKNOWN, Flat, assembled
from kbdisk.data.dataset import Tokens
from kbdisk.data.graph import targets
from kbdisk.data.index import Index, Ints
from kbdisk.data.links import Evidence, pooled_over
from kbdisk.data.parse import Reading
from kbdisk.data.queries import Ask, Table
from kbdisk.data.slots import Over
from kbdisk.entity import Path


class Encoding:
    """Tokens in the making."""

    def __init__(self, index: Index, ask: Ask, evidence: Evidence | None) -> None:
        self.index, self.ask, self.evidence = index, ask, evidence
        self.classes = {name: number for number, name in enumerate(index.classes)}
        self.column = index.column.tolist()
        self.ids: list[str] = []
        self.of = array("q")  # the class of each entity
        self.entity, self.slot, self.place = (
            array("q"),
            array("q"),
            array("q"),
        )  # of each token; its place in its column
        self.columns: list[list[Any]] = [[] for _ in index.columns]
        self.needs = array("q")  # in pairs: a token, and a link
        self.kept = array("q")  # in pairs: an entity, and a slot that it neither has nor lacks
        self.evidence_slots: dict[tuple[str, Over], int | None] = {}
        self.coded: dict[tuple[str, Path], int] = {}  # what links brought: where it stands in its column

    def add(self, reading: Reading) -> None:
        """Another entity."""
        number, table = len(self.ids), self.index.tables[reading.of]
        self.ids.append(reading.id)
        self.of.append(self.classes[reading.of])
        links: dict[str, list[int]] = {}  # the entity's own: where they lead, and their tokens
        tokens: dict[Path, int] = {}  # of its single links
        for path, value in reading.leaves.items():
            slot = table.slot.get(path)
            if slot is None:
                continue
            if self.evidence is not None and slot in self.index.links:
                tokens[path] = len(self.slot)
                for target in targets(value):
                    links.setdefault(target, []).append(len(self.slot))
            self._put(number, slot, value)
        for slot in sorted(set(self.ask(reading, table))):
            self._append(number, slot, UNKNOWN)
        for slot in self._said(reading, table):
            self.kept.extend((number, slot))
        if self.index.classes_slot is not None:
            for name in self.index.superclasses.of(reading.id, reading.classes):
                self._put(number, self.index.classes_slot, name)
        if self.evidence is not None:
            self._bring(number, reading, links, tokens)

    def _bring(self, number: int, reading: Reading, links: dict[str, list[int]], tokens: dict[Path, int]) -> None:
        """What comes over the entity's links, and the links that lead to it, each with what it needs to be seen."""
        assert self.evidence is not None
        for one in self.evidence.brought(reading.id, reading.of, reading.leaves):
            slot = self._evidence_slot(reading.of, one.over)
            if slot is None:
                continue
            if one.over.incoming or one.over.link not in tokens:
                needs = [token for source in one.sources for token in links.get(source, [])]
            else:
                needs = [tokens[one.over.link]]
            for need in needs:
                self.needs.extend((len(self.slot), need))
            if one.over.incoming or one.over.told or not one.whole:
                self._put(number, slot, one.value)
                continue
            place = self.coded.get((one.sources[0], one.over.read))
            if place is None:
                place = self.coded[one.sources[0], one.over.read] = self._column(slot, one.value)
            self._append(number, slot, place)

    def _evidence_slot(self, of: str, over: Over) -> int | None:
        """The slot of what comes to entities of a class."""
        if (of, over) not in self.evidence_slots:
            self.evidence_slots[of, over] = self.index.over.get(pooled_over(self.index.pools, of, over))
        return self.evidence_slots[of, over]

    def _said(self, reading: Reading, table: Table) -> Iterable[int]:
        """Slots below properties that are known to exist, or do not fit: not known, yet not lacking."""
        return {
            table.slot[path] for one in reading.said for path in table.under.get(one, ()) if path not in reading.leaves
        }

    def _put(self, number: int, slot: int, value: Any) -> None:
        self._append(number, slot, self._column(slot, value))

    def _column(self, slot: int, value: Any) -> int:
        column = self.columns[self.column[slot]]
        column.append(value)
        return len(column) - 1

    def _append(self, number: int, slot: int, place: int) -> None:
        self.entity.append(number)
        self.slot.append(slot)
        self.place.append(place)

    def tokens(self) -> Tokens:
        """All that was added."""
        flat = (_ints(each) for each in (self.entity, self.slot, self.place))
        pairs = (_ints(each).reshape(-1, 2) for each in (self.needs, self.kept))
        return assembled(self.index, tuple(self.ids), _ints(self.of), Flat(*flat, *pairs), self.columns)


def _ints(values: array[int]) -> Ints:
    return np.array(values, dtype=np.int64)
