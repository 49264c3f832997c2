"""Evidence over links: the values of linked entities, incoming links, and aggregates over several links.

Over a single link come the known values at its other end, one hop far; over a set of links, aggregates of the entities that
it leads to (`link_aggregates`). An incoming link is evidence of its source. No value that points back to the entity itself
is evidence.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kbdisk.data.config import EvidenceConfig
from kbdisk.data.graph import Graph, pattern, targets
from kbdisk.data.link_aggregates import SAMPLE, Aggregate, Aggregates, AggregateScreening, receiver
from kbdisk.data.pooling import Pools
from kbdisk.data.slots import ANY, INCOMING, TOGETHER, Over, Source, hashed, path_key
from kbdisk.entity import Link, Path
from kbdisk.schemas.kinds import Link as LinkLeaf
from kbdisk.schemas.schema import Schema

MOST_BROUGHT = 200_000  # values over links that are looked at, to choose the evidence, about


class Brought(NamedTuple):
    """A value that came over a link."""

    over: Over
    sources: Sequence[str]  # the entities at the other end
    value: Any
    whole: bool = True  # nothing that points back was taken out
    told: Aggregate | None = None  # what several told together


class Evidence:
    """What a graph brings to entities."""

    def __init__(
        self,
        schema: Schema,
        graph: Graph,
        config: EvidenceConfig,
        pools: Pools,
        wanted: Collection[tuple[str, Over]] | None = None,
    ) -> None:
        """Aggregates tell together what is wanted; where nothing is said of that, all that they can."""
        self.graph, self.config, self.pools = graph, config, pools
        told = config.several and (wanted is None or any(over.told for _, over in wanted))
        self.aggregates = Aggregates(schema, graph, pools, wanted) if told else None
        self._wanted: dict[tuple[str, Path], list[Over]] | None = None if wanted is None else defaultdict(list)
        for of, over in wanted or ():
            if self._wanted is not None and not over.told:
                self._wanted[of, over.link].append(over)
        self._wanted_paths: dict[tuple[str, Path, str], list[Path]] = {}
        self._single = {name: _single_links(schema, name) for name in schema.classes}

    def brought(self, id: str, class_name: str, leaves: Mapping[Path, Any]) -> Iterator[Brought]:
        """All that comes to an entity."""
        if self.config.outgoing and self._single[class_name]:
            yield from self._outgoing(id, class_name, leaves)
        yield from self.incoming(id)
        if self.aggregates is not None:
            for aggregate in self.aggregates.of(id, class_name, leaves):
                yield Brought(aggregate.over, aggregate.through, aggregate.value, told=aggregate)

    def _outgoing(self, id: str, class_name: str, leaves: Mapping[Path, Any]) -> Iterator[Brought]:
        single = self._single[class_name]
        for link, value in leaves.items():
            if link not in single and pattern(link) not in single:
                continue
            target = targets(value)[0]
            target_class = self.graph.of(target)
            if target_class is None or target == id:
                continue
            linking = self.graph.linking[target_class]
            known = self.graph.leaves(target)
            for path in self._read(class_name, link, target_class, known):
                values = known[path]
                rest = _without(values, id) if pattern(path) in linking else values
                if rest is not None:
                    yield Brought(Over(target_class, link, path), (target,), rest, rest is values)

    def _read(self, class_name: str, link: Path, target_class: str, known: Mapping[Path, Any]) -> Iterable[Path]:
        """Which known values at the other end of a link are looked at."""
        if self._wanted is None:
            return known
        key = class_name, link, target_class
        if key not in self._wanted_paths:
            learnt_of = pooled_over(self.pools, class_name, Over(target_class, link, ()))[0]
            self._wanted_paths[key] = [
                over.read
                for over in self._wanted.get((learnt_of, link), ())
                if pooled_over(self.pools, class_name, Over(target_class, link, over.read)) == (learnt_of, over)
            ]
        return [path for path in self._wanted_paths[key] if path in known]

    def incoming(self, id: str) -> Iterator[Brought]:
        """The links that lead to an entity; of more than may be, those whose sources' names hash lowest: whichever, but always the same."""
        if not self.config.incoming:
            return
        by_path: dict[tuple[str, Path], set[str]] = {}
        for edge in self.graph.incoming(id):
            if edge.source != id:
                by_path.setdefault((edge.of, pattern(edge.path)), set()).add(edge.source)
        for class_name, path in sorted(by_path, key=lambda link: (link[0], path_key(link[1]))):
            sources = sorted(by_path[class_name, path], key=lambda source: (hashed(source), source))
            for source in sources[: self.config.most]:
                yield Brought(Over(class_name, path, (), True), (source,), Link(source))


