"""Evidence over links: the values of linked entities, incoming links, and aggregates over several links.

A single link brings the known values at its other end, one hop far; a set of links brings aggregates over the entities that it
leads to (`link_aggregates`). An incoming link is evidence of its source. Chains of links bring estimates of an entity's
numbers (`propagation`). No value that points back to the entity itself is evidence.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbdisk.data.config import EvidenceConfig
from kbdisk.data.graph import EntityLinks, Graph, LinkArrays, pattern, targets
from kbdisk.data.groups import Ints, expanded, grouped, rank_in_group
from kbdisk.data.link_aggregates import (
    MAX_SCREENED_ENTITIES,
    AggregateColumn,
    Aggregates,
    AggregateScreening,
    pooled_aggregate,
)
from kbdisk.data.pooling import Pools
from kbdisk.data.propagation import (
    GRADES,
    UNLIMITED,
    ChainSearch,
    Estimates,
    Propagation,
    Receiver,
    Relations,
    propagated_slot,
)
from kbdisk.data.slots import AGGREGATE_MARK, ANY, INCOMING, Over, Source, hash_id, path_key
from kbdisk.entity import Link, Path
from kbdisk.schemas.kinds import COLLECTIONS
from kbdisk.schemas.kinds import Link as LinkLeaf
from kbdisk.schemas.schema import Schema

MAX_EVIDENCE_VALUES = 200_000  # about how many values over links the evidence is selected by
MAX_COUNTED_ENTITIES = 2048  # whose propagated numbers are counted
ENTITIES_AT_ONCE = 1 << 13
FIRST_SAMPLED = 128  # entities, by which the number of values of the others is estimated


class EvidenceColumn(NamedTuple):
    """Evidence over one link: n values, each of an entity of one class."""

    class_name: str
    over: Over
    row: Ints  # (n,) the entity
    place: Ints | int  # (n,) of the link among those of its entity, by which an entity's evidence is ordered
    through: tuple[Ints, Ints]  # pairs of a place among the n, and a node whose link the value came over
    values: Sequence[Any] | None = None  # (n,); None: the values at `over.read` of the nodes `through`, one for each


class Evidence:
    """The evidence that comes to entities over the links of a graph."""

    def __init__(
        self,
        schema: Schema,
        graph: Graph,
        config: EvidenceConfig,
        pools: Pools,
        wanted: Collection[tuple[str, Over]] | None = None,
        propagation: Propagation | None = None,
    ) -> None:
        """With `wanted` only the evidence that has a slot; else all of it. Without a propagation no propagated numbers."""
        self.graph, self.config, self.pools = graph, config, pools
        self.propagation = propagation or Propagation()
        self._has_aggregates = config.several and (
            wanted is None or any(over.aggregate and over.aggregate not in GRADES for _, over in wanted)
        )
        self._schema, self._wanted = schema, wanted
        self._wanted_reads: dict[tuple[str, Path], list[Over]] = defaultdict(list)
        for class_name, over in wanted or ():
            if not over.aggregate:
                self._wanted_reads[class_name, over.link].append(over)
        self._single = {name: _single_links(schema, name) for name in schema.classes}

    @cached_property
    def aggregates(self) -> Aggregates | None:
        """The aggregates over several links, if there are any."""
        return Aggregates(self._schema, self.graph, self.pools, self._wanted) if self._has_aggregates else None

    def columns(self, links: EntityLinks) -> Iterator[EvidenceColumn]:
        """All evidence of entities with some links but propagated numbers. An entity's evidence is ordered by link, then by column."""
        yield from self.outgoing(links)
        yield from self.incoming(links)
        last = int(links.place.max(initial=-1)) + 1
        for class_name, column in self.aggregates_of(links):
            yield EvidenceColumn(class_name, column.over, column.row, last, column.through, column.value.tolist())

    def aggregates_of(self, links: EntityLinks) -> Iterator[tuple[str, AggregateColumn]]:
        """The aggregates for entities with some links, by class."""
        if self.aggregates is not None:
            for class_name, rows in _rows_of_classes(self.graph.arrays(), links):
                yield from ((class_name, column) for column in self.aggregates.columns(class_name, rows, links))

    def propagated(self, links: EntityLinks) -> Iterator[Estimates]:
        """The propagated numbers of entities with some links."""
        return self.propagation.estimates(self._relations, self.pools, links)

    @cached_property
    def _relations(self) -> Relations:
        """The relations that propagated numbers follow."""
        return self.propagation.relations_of(self.graph, self.pools)

    @cached_property
    def _paths_of(self) -> Mapping[str, KnownPaths]:
        """The paths that entities of each class have, of those that are wanted."""
        wanted = None if self._wanted is None else {over.read for _, over in self._wanted if not over.aggregate}
        return {name: KnownPaths.of(holders) for name, holders in self.graph.holders(wanted).items()}

    # ------------------------------------------------------------ over single links

    def outgoing(self, links: EntityLinks) -> Iterator[EvidenceColumn]:
        """The known values at the other ends of single links."""
        if not self.config.outgoing:
            return
        arrays = self.graph.arrays()
        at = np.flatnonzero(links.target >= 0)
        row, target = links.row[at], links.target[at]
        followed = (target != links.node[row]) & (arrays.class_of[target] >= 0)
        at, row, target = at[followed], row[followed], target[followed]
        paths, classes = len(links.paths), len(arrays.classes)
        key = (links.class_of[row] * paths + links.path[at]) * classes + arrays.class_of[target]
        for number, of_key in grouped(key):
            of_source, target_class = divmod(number, classes)
            class_number, path = divmod(of_source, paths)
            class_name, link = arrays.classes[class_number], links.paths[path]
            if pattern(link) in self._single[class_name]:
                yield from self._over_link(class_name, link, arrays.classes[target_class], at[of_key], links)

    def _over_link(
        self, class_name: str, link: Path, target_class: str, at: Ints, links: EntityLinks
    ) -> Iterator[EvidenceColumn]:
        """The known values at the other ends of some links by one path, to entities of one class."""
        known = self._paths_of[target_class]
        which, path = known.expanded(links.target[at])
        order = path.argsort(kind="stable")
        bounds = np.searchsorted(path[order], np.arange(len(known.paths) + 1)).tolist()
        present = {read: number for read, number in known.paths.items() if bounds[number] < bounds[number + 1]}
        for over in self._read(class_name, link, target_class, present):
            number = known.paths[over.read]
            of_path = at[which[order[bounds[number] : bounds[number + 1]]]]
            if pattern(over.read) in self.graph.linking[target_class]:
                leads_back = self._leads_back(over.read, links.target[of_path], links.node[links.row[of_path]])
                yield from self._rests(class_name, over, of_path[leads_back], links)
                of_path = of_path[~leads_back]
            if len(of_path):
                through = np.arange(len(of_path)), links.target[of_path]
                yield EvidenceColumn(class_name, over, links.row[of_path], links.place[of_path], through)

    def _read(self, class_name: str, link: Path, target_class: str, present: Collection[Path]) -> list[Over]:
        """What may be evidence at the other end of a link, among the paths that are present there."""
        if self._wanted is None:
            return [Over(target_class, link, path) for path in present]
        pooled_class = pooled_over(self.pools, class_name, Over(target_class, link, ()))[0]
        return [
            own
            for over in self._wanted_reads.get((pooled_class, link), ())
            if over.read in present
            and pooled_over(self.pools, class_name, own := Over(target_class, link, over.read)) == (pooled_class, over)
        ]

    def _leads_back(self, path: Path, nodes: Ints, targets_back: Ints) -> NDArray[np.bool_]:
        """Whether each of some nodes links back to another by a path."""
        arrays = self.graph.arrays()
        if path not in self._links_by:
            at = np.flatnonzero(arrays.path == arrays.paths.get(path, -1))
            self._links_by[path] = np.sort(arrays.source[at].astype(np.int64) * len(arrays.names) + arrays.target[at])
        keys = self._links_by[path]
        wanted = nodes * len(arrays.names) + targets_back
        place = np.searchsorted(keys, wanted).clip(max=max(len(keys) - 1, 0))
        return (keys[place] == wanted) & (targets_back >= 0) if len(keys) else np.zeros(len(nodes), np.bool_)

    @cached_property
    def _links_by(self) -> dict[Path, Ints]:
        """By path, its links as ascending numbers."""
        return {}

    def _rests(self, class_name: str, over: Over, at: Ints, links: EntityLinks) -> Iterator[EvidenceColumn]:
        """Links and sets of links without those that lead back to the entity."""
        names = self.graph.arrays().names
        kept, rests = [], []
        for link, value in zip(at.tolist(), self.graph.values(links.target[at], over.read), strict=True):
            rest = _without(value, names[links.node[links.row[link]]])
            if rest is not None:
                kept.append(link)
                rests.append(rest)
        if kept:
            at = np.array(kept, np.int64)
            through = np.arange(len(at)), links.target[at]
            yield EvidenceColumn(class_name, over, links.row[at], links.place[at], through, rests)

    # ------------------------------------------------------------ incoming links

    def incoming(self, links: EntityLinks) -> Iterator[EvidenceColumn]:
        """The links that lead to entities; of too many a sample that is always the same: the ids that hash lowest."""
        if not self.config.incoming:
            return
        arrays = self.graph.arrays()
        in_graph = np.flatnonzero(links.node >= 0)
        nodes = links.node[in_graph]
        which, edge = expanded(arrays.offsets[nodes], arrays.offsets[nodes + 1])
        which, edge = which[arrays.backwards[edge]], edge[arrays.backwards[edge]]
        row, source, relation = (
            in_graph[which],
            arrays.tail[edge].astype(np.int64),
            self._relation_order[arrays.relation[edge]],
        )
        order = np.lexsort((self._draw_rank[source], relation, row))
        row, source, relation = row[order], source[order], relation[order]
        kept = rank_in_group(row * len(arrays.relations) + relation) < self.config.most
        row, source, relation = row[kept], source[kept], relation[kept]
        last = int(links.place.max(initial=-1)) + 1
        key = links.class_of[row] * len(arrays.relations) + relation
        for of_class, of_key in grouped(key):
            class_name, number = divmod(of_class, len(arrays.relations))
            over = Over(*self._relations_in_order[number], (), True)
            through = np.arange(len(of_key)), source[of_key]
            values = [Link(arrays.names[node]) for node in source[of_key].tolist()]
            yield EvidenceColumn(arrays.classes[class_name], over, row[of_key], last, through, values)

    @cached_property
    def _relations_in_order(self) -> Sequence[tuple[str, Path]]:
        return sorted(self.graph.arrays().relations, key=lambda link: (link[0], path_key(link[1])))

    @cached_property
    def _relation_order(self) -> Ints:
        """The place of each relation in the order of classes and paths."""
        place = {relation: number for number, relation in enumerate(self._relations_in_order)}
        return np.array([place[relation] for relation in self.graph.arrays().relations], np.int64)

    @cached_property
    def _draw_rank(self) -> Ints:
        """(n,) the place of each node in the order of hashes and ids."""
        arrays = self.graph.arrays()
        draws, names = arrays.draw.tolist(), arrays.names
        rank = np.empty(len(names), np.int64)
        rank[sorted(range(len(names)), key=lambda node: (draws[node], names[node]))] = np.arange(len(names))
        return rank


