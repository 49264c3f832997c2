"""What several entities tell together comes in as one number, and never tells an entity what it has itself."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from tables import for_each

from kbdisk.data import Codec, CodecConfig, EvidenceConfig, encode, links
from kbdisk.data.graph import Graph
from kbdisk.data.link_aggregates import Groups
from kbdisk.entity import Entity, Link
from kbdisk.schemas.kinds import Link as LinkLeaf
from kbdisk.schemas.kinds import Number, Set
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema

SCHEMA = Schema(
    {
        "Shop": Class(
            "Shop",
            {
                ("town",): Property(LinkLeaf("Town")),
                ("rent",): Property(Number(minimum=0)),
                ("share",): Property(Number(minimum=0, maximum=100)),  # of what is sold in its town
                ("noise",): Property(Number()),
            },
        ),
        "Town": Class("Town", {("size",): Property(Number()), ("height",): Property(Number(integer=True))}),
        "Region": Class("Region", {("towns",): Property(Set(LinkLeaf("Town"))), ("height",): Property(Number())}),
    }
)
TOWNS, SHOPS, TOGETHER = 40, 4, 2  # shops in a town, towns in a region
SHARES = (55, 25, 15, 5)


def world() -> list[Entity]:
    """Towns with shops whose rents are alike and whose shares add up, in regions that are as high as they are."""
    draw = random.Random(0)
    entities = []
    for i in range(TOWNS):
        entities.append(Entity(f"t{i}", classes=("Town",), tree={"size": i + draw.random(), "height": 10 * i}))
        for j in range(SHOPS):
            tree = {"town": Link(f"t{i}"), "rent": 10 * i + j + 0.5, "share": SHARES[j], "noise": draw.random()}
            entities.append(Entity(f"s{i}.{j}", classes=("Shop",), tree=tree))
    for k in range(TOWNS // TOGETHER):
        towns = [Link(f"t{TOGETHER * k + m}") for m in range(TOGETHER)]
        tree = {"towns": towns, "height": 10.0 * TOGETHER * k}
        entities.append(Entity(f"r{k}", classes=("Region",), tree=tree))
    return entities


@pytest.fixture(scope="module")
def codec() -> Codec:
    return Codec.fit(SCHEMA, world())


def told(codec: Codec, entities: list[Entity], id: str, hidden: tuple = (), graph: Graph | None = None) -> dict:
    """What several tell an entity when some of its paths are hidden, by the path of the evidence."""
    tokens = codec.encode(entities, graph=graph)
    batch = tokens.batch(torch.tensor([tokens.ids.index(id)]))
    slots = [codec.slots[slot] for slot in batch.slot.tolist()]
    visible = batch.seen(batch.known & torch.tensor([slot.path not in hidden for slot in slots]))
    wanted = torch.tensor([slot.over is not None and slot.over.aggregate != "" for slot in slots])
    return codec.leaves(batch, visible & wanted)[0]


RENT, REST = ("town", "~siblings", "rent"), ("town", "~rest", "share")


def test_siblings_tell_the_median_of_what_others_have(codec):
    assert told(codec, world(), "s3.0")[RENT] == 32.5
    assert told(codec, world(), "s3.3")[RENT] == 31.5


def test_what_is_left_of_a_whole_is_told(codec):
    for j, share in enumerate(SHARES):
        assert told(codec, world(), f"s3.{j}")[REST] == pytest.approx(share)


def test_only_what_goes_along_with_a_property_is_told(codec):
    paths = {slot.path for slot in codec.slots if slot.over is not None and slot.over.aggregate}
    assert RENT in paths
    assert ("^Region", "towns", "~sources", "height") in paths
    assert not any("noise" in path for path in paths)
    # shares are the same in every town: what others have says nothing but what is left
    assert {path for path in paths if path[-1] == "share" and path[0] == "town"} >= {REST}


def test_members_of_a_set_tell_their_median():
    twice = world()
    for region in [one for one in twice if one.id.startswith("r")]:
        again = Entity(region.id + "x", classes=region.classes, tree=region.tree)
        twice.append(again)
    codec = Codec.fit(SCHEMA, twice)  # thirty regions or more
    assert told(codec, twice, "r4")[("towns", "~members", "height")] == 85
    assert told(codec, twice, "r4", hidden=(("towns",),)) == {}


@for_each("path", ["rent", "share"])
def test_a_value_never_comes_back_to_whom_it_belongs(codec, path):
    changed = world()
    shop = next(one for one in changed if one.id == "s3.1")
    shop.tree[path] = 99
    assert told(codec, changed, "s3.1") == told(codec, world(), "s3.1")
    assert told(codec, changed, "s3.2") != told(codec, world(), "s3.2")


def test_an_entity_that_the_graph_does_not_know_is_told_what_all_members_have(codec):
    new = Entity("new", classes=("Shop",), tree={"town": Link("t3")})
    graph = Graph.read(SCHEMA, world())
    assert told(codec, [new], "new", graph=graph)[REST] == 0
    assert told(codec, [new], "new", graph=graph)[RENT] == 32


def test_an_entity_with_a_link_to_no_node_of_the_graph_gets_the_total_alone(codec):
    new = Entity("new", classes=("Shop",), tree={"town": Link("nowhere")})
    evidence = told(codec, [new], "new", graph=Graph.read(SCHEMA, world()))
    assert evidence == {REST: pytest.approx(100)}


@for_each("size", [1, 7])
def test_blocks_of_any_size_give_the_same_codec_and_the_same_tokens(codec, size, monkeypatch):
    tokens = codec.encode(world())
    monkeypatch.setattr(encode, "ENTITIES_AT_ONCE", size)
    monkeypatch.setattr(links, "ENTITIES_AT_ONCE", size)
    again = Codec.fit(SCHEMA, world())
    assert again.to_json() == codec.to_json()
    in_blocks = again.encode(world())
    assert all(
        torch.equal(value, vars(in_blocks)[name]) for name, value in vars(tokens).items() if torch.is_tensor(value)
    )


def test_a_sample_of_siblings_is_all_of_a_few_and_without_the_entity_itself():
    id_rank = np.arange(8)
    common, members = np.array([0, 0, 0, 1, 1, 1, 1, 1]), np.array([4, 2, 3, 7, 6, 5, 4, 3])
    groups = Groups.of(common, members, id_rank)
    samples = groups.samples(np.array([0, 0, 1]), np.array([3, -1, 5]), np.array([0, 0, 5]), 2)
    assert samples[:2].tolist() == [[2, -1, 4], [2, 3, 4]]
    assert sorted(samples[2].tolist())[0] == -1
    assert set(samples[2].tolist()) - {-1} <= {3, 4, 6, 7}
    assert (samples[2] >= 0).sum() == 2
    assert groups.has(np.array([0, 1, 1]), np.array([2, 2, -1]), id_rank).tolist() == [True, False, False]


def test_a_hidden_link_takes_along_what_came_over_it(codec):
    assert told(codec, world(), "s3.1", hidden=(("town",),)) == {}
    assert told(codec, world(), "s3.1", hidden=(("rent",),)).keys() >= {RENT, REST}


def test_those_whom_one_entity_links_to_are_siblings_too():
    entities = world()
    for one in entities:
        if one.id.startswith("t"):
            del one.tree["size"]
    codec = Codec.fit(SCHEMA, entities)
    assert told(codec, entities, "t6")[("^Region", "towns", "~siblings", "height")] == 70
    assert told(codec, entities, "t7")[("^Region", "towns", "~siblings", "height")] == 60


def test_of_many_siblings_each_entity_has_its_own_draw():
    draw = random.Random(1)
    entities = [
        Entity(f"s{i}", classes=("Shop",), tree={"town": Link(f"t{i % 12}"), "rent": 100.0 * (i % 12) + draw.random()})
        for i in range(240)
    ]
    codec = Codec.fit(SCHEMA, entities)
    found = [told(codec, entities, f"s{i}")[RENT] for i in range(0, 240, 12)]
    assert len(set(found)) > 10
    assert found == [told(codec, entities[::-1], f"s{i}")[RENT] for i in range(0, 240, 12)]


def test_several_can_be_left_out():
    codec = Codec.fit(SCHEMA, world(), CodecConfig(evidence=EvidenceConfig(several=False, chains=False)))
    assert not any(slot.over is not None and slot.over.aggregate for slot in codec.slots)


def test_a_codec_with_several_survives_the_way_to_json_and_back(codec):
    again = Codec.from_json(codec.to_json(), SCHEMA, codec.tokenizer)
    assert told(again, world(), "s3.1") == told(codec, world(), "s3.1")


def test_numbers_that_cannot_be_added_up_are_left_out():
    entities = world()
    for one in entities[1:4]:
        one.tree["rent"] = 1.7e308
    codec = Codec.fit(SCHEMA, entities)
    assert told(codec, entities, "s0.3").get(RENT) is None
    assert RENT in told(codec, entities, "s3.0")


def test_classes_that_share_a_property_tell_it_together():
    """Kiosks are shops, too, as far as their rents go: too few of them to tell anything by themselves."""
    schema = Schema({**SCHEMA.classes, "Kiosk": Class("Kiosk", SCHEMA.classes["Shop"].properties)})
    entities = [
        replace(one, classes=("Kiosk",)) if one.id.endswith(".3") and place % 7 == 0 else one
        for place, one in enumerate(world())
    ]
    kiosk = next(one.id for one in entities if one.classes == ("Kiosk",))
    alone, together = (Codec.fit(schema, entities, CodecConfig(pooling=pooling)) for pooling in (False, True))
    assert RENT not in told(alone, entities, kiosk)
    town = int(kiosk[1:].split(".")[0])
    assert told(together, entities, kiosk)[RENT] == 10 * town + 1.5


def test_evidence_of_many_is_chosen_by_a_sample_and_its_number_estimated(monkeypatch):
    whole = Codec.fit(SCHEMA, world())
    monkeypatch.setattr(links, "MAX_EVIDENCE_VALUES", 500)
    sampled = Codec.fit(SCHEMA, world())
    counts = [
        {(slot.class_name, slot.path): slot.count for slot in codec.slots if slot.over is not None}
        for codec in (whole, sampled)
    ]
    incoming = {key for key in counts[0] if key[1][0].startswith("^") and "~" not in str(key)}
    assert incoming
    assert all(counts[1][key] == counts[0][key] for key in incoming)
    assert counts[1].keys() <= counts[0].keys()
    assert counts[1]["Shop", ("town", "size")] == pytest.approx(counts[0]["Shop", ("town", "size")], rel=0.25)
