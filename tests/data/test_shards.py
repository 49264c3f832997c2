"""Data sets in shards are those that are encoded at once, in smaller integers, and leave no files."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tables import for_each
from worlds import PHONES, WORLD, phones, world

from kbdisk.data import Codec, scratch
from kbdisk.data.dataset import Batch, Tokens
from kbdisk.data.encode import Encoding
from kbdisk.data.graph import Graph
from kbdisk.data.link_aggregates import Groups, IncomingLinks
from kbdisk.data.links import KnownPaths
from kbdisk.data.parse import Parsed, Reading, read_all
from kbdisk.data.propagation import Relations
from kbdisk.data.shards import GrowingArray
from kbdisk.entity import Entity
from kbdisk.errors import SchemaError, WriteError
from kbdisk.schemas.kinds import Category
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema

INTEGERS = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-200, 200), max_size=5)
KNOWLEDGE_BASES = {"phones": (PHONES, phones()), "world": (WORLD, world())}
CODECS = {name: Codec.fit(schema, entities) for name, (schema, entities) in KNOWLEDGE_BASES.items()}


def in_shards_of(
    monkeypatch: pytest.MonkeyPatch, size: int, codec: Codec, entities: list[Entity] | list[Reading]
) -> Tokens:
    monkeypatch.setattr("kbdisk.data.codec.ENTITIES_PER_SHARD", size)
    monkeypatch.setattr("kbdisk.data.shards.MAX_ENTITIES_IN_MEMORY", size)
    return codec.encode(entities, "gaps", Graph.read(codec.schema, entities))


def assert_equal(batch: Batch, other: Batch) -> None:
    for name, value in vars(other).items():
        if torch.is_tensor(value):
            assert torch.equal(vars(batch)[name], value)
            assert vars(batch)[name].dtype == value.dtype
    assert batch.spans == other.spans
    for kind, codes in other.values.items():
        assert torch.equal(batch.values[kind], codes)
        assert batch.values[kind].dtype == codes.dtype


@for_each("name", KNOWLEDGE_BASES)
@for_each("size", [1, 3, 7])
def test_batches_of_shards_are_those_of_a_data_set_that_is_encoded_at_once(monkeypatch, name, size):
    codec, entities = CODECS[name], KNOWLEDGE_BASES[name][1]
    at_once = in_shards_of(monkeypatch, len(entities), codec, entities)
    tokens = in_shards_of(monkeypatch, size, codec, entities)
    assert (tokens.ids, tokens.unread) == (at_once.ids, at_once.unread)
    for indices in (torch.arange(len(entities)), torch.arange(len(entities)).flip(0)[:9]):
        draws = [torch.Generator().manual_seed(1) for _ in range(2)]
        assert_equal(tokens.batch(indices, 3, draws[0]), at_once.batch(indices, 3, draws[1]))
        assert torch.equal(tokens.lacking(indices), at_once.lacking(indices))
    assert torch.equal(tokens.units, at_once.units)
    assert torch.equal(tokens.free, at_once.free)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks safely")
@for_each("name", KNOWLEDGE_BASES)
def test_shards_that_other_processes_encode_are_those_of_this_one(monkeypatch, name):
    codec, entities = CODECS[name], KNOWLEDGE_BASES[name][1]
    data_sets = []
    for processes in (1, 3):
        monkeypatch.setattr("kbdisk.data.codec.usable_processes", lambda count=processes: count)
        data_sets.append(in_shards_of(monkeypatch, 4, codec, entities))
    everything = torch.arange(len(entities))
    assert_equal(data_sets[1].batch(everything), data_sets[0].batch(everything))
    assert data_sets[1].ids == data_sets[0].ids


@for_each("name", KNOWLEDGE_BASES)
def test_a_graph_with_the_values_that_evidence_reads_brings_the_same_evidence(name):
    codec, entities = CODECS[name], KNOWLEDGE_BASES[name][1]
    everything, read = Graph.read(codec.schema, entities), codec.graph(entities)
    batches = [codec.encode(entities, "gaps", graph).batch(torch.arange(len(entities))) for graph in (everything, read)]
    assert_equal(batches[1], batches[0])
    paths = [{path for of_class in graph.holders().values() for path in of_class} for graph in (everything, read)]
    assert paths[1] < paths[0] or name == "phones"


def test_what_entities_share_is_computed_before_others_are_encoded(monkeypatch):
    codec, entities = CODECS["world"], KNOWLEDGE_BASES["world"][1]
    evidence = codec.evidence(Graph.read(WORLD, entities), entities)

    def computed_again(*arguments: object) -> None:
        raise AssertionError

    for shared in (Groups, Relations, KnownPaths, IncomingLinks):
        monkeypatch.setattr(shared, "of", computed_again)
    monkeypatch.setattr(Graph, "_read_arrays", computed_again)
    encoding = Encoding(codec.index, lambda reading, table: (), evidence)
    for reading in read_all(WORLD, entities):
        encoding.add(reading)
    assert len(encoding.tokens()) == len(entities)


def test_an_entity_of_a_class_that_the_schema_lacks_is_refused_in_any_shard(monkeypatch):
    monkeypatch.setattr("kbdisk.data.codec.ENTITIES_PER_SHARD", 4)
    with pytest.raises(SchemaError, match="stranger: expected a class of"):
        CODECS["world"].encode([*world(), Entity("stranger", {}, ("Planet",))])


def test_what_cannot_be_encoded_is_named_in_every_shard(monkeypatch):
    schema = Schema({"Thing": Class("Thing", {("size",): Property(Category(("S", "M", "L"), closed=True))})})
    sizes = ["S", "M", "L", "S", "M"]
    things = [Entity(f"t{number}", {"size": size}, ("Thing",)) for number, size in enumerate(sizes)]
    codec = Codec.fit(schema, things)
    odd = [replace(things[0], tree={"size": "XL"}), *things, replace(things[1], tree={"size": "XS"})]
    readings = [
        Reading(thing.id, "Thing", ("Thing",), None, {("size",): thing.tree["size"]}, [], [], [], Parsed({}, thing))
        for thing in odd
    ]
    at_once = in_shards_of(monkeypatch, len(odd), codec, readings)
    assert in_shards_of(monkeypatch, 2, codec, readings).unread == at_once.unread
    assert len(at_once.unread) == 2


def test_a_data_set_of_a_single_shard_has_small_integers():
    codec = CODECS["phones"]
    tokens = codec.encode(phones())
    assert tokens.slot.dtype == tokens.row.dtype == torch.int32
    assert tokens.unit.dtype == tokens.held.dtype == torch.int8
    assert tokens.batch(torch.arange(3)).slot.dtype == torch.int64


@given(st.lists(INTEGERS, min_size=1, max_size=5), st.integers(0, 5))
def test_a_growing_array_is_its_blocks_in_the_smallest_integers(blocks, moved):
    growing = GrowingArray()
    for place, block in enumerate(blocks):
        if place == moved:
            growing.move_to_file(None)
        growing.append(np.array(block, np.int64))
    values = list(chain.from_iterable(blocks))
    tensor = growing.tensor()
    assert tensor.tolist() == values
    if values:
        needed = [kind for kind in (torch.int8, torch.int16, torch.int32, torch.int64) if fits(values, kind)]
        assert tensor.dtype == needed[0]


def fits(values: list[int], kind: torch.dtype) -> bool:
    return torch.iinfo(kind).min <= min(values) and max(values) <= torch.iinfo(kind).max


def test_rows_of_other_shapes_and_numbers_stay_as_they_are(tmp_path):
    growing, block = GrowingArray(), np.array([[0.5, np.nan], [1e30, -0.0]], np.float32)
    growing.move_to_file(tmp_path)
    for _ in range(2):
        growing.append(block)
    assert growing.tensor().numpy().tobytes() == np.concatenate([block, block]).tobytes()


def test_a_change_of_a_mapped_array_stays_in_memory(tmp_path):
    growing = GrowingArray()
    growing.move_to_file(tmp_path)
    growing.append(np.arange(5))
    growing.tensor()[2] = 7
    assert growing.tensor().tolist() == [0, 1, 2, 3, 4]


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    growing, folder = GrowingArray(), tmp_path / "missing"
    with pytest.raises(WriteError, match=f"^{folder}: expected room for what memory cannot hold, got 'no such file"):
        growing.move_to_file(folder)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_full_disk_is_refused_in_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr(scratch.tempfile, "TemporaryFile", lambda dir: open("/dev/full", "r+b", buffering=0))  # noqa: SIM115, PTH123
    growing = GrowingArray()
    growing.move_to_file(tmp_path)
    with pytest.raises(WriteError, match="got 'no space left on device'"):
        growing.append(np.arange(1000))