class KnownPaths(NamedTuple):
    """The paths that the entities of one class have, as arrays."""

    paths: Mapping[Path, int]  # their numbers
    nodes: NDArray[np.int32]  # (k,) the entities that have some, ascending
    offsets: Ints  # (k + 1,) the part of each
    path: NDArray[np.int32]  # node after node

    @classmethod
    def of(cls, holders: Mapping[Path, NDArray[np.int32]]) -> KnownPaths:
        """Those of the nodes that have each path."""
        nodes = np.concatenate([np.zeros(0, np.int32), *holders.values()])
        numbers = np.repeat(np.arange(len(holders), dtype=np.int32), [len(of_path) for of_path in holders.values()])
        order = nodes.argsort(kind="stable")
        nodes, starts = np.unique(nodes[order], return_index=True)
        paths = {path: number for number, path in enumerate(holders)}
        return cls(paths, nodes, np.append(starts, len(order)), numbers[order])

    def expanded(self, nodes: Ints) -> tuple[Ints, NDArray[np.int32]]:
        """The paths of some nodes: the place of the node among these, and the number of the path."""
        wanted = nodes.astype(np.int32)
        first, end = (self.offsets[np.searchsorted(self.nodes, wanted, side=side)] for side in ("left", "right"))
        which, place = expanded(first, end)
        return which, self.path[place]


