"""Propagated numbers: an estimate of an entity's number from the numbers of entities one and two links away.

After MrAP (Bayram et al. 2021): where a relation leads from one entity to another, a number of the first is that of the
second plus an offset that is learnt for the relation. A chain is one link, or two in a row, each followed forwards or
backwards; the number at its far end is read. A message is the median over all far ends of one chain, plus the chain's offset.

    offset       of a chain: the median difference between the numbers of training entities and their messages
    reliability  the expected error of a message: log-linear in the chain's mean error, the number of far ends and their spread
    estimate     the median of the most reliable messages, weighted by the inverse squares of their expected errors

Numbers that are skewed and positive are propagated as logarithms: their offset is a factor.

No path leads back to the entity that it starts from, so that its own number is no part of its estimate. Of many far ends
behind one neighbour each entity has a sample of its own, as in `link_aggregates`.

DIFF(paper): two-link chains and the choice of messages stand in place of the paper's iterations, in which an estimate
depends on the entity's own number by way of its neighbours' estimates.

n nodes   E edges   N entities   p paths   m messages   C chains
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbdisk.data.graph import EntityLinks, Graph, LinkArrays, pattern
from kbdisk.data.groups import expanded, grouped_medians, rank_in_group, starts_of
from kbdisk.data.pooling import Pools
from kbdisk.data.slots import ANY, Over, Source, hash_id
from kbdisk.entity import Path
from kbdisk.leaves.number.transforms import bounds_of
from kbdisk.schemas.kinds import Number

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

GRADES = ("propagated-1", "propagated-2", "propagated-3")  # aggregates of evidence: thirds by the expected error
MAX_NEIGHBOURS = 8  # by one relation of an entity
MAX_FAR_ENDS = 16  # of one relation of a neighbour
MAX_MESSAGES = 5  # in an estimate
MAX_DECIMALS = 12  # of a number without a grid
MAX_FITTED_ENTITIES = 3000  # with the number, by which its chains are fitted
COUNTED_ENTITIES = 50  # whose groups of far ends are counted, to estimate how many an entity has
MAX_FITTED_GROUPS = 1 << 20  # behind all links of these entities
MAX_TRIED_GROUPS = 1 << 17  # the same in a trial
TRIAL_SHARE = 0.25  # of all groups that may be fitted to, at most
MIN_TRIED = 100  # entities; a trial on fewer does not rule out a gain
STANDARD_ERRORS_OF_TRIAL = 2.0  # by which the gain may be larger than in a trial
ENTITIES_AT_ONCE = 1024
GROUPS_AT_ONCE = 1 << 18
FOLDS = 4
MIN_VALUES = 40  # training entities with the number and some message
MIN_SUPPORT = 10  # training entities of a chain
OFFSET_PRIOR, ERROR_PRIOR = (
    20.0,
    3.0,
)  # training entities that an offset of 0, an error of the constant's size, count as
MAX_CHAIN_ERROR = 0.9  # of the constant's
MIN_USES = 3  # training entities for whose estimate a chain is used
MIN_GAIN, MIN_STANDARD_ERRORS = 0.1, 3.0  # of the constant's mean absolute error on entities that were not fitted to
SKEW = 3.0  # upper by lower tail, from which on positive numbers are propagated as logarithms
FLOOR, SPREAD_FLOOR = 1e-3, 3e-2  # of errors and of spreads of far ends, in parts of the constant's error
RIDGE = 1.0


class Relation(NamedTuple):
    """A link that is followed."""

    class_name: str  # of its source; with pooling the class that stands for all
    path: Path
    backwards: bool


class Receiver(NamedTuple):
    """An entity whose numbers are estimated."""

    id: str
    class_name: str
    leaves: Mapping[Path, Any]


class Estimates(NamedTuple):
    """The propagated numbers of one property and grade, for n entities."""

    over: Over
    row: Ints  # (n,) the entity
    value: Floats  # (n,)
    through: tuple[Ints, Ints]  # pairs of a place among the n, and a node whose link it came over


@dataclass(frozen=True)
class Propagator:
    """The chains and weights by which one number is propagated."""

    number: Source
    reads: tuple[Source, ...]  # the numbers at far ends
    logarithmic: bool
    first: Ints  # (C,) the relation of the first link
    second: Ints  # (C,) of the second; -1: none
    read: Ints  # (C,) the number at the far end
    offset: Floats  # (C,)
    error: Floats  # (C,) the mean absolute error
    support: Floats  # (C,) training entities
    scale: float  # the mean absolute error of the constant
    coefficients: Floats  # of log expected errors
    edges: Floats  # (2,) of log expected errors, between grades

    def to_json(self) -> dict[str, Any]:
        """Itself as plain data."""
        arrays = ("first", "second", "read", "offset", "error", "support", "coefficients", "edges")
        return {
            "of": self.number.class_name,
            "path": list(self.number.path),
            "reads": [[source.class_name, list(source.path)] for source in self.reads],
            "logarithmic": self.logarithmic,
            "scale": self.scale,
            **{name: getattr(self, name).tolist() for name in arrays},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], relations: int) -> Self:
        """Itself again; ValueError where a part does not fit the others."""
        whole: dict[str, Any] = {name: np.array(data[name], np.int64) for name in ("first", "second", "read")}
        real: dict[str, Any] = {
            name: np.array(data[name], np.float64) for name in ("offset", "error", "support", "coefficients", "edges")
        }
        reads = tuple(Source(class_name, tuple(path)) for class_name, path in data["reads"])
        sizes = {len(array) for array in (*whole.values(), real["offset"], real["error"], real["support"])}
        limits = {"first": (0, relations), "second": (-1, relations), "read": (0, len(reads))}
        fits = len(sizes) == 1 and all(
            ((whole[name] >= low) & (whole[name] < high)).all() for name, (low, high) in limits.items()
        )
        finite = all(np.isfinite(array).all() for array in real.values()) and 0 < data["scale"] < np.inf
        positive = (real["error"] > 0).all() and (real["support"] > 0).all()
        if not (fits and finite and positive and len(real["edges"]) == 2 and len(real["coefficients"]) == FEATURES + 1):
            raise ValueError(f"expected chains of links to propagate {'.'.join(map(str, data['path']))}, got others")
        number = Source(data["of"], tuple(data["path"]))
        return cls(number, reads, bool(data["logarithmic"]), **whole, **real, scale=float(data["scale"]))


@dataclass(frozen=True)
class ChainSearch:
    """The limits of the search for chains, and the function that reports its progress."""

    max_groups: int | None = None  # groups of far ends that all numbers together are fitted to; None: no limit
    report: Callable[[int, int], None] = lambda done, total: None  # how much is done, of how much

    def groups_of_trial(self, numbers: int) -> int:
        """The largest number of groups in the trial of one number."""
        if self.max_groups is None or not numbers:
            return MAX_TRIED_GROUPS
        return min(MAX_TRIED_GROUPS, int(TRIAL_SHARE * self.max_groups) // numbers)

    def groups_of_fit(self, numbers: int, fitted: int) -> int:
        """The largest number of groups that one of the `fitted` numbers is fitted to, after the trials of all."""
        if self.max_groups is None or not fitted:
            return MAX_FITTED_GROUPS
        return min(MAX_FITTED_GROUPS, (self.max_groups - numbers * self.groups_of_trial(numbers)) // fitted)


UNLIMITED = ChainSearch()


@dataclass(frozen=True)
class Propagation:
    """The numbers that are propagated, and how."""

    relations: tuple[Relation, ...] = ()
    propagators: tuple[Propagator, ...] = ()

    @property
    def overs(self) -> set[Over]:
        """The evidence that it may bring."""
        return {_over(propagator.number, grade) for propagator in self.propagators for grade in range(len(GRADES))}

    def to_json(self) -> dict[str, Any]:
        """Itself as plain data."""
        relations = [[relation.class_name, list(relation.path), relation.backwards] for relation in self.relations]
        return {"relations": relations, "numbers": [propagator.to_json() for propagator in self.propagators]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], pools: Pools) -> Propagation:
        """Itself again; ValueError where a part does not fit the others or the schema."""
        relations = tuple(Relation(name, tuple(path), bool(backwards)) for name, path, backwards in data["relations"])
        propagators = tuple(Propagator.from_json(number, len(relations)) for number in data["numbers"])
        for propagator in propagators:
            if not isinstance(pools.leaves.get(propagator.number), Number):
                raise ValueError(f"expected a schema with the number {propagator.number}, got none there")
        return cls(relations, propagators)

    @classmethod
    def fit(
        cls, graph: Graph, pools: Pools, receivers: Sequence[Receiver], search: ChainSearch = UNLIMITED
    ) -> Propagation:
        """The numbers of training entities that are estimated better than by their median, beyond noise.

        Each number is first tried on a part of its entities, and fitted to all where it may gain.
        """
        relations = Relations.of(graph.arrays(), pools)
        if not relations.names:
            return cls()
        sources = sorted(relations.sources, key=str)
        order = sorted(range(len(receivers)), key=lambda place: (hash_id(receivers[place].id), receivers[place].id))
        tasks = [_Task.of(number, sources, pools, receivers, order) for number in sources]
        tasks = [task for task in tasks if len(task.places) >= MIN_VALUES]
        used = sorted({place for task in tasks for place in task.places})
        all_links = FirstLinks.of(relations, pools, graph.links_of([receivers[place] for place in used]))
        row_of = {place: row for row, place in enumerate(used)}
        links = [all_links.of_entities(np.array([row_of[place] for place in task.places])) for task in tasks]
        max_groups = search.groups_of_trial(len(tasks))
        trials: list[_FittedNumber] = []
        for place, task in enumerate(tasks):  # half of the progress; the other half are the fits
            search.report(place, 2 * len(tasks))
            trials.append(_fitted(relations, task, links[place], max_groups))
        left = [place for place, trial in enumerate(trials) if trial.may_gain]
        max_groups = search.groups_of_fit(len(tasks), len(left))
        for done, place in enumerate(left):
            search.report(len(tasks) + done * len(tasks) // len(left), 2 * len(tasks))
            trials[place] = _fitted(relations, tasks[place], links[place], max_groups)
        propagators = tuple(trial.propagator for trial in trials if trial.propagator is not None)
        return cls(relations.names, propagators)._with_used_relations()

    def _with_used_relations(self) -> Propagation:
        """The same without relations that no chain has."""
        used = np.unique(
            np.concatenate([np.zeros(0, np.int64), *(np.append(p.first, p.second) for p in self.propagators)])
        )
        used = used[used >= 0]
        place = np.full(len(self.relations) + 1, -1)  # the last for chains without a second link
        place[used] = np.arange(len(used))
        propagators = tuple(replace(p, first=place[p.first], second=place[p.second]) for p in self.propagators)
        return Propagation(tuple(self.relations[number] for number in used.tolist()), propagators)

    def relations_of(self, graph: Graph, pools: Pools) -> Relations:
        """The relations that the propagators follow, by their numbers there, with the edges of a graph."""
        return Relations.of(graph.arrays(), pools, self.relations, self.reads)

    @property
    def reads(self) -> frozenset[Source]:
        """The numbers at far ends."""
        return frozenset(source for propagator in self.propagators for source in propagator.reads)

    def estimates(self, relations: Relations, pools: Pools, links: EntityLinks) -> Iterator[Estimates]:
        """The estimates for entities, by the links that they have here, and by the graph of the relations for all else."""
        if not self.propagators or not len(links.node):
            return
        first_links = FirstLinks.of(relations, pools, links)
        neighbours = np.unique(first_links.neighbour)
        starts = range(0, len(links.node), ENTITIES_AT_ONCE)
        classes = relations.arrays.classes
        for propagator in self.propagators:
            number = propagator.number
            ends = FarEnds.of(relations, propagator.reads, propagator.logarithmic, neighbours)
            has_number = np.array([pools.source(name, number.path) == number for name in classes])[links.class_of]
            for start in starts:
                is_row = has_number & False
                is_row[start : start + ENTITIES_AT_ONCE] = has_number[start : start + ENTITIES_AT_ONCE]
                yield from _estimated(propagator, ends.paths(first_links.of_rows(is_row), propagator), pools)


def propagated_slot(pools: Pools, class_name: str, over: Over) -> tuple[str, Over]:
    """The pooled slot, by class and link, of a propagated number: classes that share the number share the estimate."""
    return (ANY if pools.pooled else class_name), over


def _over(number: Source, grade: int) -> Over:
    return Over(number.class_name, (), number.path, aggregate=GRADES[grade])


def _bounded(leaf: Number, values: Floats) -> Floats:
    """The nearest numbers that the property may have."""
    low, high = bounds_of(leaf, 0 if leaf.integer else MAX_DECIMALS)
    if leaf.integer:
        values = np.rint(values) + 0.0  # no negative zero
    return np.minimum(np.maximum(values, low), high)


# ---------------------------------------------------------------- links and paths


class NodeNumbers(NamedTuple):
    """The known numbers of one property."""

    nodes: NDArray[np.int32]  # ascending
    values: Floats  # of each

    @classmethod
    def of(cls, parts: Sequence[tuple[NDArray[np.int32], Floats]]) -> NodeNumbers:
        """Those of several classes: ascending nodes, and the number of each."""
        if len(parts) == 1:
            return cls(*parts[0])
        nodes, values = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = nodes.argsort(kind="stable")
        return cls(nodes[order], values[order])

    def at(self, nodes: NDArray[np.integer[Any]], logarithmic: bool) -> Floats:
        """The numbers of some nodes, or their logarithms; NaN: unknown, or without a logarithm."""
        if not len(self.nodes):
            return np.full(len(nodes), np.nan)
        place = np.searchsorted(self.nodes, nodes.astype(np.int32)).clip(max=len(self.nodes) - 1)
        values = np.where(self.nodes[place] == nodes, self.values[place], np.nan)
        return np.log(np.where(values > 0, values, np.nan)) if logarithmic else values


NO_NUMBERS = NodeNumbers(np.zeros(0, np.int32), np.zeros(0))


@dataclass(frozen=True)
class Relations:
    """The numbers of relations, forwards and backwards, and a graph whose edges have them."""

    arrays: LinkArrays
    names: tuple[Relation, ...]
    numbers: Mapping[Relation, int]
    number_of: Ints  # (2, relations of the graph) forwards and backwards; -1: not followed
    sources: Mapping[Source, NodeNumbers]  # numbers of the graph, by the source that they are pooled in

    @classmethod
    def of(
        cls,
        arrays: LinkArrays,
        pools: Pools,
        names: tuple[Relation, ...] | None = None,
        reads: Collection[Source] | None = None,
    ) -> Relations:
        """The relations of a graph, or the named ones; with its numbers, all or those of `reads`."""
        pooled = [pools.source(*relation) for relation in arrays.relations]
        own = [Relation(*source, backwards) for backwards in (False, True) for source in pooled]
        names = tuple(dict.fromkeys(own)) if names is None else names
        numbers = {name: number for number, name in enumerate(names)}
        number_of = np.array([numbers.get(name, -1) for name in own], np.int64).reshape(2, -1)
        parts: dict[Source, list[tuple[NDArray[np.int32], Floats]]] = defaultdict(list)
        for number, nodes_and_values in arrays.numbers.items():
            source = pools.source(*number)
            if reads is None or source in reads:
                parts[source].append(nodes_and_values)
        sources = {source: NodeNumbers.of(of_source) for source, of_source in parts.items()}
        return cls(arrays, names, numbers, number_of, sources)

    def of_edges(self, edges: Ints) -> Ints:
        """The number of the relation of some edges; -1: not followed."""
        return self.number_of[self.arrays.backwards[edges].astype(np.int64), self.arrays.relation[edges]]


class FirstLinks(NamedTuple):
    """The links of some entities; the links of one entity and relation are at most MAX_NEIGHBOURS."""

    row: Ints  # of the entity
    relation: Ints
    neighbour: Ints  # its node
    node: Ints  # (N,) of each entity; -1: it is not in the graph
    draw: Ints  # (N,) a hash of each entity's id

    @classmethod
    def of(cls, relations: Relations, pools: Pools, links: EntityLinks) -> FirstLinks:
        """The links that the entities have here, and those of the graph that lead to them."""
        arrays, node, paths = relations.arrays, links.node, max(len(links.paths), 1)
        keys, place = np.unique(links.class_of[links.row] * paths + links.path, return_inverse=True)
        numbers = np.zeros(len(keys), np.int64)
        for at, key in enumerate(keys.tolist()):
            class_name, path = arrays.classes[key // paths], links.paths[key % paths]
            numbers[at] = relations.numbers.get(Relation(*pools.source(class_name, pattern(path)), False), -1)
        is_known = links.target >= 0
        rows, followed, nodes = links.row[is_known], numbers[place][is_known], links.target[is_known]
        here = np.flatnonzero(node >= 0)
        owner, edges = expanded(arrays.offsets[node[here]], arrays.offsets[node[here] + 1])
        is_incoming = arrays.backwards[edges]
        owner, edges = owner[is_incoming], edges[is_incoming]
        row = np.concatenate([rows, here[owner]])
        relation = np.concatenate([followed, relations.of_edges(edges)])
        neighbour = np.concatenate([nodes, arrays.tail[edges]])
        kept = (relation >= 0) & (neighbour != node[row])
        row, relation, neighbour = row[kept], relation[kept], neighbour[kept]
        order = np.lexsort((neighbour, arrays.draw[neighbour], relation, row))
        row, relation, neighbour = row[order], relation[order], neighbour[order]
        is_new = np.ones(len(row), np.bool_)
        is_new[1:] = (np.diff(row) != 0) | (np.diff(relation) != 0) | (np.diff(neighbour) != 0)
        row, relation, neighbour = row[is_new], relation[is_new], neighbour[is_new]
        kept = rank_in_group(row * (len(relations.names) + 1) + relation) < MAX_NEIGHBOURS
        return cls(row[kept], relation[kept], neighbour[kept], node, links.draw)

    def of_rows(self, wanted: NDArray[np.bool_]) -> FirstLinks:
        """Those of some entities (N,)."""
        kept = wanted[self.row]
        return self._replace(row=self.row[kept], relation=self.relation[kept], neighbour=self.neighbour[kept])

    def of_entities(self, rows: Ints) -> FirstLinks:
        """The links of some entities, whose rows become 0, 1, and so on, in this order."""
        starts = np.searchsorted(self.row, rows)
        row, links = expanded(starts, np.searchsorted(self.row, rows, side="right"))
        return FirstLinks(row, self.relation[links], self.neighbour[links], self.node[rows], self.draw[rows])


class Paths(NamedTuple):
    """Chains from entities to far ends, by the numbers of a propagator's chains."""

    row: Ints  # (p,)
    chain: Ints  # (p,)
    neighbour: Ints  # (p,) the node after the first link
    value: Floats  # (p,) at the far end


