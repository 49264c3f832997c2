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
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbdisk.data.graph import Graph, pattern, targets
from kbdisk.data.pooling import Pools
from kbdisk.data.slots import ANY, INCOMING, Over, Source, hash_id
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
MAX_ADDEND = 1e150  # larger numbers cannot be added up
MAX_DECIMALS = 12  # of a number without a grid
MIN_GROUPS = 10  # of several siblings each, to decide whether they add up to a total
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


class Group(NamedTuple):
    """Siblings: entities with the same link, or members of a set of links of one entity."""

    by: str  # the entity that they have in common
    class_name: str  # the pooled class of the link; of members of a set that of the entity
    link: Path  # of the siblings; behind `^Class` that of the entity which links to them


class Aggregate(NamedTuple):
    """An aggregate of numbers."""

    over: Over
    value: float
    through: Sequence[str]  # the entities whose links it came over; empty where it came over the entity's own
    by: str  # the id that entities with the same aggregate have in common


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
        self._shared: dict[tuple[str, Path], Source] = {}
        self._shared_numbers = {name: [self._source(name, path) for path in own] for name, own in self.numbers.items()}
        self._leaves = {
            self._source(name, path): self._leaf_of(name, path) for name, own in self.numbers.items() for path in own
        }
        self._sibling_numbers: dict[tuple[str, Path], list[SiblingNumber]] = {}
        self._overs: dict[tuple[Source, Path, str], Over] = {}
        self._wanted_sources: dict[tuple[str, Path, str], Collection[Source] | None] = {}
        self._bounds: dict[Source, tuple[float, float]] = {}
        self._groups: dict[Group, list[str]] = {}
        self._sets: dict[Group, frozenset[str]] = {}
        self._sums: dict[tuple[Group, Source], float] = {}
        self._numbers: dict[str, Mapping[Source, float]] = {}
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
        self.totals: Totals = self._find_totals() if wanted is None else known

    def of(self, id: str, class_name: str, leaves: Mapping[Path, Any]) -> Iterator[Aggregate]:
        """The aggregates for an entity."""
        for link in self.single[class_name]:
            if link in leaves:
                group = Group(targets(leaves[link])[0], self._source(class_name, link).class_name, link)
                yield from self._siblings(id, class_name, group, ())
        for link in self.graph.linking[class_name]:
            if link in leaves and link not in self.single[class_name]:
                members = [target for target in targets(leaves[link]) if target != id]
                yield from self._medians(id, class_name, members, link, "members")
        by_link: dict[Source, list[str]] = defaultdict(list)
        in_sets: set[Source] = set()
        for edge in self.graph.incoming(id):
            if edge.source != id:
                link = pattern(edge.path)
                source = self._source(edge.class_name, link)
                by_link[source].append(edge.source)
                if link not in self.single[edge.class_name]:
                    in_sets.add(source)
        for source, linking in sorted(by_link.items(), key=str):
            yield from self._medians(id, class_name, linking, source.path, "sources")
            if len(linking) == 1 and source in in_sets:
                group = Group(linking[0], self._class_in_sets(class_name), (INCOMING + source.class_name, *source.path))
                yield from self._siblings(id, class_name, group, linking)

    def _source(self, class_name: str, path: Path) -> Source:
        """The source of a property of a class; with pooling that of the class which stands for all."""
        if (class_name, path) not in self._shared:
            self._shared[class_name, path] = (
                self.pools.source(class_name, path) if self.pools.pooled else Source(class_name, path)
            )
        return self._shared[class_name, path]

    def _leaf_of(self, class_name: str, path: Path) -> Number:
        leaf: Number = (
            self.pools.leaves[self._source(class_name, path)] if self.pools.pooled else self.numbers[class_name][path]
        )
        return leaf

    def _class_in_sets(self, class_name: str) -> str:
        """The class by which members of a set are siblings; with pooling any."""
        return ANY if self.pools.pooled else class_name

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

    # ------------------------------------------------------------ siblings

    def _siblings(self, id: str, class_name: str, group: Group, through: Sequence[str]) -> Iterator[Aggregate]:
        numbers = self._numbers_of_siblings(class_name, group.link)
        drawn = list(self._drawn(id, group)) if any(number.is_shown for number in numbers) else []
        for number, is_shown, rest in numbers:
            if is_shown:
                known = (value for member in drawn if (value := self._numbers_of(member).get(number)) is not None)
                values = list(islice(known, MAX_SIBLINGS))
                if values:
                    over = self._over(number, group.link, "siblings")
                    yield Aggregate(over, self._fitting(number, statistics.median(values)), through, group.by)
            if rest is not None:
                own_values = self._values([id] if self._is_in(id, group) else (), number)
                rest_of_total = rest.total - self._sum(group, number) + math.fsum(own_values)
                yield Aggregate(rest, self._fitting(number, rest_of_total), through, group.by)

    def _numbers_of_siblings(self, class_name: str, link: Path) -> Sequence[SiblingNumber]:
        """The numbers of siblings whose aggregates an entity of a class gets over a link."""
        key = class_name, link
        if key not in self._sibling_numbers:
            siblings, rest = (self._wanted(class_name, link, how) for how in OF_SIBLINGS)
            numbers = self._sibling_numbers[key] = []
            for number in self._shared_numbers[class_name]:
                over = Over(number.class_name, link, number.path, aggregate="rest")
                total = self.totals.get(over) if rest is None or number in rest else None
                is_shown = siblings is None or number in siblings
                if is_shown or total is not None:
                    over_rest = None if total is None else over._replace(total=total)
                    numbers.append(SiblingNumber(number, is_shown, over_rest))
        return self._sibling_numbers[key]

    def _over(self, number: Source, link: Path, how: str) -> Over:
        """The link that an aggregate comes over. Entities share it."""
        key = number, link, how
        if key not in self._overs:
            self._overs[key] = Over(number.class_name, link, number.path, how == "sources", how)
        return self._overs[key]

    def _members(self, group: Group) -> list[str]:
        if group not in self._groups:
            if str(group.link[0])[:1] == INCOMING:
                linked = targets(self.graph.leaves(group.by).get(group.link[1:], ()))
                classes = ((target, self.graph.of(target)) for target in linked)
                members = {
                    target
                    for target, name in classes
                    if name is not None and self._class_in_sets(name) == group.class_name
                }
            else:
                edges = (edge for edge in self.graph.incoming(group.by) if pattern(edge.path) == group.link)
                members = {
                    edge.source
                    for edge in edges
                    if self._source(edge.class_name, group.link).class_name == group.class_name
                }
            self._groups[group] = sorted(members)
        return self._groups[group]

    def _is_in(self, id: str, group: Group) -> bool:
        if group not in self._sets:
            self._sets[group] = frozenset(self._members(group))
        return id in self._sets[group]

    def _drawn(self, id: str, group: Group) -> list[str]:
        """A sample of the siblings of an entity, drawn by its id."""
        most, members = MAX_POOLED_SIBLINGS if self.pools.pooled else MAX_SIBLINGS, self._members(group)
        if len(members) <= most + 1:
            return [member for member in members if member != id]
        start = hash_id(id)
        step = 1 + start % 7919
        while math.gcd(step, len(members)) > 1:
            step += 1
        drawn = (members[(start + turn * step) % len(members)] for turn in range(most + 1))
        return [member for member in drawn if member != id][:most]

    def _sum(self, group: Group, number: Source) -> float:
        """The sum of a number over all members of a group."""
        if (group, number) not in self._sums:
            self._sums[group, number] = math.fsum(self._values(self._members(group), number))
        return self._sums[group, number]

    def _find_totals(self) -> Totals:
        """The totals of numbers of siblings, where they add up to one."""
        totals: dict[Over, float] = {}
        for link, groups in self._grouped().items():
            addends: dict[Source, list[list[float]]] = defaultdict(list)  # of each number, group by group
            for group in sorted(groups):
                of_group: dict[Source, list[float]] = defaultdict(list)
                for member in self._members(group):
                    for number, value in self._numbers_of(member).items():
                        of_group[number].append(value)
                for number, values in of_group.items():
                    if len(values) > 1:
                        addends[number].append(values)
            for number, values_of_groups in addends.items():
                if len(values_of_groups) >= MIN_GROUPS and _adds_up(values_of_groups):
                    over = Over(number.class_name, link.path, number.path, aggregate="rest")
                    totals[over] = statistics.quantiles(map(math.fsum, values_of_groups), n=4)[TOTAL_QUARTILE]
        return totals

    def _grouped(self) -> Mapping[Source, set[Group]]:
        """All groups of siblings, by their link."""
        groups: dict[Source, set[Group]] = defaultdict(set)
        for id in self.graph.entities():
            class_name, leaves = str(self.graph.of(id)), self.graph.leaves(id)
            for link in self.single[class_name] if self.numbers[class_name] else ():
                if link in leaves:
                    source = self._source(class_name, link)
                    groups[source].add(Group(targets(leaves[link])[0], *source))
        return groups

    # ------------------------------------------------------------ members and sources

    def _medians(self, id: str, class_name: str, entities: Sequence[str], link: Path, how: str) -> Iterator[Aggregate]:
        """The medians of the numbers of some entities."""
        wanted = self._wanted(class_name, link, how)
        if wanted is not None and not wanted:
            return
        values: dict[Source, list[float]] = defaultdict(list)
        first: dict[Source, str] = {}  # the least id of the entities that have the number
        for entity in sorted(entities, key=hash_id)[: 2 * MAX_SIBLINGS]:
            for number, value in self._numbers_of(entity).items():
                if wanted is None or number in wanted:
                    values[number].append(value)
                    first[number] = min(first.get(number, entity), entity)
        incoming = how == "sources"
        for number in sorted(values):
            through, by = (entities, first[number]) if incoming else ((), id)
            over = self._over(number, link, how)
            yield Aggregate(over, self._fitting(number, statistics.median(values[number])), through, by)

    def _values(self, entities: Iterable[str], number: Source) -> list[float]:
        return [value for entity in entities if (value := self._numbers_of(entity).get(number)) is not None]

    def _numbers_of(self, id: str) -> Mapping[Source, float]:
        """The numbers of an entity that can be added up."""
        if id not in self._numbers:
            class_name, leaves = self.graph.of(id) or "", self.graph.leaves(id)
            paths = self.numbers.get(class_name, {})
            self._numbers[id] = {
                self._source(class_name, path): float(value)
                for path, value in leaves.items()
                if path in paths and abs(value) < MAX_ADDEND
            }
        return self._numbers[id]

    def _fitting(self, number: Source, value: float) -> float:
        """The nearest number that the property may have."""
        leaf = self._leaves[number]
        if number not in self._bounds:
            self._bounds[number] = bounds_of(leaf, 0 if leaf.integer else MAX_DECIMALS)
        low, high = self._bounds[number]
        return min(max(round(value) if leaf.integer else value, low), high)


