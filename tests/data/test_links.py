"""Links bring evidence, and what a hidden link brought is hidden with it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from worlds import WORLD, city, country, world

from kbdisk.data import Codec, CodecConfig, EvidenceConfig
from kbdisk.data.graph import Graph
from kbdisk.data.links import select_evidence
from kbdisk.data.slots import Over
from kbdisk.entity import Date, Entity, Link
from kbdisk.schemas.kinds import Category, Number, Set
from kbdisk.schemas.kinds import Link as LinkLeaf
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema


@pytest.fixture(scope="module")
def codec() -> Codec:
    return Codec.fit(WORLD, world())


def seen_of(codec, entities, id, hidden=(), ask="nothing", graph=None):
    """What is seen of an entity when some of its paths are hidden: its values, several where a path has several."""
    tokens = codec.encode(entities, ask, graph)
    batch = tokens.batch(torch.tensor([tokens.ids.index(id)]))
    paths = [codec.slots[slot].path for slot in batch.slot.tolist()]
    visible = batch.seen(batch.known & torch.tensor([path not in hidden for path in paths]))
    seen = {}
    for token in visible.nonzero()[:, 0].tolist():
        alone = torch.zeros_like(visible).index_fill(0, torch.tensor([token]), True)
        seen.setdefault(paths[token], []).append(codec.leaves(batch, alone)[0][paths[token]])
    return seen


def test_the_values_of_what_is_linked_to_come_in(codec):
    seen = seen_of(codec, world(), "france")
    assert seen[("capital", "population")] == [2_100_000]
    assert seen[("capital", "founded", "year")] == [-250]
    assert seen[("capital", "motto")] == ["Fluctuat nec mergitur"]
    assert seen[("capital", "twin")] == [Link("tokyo")]
    assert ("cities", "population") not in seen


def test_a_graph_without_entities_brings_nothing(codec):
    every = world()
    tokens = codec.encode(every, "nothing", Graph(WORLD))
    assert sorted(tokens.ids) == sorted(entity.id for entity in every)
    assert not any(codec.slots[slot].over for slot in tokens.slot.tolist())


def test_evidence_is_read_by_the_codec_of_what_it_is(codec):
    slot = {slot.keys: slot for slot in codec.slots}
    whole, part = slot["City", "population"], slot["Country", "capital", "population"]
    assert part.codec is whole.codec
    assert part.group == whole.group
    assert part.leaf == whole.leaf
    assert part.role == "evidence"
    assert part.count == 3
    assert part.fill == 1
    assert whole.codec is not slot["Country", "population"].codec


def test_incoming_links_come_in_one_token_each(codec):
    seen = seen_of(codec, world(), "tokyo")
    assert seen[("^Country", "capital")] == [Link("japan")]
    assert seen[("^City", "twin")] == [Link("paris")]
    many = [
        *world(),
        city("cairo", None, None, None, 9, twin="tokyo"),
        city("delhi", None, None, None, 9, twin="tokyo"),
    ]
    codec = Codec.fit(WORLD, many)
    assert set(seen_of(codec, many, "tokyo")[("^City", "twin")]) == {Link("paris"), Link("cairo"), Link("delhi")}


def test_hiding_a_link_hides_its_inverse_edge_and_the_values_that_came_over_it(codec):
    whole = seen_of(codec, world(), "france")
    seen = seen_of(codec, world(), "france", hidden=[("capital",)])
    assert ("^City", "country") in whole
    assert ("^City", "country") not in seen
    assert [path for path in whole if path[0] == "capital"] != []
    assert [path for path in seen if path[0] == "capital"] == []
    assert seen[("continent",)] == ["Europe"]
    assert seen[("cities",)] == whole[("cities",)]


def test_in_a_batch_of_many_every_entity_loses_what_its_own_links_brought(codec):
    tokens = codec.encode(world())
    batch = tokens.batch(torch.tensor([4, 0, 3, 6, 0]), absent=1)
    paths = [codec.slots[slot].path for slot in batch.slot.tolist()]
    hidden = torch.tensor([path == ("country",) for path in paths]) & (batch.entity == 2)
    lost = batch.known & ~batch.seen(batch.known & ~hidden)
    assert set(batch.entity[lost].tolist()) == {2}
    assert {paths[token][0] for token in lost.nonzero()[:, 0].tolist()} == {"country", "^Country"}


def test_links_find_entities_by_what_their_class_calls_its_id():
    classes = {name: replace(one, id=("code",)) for name, one in WORLD.classes.items()}
    coded = [
        Entity(str(number), {"code": one.id, **one.tree}, one.classes, one.label) for number, one in enumerate(world())
    ]
    schema = replace(WORLD, classes=classes)
    codec = Codec.fit(schema, coded)
    assert seen_of(codec, coded, "france") == seen_of(Codec.fit(WORLD, world()), world(), "france")
    arrays = Graph.read(schema, coded).arrays()
    is_from_kenya = arrays.source == arrays.ids["kenya"]
    assert {arrays.names[node] for node in arrays.target[is_from_kenya].tolist()} == {"nairobi"}
    assert "Paris" in codec.slots[codec.slot("Country", ("capital",))].codec.targets.names


def test_hiding_a_link_hides_the_incoming_links_of_its_target_by_any_path(codec):
    seen = seen_of(codec, world(), "paris", hidden=[("country",)])
    assert not [path for path in seen if path[0] in ("^Country", "country")]
    assert seen[("twin",)] == [Link("tokyo")]
    assert ("twin", "population") in seen


def test_a_hidden_set_of_links_takes_its_members_inverse_edges_with_it():
    told = [*world(), city("nice", "france", None, None, 340_000)]
    told[0] = country("france", "Europe", "paris", 67_000_000, ["paris", "nice"])
    codec = Codec.fit(WORLD, told)
    assert set(seen_of(codec, told, "france")[("^City", "country")]) == {Link("paris"), Link("nice")}
    # paris is both the capital and among the cities: either hidden is enough
    assert seen_of(codec, told, "france", [("capital",)])[("^City", "country")] == [Link("nice")]
    assert ("^City", "country") not in seen_of(codec, told, "france", [("cities",)])


def test_no_value_that_points_back_comes_in(codec):
    seen = seen_of(codec, world(), "paris")
    assert ("country", "capital") not in seen
    assert seen[("country", "cities")] == [[Link("lyon")]]
    assert ("country", "cities") not in seen_of(codec, world(), "nairobi")
    selves = [*world(), city("rome", None, None, None, 9, twin="rome")]
    seen = seen_of(Codec.fit(WORLD, selves), selves, "rome")
    assert seen.keys() == {("population",), ("twin",)}


def test_a_link_that_is_asked_for_brings_nothing(codec):
    unsure = [replace(one, tree={**one.tree, "country": None}) if one.id == "paris" else one for one in world()]
    tokens = codec.encode(unsure, ask="gaps")
    batch = tokens.batch(torch.tensor([tokens.ids.index("paris")]))
    asked = [codec.slots[slot].path for slot in batch.slot[batch.asked].tolist()]
    assert asked == [("country",)]
    seen = seen_of(codec, unsure, "paris", ask="gaps")
    assert not [path for path in seen if path[0] == "country"]


def test_evidence_is_fixed_and_never_asked_for(codec):
    tokens = codec.encode(world(), ask="all")
    batch = tokens.batch(torch.arange(len(tokens)), absent=9)
    roles = [codec.slots[slot].role for slot in batch.slot.tolist()]
    assert batch.fixed.tolist() == [role == "evidence" for role in roles]
    assert not (batch.fixed & (batch.asked | batch.absent)).any()
    assert batch.fixed.any()


def test_no_more_incoming_links_come_in_than_may_and_always_the_same():
    twins = [city(f"city{i}", None, None, None, 9, twin="tokyo") for i in range(30)]
    config = CodecConfig(evidence=EvidenceConfig(most=4))
    chosen = []
    for told in ([*world(), *twins], [*reversed(twins), *reversed(world())]):
        codec = Codec.fit(WORLD, told, config)
        chosen.append(seen_of(codec, told, "tokyo")[("^City", "twin")])
    assert chosen[0] == chosen[1] == [Link("city12"), Link("city16"), Link("city22"), Link("city26")]


def test_over_one_link_come_the_values_that_most_have():
    codec = Codec.fit(WORLD, world(), CodecConfig(evidence=EvidenceConfig(values=1)))
    over = {slot.over.link: slot.path for slot in codec.slots if slot.over and not slot.over.incoming}
    assert over[("capital",)] in [("capital", "population"), ("capital", "founded", "year")]
    assert len([slot for slot in codec.slots if slot.over and not slot.over.incoming]) == 3


def test_evidence_can_be_left_out():
    none = CodecConfig(evidence=EvidenceConfig(outgoing=False, incoming=False))
    codec = Codec.fit(WORLD, world(), none)
    assert not [slot for slot in codec.slots if slot.role == "evidence"]
    assert len(codec.encode(world()).needs) == 0
    outgoing = Codec.fit(WORLD, world(), CodecConfig(evidence=EvidenceConfig(incoming=False)))
    assert {slot.over.incoming for slot in outgoing.slots if slot.over} == {False}


def test_evidence_may_come_from_some_entities_alone(codec):
    graph = Graph.read(WORLD, [entity for entity in world() if entity.id in ("france", "japan")])
    held_out = [entity for entity in world() if entity.id == "paris"]
    seen = seen_of(codec, held_out, "paris", graph=graph)
    assert seen[("country", "continent")] == ["Europe"]
    assert seen[("^Country", "capital")] == [Link("france")]
    assert ("twin", "population") not in seen
    assert [path for path in seen_of(codec, held_out, "paris") if path[0] in ("country", "twin")] == [
        ("country",),
        ("twin",),
    ]


def test_a_date_comes_over_a_link_leaf_by_leaf_and_only_what_is_known():
    told = [*world(), country("italy", "Europe", "rome", 59_000_000), Entity("rome", {"founded": Date()}, ("City",))]
    codec = Codec.fit(WORLD, told)
    assert ("capital", "founded", "year") not in seen_of(codec, told, "italy")


def test_links_to_entities_of_several_classes_have_slots_for_each():
    schema = Schema(
        {
            "Film": Class("Film", {("by",): Property(LinkLeaf()), ("year",): Property(Number())}),
            "Person": Class("Person", {("kind",): Property(Category())}),
            "Studio": Class("Studio", {("kind",): Property(Category())}),
        }
    )
    films = [Entity("f", {"by": Link("p")}, ("Film",)), Entity("g", {"by": Link("s")}, ("Film",))]
    others = [Entity("p", {"kind": "tall"}, ("Person",)), Entity("s", {"kind": "old"}, ("Studio",))]
    codec = Codec.fit(schema, films + others)
    slots = [slot for slot in codec.slots if slot.path == ("by", "kind")]
    assert [slot.over.class_name for slot in slots] == ["Person", "Studio"]
    assert seen_of(codec, films + others, "f")[("by", "kind")] == ["tall"]
    assert seen_of(codec, films + others, "g")[("by", "kind")] == ["old"]
    assert ("by", "kind") not in seen_of(codec, films + others, "g", [("by",)])


def test_of_equally_frequent_values_of_two_classes_the_first_class_by_name_has_the_slot():
    studio, person = (Over(name, ("by",), ("kind",)) for name in ("Studio", "Person"))
    counts = {("Film", studio): 3, ("Film", person): 3}
    assert select_evidence(counts, 1) == [("Film", person)]


def test_a_set_brings_evidence_without_the_links_that_lead_back():
    link_set = Property(Set(LinkLeaf()))
    schema = Schema({"Film": Class("Film", {("by",): Property(LinkLeaf()), ("made",): link_set})})
    films = [Entity(id, {"by": Link("p"), "made": [Link("p")]}, ("Film",)) for id in ("f", "g", "h")]
    films += [Entity("p", {"made": [Link("f"), Link("g"), Link("x")]}, ("Film",))]
    codec = Codec.fit(schema, films)
    assert set(seen_of(codec, films, "f")[("by", "made")][0]) == {Link("g"), Link("x")}
    assert set(seen_of(codec, films, "h")[("by", "made")][0]) == {Link("f"), Link("g"), Link("x")}


def test_a_value_that_many_link_to_is_coded_once(codec):
    twins = [city(f"city{i}", None, None, None, None, twin="tokyo") for i in range(30)]
    few, many = codec.encode(world()), codec.encode([*world(), *twins])
    assert len(many.codes["number"].rows) == len(few.codes["number"].rows)
    assert len(many.slot) > len(few.slot) + 30
