"""What a belief may depend on: what is visible and its own path, and on nothing else."""

from __future__ import annotations

import random
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from model.conftest import SCHEMA, knowledge, made
from tables import for_each

from kbdisk.entity import Entity
from kbdisk.model.diffusion import beliefs, loss, reveal
from kbdisk.model.masking import Hiding, hide
from kbdisk.schemas.kinds import Category, Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema, of_one_class
from kbdisk.training.run import Run


@pytest.fixture
def batch(learnt, entities):
    return learnt[0].encode(entities).batch(torch.arange(len(entities)))


@pytest.fixture
def hidden(batch):
    return hide(batch, Hiding(), torch.Generator().manual_seed(0))


@torch.no_grad()
def believed(model, batch, visible, asked):
    """log p of the batch's values, by token: of each kind's asked ones."""
    return model(batch, visible, asked).log_prob(batch)


def blank(batch, visible):
    """The batch with nothing in it that is not visible."""
    values = {}
    for kind, (start, end) in batch.spans.items():
        codes = batch.values[kind].clone()
        codes[~visible[start:end]] = 0
        values[kind] = codes
    return replace(batch, values=values)


def test_blanking_what_is_hidden_changes_no_belief_by_a_bit(learnt, batch, hidden):
    _, model = learnt
    with torch.no_grad():
        before = model(batch, hidden.visible, hidden.asked)
        after = model(blank(batch, hidden.visible), hidden.visible, hidden.asked)
    assert torch.equal(before.log_prob(batch), after.log_prob(batch))
    assert torch.equal(before.presence["logits"], after.presence["logits"])


def test_what_is_visible_does_matter(learnt, batch, hidden):
    _, model = learnt
    with torch.no_grad():
        before = model(batch, hidden.visible, hidden.asked)
        after = model(blank(batch, ~hidden.visible), hidden.visible, hidden.asked)
    assert not torch.allclose(before.log_prob(batch), after.log_prob(batch), atol=1e-3)


def test_asking_one_more_property_changes_no_other_belief(learnt, batch, hidden):
    _, model = learnt
    some = hidden.asked.nonzero()[:, 0]
    for left_out in some[::9].tolist():
        fewer = hidden.asked.clone()
        fewer[left_out] = False
        many, few = (believed(model, batch, hidden.visible, asked) for asked in (hidden.asked, fewer))
        torch.testing.assert_close(many[fewer], few[fewer], atol=1e-5, rtol=1e-5)


def test_other_entities_of_the_batch_change_nothing(learnt, entities):
    codec, model = learnt
    tokens = codec.encode(entities)
    whole = tokens.batch(torch.arange(len(entities)))
    generator = torch.Generator().manual_seed(1)
    hidden = hide(whole, Hiding(), generator)
    together = believed(model, whole, hidden.visible, hidden.asked)
    for one in range(len(entities)):
        alone, own = tokens.batch(torch.tensor([one])), whole.entity == one
        apart = believed(model, alone, hidden.visible[own], hidden.asked[own])
        torch.testing.assert_close(apart, together[own], atol=1e-5, rtol=1e-5)


@for_each("sharing", ["disjoint", "tied"])
def test_the_order_of_the_schema_changes_nothing(entities, sharing):
    turned = Schema(
        {name: Class(name, dict(reversed(one.properties.items()))) for name, one in reversed(SCHEMA.classes.items())}
    )
    results = []
    for schema in (SCHEMA, turned):
        codec, model = made(schema, entities, sharing)
        batch = codec.encode(entities).batch(torch.arange(len(entities)))
        hidden = hide(batch, Hiding(), torch.Generator().manual_seed(2))
        nats = believed(model, batch, hidden.visible, hidden.asked)
        told = [(int(e), codec.slots[s].keys) for e, s in zip(batch.entity, batch.slot, strict=True)]
        results.append(dict(zip(told, nats.tolist(), strict=True)))
    assert results[0] == pytest.approx(results[1], abs=1e-6)


def test_hiding_a_link_hides_its_inverse_and_what_came_over_it(learnt):
    codec, model = learnt
    entities = knowledge()[4:10]
    changed = [
        replace(one, tree={**one.tree, "population": 999_999, "port": False, "name": "Nowhere"})
        if one.id == "city4"
        else one
        for one in entities
    ]
    lone = [one if one.id != "city4" else replace(one, tree={}) for one in entities]
    place = next(place for place, one in enumerate(entities) if one.id == "country4")
    assert entities[place].tree["capital"].id == "city4"
    capital = next(number for number, slot in enumerate(codec.slots) if slot.keys == ("Country", "capital"))
    told = []
    for kb in (entities, changed, lone):
        batch = codec.encode(kb).batch(torch.tensor([place]))
        link = batch.slot == capital
        found = beliefs(model, batch, asked=link)
        told.append(found.log_prob(batch)[link])
    assert torch.equal(told[0], told[1])
    torch.testing.assert_close(told[0], told[2], atol=1e-6, rtol=1e-6)


