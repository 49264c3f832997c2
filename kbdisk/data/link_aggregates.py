"""Aggregates over links: one number of evidence from several linked entities that have a number each.

    siblings   entities that have the same link, or are linked by the same entity: the median of their numbers
    rest       the same, where the numbers of siblings add up to a constant total, such as 100 %: the total less the others'
    members    entities that a set of links leads to: the median
    sources    entities whose links lead to it: the median

Classes that share a link or a number have common aggregates (kbdisk.data.pooling); without pooling each class by itself.

Of more than `MAX_SIBLINGS` siblings each entity has a sample of its own: a common sum would disclose the number of an entity
that is left out of it.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbdisk.data.graph import EntityLinks, Graph, LinkArrays, pattern
from kbdisk.data.groups import Floats, Ints, expanded, grouped, grouped_medians, rank_in_group, starts_of
from kbdisk.data.pooling import Pools
from kbdisk.data.slots import ANY, INCOMING, Over, Source
from kbdisk.entity import Path, without_places
from kbdisk.leaves.number.transforms import bounds_of
from kbdisk.schemas.kinds import Link as LinkLeaf
from kbdisk.schemas.kinds import Number
from kbdisk.schemas.schema import Schema

OF_SIBLINGS = (
    "siblings",
    "rest",
)  # aggregates of a property that the entity has itself: screened by that property alone
MAX_SIBLINGS = 8
MAX_POOLED_SIBLINGS = 24  # of pooled classes, which need not have the same numbers
MAX_SCREENED_ENTITIES = 2000  # of a class, about, by which aggregates are screened
MAX_DECIMALS = 12  # of a number without a grid
MIN_GROUPS = 10  # of several siblings each, to decide whether they add up to a total
MAX_ROUNDING = 1e-9  # of sums, in parts of the largest
MAX_TOTAL_DEVIATION = 0.2  # of the total: the median deviation of the sums of groups
MAX_CHANCE_RATIO, NORMAL_MEDIAN_DEVIATION = (
    0.5,
    0.67,
)  # of the deviation by chance; the median one of a normal distribution
TOTAL_QUARTILE = 2  # of the sums, from 0: a sum is too small where a number is missing
MIN_PAIRS = 30  # entities that have both an aggregate and a property, for their correlation
MIN_CORRELATION, MIN_STANDARD_ERRORS = 0.3, 3.0  # of ranks
MAX_AGGREGATES = 3  # for one property

Totals: TypeAlias = Mapping[Over, float]  # of the evidence called `rest`


class AggregateColumn(NamedTuple):
    """One aggregate, for n entities of one class."""

    over: Over
    row: Ints  # (n,) the entity
    value: Floats  # (n,)
    through: tuple[Ints, Ints]  # pairs of a place among the n, and a node whose link it came over; none for own links
    by: Ints | None  # (n,) what entities with the same aggregate have in common; None: nothing


class Groups(NamedTuple):
    """Entities in groups: siblings, by the node that they have in common."""

    offsets: Ints  # (n + 2,) the members of each node, and of one more that has none
    members: Ints  # nodes, each group sorted by id
    keys: Ints  # ascending, of each member: the node in common times the number of nodes, plus the member's id rank

    @classmethod
    def of(cls, common: Ints, member: NDArray[np.int32], id_rank: Ints) -> Groups:
        """Groups of pairs of a node in common and a member, which may come several times."""
        count = len(id_rank)
        by_rank = id_rank.argsort()
        keys = np.unique(common * count + id_rank[member])
        offsets = np.searchsorted(keys, np.arange(count + 2) * count)
        return cls(offsets, by_rank[keys % max(count, 1)], keys)

    def of_node(self, node: int) -> Ints:
        """The members of one group."""
        return self.members[self.offsets[node] : self.offsets[node + 1]]

    def sizes(self, nodes: Ints) -> Ints:
        """The numbers of members of some groups."""
        return self.offsets[nodes + 1] - self.offsets[nodes]

    def has(self, nodes: Ints, members: Ints, id_rank: Ints) -> NDArray[np.bool_]:
        """Whether each of some entities is in the group of a node; an entity that is no node, -1, is in none."""
        if not len(self.keys):
            return np.zeros(len(nodes), np.bool_)
        keys = nodes * len(id_rank) + id_rank[members]
        place = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        is_member: NDArray[np.bool_] = (self.keys[place] == keys) & (members >= 0)
        return is_member

    def samples(self, nodes: Ints, own: Ints, draws: Ints, most: int) -> Ints:
        """(k, most + 1) the members of some groups without the entity itself; of large groups `most`, drawn by its hash.

        -1 fills up.
        """
        size, turn = self.sizes(nodes)[:, None], np.arange(most + 1)
        is_large, start = size > most + 1, draws[:, None]
        step = 1 + start % 7919
        while (shared := is_large & (np.gcd(step, size) > 1)).any():
            step = step + shared
        place = np.where(is_large, (start + turn * step) % np.maximum(size, 1), turn)
        is_member = turn < size
        member = (
            self.members[np.where(is_member, self.offsets[nodes][:, None] + place, 0)] if len(self.members) else place
        )
        is_member &= member != own[:, None]
        is_member &= ~is_large | (is_member.cumsum(1) <= most)
        return np.where(is_member, member, -1)


def pooled_aggregate(pools: Pools, class_name: str, over: Over) -> tuple[str, Over]:
    """The pooled slot, by class and link, of an aggregate for a class: classes that share the link share the aggregate."""
    if not pools.pooled:
        return class_name, over
    if over.incoming or str(over.link[0])[:1] == INCOMING:
        return ANY, over
    return pools.source(class_name, pattern(over.link)).class_name, over


class SiblingNumber(NamedTuple):
    """A number of siblings: whether their median is evidence, and the rest that is."""

    number: Source
    is_shown: bool
    rest: Over | None


class Aggregates:
    """The aggregates over the entities of a graph: all, or those that are wanted."""

    def __init__(
        self, schema: Schema, graph: Graph, pools: Pools, wanted: Collection[tuple[str, Over]] | None = None
    ) -> None:
        self.graph, self.pools = graph, pools
        leaves = {name: schema_class.leaves() for name, schema_class in schema.classes.items()}
        self.numbers = {
            name: {
                path: leaf for path, leaf in own.items() if isinstance(leaf, Number) and without_places(path) == path
            }
            for name, own in leaves.items()
        }
        self.single = {
            name: [path for path, leaf in own.items() if isinstance(leaf, LinkLeaf)] for name, own in leaves.items()
        }
        self._shared_numbers = {name: [self._source(name, path) for path in own] for name, own in self.numbers.items()}
        self._leaves = {
            self._source(name, path): self._leaf_of(name, path) for name, own in self.numbers.items() for path in own
        }
        self._bounds = {
            number: bounds_of(leaf, 0 if leaf.integer else MAX_DECIMALS) for number, leaf in self._leaves.items()
        }
        self._wanted_sources: dict[tuple[str, Path, str], Collection[Source] | None] = {}
        self.wanted: dict[tuple[str, Path, bool, str], set[Source]] | None = (
            None if wanted is None else defaultdict(set)
        )
        known: dict[Over, float] = {}
        for class_name, over in wanted or ():
            if over.aggregate and self.wanted is not None:
                self.wanted[class_name, over.link, over.incoming, over.aggregate].add(
                    Source(over.class_name, over.read)
                )
                known[over._replace(total=0.0)] = over.total
        self.arrays = graph.arrays()
        self._values = self._read_values()
        self._siblings_of: dict[Source, Groups] = {}
        self._members_of: dict[tuple[Path, str], Groups] = {}
        self.totals: Totals = self._find_totals() if wanted is None else known

    def columns(self, class_name: str, rows: Ints, links: EntityLinks) -> Iterator[AggregateColumn]:
        """The aggregates for those of some entities that are of a class."""
        own = _of_rows(links, rows)
        for link in self.single[class_name]:
            at = np.flatnonzero(own.path_is(link))
            common = np.where(own.target[at] >= 0, own.target[at], len(self.arrays.names))
            groups = self._siblings_by(self._source(class_name, link))
            yield from self._siblings(class_name, link, groups, own.row[at], common, links, None)
        for link in self.graph.linking[class_name]:
            if link not in self.single[class_name]:
                at = np.flatnonzero(own.path_is(link) & (own.target >= 0) & (own.target != links.node[own.row]))
                yield from self._medians(class_name, link, "members", own.row[at], own.target[at])
        yield from self._over_incoming(class_name, rows, links)

    def _over_incoming(self, class_name: str, rows: Ints, links: EntityLinks) -> Iterator[AggregateColumn]:
        """The aggregates over the entities that link to some entities."""
        in_graph = rows[links.node[rows] >= 0]
        place, at = expanded(*self._incoming.ranges(links.node[in_graph]))
        row, link = in_graph[place], self._incoming.links[at]
        source, relation = self.arrays.source[link].astype(np.int64), self.arrays.relation_of_link[link]
        kept = source != links.node[row]
        row, source, relation = row[kept], source[kept], relation[kept]
        pooled_sources, pooled_number, is_set = self._pooled_relations
        numbers = pooled_number[relation]
        for number, of_source in grouped(numbers):
            pooled = pooled_sources[number]
            yield from self._medians(class_name, pooled.path, "sources", row[of_source], source[of_source])
            starts = starts_of(row[of_source])
            count = np.diff(np.append(starts, len(of_source)))
            single = of_source[starts[count == 1]]
            single = single[is_set[relation[single]]]
            if len(single):
                link_of_set = (INCOMING + pooled.class_name, *pooled.path)
                groups = self._members_by(pooled.path, class_name)
                yield from self._siblings(
                    class_name, link_of_set, groups, row[single], source[single], links, source[single]
                )

    @cached_property
    def _pooled_relations(self) -> tuple[Sequence[Source], Ints, NDArray[np.bool_]]:
        """The sources of links in order; of each relation the place of its source there, and whether it is a set of links."""
        relations = self.arrays.relations
        sources = [self._source(*pair) for pair in relations]
        in_order = sorted(set(sources), key=str)
        place = {source: number for number, source in enumerate(in_order)}
        is_set = [
            source.path not in self.single[class_name]
            for source, (class_name, _) in zip(sources, relations, strict=True)
        ]
        return in_order, np.array([place[source] for source in sources], np.int64), np.array(is_set, np.bool_)

    def _source(self, class_name: str, path: Path) -> Source:
        """The source of a property of a class; with pooling that of the class which stands for all."""
        return self.pools.source(class_name, path) if self.pools.pooled else Source(class_name, path)

    def _leaf_of(self, class_name: str, path: Path) -> Number:
        leaf: Number = (
            self.pools.leaves[self._source(class_name, path)] if self.pools.pooled else self.numbers[class_name][path]
        )
        return leaf

    def _wanted(self, class_name: str, link: Path, how: str) -> Collection[Source] | None:
        """The numbers whose aggregates an entity of a class gets; None: all."""
        if self.wanted is None:
            return None
        key = class_name, link, how
        if key not in self._wanted_sources:
            over = Over("", link, (), how == "sources", how)
            pooled_class = pooled_aggregate(self.pools, class_name, over)[0]
            self._wanted_sources[key] = self.wanted.get((pooled_class, link, over.incoming, how), ())
        return self._wanted_sources[key]

    # ------------------------------------------------------------ the graph as arrays

    def _read_values(self) -> dict[Source, Floats]:
        """(n,) of each number that is wanted, its values by node; NaN where it is not known."""
        wanted = None if self.wanted is None else set().union(*self.wanted.values())
        values: dict[Source, Floats] = {}
        for pair, (nodes, known) in self.arrays.numbers.items():
            source = self._source(*pair)
            if wanted is None or source in wanted:
                if source not in values:
                    values[source] = np.full(len(self.arrays.names), np.nan)
                values[source][nodes] = known
        return values

    @cached_property
    def _id_rank(self) -> Ints:
        """(n,) the place of each node in the order of ids."""
        rank = np.empty(len(self.arrays.names), np.int64)
        rank[sorted(range(len(rank)), key=self.arrays.names.__getitem__)] = np.arange(len(rank))
        return rank

    @cached_property
    def _hash_rank(self) -> Ints:
        """(n,) the place of each node in the order of the hashes of ids."""
        rank = np.empty(len(self.arrays.draw), np.int64)
        rank[np.argsort(self.arrays.draw, kind="stable")] = np.arange(len(rank))
        return rank

    @cached_property
    def _incoming(self) -> IncomingLinks:
        return IncomingLinks.of(self.arrays)

    def _siblings_by(self, source: Source) -> Groups:
        """The entities that have the same link, by its target."""
        if source not in self._siblings_of:
            arrays = self.arrays
            numbers = [number for number, pair in enumerate(arrays.relations) if self._source(*pair) == source]
            at = np.isin(arrays.relation_of_link, numbers)
            self._siblings_of[source] = Groups.of(arrays.target[at].astype(np.int64), arrays.source[at], self._id_rank)
        return self._siblings_of[source]

    def _members_by(self, path: Path, class_name: str) -> Groups:
        """The members of sets of links by the entity that has the set; without pooling those of one class."""
        key = path, ANY if self.pools.pooled else class_name
        if key not in self._members_of:
            arrays = self.arrays
            of_target = arrays.class_of[arrays.target]
            is_member = of_target >= 0 if self.pools.pooled else of_target == arrays.classes.index(class_name)
            at = (arrays.path == arrays.paths.get(path, -1)) & is_member
            self._members_of[key] = Groups.of(arrays.source[at].astype(np.int64), arrays.target[at], self._id_rank)
        return self._members_of[key]

    # ------------------------------------------------------------ siblings

    def _siblings(
        self,
        class_name: str,
        link: Path,
        groups: Groups,
        rows: Ints,
        common: Ints,
        links: EntityLinks,
        neighbours: Ints | None,
    ) -> Iterator[AggregateColumn]:
        """The aggregates over siblings of some entities, by the node in common; `neighbours` linked them to it."""
        numbers = self._numbers_of_siblings(class_name, link)
        if not numbers or not len(rows):
            return
        own = links.node[rows]
        samples = _NO_SAMPLES
        if any(number.is_shown for number in numbers):
            most = MAX_POOLED_SIBLINGS if self.pools.pooled else MAX_SIBLINGS
            samples = groups.samples(common, own, links.draw[rows], most)
        for number, is_shown, rest in numbers:
            values = self._values.get(number)
            if is_shown and values is not None:
                median, is_known = _medians_of_first(np.where(samples >= 0, values[samples], np.nan))
                at = np.flatnonzero(is_known)
                over = Over(number.class_name, link, number.path, aggregate="siblings")
                yield self._column(
                    over, rows[at], median[at], common[at], None if neighbours is None else neighbours[at]
                )
            if rest is not None:
                is_in = groups.has(common, own, self._id_rank)
                known = np.zeros(len(rows)) if values is None else np.where(is_in, np.nan_to_num(values[own]), 0.0)
                yield self._column(
                    rest, rows, rest.total - self._sums(groups, common, number) + known, common, neighbours
                )

    def _column(
        self, over: Over, rows: Ints, values: Floats, by: Ints | None, neighbours: Ints | None
    ) -> AggregateColumn:
        through = (_NONE, _NONE) if neighbours is None else (np.arange(len(rows)), neighbours)
        return AggregateColumn(over, rows, self._fitting(Source(over.class_name, over.read), values), through, by)

    def _numbers_of_siblings(self, class_name: str, link: Path) -> Sequence[SiblingNumber]:
        """The numbers of siblings whose aggregates an entity of a class gets over a link."""
        siblings, rest = (self._wanted(class_name, link, how) for how in OF_SIBLINGS)
        numbers = []
        for number in self._shared_numbers[class_name]:
            over = Over(number.class_name, link, number.path, aggregate="rest")
            total = self.totals.get(over) if rest is None or number in rest else None
            is_shown = siblings is None or number in siblings
            if is_shown or total is not None:
                numbers.append(SiblingNumber(number, is_shown, None if total is None else over._replace(total=total)))
        return numbers

    def _sums(self, groups: Groups, nodes: Ints, number: Source) -> Floats:
        """The sums of a number over all members of some groups."""
        values = self._values.get(number)
        if values is None:
            return np.zeros(len(nodes))
        distinct, place = np.unique(nodes, return_inverse=True)
        known = (values[groups.of_node(node)] for node in distinct.tolist())
        sums: Floats = np.array([math.fsum(of_group[~np.isnan(of_group)]) for of_group in known])
        return sums[place]

    def _find_totals(self) -> Totals:
        """The totals of numbers of siblings, where they add up to one."""
        totals: dict[Over, float] = {}
        for link in self._single_links():
            groups = self._siblings_by(link)
            common = np.repeat(np.arange(len(groups.offsets) - 1), np.diff(groups.offsets))
            for number, values in self._values.items():
                known = values[groups.members]
                at = np.flatnonzero(~np.isnan(known))
                bounds = np.append(starts_of(common[at]), len(at))
                is_several = np.diff(bounds) > 1
                if is_several.sum() < MIN_GROUPS or _differ(np.add.reduceat(known[at], bounds[:-1])[is_several]):
                    continue
                addends = known[at].tolist()
                several = [addends[start:end] for start, end in pairwise(bounds.tolist()) if end - start > 1]
                if _adds_up(several):
                    over = Over(number.class_name, link.path, number.path, aggregate="rest")
                    totals[over] = statistics.quantiles(map(math.fsum, several), n=4)[TOTAL_QUARTILE]
        return totals

    def _single_links(self) -> Iterable[Source]:
        """The single links of classes that have numbers."""
        return dict.fromkeys(
            self._source(name, link)
            for name, links in self.single.items()
            if self.numbers[name]
            for link in links
            if without_places(link) == link
        )

    # ------------------------------------------------------------ members and sources

    def _medians(self, class_name: str, link: Path, how: str, rows: Ints, nodes: Ints) -> Iterator[AggregateColumn]:
        """The medians of the numbers of nodes, by the entity that they are linked with."""
        wanted = self._wanted(class_name, link, how)
        if not len(rows) or (wanted is not None and not wanted):
            return
        order = np.lexsort((self._hash_rank[nodes], rows))
        all_rows, all_nodes = rows[order], nodes[order]
        is_used = rank_in_group(all_rows) < 2 * MAX_SIBLINGS
        rows, nodes = all_rows[is_used], all_nodes[is_used]
        incoming = how == "sources"
        numbers = self._numbers_of(nodes)
        for number in sorted(numbers if wanted is None else numbers.intersection(wanted)):
            values = self._values[number]
            known = np.flatnonzero(~np.isnan(values[nodes]))
            if not len(known):
                continue
            of_rows, median, _, _ = grouped_medians(rows[known], values[nodes[known]])
            over = Over(number.class_name, link, number.path, incoming, how)
            through, by = (_NONE, _NONE), None
            if incoming:
                starts = np.searchsorted(all_rows, of_rows), np.searchsorted(all_rows, of_rows, side="right")
                place, at = expanded(*starts)
                through = place, all_nodes[at]
                by = np.minimum.reduceat(self._id_rank[nodes[known]], starts_of(rows[known]))
            yield AggregateColumn(over, of_rows, self._fitting(number, median), through, by)

    def _numbers_of(self, nodes: Ints) -> set[Source]:
        """The numbers that the classes of some nodes have."""
        class_numbers = np.unique(self.arrays.class_of[nodes]).tolist()
        names = [self.arrays.classes[number] for number in class_numbers if number >= 0]
        return {number for name in names for number in self._shared_numbers[name] if number in self._values}

    def _fitting(self, number: Source, values: Floats) -> Floats:
        """The nearest numbers that the property may have."""
        low, high = self._bounds[number]
        if self._leaves[number].integer:
            values = np.rint(values) + 0.0  # no negative zero
        return np.minimum(np.maximum(values, low), high)


_NONE: Ints = np.zeros(0, np.int64)
_NO_SAMPLES: Ints = np.zeros((0, 0), np.int64)


class _OwnLinks(NamedTuple):
    """The links of some of the entities."""

    row: Ints
    path: Ints
    target: Ints
    paths: Sequence[Path]

    def path_is(self, path: Path) -> NDArray[np.bool_]:
        """Which links are by a path."""
        is_by: NDArray[np.bool_] = self.path == (self.paths.index(path) if path in self.paths else -1)
        return is_by


def _of_rows(links: EntityLinks, rows: Ints) -> _OwnLinks:
    _, kept = expanded(np.searchsorted(links.row, rows), np.searchsorted(links.row, rows, side="right"))
    return _OwnLinks(links.row[kept], links.path[kept], links.target[kept], links.paths)


class IncomingLinks(NamedTuple):
    """The links of a graph by their targets."""

    links: Ints  # (L,)
    offsets: Ints  # (n + 1,)

    @classmethod
    def of(cls, arrays: LinkArrays) -> IncomingLinks:
        """Those of a graph."""
        links = arrays.target.argsort(kind="stable")
        return cls(links, np.searchsorted(arrays.target[links], np.arange(len(arrays.names) + 1)))

    def ranges(self, nodes: Ints) -> tuple[Ints, Ints]:
        """The start and end of the links to each of some nodes."""
        return self.offsets[nodes], self.offsets[nodes + 1]


def _medians_of_first(values: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """(k,) the median of the first MAX_SIBLINGS known values of each row (k, m), and whether there are any."""
    is_known = ~np.isnan(values)
    count = is_known.sum(1)
    first = np.sort(np.where(is_known.cumsum(1) <= MAX_SIBLINGS, values, np.nan), 1)  # NaN last
    last = np.maximum(np.minimum(count, MAX_SIBLINGS) - 1, 0)
    at = np.arange(len(values))
    return (first[at, last // 2] + first[at, (last + 1) // 2]) / 2, count > 0


# ---------------------------------------------------------------- screening, by training entities


def _differ(sums: Floats) -> bool:
    """Whether sums with errors of rounding differ clearly too much to be one total."""
    middle = np.median(sums)
    rounding = MAX_ROUNDING * np.abs(sums).max()
    return bool(np.median(np.abs(sums - middle)) > MAX_TOTAL_DEVIATION * middle + rounding)


def _adds_up(groups: Sequence[Sequence[float]]) -> bool:
    """Whether the sums of groups of numbers deviate much less than sums of independent numbers would."""
    sums = list(map(math.fsum, groups))
    middle = statistics.median(sums)
    deviation = statistics.median(abs(value - middle) for value in sums)
    if not (middle > 0 and deviation <= MAX_TOTAL_DEVIATION * middle):
        return False
    spread = statistics.pstdev([value for group in groups for value in group])
    size = statistics.median(map(len, groups))
    by_chance = NORMAL_MEDIAN_DEVIATION * spread * math.sqrt(size)
    return deviation <= MAX_CHANCE_RATIO * by_chance


class ScreenedValues(NamedTuple):
    """Values of an aggregate, by which it is screened."""

    row: Ints
    value: Floats
    by: Ints  # entities with the same aggregate have this in common


class AggregateScreening:
    """Keeps the aggregates that are correlated with properties of the entities that they come to."""

    def __init__(self, evidence: Aggregates) -> None:
        self.evidence = evidence
        self.numbers: list[tuple[str, Mapping[Path, Any]]] = []  # the class and leaves of entities that have aggregates
        self.seen: dict[tuple[str, Over], list[ScreenedValues]] = defaultdict(list)

    def add(
        self,
        aggregates: Iterable[tuple[str, AggregateColumn]],
        is_drawn: NDArray[np.bool_],
        entities: Sequence[tuple[str, str, Mapping[Path, Any]]],
    ) -> None:
        """The aggregates of those of some entities that are drawn, each with the class of its entities."""
        parts = [(key, column, np.flatnonzero(is_drawn[column.row])) for key, column in aggregates]
        used = np.unique(np.concatenate([_NONE, *(column.row[at] for _, column, at in parts)]))
        rows = np.full(len(entities), -1)
        rows[used] = len(self.numbers) + np.arange(len(used))
        self.numbers += [entities[row][1:] for row in used.tolist()]
        for class_name, column, at in parts:
            if len(at):
                key, own = pooled_aggregate(self.evidence.pools, class_name, column.over), rows[column.row[at]]
                self.seen[key].append(
                    ScreenedValues(own, column.value[at], own if column.by is None else column.by[at])
                )

    def best(self) -> set[tuple[str, Over]]:
        """By class: every rest, and for each property the aggregates with the strongest correlation."""
        by_property: dict[tuple[str, Path], list[tuple[float, tuple[str, ...], Over]]] = defaultdict(list)
        kept: set[tuple[str, Over]] = set()
        paths, ranks = self._ranks()
        column = {path: place for place, path in enumerate(paths)}
        for (class_name, over), parts in self.seen.items():
            rows = np.concatenate([part.row for part in parts])
            if len(rows) < MIN_PAIRS or (over.aggregate in OF_SIBLINGS and over.read not in column):
                continue
            in_order = rows.argsort(kind="stable")
            columns = np.array(
                [column[over.read]] if over.aggregate in OF_SIBLINGS else range(len(paths)), dtype=np.int64
            )
            count, groups, strength = _correlations(
                np.concatenate([part.value for part in parts])[in_order],
                ranks[rows[in_order]][:, columns],
                np.concatenate([part.by for part in parts])[in_order],
            )
            for place in (count >= MIN_PAIRS).nonzero()[0]:
                if over.aggregate == "rest":
                    kept.add((class_name, over))
                elif strength[place] >= max(MIN_CORRELATION, MIN_STANDARD_ERRORS / math.sqrt(groups[place])):
                    order = (over.aggregate, *map(str, (*over.link, *over.read)))
                    by_property[class_name, paths[columns[place]]].append((-float(strength[place]), order, over))
        kept.update(
            (class_name, over)
            for (class_name, _), candidates in by_property.items()
            for *_, over in sorted(candidates)[:MAX_AGGREGATES]
        )
        return kept

    def _ranks(self) -> tuple[list[Path], NDArray[np.float32]]:
        """The paths of numbers, and (rows, paths) the rank of each entity's number among all; NaN where it has none."""
        numbers = self.evidence.numbers
        paths = sorted({path for class_name, _ in self.numbers for path in numbers[class_name]}, key=str)
        ranks = np.full((len(self.numbers), len(paths)), np.nan, dtype=np.float32)
        for place, path in enumerate(paths):
            known = [
                row
                for row, (class_name, leaves) in enumerate(self.numbers)
                if path in leaves and path in numbers[class_name]
            ]
            if known:
                values = np.array([float(self.numbers[row][1][path]) for row in known])
                ranks[known, place] = np.unique(values, return_inverse=True)[1]
        return paths, ranks


def _correlations(
    values: NDArray[np.float64], ranks: NDArray[np.float32], by: Ints
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """The rank correlations of values (r,) with P properties, given by their ranks (r, P), NaN where there are none.

    For each property: the number of rows that have it, the number of groups, and the absolute correlation, 0 for a constant.
    """
    known = ~np.isnan(ranks)
    count = known.sum(0)
    rank = np.unique(values, return_inverse=True)[1].astype(np.float64)[:, None]
    ones = np.maximum(count, 1)
    x = np.where(known, rank - np.where(known, rank, 0).sum(0) / ones, 0)
    filled = np.where(known, ranks, 0).astype(np.float64)
    y = np.where(known, filled - filled.sum(0) / ones, 0)
    spread = np.sqrt((x * x).sum(0) * (y * y).sum(0))
    strength = np.abs((x * y).sum(0)) / np.where(spread > 0, spread, 1)
    order = by.argsort(kind="stable")
    starts = starts_of(by[order])
    return count, np.logical_or.reduceat(known[order], starts, axis=0).sum(0), strength