def _rows_of_classes(arrays: LinkArrays, links: EntityLinks) -> Iterator[tuple[str, Ints]]:
    """The rows of the entities of each class."""
    for number, rows in grouped(links.class_of):
        yield arrays.classes[number], rows


class TrainingEvidence(NamedTuple):
    """The evidence of training entities."""

    counts: Mapping[tuple[str, Over], int]  # entities of a class that have each
    sources: Mapping[Source, list[Link]]  # incoming links, by the class and path that stand for them
    screened: Collection[tuple[str, Over]]  # the aggregates that are correlated with some property
    propagation: Propagation


def pooled_over(pools: Pools, class_name: str, over: Over) -> tuple[str, Over]:
    """The pooled slot, by class and link, of a class's evidence: classes that share a property share its evidence."""
    if over.aggregate in GRADES:
        return propagated_slot(pools, class_name, over)
    if over.aggregate:
        return pooled_aggregate(pools, class_name, over)
    if not pools.pooled:
        return class_name, over
    if over.incoming:
        return ANY, over._replace(class_name=pools.source(over.class_name, pattern(over.link)).class_name)
    source, read = pools.source(class_name, pattern(over.link)), pools.source(over.class_name, pattern(over.read))
    return source.class_name, over._replace(class_name=read.class_name)


