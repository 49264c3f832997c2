"""The codec: entities to tokens, and tokens back to leaf values. It is fitted to training entities alone, and is plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any, TypeAlias

import torch
from torch import Tensor

from kbdisk.data.config import CodecConfig
from kbdisk.data.dataset import Batch, Tokens
from kbdisk.data.encode import Encoding, Index
from kbdisk.data.fit import Patterns, fit, patterns_from_json, patterns_to_json
from kbdisk.data.graph import Graph, pattern
from kbdisk.data.links import Evidence
from kbdisk.data.parse import Reading, Unlearnt, read, read_all
from kbdisk.data.pooling import Pools
from kbdisk.data.propagation import UNLIMITED, ChainSearch, Propagation
from kbdisk.data.queries import asking
from kbdisk.data.shards import ENTITIES_PER_SHARD, ShardedTokens
from kbdisk.data.slots import CLASSES, Over, Slot, Source, class_leaf, incoming_leaf
from kbdisk.data.spool import spooled
from kbdisk.data.superclasses import Hierarchy, Superclasses
from kbdisk.entity import Entity, Path, Tree
from kbdisk.errors import SchemaError
from kbdisk.heap import return_freed_memory
from kbdisk.leaves.registry import LEARNT_KINDS
from kbdisk.leaves.tokenizer import Tokenizer
from kbdisk.parallel import parallel_map, usable_processes
from kbdisk.schemas.composites import show_pattern
from kbdisk.schemas.kinds import nearest
from kbdisk.schemas.schema import Schema

SAMPLED_ENTITIES = 64  # about, that are encoded to fill the caches of evidence
SLOT_FIELDS = ("kind", "role", "group", "unit", "count", "fill", "entropy", "counts")

Counts: TypeAlias = Mapping[tuple[str, Path], int]  # by class and pattern


@dataclass(frozen=True, eq=False)
class Codec:
    """Encodes the entities of a schema as tensors, and decodes them."""

    schema: Schema
    config: CodecConfig
    slots: tuple[Slot, ...]
    left_out: Mapping[tuple[str, Path], str]  # paths of classes that have no slot, and why
    tokenizer: Tokenizer | None  # of all text; None where there is none
    patterns: Patterns = field(default_factory=dict)  # the sets of slots that training entities have
    held_out: Counts = field(default_factory=dict)  # the number of held-out entities that have each
    unlearnt: frozenset[tuple[str, Path]] = frozenset()  # paths of entities that no property is for
    entities: Mapping[str, int] = field(default_factory=dict)  # training entities of each class
    superclasses: Superclasses = field(default_factory=Superclasses)  # visible beside the classes of entities
    propagation: Propagation = field(default_factory=Propagation)  # of numbers over chains of links

    @classmethod
    def fit(
        cls,
        schema: Schema,
        entities: Iterable[Entity | Reading],
        config: CodecConfig | None = None,
        graph: Graph | None = None,
        hierarchy: Hierarchy | None = None,
        chain_search: ChainSearch = UNLIMITED,
        unlearnt: Collection[tuple[str, Path]] | None = None,
    ) -> Codec:
        """Fit a codec to training entities, read once. Evidence comes over the links of the graph; without one, of these entities.

        `hierarchy` has the direct superclasses of classes, and `unlearnt` the paths by class that no property is for; without
        them, those of these entities. `chain_search` limits the search for chains of links, and reports its progress.
        """
        config = replace(config or CodecConfig())  # adds the defaults of kinds that were added since it was made
        fitted = fit(schema, entities, config, graph, hierarchy, chain_search, unlearnt)
        return cls(
            schema,
            config,
            fitted.slots,
            fitted.left_out,
            fitted.tokenizer,
            fitted.patterns,
            {},
            fitted.unlearnt,
            fitted.entities,
            fitted.superclasses,
            fitted.propagation,
        )

    def with_held_out(
        self, held_out: Iterable[Entity | Reading], unlearnt: Collection[tuple[str, Path]] | None = None
    ) -> Codec:
        """Itself with counts of the values of held-out entities. It is not fitted to these values.

        `unlearnt` are the paths by class that no property is for; without them, those of these entities are found.
        """
        counts, finder = Counter[tuple[str, Path]](), Unlearnt(self.schema)
        finder.noted |= set(self.unlearnt)
        for reading in read_all(self.schema, held_out):
            counts.update((reading.class_name, pattern(path)) for path in reading.leaves)
            if unlearnt is None:
                finder.note(reading.entity)
        return replace(self, held_out=dict(counts), unlearnt=frozenset(finder.noted | set(unlearnt or ())))

    @cached_property
    def index(self) -> Index:
        """The slots by class and path, by leaf codec, and as arrays."""
        return Index(self.schema, self.slots, self.pools, self.entities, self.superclasses)

    @cached_property
    def pools(self) -> Pools:
        """The properties of classes that share a slot."""
        return Pools.of(self.schema, self.config.pooling)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the schema's classes, by their numbers in a batch."""
        return self.index.classes

    def slot(self, class_name: str, path: Path) -> int | None:
        """The number of a class's own slot at a path; None where there is none."""
        return self.index.tables[class_name].slot.get(path)

    def learnt_as(self, class_name: str, path: Path) -> tuple[str, str]:
        """The class and the path whose row of scores is that of a property of a class."""
        key = class_name, path
        if key not in self._sources:  # asked for each gap, and for each number that has an interval
            source = self.pools.source(class_name, pattern(path))
            self._sources[key] = source.class_name, show_pattern(source.path)
        return self._sources[key]

    @cached_property
    def _sources(self) -> dict[tuple[str, Path], tuple[str, str]]:
        """A cache of `learnt_as`."""
        return {}

    def group_of(self, slot: int) -> str:
        """The group of slots that one entity may have: those of a class, or all where classes share properties."""
        return "" if self.config.pooling else self.slots[slot].class_name

    def encode(
        self,
        entities: Iterable[Entity | Reading],
        ask: str | Collection[Path] = "nothing",
        graph: Graph | None = None,
        folder: FilePath | None = None,
    ) -> Tokens:
        """Entities as tokens. They are asked for `nothing`, for their `gaps`, for `all` that they lack, or for paths.

        Evidence comes over the links of the graph; without one, over the links among these entities. Forked processes divide the
        shards among themselves. Tokens of many entities are in files of a folder: see `shards`. SchemaError where the schema has
        no class for an entity.
        """
        wanted = asking(ask, self.index.tables.values(), self.left_out)
        if self.index.over and graph is None:
            entities = [self._read(entity) for entity in entities]
            graph = self.graph(entities)
        known = entities if isinstance(entities, Sequence) else spooled(entities, folder)
        starts = range(0, max(len(known), 1), ENTITIES_PER_SHARD)
        evidence = None
        if self.index.over and graph is not None:
            evidence = self.evidence(graph, known if len(starts) > 1 else ())

        def encode_shard(start: int) -> Tokens:
            encoding = Encoding(self.index, wanted, evidence)
            for entity in known[start : start + ENTITIES_PER_SHARD]:
                encoding.add(self._read(entity))
            return encoding.tokens()

        tokens = ShardedTokens(folder)
        for shard in parallel_map(encode_shard, starts, usable_processes()):
            tokens.append(shard)
        return tokens.tokens()

    def graph(self, entities: Iterable[Entity | Reading]) -> Graph:
        """The graph of some entities, with the values that their evidence over links reads."""
        return Graph.read(self.schema, entities, self._read_paths)

    @cached_property
    def _read_paths(self) -> frozenset[Path]:
        return frozenset(over.read for _, over in self.index.over) | {source.path for source in self.propagation.reads}

    def evidence(self, graph: Graph, shared_by: Sequence[Entity | Reading] = ()) -> Evidence:
        """The evidence over the links of a graph, as far as there are slots for it.

        Evidence has caches, such as the graph as arrays. A sample of the entities `shared_by` is encoded to fill them, so that
        processes that are forked later share them.
        """
        evidence = Evidence(self.schema, graph, self.config.evidence, self.pools, self.index.over, self.propagation)
        if shared_by:
            encoding = Encoding(self.index, lambda reading, table: (), evidence)
            for entity in shared_by[:: len(shared_by) // SAMPLED_ENTITIES + 1]:
                encoding.add(self._read(entity))
            encoding.tokens()
            return_freed_memory()
        return evidence

    def leaves(self, batch: Batch, wanted: Tensor) -> list[dict[Path, Any]]:
        """The values of some known tokens (T,) of a batch by path, entity by entity.

        Composites whose parts were drawn one by one are repaired to valid values.
        """
        leaves, composites = self._decoded(batch, wanted), self.index.composites
        if composites.is_part.any():
            part = torch.from_numpy(composites.is_part).to(batch.slot.device)[batch.slot]  # (T,)
            if bool((part & wanted).any()):
                beside = self._decoded(batch, part & batch.known & ~wanted)
                for number, drawn, known in zip(batch.classes.tolist(), leaves, beside, strict=True):
                    composites.repair(self.classes[number], drawn, known)
        return leaves

    def _decoded(self, batch: Batch, wanted: Tensor) -> list[dict[Path, Any]]:
        leaves: list[dict[Path, Any]] = [{} for _ in range(batch.size)]
        classes = batch.classes.tolist()
        column = torch.from_numpy(self.index.column).to(batch.slot.device)[batch.slot]  # (T,)
        for kind, (start, end) in batch.spans.items():
            tokens = wanted[start:end].nonzero()[:, 0] + start
            for which in sorted(set(column[tokens].tolist())):
                of_codec = tokens[column[tokens] == which]
                values = self.index.columns[which].codec.decode(batch.values[kind][of_codec - start])
                of_entity, of_slot = batch.entity[of_codec].tolist(), batch.slot[of_codec].tolist()
                for entity, slot, value in zip(of_entity, of_slot, values, strict=True):
                    if value is not None:  # a label without a name
                        name = self.classes[classes[entity]]
                        leaves[entity][self.slots[slot].path] = self.fitted_to_class(name, slot, value)
        return leaves

    def fitted_to_class(self, class_name: str, slot: int, value: Any) -> Any:
        """Rounds and clips a value to the decimals and bounds of one class, which may be narrower than those of its pool."""
        if not self.config.pooling or self.slots[slot].kind != "number":
            return value
        source = Source(class_name, pattern(self.slots[slot].path))
        place = self.pools.places.get(source)
        if place is None or len(self.pools.members[self.pools.shared[source]]) == 1:
            return value
        return nearest(place.leaf, value)

    def trees(self, batch: Batch, wanted: Tensor, entities: Sequence[Entity] = ()) -> list[Tree]:
        """The same as trees: one for each entity, of these values alone.

        With the batch's entities properties are complete: a number that was asked for has its given unit. A list of which
        only the length was drawn is left out, and so is an entry of a map without a key.
        """
        names = [self.classes[number] for number in batch.classes.tolist()]
        leaves_of_entities = self.leaves(batch, wanted)
        given = [self.schema.leaves(entity) for entity in entities] or [{} for _ in leaves_of_entities]
        for known, name, leaves in zip(given, names, leaves_of_entities, strict=True):
            at = self.index.tables[name].property
            touched = {at[path] for path in leaves}
            for path, value in known.items():
                if any(path[: len(path_touched)] == path_touched for path_touched in touched):
                    leaves.setdefault(path, value)
            self.index.lists.repair(name, leaves, known)
        return [self.schema.tree(leaves, name) for leaves, name in zip(leaves_of_entities, names, strict=True)]

    def to_json(self) -> dict[str, Any]:
        """Itself as plain data, without the schema and the tokenizer, which have files of their own."""
        return {
            "config": self.config.to_json(),
            "codecs": [
                {"kind": column_codec.kind, "data": column_codec.codec.to_json()} for column_codec in self.index.columns
            ],
            "slots": [
                _slot_to_json(slot, column) for slot, column in zip(self.slots, self.index.column.tolist(), strict=True)
            ],
            "left_out": [[class_name, list(path), why] for (class_name, path), why in self.left_out.items()],
            "patterns": patterns_to_json(self.patterns),
            "held_out": [[class_name, list(path), count] for (class_name, path), count in self.held_out.items()],
            "entities": dict(self.entities),
            "superclasses": self.superclasses.to_json(),
            "unlearnt": [[class_name, list(path)] for class_name, path in sorted(self.unlearnt)],
            "propagation": self.propagation.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], schema: Schema, tokenizer: Tokenizer | None = None) -> Codec:
        """Itself again; ValueError where the schema does not have what it needs."""
        codecs = [
            LEARNT_KINDS[codec_data["kind"]].codec.from_json(codec_data["data"], tokenizer)
            for codec_data in data["codecs"]
        ]
        config = CodecConfig.from_json(data["config"])
        pools = Pools.of(schema, config.pooling)
        slots = tuple(_slot_from_json(slot, codecs, pools) for slot in data["slots"])
        left_out = {(class_name, tuple(path)): why for class_name, path, why in data["left_out"]}
        patterns = patterns_from_json(data["patterns"], len(slots))
        held_out = {(class_name, tuple(path)): count for class_name, path, count in data.get("held_out", [])}
        unlearnt = frozenset((class_name, tuple(path)) for class_name, path in data.get("unlearnt", []))
        superclasses = Superclasses.from_json(data.get("superclasses", {}))
        entities = dict(data["entities"])
        propagation = Propagation.from_json(data["propagation"], pools)
        return cls(
            schema,
            config,
            slots,
            left_out,
            tokenizer,
            patterns,
            held_out,
            unlearnt,
            entities,
            superclasses,
            propagation,
        )

    def _read(self, entity: Entity | Reading) -> Reading:
        if isinstance(entity, Reading):
            return entity
        reading = read(self.schema, entity)
        if reading is None:
            classes = ", ".join(name or "no name" for name in self.schema.classes)
            got = ", ".join(entity.classes) or "none"
            raise SchemaError(entity.id, f"expected a class of {classes}, got {got}. Leave it out, or add its class.")
        return reading


