"""A data set as flat arrays: batches sorted by slot, drawn absent slots, shuffled batches."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tables import for_each
from worlds import PHONES, WORLD, phones, world

from kbdisk.data import Codec
from kbdisk.data.dataset import Tokens, batches, random_sample
from kbdisk.entity import NOVALUE, SOMEVALUE, Entity
from kbdisk.experts.base import visibility_levels
from kbdisk.schemas.kinds import Category
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema

PHONE_CODEC, WORLD_CODEC = Codec.fit(PHONES, phones()), Codec.fit(WORLD, world())


@pytest.fixture(scope="module")
def codec() -> Codec:
    return PHONE_CODEC


@pytest.fixture(scope="module")
def tokens(codec) -> Tokens:
    return codec.encode(phones())


def test_a_batch_is_sorted_by_slot_and_its_kinds_are_slices(codec, tokens):
    batch = tokens.batch(torch.randperm(len(tokens))[:20], absent=3)
    assert (batch.slot.diff() >= 0).all()
    kinds = [codec.slots[slot].kind for slot in batch.slot.tolist()]
    for kind, (start, end) in batch.spans.items():
        assert set(kinds[start:end]) <= {kind}
        assert kinds.count(kind) == end - start
        assert len(batch.values[kind]) == end - start
    assert [end for _, end in batch.spans.values()][-1] == len(batch)


def test_an_entity_may_come_twice_and_out_of_order(codec, tokens):
    batch = tokens.batch(torch.tensor([5, 2, 5]))
    alone = [codec.leaves(one, one.known)[0] for one in (tokens.batch(torch.tensor([i])) for i in (5, 2))]
    assert codec.leaves(batch, batch.known) == [alone[0], alone[1], alone[0]]
    assert len(batch) == int(tokens.sizes[[5, 2, 5]].sum())
    assert batch.classes.tolist() == [codec.classes.index("Phone")] * 3


def test_units_are_the_parts_of_one_composite_of_one_entity(codec, tokens):
    batch = tokens.batch(torch.arange(len(tokens)), absent=2)
    units = {}
    for token, unit in enumerate(batch.unit.tolist()):
        units.setdefault(unit, []).append(token)
    for unit, members in units.items():
        assert unit == members[0]
        assert len({int(batch.entity[member]) for member in members}) == 1
        heads = {codec.slots[int(batch.slot[member])].path[0] for member in members}
        assert len(heads) == 1
        if heads == {"body"} or batch.absent[members].any():
            assert len(members) == 1
    assert any(len(members) == 3 for members in units.values())


def test_a_batch_of_nothing_and_an_entity_of_nothing_are_empty(codec):
    tokens = codec.encode([Entity("bare", {}, ("Maker",)), Entity("bare too", {}, ("Phone",))])
    for indices in (torch.tensor([], dtype=torch.long), torch.arange(2)):
        batch = tokens.batch(indices)
        assert len(batch) == 0
        assert batch.size == len(indices)
        assert {len(codes) for codes in batch.values.values()} == {0}
    assert codec.leaves(batch, batch.known) == [{}, {}]
    assert len(codec.encode([])) == 0
    assert len(codec.encode([]).batch(torch.arange(0), absent=2)) == 0


def test_texts_are_padded_to_the_longest_of_the_batch(codec):
    texts = ["iPhone", "iPhone and Galaxy and Lumia", ""]
    tokens = codec.encode([Entity(text, {"model": text}, ("Phone",)) for text in texts])
    lengths = [tokens.batch(torch.tensor([i])).values["text"].shape[1] for i in range(3)]
    assert lengths[0] < lengths[1]
    assert lengths[2] == 1
    assert tokens.batch(torch.arange(3)).values["text"].shape == (3, lengths[1])
    assert tokens.batch(torch.tensor([0, 2])).values["text"].shape == (2, lengths[0])
    batch = tokens.batch(torch.arange(3))
    assert [leaves[("model",)] for leaves in codec.leaves(batch, batch.known)] == texts


def test_tokens_move_to_a_device_whole(tokens):
    moved = tokens.to("meta")
    assert {one.device.type for one in vars(moved).values() if torch.is_tensor(one)} == {"meta"}
    assert moved.codes["text"].flat.device.type == moved.layout.own.device.type == "meta"


# ---------------------------------------------------------------- absent


def lacking(codec, entity) -> set[int]:
    """What an entity's class has and it lacks, one slot after the other."""
    known = codec.schema.leaves(entity)
    return {
        number
        for number, slot in enumerate(codec.slots)
        if slot.class_name == codec.schema.class_of(entity).name and slot.role == "value" and slot.path not in known
    }


