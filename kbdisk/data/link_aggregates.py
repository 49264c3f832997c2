"""What several entities tell an entity together: one number, where each of them has one.

    siblings   others of its class that have the same link, or are linked to by the same entity: the median of theirs
    rest       the same, where theirs and its own add up to one whole, such as 100 %: what they leave of it
    members    those that a set of links of its leads to: the median
    sources    those whose links lead to it: the median

Of more than `MOST` siblings each entity has its own draw, so that no common sum tells what an entity left out of it has.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kbdisk.data.graph import Graph, pattern, targets
from kbdisk.data.slots import INCOMING, Over, hashed
from kbdisk.entity import Path, without_places
from kbdisk.leaves.number.resolution import bounds_of
from kbdisk.schemas.leaf import Link as LinkLeaf
from kbdisk.schemas.leaf import Number
from kbdisk.schemas.schema import Schema

AMONG = ("siblings", "rest")  # tell an entity of a property that it has itself, and are asked about that alone
MOST = 8
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

Wholes: TypeAlias = Mapping[tuple[str, Path, Path], float]  # by class, link and number: what all add up to


class Group(NamedTuple):
    """Entities of a class that have one link, or of a set that one entity links to."""

    by: str  # the entity that they have in common
    of: str
    link: Path  # theirs; behind `^Class` that of the entity


class Told(NamedTuple):
    """A number that several entities tell, and whose they are."""

    over: Over
    value: float
    through: Sequence[str]  # the entities whose links it came over; none where it came over the entity's own
    by: str  # what those that are told alike have in common


class Several:
    """What the entities of a graph tell together: all of it, or what is wanted."""

    def __init__(self, schema: Schema, graph: Graph, wanted: Collection[tuple[str, Over]] | None = None) -> None:
        self.graph = graph
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
        self.wanted: dict[tuple[str, str, Path, str], list[Path]] | None = None if wanted is None else defaultdict(list)
        for of, over in wanted or ():
            if over.told and self.wanted is not None:
                self.wanted[of, over.of, over.link, over.told].append(over.read)
        self._groups: dict[Group, list[str]] = {}
        self._sets: dict[Group, frozenset[str]] = {}
        self._sums: dict[tuple[Group, Path], float] = {}
        told = (over for _, over in wanted or () if over.told == "rest")
        known = {(over.of, over.link, over.read): over.whole for over in told}
        self.wholes: Wholes = self._wholes() if wanted is None else known

    def told(self, id: str, of: str, leaves: Mapping[Path, Any]) -> Iterator[Told]:
        """All that several entities tell one."""
        for link in self.single[of]:
            if link in leaves:
                yield from self._siblings(id, Group(targets(leaves[link])[0], of, link), ())
        for link in self.graph.linking[of]:
            if link in leaves and link not in self.single[of]:
                several = [target for target in targets(leaves[link]) if target != id]
                yield from self._medians(id, of, several, Over("", link, (), told="members"))
        by_link: dict[tuple[str, Path], list[str]] = defaultdict(list)
        for edge in self.graph.incoming(id):
            if edge.source != id:
                by_link[edge.of, pattern(edge.path)].append(edge.source)
        for (source, link), several in sorted(by_link.items(), key=str):
            yield from self._medians(id, of, several, Over(source, link, (), True, "sources"))
            if len(several) == 1 and link not in self.single[source]:
                yield from self._siblings(id, Group(several[0], of, (INCOMING + source, *link)), several)

    def _paths(self, of: str, there: str, link: Path, told: str) -> Iterable[Path]:
        """The numbers that are read of a class."""
        return self.numbers[there] if self.wanted is None else self.wanted.get((of, there, link, told), ())

    # ------------------------------------------------------------ siblings

    def _siblings(self, id: str, group: Group, through: Sequence[str]) -> Iterator[Told]:
        of, link = group.of, group.link
        for path in self._paths(of, of, link, "siblings"):
            found = self._found(self._drawn(id, group), path)
            if found:
                over = Over(of, link, path, told="siblings")
                yield Told(over, self._fitting(over, statistics.median(found)), through, group.by)
        for path in self._paths(of, of, link, "rest"):
            whole = self.wholes.get((of, link, path))
            if whole is not None:
                own = self._found([id] if self._is_in(id, group) else (), path)
                over = Over(of, link, path, told="rest", whole=whole)
                left = whole - self._sum(group, path) + math.fsum(own)
                yield Told(over, self._fitting(over, left), through, group.by)

    def _members(self, group: Group) -> list[str]:
        if group not in self._groups:
            if str(group.link[0])[:1] == INCOMING:
                linked = targets(self.graph.leaves(group.by).get(group.link[1:], ()))
                found = {one for one in linked if self.graph.of(one) == group.of}
            else:
                edges = self.graph.incoming(group.by)
                found = {edge.source for edge in edges if edge.of == group.of and pattern(edge.path) == group.link}
            self._groups[group] = sorted(found)
        return self._groups[group]

    def _is_in(self, id: str, group: Group) -> bool:
        if group not in self._sets:
            self._sets[group] = frozenset(self._members(group))
        return id in self._sets[group]

    def _drawn(self, id: str, group: Group) -> list[str]:
        """Some of the others, by a draw of its own."""
        members = self._members(group)
        if len(members) <= MOST + 1:
            return [one for one in members if one != id]
        start = hashed(id)
        step = 1 + start % 7919
        while math.gcd(step, len(members)) > 1:
            step += 1
        several = (members[(start + turn * step) % len(members)] for turn in range(MOST + 1))
        return [one for one in several if one != id][:MOST]

    def _sum(self, group: Group, path: Path) -> float:
        """What all members of a group have of a number."""
        if (group, path) not in self._sums:
            self._sums[group, path] = math.fsum(self._found(self._members(group), path))
        return self._sums[group, path]

    def _wholes(self) -> Wholes:
        """What the numbers of those that have the same link add up to, where they do."""
        found: dict[tuple[str, Path, Path], float] = {}
        for (of, link), groups in self._grouped().items():
            for path in self.numbers[of]:
                told = [one for one in (self._found(self._members(group), path) for group in groups) if len(one) > 1]
                if len(told) >= GROUPS and _adds_up(told):
                    found[of, link, path] = statistics.quantiles(map(math.fsum, told), n=4)[UPPER]
        return found

    def _grouped(self) -> Mapping[tuple[str, Path], set[Group]]:
        """All groups of siblings that have one link in common, by their class and the link."""
        found: dict[tuple[str, Path], set[Group]] = defaultdict(set)
        for id in self.graph.entities():
            of, leaves = str(self.graph.of(id)), self.graph.leaves(id)
            for link in self.single[of] if self.numbers[of] else ():
                if link in leaves:
                    found[of, link].add(Group(targets(leaves[link])[0], of, link))
        return found

    # ------------------------------------------------------------ the other ways

    def _medians(self, id: str, of: str, several: Sequence[str], over: Over) -> Iterator[Told]:
        """The medians of the numbers that some entities have, class by class."""
        by_class: dict[str, list[str]] = defaultdict(list)
        for one in sorted(several, key=hashed)[: 2 * MOST]:
            there = self.graph.of(one)
            if there is not None:
                by_class[there].append(one)
        for there, some in sorted(by_class.items()):
            for path in self._paths(of, there, over.link, over.told):
                found = self._found(some, path)
                if found:
                    read = over._replace(of=there, read=path)
                    through, by = (several, sorted(some)[0]) if over.incoming else ((), id)
                    yield Told(read, self._fitting(read, statistics.median(found)), through, by)

    def _found(self, several: Iterable[str], path: Path) -> list[float]:
        numbers = (self.graph.leaves(one).get(path) for one in several)
        return [float(one) for one in numbers if one is not None and abs(one) < HUGE]

    def _fitting(self, over: Over, value: float) -> float:
        """A number such as the property may have."""
        leaf = self.numbers[over.of][over.read]
        low, high = bounds_of(leaf, 0 if leaf.integer else FINE)
        return min(max(round(value) if leaf.integer else value, low), high)


# ---------------------------------------------------------------- what is worth it, of training entities


def _adds_up(groups: Sequence[Sequence[float]]) -> bool:
    """Whether the sums of groups of numbers are much more alike than those of as many that have nothing to do with each other."""
    sums = list(map(math.fsum, groups))
    middle = statistics.median(sums)
    apart = statistics.median(abs(one - middle) for one in sums)
    spread = statistics.pstdev([one for each in groups for one in each])
    size = statistics.median(map(len, groups))
    return middle > 0 and apart <= min(APART * middle, LESS * NORMAL * spread * math.sqrt(size))


class Telling:
    """Which of the numbers told go along with properties of those that they are told to."""

    def __init__(self, evidence: Several) -> None:
        self.numbers = evidence.numbers
        self.pairs: dict[tuple[str, Path, Over], list[tuple[float, float, str]]] = defaultdict(list)

    def add(self, of: str, told: Told, leaves: Mapping[Path, Any]) -> None:
        """Something told to an entity of some class and leaves."""
        for path in (told.over.read,) if told.over.told in AMONG else self.numbers[of]:
            own = leaves.get(path)
            if own is not None:
                self.pairs[of, path, told.over].append((told.value, float(own), told.by))

    def best(self) -> set[tuple[str, Over]]:
        """By class: whatever is left of a whole, and for each property the few that go along with it best."""
        found: dict[tuple[str, Path], list[tuple[float, tuple[str, ...], Over]]] = defaultdict(list)
        kept: set[tuple[str, Over]] = set()
        for (of, path, over), pairs in self.pairs.items():
            if len(pairs) < LEAST:
                continue
            values, own, by = zip(*pairs, strict=True)
            strength = abs(_correlation(values, own))
            if over.told == "rest":
                kept.add((of, over))
            elif strength >= max(TELLING, ERRORS / math.sqrt(len(set(by)))):
                found[of, path].append((-strength, (over.told, *map(str, (*over.link, *over.read))), over))
        kept.update((of, over) for (of, _), each in found.items() for *_, over in sorted(each)[:EACH])
        return kept


def _correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Of ranks; 0 where either is always the same."""
    if len(set(one)) < 2 or len(set(other)) < 2:
        return 0.0
    ranks = np.stack([np.unique(np.array(each), return_inverse=True)[1] for each in (one, other)])
    matrix: Any = np.corrcoef(ranks)
    return float(matrix[0, 1])
