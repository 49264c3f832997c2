"""Partial pooling: a property that several classes have is learnt once for all of them, and each class keeps its own bounds."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from models import tiny_run
from tables import examples

from kbdisk.completion.complete import complete
from kbdisk.data import Codec
from kbdisk.data.config import CodecConfig
from kbdisk.data.pooling import Pools
from kbdisk.data.slots import CLASSES, Source
from kbdisk.entity import Date as Day
from kbdisk.entity import Entity
from kbdisk.entity import Link as LinkValue
from kbdisk.evaluation.evaluate import evaluate
from kbdisk.sampling import sample
from kbdisk.schemas.composites.date import Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.quantity import Quantity
from kbdisk.schemas.infer import infer
from kbdisk.schemas.kinds import Category, Link, Number, Set, Text, nearest
from kbdisk.schemas.merging import merge_kinds
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema
from kbdisk.training.train import train

SCHEMA = Schema(
    {
        "City": Class(
            "City",
            {
                ("height",): Property(Number(maximum=4000)),
                ("size",): Property(Category(("small", "large"))),
                ("in",): Property(Link()),
            },
        ),
        "Mountain": Class(
            "Mountain",
            {
                ("height",): Property(Number(integer=True, minimum=500)),
                ("size",): Property(Number()),
                ("in",): Property(Link()),
            },
        ),
        "Country": Class("Country", {("height",): Property(Number()), ("capital",): Property(Link("City"))}),
    }
)


def entities() -> list[Entity]:
    """Cities and mountains of two countries; heights differ between the classes."""
    found = []
    for number in range(24):
        place = LinkValue(f"country{number % 2}")
        city = {"height": 10.5 + number, "size": ["small", "large"][number % 2], "in": place}
        mountain = {"height": 1000 + 10 * number, "size": number / 2, "in": place}
        found.append(Entity(f"city{number}", city, ("City", "Capital") if number < 4 else ("City",)))
        found.append(Entity(f"mountain{number}", mountain, ("Mountain",)))
    found += [
        Entity(f"country{n}", {"height": 100 + n, "capital": LinkValue(f"city{n}")}, ("Country",)) for n in (0, 1)
    ]
    return found


@pytest.fixture(scope="module")
def codec() -> Codec:
    return Codec.fit(SCHEMA, entities(), CodecConfig(pooling=True))


def test_a_property_of_one_kind_has_one_slot_for_all_classes_and_one_of_two_kinds_has_two(codec):
    assert codec.slot("City", ("height",)) == codec.slot("Mountain", ("height",)) == codec.slot("Country", ("height",))
    assert codec.slot("City", ("size",)) != codec.slot("Mountain", ("size",))
    slot = codec.slots[codec.slot("City", ("height",))]
    assert slot.counts == {"City": 24, "Mountain": 24, "Country": 2}
    assert slot.count == 50
    assert codec.slot("City", ("capital",)) is None


def test_without_pooling_each_class_has_a_slot_of_its_own():
    apart = Codec.fit(SCHEMA, entities())
    assert len({apart.slot(name, ("height",)) for name in SCHEMA.classes}) == 3
    assert apart.index.classes_slot is None


def test_all_classes_of_an_entity_are_visible(codec):
    slot = codec.index.classes_slot
    assert codec.slots[slot].path == CLASSES
    tokens = codec.encode(entities())
    counts = torch.zeros(len(tokens), dtype=torch.long)
    owner = torch.arange(len(tokens)).repeat_interleave(tokens.sizes)
    counts.index_add_(0, owner, (tokens.slot == slot).long())
    assert counts.tolist() == [len(entity.classes) for entity in entities()]


def test_what_comes_over_a_link_is_evidence_once_for_all_classes_that_have_the_link(codec):
    over = [slot for slot in codec.slots if slot.over is not None and slot.path == ("in", "height")]
    assert [slot.count for slot in over] == [48]


def test_an_entity_lacks_what_its_own_class_has(codec):
    for entity, lacks in ((Entity("x", {}, ("Country",)), 2), (Entity("x", {"height": 1}, ("City",)), 2)):
        tokens = codec.encode([entity])
        batch = tokens.batch(torch.arange(1), absent=9)
        names = {codec.slots[slot].path for slot in batch.slot[batch.absent].tolist()}
        assert int(batch.absent.sum()) == lacks == len(names)
        assert names <= set(SCHEMA.classes[entity.classes[0]].properties)


def test_a_value_has_the_bounds_and_decimals_of_its_own_class(codec):
    slot = codec.slot("City", ("height",))
    assert codec.fitted_to_class("City", slot, 9000.25) == 4000
    assert codec.fitted_to_class("Mountain", slot, 700.4) == 700
    assert codec.fitted_to_class("Mountain", slot, 3.5) == 500
    assert codec.fitted_to_class("Country", slot, 3.5) == 3.5


def test_a_pooled_codec_survives_the_way_to_json_and_back(codec):
    again = Codec.from_json(json.loads(json.dumps(codec.to_json())), SCHEMA, codec.tokenizer)
    assert again.slots == codec.slots
    assert again.to_json() == codec.to_json()


numbers = st.builds(
    Number,
    integer=st.booleans(),
    minimum=st.none() | st.integers(-9, 0),
    maximum=st.none() | st.integers(0, 9),
    transform=st.sampled_from(["auto", "log"]),
    decimals=st.none() | st.integers(0, 3),
)


@settings(max_examples=examples(50))
@given(numbers, numbers, st.floats(-12, 12))
def test_what_fits_one_of_two_numbers_fits_both_together(one, other, value):
    both = merge_kinds(one, other)
    assert both == merge_kinds(other, one)
    for leaf in (one, other):
        try:
            leaf.check(value)
        except ValueError:
            continue
        both.check(value)


@settings(max_examples=examples(50))
@given(numbers, st.floats(-12, 12))
def test_a_value_that_is_fitted_to_a_class_is_one_of_it(leaf, value):
    leaf.check(nearest(leaf, value))


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (Category(("a",)), Category(("b",), closed=True), Category(("a", "b"))),
        (Category(("a",), ordered=True), Category(("b",)), None),
        (Link("City"), Link("Town"), Link(None)),
        (Set(Link("City"), 3), Set(Link("City"), 5), Set(Link("City"), 5)),
        (Set(Category()), Set(Link()), None),
        (Text("en", 5), Text("en", None), Text("en", None)),
        (Text("en"), Text("de"), None),
        (Number(transform="log"), Number(transform="quantile"), None),
        (Number(), Category(), None),
        (Quantity("m", value=Number(minimum=1)), Quantity("m", value=Number()), Quantity("m", value=Number())),
        (Quantity("m"), Quantity("kg"), None),
        (Date(parts=("year",), minimum=5), Date(minimum=3, maximum=9), Date(minimum=3)),
        (Date(), Date("dmy"), None),
        (Listed({"": Number(True)}, 3), Listed({"": Number(decimals=2)}, 5), Listed({"": Number(decimals=2)}, 5)),
        (Listed({"a": Number()}), Listed({"b": Number()}), None),
    ],
)
def test_kinds_go_together_or_not(one, other, both):
    assert merge_kinds(one, other) == both


def test_properties_of_different_roles_are_learnt_apart():
    city = replace(SCHEMA.classes["City"], properties={("height",): Property(Number(), role="given")})
    pools = Pools.of(Schema({**SCHEMA.classes, "City": city}), pooled=True)
    assert pools.members[Source("City", ("height",))] == ("City",)
    assert pools.members[Source("Country", ("height",))] == ("Country", "Mountain")


@pytest.fixture(scope="module")
def trained():
    run = replace(tiny_run(), codec=CodecConfig(pooling=True))
    return train(SCHEMA, entities(), run, torch.device("cpu"), lambda progress: None)


def test_a_pooled_model_completes_evaluates_and_draws(trained):
    lacking = [Entity("new", {"size": 3.5, "in": LinkValue("country1")}, ("Mountain",)), *entities()]
    done = next(iter(complete(trained, lacking, fill="all")))
    assert set(done.filled) == {("height",)}
    SCHEMA.classes["Mountain"].properties["height",].kind.check(done.filled["height",].value)
    scores = evaluate(trained, entities())
    heights = [row for row in scores if row["path"] == "height"]
    assert [(row["class"], row["n"]) for row in heights] == [("City", 50)]
    assert {entity.classes[0] for entity in sample(trained, 9)} <= SCHEMA.classes.keys()


def test_a_schema_that_says_which_properties_are_shared_pools_these_alone():
    shared = replace(SCHEMA, properties={("height",): Property(Number())})
    apart = Codec.fit(shared, entities(), CodecConfig(pooling=True))
    assert len({apart.slot(name, ("height",)) for name in SCHEMA.classes}) == 1
    assert apart.slot("City", ("in",)) != apart.slot("Mountain", ("in",))


def test_what_infer_defines_as_shared_is_pooled_as_it_is_without_definitions():
    found = infer(entities()).schema
    assert set(found.properties) == {("height",), ("in",)}
    assert Pools.of(found, pooled=True) == Pools.of(replace(found, properties=None), pooled=True)


def test_years_are_learnt_together_from_years_alone_and_from_days():
    parts = {"A": ("year",), "B": ("year", "month", "day"), "C": ("year",)}
    schema = Schema({name: Class(name, {("born",): Property(Date(parts=several))}) for name, several in parts.items()})
    born = {"A": Day(1900), "B": Day(1901, 2, 3), "C": Day(1902)}
    known = [Entity(f"{name}{n}", {"born": born[name]}, (name,)) for name in parts for n in (0, 1)]
    made = Codec.fit(schema, known, CodecConfig(pooling=True))
    assert {slot.path[-1]: slot.counts for slot in made.slots if slot.role == "value"} == {
        "year": {"A": 2, "B": 2, "C": 2},
        "month": {"B": 2},
        "day": {"B": 2},
    }
    assert made.slot("A", ("born", "month")) is None
    assert Codec.from_json(json.loads(json.dumps(made.to_json())), schema, made.tokenizer).slots == made.slots


def test_dates_neither_of_which_has_all_parts_are_learnt_apart():
    parts = {"A": ("year", "month"), "B": ("year", "day")}
    schema = Schema({name: Class(name, {("born",): Property(Date(parts=several))}) for name, several in parts.items()})
    assert len(Pools.of(schema, pooled=True).members) == 4