def test_absent_slots_are_those_that_the_entity_lacks_and_its_class_has(codec, tokens):
    for number, entity in enumerate(phones()):
        batch = tokens.batch(torch.tensor([number]), absent=1000)
        assert set(batch.slot[batch.absent].tolist()) == lacking(codec, entity)
        assert batch.absent.sum() == len(lacking(codec, entity))
        assert (batch.rarity == 1).all()
        assert not (batch.absent & (batch.known | batch.asked)).any()


def test_drawn_absent_slots_stand_for_all_that_are_lacking(codec, tokens):
    batch = tokens.batch(torch.arange(len(tokens)), absent=2)
    for number, entity in enumerate(phones()):
        own = batch.absent & (batch.entity == number)
        assert int(own.sum()) == min(2, len(lacking(codec, entity)))
        assert len(set(batch.slot[own].tolist())) == int(own.sum())
        assert float(batch.rarity[own].sum()) == pytest.approx(len(lacking(codec, entity)))
    assert (batch.rarity[~batch.absent] == 1).all()


def test_every_lacking_slot_is_drawn_as_often_as_its_rarity_says(codec):
    entity = Entity("one", {"oem": "Nokia", "body": {"folds": True}}, ("Phone",))
    tokens, times = codec.encode([entity]), 4000
    batch = tokens.batch(torch.zeros(times, dtype=torch.long), absent=3, generator=torch.Generator().manual_seed(1))
    weights = torch.zeros(len(codec.slots)).index_add(0, batch.slot, batch.rarity * batch.absent) / times
    lacks = lacking(codec, entity)
    share = 3 / len(lacks)
    error = math.sqrt((1 - share) / share / times)  # of a mean of `times` draws
    for slot in range(len(codec.slots)):
        assert float(weights[slot]) == (pytest.approx(1, abs=5 * error) if slot in lacks else 0)


def test_absent_slots_are_drawn_alike_from_a_generator_alike(tokens):
    def draw(seed):
        return tokens.batch(torch.arange(40), absent=2, generator=torch.Generator().manual_seed(seed)).slot

    assert torch.equal(draw(3), draw(3))
    assert not torch.equal(draw(3), draw(4))


def test_what_is_asked_or_known_to_exist_is_never_drawn_as_absent(codec):
    tree = {"oem": None, "model": SOMEVALUE, "weight": "no weight at all", "launch": NOVALUE}
    batch = codec.encode([Entity("odd", tree, ("Phone",))], ask="gaps").batch(torch.tensor([0]), absent=1000)
    absent = {codec.slots[slot].path[0] for slot in batch.slot[batch.absent].tolist()}
    assert absent == {"launch", "body", "cameras", "colours"}
    assert not {("body", "height")} & {codec.slots[slot].path for slot in batch.slot[batch.absent].tolist()}


def test_other_classes_cost_nothing():
    extra = {(f"p{i}",): Property(Category()) for i in range(300)}
    ships = [Entity(f"ship{i}", {f"p{i}": "x"}, ("Ship",)) for i in range(300)]
    alone, beside = Schema({"Phone": PHONES.classes["Phone"]}), None
    beside = Schema({**alone.classes, "Ship": Class("Ship", extra)})
    few, many = phones()[:40], [*ships, *phones()[:40]]
    both = []
    for schema, told in ((alone, few), (beside, many)):
        codec = Codec.fit(schema, told)
        generator = torch.Generator().manual_seed(2)
        batch = codec.encode(few).batch(torch.arange(40), absent=4, generator=generator)
        both.append(([codec.slots[slot].keys for slot in batch.slot.tolist()], batch))
    (keys, own), (others, with_others) = both
    assert keys == others
    assert torch.equal(own.entity, with_others.entity)
    assert torch.equal(own.rarity, with_others.rarity)


