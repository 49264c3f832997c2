"""Entities to tokens, in two steps.

`Encoding` reads entity by entity: values go into one column for each leaf codec, tokens into flat lists. A value that came
over a link is coded once, however many entities it comes to. `assembled` then codes every column at once, and makes the
arrays of `Tokens`.

N entities   T tokens   E needs
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kbdisk.data.dataset import Codes, RaggedCodes, Tokens
from kbdisk.data.graph import targets
from kbdisk.data.index import Index, Ints
from kbdisk.data.links import Evidence, pooled_over
from kbdisk.data.parse import Reading
from kbdisk.data.queries import Ask, Table
from kbdisk.data.slots import Over
from kbdisk.entity import Path, show
from kbdisk.schemas.kinds import KINDS

UNKNOWN = -1  # in the place of a value, where one is asked for


# ---------------------------------------------------------------- entity by entity


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
        for brought in self.evidence.brought(reading.id, reading.of, reading.leaves):
            slot = self._evidence_slot(reading.of, brought.over)
            if slot is None:
                continue
            if brought.over.incoming or brought.over.link not in tokens:
                needs = [token for source in brought.sources for token in links.get(source, [])]
            else:
                needs = [tokens[brought.over.link]]
            for need in needs:
                self.needs.extend((len(self.slot), need))
            if brought.over.incoming or brought.over.told or not brought.whole:
                self._put(number, slot, brought.value)
                continue
            place = self.coded.get((brought.sources[0], brought.over.read))
            if place is None:
                place = self.coded[brought.sources[0], brought.over.read] = self._column(slot, brought.value)
            self._append(number, slot, place)

    def _evidence_slot(self, class_name: str, over: Over) -> int | None:
        """The slot of what comes to entities of a class."""
        if (class_name, over) not in self.evidence_slots:
            self.evidence_slots[class_name, over] = self.index.over.get(pooled_over(self.index.pools, class_name, over))
        return self.evidence_slots[class_name, over]

    def _said(self, reading: Reading, table: Table) -> Iterable[int]:
        """Slots below properties that are known to exist, or do not fit: not known, yet not lacking."""
        return {
            table.slot[path]
            for said in reading.said
            for path in table.under.get(said, ())
            if path not in reading.leaves
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
        flat = (_ints(numbers) for numbers in (self.entity, self.slot, self.place))
        pairs = (_ints(numbers).reshape(-1, 2) for numbers in (self.needs, self.kept))
        return assembled(self.index, tuple(self.ids), _ints(self.of), Flat(*flat, *pairs), self.columns)


def _ints(values: array[int]) -> Ints:
    return np.array(values, dtype=np.int64)


# ---------------------------------------------------------------- all at once


@dataclass(frozen=True)
class Flat:
    """Tokens in the order that they were met in, entity by entity."""

    entity: Ints  # (T,)
    slot: Ints  # (T,)
    place: Ints  # (T,) of the value in its column
    needs: Ints  # (E, 2) a token, and a link that it came over
    kept: Ints  # (k, 2) an entity, and a slot that it neither has nor lacks


def number_of(id: str) -> int:
    """A number that no other id has, but for a chance of 2 ** -63."""
    return int.from_bytes(blake2b(id.encode(errors="surrogatepass"), digest_size=8).digest()) >> 1


def assembled(
    index: Index, ids: tuple[str, ...], classes: Ints, flat: Flat, columns: Sequence[Sequence[Any]]
) -> Tokens:
    """A data set. What cannot be coded is left out, and what came over such a link, too; `unread` tells of it."""
    codes, rows, problems = _coded(index, columns)
    starts = np.cumsum([0, *map(len, columns)])[index.column[flat.slot]]
    value = np.where(flat.place == UNKNOWN, len(rows) - 1, starts + flat.place)
    row = rows[value]  # (T,)
    lost = row < 0
    lost[flat.needs[lost[flat.needs[:, 1]], 0]] = True
    there = np.flatnonzero(~lost)
    order = there[np.lexsort((flat.slot[there], flat.entity[there]))]  # stable: incoming links stay as they came

    entity, slot = flat.entity[order], flat.slot[order]
    offsets = _offsets(entity, len(ids))
    place = np.zeros(len(row), np.int64)  # of each token within its entity
    place[order] = np.arange(len(order)) - offsets[entity]
    needs = flat.needs[~lost[flat.needs].any(1)]
    owner, needs = flat.entity[needs[:, 0]], place[needs]
    order_of_needs = np.lexsort((needs[:, 1], needs[:, 0], owner))
    held, held_offsets = _held(index, classes, flat)
    return Tokens(
        layout=index.layout,
        ids=ids,
        **_tensors(
            who=np.array([number_of(id) for id in ids], np.int64),
            classes=classes,
            offsets=offsets,
            slot=slot,
            row=row[order],
            known=flat.place[order] != UNKNOWN,
            unit=_first_of_unit(index, entity, slot) - offsets[entity],
            needs=needs[order_of_needs],
            need_offsets=_offsets(owner, len(ids)),
            held=held,
            held_offsets=held_offsets,
        ),
        codes=codes,
        unread=tuple(
            f"{ids[flat.entity[token]]}: {show(index.slots[flat.slot[token]].path)}: {problems[value[token]]}"
            for token in np.flatnonzero(row < 0)
        ),
    )


def _tensors(**arrays: npt.NDArray[Any]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}


def _offsets(owner: Ints, count: int) -> Ints:
    """Where each owner's part begins among sorted ones: (count + 1,)."""
    return np.searchsorted(owner, np.arange(count + 1))


