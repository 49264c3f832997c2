"""Fitting: the values of training entities, read once, become leaf codecs and slots.

A codec belongs to a class's path, any place of a list: values of all places are pooled, and share their weights.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from kbdisk.data.config import CodecConfig
from kbdisk.data.graph import Graph, pattern
from kbdisk.data.links import Evidence, Seen, chosen, incoming, path_over, seen
from kbdisk.data.parse import Reading, read_all
from kbdisk.data.patterns import Met, Patterns
from kbdisk.data.pooling import Pools
from kbdisk.data.slots import (
    ANY,
    CLASSES,
    SHARING,
    Over,
    Role,
    Slot,
    Source,
    class_leaf,
    groups_of,
    incoming_leaf,
    path_key,
    slot_order,
)
from kbdisk.data.superclasses import Hierarchy, Superclasses, hierarchy_of, hierarchy_of_schema
from kbdisk.data.unlearnt import Unlearnt
from kbdisk.entity import Entity, Link, Path, Text
from kbdisk.leaves.registry import LEARNT_KINDS, learnt_kind, learnt_leaf
from kbdisk.leaves.tokenizer import Tokenizer
from kbdisk.plugins import load_part
from kbdisk.schemas.kinds import KINDS, Set
from kbdisk.schemas.kinds import Text as TextLeaf
from kbdisk.schemas.schema import Schema

SAMPLE = 2000  # texts whose tokens are counted, for their entropy
NOTHING = "no training entity has a value"
CLASS_SOURCE = Source(ANY, CLASSES)
Names: TypeAlias = Mapping[str, str]  # what entities are called, by their ids


@dataclass
class Gathered:
    """What training entities have."""

    pools: Pools
    values: dict[Source, list[Any]] = field(default_factory=dict)  # by what they are learnt as
    counts: dict[tuple[str, Path], Counter[str]] = field(default_factory=dict)  # likewise: how many of each class
    classes: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)  # each entity's id, and all its classes
    superclasses: Superclasses = field(default_factory=Superclasses)
    entities: Counter[str] = field(default_factory=Counter)  # of each class
    names: dict[str, str] = field(default_factory=dict)  # what entities are called, where links lead to any
    evidence: Seen = field(default_factory=lambda: Seen({}, {}, frozenset()))
    met: Met = field(default_factory=Met)  # which paths they have together
    unlearnt: set[tuple[str, Path]] = field(default_factory=set)  # what they have that no property is for


@dataclass(frozen=True)
class Fitted:
    """What a codec is made of."""

    slots: tuple[Slot, ...]
    left_out: Mapping[tuple[str, Path], str]
    words: Tokenizer | None
    patterns: Patterns
    unlearnt: frozenset[tuple[str, Path]]
    entities: Mapping[str, int]
    superclasses: Superclasses


def fit(
    schema: Schema,
    entities: Iterable[Entity | Reading],
    config: CodecConfig,
    graph: Graph | None,
    hierarchy: Hierarchy | None = None,
) -> Fitted:
    """Learn all that a codec has to know. Without a hierarchy superclasses are those that these entities state."""
    gathered = gather(schema, entities, config, graph, hierarchy)
    pools = gathered.pools
    leaves = {source: pools.leaves[source] for source in gathered.values}
    leaves |= {source: incoming_leaf(str(source.path[0])[1:]) for source in gathered.evidence.sources}
    values: dict[Source, list[Any]] = {**gathered.values, **gathered.evidence.sources}
    if any(classes for _, classes in gathered.classes):
        leaves[CLASS_SOURCE] = class_leaf()
        values[CLASS_SOURCE] = [name for one in gathered.classes for name in gathered.superclasses.of(*one)]
    kinds = {source: learnt_kind(leaf) for source, leaf in leaves.items()}
    order = sorted(leaves, key=lambda source: (source.of, path_key(source.path)))
    words = _words([(leaves[one], kinds[one], values[one]) for one in order], config, gathered.names)

    codecs = {
        one: LEARNT_KINDS[kinds[one]].codec.fit(learnt_leaf(leaves[one]), values[one], config.kinds[kinds[one]], words)
        for one in order
    }
    if gathered.names:
        codecs = {
            one: codec.with_names(gathered.names) if hasattr(codec, "with_names") else codec
            for one, codec in codecs.items()
        }
    entropies = {one: _entropy_of(kinds[one])(values[one], codecs[one]) for one in gathered.values}
    counts = {one: len(values[one]) for one in order}
    groups = groups_of(kinds, counts, lambda each: SHARING[config.sharing](each, config.own, config.enough))
    make = Making(gathered, leaves, kinds, codecs, groups, entropies)
    slots = tuple(_numbered([*make.own(), *make.over_links(config.evidence.values)]))
    lacking = sorted(
        (source for source, own in pools.shared.items() if own not in gathered.values),
        key=lambda one: (one.of, path_key(one.path)),
    )
    left_out: dict[tuple[str, Path], str] = {(one.of, one.path): NOTHING for one in lacking}
    number = {
        (of, slot.path): place
        for place, slot in enumerate(slots)
        if slot.role == "value"
        for of in pools.members[Source(slot.of, pattern(slot.path))]
    }
    return Fitted(
        slots,
        left_out,
        words,
        gathered.met.patterns(number),
        frozenset(gathered.unlearnt),
        dict(gathered.entities),
        gathered.superclasses,
    )


def gather(
    schema: Schema,
    entities: Iterable[Entity | Reading],
    config: CodecConfig,
    graph: Graph | None,
    hierarchy: Hierarchy | None = None,
) -> Gathered:
    """Read every entity once; where links may bring something, what they bring comes from the graph or from these."""
    gathered = Gathered(Pools.of(schema, config.pooling))
    whole = Graph(schema) if graph is None else graph
    linked = any(whole.linking.values())
    told = linked and (config.evidence.outgoing or config.evidence.incoming or config.evidence.several)
    receivers: list[tuple[str, str, Mapping[Path, Any]]] = []
    unlearnt = Unlearnt(schema)
    stated: dict[str, Collection[str]] = {}
    for reading in read_all(schema, entities):
        entity = reading.entity
        if hierarchy is None:
            stated |= hierarchy_of([entity])
        gathered.entities[reading.of] += 1
        gathered.met.add(reading.of, reading.leaves)
        gathered.unlearnt |= {(reading.of, path) for path, _ in unlearnt.of(schema.classes[reading.of], entity)}
        if linked and entity.label:
            gathered.names[reading.id] = entity.label
        for path, value in reading.leaves.items():
            source = gathered.pools.shared.get(Source(reading.of, pattern(path)))
            if source is not None:
                gathered.values.setdefault(source, []).append(value)
                gathered.counts.setdefault((source.of, path), Counter())[reading.of] += 1
        if config.pooling:
            gathered.classes.append((reading.id, reading.classes))
        if told:
            receivers.append((reading.id, reading.of, reading.leaves))
            if graph is None:
                whole.add(*receivers[-1])
    stated = dict(stated if hierarchy is None else hierarchy)
    for name, above in hierarchy_of_schema(schema).items():
        stated[name] = tuple(dict.fromkeys((*stated.get(name, ()), *above)))
    gathered.superclasses = Superclasses.fit(stated, (of for _, of in gathered.classes))
    if told:
        gathered.evidence = seen(Evidence(schema, whole, config.evidence, gathered.pools), receivers)
    return gathered


@dataclass(frozen=True)
class Making:
    """What slots are made of, by what their codecs are fitted to."""

    gathered: Gathered
    leaves: Mapping[Source, Any]
    kinds: Mapping[Source, str]
    codecs: Mapping[Source, Any]
    groups: Mapping[Source, int]
    entropies: Mapping[Source, float]

    def own(self) -> Iterable[tuple[Slot, Path]]:
        """A slot for each path that a training entity has, with the property that it is a part of."""
        pools = self.gathered.pools
        for (of, path), counts in self.gathered.counts.items():
            source = Source(of, pattern(path))
            place = pools.places[source]
            whole = sum(self.gathered.entities[name] for name in pools.members[source])
            role: Role = "given" if place.given else "value"
            yield self._slot(source, of, path, role, None, counts.total(), whole, counts), place.property
        if CLASS_SOURCE in self.leaves:
            whole = self.gathered.entities.total()
            yield self._slot(CLASS_SOURCE, *CLASS_SOURCE, "evidence", None, whole, whole), CLASSES

    def over_links(self, most: int) -> Iterable[tuple[Slot, Path]]:
        """A slot for each path of evidence, each a part of nothing; what is read must have a codec."""
        counts = self.gathered.evidence.counts
        telling = self.gathered.evidence.telling
        known = {
            (of, over): count
            for (of, over), count in counts.items()
            if self._source(of, over) in self.codecs and (not over.told or (of, over) in telling)
        }
        for of, over in chosen(known, most):
            path = path_over(of, over)
            whole = self.gathered.entities[of] if of in self.gathered.entities else self.gathered.entities.total()
            yield (
                self._slot(self._source(of, over), of, path, "evidence", over, counts[of, over], whole),
                (over.of, *path),
            )

    def _source(self, of: str, over: Over) -> Source:
        if over.incoming and not over.told:
            return incoming(of, over)
        return self.gathered.pools.source(over.of, pattern(over.read))

    def _slot(
        self,
        source: Source,
        of: str,
        path: Path,
        role: Role,
        over: Over | None,
        count: int,
        entities: int,
        counts: Mapping[str, int] | None = None,
    ) -> Slot:
        return Slot(
            of=of,
            path=path,
            leaf=self.leaves[source],
            kind=self.kinds[source],
            codec=self.codecs[source],
            role=role,
            over=over,
            group=self.groups[source],
            unit=0,
            count=count,
            fill=min(count / entities, 1.0),
            entropy=self.entropies.get(source, 0.0),
            counts=dict(counts or {}),
        )


def _numbered(made: Iterable[tuple[Slot, Path]]) -> Iterator[Slot]:
    """Slots in order, parts of one property under one number."""
    units: dict[Any, int] = {}
    key = slot_order()
    for slot, property in sorted(made, key=lambda pair: key(pair[0])):
        yield replace(slot, unit=units.setdefault((slot.of, property, slot.over), len(units)))


def _words(columns: Iterable[tuple[Any, str, Sequence[Any]]], config: CodecConfig, names: Names) -> Tokenizer | None:
    """The tokenizer of all text, and of labels where these mean what their text says; columns are leaf, kind, values."""
    texts: list[str] = []
    for leaf, kind, values in columns:
        own = config.kinds[kind]
        if isinstance(leaf, TextLeaf):
            texts.extend(value.text if isinstance(value, Text) else value for value in values)
        elif getattr(own, "labels", "") == "text" or (names and getattr(own, "text", False)):
            texts.extend(_labels(leaf, values, names))
    return Tokenizer.fit(texts, config.kinds["text"].vocabulary)


def _labels(leaf: Any, values: Sequence[Any], names: Names) -> Iterator[str]:
    """The labels met and those that a leaf tells, what linked entities are called: as text, once each, in order."""
    several = [one for value in values for one in value] if isinstance(leaf, Set) else values
    told = getattr(leaf.of if isinstance(leaf, Set) else leaf, "values", ())
    labels = {one.id if isinstance(one, Link) else str(one) for one in (*told, *several)}
    yield from sorted(names.get(label, label) for label in labels)


# ---------------------------------------------------------------- how much there is to know of a property


def _entropy_of(kind: str) -> Callable[[Sequence[Any], Any], float]:
    """The entropy of values of a kind, by its row."""
    return load_part(KINDS[kind].entropy) or _of_values


def _of_values(values: Sequence[Any], codec: Any) -> float:
    """The entropy of values, by how often each is met."""
    return _entropy(Counter(map(_hashable, values)).values())


def entropy_of_texts(values: Sequence[Any], codec: Any) -> float:
    """The entropy of a text's tokens, by how often each is met, times how many it has."""
    some = values[:: max(1, len(values) // SAMPLE)]
    codes = codec.encode(some)
    tokens = codes[codes > 0]
    return _entropy(tokens.bincount().tolist()) * len(tokens) / len(some)


def entropy_of_sets(values: Sequence[Any], codec: Any) -> float:
    """The entropy of whether each member is in."""
    members = Counter(one for value in values for one in {_hashable(each) for each in value})
    return sum(_entropy((count, len(values) - count)) for count in members.values())


def _entropy(counts: Iterable[int]) -> float:
    shares = [count for count in counts if count]
    whole = sum(shares)
    return sum(count / whole * math.log(whole / count) for count in shares)


def _hashable(value: Any) -> Any:
    """A value that is told from others: 1 is not true."""
    return (value, isinstance(value, bool))
