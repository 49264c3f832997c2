"""What an entity's links bring: the values of what it links to, the links that lead to it, and what several tell together.

Over a single link come the known values at its other end, one hop far; over links within a set what all that they lead
to tell together (`several`). Incoming links are told by who has them. No value that points back to the entity itself
ever comes in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kbdisk.data.config import EvidenceConfig
from kbdisk.data.graph import Graph, pattern, targets
from kbdisk.data.link_aggregates import SAMPLE, Several, Telling, Told
from kbdisk.data.pooling import Pools
from kbdisk.data.slots import ANY, INCOMING, TOGETHER, Over, Source, hashed, path_key
from kbdisk.entity import Link, Path
from kbdisk.schemas.leaf import Link as LinkLeaf
from kbdisk.schemas.schema import Schema


class Brought(NamedTuple):
    """A value that came over a link."""

    over: Over
    sources: Sequence[str]  # the entities at the other end
    value: Any
    whole: bool = True  # nothing that points back was taken out
    told: Told | None = None  # what several told together


class Evidence:
    """What a graph brings to entities."""

    def __init__(
        self,
        schema: Schema,
        graph: Graph,
        config: EvidenceConfig,
        wanted: Collection[tuple[str, Over]] | None = None,
    ) -> None:
        """Several tell together what is wanted; where nothing is said of that, all that they can."""
        self.graph, self.config = graph, config
        told = config.several and (wanted is None or any(over.told for _, over in wanted))
        self.several = Several(schema, graph, wanted) if told else None
        self._single = {name: _single_links(schema, name) for name in schema.classes}

    def brought(self, id: str, of: str, leaves: Mapping[Path, Any]) -> Iterator[Brought]:
        """All that comes to an entity."""
        if self.config.outgoing and self._single[of]:
            yield from self._outgoing(id, of, leaves)
        if self.config.incoming:
            yield from self._incoming(id)
        if self.several is not None:
            for told in self.several.told(id, of, leaves):
                yield Brought(told.over, told.through, told.value, told=told)

    def _outgoing(self, id: str, of: str, leaves: Mapping[Path, Any]) -> Iterator[Brought]:
        single = self._single[of]
        for link, value in leaves.items():
            if link not in single and pattern(link) not in single:
                continue
            target = targets(value)[0]
            there = self.graph.of(target)
            if there is None or target == id:
                continue
            linking = self.graph.linking[there]
            for path, found in self.graph.leaves(target).items():
                rest = _without(found, id) if pattern(path) in linking else found
                if rest is not None:
                    yield Brought(Over(there, link, path), (target,), rest, rest is found)

    def _incoming(self, id: str) -> Iterator[Brought]:
        """Of more links than may be, those whose sources' names hash lowest: whichever, but always the same."""
        by_path: dict[tuple[str, Path], set[str]] = {}
        for edge in self.graph.incoming(id):
            if edge.source != id:
                by_path.setdefault((edge.of, pattern(edge.path)), set()).add(edge.source)
        for of, path in sorted(by_path, key=lambda one: (one[0], path_key(one[1]))):
            sources = sorted(by_path[of, path], key=lambda source: (hashed(source), source))
            for source in sources[: self.config.most]:
                yield Brought(Over(of, path, (), True), (source,), Link(source))


class Seen(NamedTuple):
    """What came to training entities: how many of a class had each, and who had incoming links."""

    counts: Mapping[tuple[str, Over], int]
    sources: Mapping[Source, list[Link]]  # by the class and path that stand for the incoming links
    telling: Collection[tuple[str, Over]]  # of what several tell together, what is worth a slot


def pooled_over(pools: Pools, of: str, over: Over) -> tuple[str, Over]:
    """The pooled slot, by class and link, of a class's evidence: classes that share a property share its evidence.

    Medians and rests over several entities stay per class.
    """
    if over.told or not pools.pooled:
        return of, over
    if over.incoming:
        return ANY, over._replace(of=pools.source(over.of, pattern(over.link)).of)
    source, read = pools.source(of, pattern(over.link)), pools.source(over.of, pattern(over.read))
    return source.of, over._replace(of=read.of)


def seen(evidence: Evidence, entities: Iterable[tuple[str, str, Mapping[Path, Any]]], pools: Pools) -> Seen:
    """Look at what comes to entities, given as id, class and leaves."""
    counts: Counter[tuple[str, Over]] = Counter()
    sources: dict[Source, list[Link]] = {}
    telling = Telling(evidence.several) if evidence.several is not None else None
    entities = list(entities)
    shares = {of: SAMPLE / count for of, count in Counter(of for _, of, _ in entities).items()}
    for id, of, leaves in entities:
        is_drawn = hashed(id) < shares[of] * 2**32
        met = set()
        for one in evidence.brought(id, of, leaves):
            learnt_of, over = pooled_over(pools, of, one.over)
            met.add((learnt_of, over))
            if over.incoming and not over.told:
                sources.setdefault(incoming(learnt_of, over), []).append(one.value)
            elif telling is not None and one.told is not None and is_drawn:
                telling.add(of, one.told, leaves)
        counts.update(met)
    return Seen(counts, sources, telling.best() if telling is not None else ())


def chosen(counts: Mapping[tuple[str, Over], int], most: int) -> list[tuple[str, Over]]:
    """The evidence worth a slot: incoming links, and over each link the values that most entities have."""
    by_link: dict[tuple[Any, ...], list[tuple[str, Over]]] = {}
    for of, over in counts:
        if not over.incoming or over.told:
            by_link.setdefault((of, over.link, over.of, over.incoming, over.told), []).append((of, over))
    kept = [one for one in counts if one[1].incoming and not one[1].told]
    for several in by_link.values():
        several.sort(key=lambda one: (-counts[one], path_key(one[1].read)))
        kept.extend(several[: most or None])
    return kept


def incoming(of: str, over: Over) -> Source:
    """What stands for incoming links: in the class that they lead to, the path ^Class.path."""
    return Source(of, (INCOMING + over.of, *over.link))


def path_over(of: str, over: Over) -> Path:
    """The path that evidence has in the class that it comes to."""
    if over.incoming and not over.told:
        return incoming(of, over).path
    link = (INCOMING + over.of, *over.link) if over.incoming else over.link
    return (*link, *([TOGETHER + over.told] if over.told else []), *over.read)


def _single_links(schema: Schema, name: str) -> set[Path]:
    return {path for path, leaf in schema.classes[name].leaves().items() if isinstance(leaf, LinkLeaf)}


def _without(value: Any, id: str) -> Any:
    """A link or a set of links without those to one entity; None where no other is left."""
    if not isinstance(value, list | tuple | set | frozenset):
        return None if targets(value)[0] == id else value
    rest = [one for one in value if targets(one)[0] != id]
    return value if len(rest) == len(value) else rest or None
