"""Fitting: the values of training entities, read once, become leaf codecs, slots and patterns.

A codec belongs to a class's path, any place of a list: values of all places are pooled, and share their weights. A pattern is
the set of properties that an entity has together; sampling draws one first. Patterns are those of some training entities,
evenly spread over all, without places of lists: the length of a list is drawn like a value.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from kbdisk.data.config import CodecConfig
from kbdisk.data.graph import Graph, pattern
from kbdisk.data.links import (
    Evidence,
    TrainingEvidence,
    collect_evidence,
    evidence_path,
    incoming_source,
    select_evidence,
)
from kbdisk.data.parse import Reading, Unlearnt, read_all
from kbdisk.data.pooling import Pools
from kbdisk.data.propagation import UNLIMITED, ChainSearch, Propagation
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
    slot_order,
    source_key,
)
from kbdisk.data.superclasses import Hierarchy, Superclasses, hierarchy_of, hierarchy_of_schema
from kbdisk.entity import Entity, Link, Path, Text, without_places
from kbdisk.leaves.registry import LEARNT_KINDS, learnt_kind, learnt_leaf
from kbdisk.leaves.tokenizer import Tokenizer
from kbdisk.plugins import load_part
from kbdisk.schemas.kinds import KINDS, Set
from kbdisk.schemas.kinds import Text as TextLeaf
from kbdisk.schemas.schema import Schema

MAX_TEXTS_COUNTED = 2000  # for the entropy of texts
NO_VALUE = "no training entity has a value"
CLASS_SOURCE = Source(ANY, CLASSES)
Names: TypeAlias = Mapping[str, str]  # the labels of entities by their ids
MAX_PATTERN_ENTITIES = 4096  # entities whose patterns are kept
Patterns: TypeAlias = Mapping[str, Mapping[tuple[int, ...], int]]  # by class: slots, and how many entities have them


@dataclass
class PatternSample:
    """The paths that entities have: of every `stride`-th entity, and of the first of each class."""

    stride: int = 1
    count: int = 0
    kept: list[tuple[str, tuple[Path, ...]]] = field(default_factory=list)
    first: dict[str, tuple[Path, ...]] = field(default_factory=dict)

    def add(self, class_name: str, paths: Iterable[Path]) -> None:
        """Add an entity."""
        if self.count % self.stride == 0 or class_name not in self.first:
            pattern = tuple(path for path in paths if without_places(path) == path)
            self.first.setdefault(class_name, pattern)
            if self.count % self.stride == 0:
                self.kept.append((class_name, pattern))
        self.count += 1
        if len(self.kept) == 2 * MAX_PATTERN_ENTITIES:
            self.kept, self.stride = self.kept[::2], 2 * self.stride

    def patterns(self, number: Mapping[tuple[str, Path], int]) -> Patterns:
        """The patterns as slots, by the number of each class and path; the most frequent first."""
        counts: dict[str, Counter[tuple[int, ...]]] = {}
        sampled_classes = {class_name for class_name, _ in self.kept}
        for class_name, paths in (
            *self.kept,
            *(entry for entry in self.first.items() if entry[0] not in sampled_classes),
        ):
            slots = sorted(number[class_name, path] for path in paths if (class_name, path) in number)
            counts.setdefault(class_name, Counter())[tuple(slots)] += 1
        return {class_name: dict(counts[class_name].most_common()) for class_name in sorted(counts)}


@dataclass
class TrainingValues:
    """The values, links and paths of training entities."""

    pools: Pools
    values: dict[Source, list[Any]] = field(default_factory=dict)  # by source
    counts: dict[tuple[str, Path], Counter[str]] = field(
        default_factory=dict
    )  # by class and path, the number of entities of each class
    classes: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)  # the id and all classes of each entity
    superclasses: Superclasses = field(default_factory=Superclasses)
    entities: Counter[str] = field(default_factory=Counter)  # of each class
    names: dict[str, str] = field(default_factory=dict)  # labels by id, where there are links
    evidence: TrainingEvidence = field(default_factory=lambda: TrainingEvidence({}, {}, frozenset(), Propagation()))
    pattern_sample: PatternSample = field(default_factory=PatternSample)
    unlearnt: set[tuple[str, Path]] = field(default_factory=set)  # paths that no property is for

    def list_of(self, class_name: str, path: Path) -> list[Any]:
        """The list of the values at a path of a class, those of its source; one for itself where the schema does not have it."""
        source = self.pools.shared.get(Source(class_name, pattern(path)))
        return [] if source is None else self.values.setdefault(source, [])


@dataclass(frozen=True)
class Fitted:
    """The fitted parts of a codec."""

    slots: tuple[Slot, ...]
    left_out: Mapping[tuple[str, Path], str]
    tokenizer: Tokenizer | None
    patterns: Patterns
    unlearnt: frozenset[tuple[str, Path]]
    entities: Mapping[str, int]
    superclasses: Superclasses
    propagation: Propagation


def fit(
    schema: Schema,
    entities: Iterable[Entity | Reading],
    config: CodecConfig,
    graph: Graph | None,
    hierarchy: Hierarchy | None = None,
    chain_search: ChainSearch = UNLIMITED,
    unlearnt: Collection[tuple[str, Path]] | None = None,
) -> Fitted:
    """Fit a codec to entities. Without a hierarchy superclasses are those that these entities state; likewise `unlearnt` paths."""
    gathered = gather(schema, entities, config, graph, hierarchy, chain_search, unlearnt)
    pools = gathered.pools
    leaves = {source: pools.leaves[source] for source in gathered.values}
    leaves |= {source: incoming_leaf(str(source.path[0])[1:]) for source in gathered.evidence.sources}
    values: dict[Source, list[Any]] = {**gathered.values, **gathered.evidence.sources}
    if any(classes for _, classes in gathered.classes):
        leaves[CLASS_SOURCE] = class_leaf()
        values[CLASS_SOURCE] = [name for entity in gathered.classes for name in gathered.superclasses.of(*entity)]
    kinds = {source: learnt_kind(leaf) for source, leaf in leaves.items()}
    order = sorted(leaves, key=source_key)
    columns = [(leaves[source], kinds[source], values[source]) for source in order]
    tokenizer = _fit_tokenizer(columns, config, gathered.names)

    codecs = {
        source: LEARNT_KINDS[kind].codec.fit(learnt_leaf(leaf), known, config.kinds[kind], tokenizer)
        for source, (leaf, kind, known) in zip(order, columns, strict=True)
    }
    if gathered.names:
        codecs = {
            source: codec.with_names(gathered.names) if hasattr(codec, "with_names") else codec
            for source, codec in codecs.items()
        }
    entropies = {source: _entropy_of(kinds[source])(values[source], codecs[source]) for source in gathered.values}
    counts = {source: len(values[source]) for source in order}
    groups = groups_of(kinds, counts, lambda of_kind: SHARING[config.sharing](of_kind, config.own, config.enough))
    builder = SlotBuilder(gathered, leaves, kinds, codecs, groups, entropies)
    slots = tuple(_numbered([*builder.own_slots(), *builder.evidence_slots(config.evidence.values)]))
    lacking = sorted(
        (source for source, pooled in pools.shared.items() if pooled not in gathered.values), key=source_key
    )
    left_out: dict[tuple[str, Path], str] = {(source.class_name, source.path): NO_VALUE for source in lacking}
    number = {
        (class_name, slot.path): place
        for place, slot in enumerate(slots)
        if slot.role == "value"
        for class_name in pools.members[Source(slot.class_name, pattern(slot.path))]
    }
    return Fitted(
        slots,
        left_out,
        tokenizer,
        gathered.pattern_sample.patterns(number),
        frozenset(gathered.unlearnt),
        dict(gathered.entities),
        gathered.superclasses,
        gathered.evidence.propagation,
    )


def gather(
    schema: Schema,
    entities: Iterable[Entity | Reading],
    config: CodecConfig,
    graph: Graph | None,
    hierarchy: Hierarchy | None = None,
    chain_search: ChainSearch = UNLIMITED,
    unlearnt: Collection[tuple[str, Path]] | None = None,
) -> TrainingValues:
    """The values of entities, each read once. Evidence comes over the links of the graph; without one, of these entities."""
    gathered = TrainingValues(Pools.of(schema, config.pooling))
    linked_entities = Graph(schema) if graph is None else graph
    has_links = any(linked_entities.linking.values())
    has_evidence = has_links and (
        config.evidence.outgoing or config.evidence.incoming or config.evidence.several or config.evidence.chains
    )
    receivers: list[tuple[str, str, Mapping[Path, Any]]] = []
    finder = Unlearnt(schema)
    stated: dict[str, Collection[str]] = {}
    lists: dict[str, dict[Path, list[Any]]] = {name: {} for name in schema.classes}  # of the values at each path
    counts: dict[str, Counter[Path]] = {name: Counter() for name in schema.classes}
    places: list[tuple[str, Path]] = []  # classes and paths, in the order of the entities
    for reading in read_all(schema, entities):
        if hierarchy is None:
            stated |= hierarchy_of([reading.entity])
        if unlearnt is None:
            finder.note(reading.entity)
        gathered.entities[reading.class_name] += 1
        gathered.pattern_sample.add(reading.class_name, reading.leaves)
        if has_links and reading.label:
            gathered.names[reading.id] = reading.label
        of_class = lists[reading.class_name]
        for path, value in reading.leaves.items():
            if path not in of_class:
                of_class[path] = gathered.list_of(reading.class_name, path)
                places.append((reading.class_name, path))
            of_class[path].append(value)
        counts[reading.class_name].update(reading.leaves.keys())
        if config.pooling:
            gathered.classes.append((reading.id, reading.classes))
        if has_evidence:
            receivers.append((reading.id, reading.class_name, reading.leaves))
            if graph is None:
                linked_entities.add(*receivers[-1])
    gathered.unlearnt = finder.noted if unlearnt is None else set(unlearnt)
    for class_name, path in places:
        source = gathered.pools.shared.get(Source(class_name, pattern(path)))
        if source is not None:
            gathered.counts.setdefault((source.class_name, path), Counter())[class_name] = counts[class_name][path]
    stated = dict(stated if hierarchy is None else hierarchy)
    for name, above in hierarchy_of_schema(schema).items():
        stated[name] = tuple(dict.fromkeys((*stated.get(name, ()), *above)))
    gathered.superclasses = Superclasses.fit(stated, (classes for _, classes in gathered.classes))
    if has_evidence:
        gathered.evidence = collect_evidence(
            Evidence(schema, linked_entities, config.evidence, gathered.pools), receivers, chain_search
        )
    return gathered


@dataclass(frozen=True)
class SlotBuilder:
    """Makes slots; leaves, kinds, codecs, groups and entropies are by the sources of codecs."""

    gathered: TrainingValues
    leaves: Mapping[Source, Any]
    kinds: Mapping[Source, str]
    codecs: Mapping[Source, Any]
    groups: Mapping[Source, int]
    entropies: Mapping[Source, float]

    def own_slots(self) -> Iterable[tuple[Slot, Path]]:
        """A slot for each path that a training entity has, with the property that it is a part of."""
        pools = self.gathered.pools
        for (class_name, path), counts in self.gathered.counts.items():
            source = Source(class_name, pattern(path))
            place = pools.places[source]
            entities = sum(self.gathered.entities[name] for name in pools.members[source])
            role: Role = "given" if place.given else "value"
            yield self._slot(source, class_name, path, role, None, counts.total(), entities, counts), place.property
        if CLASS_SOURCE in self.leaves:
            entities = self.gathered.entities.total()
            yield self._slot(CLASS_SOURCE, *CLASS_SOURCE, "evidence", None, entities, entities), CLASSES

    def evidence_slots(self, most: int) -> Iterable[tuple[Slot, Path]]:
        """A slot for each path of evidence whose values have a codec, with a key of its own as the property."""
        evidence, entities = self.gathered.evidence, self.gathered.entities
        counts = {
            (class_name, over): count
            for (class_name, over), count in evidence.counts.items()
            if self._source(class_name, over) in self.codecs
            and (not over.aggregate or (class_name, over) in evidence.screened)
        }
        for class_name, over in select_evidence(counts, most):
            path, source = evidence_path(class_name, over), self._source(class_name, over)
            number = entities[class_name] if class_name in entities else entities.total()
            slot = self._slot(source, class_name, path, "evidence", over, counts[class_name, over], number)
            yield slot, (over.class_name, *path)

    def _source(self, class_name: str, over: Over) -> Source:
        if over.incoming and not over.aggregate:
            return incoming_source(class_name, over)
        return self.gathered.pools.source(over.class_name, pattern(over.read))

    def _slot(
        self,
        source: Source,
        class_name: str,
        path: Path,
        role: Role,
        over: Over | None,
        count: int,
        entities: int,
        counts: Mapping[str, int] | None = None,
    ) -> Slot:
        return Slot(
            class_name=class_name,
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


def _numbered(slots: Iterable[tuple[Slot, Path]]) -> Iterator[Slot]:
    """Slots in order; the parts of one property have the same unit."""
    units: dict[Any, int] = {}
    key = slot_order()
    for slot, property in sorted(slots, key=lambda pair: key(pair[0])):
        yield replace(slot, unit=units.setdefault((slot.class_name, property, slot.over), len(units)))


def _fit_tokenizer(
    columns: Iterable[tuple[Any, str, Sequence[Any]]], config: CodecConfig, names: Names
) -> Tokenizer | None:
    """The tokenizer of all text, and of labels that are embedded by their text; columns are leaf, kind, values."""
    texts: list[str] = []
    for leaf, kind, values in columns:
        settings = config.kinds[kind]
        if isinstance(leaf, TextLeaf):
            texts.extend(value.text if isinstance(value, Text) else value for value in values)
        elif getattr(settings, "labels", "") == "text" or (names and getattr(settings, "text", False)):
            texts.extend(_labels(leaf, values, names))
    return Tokenizer.fit(texts, config.kinds["text"].vocabulary)


def _labels(leaf: Any, values: Sequence[Any], names: Names) -> Iterator[str]:
    """The labels of values and of the schema, and the labels of linked entities, as text: each once, sorted."""
    members = [member for value in values for member in value] if isinstance(leaf, Set) else values
    stated = getattr(leaf.of if isinstance(leaf, Set) else leaf, "values", ())
    labels = {label.id if isinstance(label, Link) else str(label) for label in (*stated, *members)}
    yield from sorted(names.get(label, label) for label in labels)


# ---------------------------------------------------------------- the entropy of a property


def _entropy_of(kind: str) -> Callable[[Sequence[Any], Any], float]:
    """The entropy of values of a kind, by its row."""
    return load_part(KINDS[kind].entropy) or _of_values


def _of_values(values: Sequence[Any], codec: Any) -> float:
    """The entropy of the frequencies of values."""
    has_booleans = bool in set(map(type, values))
    return _entropy(Counter(map(_hashable, values) if has_booleans else values).values())


def entropy_of_texts(values: Sequence[Any], codec: Any) -> float:
    """The entropy of the frequencies of tokens, times the mean number of tokens of a text."""
    some = values[:: max(1, len(values) // MAX_TEXTS_COUNTED)]
    codes = codec.encode(some)
    tokens = codes[codes > 0]
    return _entropy(tokens.bincount().tolist()) * len(tokens) / len(some)


def entropy_of_sets(values: Sequence[Any], codec: Any) -> float:
    """The entropy of the membership of each label."""
    members = Counter(label for value in values for label in {_hashable(member) for member in value})
    return sum(_entropy((count, len(values) - count)) for count in members.values())


def _entropy(counts: Iterable[int]) -> float:
    shares = [count for count in counts if count]
    total = sum(shares)
    return sum(count / total * math.log(total / count) for count in shares)


def _hashable(value: Any) -> Any:
    """A key of a value: 1 and true differ."""
    return (value, isinstance(value, bool))


def patterns_to_json(patterns: Patterns) -> dict[str, list[list[object]]]:
    """Patterns as plain data."""
    return {
        class_name: [[count, list(slots)] for slots, count in counts.items()] for class_name, counts in patterns.items()
    }


def patterns_from_json(data: Mapping[str, Sequence[tuple[int, Sequence[int]]]], slots: int) -> Patterns:
    """The patterns of a codec with so many slots; ValueError for a number that is no slot or no count."""
    patterns = {class_name: {tuple(numbers): count for count, numbers in counts} for class_name, counts in data.items()}
    for class_name, counts in patterns.items():
        for numbers, count in counts.items():
            if not all(type(number) is int and 0 <= number < slots for number in numbers):
                raise ValueError(f"patterns: {class_name}: expected numbers of {slots} slots, got {list(numbers)!r}")
            if type(count) is not int or count < 1:
                raise ValueError(f"patterns: {class_name}: expected how many entities have it, got {count!r}")
    return patterns
