"""A spool gives back the items that were put into it, and a job with spools gives what one without them does."""

from __future__ import annotations

import os
import pickle
import signal
from dataclasses import replace
from decimal import Decimal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from models import phones, tiny_run

from kbdisk.data import codec, dataset, shards, spool
from kbdisk.data.parse import read_all
from kbdisk.data.spool import ITEMS_PER_BLOCK, Selection, Spool, selected, spooled
from kbdisk.entity import NOVALUE, SOMEVALUE, Coordinate, Date, Entity, Link, Quantity, Text
from kbdisk.experts.queries import usual_amounts
from kbdisk.loaders import load
from kbdisk.metrics import Constants
from kbdisk.schemas.kinds import Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema
from kbdisk.training.checkpoint import fingerprint
from kbdisk.training.data import Data
from kbdisk.training.presence import lacking_together
from kbdisk.training.split import split

VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.sampled_from(
        [SOMEVALUE, NOVALUE, Date(1999, 12, 31), Quantity(1.5, "kg"), Coordinate(1.0, 2.0), Decimal("1.50")]
    )
    | st.text().map(Link)
    | st.text().map(lambda text: Text(text, "en"))
)
TREES = st.dictionaries(
    st.text(), st.recursive(VALUES, lambda inner: st.lists(inner, max_size=3), max_leaves=5), max_size=4
)

SCHEMA = Schema({"A": Class("A", {("x",): Property(Number())})})


@given(st.lists(TREES, max_size=5), st.integers(0, 300))
def test_a_spool_has_the_items_that_were_put_into_it(trees, repeated):
    source = object()
    entities = [Entity(str(number), tree, ("a",), source=source) for number, tree in enumerate(trees)]
    entities += [Entity("again", {"n": number}) for number in range(repeated)]
    spooled_entities = Spool(entities)
    assert list(spooled_entities) == entities
    assert [spooled_entities[place] for place in reversed(range(len(entities)))] == entities[::-1]
    assert spooled_entities[1:-1:2] == entities[1:-1:2]
    assert all(entity.source in (source, None) for entity in spooled_entities)


def test_knowledge_without_a_value_is_still_itself():
    [entity] = Spool([Entity("a", {"x": SOMEVALUE, "y": [NOVALUE]})])
    assert entity.tree["x"] is SOMEVALUE
    assert entity.tree["y"][0] is NOVALUE


def test_a_place_beyond_the_last_item_is_none():
    numbers = Spool(range(3))
    for place in (3, -4):
        with pytest.raises(IndexError):
            numbers[place]
    assert (numbers[-3], numbers[2]) == (0, 2)


def test_passes_that_take_turns_do_not_disturb_each_other():
    numbers = Spool(range(3 * ITEMS_PER_BLOCK))
    assert [(first, second) for first, second in zip(numbers, reversed(numbers), strict=True)][:2] == [
        (0, len(numbers) - 1),
        (1, len(numbers) - 2),
    ]


def test_few_items_are_a_list(monkeypatch):
    monkeypatch.setattr(spool, "MAX_ITEMS_IN_MEMORY", 3)
    assert spooled(iter("abc")) == ["a", "b", "c"]
    many = spooled(iter("abcd"))
    assert isinstance(many, Spool)
    assert list(many) == list("abcd")


@given(st.lists(st.integers(), min_size=1), st.data())
def test_a_selection_has_the_items_at_its_places(items, data):
    places = data.draw(st.lists(st.integers(0, len(items) - 1)))
    selection = Selection(items, places)
    assert list(selection) == [items[place] for place in places]
    assert list(selection[1:]) == [items[place] for place in places][1:]


def test_what_is_selected_from_a_spool_is_a_list_or_a_spool_of_its_own(monkeypatch):
    places = [1, 3]
    assert isinstance(selected(list("abcd"), places), Selection)
    assert selected(Spool("abcd"), places) == ["b", "d"]
    monkeypatch.setattr(spool, "MAX_ITEMS_IN_MEMORY", 1)
    many = selected(Spool("abcd"), places)
    assert isinstance(many, Spool)
    assert list(many) == ["b", "d"]


def test_the_entity_of_a_reading_is_read_when_it_is_asked_for(monkeypatch):
    readings = list(read_all(SCHEMA, [Entity(f"e{n}", {"x": n}, ("A",), label=f"name {n}") for n in range(300)]))
    spooled_readings = Spool(readings)
    assert list(spooled_readings) == readings
    assert pickle.loads(pickle.dumps(spooled_readings[7].whole)) == readings[7].whole
    read = spool._Files.read
    sizes = []
    monkeypatch.setattr(
        spool._Files, "read", lambda files, place: sizes.append(place.end - place.start) or read(files, place)
    )
    assert [reading.label for reading in spooled_readings] == [f"name {n}" for n in range(300)]
    light = sum(sizes)
    sizes.clear()
    assert [reading.entity.tree["x"] for reading in spooled_readings] == list(range(300))
    assert sum(sizes) > 1.5 * light