@dataclass(frozen=True)
class FarEnds:
    """The known numbers of nodes, and for each of some heads and each relation the nodes with a number that it leads to."""

    numbers: tuple[NodeNumbers, ...]  # by what is read
    logarithmic: bool
    head: Ints  # (g,) of each group of far ends, ascending
    relation: Ints  # (g,)
    read: Ints  # (g,)
    starts: Ints  # (g + 1,)
    nodes: Ints  # the far ends, group after group
    values: Floats  # of each

    @classmethod
    def of(cls, relations: Relations, reads: Sequence[Source], logarithmic: bool, heads: Ints) -> FarEnds:
        """The far ends of the edges of some nodes."""
        arrays, numbers = relations.arrays, tuple(relations.sources.get(source, NO_NUMBERS) for source in reads)
        edges_of_heads = expanded(arrays.offsets[heads], arrays.offsets[heads + 1])[1]
        relation_of_heads = relations.of_edges(edges_of_heads)
        is_followed = relation_of_heads >= 0
        edges_of_heads, relation_of_heads = edges_of_heads[is_followed], relation_of_heads[is_followed]
        parts = []
        for read, of_read in enumerate(numbers):
            values = of_read.at(arrays.tail[edges_of_heads], logarithmic)
            known = np.flatnonzero(~np.isnan(values))
            edges = edges_of_heads[known]
            parts.append(
                (
                    arrays.head[edges].astype(np.int64),
                    relation_of_heads[known],
                    np.full(len(edges), read),
                    arrays.tail[edges],
                    values[known],
                )
            )
        head, relation, read_of, tail, value = (np.concatenate(part) for part in zip(*parts, strict=True))
        group = (head * len(relations.names) + relation) * len(reads) + read_of
        order = np.lexsort((tail, arrays.draw[tail], group))
        starts = starts_of(group[order])
        first = order[starts]
        return cls(
            numbers,
            logarithmic,
            head[first],
            relation[first],
            read_of[first],
            np.append(starts, len(head)),
            tail[order],
            value[order],
        )

    def paths(self, links: FirstLinks, chains: Propagator) -> Paths:
        """The paths of some chains."""
        lookup = ChainLookup.of(chains)
        parts = []
        for read, known in enumerate(self.read_at(links.neighbour)):
            chain = lookup.find(links.relation, np.full(len(known), -1), np.full(len(known), read))
            kept = (chain >= 0) & ~np.isnan(known)
            parts.append(Paths(links.row[kept], chain[kept], links.neighbour[kept], known[kept]))
        for block in self.blocks(links):
            parts.append(self._two_link_paths(links, block, lookup))
        return Paths(*map(np.concatenate, zip(*parts, strict=True)))

    def _two_link_paths(self, links: FirstLinks, block: slice, lookup: ChainLookup) -> Paths:
        link, group = self.groups(links, block)
        chain = lookup.find(links.relation[link], self.relation[group], self.read[group])
        kept = chain >= 0
        link, group, chain = link[kept], group[kept], chain[kept]
        row, size = links.row[link], np.diff(self.starts)[group]
        taken = np.minimum(size, MAX_FAR_ENDS + 1)
        path, turn = expanded(np.zeros_like(taken), taken)
        place = self.starts[group[path]] + (links.draw[row[path]] + turn) % size[path]
        row = row[path]
        kept = self.nodes[place] != links.node[row]
        return Paths(row[kept], chain[path][kept], links.neighbour[link[path]][kept], self.values[place[kept]])

    def read_at(self, nodes: Ints) -> Iterator[Floats]:
        """The numbers of some nodes, by what is read."""
        return (of_read.at(nodes, self.logarithmic) for of_read in self.numbers)

    def _ranges(self, nodes: Ints) -> tuple[Ints, Ints]:
        """The groups of some heads: the first of each, and the one after its last."""
        return np.searchsorted(self.head, nodes), np.searchsorted(self.head, nodes, side="right")

    def group_counts(self, links: FirstLinks) -> Ints:
        """The groups of far ends behind each link."""
        first, end = self._ranges(links.neighbour)
        return end - first

    def groups(self, links: FirstLinks, block: slice) -> tuple[Ints, Ints]:
        """The groups of far ends behind some links: the place of each link, and the group."""
        link, group = expanded(*self._ranges(links.neighbour[block]))
        return link + block.start, group

    def blocks(self, links: FirstLinks) -> Iterator[slice]:
        """The links in blocks with about GROUPS_AT_ONCE groups each."""
        block = np.cumsum(self.group_counts(links)) // GROUPS_AT_ONCE
        ends = [*(np.flatnonzero(np.diff(block)) + 1).tolist(), len(block)]
        yield from (slice(start, end) for start, end in pairwise([0, *ends]))


