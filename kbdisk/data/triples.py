"""The triples of a knowledge base, numbered: its links, and its values as links to value nodes.

A node is an entity, the target of a link, or a value of one property: a class, a label, or a range of numbers. The nodes of
values follow those of entities, and each belongs to one relation. So a graph of triples says all that entities have, and what
learns from triples learns from values too.

n triples   E entities   N nodes, values included   P relations
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kbdisk.data.graph import linking, pattern, targets
from kbdisk.data.parse import Reading, read, read_all
from kbdisk.entity import CLASSES, Entity, Link, Path, walk, without_places
from kbdisk.schemas.schema import Schema

Edges: TypeAlias = tuple[
    tuple[float, ...], ...
]  # of the ranges of a property's numbers: of fine ones, and of coarse ones

MAX_RANGES = 16  # of the numbers of one property
MAX_SAME_PAIR = 32  # relations of one pair of nodes that are compared
MIN_VALUE_COUNT = 2  # entities that have a value, below which it has no node: it would tell nothing of another entity


class Relation(NamedTuple):
    """A property as a relation: its path, with EACH for the places of lists, and whether its targets are entities."""

    path: Path
    is_link: bool


class Columns:
    """Triples as columns of small integers, as there are millions: the number of a head, and that of a relation and its other end."""

    def __init__(self) -> None:
        self.head, self.end = array("i"), array("i")
        self.ends: dict[tuple[Path, Any], int] = {}  # paths with tails or labels, in the order in which they came

    def add(self, head: int, path: Path, end: Hashable) -> None:
        """Add a triple."""
        self.head.append(head)
        self.end.append(self.ends.setdefault((path, end), len(self.ends)))

    def add_ranges(self, heads: array[int], path: Path, numbers: NDArray[np.float64], edges: Edges) -> None:
        """Add each head with the ranges that its number is in, as labels."""
        for level, of_level in enumerate(edges):
            for head, place in zip(heads, np.searchsorted(of_level, numbers, side="right").tolist(), strict=True):
                self.add(head, path, (level, place))


@dataclass(frozen=True)
class Triples:
    """Triples (n, 3) of head, relation and tail, by number: integers of 32 bits, as there are millions. Heads are entities."""

    entities: tuple[str, ...]  # ids: (E,)
    relations: tuple[Relation, ...]
    values: tuple[tuple[int, Hashable], ...]  # the relation and the label of each value node: (N - E,)
    numbered: Tensor  # (n, 3)
    edges: Mapping[Path, Edges] = field(default_factory=dict)  # of the ranges of numbers

    @classmethod
    def of(
        cls,
        schema: Schema,
        entities: Iterable[Entity | Reading],
        *,
        values: bool = True,
        like: Triples | None = None,
    ) -> Self:
        """The triples of some entities, with those of their values.

        The ranges of numbers are those of the triples that these are `like`, and then rare values have nodes, too.
        """
        of_class = {name: linking(schema_class.leaves()) for name, schema_class in schema.classes.items()}
        ids: dict[str, int] = {}
        links, labels = Columns(), Columns()
        numbers: dict[Path, tuple[array[int], array[float]]] = {}  # heads, values
        for reading in read_all(schema, entities):
            head = ids.setdefault(reading.id, len(ids))
            for name in reading.classes if values else ():
                labels.add(head, CLASSES, name)
            for path, value in reading.leaves.items():
                relation = pattern(path)
                if path in of_class[reading.class_name] or relation in of_class[reading.class_name]:
                    for target in targets(value):
                        links.add(head, relation, target)
                elif not values:
                    continue
                elif isinstance(value, int | float) and not isinstance(value, bool):
                    if math.isfinite(value):
                        heads, of_path = numbers.setdefault(relation, (array("q"), array("d")))
                        heads.append(head)
                        of_path.append(value)
                else:
                    for label in _labels(value):
                        labels.add(head, relation, label)
        edges = {path: edges_of(np.asarray(of_path)) for path, (_, of_path) in numbers.items()}
        if like is not None:
            edges = {path: like.edges[path] for path in edges if path in like.edges}
        for path, of_edges in edges.items():
            heads, of_path = numbers.pop(path)
            labels.add_ranges(heads, path, np.asarray(of_path), of_edges)
        return cls._numbered(ids, links, labels, 1 if like is not None else MIN_VALUE_COUNT, edges)

    @classmethod
    def of_links(cls, links: Sequence[tuple[str, Path, str]]) -> Self:
        """The triples of links alone."""
        ids: dict[str, int] = {}
        columns = Columns()
        for head, path, tail in links:
            columns.add(ids.setdefault(head, len(ids)), path, tail)
            ids.setdefault(tail, len(ids))
        return cls._numbered(ids, columns, Columns(), MIN_VALUE_COUNT, {})

    @classmethod
    def _numbered(
        cls, ids: dict[str, int], links: Columns, labels: Columns, min_count: int, edges: Mapping[Path, Edges]
    ) -> Self:
        """The triples of links and labels, whose heads are numbers of ids."""
        paths = dict.fromkeys(path for path, _ in links.ends)
        of_links = {path: place for place, path in enumerate(paths)}
        tails_of_links = np.array([ids.setdefault(tail, len(ids)) for _, tail in links.ends], np.int32)
        counts = np.bincount(np.asarray(labels.end), minlength=len(labels.ends))
        is_node = counts >= min_count
        nodes = [end for end, is_kept in zip(labels.ends, is_node.tolist(), strict=True) if is_kept]
        of_values = {path: len(of_links) + place for place, path in enumerate(dict.fromkeys(path for path, _ in nodes))}
        number_of_node = np.array(len(ids) + is_node.cumsum() - 1, np.int32)
        relation_of_link = np.array([of_links[path] for path, _ in links.ends], np.int32)
        relation_of_label = np.array([of_values.get(path, 0) for path, _ in labels.ends], np.int32)
        link, label = np.asarray(links.end), np.asarray(labels.end)
        kept = is_node[label]
        label = label[kept]
        return cls(
            tuple(ids),
            (*(Relation(path, True) for path in of_links), *(Relation(path, False) for path in of_values)),
            tuple((of_values[path], name) for path, name in nodes),
            torch.from_numpy(
                _distinct(
                    np.concatenate([np.asarray(links.head), np.asarray(labels.head)[kept]]),
                    np.concatenate([relation_of_link[link], relation_of_label[label]]),
                    np.concatenate([tails_of_links[link], number_of_node[label]]),
                )
            ),
            edges,
        )

    def __len__(self) -> int:
        return len(self.numbered)

    @property
    def nodes(self) -> int:
        """How many nodes there are, those of values included."""
        return len(self.entities) + len(self.values)

    @cached_property
    def number_of(self) -> Mapping[str, int]:
        """The number of each entity."""
        return {id: number for number, id in enumerate(self.entities)}

    @cached_property
    def relation_of(self) -> Mapping[Relation, int]:
        """The number of each relation."""
        return {relation: number for number, relation in enumerate(self.relations)}

    @cached_property
    def is_link(self) -> Tensor:
        """(P,) whether the targets of a relation are entities."""
        return torch.tensor([relation.is_link for relation in self.relations], dtype=torch.bool)

    @cached_property
    def is_set(self) -> Tensor:
        """(P,) whether some head has several tails: the members of a set, or classes. Ranges of numbers are none."""
        pairs, counts = self.numbered[:, :2].unique(dim=0, return_counts=True)
        is_set = torch.zeros(len(self.relations), dtype=torch.bool).index_fill(0, pairs[counts > 1, 1].long(), True)
        is_number = [not relation.is_link and relation.path in self.edges for relation in self.relations]
        return is_set & ~torch.tensor(is_number, dtype=torch.bool)

    @property
    def links(self) -> Tensor:
        """(n, 3) the triples whose tail is an entity."""
        return self.numbered[self.is_link[self.numbered[:, 1]]]

    @property
    def value_triples(self) -> Tensor:
        """(n, 3) the triples whose tail is a value."""
        return self.numbered[~self.is_link[self.numbered[:, 1]]]

    def only(self, kept: Tensor) -> Triples:
        """The same nodes and relations with some of the triples (n,)."""
        return replace(self, numbered=self.numbered[kept])

    def number(self, links: Iterable[tuple[str, Path, str]]) -> Tensor:
        """(m, 3) those of some links whose entities and relation are known."""
        rows = [
            (self.number_of[head], self.relation_of[Relation(path, True)], self.number_of[tail])
            for head, path, tail in links
            if head in self.number_of and tail in self.number_of and Relation(path, True) in self.relation_of
        ]
        return torch.tensor(rows, dtype=torch.long).reshape(-1, 3)


def links_of(schema: Schema, entities: Iterable[Entity]) -> Iterator[tuple[str, Path, str]]:
    """All links of entities; of one without a class of the schema those that its source says are links."""
    for entity in entities:
        reading = read(schema, entity)
        if reading is None:
            for path, value in walk(entity.tree):
                if isinstance(value, Link):
                    yield entity.id, without_places(path), value.id
            continue
        paths = linking(schema.classes[reading.class_name].leaves())
        for path, value in reading.leaves.items():
            if pattern(path) in paths or path in paths:
                yield from ((reading.id, pattern(path), target) for target in targets(value))


def with_inverses(numbered: Tensor, relations: int) -> Tensor:
    """(2n, 3) triples, and each once more from its tail to its head by the inverse relation: its number + P."""
    return torch.cat([numbered, torch.stack([numbered[:, 2], numbered[:, 1] + relations, numbered[:, 0]], 1)])


class Answers:
    """The known answers to queries (node, relation): the tails of triples, those of inverse relations included."""

    def __init__(self, triples: Tensor, relations: int) -> None:
        both = with_inverses(triples, relations)
        self.width = 2 * relations
        keys = both[:, 0].long() * self.width + both[:, 1]
        order = keys.argsort()
        self.keys, self.tails = keys[order], both[order, 2].long()

    def of(self, nodes: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """(m,) rows of the queries (q,), and (m,) the known answers of those rows."""
        keys = nodes.long() * self.width + relations
        first, end = (torch.searchsorted(self.keys, keys, right=right) for right in (False, True))
        counts = end - first
        rows = torch.arange(len(keys)).repeat_interleave(counts)
        within = torch.arange(len(rows)) - (counts.cumsum(0) - counts).repeat_interleave(counts)
        return rows, self.tails[first[rows] + within]

    def contains(self, triples: Tensor) -> Tensor:
        """(m,) whether the tails of triples (m, 3) are known answers."""
        rows, answers = self.of(triples[:, 0], triples[:, 1])
        return torch.zeros(len(triples), dtype=torch.bool).index_fill(0, rows[answers == triples[rows, 2]], True)


def leaks(links: Tensor, held_out: Tensor, relations: int, share: float = 0.9, least: int = 3) -> Tensor:
    """(n,) whether a link says the same as a held-out one: by the same or an inverse relation, in either direction.

    Two relations say the same where at least a `share` of the pairs of the rarer one are pairs of the other.
    """
    links, held_out = links.long(), held_out.long()
    size = int(torch.cat([links[:, [0, 2]], held_out[:, [0, 2]]]).max()) + 1 if len(links) + len(held_out) else 1
    both = with_inverses(torch.cat([links, held_out]), relations)
    pairs = both[:, 0] * size + both[:, 2]
    same = _equivalent(pairs, both[:, 1], relations, share, least)
    held = with_inverses(held_out, relations)
    held_pairs = held[:, 0] * size + held[:, 2]
    order = held_pairs.argsort()
    held_pairs, held_relations = held_pairs[order], held[order, 1]
    keys = links[:, 0] * size + links[:, 2]
    first, end = (torch.searchsorted(held_pairs, keys, right=right) for right in (False, True))
    counts = end - first
    rows = torch.arange(len(keys)).repeat_interleave(counts)
    within = torch.arange(len(rows)) - (counts.cumsum(0) - counts).repeat_interleave(counts)
    is_leak = same[links[rows, 1], held_relations[first[rows] + within]]
    return torch.zeros(len(links), dtype=torch.bool).index_fill(0, rows[is_leak], True)


def _equivalent(pairs: Tensor, relation: Tensor, relations: int, share: float, least: int) -> Tensor:
    """(2P, 2P) whether two relations hold between the same nodes."""
    order = pairs.argsort(stable=True)
    pairs, relation = pairs[order], relation[order]
    shared = torch.zeros(2 * relations, 2 * relations, dtype=torch.long)
    _, counts = pairs.unique_consecutive(return_counts=True)
    starts = counts.cumsum(0) - counts
    widest = min(int(counts.max()), MAX_SAME_PAIR) if len(counts) else 0
    for ahead in range(widest):  # the pairs of relations of each pair of nodes
        first = starts[counts > ahead] + ahead
        for behind in range(widest):
            has_both = counts[counts > ahead] > behind
            ones = torch.ones(int(has_both.sum()), dtype=torch.long)
            second = (starts[counts > ahead] + behind)[has_both]
            shared.index_put_((relation[first[has_both]], relation[second]), ones, accumulate=True)
    own = shared.diagonal()
    rarer = torch.minimum(own[:, None], own[None, :])
    return (shared >= share * rarer) & (rarer >= least)


def held_out_links(triples: Triples, share: float, most: int, seed: int) -> tuple[Triples, Tensor]:
    """The triples without a random part of the links, nor what says the same, and these links (m, 3).

    The head and the tail of each have another triple in what is left, so that something is known of both.
    """
    is_link = triples.is_link[triples.numbered[:, 1]]
    places = is_link.nonzero()[:, 0]
    order = torch.randperm(len(places), generator=torch.Generator().manual_seed(seed))
    chosen = places[order[: min(int(share * len(places)), most)]]
    held_out = triples.numbered[chosen].long()
    kept = torch.ones(len(triples), dtype=torch.bool).index_fill(0, chosen, False)
    rest = (kept & is_link).nonzero()[:, 0]
    of_links = int(triples.is_link.sum())  # the numbers of relations that are links come first
    kept[rest[leaks(triples.numbered[rest], held_out, of_links)]] = False
    left = triples.only(kept)
    degree = torch.bincount(torch.cat([left.numbered[:, 0], left.numbered[:, 2]]), minlength=triples.nodes)
    is_known = (degree[held_out[:, 0]] > 0) & (degree[held_out[:, 2]] > 0)
    return left, held_out[is_known]


def _distinct(heads: NDArray[np.int32], relations: NDArray[np.int32], tails: NDArray[np.int32]) -> NDArray[np.int32]:
    """(n, 3) the distinct triples, ascending."""
    order = np.lexsort([tails, relations, heads])
    rows = np.stack([column[order] for column in (heads, relations, tails)], 1)
    is_first = np.ones(len(rows), bool)
    is_first[1:] = (rows[1:] != rows[:-1]).any(1)
    return rows[is_first]


def _labels(value: Any) -> Iterator[Hashable]:
    """The labels of a leaf that is no link and no number."""
    items: Collection[Any] = value if isinstance(value, list | tuple | set | frozenset) else (value,)
    yield from (item for item in items if isinstance(item, str | bool))


def edges_of(numbers: NDArray[np.float64]) -> Edges:
    """The edges of equally frequent ranges of numbers: of fine ones, and of coarse ones."""
    return tuple(
        tuple(np.unique(np.quantile(numbers, np.linspace(0, 1, ranges + 1)[1:-1])).tolist())
        for ranges in (MAX_RANGES, MAX_RANGES // 4)
    )
