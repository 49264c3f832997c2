"""Entities become tensors and come back; which slots there are, who shares weights, what is asked for."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from counts import COUNT, Count
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import examples, for_each
from worlds import PHONES, WORLD, phones, world

from kbdisk.data import Codec, CodecConfig, EvidenceConfig
from kbdisk.data.dataset import Batch
from kbdisk.entity import NOVALUE, SOMEVALUE, Date, Entity, Link, Quantity, Text
from kbdisk.errors import SchemaError
from kbdisk.leaves.category import CategoryConfig
from kbdisk.leaves.registry import LEARNT_KINDS
from kbdisk.leaves.tokenizer import Tokenizer
from kbdisk.model.diffusion import reveal
from kbdisk.model.network import DiSK, ModelConfig
from kbdisk.schemas.composites.date import Date as DateKind
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import Quantity as QuantityKind
from kbdisk.schemas.kinds import KINDS, Category, Number
from kbdisk.schemas.kinds import Link as LinkLeaf
from kbdisk.schemas.kinds import Text as TextLeaf
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema, of_one_class

KNOWN = phones()
CODEC = Codec.fit(PHONES, KNOWN)


def whole_batch(codec: Codec, entities, ask="nothing") -> Batch:
    tokens = codec.encode(entities, ask)
    return tokens.batch(torch.arange(len(tokens)))


def asked(codec: Codec, tree, ask="gaps", of="Phone") -> set[tuple]:
    batch = whole_batch(codec, [Entity("it", tree, (of,))], ask)
    return {codec.slots[slot].path for slot in batch.slot[batch.asked].tolist()}


def same(one: Batch, other: Batch) -> bool:
    """Whether two batches are one, tensor by tensor."""
    pairs = [(getattr(one, name), getattr(other, name)) for name, value in vars(one).items() if torch.is_tensor(value)]
    pairs += [(codes, other.values[kind]) for kind, codes in one.values.items()]
    return all(torch.equal(*pair) for pair in pairs) and one.spans == other.spans


# ---------------------------------------------------------------- there and back


def values_of(path: str) -> st.SearchStrategy:
    """One of the values that training entities have of a property."""
    return st.sampled_from([one.tree[path] for one in KNOWN if path in one.tree])


partial_trees = st.fixed_dictionaries(
    {}, optional={key: values_of(key) for key in ("oem", "model", "weight", "launch", "body", "cameras", "colours")}
)


@settings(max_examples=examples(30))
@given(st.lists(partial_trees, max_size=4))
def test_every_known_leaf_survives_the_way_to_tensors_and_back(trees):
    entities = [Entity(str(i), tree, ("Phone",)) for i, tree in enumerate(trees)]
    batch = whole_batch(CODEC, entities)
    found = CODEC.leaves(batch, batch.known)
    for entity, leaves in zip(entities, found, strict=True):
        known = PHONES.leaves(entity)
        assert {path: set(value) if isinstance(value, list) else value for path, value in leaves.items()} == {
            path: set(value) if isinstance(value, list) else value for path, value in known.items()
        } | {path: pytest.approx(known[path], rel=1e-6) for path in known.keys() & {("weight", "value")}}


@settings(max_examples=examples(30))
@given(partial_trees)
def test_leaves_go_together_as_the_entity_was(tree):
    batch = whole_batch(CODEC, [Entity("one", tree, ("Phone",))])
    found = CODEC.trees(batch, batch.known)[0]
    whole = {**found, **({"colours": sorted(found["colours"])} if "colours" in found else {})}
    given = PHONES.apply(Entity("one", tree, ("Phone",))).tree
    if "weight" in whole and whole["weight"].value is not None:  # grams have fewer decimals than ounces need
        assert whole["weight"].value == pytest.approx(given["weight"].value, rel=1e-6)
        whole["weight"] = Quantity(given["weight"].value, whole["weight"].unit)
    assert whole == given


def test_only_what_was_asked_for_is_decoded():
    batch = whole_batch(
        CODEC, [Entity("one", {"oem": "Nokia", "model": None, "launch": Date(2001)}, ("Phone",))], "gaps"
    )
    asked, filled = batch.asked, batch
    text, number = (batch.spans[kind] for kind in ("text", "number"))
    codes = CODEC.tokenizer.encode(["A phone of an altogether longer name"])
    filled = filled.with_values("text", batch.asked[slice(*text)].nonzero()[:, 0], codes)
    rows = batch.asked[slice(*number)].nonzero()[:, 0]
    month = CODEC.slots[CODEC.slot("Phone", ("launch", "month"))].codec
    assert CODEC.slots[int(batch.slot[number[0] + rows[2]])].path == ("launch", "month")
    filled = filled.with_values("number", rows, month.encode([7, 7, 7]))
    leaves = CODEC.leaves(filled, asked)[0]
    assert leaves[("model",)] == "A phone of an altogether longer name"
    assert leaves[("launch", "month")] == 7
    assert ("oem",) not in leaves
    assert ("launch", "year") not in leaves
    assert leaves.keys() == {("model",), ("launch", "month"), ("launch", "day"), ("body", "height")}


def test_a_codec_survives_the_way_to_json_and_back():
    for schema, entities in ((PHONES, phones()), (WORLD, world())):
        codec = Codec.fit(schema, entities, CodecConfig(enough=3, evidence=EvidenceConfig(values=3)))
        data = json.loads(json.dumps(codec.to_json()))
        words = Tokenizer.from_bytes(codec.tokenizer.to_bytes())
        again = Codec.from_json(data, schema, words)
        assert again.slots == codec.slots
        assert again.left_out == codec.left_out
        assert again.config == codec.config
        assert same(whole_batch(again, entities, "all"), whole_batch(codec, entities, "all"))
        assert again.to_json() == codec.to_json()
        codecs = {id(slot.codec) for slot in again.slots}
        assert len(codecs) == len({id(slot.codec) for slot in codec.slots}) < len(codec.slots)


def test_a_schema_that_lacks_a_path_is_refused():
    fewer = Schema({"Phone": Class("Phone", {("oem",): Property(Category())}), "Maker": PHONES.classes["Maker"]})
    with pytest.raises(ValueError, match=r"expected a schema with .* of 'Phone', got none there"):
        Codec.from_json(CODEC.to_json(), fewer, CODEC.tokenizer)


def reordered(schema: Schema) -> Schema:
    """The same with its classes, and their properties, the other way round."""
    turned = {
        name: replace(one, properties=dict(reversed(one.properties.items()))) for name, one in schema.classes.items()
    }
    return replace(schema, classes=dict(reversed(turned.items())))


@for_each(("schema", "entities"), [(PHONES, phones()), (WORLD, world())])
def test_the_order_of_the_schema_changes_nothing(schema, entities):
    one, other = (Codec.fit(each, entities, CodecConfig(enough=3)) for each in (schema, reordered(schema)))
    assert one.to_json() == other.to_json()
    assert one.classes == other.classes
    assert one.tokenizer == other.tokenizer
    assert same(whole_batch(one, entities, "all"), whole_batch(other, entities, "all"))


# ---------------------------------------------------------------- slots


def test_slots_stand_by_kind_group_class_and_path():
    kinds = list(LEARNT_KINDS)
    codec = Codec.fit(PHONES, KNOWN, CodecConfig(sharing="disjoint"))
    order = [(kinds.index(slot.kind), slot.group, slot.class_name) for slot in codec.slots]
    assert order == sorted(order)
    assert codec.slots[codec.slot("Maker", ("country",))].keys == ("Maker", "country")
    assert codec.slot("Maker", ("oem",)) is None


def test_a_slot_knows_how_many_have_it():
    slots = {slot.keys: slot for slot in CODEC.slots}
    with_oem = sum("oem" in one.tree for one in KNOWN)
    assert slots["Phone", "oem"].count == with_oem
    assert slots["Phone", "oem"].fill == with_oem / 40
    assert slots["Maker", "name"].count == 3
    assert slots["Maker", "name"].fill == 1
    assert slots["Maker", "country"].entropy == pytest.approx(torch.tensor(3).log().item())
    assert slots["Phone", "model"].entropy > slots["Phone", "oem"].entropy > 0


def test_what_no_training_entity_has_is_left_out_and_said_to_be():
    assert CODEC.left_out == {("Phone", ("never",)): "no training entity has a value"}
    batch = whole_batch(CODEC, [Entity("one", {"never": "ever", "oem": "Nokia"}, ("Phone",))])
    assert len(batch) == 1


def test_what_is_ignored_has_no_slot_and_what_is_given_is_fixed():
    roles = {slot.path: slot.role for slot in CODEC.slots}
    assert ("note",) not in roles
    assert roles[("row",)] == "given"
    batch = whole_batch(CODEC, [Entity("one", {"oem": "Nokia", "row": 3, "note": "x"}, ("Phone",))], "all")
    assert [CODEC.slots[slot].path for slot in batch.slot[batch.fixed].tolist()] == [("row",)]
    assert ("row",) not in asked(CODEC, {"oem": "Nokia"}, "all")


def test_places_of_a_list_share_their_codec_and_their_weights():
    codec = Codec.fit(PHONES, KNOWN, CodecConfig(sharing="disjoint"))
    places = [slot for slot in codec.slots if slot.path[0] == "cameras" and slot.path[-1] == "aperture"]
    assert [slot.path[1] for slot in places] == [0, 1, 2]
    assert len({id(slot.codec) for slot in places}) == len({slot.group for slot in places}) == 1
    assert len({slot.unit for slot in codec.slots if slot.path[0] == "cameras"}) == 1
    assert places[0].count > places[2].count


@for_each(
    ("config", "groups"),
    [
        (CodecConfig(sharing="tied"), {0}),
        (CodecConfig(sharing="disjoint"), {0, 1, 2, 3, 4}),
        (CodecConfig(sharing="auto", enough=10), {0, 1, 2, 3, 4}),  # the maker's country shares with nobody
        (CodecConfig(sharing="auto", enough=34), {0, 1, 2, 3}),
        (CodecConfig(sharing="auto", enough=10, own=2), {0}),
        (CodecConfig(sharing="auto", enough=10_000), {0}),
    ],
)
def test_properties_with_enough_values_have_weights_of_their_own(config, groups):
    codec = Codec.fit(PHONES, KNOWN, config)
    found = [slot for slot in codec.slots if slot.kind == "category"]
    assert {slot.group for slot in found} == groups
    assert [slot.group for slot in found] == sorted(slot.group for slot in found)
    shared = {slot.keys[:2] for slot in found if slot.group == max(groups)}
    assert ("Maker", "country") in shared or config.sharing == "disjoint"


def test_the_tokenizer_is_trained_on_text_and_on_labels_that_are_read():
    schema = of_one_class({("name",): Property(TextLeaf()), ("kind",): Property(Category())}, "Thing")
    things = [Entity(str(i), {"name": Text("zzz", "en"), "kind": "albatross"}, ("Thing",)) for i in range(90)]
    plain = Codec.fit(schema, things).tokenizer
    kinds = {"category": CategoryConfig(labels="text")}
    reading = Codec.fit(schema, things, CodecConfig(kinds=kinds)).tokenizer
    assert reading.encode(["albatross"]).shape[1] <= plain.encode(["albatross"]).shape[1]
    assert plain != reading
    assert Codec.fit(of_one_class({("kind",): Property(Category())}, "Thing"), things).tokenizer is None


def test_linked_entities_are_called_by_their_labels():
    codec = Codec.fit(WORLD, world())
    capital = codec.slots[codec.slot("Country", ("capital",))].codec.targets
    cities = codec.slots[codec.slot("Country", ("cities",))].codec.labels
    assert dict(zip(capital.values, capital.names, strict=True))["paris"] == "Paris"
    assert "Lyon" in cities.names


def test_a_kind_that_somebody_adds_later_is_a_kind_like_any_other(monkeypatch):
    before = CodecConfig()
    monkeypatch.setitem(KINDS, "count", COUNT)
    schema = of_one_class(
        {("children",): Property(Count()), ("oem",): Property(Category()), ("x",): Property(Number())}
    )
    people = [Entity(str(i), {"children": i % 5, "oem": "a", "x": 0.5 * i}) for i in range(12)]
    codec = Codec.fit(schema, people, before)
    assert [slot.kind for slot in codec.slots] == ["number", "category", "count"]
    batch = whole_batch(codec, people)
    assert list(batch.spans.values()) == [(0, 12), (12, 24), (24, 36)]
    assert codec.trees(batch, batch.known) == [one.tree for one in people]
    again = Codec.from_json(json.loads(json.dumps(codec.to_json())), schema)
    assert again.slots == codec.slots
    assert again.config == codec.config == CodecConfig(kinds={"count": COUNT.config()})
    blank = whole_batch(codec, [Entity("blank", {"children": None})], "gaps")
    drawn = reveal(DiSK(codec, ModelConfig(width=16, heads=2, layers=1)), blank)
    assert codec.leaves(drawn, blank.asked)[0].keys() == {("children",)}


def test_slots_have_the_order_of_the_schema_what_stands_in_lists_later_and_texts_last():
    listed = "parts: {kind: list, of: {size: number, name: category}}"
    schema = Schema.read(
        f"kbdisk: 1\nclasses:\n  '':\n    properties: {{t: text, z: number, {listed}, c: category, a: number}}\n"
    )
    parts = [{"size": n, "name": "pq"[n % 2]} for n in range(12)]
    trees = [{"z": n, "parts": parts[: n % 3 + 10], "c": "xy"[n % 2], "a": -n, "t": f"the {n}"} for n in range(8)]
    codec = Codec.fit(schema, [Entity(str(n), tree) for n, tree in enumerate(trees)])
    again = Codec.from_json(codec.to_json(), Schema.read(schema.to_yaml()))
    for one in (codec, again):
        paths = [one.slots[n].path for n in one.index.layout.order.argsort().tolist()]
        assert paths[:4] == [("z",), ("parts", "count"), ("c",), ("a",)]
        assert paths[4:8] == [("parts", 0, "size"), ("parts", 0, "name"), ("parts", 1, "size"), ("parts", 1, "name")]
        assert paths[-3:] == [("parts", 11, "size"), ("parts", 11, "name"), ("t",)]


# ---------------------------------------------------------------- what is asked for


def test_nothing_is_asked_for_in_training():
    assert asked(CODEC, {"oem": None, "launch": Date(2001)}, "nothing") == set()


def test_gaps_are_blanks_missing_parts_and_what_is_required():
    tree = {"oem": None, "launch": Date(2001), "weight": Quantity(None, "oz"), "body": {"height": 120.5, "folds": None}}
    assert asked(CODEC, tree) == {
        ("oem",),
        ("launch", "month"),
        ("launch", "day"),
        ("weight", "value"),
        ("body", "folds"),
    }
    assert asked(CODEC, {"oem": "Nokia"}) == {("body", "height")}
    assert asked(CODEC, {}, of="Maker") == set()


def test_of_a_list_its_length_is_asked_for_and_then_what_is_blank_within_it():
    height = {"body": {"height": 120.5}}
    assert asked(CODEC, {"cameras": None} | height) == {("cameras", "count")}
    blank = {"cameras": [{"aperture": None, "kind": "wide"}, {"kind": "wide"}, None]}
    assert asked(CODEC, blank | height) == {
        ("cameras", 0, "aperture"),
        ("cameras", 2, "aperture"),
        ("cameras", 2, "kind"),
    }


def test_blanks_within_a_map_are_asked_for_under_their_entry():
    schema = of_one_class({("names",): Property(Mapped({"short": TextLeaf(), "long": TextLeaf()}))}, "Land")
    told = [Entity(str(i), {"names": {"de": {"short": "a", "long": "b"}, "fr": {"short": "c"}}}, ()) for i in range(3)]
    codec = Codec.fit(schema, told)
    tree = {"names": {"@type": "x", "de": {"short": "a", "long": None}, "fr": {"short": None}}}
    assert asked(codec, tree, of="Land") == {("names", 0, "long"), ("names", 1, "short")}


def test_all_that_is_lacking_can_be_asked_for():
    tree = {"oem": "Nokia", "cameras": [{"kind": "wide"}], "launch": NOVALUE, "colours": SOMEVALUE, "weight": "heavy"}
    assert asked(CODEC, tree, "all") == {("model",), ("body", "height"), ("body", "folds"), ("cameras", 0, "aperture")}
    assert ("launch", "day") in asked(CODEC, {"launch": Date(2001, 3)}, "all")


def test_what_is_known_not_to_exist_is_not_asked_for():
    assert asked(CODEC, {"body": {"height": NOVALUE}}) == set()


def test_paths_can_be_asked_for_whole_or_leaf_by_leaf():
    assert asked(CODEC, {"oem": "Nokia"}, [("launch",), ("oem",), ("model",)]) == {
        ("launch", "day"),
        ("launch", "month"),
        ("launch", "year"),
        ("model",),
    }
    assert asked(CODEC, {}, [("launch", "day")]) == {("launch", "day")}
    assert asked(CODEC, {}, [("cameras",)]) == {("cameras", "count")}
    assert asked(CODEC, {}, [("cameras", 1, "kind")]) == {("cameras", 1, "kind")}
    assert asked(CODEC, {"cameras": [{}, {}]}, [("cameras", -1, "kind")]) == {
        ("cameras", 0, "kind"),
        ("cameras", 1, "kind"),
    }
    assert asked(CODEC, {}, [("oem",)], of="Maker") == set()


@for_each(
    ("path", "problem"),
    [
        (("nowhere",), "nowhere: expected a path that can be asked for, got one that cannot: no class has it"),
        (("never",), "never: .*: no training entity has a value"),
        (("row",), "row: .*: is given, and never predicted"),
    ],
)
def test_a_path_that_cannot_be_asked_for_is_refused_with_the_reason(path, problem):
    with pytest.raises(SchemaError, match=problem):
        CODEC.encode([], [path])


def test_an_unknown_word_for_what_to_ask_is_refused():
    with pytest.raises(ValueError, match="expected nothing, gaps, all or paths to ask for, got 'everything'"):
        CODEC.encode([], "everything")


# ---------------------------------------------------------------- oddities


def test_an_entity_without_a_class_of_the_schema_is_refused_by_its_id():
    with pytest.raises(SchemaError, match="ship7: expected a class of Phone, Maker, got Ship"):
        CODEC.encode([Entity("ship7", {}, ("Ship",))])
    Codec.fit(PHONES, [*KNOWN, Entity("ship7", {}, ("Ship",))])


def test_a_label_never_met_is_known_to_be_there():
    batch = whole_batch(CODEC, [Entity("one", {"oem": "Fairphone"}, ("Phone",))])
    assert batch.known.tolist() == [True]
    assert batch.values["category"].tolist() == [-1]
    assert CODEC.leaves(batch, batch.known) == [{}]


def test_a_place_beyond_those_of_training_is_no_token():
    many = [{"aperture": 1.8, "kind": "wide"}] * 9
    batch = whole_batch(CODEC, [Entity("one", {"cameras": many}, ("Phone",))])
    assert {CODEC.slots[slot].path[1] for slot in batch.slot.tolist()} == {0, 1, 2, "count"}


def test_what_has_no_code_is_left_out_with_the_reason_and_so_is_what_came_over_it():
    narrow, wide = Category(("red", "blue"), closed=True), Category()

    def schema(colour, to):
        links = {("next",): Property(LinkLeaf("Thing", to)), ("colour",): Property(colour)}
        return of_one_class(links, "Thing")

    red = Entity("a", {"colour": "red", "next": Link("b")}, ("Thing",))
    blue = Entity("b", {"colour": "blue", "next": Link("a")}, ("Thing",))
    codec = replace(Codec.fit(schema(narrow, ("a", "b")), [red, blue]), schema=schema(wide, ()))
    new = Entity("c", {"colour": "red", "next": Link("d")}, ("Thing",))
    green = Entity("d", {"colour": "green"}, ("Thing",))
    tokens = codec.encode([red, blue, new, green, replace(new, id="e", tree={"next": Link("f")}), replace(red, id="f")])
    assert set(tokens.unread) == {
        "d: colour: expected one of red, blue, got 'green'",
        "c: next: expected one of a, b, got 'd'",
        "c: next.colour: expected one of red, blue, got 'green'",
        "e: next: expected one of a, b, got 'f'",
    }
    batch = tokens.batch(torch.tensor([2, 3]), absent=9)
    paths = [codec.slots[slot].path for slot in batch.slot.tolist()]
    assert paths == [("colour",), ("^Thing", "next"), ("next",)]
    assert batch.entity.tolist() == [0, 1, 1]
    assert batch.absent.tolist() == [False, False, True]  # of what could not be coded, nothing is lacking
    assert tokens.sizes[4] == 0  # nor comes the colour of f over a link that is no token


@for_each(
    ("told", "problem"),
    [
        ({"sharing": "some"}, "expected one of disjoint, tied, auto for sharing, got 'some'"),
        ({"kinds": {"colour": 3}}, "expected kinds among number, category, text, link, set, got colour"),
    ],
)
def test_a_config_that_makes_no_sense_is_refused(told, problem):
    with pytest.raises(ValueError, match=problem):
        CodecConfig(**told)


def test_what_a_schema_has_beside_is_no_token():
    schema = of_one_class({(f"p{i}",): Property(Category()) for i in range(2000)}, "Wide")
    entities = [Entity(str(i), {f"p{(7 * i + j) % 2000}": "x" for j in range(10)}, ("Wide",)) for i in range(300)]
    codec = Codec.fit(schema, entities)
    tokens = codec.encode(entities)
    assert tokens.sizes.tolist() == [10] * 300
    assert {slot.group for slot in codec.slots} == {0}
    assert len(tokens.batch(torch.arange(50), absent=3)) == 50 * 13


# ---------------------------------------------------------------- lists longer than are learnt

LISTS = of_one_class(
    {
        ("names",): Property(Listed({"": Category()}, most=2)),
        ("prizes",): Property(Listed({"year": Number(), "shares": Listed({"": Number()}, most=1)}, most=2)),
        ("currencies",): Property(Mapped({"rate": Number()}, most=1)),
    }
)
LONG = Entity(
    "long",
    {
        "names": ["a", "b", "c"],
        "prizes": [{"year": 1, "shares": [1, 2]}, {"year": 2}, {"year": 3, "shares": [3]}],
        "currencies": {"EUR": {"rate": 1}, "CHF": {"rate": 2}},
    },
)


def test_of_a_list_longer_than_is_learnt_the_first_places_are_and_its_length_is_the_most():
    codec = Codec.fit(LISTS, [LONG])
    batch = whole_batch(codec, [LONG])
    assert codec.leaves(batch, batch.known)[0] == {
        ("names", "count"): 2,
        ("names", 0): "a",
        ("names", 1): "b",
        ("prizes", "count"): 2,
        ("prizes", 0, "year"): 1,
        ("prizes", 0, "shares", "count"): 1,
        ("prizes", 0, "shares", 0): 1,
        ("prizes", 1, "year"): 2,
        ("currencies", "count"): 1,
        ("currencies", 0, "key"): "EUR",
        ("currencies", 0, "rate"): 1,
    }


# ---------------------------------------------------------------- lists and maps whose length is drawn first

KEYED = of_one_class(
    {
        ("currencies",): Property(Mapped({"rate": Number(), "coins": Listed({"": Number()})})),
        ("names",): Property(Listed({"": Category()})),
        ("cameras",): Property(Listed({"kind": Category(), "lenses": Listed({"": Number()})})),
    },
    "Land",
)
LANDS = [
    Entity(
        str(i),
        {
            "currencies": {key: {"rate": 1.5 * i, "coins": [1, 2]} for key in ("EUR", "CHF", "USD")[: i % 4]},
            "names": ["a", "b", "c"][: i % 4],
            "cameras": [{"kind": "wide", "lenses": [3, 4]}, {"kind": "tele", "lenses": [5]}][: i % 3],
        },
        ("Land",),
    )
    for i in range(24)
]
KEYS = Codec.fit(KEYED, LANDS)


def filled(tree, values: dict[tuple, object], ask) -> list[dict]:
    """What an entity is made of once what it asks for was said so: without the entity, and with it."""
    entity = Entity("it", tree, ("Land",))
    batch = whole_batch(KEYS, [entity], ask)
    asked = batch.asked
    assert {KEYS.slots[slot].path for slot in batch.slot[asked].tolist()} == values.keys()
    for token in asked.nonzero()[:, 0].tolist():
        slot = KEYS.slots[batch.slot[token]]
        codes = slot.codec.encode([values[slot.path]])
        batch = batch.with_values(slot.kind, torch.tensor([token - batch.spans[slot.kind][0]]), codes)
    return [KEYS.trees(batch, asked)[0], KEYS.trees(batch, asked, [entity])[0]]


@for_each("name", ["currencies", "names", "cameras"])
def test_of_a_list_or_map_whose_length_alone_is_drawn_no_shell_is_made_but_an_empty_one_is_empty(name):
    assert filled({name: None}, {(name, "count"): 2}, "gaps") == [{}, {}]
    assert filled({name: None}, {(name, "count"): 0}, "gaps") == [{name: {} if name == "currencies" else []}] * 2


def test_within_an_entry_that_is_given_no_shell_is_made_and_what_is_given_stays():
    euro = {"EUR": {"rate": 1.5, "coins": None}}
    assert filled({"currencies": euro}, {("currencies", 0, "coins", "count"): 2}, "gaps") == [
        {},
        {"currencies": {"EUR": {"rate": 1.5}}},
    ]
    assert filled({"cameras": [{"kind": "wide", "lenses": None}]}, {("cameras", 0, "lenses", "count"): 1}, "gaps") == [
        {},
        {"cameras": [{"kind": "wide"}]},
    ]


def test_the_value_of_a_given_key_goes_with_its_entity_and_is_nowhere_without_it():
    tree = {"currencies": {"EUR": {"rate": None}, "CHF": {"rate": 2.5}}}
    assert filled(tree, {("currencies", 0, "rate"): 1.5}, "gaps") == [
        {},
        {"currencies": {"EUR": {"rate": 1.5}, "CHF": {"rate": 2.5}}},
    ]


def test_entries_of_a_map_that_are_drawn_whole_have_keys_of_their_own():
    places = [("currencies", place, field) for place in range(3) for field in ("key", "rate")]
    values = dict(zip(places, ["EUR", 1.0, "CHF", 2.0, "EUR", 3.0], strict=True))
    assert filled({}, values, places) == [{"currencies": {"EUR": {"rate": 1.0}, "CHF": {"rate": 2.0}}}] * 2
    counted = {("currencies", "count"): 2, **values}
    assert filled({}, counted, list(counted)) == filled({}, values, places)
    assert filled({}, {places[3]: 2.0}, [places[3]]) == [{}, {}]
    tree = {"currencies": {"EUR": {"rate": 9.0}}}
    given = filled(tree, dict(list(values.items())[2:]), places[2:])
    assert given == [{"currencies": {"CHF": {"rate": 2.0}, "EUR": {"rate": 3.0}}}, tree]


def test_nothing_stands_beyond_the_length_of_a_list():
    place = ("names", 2)
    assert filled({}, {place: "c", ("names", "count"): 2}, [place, ("names", "count")]) == [{}, {}]
    assert (
        filled({}, {place: "c", ("names", "count"): 3}, [place, ("names", "count")])
        == [{"names": [None, None, "c"]}] * 2
    )
    assert filled({"names": ["a"]}, {place: "c"}, [place]) == [{"names": [None, None, "c"]}, {"names": ["a"]}]


@for_each("ask", ["gaps", "all"])
def test_whatever_is_drawn_of_lists_and_maps_makes_a_tree(ask):
    trees = [
        {"currencies": None},
        {"currencies": None, "names": None, "cameras": None},
        {},
        {"names": ["a", None]},
        {"currencies": {"EUR": None, "CHF": {"coins": None}}},
        {"cameras": [{}, {"lenses": None}, None]},
    ]
    entities = [Entity(str(i), tree, ("Land",)) for i, tree in enumerate(trees)]
    model = DiSK(KEYS, ModelConfig(width=16, heads=2, layers=1)).eval()
    blank = whole_batch(KEYS, entities * 20, ask)
    drawn = reveal(model, blank, generator=torch.Generator().manual_seed(0))
    for trees in (KEYS.trees(drawn, blank.asked), KEYS.trees(drawn, blank.asked, entities * 20)):
        for tree in trees:
            again = KEYED.apply(Entity("it", tree, ("Land",)))
            assert again.tree == tree
            assert not KEYED.check(again)


# ---------------------------------------------------------------- values that there are

DATED = [
    Entity(f"{year} {month} {day}", {"launch": Date(year, month, day)}, ("Phone",))
    for year, month, day in ((2011, 2, 28), (2012, 2, 29), (2011, 4, 30), (2011, 12, 31), (2000, 3, 1))
]

FEBRUARY = {"year": 2011, "month": 2, "day": 30}


def drawn(date: dict[str, int], free: set[str], listed: bool = False) -> dict[str, int]:
    """A date that asked for some of its parts, once these were drawn: what comes out of them."""
    kind = Property(Listed({"": DateKind()})) if listed else Property(DateKind())
    schema = of_one_class({("launch",): kind})
    dates = [one.tree["launch"] for one in DATED]
    at = ("launch", 0) if listed else ("launch",)
    codec = Codec.fit(schema, [Entity(str(one), {"launch": [one] if listed else one}) for one in dates])
    given = Date(**{name: None if name in free else number for name, number in date.items()})
    batch = whole_batch(codec, [Entity("it", {"launch": [given] if listed else given})], [("launch",)])
    asked = batch.asked
    for token in asked.nonzero()[:, 0].tolist():
        slot = codec.slots[batch.slot[token]]
        batch = batch.with_values("number", torch.tensor([token]), slot.codec.encode([date[slot.path[-1]]]))
    return {path[len(at)]: value for path, value in codec.leaves(batch, asked)[0].items()}


@for_each("listed", [False, True])
@for_each(
    ("date", "free", "found"),
    [
        (FEBRUARY, {"day"}, {"day": 28}),
        (FEBRUARY, {"day", "month"}, {"day": 28, "month": 2}),
        (FEBRUARY, {"month"}, {"month": 3}),
        (FEBRUARY, {"month", "year"}, {"month": 3, "year": 2011}),
        ({"year": 2012, "month": 2, "day": 30}, {"day"}, {"day": 29}),
        ({"year": 2011, "month": 2, "day": 29}, {"year"}, {"year": 2012}),
        ({"year": 2011, "month": 4, "day": 31}, {"day"}, {"day": 30}),
        ({"year": 2011, "month": 12, "day": 31}, {"day", "month"}, {"day": 31, "month": 12}),
    ],
)
def test_a_day_that_there_is_not_never_comes_out_and_only_what_was_drawn_gives_way(date, free, found, listed):
    assert drawn(date, free, listed) == found


def test_with_its_entity_what_was_drawn_is_whole():
    entity = Entity(
        "it",
        {"weight": Quantity(None, "oz"), "launch": Date(2011), "cameras": [{"kind": "wide"}, {"aperture": None}]},
        ("Phone",),
    )
    batch = whole_batch(CODEC, [entity], [("weight", "value"), ("launch", "month"), ("cameras", 1, "aperture")])
    asked = batch.asked
    for token in asked.nonzero()[:, 0].tolist():
        slot = CODEC.slots[batch.slot[token]]
        value = {"value": 283.5, "month": 2, "aperture": 1.8}[slot.path[-1]]  # in grams, as weights are learnt
        batch = batch.with_values("number", torch.tensor([token]), slot.codec.encode([value]))
    (tree,) = CODEC.trees(batch, asked, [entity])
    weight = tree.pop("weight")
    assert tree == {"launch": Date(2011, 2), "cameras": [{"kind": "wide"}, {"aperture": 1.8}]}
    assert (weight.value, weight.unit) == (pytest.approx(283.5 / 28.349523125), "oz")


@for_each(
    ("drawn", "unit", "found"),
    [
        *(
            (1900.0, "kg", 1000),  # drawn in grams, as it is learnt
            (900.0, "g", 900),
            (1900.0, "g", 1000),
            (1.7, "g", 50),
            (700.4, "g", 700),
            (400.4, "kg", 400.4),
        ),
        *((10.0, "kg", 50), (1900.0, "crate", 1900)),  # how many grams a crate is nobody said
    ],
)
def test_whatever_its_unit_a_drawn_number_is_within_the_bounds(drawn, unit, found):
    number = Number(integer=True, minimum=50, maximum=1000)
    kind = QuantityKind("g", {"kg": 1000.0, "crate": None}, number)
    codec = Codec.fit(
        of_one_class({("weight",): Property(kind)}), [Entity("known", {"weight": Quantity(5.5, "crate")})]
    )
    batch = whole_batch(codec, [Entity("blank", {"weight": Quantity(None, unit)})], "gaps")
    asked = batch.asked
    token = asked.nonzero()[:, 0]
    batch = batch.with_values("number", token, codec.slots[batch.slot[token]].codec.encode([drawn]))
    assert codec.leaves(batch, asked) == [{("weight", "value"): found}]


@for_each("listed", [False, True])
@for_each("unit", ["g", None])
def test_a_quantity_without_its_number_is_a_gap_also_where_there_is_one_unit_alone(unit, listed):
    kind = QuantityKind("g")
    schema = of_one_class({("weight",): Property(Listed({"": kind}) if listed else kind)})
    known, blank = ([Quantity(number, unit)] if listed else Quantity(number, unit) for number in (5, None))
    codec = Codec.fit(schema, [Entity("known", {"weight": known})])
    batch = whole_batch(codec, [Entity("blank", {"weight": blank})], "gaps")
    assert [codec.slots[slot].path[-1] for slot in batch.slot[batch.asked].tolist()] == ["value"]


def test_where_all_are_of_one_unit_what_was_drawn_is_never_of_another():
    schema = of_one_class({("weight",): Property(QuantityKind("g", {"kg": 1000.0}, normal=True))})
    codec = Codec.fit(schema, [Entity("known", {"weight": Quantity(5, "kg")})])
    blank = Entity("blank", {"weight": Quantity(None, "kg")})
    batch = whole_batch(codec, [blank], "gaps")
    asked = batch.asked
    batch = batch.with_values("number", torch.tensor([0]), codec.slots[0].codec.encode([5000.0]))
    assert codec.trees(batch, asked, [blank]) == codec.trees(batch, asked) == [{"weight": Quantity(5000, "g")}]


@pytest.mark.parametrize("pattern", [[3, [0.5]], [3, [10_000]], [1.5, [0]], [0, [0]]])
def test_patterns_of_no_slots_or_no_count_are_refused(pattern):
    data = json.loads(json.dumps(CODEC.to_json()))
    name = next(iter(data["patterns"]))
    data["patterns"][name] = [pattern]
    with pytest.raises(ValueError, match=f"patterns: {name}: expected"):
        Codec.from_json(data, CODEC.schema, CODEC.tokenizer)