class ChainLookup(NamedTuple):
    """The numbers of chains by their relations and the number at their far end."""

    keys: Ints  # ascending
    chain: Ints
    relations: int
    reads: int

    @classmethod
    def of(cls, chains: Propagator) -> ChainLookup:
        """Those of a propagator."""
        relations = int(max(chains.first.max(initial=0), chains.second.max(initial=0))) + 1
        reads = len(chains.reads)
        keys = (chains.first * (relations + 1) + chains.second + 1) * reads + chains.read
        order = keys.argsort()
        return cls(keys[order], order, relations, reads)

    def find(self, first: Ints, second: Ints, read: Ints) -> Ints:
        """(p,) the chain of each; -1 for one that is not known."""
        if not len(self.keys):
            return np.full(len(first), -1)
        keys = (first * (self.relations + 1) + second + 1) * self.reads + read
        place = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        is_known = (self.keys[place] == keys) & (first < self.relations) & (second < self.relations)
        return np.where(is_known, self.chain[place], -1)


# ---------------------------------------------------------------- messages and estimates

FEATURES = 9  # of a message's expected error


class Messages(NamedTuple):
    """What comes to entities over chains: the median of each chain's far ends."""

    row: Ints  # (m,)
    chain: Ints  # (m,)
    median: Floats  # (m,)
    size: Ints  # (m,) far ends
    spread: Floats  # (m,) between quartiles

    @classmethod
    def of(cls, paths: Paths, chains: int) -> Messages:
        """The messages that paths bring."""
        key, median, count, spread = grouped_medians(paths.row * chains + paths.chain, paths.value)
        return cls(key // chains, key % chains, median, count, spread)

    def only(self, kept: NDArray[Any]) -> Messages:
        """Some of them."""
        return Messages(*(part[kept] for part in self))


def _features(messages: Messages, error: Floats, support: Floats, is_single: NDArray[np.bool_], scale: float) -> Floats:
    """(m, FEATURES) of messages whose chains have an error, a support, and one link or two."""
    log_error, is_alone = np.log(error / scale + FLOOR), messages.size == 1
    log_spread = np.where(is_alone, 0.0, np.log(messages.spread / scale + SPREAD_FLOOR))
    columns = (
        log_error,
        log_error**2,
        np.log(messages.size),
        is_alone,
        log_spread,
        log_spread * log_error,
        log_spread**2,
        is_single,
        np.log(support),
    )
    return np.stack(columns, 1).astype(np.float64)


def _estimated(propagator: Propagator, paths: Paths, pools: Pools) -> Iterator[Estimates]:
    """The estimates of each grade."""
    if not len(paths.row):
        return
    messages = Messages.of(paths, len(propagator.first))
    chain = messages.chain
    features = _features(
        messages, propagator.error[chain], propagator.support[chain], propagator.second[chain] < 0, propagator.scale
    )
    log_errors = features @ propagator.coefficients[:-1] + propagator.coefficients[-1]
    best = _most_reliable(messages.row, log_errors)
    messages, log_errors = messages.only(best), log_errors[best]
    values = messages.median + propagator.offset[messages.chain]
    rows, estimates, errors = _combined(messages.row, values, log_errors)
    grades = np.searchsorted(propagator.edges, errors)
    chains = len(propagator.first)
    used = np.isin(paths.row * chains + paths.chain, messages.row * chains + messages.chain)
    nodes = int(paths.neighbour.max()) + 1
    pairs = np.unique(paths.row[used] * nodes + paths.neighbour[used])
    if propagator.logarithmic:
        estimates = np.exp(estimates)
    estimates = _bounded(pools.leaves[propagator.number], estimates)
    for grade in range(len(GRADES)):
        at = np.flatnonzero(grades == grade)
        place, pair = expanded(np.searchsorted(pairs, rows[at] * nodes), np.searchsorted(pairs, (rows[at] + 1) * nodes))
        yield Estimates(_over(propagator.number, grade), rows[at], estimates[at], (place, pairs[pair] % nodes))


def _most_reliable(row: Ints, log_errors: Floats) -> NDArray[np.bool_]:
    """(m,) whether a message is one of the MAX_MESSAGES of its entity with the least expected errors."""
    order = np.lexsort((log_errors, row))
    best = np.zeros(len(row), np.bool_)
    best[order] = rank_in_group(row[order]) < MAX_MESSAGES
    return best


def _combined(row: Ints, values: Floats, log_errors: Floats) -> tuple[Ints, Floats, Floats]:
    """The rows that have messages, the weighted medians of these, and the least log expected error among them."""
    order = np.lexsort((values, row))
    row, values, log_errors = row[order], values[order], log_errors[order]
    starts = starts_of(row)
    rows = row[starts]
    least = np.minimum.reduceat(log_errors, starts)
    group = np.cumsum(np.bincount(starts, minlength=len(row))) - 1
    weights = np.exp(-2 * (log_errors - least[group]))
    totals = np.add.reduceat(weights, starts)
    before = np.cumsum(weights) - weights
    is_upper = before - before[starts][group] + weights >= totals[group] / 2 * (1 - 1e-9)
    first = np.maximum.reduceat(np.where(is_upper, -np.arange(len(row)), -len(row)), starts)
    return rows, values[-first], least


# ---------------------------------------------------------------- fitting


class _Task(NamedTuple):
    """A number, and the training entities that have it, in random order."""

    number: Source
    reads: tuple[Source, ...]  # the numbers that may be at far ends
    places: Sequence[int]  # of the entities among all
    values: Floats  # of each of them

    @classmethod
    def of(
        cls,
        number: Source,
        sources: Sequence[Source],
        pools: Pools,
        receivers: Sequence[Receiver],
        order: Iterable[int],
    ) -> Self:
        """The task of fitting one of the numbers, to the first entities of a random order that have it."""
        classes = pools.members.get(number, ())
        having = (
            place
            for place in order
            if receivers[place].class_name in classes and number.path in receivers[place].leaves
        )
        places = list(islice(having, MAX_FITTED_ENTITIES))
        values = np.array([float(receivers[place].leaves[number.path]) for place in places])
        return cls(number, tuple(source for source in sources if source.path == number.path), places, values)


class _FittedNumber(NamedTuple):
    """The propagator of a number, None where it does not gain; and whether one that is fitted to more entities may gain."""

    propagator: Propagator | None
    may_gain: bool = False


def _fitted(relations: Relations, task: _Task, links: FirstLinks, max_groups: int) -> _FittedNumber:
    """The propagator of a number, fitted to as many of its entities as have `max_groups` groups of far ends."""
    number, reads, _, truth = task
    logarithmic = _is_skewed(truth)
    truth = np.log(truth) if logarithmic else truth
    constant = float(np.median(truth))
    scale = float(np.abs(truth - constant).mean())
    if not 0 < scale < np.inf:
        return _FittedNumber(None)
    all_entities = np.arange(len(truth))
    first_few = links.of_rows(all_entities < COUNTED_ENTITIES)
    ends = FarEnds.of(relations, reads, logarithmic, np.unique(first_few.neighbour))
    expected = max(int(ends.group_counts(first_few).sum()), 1) / min(COUNTED_ENTITIES, len(truth))  # groups an entity
    links = links.of_rows(all_entities < 2 * max_groups / expected)
    ends = FarEnds.of(relations, reads, logarithmic, np.unique(links.neighbour))
    groups = np.bincount(links.row, ends.group_counts(links), len(truth))
    count = max(int(np.searchsorted(np.cumsum(groups), max_groups)), 1)
    count = min(count, int(2 * max_groups / expected) + 1)
    is_part = count < len(truth)
    may_gain = is_part and count < MIN_TRIED
    truth, links = truth[:count], links.of_rows(all_entities < count)
    candidates = _candidates(links, ends, len(relations.names), len(reads))
    blank = np.zeros(len(candidates))
    first, second, read = candidates.T.copy()
    chains = Propagator(
        number, reads, logarithmic, first, second, read, blank, blank, blank, scale, coefficients=blank, edges=blank
    )
    if not len(candidates):
        return _FittedNumber(None, may_gain)
    messages = Messages.of(ends.paths(links, chains), len(candidates))
    supported = np.bincount(messages.chain, minlength=len(candidates)) >= MIN_SUPPORT
    messages = messages.only(supported[messages.chain])
    if len(np.unique(messages.row)) < MIN_VALUES:
        return _FittedNumber(None, may_gain)
    is_single = chains.second < 0
    fold = np.arange(len(truth)) % FOLDS  # receivers are in random order
    values, features = np.full(len(messages.row), np.nan), np.zeros((len(messages.row), FEATURES))
    is_used = np.zeros(len(messages.row), np.bool_)
    for number_of_fold in range(FOLDS):
        is_out = fold[messages.row] == number_of_fold
        fit = _fit_chains(messages.only(~is_out), truth, len(candidates), scale)
        chain = messages.chain[is_out]
        values[is_out] = messages.median[is_out] + fit.offset[chain]
        features[is_out] = _features(
            messages.only(is_out), fit.error[chain], fit.support[chain], is_single[chain], scale
        )
        is_used[is_out] = fit.is_useful(scale)[chain]
    messages, values, features = messages.only(is_used), values[is_used], features[is_used]
    if len(np.unique(messages.row)) < MIN_VALUES:
        return _FittedNumber(None, may_gain)
    errors = np.abs(truth[messages.row] - values)
    coefficients = _ridge(features, np.log(errors / scale + FLOOR))
    log_errors = features @ coefficients[:-1] + coefficients[-1]
    best = _most_reliable(messages.row, log_errors)
    rows, estimates, least = _combined(messages.row[best], values[best], log_errors[best])
    gains = np.zeros(len(truth))
    gains[rows] = np.abs(truth[rows] - constant) - np.abs(truth[rows] - estimates)
    standard_error = gains.std() / np.sqrt(len(gains))
    may_gain |= is_part and gains.mean() + STANDARD_ERRORS_OF_TRIAL * standard_error >= MIN_GAIN * scale
    if gains.mean() < max(MIN_GAIN * scale, MIN_STANDARD_ERRORS * standard_error):
        return _FittedNumber(None, may_gain)
    uses = np.bincount(messages.chain[best], minlength=len(candidates))
    fit = _fit_chains(messages, truth, len(candidates), scale)
    kept = (uses >= MIN_USES) & fit.is_useful(scale)
    if not kept.any():
        return _FittedNumber(None, may_gain)
    edges = np.quantile(least, [1 / 3, 2 / 3])
    first, second, read = (column[kept] for column in candidates.T)
    propagator = Propagator(
        number,
        reads,
        logarithmic,
        first,
        second,
        read,
        fit.offset[kept],
        fit.error[kept],
        fit.support[kept],
        scale,
        coefficients,
        edges,
    )
    return _FittedNumber(propagator, may_gain)


def _is_skewed(values: Floats) -> bool:
    """Whether numbers are positive, and their upper tail is much longer than their lower one."""
    low, middle, high = np.quantile(values, [0.1, 0.5, 0.9])
    return bool(values.min() > 0 and high - middle > SKEW * (middle - low))


def _candidates(links: FirstLinks, ends: FarEnds, relations: int, reads: int) -> Ints:
    """(C, 3) first link, second link and number at the far end of the chains that enough entities have."""
    base = relations + 1
    found = []
    for read, values in enumerate(ends.read_at(links.neighbour)):
        known = ~np.isnan(values)
        found.append((links.row[known], (links.relation[known] * base) * reads + read))
    link, group = ends.groups(links, slice(0, len(links.row)))
    keys = (links.relation[link] * base + ends.relation[group] + 1) * reads + ends.read[group]
    found.append((links.row[link], keys))
    row, key = (np.concatenate(part) for part in zip(*found, strict=True))
    key_count = relations * base * reads
    chains, support = np.unique(np.unique(row * key_count + key) % key_count, return_counts=True)
    chains = chains[support >= MIN_SUPPORT]
    return np.stack([chains // reads // base, chains // reads % base - 1, chains % reads], 1)


class ChainFit(NamedTuple):
    """The offsets and errors of chains, (C,) each."""

    offset: Floats
    error: Floats
    support: Floats  # at least 1

    def is_useful(self, scale: float) -> NDArray[np.bool_]:
        """(C,) whether a chain has enough entities, and an error that is less than the constant's."""
        return (self.support >= MIN_SUPPORT * (FOLDS - 1) // FOLDS) & (self.error < MAX_CHAIN_ERROR * scale)


def _fit_chains(messages: Messages, truth: Floats, chains: int, scale: float) -> ChainFit:
    """Offsets are shrunk towards 0, errors towards the scale."""
    difference = truth[messages.row] - messages.median
    chain, median, count, _ = grouped_medians(messages.chain, difference)
    offset, support = np.zeros(chains), np.zeros(chains)
    offset[chain], support[chain] = median * count / (count + OFFSET_PRIOR), count
    errors = np.bincount(messages.chain, np.abs(difference - offset[messages.chain]), chains)
    return ChainFit(offset, (errors + ERROR_PRIOR * scale) / (support + ERROR_PRIOR), np.maximum(support, 1.0))


def _ridge(features: Floats, target: Floats) -> Floats:
    """The coefficients of a ridge regression on standardised features, for the features as they are; the bias last."""
    mean, deviation = features.mean(0), np.maximum(features.std(0), FLOOR)
    design = (features - mean) / deviation
    gram = design.T @ design + RIDGE * np.eye(features.shape[1])
    slope = np.linalg.solve(gram, design.T @ (target - target.mean())) / deviation
    return np.append(slope, target.mean() - mean @ slope)
