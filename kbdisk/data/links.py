"""Evidence over links: the values of linked entities, incoming links, and aggregates over several links.

A single link brings the known values at its other end, one hop far; a set of links brings aggregates over the entities that it
leads to (`link_aggregates`). An incoming link is evidence of its source. Chains of links bring estimates of an entity's
numbers (`propagation`). No value that points back to the entity itself is evidence.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kbdisk.data.config import EvidenceConfig
from kbdisk.data.graph import COLLECTIONS, Graph, pattern, targets
from kbdisk.data.link_aggregates import (
    MAX_SCREENED_ENTITIES,
    Aggregate,
    Aggregates,
    AggregateScreening,
    pooled_aggregate,
)
from kbdisk.data.pooling import Pools
from kbdisk.data.propagation import GRADES, UNLIMITED, ChainSearch, Propagation, Receiver, propagated_slot
from kbdisk.data.slots import AGGREGATE_MARK, ANY, INCOMING, Over, Source, hash_id, path_key
from kbdisk.entity import Link, Path
from kbdisk.schemas.kinds import Link as LinkLeaf
from kbdisk.schemas.schema import Schema

MAX_EVIDENCE_VALUES = 200_000  # about how many values over links the evidence is selected by
MAX_COUNTED_ENTITIES = 2048  # whose propagated numbers are counted


class EvidenceValue(NamedTuple):
    """A value that came over a link."""

    over: Over
    sources: Sequence[str]  # the entities at the other end
    value: Any
    is_complete: bool = True  # whether no link back to the entity was removed
    aggregate: Aggregate | None = None


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
        has_aggregates = config.several and (
            wanted is None or any(over.aggregate and over.aggregate not in GRADES for _, over in wanted)
        )
        self.aggregates = Aggregates(schema, graph, pools, wanted) if has_aggregates else None
        self._wanted: dict[tuple[str, Path], list[Over]] | None = None if wanted is None else defaultdict(list)
        for class_name, over in wanted or ():
            if self._wanted is not None and not over.aggregate:
                self._wanted[class_name, over.link].append(over)
        self._wanted_overs: dict[tuple[str, Path, str], list[tuple[Over, bool]]] = {}
        self._overs: dict[tuple[str, Path, Path], tuple[Over, bool]] = {}
        self._single = {name: _single_links(schema, name) for name in schema.classes}

    def values_for(self, id: str, class_name: str, leaves: Mapping[Path, Any]) -> Iterator[EvidenceValue]:
        """All evidence of an entity but propagated numbers."""
        if self.config.outgoing and self._single[class_name]:
            yield from self._outgoing(id, class_name, leaves)
        yield from self.incoming(id)
        if self.aggregates is not None:
            for aggregate in self.aggregates.of(id, class_name, leaves):
                yield EvidenceValue(aggregate.over, aggregate.through, aggregate.value, aggregate=aggregate)

    def propagated(self, receivers: Sequence[Receiver]) -> Iterator[tuple[int, EvidenceValue]]:
        """The propagated numbers of entities, each with the entity's place."""
        for estimate in self.propagation.estimates(self.graph, self.pools, receivers):
            yield estimate.row, EvidenceValue(estimate.over, estimate.neighbours, estimate.value)

    def _outgoing(self, id: str, class_name: str, leaves: Mapping[Path, Any]) -> Iterator[EvidenceValue]:
        single = self._single[class_name]
        for link, value in leaves.items():
            if link not in single and pattern(link) not in single:
                continue
            target = targets(value)[0]
            target_class = self.graph.of(target)
            if target_class is None or target == id:
                continue
            known = self.graph.leaves(target)
            for over, is_link in self._read(class_name, link, target_class, known):
                values = known.get(over.read)
                rest = _without(values, id) if is_link and values is not None else values
                if rest is not None:
                    yield EvidenceValue(over, (target,), rest, rest is values)

    def _read(
        self, class_name: str, link: Path, target_class: str, known: Mapping[Path, Any]
    ) -> Iterable[tuple[Over, bool]]:
        """What may be evidence at the other end of a link, each with whether it is a link, too."""
        if self._wanted is None:
            return (self._outgoing_over(target_class, link, path) for path in known)
        key = class_name, link, target_class
        if key not in self._wanted_overs:
            pooled_class = pooled_over(self.pools, class_name, Over(target_class, link, ()))[0]
            self._wanted_overs[key] = [
                self._outgoing_over(target_class, link, over.read)
                for over in self._wanted.get((pooled_class, link), ())
                if pooled_over(self.pools, class_name, Over(target_class, link, over.read)) == (pooled_class, over)
            ]
        return self._wanted_overs[key]

    def _outgoing_over(self, target_class: str, link: Path, read: Path) -> tuple[Over, bool]:
        """The evidence at a path behind a link, and whether it is a link, too. Entities share it."""
        key = target_class, link, read
        if key not in self._overs:
            is_link = pattern(read) in self.graph.linking[target_class]
            self._overs[key] = Over(target_class, link, read), is_link
        return self._overs[key]

    def incoming(self, id: str) -> Iterator[EvidenceValue]:
        """The links that lead to an entity; of too many a sample that is always the same: the ids that hash lowest."""
        if not self.config.incoming:
            return
        by_path: dict[tuple[str, Path], set[str]] = {}
        for edge in self.graph.incoming(id):
            if edge.source != id:
                by_path.setdefault((edge.class_name, pattern(edge.path)), set()).add(edge.source)
        for class_name, path in sorted(by_path, key=lambda link: (link[0], path_key(link[1]))):
            sources = sorted(by_path[class_name, path], key=lambda source: (hash_id(source), source))
            for source in sources[: self.config.most]:
                yield EvidenceValue(Over(class_name, path, (), True), (source,), Link(source))


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
    pools = evidence.pools
    counts: Counter[tuple[str, Over]] = Counter()
    sources: dict[Source, list[Link]] = {}
    screening = AggregateScreening(evidence.aggregates) if evidence.aggregates is not None else None
    receivers = sorted(itertools.starmap(Receiver, entities), key=lambda receiver: hash_id(receiver.id))
    shares = {
        class_name: MAX_SCREENED_ENTITIES / count
        for class_name, count in Counter(receiver.class_name for receiver in receivers).items()
    }
    sampled, values = 0, 0
    for id, class_name, leaves in receivers:
        is_sampled = values < MAX_EVIDENCE_VALUES
        is_drawn = is_sampled and hash_id(id) < shares[class_name] * 2**32
        keys = set()
        for item in evidence.values_for(id, class_name, leaves) if is_sampled else evidence.incoming(id):
            pooled_class, over = pooled_over(pools, class_name, item.over)
            keys.add((pooled_class, over))
            if over.incoming and not over.aggregate:
                sources.setdefault(incoming_source(pooled_class, over), []).append(item.value)
            elif screening is not None and item.aggregate is not None and is_drawn:
                screening.add(id, class_name, item.aggregate, leaves)
        counts.update(keys)
        if is_sampled:
            sampled, values = sampled + 1, values + len(keys)
    for (class_name, over), count in counts.items():
        if over.aggregate or not over.incoming:
            counts[class_name, over] = count * len(receivers) // sampled
    screened = screening.best() if screening is not None else set()
    if evidence.config.chains:
        evidence.propagation = Propagation.fit(evidence.graph, pools, receivers, chain_search)
        counted = receivers[:MAX_COUNTED_ENTITIES]
        numbers = Counter(
            propagated_slot(pools, counted[place].class_name, item.over) for place, item in evidence.propagated(counted)
        )
        counts.update({key: count * len(receivers) // len(counted) for key, count in numbers.items()})
        screened |= numbers.keys()
    return TrainingEvidence(counts, sources, screened, evidence.propagation)


def select_evidence(counts: Mapping[tuple[str, Over], int], most: int) -> list[tuple[str, Over]]:
    """The evidence that gets a slot: incoming links, and over each link the paths that the most entities have."""
    by_link: dict[tuple[Any, ...], list[tuple[str, Over]]] = {}
    for class_name, over in counts:
        if not over.incoming or over.aggregate:
            by_link.setdefault((class_name, over.link, over.incoming, over.aggregate), []).append((class_name, over))
    kept = [key for key in counts if key[1].incoming and not key[1].aggregate]
    for of_link in by_link.values():
        of_link.sort(key=lambda key: (-counts[key], path_key(key[1].read)))
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