def test_absent_slots_are_drawn_of_every_class_of_a_batch():
    codec = Codec.fit(WORLD, world())
    batch = codec.encode(world()).batch(torch.arange(8), absent=99)
    lacks = [lacking(codec, entity) for entity in world()]
    assert [set(batch.slot[batch.absent & (batch.entity == i)].tolist()) for i in range(8)] == lacks


# ---------------------------------------------------------------- the order of batches


@for_each("places", [None, torch.tensor([7, 2, 2, 30]), torch.arange(0)])
def test_batches_of_some_tokens_come_in_order_and_have_every_entity_once(codec, tokens, places):
    wanted = list(range(len(tokens))) if places is None else places.tolist()
    hashes, numbers = [], []
    for those, batch in batches(tokens, 40, places):
        assert len(those) == 1 or len(batch) <= 40
        numbers.extend(those)
        hashes.extend(batch.id_hash.tolist())
    assert numbers == list(range(len(wanted)))
    assert hashes == tokens.id_hash[wanted].tolist()


@given(st.integers(0, 500), st.integers(1, 100), st.integers(0, 2**40))
def test_some_are_each_met_once_in_order_and_all_where_there_are_few(count, most, seed):
    places = random_sample(count, most, seed).tolist()
    assert places == sorted(set(places))
    assert len(places) == min(count, most)
    assert set(places) <= set(range(count))
    assert places == random_sample(count, most, seed).tolist()


def test_some_are_from_all_over():
    halves = Counter(place // 2000 for seed in range(20) for place in random_sample(4000, 50, seed).tolist())
    parities = Counter(place % 2 for seed in range(20) for place in random_sample(4000, 50, seed).tolist())
    assert all(abs(count[0] - 500) < 80 for count in (halves, parities))


# ---------------------------------------------------------------- some tokens of a batch


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.booleans())
def test_some_of_a_batch_s_tokens_are_as_they_were(kept, phones_alone):
    codec, known = (PHONE_CODEC, phones(6)) if phones_alone else (WORLD_CODEC, world())
    whole = codec.encode(known).batch(torch.arange(len(known)))
    chosen = torch.tensor((kept * len(whole))[: len(whole)])
    some_of_it = whole.only(chosen)
    places = chosen.nonzero()[:, 0].tolist()
    assert codec.leaves(some_of_it, some_of_it.known) == codec.leaves(whole, whole.known & chosen)
    for name in ("entity", "slot", "known", "fixed", "absent", "rarity"):
        assert torch.equal(getattr(some_of_it, name), getattr(whole, name)[chosen])
    kinds = {kind: range(start, end) for kind, (start, end) in some_of_it.spans.items()}
    assert all((places[token] in range(*whole.spans[kind])) for kind, tokens in kinds.items() for token in tokens)
    assert [token for tokens in kinds.values() for token in tokens] == list(range(len(places)))
    units = {}
    for token, place in enumerate(places):
        units.setdefault(int(whole.unit[place]), []).append(token)
    assert some_of_it.unit.tolist() == [units[int(whole.unit[place])][0] for place in places]
    both = [pair for pair in whole.needs.tolist() if set(pair) <= set(places)]
    assert [[places[one] for one in pair] for pair in some_of_it.needs.tolist()] == both


@given(st.integers(1, 4), st.booleans())
def test_a_batch_s_entities_come_so_many_times_each_with_its_composites(times, phones_alone):
    codec, known = (PHONE_CODEC, phones(6)) if phones_alone else (WORLD_CODEC, world())
    whole = codec.encode(known).batch(torch.arange(len(known)))
    many = whole.repeat(times)
    assert codec.leaves(many, many.known) == [
        leaves for leaves in codec.leaves(whole, whole.known) for _ in range(times)
    ]
    assert many.entity[many.unit].equal(many.entity)
    assert many.slot[many.unit].equal(whole.slot[whole.unit].repeat_interleave(times))
    every = torch.full((len(codec.classes),), 3)
    assert visibility_levels(many, many.known, every).equal(
        visibility_levels(whole, whole.known, every).repeat_interleave(times)
    )
