"""Known values that are masked alone: asked about one by one, or all at once where nothing else is masked with them."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from kbdisk.data import Codec
from kbdisk.data.dataset import Tokens
from kbdisk.entity import Date, Entity
from kbdisk.entity import Link as Ref
from kbdisk.experts import stacking
from kbdisk.experts.features import HashedFeatures, most_frequent_slots
from kbdisk.experts.queries import (
    VALUES_OF_RARE,
    draw_entities,
    masked_alone,
    questions_about_rare,
    questions_alone,
    rare_values,
    usual_amounts,
)
from kbdisk.schemas.infer import infer
from kbdisk.schemas.schema import Schema


@pytest.fixture(scope="module")
def known() -> tuple[Schema, list[Entity]]:
    """People with dates, lists and links, and the places that they link to, which bring evidence."""
    places = [Entity(f"o{n}", {"size": n * n + 1, "kind": "ab"[n % 2]}, ("Place",)) for n in range(8)]
    people = []
    for n in range(60):
        tree = {"born": Date(1900 + n, 1 + n % 12, 1 + n % 28), "at": Ref(f"o{n % 8}"), "age": 90 - n}
        tree |= {"marks": [{"score": n + k} for k in range(n % 3)]} if n % 4 else {}
        people.append(Entity(f"p{n}", tree, ("Person",)))
    return infer([*people, *places]).schema, [*people, *places]


def tokens_of(known: tuple[Schema, list[Entity]]) -> tuple[Codec, Tokens]:
    codec = Codec.fit(*known)
    return codec, codec.encode(known[1])


def test_what_is_asked_at_once_is_what_is_asked_one_by_one(known):
    codec, tokens = tokens_of(known)
    features = HashedFeatures.of(codec, most_frequent_slots(codec, 64))
    batch, generator = tokens.batch(torch.arange(len(tokens))), torch.Generator().manual_seed(0)
    for usual in (usual_amounts(tokens), torch.zeros_like(usual_amounts(tokens)), usual_amounts(tokens) - 1):
        one_by_one, at_once = {}, {}
        for _, hidden, levels in questions_alone(batch, tokens.layout, usual, generator):
            table = features.table(batch, hidden.visible)
            for token in hidden.asked.nonzero()[:, 0].tolist():
                entity = int(batch.entity[token])
                one_by_one.setdefault(token, []).append((int(levels[entity]), table[entity]))
        several = list(masked_alone(batch, tokens.layout, usual, generator))
        for masked in several:
            table = features.table(batch, masked.visible)
            for token in masked.tokens.nonzero()[:, 0].tolist():
                row = table[batch.entity[token], None].clone()
                row = features.hide(row, codec, int(batch.slot[token]))[0]
                at_once.setdefault(token, []).append((int(masked.levels[token]), row))
        assert one_by_one.keys() == at_once.keys()
        for token, expected in one_by_one.items():
            torch.testing.assert_close(at_once[token], expected, equal_nan=True)
        assert several[0].tokens.sum() > len(batch) / 3


def test_links_that_bring_evidence_and_lengths_of_lists_are_not_independent(known):
    codec, tokens = tokens_of(known)
    batch, generator = tokens.batch(torch.arange(len(tokens))), torch.Generator().manual_seed(0)
    first = next(iter(masked_alone(batch, tokens.layout, usual_amounts(tokens), generator)))
    names = {codec.slots[slot].path[-1] for slot in batch.slot[first.tokens].tolist()}
    assert {"age", "year", "size", "kind"} <= names
    assert not names & {"at", "count"}


def test_entities_are_drawn_among_those_that_are_named(known):
    (_, tokens), among = tokens_of(known), torch.tensor([1, 3, 4])
    drawn = draw_entities(tokens, 10_000, torch.Generator().manual_seed(0), among)
    assert sorted(drawn.tolist()) == among.tolist()


def test_values_that_were_asked_for_are_not_asked_for_alone_again(known):
    codec, tokens = tokens_of(known)
    generator, usual = torch.Generator().manual_seed(0), usual_amounts(tokens)
    rare = rare_values(tokens, set(range(len(codec.slots))), generator)
    of_rare = list(questions_about_rare(tokens, rare, usual))
    others = [
        question for question, in_rounds in stacking._questions(tokens, usual, 0, generator, rare) if not in_rounds
    ]
    times = Counter()
    for batch, hidden, _ in [*of_rare, *others]:
        alone = hidden.asked.nonzero()[:, 0]
        alone = alone[batch.unit[alone].bincount()[batch.unit[alone]] == 1]
        times.update(zip(batch.id_hash[batch.entity[alone]].tolist(), batch.slot[alone].tolist(), strict=True))
    assert rare
    assert set(times.values()) == {1}


def test_of_rare_slots_some_values_are_asked_for_alone_the_rarest_first():
    known = [
        Entity(f"e{n}", {"all": n, **({"few": n} if n % 10 == 0 else {}), **({"some": n} if n % 3 == 0 else {})})
        for n in range(200)
    ]
    codec = Codec.fit(infer(known).schema, known)
    tokens = codec.encode(known)
    slots = {codec.slots[number].path[-1]: number for number in range(len(codec.slots))}
    rare = rare_values(tokens, set(slots.values()), torch.Generator().manual_seed(0))
    assert list(rare) == [slots["few"], slots["some"]]
    assert [len(entities) for entities in rare.values()] == [20, VALUES_OF_RARE]
    for slot, (batch, hidden, _) in zip(rare, questions_about_rare(tokens, rare, usual_amounts(tokens)), strict=True):
        assert set(batch.slot[hidden.asked].tolist()) == {slot}
        assert int(hidden.asked.sum()) == batch.size == len(rare[slot])
        assert bool((hidden.visible == (batch.known & ~hidden.asked)).all())
    assert not rare_values(tokens, {slots["all"]}, torch.Generator().manual_seed(0))