def test_a_visible_link_brings_evidence(learnt):
    codec, model = learnt
    entities = knowledge()
    changed = [replace(one, tree={**one.tree, "population": 999_999}) if one.id == "city4" else one for one in entities]
    place = next(place for place, one in enumerate(entities) if one.id == "country4")
    told = []
    for kb in (entities, changed):
        batch = codec.encode(kb).batch(torch.tensor([place]))
        area = torch.tensor([codec.slots[slot].path == ("area",) for slot in batch.slot.tolist()])
        told.append(beliefs(model, batch, asked=area).log_prob(batch)[area])
    assert not torch.equal(*told)


def test_properties_of_other_classes_cost_and_change_nothing(entities):
    more = {f"extra{number}": Property(Number()) for number in range(50)}
    wide = Schema({**SCHEMA.classes, "Other": Class("Other", {(name,): one for name, one in more.items()})})
    others = [Entity(f"other{n}", dict.fromkeys(more, n * 1.5), classes=("Other",)) for n in range(3)]
    codec, _ = made(SCHEMA, entities)
    wider, model = made(wide, [*entities, *others])
    ours, theirs = (each.encode(entities).batch(torch.arange(4), absent=100) for each in (codec, wider))
    assert len(ours) == len(theirs)
    assert [codec.slots[s].keys for s in ours.slot.tolist()] == [wider.slots[s].keys for s in theirs.slot.tolist()]
    ran = []
    model.paths.step.register_forward_hook(lambda module, given, out: ran.append(len(out)))
    loss(model, theirs, hide(theirs, Hiding())).total.backward()
    assert sum(ran) < 50


def test_an_entity_of_which_nothing_is_known_is_believed_of_by_its_class_and_paths(learnt):
    codec, model = learnt
    empty = [
        Entity("a", {}, classes=("City",)),
        Entity("b", {}, classes=("City",)),
        Entity("c", {}, classes=("Country",)),
    ]
    batch = codec.encode(empty, ask="all").batch(torch.arange(3))
    found = beliefs(model, batch)
    entropy = found.pick(torch.tensor([codec.slots[slot].kind != "text" for slot in batch.slot.tolist()])).entropy()
    torch.testing.assert_close(entropy[batch.entity == 0], entropy[batch.entity == 1], atol=1e-5, rtol=1e-5)
    assert bool((entropy > 0).any())


def test_values_once_read_are_not_read_again(learnt):
    codec, model = learnt
    read = []
    for encoder in model.kinds.encoders.values():
        encoder.register_forward_hook(lambda module, given, out: read.append(len(out)))
    batch = codec.encode([Entity("a", {"area": 5.0}, classes=("Country",))], ask="all").batch(torch.arange(1))
    full = reveal(model, batch, leap=1, generator=torch.Generator().manual_seed(0))
    assert bool(full.known.all())
    assert sum(read) == len(batch) - 1  # the last one drawn is never looked at


def test_what_a_memo_keeps_changes_no_belief(learnt, batch, hidden):
    _, model = learnt
    with torch.no_grad():
        memo = {}
        some = hidden.visible & (torch.rand(len(batch)) < 0.5)
        model(batch, some, hidden.asked, memo)
        with_memo = model(batch, hidden.visible, hidden.asked, memo).log_prob(batch)
    torch.testing.assert_close(with_memo, believed(model, batch, hidden.visible, hidden.asked), atol=1e-5, rtol=1e-5)


def test_a_name_told_by_its_text_is_known_by_it(entities):
    codec, model = made(SCHEMA, entities, paths="text")
    batch = codec.encode(entities).batch(torch.arange(4))
    total = loss(model, batch, hide(batch, Hiding())).total
    total.backward()
    assert bool(torch.isfinite(total))
    assert model.paths.out.weight.grad.abs().sum() > 0