# ---------------------------------------------------------------- screening, by training entities


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


class AggregateScreening:
    """Keeps the aggregates that are correlated with properties of the entities that they come to."""

    def __init__(self, evidence: Aggregates) -> None:
        self.evidence = evidence
        self.rows: dict[str, int] = {}  # of the entities that have aggregates
        self.numbers: list[tuple[str, Mapping[Path, Any]]] = []  # the class and leaves of each
        self.seen: dict[tuple[str, Over], list[tuple[int, Aggregate]]] = defaultdict(list)

    def add(self, id: str, class_name: str, aggregate: Aggregate, leaves: Mapping[Path, Any]) -> None:
        """An aggregate for an entity of some class and leaves."""
        row = self.rows.setdefault(id, len(self.rows))
        if row == len(self.numbers):
            self.numbers.append((class_name, leaves))
        self.seen[pooled_aggregate(self.evidence.pools, class_name, aggregate.over)].append((row, aggregate))

    def best(self) -> set[tuple[str, Over]]:
        """By class: every rest, and for each property the aggregates with the strongest correlation."""
        by_property: dict[tuple[str, Path], list[tuple[float, tuple[str, ...], Over]]] = defaultdict(list)
        kept: set[tuple[str, Over]] = set()
        paths, ranks = self._ranks()
        column = {path: place for place, path in enumerate(paths)}
        for (class_name, over), aggregates in self.seen.items():
            if len(aggregates) < MIN_PAIRS or (over.aggregate in OF_SIBLINGS and over.read not in column):
                continue
            columns = np.array(
                [column[over.read]] if over.aggregate in OF_SIBLINGS else range(len(paths)), dtype=np.int64
            )
            ranks_of_property = ranks[np.array([row for row, _ in aggregates])][:, columns]
            count, groups, strength = _correlations(
                np.array([aggregate.value for _, aggregate in aggregates]),
                ranks_of_property,
                [aggregate.by for _, aggregate in aggregates],
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
    values: NDArray[np.float64], ranks: NDArray[np.float32], by: Sequence[str]
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
    number = np.unique(np.array(by), return_inverse=True)[1]
    order = number.argsort(kind="stable")
    starts = np.flatnonzero(np.diff(number[order], prepend=-1))
    return count, np.logical_or.reduceat(known[order], starts, axis=0).sum(0), strength