def _first_of_unit(index: Index, entity: Ints, slot: Ints) -> Ints:
    """The first token of the composite that each is a part of; of evidence itself."""
    unit = index.unit[slot]
    alone = len(index.slots) * (entity[-1] + 1 if len(entity) else 1) + np.arange(len(slot))
    key = np.where(index.is_evidence[slot], alone, entity * len(index.slots) + unit)
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    return first[which]


def _held(index: Index, classes: Ints, flat: Flat) -> tuple[Ints, Ints]:
    """For each slot that an entity does not lack, how many before it it lacks, on its own stretch of numbers."""
    entity = np.concatenate([flat.entity, flat.kept[:, 0]])
    number = index.numbers(classes[entity], np.concatenate([flat.slot, flat.kept[:, 1]]))
    stride = len(index.layout.own) + 1
    key = np.unique((entity * stride + number)[number >= 0])
    entity, number = key // stride, key % stride
    offsets = _offsets(entity, len(classes))
    lacking = number - (np.arange(len(key)) - offsets[entity])
    return entity * stride + lacking, offsets


def _coded(
    index: Index, columns: Sequence[Sequence[Any]]
) -> tuple[dict[str, Codes | RaggedCodes], Ints, dict[int, str]]:
    """Codes by kind; the row of each value, columns one after the other, -1 where it has no code; why it has none.

    One more row at the end: that of what is asked for, the blank.
    """
    rows = np.zeros(sum(map(len, columns)) + 1, np.int64)
    parts: dict[str, list[Tensor]] = {kind: [] for kind in index.layout.spans}
    problems: dict[int, str] = {}
    ends = dict.fromkeys(parts, 1)  # row 0 is the blank
    start = 0
    for column, values in zip(index.columns, columns, strict=True):
        problems_of_column = {start + place: why for place, why in _problems(column.codec, values)}
        problems |= problems_of_column
        has_code = np.ones(len(values), bool)
        has_code[[place - start for place in problems_of_column]] = False
        rows[start : start + len(values)] = np.where(has_code, ends[column.kind] + has_code.cumsum() - 1, -1)
        start, ends[column.kind] = start + len(values), ends[column.kind] + int(has_code.sum())
        if len(values) or not parts[column.kind]:
            parts[column.kind].append(
                column.codec.encode([value for value, good in zip(values, has_code, strict=True) if good])
            )
    return {kind: _stacked(kind, several) for kind, several in parts.items()}, rows, problems


def _problems(codec: Any, values: Sequence[Any], start: int = 0) -> list[tuple[int, str]]:
    """Which values cannot be coded, and why; by halves, since they are few."""
    try:
        codec.encode(values)
    except ValueError as error:
        if len(values) == 1:
            return [(start, str(error))]
        half = len(values) // 2
        return [*_problems(codec, values[:half], start), *_problems(codec, values[half:], start + half)]
    return []


def _stacked(kind: str, parts: Sequence[Tensor]) -> Codes | RaggedCodes:
    """The codes of several columns under one blank."""
    padding = KINDS[kind].padding
    if padding is None:
        return Codes(torch.cat([parts[0].new_zeros(1, *parts[0].shape[1:]), *parts]))
    there = [part != padding for part in parts]
    lengths = torch.cat([torch.zeros(2, dtype=torch.long), *(is_code.sum(1) for is_code in there)])
    flat = torch.cat([part[is_code] for part, is_code in zip(parts, there, strict=True)])
    return RaggedCodes(flat, lengths.cumsum(0), padding)