@pytest.mark.slow
def test_presence_is_as_likely_as_it_is_recorded_with_all_else_visible():
    """Eight numbers, each of which any entity has or has not: half of them often, the others rarely."""
    rng, fills = random.Random(0), {f"p{n}": [0.25, 0.75][n % 2] for n in range(8)}
    schema = of_one_class({(p,): Property(Number()) for p in fills})
    known = [Entity(str(n), {p: rng.random() for p in fills if rng.random() < fills[p]}) for n in range(400)]
    codec, model = made(schema, known)
    tokens = codec.encode(known)
    hiding, optimizer = Run.of("default").hiding, torch.optim.Adam(model.train().parameters(), lr=0.003)
    generator = torch.Generator().manual_seed(0)
    for _ in range(80):
        optimizer.zero_grad()
        batch = tokens.batch(torch.randint(400, (64,), generator=generator), absent=2, generator=generator)
        loss(model, batch, hide(batch, hiding, generator), presence=1.0).total.backward()
        optimizer.step()
    model.eval()
    batch = codec.encode(known[:100], ask="all").batch(torch.arange(100))
    found = beliefs(model, batch).presence
    often = torch.tensor([fills[codec.slots[slot].path[0]] > 0.5 for slot in batch.slot[found["tokens"]].tolist()])
    likely = found["logits"].sigmoid()
    assert float(likely[often].mean()) == pytest.approx(0.75, abs=0.12)
    assert float(likely[~often].mean()) == pytest.approx(0.25, abs=0.12)


def test_what_has_learnt_nothing_takes_presence_to_be_what_it_is_on_the_whole(entities):
    codec, model = made(SCHEMA, entities)
    batch = codec.encode(entities, ask="all").batch(torch.arange(len(entities)))
    found = beliefs(model, batch).presence
    fills = [codec.slots[slot].fill for slot in batch.slot[found["tokens"]].tolist()]
    assert found["logits"].sigmoid().tolist() == pytest.approx([min(max(one, 0.01), 0.99) for one in fills], abs=1e-4)
    _, plain = made(SCHEMA, entities, usual=False)
    assert bool((plain.presence_prior == 0).all())


def test_presence_is_learnt():
    schema = Schema({"Phone": Class("Phone", {("maker",): Property(Category()), ("radio",): Property(Number())})})
    phones = [
        Entity(str(n), {"maker": "Old", "radio": n % 7} if n % 2 else {"maker": "New"}, classes=("Phone",))
        for n in range(200)
    ]
    codec, model = made(schema, phones)
    tokens = codec.encode(phones)
    optimizer = torch.optim.Adam(model.train().parameters(), lr=0.01)
    for _ in range(80):
        optimizer.zero_grad()
        drawn = tokens.batch(torch.randint(200, (64,)), absent=2)
        loss(model, drawn, hide(drawn, Hiding(nothing=0.3))).total.backward()
        optimizer.step()
    model.eval()
    two = [Entity("a", {"maker": "Old"}, classes=("Phone",)), Entity("b", {"maker": "New"}, classes=("Phone",))]
    batch = codec.encode(two, ask="all").batch(torch.arange(2))
    found = beliefs(model, batch).presence
    likely = dict(zip(batch.entity[found["tokens"]].tolist(), found["logits"].sigmoid().tolist(), strict=True))
    assert likely[0] > 0.6
    assert likely[1] < 0.1


def test_a_network_with_zero_readouts_believes_the_same_without_encoding_what_is_visible(
    learnt, batch, hidden, monkeypatch
):
    _, model = deepcopy(learnt)
    model.zero_readouts()
    with torch.no_grad():
        model.presence.weight.zero_()
    encoded = []
    encode = type(model)._encode_queries
    monkeypatch.setattr(type(model), "_encode_queries", lambda *given: encoded.append(1) or encode(*given))
    asked = hidden.asked.clone()
    for start, end in (span for kind, span in batch.spans.items() if kind == "text"):
        asked[start:end] = False
    in_full = model(batch, hidden.visible, asked)  # gradients need the vectors
    assert len(encoded) == 1
    with torch.no_grad():
        shortened = model(batch, hidden.visible, asked)
    assert len(encoded) == 1
    assert asked.any()
    assert torch.equal(in_full.log_prob(batch), shortened.log_prob(batch))
    assert torch.equal(in_full.presence["logits"], shortened.presence["logits"])


def test_a_network_whose_presence_or_texts_depend_on_vectors_encodes_what_is_visible(learnt, batch, hidden):
    _, model = deepcopy(learnt)
    model.zero_readouts()
    start, end = batch.spans["text"]
    texts = torch.zeros_like(hidden.asked)
    texts[start:end] = hidden.asked[start:end]
    assert texts.any()
    for weight, asked, is_needed in (
        (0.0, texts, True),
        (0.0, ~texts & hidden.asked, False),
        (0.1, ~texts & hidden.asked, True),
    ):
        with torch.no_grad():
            model.presence.weight.fill_(weight)
            assert model._uses_vectors(batch, asked) == is_needed