def _slot_to_json(slot: Slot, column: int) -> dict[str, Any]:
    """A slot as plain data: its leaf is the schema's, `column` the number of its leaf codec."""
    over: dict[str, Any] | None = None
    if slot.over is not None:
        over = {"of": slot.over.class_name, "link": list(slot.over.link), "read": list(slot.over.read)}
        over |= {"told": slot.over.aggregate, "whole": slot.over.total}
    fields = {"of": slot.class_name} | {name: getattr(slot, name) for name in SLOT_FIELDS}
    incoming = slot.over is not None and slot.over.incoming
    return {**fields, "path": list(slot.path), "codec": column, "over": over, "incoming": incoming}


def _slot_from_json(data: Mapping[str, Any], codecs: Sequence[Any], pools: Pools) -> Slot:
    """The slot again; ValueError where the schema does not have its leaf."""
    link, over = data["over"], None
    if link is not None:
        over = Over(link["of"], _path(link["link"]), _path(link["read"]), data["incoming"], link["told"], link["whole"])
    path = _path(data["path"])
    if over is not None and over.incoming and not over.aggregate:
        leaf: Any = incoming_leaf(over.class_name)
    elif data["role"] == "evidence" and path == CLASSES:
        leaf = class_leaf()
    else:
        source = pools.source(over.class_name, pattern(over.read)) if over else Source(data["of"], pattern(path))
        if source not in pools.leaves:
            raise ValueError(
                f"expected a schema with {show_pattern(source.path)} of {source.class_name!r}, got none there"
            )
        leaf = pools.leaves[source]
    fields = {name: data[name] for name in SLOT_FIELDS}
    return Slot(class_name=data["of"], **fields, path=path, leaf=leaf, codec=codecs[data["codec"]], over=over)


def _path(keys: Sequence[str | int]) -> Path:
    return tuple(keys)