def of_two_classes(count: int) -> list[Entity]:
    source = object()
    return [
        Entity(f"e{n}", {"x": n, "to": Link(f"e{n + 1}")}, ("A" if n % 3 else "B",), source=source)
        for n in range(count)
    ]


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize("count", [0, 5, 20 * ITEMS_PER_BLOCK + 7])
def test_processes_parse_the_entities_of_a_spool(processes, count):
    entities = of_two_classes(count)
    expected = list(read_all(SCHEMA, entities))
    readings = Spool.of_readings(SCHEMA, Spool(entities), None, processes)
    assert list(readings) == expected
    assert [readings[place] for place in range(len(expected))] == expected
    assert all(reading.entity.source is entities[0].source for reading in readings)


def test_what_a_killed_process_would_have_parsed_is_parsed(monkeypatch):
    entities, parent = of_two_classes(20 * ITEMS_PER_BLOCK), os.getpid()

    def read_or_die(schema, entities):
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return read_all(schema, entities)

    monkeypatch.setattr(spool, "read_all", read_or_die)
    readings = Spool.of_readings(SCHEMA, Spool(entities), None, 2)
    assert list(readings) == list(read_all(SCHEMA, entities))


class Unwritten:
    """A value that is shared."""


def test_objects_that_a_process_alone_knows_are_shared_all_the_same(monkeypatch):
    shared = Unwritten()

    def with_shared(schema, entities):
        for reading in read_all(schema, entities):
            yield reading._replace(leaves={**reading.leaves, ("y",): shared})

    monkeypatch.setattr(spool, "read_all", with_shared)
    readings = Spool.of_readings(SCHEMA, Spool(of_two_classes(20 * ITEMS_PER_BLOCK)), None, 2)
    assert all(reading.leaves["y",] is shared for reading in readings)


def test_a_job_with_scratch_files_has_the_same_data(monkeypatch, tmp_path):
    schema, entities = phones()
    in_memory = Data.prepare(schema, entities, tiny_run())
    monkeypatch.setattr(spool, "MAX_ITEMS_IN_MEMORY", 3)
    monkeypatch.setattr(spool, "ITEMS_PER_BLOCK", 5)
    monkeypatch.setattr(codec, "ENTITIES_PER_SHARD", 11)
    monkeypatch.setattr(shards, "MAX_ENTITIES_IN_MEMORY", 11)
    monkeypatch.setattr(dataset, "ENTITIES_PER_PART", 7)
    in_files = Data.prepare(schema, spooled(entities), tiny_run(), folder=tmp_path)
    assert in_files.codec.to_json() == in_memory.codec.to_json()
    assert in_files.missing == in_memory.missing
    assert in_files.training.ids == in_memory.training.ids
    everything = torch.arange(len(in_memory.training.ids))
    for batch, expected in zip(
        *(data.training.batch(everything).values.items() for data in (in_files, in_memory)), strict=True
    ):
        assert batch[0] == expected[0]
        assert batch[1].equal(expected[1])
    assert in_files.training.known.equal(in_memory.training.known)
    assert usual_amounts(in_files.training).equal(usual_amounts(in_memory.training))
    assert lacking_together(in_files.training).equal(lacking_together(in_memory.training))
    constants = [Constants.fit(data.codec, data.training).to_json() for data in (in_files, in_memory)]
    assert constants[0] == constants[1]
    assert fingerprint(in_files) == fingerprint(Data.prepare(schema, spooled(entities), tiny_run(), folder=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_copies_stay_on_one_side_of_the_split_when_their_readings_are_spooled():
    schema, entities = phones()
    copies = [*entities, *(replace(entity, id=f"{entity.id} again") for entity in entities)]
    readings = list(read_all(schema, copies))
    assert split(schema, Spool(readings), None, 1) == split(schema, readings, None, 1)


def test_entities_of_a_file_keep_their_source(tmp_path):
    file = tmp_path / "kb.jsonl"
    file.write_text('{"@id": "a", "x": 1}\n{"@id": "b", "x": [2, "y"]}\n')
    kb = load(file)
    assert [entity.source for entity in Spool(kb)] == [kb, kb]
    assert list(Spool(kb)) == list(kb)
