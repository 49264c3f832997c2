"""Hashed features: near for near numbers, equal for equal values, NaN for hidden ones. One-hot features of the words of texts."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kbdisk.data import Codec
from kbdisk.entity import Entity
from kbdisk.experts import label_regression
from kbdisk.experts.base import USUALLY_VISIBLE, Inputs, Sides
from kbdisk.experts.config import LabelRegressionConfig
from kbdisk.experts.features import (
    KEY_COLUMN,
    NUMBER_HASH,
    UNKNOWN_KEY,
    HashedFeatures,
    OneHotFeatures,
    blocks_of,
    hash_signs,
    most_frequent_slots,
)
from kbdisk.schemas.kinds import Category, Number, Set, Text
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import of_one_class

LEAVES = {("x",): Number(), ("side",): Category(), ("name",): Text(), ("tags",): Set()}
TREES = [
    {"x": 1.0, "side": "left", "name": "SM-G900F", "tags": ["a"]},
    {"x": 1.0, "side": "right", "name": "SM-G901F"},
    {"x": 1.1, "side": "left", "name": "lamp"},
    {"x": 9.0},
]


@pytest.fixture(scope="module")
def codec() -> Codec:
    known = [Entity(f"t{number}", tree) for number, tree in enumerate(TREES * 10)]
    return Codec.fit(of_one_class({path: Property(leaf) for path, leaf in LEAVES.items()}), known)


def table(codec: Codec, hidden: str = "") -> tuple[HashedFeatures, torch.Tensor]:
    batch = codec.encode([Entity(f"t{number}", tree) for number, tree in enumerate(TREES)]).batch(torch.arange(4))
    features = HashedFeatures.of(codec, most_frequent_slots(codec, 64))
    slot = codec.slot(codec.classes[0], (hidden,)) if hidden else -1
    return features, features.table(batch, batch.known & (batch.slot != slot))


def columns(codec: Codec, features: HashedFeatures, name: str) -> slice:
    slot = codec.slot(codec.classes[0], (name,))
    start = int(features.start[slot])
    return slice(start, start + sum(blocks_of(codec.slots[slot].kind)))


def test_similar_values_have_near_features(codec):
    features, found = table(codec)
    x, side, name = (found[:, columns(codec, features, one)] for one in ("x", "side", "name"))
    assert torch.equal(x[0], x[1])
    assert (x[0, :2] - x[2, :2]).abs().max() < (x[0, :2] - x[3, :2]).abs().max()
    assert not torch.equal(x[0, 2:], x[2, 2:])
    assert torch.equal(side[0], side[2])
    assert not torch.equal(side[0], side[1])
    assert (name[0] - name[1]).norm() < 0.7 * (name[0] - name[2]).norm()


@pytest.mark.parametrize("hidden", ["x", "side", "name"])
def test_features_of_hidden_and_unknown_values_are_nan(codec, hidden):
    features, found = table(codec, hidden)
    own = columns(codec, features, hidden)
    assert found[:, own].isnan().all()
    whole = table(codec)[1]
    assert not whole[0].isnan().any()
    assert whole[3, columns(codec, features, "name")].isnan().all()
    others = torch.ones(features.width, dtype=torch.bool)
    others[own] = False
    torch.testing.assert_close(found[:, others], whole[:, others], equal_nan=True)


@pytest.mark.parametrize("hidden", ["x", "side", "name"])
def test_hiding_a_property_in_a_table_leaves_what_the_others_show(codec, hidden):
    features, whole = table(codec)
    again = features.hide(whole, codec, codec.slot(codec.classes[0], (hidden,)))
    torch.testing.assert_close(again, table(codec, hidden)[1], equal_nan=True)


def test_unknown_labels_have_no_features(codec):
    known = [Entity("new", {"side": "never met", "x": 1.0})]
    batch = codec.encode(known).batch(torch.arange(1))
    features = HashedFeatures.of(codec, most_frequent_slots(codec, 64))
    assert features.table(batch, batch.known)[:, columns(codec, features, "side")].isnan().all()


def test_each_part_of_a_property_is_a_block(codec):
    features, _ = table(codec)
    block = features.block(codec, 0)
    assert (block >= 0).all()
    own = block[columns(codec, features, "x")].tolist()
    assert own == [own[0], own[0] + 1, *[own[0] + 2] * NUMBER_HASH]
    assert len(block.unique()) == 5


def test_the_most_frequent_slots_are_taken(codec):
    assert {codec.slots[slot].path for slot in most_frequent_slots(codec, 1).tolist()} == {("x",)}
    assert ("tags",) not in {codec.slots[slot].path for slot in most_frequent_slots(codec, 64).tolist()}


@given(st.lists(st.integers(-(2**62), 2**62), min_size=2, max_size=50, unique=True), st.integers(4, 16))
def test_hash_signs_have_one_length_and_are_equal_for_equal_keys(keys, count):
    found = hash_signs(torch.tensor(keys + keys[:1]), count)
    assert torch.equal(found[0], found[-1])
    torch.testing.assert_close(found.square().sum(1), torch.full((len(found),), 0.5))


def test_hash_signs_of_different_keys_are_about_one_apart():
    found = hash_signs(torch.arange(1000), NUMBER_HASH)
    assert torch.cdist(found[:500], found[500:]).square().mean() == pytest.approx(1, abs=0.02)
    assert (torch.cdist(found[:500], found[500:]) == 0).float().mean() < 3 / 2**NUMBER_HASH


# ---------------------------------------------------------------- words of texts


def test_words_of_texts_have_the_columns_that_other_values_leave():
    reasons = ("for the discovery of enzymes", "for the discovery of rays", "for lyrical poetry and prose")
    known = [Entity(f"p{n}", {"why": f"{reasons[n % 3]} {n}", "x": n}) for n in range(60)]
    codec = Codec.fit(of_one_class({("why",): Property(Text()), ("x",): Property(Number())}), known)
    batch = codec.encode(known).batch(torch.arange(60))
    text = codec.slot(codec.classes[0], ("why",))
    assert (OneHotFeatures.fit(batch, 100).slot != text).all()
    assert len(OneHotFeatures.fit(batch, 1, words=True)) == 1
    columns = OneHotFeatures.fit(batch, 100, words=True)
    of_words = columns.table(batch, batch.known)[:, columns.slot == text]
    assert 3 <= of_words.shape[1] <= 99
    assert ((of_words == 0) | (of_words == 1)).all()
    discovers = [n % 3 < 2 for n in range(60)]
    assert any(column.eq(1).tolist() == discovers for column in of_words.T)
    hidden = columns.table(batch, batch.known & (batch.slot != text))
    assert hidden[:, columns.slot == text].isnan().all()
    assert not hidden[:, columns.slot != text].isnan().any()


def test_equal_values_have_equal_keys_where_values_repeat():
    towns = [f"town {n % 20}" for n in range(40)] + ["town 99"] * 5
    known = [Entity(f"p{n}", {"town": town, "name": f"name {n}", "note": town}) for n, town in enumerate(towns)]
    leaves = {("town",): Category(), ("name",): Text(), ("note",): Text()}
    codec = Codec.fit(of_one_class({path: Property(leaf) for path, leaf in leaves.items()}), known[:40])
    batch = codec.encode(known).batch(torch.arange(45))
    columns = OneHotFeatures.fit(batch, 100, keys=True)
    keys = {int(slot): n for n, slot in enumerate(columns.slot) if columns.label[n] == KEY_COLUMN}
    town, note = (codec.slot(codec.classes[0], (name,)) for name in ("town", "note"))
    assert keys.keys() == {town, note}  # no name occurs twice
    table = columns.table(batch, batch.known)
    for column in keys.values():
        assert (table[:, column, None] == table[:, column]).tolist() == [[a == b for b in towns] for a in towns]
    assert (table[40:, keys[town]] == UNKNOWN_KEY).all()  # the codec has not met town 99
    assert (table[40:, keys[note]] != UNKNOWN_KEY).all()
    hidden = columns.table(batch, batch.known & (batch.slot != town))
    assert hidden[:, keys[town]].isnan().all()


def test_a_category_follows_from_the_words_of_a_text():
    subjects = {
        "physics": ("rays", "atoms", "light"),
        "medicine": ("cells", "enzymes"),
        "peace": ("treaties", "rights"),
    }
    rng, known = random.Random(0), []
    for number in range(240):
        category = rng.choice(sorted(subjects))
        beginning = rng.choice(("for work on", "for studies of", "in recognition of"))
        why = f"{beginning} {rng.choice(subjects[category])} in {1900 + number % 97}"
        known.append(Entity(f"p{number}", {"category": category, "why": why}))
    codec = Codec.fit(of_one_class({("category",): Property(Category()), ("why",): Property(Text())}), known)
    sides = Sides(codec.encode(known[:200]), codec.encode(known[200:]))
    group = label_regression.fit(codec, sides, config=LabelRegressionConfig(share=0.1), seed=0).group
    slot, batch = codec.slot(codec.classes[0], ("category",)), sides.held_out.batch(torch.arange(40))
    features = group.featurizer.table(batch, batch.known & (batch.slot != slot))
    predicted = group.experts[slot, USUALLY_VISIBLE].expert.predict(Inputs(features, batch.id_hash))
    likeliest = predicted.codes.gather(1, predicted.mass.argmax(1)[:, None])[:, 0]
    start, end = batch.spans["category"]
    assert (likeliest[batch.entity[start:end]] == batch.values["category"]).double().mean() > 0.9
