"""Superclasses: what the source says of its classes is visible for their entities, and tells nothing of a class itself."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import examples

from kbdisk.data import Codec
from kbdisk.data.config import CodecConfig
from kbdisk.data.superclasses import MAX_SUPERCLASSES, MIN_ENTITIES, Superclasses, hierarchy_of
from kbdisk.entity import Entity, Link
from kbdisk.schemas.kinds import Link as LinkLeaf
from kbdisk.schemas.kinds import Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema

SCHEMA = Schema({"": Class("", {("x",): Property(Number()), ("subClassOf",): Property(LinkLeaf())})})


def entities(key: str = "subClassOf") -> list[Entity]:
    """Lakes and rivers are waters, all waters are things, and towns are places; each class is an entity, too."""
    of = {"Lake": "Water", "River": "Water", "Town": "Place", "Water": "Thing"}
    classes = [Entity(name, {key: Link(above)}, ("Class",) if name == "Lake" else ()) for name, above in of.items()]
    return classes + [
        Entity(f"{name}{n}", {"x": n}, (name,)) for name in ("Lake", "River", "Town") for n in range(MIN_ENTITIES)
    ]


@pytest.fixture(scope="module")
def codec() -> Codec:
    return Codec.fit(SCHEMA, entities(), CodecConfig(pooling=True))


def visible(codec: Codec, entity: Entity) -> list[str]:
    """The labels of classes that a network sees."""
    tokens = codec.encode([entity])
    batch = tokens.batch(torch.arange(1))
    slot = codec.index.classes_slot
    start, _ = batch.spans["category"]
    places = (batch.slot == slot).nonzero()[:, 0]
    return [name for name in codec.slots[slot].codec.decode(batch.values["category"][places - start]) if name]


@pytest.mark.parametrize("key", ["subClassOf", "P279"])
def test_the_direct_superclasses_are_what_classes_state_in_rdf_schema_and_in_wikidata(key):
    found = hierarchy_of([*entities(key), Entity("X", {key: [Link("A"), "text", Link("B"), Link("A")]}), Entity("Y")])
    assert {name: found.get(name) for name in "XY"} == {"X": ("A", "B"), "Y": None}
    assert found["Lake"] == ("Water",)


def test_superclasses_that_tell_entities_apart_are_visible_beside_the_classes(codec):
    assert visible(codec, Entity("new", {}, ("River",))) == ["River", "Water"]  # all things are waters
    assert visible(codec, Entity("new", {}, ("Town",))) == ["Town"]  # all places are towns


def test_what_a_class_states_of_itself_is_no_evidence_for_it(codec):
    assert visible(codec, Entity("River", {}, ("River",))) == ["River"]
    assert visible(codec, Entity("Water", {}, ("River",))) == ["River"]


def test_a_hierarchy_that_is_given_counts_instead_of_what_the_entities_state():
    blind = Codec.fit(SCHEMA, entities(), CodecConfig(pooling=True), hierarchy={})
    assert visible(blind, Entity("new", {}, ("River",))) == ["River"]


def test_what_the_schema_states_counts_beside_what_the_source_states():
    classes = {
        "Lake": Class("Lake", {("x",): Property(Number())}, iri="http://e/Lake", superclasses=("Water", "Thing")),
        "Water": Class("Water", {("x",): Property(Number())}, iri="http://e/Water"),
        "Town": Class("Town", {("x",): Property(Number())}, superclasses=("Place",)),
    }
    known = [
        Entity(f"{of}{n}", {"x": n}, (of,)) for of in ("http://e/Lake", "http://e/Water", "Town") for n in range(6)
    ]
    made = Codec.fit(Schema(classes), known, CodecConfig(pooling=True))
    assert visible(made, Entity("new", {}, ("http://e/Lake",))) == ["http://e/Lake", "http://e/Water"]
    assert visible(made, Entity("new", {}, ("Town",))) == ["Town"]


def test_superclasses_survive_the_way_to_json_and_back_and_an_older_codec_has_none(codec):
    plain = json.loads(json.dumps(codec.to_json()))
    assert Codec.from_json(plain, SCHEMA, codec.tokenizer).superclasses == codec.superclasses
    for wrong in ([], {"Lake": "Water"}, {"Lake": [1]}):
        with pytest.raises(ValueError, match="superclasses: "):
            Codec.from_json({**plain, "superclasses": wrong}, SCHEMA, codec.tokenizer)
    del plain["superclasses"]
    assert Codec.from_json(plain, SCHEMA, codec.tokenizer).superclasses == Superclasses()


names = st.sampled_from("ABCDEFGH")


@settings(max_examples=examples(50))
@given(
    st.dictionaries(names, st.lists(names, max_size=3).map(tuple)),
    st.lists(st.lists(names, min_size=1, max_size=2).map(tuple), max_size=40),
)
def test_any_hierarchy_with_circles_gives_few_superclasses_and_each_tells_entities_apart(hierarchy, classes):
    found = Superclasses.fit(hierarchy, classes)
    several = [found.of("x", of) for of in classes]
    for of, above in found.above.items():
        assert len(above) <= MAX_SUPERCLASSES
        assert of not in above
    for broader in {name for above in found.above.values() for name in above}:
        having = [broader in one for one in several]
        assert MIN_ENTITIES <= sum(having) <= len(having) - MIN_ENTITIES
