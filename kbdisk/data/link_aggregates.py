"""Aggregates over links: evidence from several linked entities at once, one number where each of them has one.

    siblings   others that have the same link, or are linked to by the same entity: the median of theirs
    rest       the same, where theirs and its own add up to one whole, such as 100 %: what they leave of it
    members    those that a set of links of its leads to: the median
    sources    those whose links lead to it: the median

Classes that share a link or a number tell it together (kbdisk.data.pooling); without pooling each class by itself.

Of more than `MOST` siblings each entity has its own draw, so that no common sum tells what an entity left out of it has.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbdisk.data.graph import Graph, pattern, targets
from kbdisk.data.pooling import Pools
from kbdisk.data.slots import ANY, INCOMING, Over, Source, hashed
from kbdisk.entity import Path, without_places
from kbdisk.leaves.number.transforms import bounds_of
from kbdisk.schemas.kinds import Link as LinkLeaf
from kbdisk.schemas.kinds import Number
from kbdisk.schemas.schema import Schema

AMONG = ("siblings", "rest")  # tell an entity of a property that it has itself, and are asked about that alone
MOST = 8
MOST_POOLED = 24  # siblings that are looked at, of classes that need not have the same numbers
SAMPLE = 2000  # entities of a class, about, that it is seen in whether one thing goes along with another
HUGE = 1e150  # numbers that cannot be added up
FINE = 12  # decimals of a number without a grid
GROUPS = 10  # of several siblings each, to see that they add up
APART = 0.2  # of a whole, how far off half of the groups may be
LESS, NORMAL = 0.5, 0.67  # than by chance; half of what is normal is so many standard deviations off
UPPER = 2  # which quartile of their sums is taken to be whole: where something is missing, a sum is less
LEAST = 30  # entities that are told and have a property, to see whether one goes along with the other
TELLING, ERRORS = 0.3, 3.0  # the correlation of ranks from which on it does, and in standard errors
EACH = 3  # numbers that are told for one property

Wholes: TypeAlias = Mapping[Over, float]  # what the rest is left of, by the evidence without it


class Group(NamedTuple):
    """Entities that have one link, or that are of a set that one entity links to."""

    by: str  # the entity that they have in common
    of: str  # the class that stands for all that share the link; of a set the one that stands for the entity's
    link: Path  # theirs; behind `^Class` that of the entity


class Aggregate(NamedTuple):
    """A number that several entities tell, and whose they are."""

    over: Over
    value: float
    through: Sequence[str]  # the entities whose links it came over; none where it came over the entity's own
    by: str  # what those that are told alike have in common


def receiver(pools: Pools, class_name: str, over: Over) -> tuple[str, Over]:
    """By which class evidence is told that several bring to an entity of a class: all that share the link have it together."""
    if not pools.pooled:
        return class_name, over
    if over.incoming or str(over.link[0])[:1] == INCOMING:
        return ANY, over
    return pools.source(class_name, pattern(over.link)).of, over


class Aggregates:
    """What the entities of a graph tell together: all of it, or what is wanted."""

    def __init__(
        self, schema: Schema, graph: Graph, pools: Pools, wanted: Collection[tuple[str, Over]] | None = None
    ) -> None:
        self.graph, self.pools = graph, pools
        leaves = {name: one.leaves() for name, one in schema.classes.items()}
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
        self._shared_numbers = {of: [self._source(of, path) for path in own] for of, own in self.numbers.items()}
        self._leaves = {
            self._source(of, path): self._leaf_of(of, path) for of, own in self.numbers.items() for path in own
        }
        self._bounds: dict[Source, tuple[float, float]] = {}
        self._groups: dict[Group, list[str]] = {}
        self._sets: dict[Group, frozenset[str]] = {}
        self._sums: dict[tuple[Group, Source], float] = {}
        self._numbers: dict[str, Mapping[Source, float]] = {}
        self.wanted: dict[tuple[str, Path, bool, str], set[Source]] | None = (
            None if wanted is None else defaultdict(set)
        )
        known: dict[Over, float] = {}
        for of, over in wanted or ():
            if over.told and self.wanted is not None:
                self.wanted[of, over.link, over.incoming, over.told].add(Source(over.of, over.read))
                known[over._replace(whole=0.0)] = over.whole
        self.wholes: Wholes = self._wholes() if wanted is None else known

    def of(self, id: str, class_name: str, leaves: Mapping[Path, Any]) -> Iterator[Aggregate]:
        """All that several entities tell one."""
        for link in self.single[class_name]:
            if link in leaves:
                group = Group(targets(leaves[link])[0], self._source(class_name, link).of, link)
                yield from self._siblings(id, class_name, group, ())
        for link in self.graph.linking[class_name]:
            if link in leaves and link not in self.single[class_name]:
                several = [target for target in targets(leaves[link]) if target != id]
                yield from self._medians(id, class_name, several, link, "members")
        by_link: dict[Source, list[str]] = defaultdict(list)
        in_sets: set[Source] = set()
        for edge in self.graph.incoming(id):
            if edge.source != id:
                link = pattern(edge.path)
                source = self._source(edge.of, link)
                by_link[source].append(edge.source)
                if link not in self.single[edge.of]:
                    in_sets.add(source)
        for source, several in sorted(by_link.items(), key=str):
            yield from self._medians(id, class_name, several, source.path, "sources")
            if len(several) == 1 and source in in_sets:
                group = Group(several[0], self._class_in_sets(class_name), (INCOMING + source.of, *source.path))
                yield from self._siblings(id, class_name, group, several)

    def _source(self, class_name: str, path: Path) -> Source:
        """What a property of a class is learnt as: where properties are pooled, that of the class that stands for all."""
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
        """The class by which members of a set are siblings: where properties are pooled all of them are."""
        return ANY if self.pools.pooled else class_name

    def _wanted(self, class_name: str, link: Path, how: str) -> Collection[Source] | None:
        """The numbers that an entity of a class is to be told; None: any."""
        if self.wanted is None:
            return None
        over = Over("", link, (), how == "sources", how)
        return self.wanted.get((receiver(self.pools, class_name, over)[0], link, over.incoming, how), ())

    # ------------------------------------------------------------ siblings

    def _siblings(self, id: str, class_name: str, group: Group, through: Sequence[str]) -> Iterator[Aggregate]:
        siblings, rest = (self._wanted(class_name, group.link, how) for how in AMONG)
        if siblings is not None and rest is not None and not siblings and not rest:
            return
        found: dict[Source, list[float]] = defaultdict(list)
        for member in self._drawn(id, group):
            for number, value in self._numbers_of(member).items():
                found[number].append(value)
        for number in self._shared_numbers[class_name]:
            if siblings is None or number in siblings:
                values = found[number][:MOST]
                if values:
                    over = Over(number.of, group.link, number.path, told="siblings")
                    yield Aggregate(over, self._fitting(number, statistics.median(values)), through, group.by)
            over = Over(number.of, group.link, number.path, told="rest")
            total = self.wholes.get(over)
            if total is not None and (rest is None or number in rest):
                own_values = self._found([id] if self._is_in(id, group) else (), number)
                rest_of_total = total - self._sum(group, number) + math.fsum(own_values)
                yield Aggregate(over._replace(whole=total), self._fitting(number, rest_of_total), through, group.by)

    def _members(self, group: Group) -> list[str]:
        if group not in self._groups:
            if str(group.link[0])[:1] == INCOMING:
                classes = (
                    (one, self.graph.of(one)) for one in targets(self.graph.leaves(group.by).get(group.link[1:], ()))
                )
                found = {one for one, of in classes if of is not None and self._class_in_sets(of) == group.of}
            else:
                edges = (edge for edge in self.graph.incoming(group.by) if pattern(edge.path) == group.link)
                found = {edge.source for edge in edges if self._source(edge.of, group.link).of == group.of}
            self._groups[group] = sorted(found)
        return self._groups[group]

    def _is_in(self, id: str, group: Group) -> bool:
        if group not in self._sets:
            self._sets[group] = frozenset(self._members(group))
        return id in self._sets[group]

    def _drawn(self, id: str, group: Group) -> list[str]:
        """Some of the others, by a draw of its own: more of them where not all are of a class, and have its numbers."""
        most, members = MOST_POOLED if self.pools.pooled else MOST, self._members(group)
        if len(members) <= most + 1:
            return [member for member in members if member != id]
        start = hashed(id)
        step = 1 + start % 7919
        while math.gcd(step, len(members)) > 1:
            step += 1
        drawn = (members[(start + turn * step) % len(members)] for turn in range(most + 1))
        return [member for member in drawn if member != id][:most]

    def _sum(self, group: Group, number: Source) -> float:
        """What all members of a group have of a number."""
        if (group, number) not in self._sums:
            self._sums[group, number] = math.fsum(self._found(self._members(group), number))
        return self._sums[group, number]

    def _wholes(self) -> Wholes:
        """What the numbers of those that have the same link add up to, where they do."""
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
                if len(values_of_groups) >= GROUPS and _adds_up(values_of_groups):
                    over = Over(number.of, link.path, number.path, told="rest")
                    totals[over] = statistics.quantiles(map(math.fsum, values_of_groups), n=4)[UPPER]
        return totals

    def _grouped(self) -> Mapping[Source, set[Group]]:
        """All groups of siblings that have one link in common, by the link."""
        groups: dict[Source, set[Group]] = defaultdict(set)
        for id in self.graph.entities():
            class_name, leaves = str(self.graph.of(id)), self.graph.leaves(id)
            for link in self.single[class_name] if self.numbers[class_name] else ():
                if link in leaves:
                    source = self._source(class_name, link)
                    groups[source].add(Group(targets(leaves[link])[0], *source))
        return groups

    # ------------------------------------------------------------ the other ways

    def _medians(self, id: str, class_name: str, several: Sequence[str], link: Path, how: str) -> Iterator[Aggregate]:
        """The medians of the numbers that some entities have."""
        wanted = self._wanted(class_name, link, how)
        if wanted is not None and not wanted:
            return
        values: dict[Source, list[float]] = defaultdict(list)
        first: dict[Source, str] = {}  # whose it is, the first by its id
        for entity in sorted(several, key=hashed)[: 2 * MOST]:
            for number, value in self._numbers_of(entity).items():
                if wanted is None or number in wanted:
                    values[number].append(value)
                    first[number] = min(first.get(number, entity), entity)
        incoming = how == "sources"
        for number in sorted(values):
            through, by = (several, first[number]) if incoming else ((), id)
            over = Over(number.of, link, number.path, incoming, how)
            yield Aggregate(over, self._fitting(number, statistics.median(values[number])), through, by)

    def _found(self, several: Iterable[str], number: Source) -> list[float]:
        return [value for entity in several if (value := self._numbers_of(entity).get(number)) is not None]

    def _numbers_of(self, id: str) -> Mapping[Source, float]:
        """The numbers of an entity that can be added up."""
        if id not in self._numbers:
            class_name, leaves = self.graph.of(id) or "", self.graph.leaves(id)
            paths = self.numbers.get(class_name, {})
            self._numbers[id] = {
                self._source(class_name, path): float(value)
                for path, value in leaves.items()
                if path in paths and abs(value) < HUGE
            }
        return self._numbers[id]

    def _fitting(self, number: Source, value: float) -> float:
        """A number such as the property may have."""
        leaf = self._leaves[number]
        if number not in self._bounds:
            self._bounds[number] = bounds_of(leaf, 0 if leaf.integer else FINE)
        low, high = self._bounds[number]
        return min(max(round(value) if leaf.integer else value, low), high)


# ---------------------------------------------------------------- what is worth it, of training entities


def _adds_up(groups: Sequence[Sequence[float]]) -> bool:
    """Whether the sums of groups of numbers are much more alike than those of as many that have nothing to do with each other."""
    sums = list(map(math.fsum, groups))
    middle = statistics.median(sums)
    apart = statistics.median(abs(value - middle) for value in sums)
    spread = statistics.pstdev([value for group in groups for value in group])
    size = statistics.median(map(len, groups))
    return middle > 0 and apart <= min(APART * middle, LESS * NORMAL * spread * math.sqrt(size))


class AggregateScreening:
    """Which of the numbers told go along with properties of those that they are told to."""

    def __init__(self, evidence: Aggregates) -> None:
        self.evidence = evidence
        self.rows: dict[str, int] = {}  # of the entities that were told something
        self.numbers: list[tuple[str, Mapping[Path, Any]]] = []  # of each its class and leaves
        self.met: dict[tuple[str, Over], list[tuple[int, Aggregate]]] = defaultdict(list)

    def add(self, id: str, class_name: str, aggregate: Aggregate, leaves: Mapping[Path, Any]) -> None:
        """Something told to an entity of some class and leaves."""
        row = self.rows.setdefault(id, len(self.rows))
        if row == len(self.numbers):
            self.numbers.append((class_name, leaves))
        self.met[receiver(self.evidence.pools, class_name, aggregate.over)].append((row, aggregate))

    def best(self) -> set[tuple[str, Over]]:
        """By class: whatever is left of a whole, and for each property the few that go along with it best."""
        by_property: dict[tuple[str, Path], list[tuple[float, tuple[str, ...], Over]]] = defaultdict(list)
        kept: set[tuple[str, Over]] = set()
        paths, ranks = self._ranks()
        column = {path: place for place, path in enumerate(paths)}
        for (class_name, over), aggregates in self.met.items():
            if len(aggregates) < LEAST or (over.told in AMONG and over.read not in column):
                continue
            columns = np.array([column[over.read]] if over.told in AMONG else range(len(paths)), dtype=np.int64)
            ranks_of_property = ranks[np.array([row for row, _ in aggregates])][:, columns]
            count, groups, strength = _correlations(
                np.array([aggregate.value for _, aggregate in aggregates]),
                ranks_of_property,
                [aggregate.by for _, aggregate in aggregates],
            )
            for place in (count >= LEAST).nonzero()[0]:
                if over.told == "rest":
                    kept.add((class_name, over))
                elif strength[place] >= max(TELLING, ERRORS / math.sqrt(groups[place])):
                    order = (over.told, *map(str, (*over.link, *over.read)))
                    by_property[class_name, paths[columns[place]]].append((-float(strength[place]), order, over))
        kept.update(
            (class_name, over)
            for (class_name, _), candidates in by_property.items()
            for *_, over in sorted(candidates)[:EACH]
        )
        return kept

    def _ranks(self) -> tuple[list[Path], NDArray[np.float32]]:
        """The paths of numbers, and (rows, paths) the rank of what each entity has among all that have it; NaN where it has none."""
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
    """Of ranks of numbers (r,) and (r, P), NaN where there are none: how many there are of both, in how many groups, and how
    much they go along, whichever way; 0 where either is always the same."""
    known = ~np.isnan(ranks)
    count = known.sum(0)
    rank = np.unique(values, return_inverse=True)[1].astype(np.float64)[:, None]
    ones = np.maximum(count, 1)
    x = np.where(known, rank - np.where(known, rank, 0).sum(0) / ones, 0)
    there = np.where(known, ranks, 0).astype(np.float64)
    y = np.where(known, there - there.sum(0) / ones, 0)
    spread = np.sqrt((x * x).sum(0) * (y * y).sum(0))
    strength = np.abs((x * y).sum(0)) / np.where(spread > 0, spread, 1)
    number = np.unique(np.array(by), return_inverse=True)[1]
    order = number.argsort(kind="stable")
    starts = np.flatnonzero(np.diff(number[order], prepend=-1))
    return count, np.logical_or.reduceat(known[order], starts, axis=0).sum(0), strength