def collect_evidence(
    evidence: Evidence,
    entities: Iterable[tuple[str, str, Mapping[Path, Any]]],
    chain_search: ChainSearch = UNLIMITED,
) -> TrainingEvidence:
    """The evidence of training entities, given as id, class and leaves.

    All incoming links are collected. Other evidence, where there is much, is counted for a sample of the entities, and the
    counts are extrapolated.
    """
    receivers = sorted(itertools.starmap(Receiver, entities), key=lambda receiver: hash_id(receiver.id))
    counting = EvidenceCount(evidence, Counter(receiver.class_name for receiver in receivers))
    done = 0
    while done < len(receivers):
        block = receivers[done : done + counting.block_size]
        counting.add(block)
        done += len(block)
    counts = counting.counts
    for (class_name, over), count in counts.items():
        if over.aggregate or not over.incoming:
            counts[class_name, over] = count * len(receivers) // counting.sampled
    screened = counting.screening.best() if counting.screening is not None else set()
    if evidence.config.chains:
        pools = evidence.pools
        evidence.propagation = Propagation.fit(evidence.graph, pools, receivers, chain_search)
        counted = receivers[:MAX_COUNTED_ENTITIES]
        numbers: Counter[tuple[str, Over]] = Counter()
        for estimates in evidence.propagated(evidence.graph.links_of(counted)):
            names = Counter(counted[row].class_name for row in estimates.row.tolist())
            for class_name, count in names.items():
                numbers[propagated_slot(pools, class_name, estimates.over)] += count
        counts.update({key: count * len(receivers) // len(counted) for key, count in numbers.items()})
        screened |= numbers.keys()
    return TrainingEvidence(counts, counting.sources, screened, evidence.propagation)


class EvidenceCount:
    """Counts the evidence of training entities, block by block: of all incoming links, of a sample everything else."""

    def __init__(self, evidence: Evidence, sizes: Mapping[str, int]) -> None:
        """`sizes` are the numbers of entities of each class."""
        self.evidence = evidence
        self.counts: Counter[tuple[str, Over]] = Counter()  # entities that have each
        self.sources: dict[Source, list[Link]] = {}
        self.screening = AggregateScreening(evidence.aggregates) if evidence.aggregates is not None else None
        self.shares = {class_name: MAX_SCREENED_ENTITIES / count for class_name, count in sizes.items()}
        self.sampled, self._values = 0, 0

    @property
    def is_sampling(self) -> bool:
        """Whether the sample has not enough values yet."""
        return self._values < MAX_EVIDENCE_VALUES

    @property
    def block_size(self) -> int:
        """How many entities to add at once: about as many as the sample needs. In a wide source each has thousands of values."""
        if not self.sampled:
            return FIRST_SAMPLED
        needed = -(-(MAX_EVIDENCE_VALUES - self._values) * self.sampled // max(self._values, 1))
        return min(max(needed, FIRST_SAMPLED), ENTITIES_AT_ONCE) if self.is_sampling else ENTITIES_AT_ONCE

    def add(self, receivers: Sequence[Receiver]) -> None:
        """Add a block of entities."""
        evidence, is_sampled = self.evidence, self.is_sampling
        links = evidence.graph.links_of(receivers)
        incoming = list(evidence.incoming(links))
        outgoing = list(evidence.outgoing(links)) if is_sampled else []
        aggregates = list(evidence.aggregates_of(links)) if is_sampled else []
        rows: dict[tuple[str, Over], list[Ints]] = {}
        for class_name, over, row in (
            *((column.class_name, column.over, column.row) for column in (*outgoing, *incoming)),
            *((class_name, column.over, column.row) for class_name, column in aggregates),
        ):
            rows.setdefault(pooled_over(evidence.pools, class_name, over), []).append(row)
        distinct = {key: np.unique(np.concatenate(parts)) for key, parts in rows.items()}
        end = self._end_of_sample(distinct.values(), len(receivers)) if is_sampled else 0
        for (class_name, over), of_key in distinct.items():
            is_incoming = over.incoming and not over.aggregate
            count = len(of_key) if is_incoming else int(np.searchsorted(of_key, end))
            if count:
                self.counts[class_name, over] += count
        self._add_sources(incoming)
        if self.screening is not None and aggregates:
            limits = np.array([self.shares[receiver.class_name] * 2**32 for receiver in receivers])
            self.screening.add(aggregates, (links.draw < limits) & (np.arange(len(receivers)) < end), receivers)
        self.sampled += end

    def _end_of_sample(self, rows: Iterable[Ints], size: int) -> int:
        """The first entity of a block that is no longer in the sample, as those before it have enough values."""
        per_entity = np.bincount(np.concatenate([np.zeros(0, np.int64), *rows]), minlength=size)
        before = self._values + per_entity.cumsum() - per_entity
        end = int(np.searchsorted(before, MAX_EVIDENCE_VALUES))
        self._values += int(per_entity[:end].sum())
        return end

    def _add_sources(self, incoming: Iterable[EvidenceColumn]) -> None:
        """Add incoming links, in the order of the entities."""
        by_source: dict[Source, list[EvidenceColumn]] = {}
        for column in incoming:
            source = incoming_source(*pooled_over(self.evidence.pools, column.class_name, column.over))
            by_source.setdefault(source, []).append(column)
        for source, parts in by_source.items():
            values = [value for part in parts for value in part.values or ()]
            order = np.concatenate([part.row for part in parts]).argsort(kind="stable")
            self.sources.setdefault(source, []).extend(values[place] for place in order.tolist())


def select_evidence(counts: Mapping[tuple[str, Over], int], most: int) -> list[tuple[str, Over]]:
    """The evidence that gets a slot: incoming links, and over each link the paths that the most entities have."""
    by_link: dict[tuple[Any, ...], list[tuple[str, Over]]] = {}
    for class_name, over in counts:
        if not over.incoming or over.aggregate:
            by_link.setdefault((class_name, over.link, over.incoming, over.aggregate), []).append((class_name, over))
    kept = [key for key in counts if key[1].incoming and not key[1].aggregate]
    for of_link in by_link.values():
        of_link.sort(key=lambda key: (-counts[key], path_key(key[1].read), key[1].class_name))
        kept.extend(of_link[: most or None])
    return kept


def incoming_source(class_name: str, over: Over) -> Source:
    """The source of incoming links: in the class that they lead to, the path ^Class.path."""
    return Source(class_name, (INCOMING + over.class_name, *over.link))


def evidence_path(class_name: str, over: Over) -> Path:
    """The path of evidence in the class that it comes to."""
    if over.incoming and not over.aggregate:
        return incoming_source(class_name, over).path
    link = (INCOMING + over.class_name, *over.link) if over.incoming else over.link
    return (*link, *([AGGREGATE_MARK + over.aggregate] if over.aggregate else []), *over.read)


def _single_links(schema: Schema, name: str) -> set[Path]:
    return {path for path, leaf in schema.classes[name].leaves().items() if isinstance(leaf, LinkLeaf)}


def _without(value: Any, id: str) -> Any:
    """A link or a set of links without those to one entity; None where no other is left."""
    if not isinstance(value, COLLECTIONS):
        return None if targets(value)[0] == id else value
    rest = [link for link in value if targets(link)[0] != id]
    return value if len(rest) == len(value) else rest or None
