"""Entities to tokens, and the index of a codec's slots that this needs.

`Index` has the slots by class and path, by leaf codec, and as arrays. `Encoding` reads entity by entity: values go into one
column for each leaf codec, tokens into flat lists. A value that came over a link is coded once, however many entities it
comes to. `assembled` then codes every column at once, and makes the arrays of `Tokens`.

N entities   T tokens   S slots   E needs
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kbdisk.data.dataset import Codes, Layout, RaggedCodes, Tokens
from kbdisk.data.graph import EntityLinks, LinkArrays, linking, pattern
from kbdisk.data.groups import Ints, expanded, grouped
from kbdisk.data.links import ENTITIES_AT_ONCE, Evidence, EvidenceColumn, pooled_over
from kbdisk.data.parse import Reading
from kbdisk.data.pooling import Pools
from kbdisk.data.propagation import Receiver
from kbdisk.data.queries import Ask, Table
from kbdisk.data.repair import CompositeRepair, ListRepair
from kbdisk.data.slots import CLASSES, Over, Slot, Source, counts_of
from kbdisk.data.superclasses import Superclasses
from kbdisk.entity import Path, show
from kbdisk.schemas.kinds import KINDS
from kbdisk.schemas.schema import Schema

SmallInts = npt.NDArray[np.int32]  # of tokens: there are millions
NOT_OWN = -1  # the number of a slot that no entity can lack
UNKNOWN = -1  # in the place of a value, where one is asked for


class Column(NamedTuple):
    """A leaf codec and its kind. The values of all slots with this codec are encoded at once."""

    kind: str
    codec: Any


@dataclass(frozen=True, eq=False)
class Index:
    """The slots of a codec by number, and their numbers by class, path, link and leaf codec."""

    schema: Schema
    slots: Sequence[Slot]
    pools: Pools
    entities: Mapping[str, int]  # training entities of each class
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
        """(S,) the number of each slot's leaf codec."""
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
            name: Table(self.schema.classes[name], slots, self.pools.places) for name, slots in slots_of_classes.items()
        }

    def members(self, slot: Slot) -> tuple[str, ...]:
        """The classes that have a slot; none for evidence."""
        return self.pools.members.get(Source(slot.class_name, pattern(slot.path)), ())

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
        return {(slot.class_name, slot.over): number for number, slot in enumerate(self.slots) if slot.over is not None}

    @cached_property
    def is_link(self) -> npt.NDArray[np.bool_]:
        """(S,) whether a slot is an own one of links, or of sets of links."""
        return np.array(
            [slot.role != "evidence" and bool(linking({slot.path: slot.leaf})) for slot in self.slots], bool
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
        """The layout of data sets."""
        kinds = Counter(slot.kind for slot in self.slots)  # in the slots' own order
        ends = accumulate(kinds.values(), initial=0)
        slots_of_classes = {
            name: sorted(n for n in self.tables[name].slot.values() if not self.slots[n].fixed) for name in self.classes
        }
        return Layout(
            spans=dict(zip(kinds, pairwise(ends), strict=True)),
            fixed=torch.tensor([slot.fixed for slot in self.slots], dtype=torch.bool),
            own=torch.tensor([n for slots in slots_of_classes.values() for n in slots], dtype=torch.long),
            offsets=torch.tensor(list(accumulate(map(len, slots_of_classes.values()), initial=0))),
            order=torch.tensor(self._order, dtype=torch.long),
            lists=self._lists,
            blocks=torch.tensor(self._blocks, dtype=torch.long),
        )

    @property
    def _lists(self) -> Tensor:
        """(S, L) the slots of the lengths of the lists that each slot is in; -1 for none."""
        number = {(slot.class_name, slot.path): place for place, slot in enumerate(self.slots)}
        lengths = [
            [number.get((slot.class_name, count), -1) for count, _ in counts_of(slot.path)] for slot in self.slots
        ]
        most = max(map(len, lengths), default=0)
        padded = [[*of_slot, *[-1] * (most - len(of_slot))] for of_slot in lengths]
        return torch.tensor(padded, dtype=torch.long).reshape(len(lengths), most)

    @property
    def _blocks(self) -> list[int]:
        """(S,) the first slot of the class that has the same first key."""
        first: dict[tuple[str, str | int], int] = {}
        return [first.setdefault((slot.class_name, slot.path[0]), place) for place, slot in enumerate(self.slots)]

    @property
    def _order(self) -> list[int]:
        """(S,) the place of each slot in the order of drawing: that of the schema, with lists after all else, and texts last.

        Slots of evidence are not drawn.
        """
        first: dict[tuple[str, Path], int] = {}
        for place, (class_name, path) in enumerate(self.pools.places):
            for end in range(len(path)):
                first.setdefault((class_name, path[: end + 1]), place)

        def key(slot: Slot) -> tuple[bool, int, list[int]]:
            path, parts = slot.path, list[int]()
            for at, path_part in enumerate(path):
                if isinstance(path_part, int):
                    parts += [first.get((slot.class_name, pattern(path[:at])), 0), path_part]
            return slot.kind == "text", len(parts), [*parts, first.get((slot.class_name, pattern(path)), 0)]

        keys = list(map(key, self.slots))
        order = [0] * len(keys)
        for place, number in enumerate(sorted(range(len(keys)), key=keys.__getitem__)):
            order[number] = place
        return order


# ---------------------------------------------------------------- entity by entity


class Encoding:
    """Collects the values of entities, one entity after the other, and encodes them all at once."""

    def __init__(self, index: Index, ask: Ask, evidence: Evidence | None) -> None:
        self.index, self.ask, self.evidence = index, ask, evidence
        self.classes = {name: number for number, name in enumerate(index.classes)}
        self.column = index.column.tolist()
        self.ids: list[str] = []
        self.entity_class = array("q")  # of each entity
        self.sizes = array("q")  # the number of tokens of each entity, without evidence over links
        self.slot, self.place = array("i"), array("i")  # of each token; its place in its column
        self.columns: list[list[Any]] = [[] for _ in index.columns]
        self.occupied = array("q")  # in pairs: an entity, and a slot that it neither has nor lacks
        self.receivers: list[Receiver] = []  # of evidence over links

    def add(self, reading: Reading) -> None:
        """Add an entity."""
        number, table, before = len(self.ids), self.index.tables[reading.class_name], len(self.slot)
        self.ids.append(reading.id)
        self.entity_class.append(self.classes[reading.class_name])
        for path, value in reading.leaves.items():
            slot = table.slot.get(path)
            if slot is not None:
                self._put(slot, value)
        for slot in sorted(set(self.ask(reading, table))):
            self.slot.append(slot)
            self.place.append(UNKNOWN)
        for slot in self._occupied(reading, table):
            self.occupied.extend((number, slot))
        if self.index.classes_slot is not None:
            for name in self.index.superclasses.of(reading.id, reading.classes):
                self._put(self.index.classes_slot, name)
        self.sizes.append(len(self.slot) - before)
        if self.evidence is not None:
            self.receivers.append(Receiver(reading.id, reading.class_name, reading.leaves))

    def _occupied(self, reading: Reading, table: Table) -> Iterable[int]:
        """The slots below occupied properties: not known, yet not lacking."""
        return {
            table.slot[path]
            for property in reading.occupied
            for path in table.under.get(property, ())
            if path not in reading.leaves
        }

    def _put(self, slot: int, value: Any) -> None:
        column = self.columns[self.column[slot]]
        self.slot.append(slot)
        self.place.append(len(column))
        column.append(value)

    def tokens(self) -> Tokens:
        """The entities that were added, as tokens."""
        entity = np.repeat(np.arange(len(self.ids), dtype=np.int32), _ints(self.sizes))
        flat = Flat(entity, _ints(self.slot), _ints(self.place), _NO_PAIRS, _ints(self.occupied).reshape(-1, 2))
        if self.receivers:
            assert self.evidence is not None
            links = self.evidence.graph.links_of(self.receivers)
            encoding = EvidenceEncoding(self.index, self.evidence, links, flat, self.columns)
            for start in range(0, len(self.receivers), ENTITIES_AT_ONCE):
                encoding.add(start, min(start + ENTITIES_AT_ONCE, len(self.receivers)))
            flat = encoding.with_evidence()
        return assembled(self.index, tuple(self.ids), _ints(self.entity_class), flat, self.columns)


def _ints(values: array[int]) -> npt.NDArray[Any]:
    return np.asarray(values)  # not copied


_NO_PAIRS: SmallInts = np.zeros((0, 2), np.int32)


# ---------------------------------------------------------------- evidence over links


class EvidenceTokens(NamedTuple):
    """Evidence as tokens: n of them, and the links that they came over."""

    entity: SmallInts  # (n,)
    slot: SmallInts  # (n,)
    place: SmallInts  # (n,) of the value in its column
    needs: SmallInts  # (E, 2) a place among the n, and the token of a link

    @classmethod
    def joined(cls, parts: Sequence[EvidenceTokens]) -> EvidenceTokens:
        """Several in a row."""
        if not parts:
            none: SmallInts = np.zeros(0, np.int32)
            return cls(none, none, none, _NO_PAIRS)
        starts = np.cumsum([0, *(len(part.slot) for part in parts)], dtype=np.int32)
        needs = [_shifted(part.needs, start) for part, start in zip(parts, starts[:-1], strict=True)]
        return cls(
            np.concatenate([part.entity for part in parts]),
            np.concatenate([part.slot for part in parts]),
            np.concatenate([part.place for part in parts]),
            np.concatenate(needs),
        )

    def in_order(self, order: Ints) -> EvidenceTokens:
        """The same in another order."""
        place = _inverse(order)
        needs = np.stack([place[self.needs[:, 0]], self.needs[:, 1]], 1)
        return EvidenceTokens(self.entity[order], self.slot[order], self.place[order], needs)


def _shifted(needs: SmallInts, start: int) -> SmallInts:
    """Pairs of an evidence token and a link's token, with the evidence tokens after `start` others."""
    return needs + np.array([start, 0], np.int32)


def _inverse(order: Ints) -> SmallInts:
    """The place of each number in an order."""
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return place


class EvidenceEncoding:
    """Encodes the evidence of entities whose own values are tokens already, column by column."""

    def __init__(
        self, index: Index, evidence: Evidence, links: EntityLinks, own: Flat, columns: Sequence[list[Any]]
    ) -> None:
        self.index, self.evidence, self.links, self.own, self.columns = index, evidence, links, own, columns
        self.shared: dict[
            Path, tuple[Ints, SmallInts]
        ] = {}  # by path, nodes, and the place of each one's value in its column
        self.slots: dict[tuple[str, Over], int | None] = {}
        self.parts: list[EvidenceTokens] = []

    def add(self, start: int, end: int) -> None:
        """Add the evidence of a block of entities."""
        links = self.links.of_block(start, end)
        tokens = LinkTokens(self.index, self.own, links, start, self.evidence.graph.arrays())
        parts, keys = [], []
        for number, column in enumerate(self.evidence.columns(links)):
            slot, size = self._slot(column.class_name, column.over), len(column.row)
            if slot is not None:
                parts.append(self._tokens(column, slot, tokens)._replace(entity=(column.row + start).astype(np.int32)))
                keys.append(np.stack([np.full(size, number), np.broadcast_to(column.place, size), column.row]))
        if parts:
            self.parts.append(EvidenceTokens.joined(parts).in_order(np.lexsort(np.concatenate(keys, 1))))

    def _tokens(self, column: EvidenceColumn, slot: int, tokens: LinkTokens) -> EvidenceTokens:
        """The evidence of a column; each value needs the visibility of the links that it came over."""
        over, row = column.over, column.row
        of_link = None if over.incoming else tokens.by_path(column.class_name, over.link)
        if of_link is not None:
            needs = np.stack([np.arange(len(row)), of_link[row]], 1)
        else:
            place, node = column.through
            needs = tokens.by_target(place, row[place], node)
        if column.values is None:
            places = self._shared_places(slot, over.read, column.through[1])
        else:
            places = self._places(slot, column.values)
        return _in_slot(slot, row, places, needs)

    def _places(self, slot: int, values: Sequence[Any]) -> SmallInts:
        """The places of values, which are added to the column of a slot."""
        column = self.columns[int(self.index.column[slot])]
        column.extend(values)
        return np.arange(len(column) - len(values), len(column), dtype=np.int32)

    def _shared_places(self, slot: int, path: Path, nodes: Ints) -> SmallInts:
        """The places of the values of nodes at a path. Each is added once, as entities share it."""
        known, places = self.shared.get(path, (np.zeros(0, np.int64), np.zeros(0, np.int32)))
        new = np.setdiff1d(nodes, known)
        if len(new):
            at = np.searchsorted(known, new)
            of_new = self._places(slot, self.evidence.graph.values(new, path))
            known, places = np.insert(known, at, new), np.insert(places, at, of_new)
            self.shared[path] = known, places
        return places[np.searchsorted(known, nodes)]

    def _slot(self, class_name: str, over: Over) -> int | None:
        """The slot of evidence for entities of a class."""
        key = class_name, over
        if key not in self.slots:
            self.slots[key] = self.index.over.get(pooled_over(self.index.pools, class_name, over))
        return self.slots[key]

    def _propagated(self) -> EvidenceTokens:
        """The propagated numbers of all entities; each needs the visibility of the links that it came over."""
        if not self.evidence.propagation.propagators:
            return EvidenceTokens.joined([])
        links = self.links
        tokens, parts = LinkTokens(self.index, self.own, links, 0, self.evidence.graph.arrays()), []
        for estimates in self.evidence.propagated(links):
            of_class = links.class_of[estimates.row]
            for number in np.unique(of_class).tolist():
                slot = self._slot(self.evidence.graph.arrays().classes[number], estimates.over)
                if slot is None:
                    continue
                kept = of_class == number
                row, place = estimates.row[kept], kept.cumsum() - 1
                pairs = kept[estimates.through[0]]
                at, node = place[estimates.through[0][pairs]], estimates.through[1][pairs]
                needs = np.unique(tokens.by_target(at, row[at], node), axis=0)
                places = self._places(slot, estimates.value[kept].tolist())
                parts.append(_in_slot(slot, row, places, needs))
        joined = EvidenceTokens.joined(parts)
        return joined.in_order(np.lexsort((joined.entity, self.index.column[joined.slot])))

    def with_evidence(self) -> Flat:
        """The entities' own tokens with their evidence, entity by entity; propagated numbers come last."""
        own, propagated = self.own, self._propagated()
        after_all = np.full(len(propagated.slot), len(self.links.node), np.int32)
        order = np.concatenate([own.entity, *(part.entity for part in self.parts), after_all]).argsort(kind="stable")
        evidence = EvidenceTokens.joined([*self.parts, propagated])
        self.parts.clear()
        place = _inverse(order)
        flat = Flat(
            np.concatenate([own.entity, evidence.entity])[order],
            np.concatenate([own.slot, evidence.slot])[order],
            np.concatenate([own.place, evidence.place])[order],
            place[_shifted(evidence.needs, len(own.slot))],
            own.occupied,
        )
        return self._in_order_of_use(flat)

    def _in_order_of_use(self, flat: Flat) -> Flat:
        """The same with each column's values in the order of the tokens, which does not depend on how evidence is found."""
        starts = np.cumsum([0, *map(len, self.columns)], dtype=np.int32)
        known = np.flatnonzero(flat.place != UNKNOWN)
        value = starts[self.index.column][flat.slot[known]] + flat.place[known]
        first = np.full(starts[-1], len(known), np.int32)
        first[value[::-1]] = np.arange(len(known), dtype=np.int32)[::-1]  # the last assignment stays
        owner = np.repeat(np.arange(len(self.columns)), np.diff(starts))
        order = (owner * (len(known) + 1) + first).argsort()
        place = (_inverse(order) - starts[owner]).astype(np.int32)
        for number, values in enumerate(self.columns):
            start, end = starts[number], starts[number + 1]
            values[:] = [values[at] for at in (order[start:end] - start).tolist()]
        places = flat.place.copy()
        places[known] = place[value]
        return replace(flat, place=places)


def _in_slot(slot: int, row: Ints, place: SmallInts, needs: Ints) -> EvidenceTokens:
    """Evidence in one slot as tokens."""
    return EvidenceTokens(row.astype(np.int32), np.full(len(row), slot, np.int32), place, needs.astype(np.int32))


class LinkTokens:
    """The tokens of the links of a block of entities."""

    def __init__(self, index: Index, own: Flat, links: EntityLinks, start: int, arrays: LinkArrays) -> None:
        """`start` is the number of the first entity, `own` has the tokens of all."""
        self.index, self.count, self.nodes = index, len(links.node), len(arrays.names)
        low, high = np.searchsorted(own.entity, np.array([start, start + self.count], np.int32)).tolist()
        is_link = index.is_link[own.slot[low:high]] & (own.place[low:high] != UNKNOWN)
        tokens = low + np.flatnonzero(is_link)
        order = own.slot[tokens].argsort(kind="stable")
        self.tokens, self.slots = tokens[order], own.slot[tokens[order]]  # by slot, then by entity
        self.rows = own.entity[self.tokens] - start
        self._by_slot: dict[int, Ints] = {}
        token = self._of_links(links, arrays)
        kept = np.flatnonzero((token >= 0) & (links.target >= 0))
        keys = links.row[kept] * self.nodes + links.target[kept]
        order = keys.argsort(kind="stable")
        self.keys, self.of_keys = keys[order], token[kept][order]  # by entity and target

    def _of_links(self, links: EntityLinks, arrays: LinkArrays) -> Ints:
        """(m,) the token of each link; -1 where its path has no slot."""
        tokens = np.full(len(links.row), -1)
        key = links.class_of[links.row] * max(len(links.paths), 1) + links.path
        for number, at in grouped(key):
            class_name, path = divmod(number, len(links.paths))
            of_rows = self.by_path(arrays.classes[class_name], links.paths[path])
            if of_rows is not None:
                tokens[at] = of_rows[links.row[at]]
        return tokens

    def by_path(self, class_name: str, path: Path) -> Ints | None:
        """(N,) the token of each entity's link by a path; -1 where it has none. None where the path has no slot."""
        slot = self.index.tables[class_name].slot.get(path)
        if slot is None or not self.index.is_link[slot]:
            return None
        if slot not in self._by_slot:
            of_rows = self._by_slot[slot] = np.full(self.count, -1)
            start, end = np.searchsorted(self.slots, [slot, slot + 1])
            of_rows[self.rows[start:end]] = self.tokens[start:end]
        return self._by_slot[slot]

    def by_target(self, place: Ints, row: Ints, node: Ints) -> Ints:
        """(E, 2) pairs of a place and the token of a link from an entity to a node; none where there is no such link."""
        keys = row * self.nodes + node
        pair, at = expanded(np.searchsorted(self.keys, keys), np.searchsorted(self.keys, keys, side="right"))
        return np.stack([place[pair], self.of_keys[at]], 1)


# ---------------------------------------------------------------- all at once


@dataclass(frozen=True)
class Flat:
    """Tokens in the order in which they were added, entity by entity."""

    entity: SmallInts  # (T,)
    slot: SmallInts  # (T,)
    place: SmallInts  # (T,) of the value in its column
    needs: SmallInts  # (E, 2) a token, and a link that it came over
    occupied: Ints  # (k, 2) an entity, and a slot that it neither has nor lacks


def id_hash_of(id: str) -> int:
    """A hash of an id, of 63 bits."""
    return int.from_bytes(blake2b(id.encode(errors="surrogatepass"), digest_size=8).digest()) >> 1


def assembled(
    index: Index, ids: tuple[str, ...], classes: Ints, flat: Flat, columns: Sequence[Sequence[Any]]
) -> Tokens:
    """A data set. Values that cannot be encoded are left out and named in `unread`, as is evidence over such links."""
    codes, rows, problems = _coded(index, columns)
    starts = np.cumsum([0, *map(len, columns)], dtype=np.int32)[:-1]
    value = np.where(flat.place == UNKNOWN, len(rows) - 1, starts[index.column][flat.slot] + flat.place)
    row = rows[value]  # (T,)
    lost = row < 0
    lost[flat.needs[lost[flat.needs[:, 1]], 0]] = True
    order = np.lexsort((flat.slot, flat.entity))  # stable: incoming links stay as they came
    order = order[~lost[order]]

    entity, slot = flat.entity[order], flat.slot[order]
    offsets = _offsets(entity, len(ids))
    place = np.zeros(len(row), np.int32)  # of each token within its entity
    place[order] = np.arange(len(order)) - offsets[entity]
    needs = flat.needs[~lost[flat.needs].any(1)]
    owner, needs = flat.entity[needs[:, 0]], place[needs]
    order_of_needs = np.lexsort((needs[:, 1], needs[:, 0], owner))
    held, held_offsets = _held(index, classes, flat)
    return Tokens(
        layout=index.layout,
        ids=ids,
        **_tensors(
            id_hash=np.array([id_hash_of(id) for id in ids], np.int64),
            classes=classes,
            offsets=offsets,
            slot=slot,
            row=row[order],
            known=flat.place[order] != UNKNOWN,
            unit=_first_of_unit(index, entity, slot) - offsets[entity],
            needs=needs[order_of_needs],
            need_offsets=_offsets(owner[order_of_needs], len(ids)),
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


def _offsets(owner: npt.NDArray[Any], count: int) -> Ints:
    """(count + 1,) the start of each owner's part among sorted ones."""
    return np.searchsorted(owner, np.arange(count + 1, dtype=owner.dtype))


def _first_of_unit(index: Index, entity: SmallInts, slot: SmallInts) -> Ints:
    """(T,) the first token of the composite that each token is a part of; for evidence the token itself."""
    own = np.flatnonzero(~index.is_evidence[slot])
    key = entity[own].astype(np.int64) * len(index.slots) + index.unit[slot[own]]
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    first_of_unit = np.arange(len(slot))
    first_of_unit[own] = own[first[which]]
    return first_of_unit


def _held(index: Index, classes: Ints, flat: Flat) -> tuple[Ints, Ints]:
    """For each slot that an entity does not lack, the number of slots before it that it lacks."""
    own = ~index.is_evidence[flat.slot]
    entity = np.concatenate([flat.entity[own], flat.occupied[:, 0]])
    number = index.numbers(classes[entity], np.concatenate([flat.slot[own], flat.occupied[:, 1]]))
    stride = len(index.layout.own) + 1
    key = np.unique((entity * stride + number)[number >= 0])
    entity, number = key // stride, key % stride
    offsets = _offsets(entity, len(classes))
    lacking = number - (np.arange(len(key)) - offsets[entity])
    return lacking, offsets


def _coded(
    index: Index, columns: Sequence[Sequence[Any]]
) -> tuple[dict[str, Codes | RaggedCodes], SmallInts, dict[int, str]]:
    """Codes by kind; the row of each value, column after column, -1 where it has no code; the reasons why it has none.

    One more row at the end is the blank, for values that are asked for.
    """
    rows = np.zeros(sum(map(len, columns)) + 1, np.int32)
    parts: dict[str, list[Tensor]] = {kind: [] for kind in index.layout.spans}
    problems: dict[int, str] = {}
    ends = dict.fromkeys(parts, 1)  # row 0 is the blank
    start = 0
    for column, values in zip(index.columns, columns, strict=True):
        codes, problems_of_column = _encoded(column.codec, values)
        problems |= {start + place: why for place, why in problems_of_column.items()}
        has_code = np.ones(len(values), bool)
        has_code[list(problems_of_column)] = False
        rows[start : start + len(values)] = np.where(has_code, ends[column.kind] + has_code.cumsum() - 1, -1)
        start, ends[column.kind] = start + len(values), ends[column.kind] + int(has_code.sum())
        if len(values) or not parts[column.kind]:
            parts[column.kind].append(codes)
    return {kind: _stacked(kind, columns) for kind, columns in parts.items()}, rows, problems


def _encoded(codec: Any, values: Sequence[Any]) -> tuple[Tensor, dict[int, str]]:
    """The codes of the values that have one, and the places of the others, with the reasons why they have none."""
    try:
        return codec.encode(values), {}
    except ValueError:
        problems = dict(_problems(codec, values))
        return codec.encode([value for place, value in enumerate(values) if place not in problems]), problems


def _problems(codec: Any, values: Sequence[Any], start: int = 0) -> list[tuple[int, str]]:
    """The places of values that cannot be encoded, and why; found by bisection, as they are few."""
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
        return Codes(torch.cat([parts[0].new_zeros(1, *parts[0].shape[1:]), *parts]), parts[0].dtype)
    masks = [part != padding for part in parts]
    lengths = torch.cat([torch.zeros(2, dtype=torch.long), *(is_code.sum(1) for is_code in masks)])
    flat = torch.cat([part[is_code] for part, is_code in zip(parts, masks, strict=True)])
    return RaggedCodes(flat, lengths.cumsum(0), padding, flat.dtype)