class Seen(NamedTuple):
    """What came to training entities: how many of a class had each, and who had incoming links."""

    counts: Mapping[tuple[str, Over], int]
    sources: Mapping[Source, list[Link]]  # by the class and path that stand for the incoming links
    telling: Collection[tuple[str, Over]]  # of what several tell together, what is worth a slot


def pooled_over(pools: Pools, class_name: str, over: Over) -> tuple[str, Over]:
    """The pooled slot, by class and link, of a class's evidence: classes that share a property share its evidence."""
    if over.told:
        return receiver(pools, class_name, over)
    if not pools.pooled:
        return class_name, over
    if over.incoming:
        return ANY, over._replace(of=pools.source(over.of, pattern(over.link)).of)
    source, read = pools.source(class_name, pattern(over.link)), pools.source(over.of, pattern(over.read))
    return source.of, over._replace(of=read.of)


def seen(evidence: Evidence, entities: Iterable[tuple[str, str, Mapping[Path, Any]]]) -> Seen:
    """Look at what comes to entities, given as id, class and leaves.

    Incoming links of all are looked at; of other evidence, once there is a lot of it, that of a sample of entities, from
    which their number is estimated.
    """
    pools = evidence.pools
    counts: Counter[tuple[str, Over]] = Counter()
    sources: dict[Source, list[Link]] = {}
    telling = AggregateScreening(evidence.aggregates) if evidence.aggregates is not None else None
    entities = sorted(entities, key=lambda entity: hashed(entity[0]))
    shares = {
        class_name: SAMPLE / count for class_name, count in Counter(class_name for _, class_name, _ in entities).items()
    }
    sampled, brought = 0, 0
    for id, class_name, leaves in entities:
        is_sampled = brought < MOST_BROUGHT
        is_drawn = is_sampled and hashed(id) < shares[class_name] * 2**32
        keys = set()
        for brought_value in evidence.brought(id, class_name, leaves) if is_sampled else evidence.incoming(id):
            learnt_of, over = pooled_over(pools, class_name, brought_value.over)
            keys.add((learnt_of, over))
            if over.incoming and not over.told:
                sources.setdefault(incoming(learnt_of, over), []).append(brought_value.value)
            elif telling is not None and brought_value.told is not None and is_drawn:
                telling.add(id, class_name, brought_value.told, leaves)
        counts.update(keys)
        if is_sampled:
            sampled, brought = sampled + 1, brought + len(keys)
    for (class_name, over), count in counts.items():
        if over.told or not over.incoming:
            counts[class_name, over] = count * len(entities) // sampled
    return Seen(counts, sources, telling.best() if telling is not None else ())


def chosen(counts: Mapping[tuple[str, Over], int], most: int) -> list[tuple[str, Over]]:
    """The evidence worth a slot: incoming links, and over each link the values that most entities have."""
    by_link: dict[tuple[Any, ...], list[tuple[str, Over]]] = {}
    for class_name, over in counts:
        if not over.incoming or over.told:
            by_link.setdefault((class_name, over.link, over.incoming, over.told), []).append((class_name, over))
    kept = [key for key in counts if key[1].incoming and not key[1].told]
    for several in by_link.values():
        several.sort(key=lambda key: (-counts[key], path_key(key[1].read)))
        kept.extend(several[: most or None])
    return kept


def incoming(class_name: str, over: Over) -> Source:
    """What stands for incoming links: in the class that they lead to, the path ^Class.path."""
    return Source(class_name, (INCOMING + over.of, *over.link))


def path_over(class_name: str, over: Over) -> Path:
    """The path that evidence has in the class that it comes to."""
    if over.incoming and not over.told:
        return incoming(class_name, over).path
    link = (INCOMING + over.of, *over.link) if over.incoming else over.link
    return (*link, *([TOGETHER + over.told] if over.told else []), *over.read)


def _single_links(schema: Schema, name: str) -> set[Path]:
    return {path for path, leaf in schema.classes[name].leaves().items() if isinstance(leaf, LinkLeaf)}


def _without(value: Any, id: str) -> Any:
    """A link or a set of links without those to one entity; None where no other is left."""
    if not isinstance(value, list | tuple | set | frozenset):
        return None if targets(value)[0] == id else value
    rest = [link for link in value if targets(link)[0] != id]
    return value if len(rest) == len(value) else rest or None
