"""A trial of completion hides what entities have, fills it and what they lack, and says how right that is."""

from __future__ import annotations

import sys

import pytest
import torch
from models import tiny
from things import entities, schema, thing

from kbdisk.completion import complete
from kbdisk.completion.trial import Trial, outcomes_of, rightness, weights, without
from kbdisk.data.parse import read
from kbdisk.entity import NOVALUE, Entity, Link
from kbdisk.evaluation.calibration import Calibration
from kbdisk.schemas.composites import Date
from kbdisk.schemas.kinds import Category, Number
from kbdisk.schemas.kinds import Link as LinkKind
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import of_one_class

SOME = 12


@pytest.fixture(scope="module")
def trial(model):
    some = [thing(i) for i in range(SOME)]
    for tree in some[:4]:
        del tree["colour"]
    return Trial(model, entities(*some), None, {}, seed=0)


def test_every_property_that_is_filled_is_asked_for_where_it_is_known_and_where_it_lacks(trial):
    asked = {(question.entity, question.hidden) for question in trial.questions() if question.hidden}
    assert {entity for entity, path in asked if path == ("size",)} == set(range(SOME))
    assert {entity for entity, path in asked if path == ("colour",)} == set(range(4, SOME))
    lacking = [question for question in trial.questions() if question.hidden is None]
    assert {one.entity for one in lacking for gap in one.gaps if gap.path == ("colour",)} == set(range(4))
    paths = {path for _, path in asked} | {gap.path for one in lacking for gap in one.gaps}
    assert not paths & {
        ("id",),
        ("name",),
        ("rank",),
        ("code",),
        ("area",),
        ("weather",),
    }  # names, texts, what is computed


def test_entities_with_the_same_id_have_gaps_of_their_own(model):
    with_colour, with_size = thing(0), {**thing(1), "id": thing(0)["id"]}
    del with_colour["size"], with_size["colour"]
    trial = Trial(model, entities(with_colour, with_size), None, {}, seed=0)
    lacking = {
        question.entity: {gap.path for gap in question.gaps} for question in trial.questions() if not question.hidden
    }
    assert ("size",) in lacking[0] - lacking[1]
    assert ("colour",) in lacking[1] - lacking[0]


def test_what_is_hidden_is_asked_for_and_all_else_is_given(trial, model):
    slots = model.codec.slots
    for question in trial.questions():
        batch = trial._batch([question])
        known = {slots[slot].path for slot in batch.slot[batch.known].tolist() if not slots[slot].fixed}
        asked = {slots[slot].path for slot in batch.slot[batch.asked].tolist()}
        given = set(trial.readings[question.entity].leaves) & {slot.path for slot in slots if not slot.fixed}
        if question.hidden is None:
            assert known == given
        else:
            length = len(question.hidden)
            assert known == {path for path in given if path[:length] != question.hidden}
            assert asked
            assert {path[:length] for path in asked} == {question.hidden}


def test_a_linked_entitys_values_go_with_the_link_that_is_hidden():
    shapes = of_one_class({("area",): Property(Number()), ("to",): Property(LinkKind()), ("n",): Property(Number())})
    every = [Entity(f"e{i}", {"area": i % 7, "n": i % 5, "to": Link(f"e{i % 4}")}) for i in range(60)]
    model = tiny(shapes, every)
    trial = Trial(model, every[:8], None, {}, seed=0)
    [question] = [one for one in trial.questions() if one.hidden == ("to",) and one.entity == 5]
    batch = trial._batch([question])
    [whole] = [one for one in trial.questions() if one.hidden == ("n",) and one.entity == 5]
    brought = [slot for slot in trial._batch([whole]).slot.tolist() if model.codec.slots[slot].fixed]
    left = [slot for slot in batch.slot.tolist() if model.codec.slots[slot].fixed]
    assert brought
    assert len(left) < len(brought)


def test_what_lacks_together_is_hidden_together():
    shapes = of_one_class({("x",): Property(Number()), ("census",): Property(Number()), ("c",): Property(Category())})
    every = [Entity(f"e{i}", {"c": "ab"[i % 2], **({"x": i % 7, "census": i % 7} if i % 3 else {})}) for i in range(90)]
    model = tiny(shapes, every)
    trial = Trial(model, every, None, {}, seed=0)
    questions = [one for one in trial.questions() if one.hidden]
    assert {one.along for one in questions if one.hidden == ("x",)} == {frozenset([("census",)])}
    assert {one.along for one in questions if one.hidden == ("c",)} == {frozenset()}
    for question in questions:
        batch = trial._batch([question])
        known = {model.codec.slots[slot].path for slot in batch.slot[batch.known].tolist()}
        given = set(trial.readings[question.entity].leaves)
        assert known == given - {question.hidden} - question.along


def test_presence_is_asked_for_with_what_lacks_together_given(model):
    trial = Trial(model, entities(*map(thing, range(SOME))), None, {}, seed=0)
    [question] = [one for one in trial.questions() if (one.entity, one.hidden) == (5, ("size",))]
    outcomes = []
    for along in (frozenset(), frozenset([("mass",)])):  # the mass follows the size
        trial.questions = lambda along=along: [question._replace(along=along)]
        outcomes += trial.outcomes(None, None)
    alone, with_mass_hidden = outcomes
    assert with_mass_hidden.presence == pytest.approx(alone.presence, abs=1e-6)
    assert with_mass_hidden.correctness != alone.correctness


def test_of_an_entity_that_was_trained_on_only_reserved_values_are_asked_for(model):
    some = entities(thing(0), thing(1))
    slot = model.codec.slot("", ("size",))
    month = model.codec.slot("", ("born", "month"))
    trial = Trial(model, some, None, {"t0": [slot, month], "t1": []}, seed=0)
    assert [(question.entity, question.hidden) for question in trial.questions()] == [
        (0, ("size",))
    ]  # of a date not all


def test_outcomes_say_how_right_each_statement_is(model):
    outcomes = outcomes_of(model, entities(*map(thing, range(SOME))))
    assert {one.property for one in outcomes} >= {("", "size"), ("", "born.year"), ("", "born.day"), ("", "tags")}
    assert all(one.right is None or 0 <= one.right <= 1 for one in outcomes)
    assert {one.right for one in outcomes if one.property == ("", "colour")} <= {0.0, 1.0}
    assert all(0 <= chance <= 1 for one in outcomes for chance in (one.presence, one.correctness) if chance is not None)
    assert Calibration.fit(outcomes).is_known


def test_a_trial_fills_what_completion_would_fill(model):
    """One hidden value, filled by a trial and by completion of the entity that lacks it."""
    some = [thing(i) for i in range(SOME)]
    lacking = [{**tree} for tree in some]
    del lacking[5]["size"]
    one = list(complete(model, entities(*lacking), fill="all"))[5].filled["size",]
    within = one.belief.within
    right = float(abs(one.value - some[5]["size"]) <= within)
    trial = Trial(model, entities(*some), None, {}, seed=0)
    trial.questions = lambda: [q for q in Trial.questions(trial) if (q.entity, q.hidden) == (5, ("size",))]
    [outcome] = trial.outcomes(None, None)
    assert outcome.right == right


def test_what_the_source_declares_absent_is_asked_for(model):
    some = [thing(i) for i in range(SOME)]
    some[3] = {**some[3], "colour": NOVALUE}
    trial = Trial(model, entities(*some), None, {}, seed=0)
    declared = [question for question in trial.questions() if question.is_declared]
    assert [(one.entity, [gap.path for gap in one.gaps]) for one in declared] == [(3, [("colour",)])]
    outcomes = [outcome for outcome in trial.outcomes(None, None) if outcome.is_declared]
    assert [(one.property, one.right, one.class_name) for one in outcomes] == [(("", "colour"), None, "")]


def test_hidden_numbers_have_a_rank_in_their_belief(model):
    some = [thing(i) for i in range(SOME)]
    outcomes = outcomes_of(model, entities(*some))
    ranks = [rank for outcome in outcomes for rank in outcome.ranks]
    assert {rank.property for rank in ranks} >= {("", "size"), ("", "born.year")}
    assert all(0 <= rank.below <= 1 and rank.given > 0 for rank in ranks)
    assert not any(outcome.ranks for outcome in outcomes if outcome.right is None)
    size = [rank for rank in ranks if rank.property == ("", "size")]
    assert len(size) == sum("size" in tree for tree in some)


def test_a_trial_ends_with_its_time(model):
    some = entities(*map(thing, range(SOME)))
    assert len(outcomes_of(model, some, seconds=1e-9)) < len(outcomes_of(model, some))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks safely")
def test_other_processes_find_the_outcomes_that_this_one_finds(monkeypatch, model):
    some = entities(*map(thing, range(SOME)))
    monkeypatch.setattr("kbdisk.completion.trial.CHUNK", 64)
    outcomes = []
    for processes in (1, 3):
        monkeypatch.setattr("kbdisk.completion.trial.usable_processes", lambda device, count=processes: count)
        outcomes.append(outcomes_of(model, some))
    assert outcomes[1] == outcomes[0]


def test_a_number_is_right_within_its_tolerance_and_a_set_by_its_members(model):
    slots = {slot.path: slot for slot in model.codec.slots}
    size = slots["size",]
    within = float(size.codec.tolerances(torch.tensor([20.0]).double().numpy())[0])
    assert rightness(size, 20.0 + within / 2, 20.0) == 1
    assert rightness(size, 20.0 + 2 * within, 20.0) == 0
    assert rightness(slots["colour",], "red", "red") == 1
    assert rightness(slots["colour",], "red", "blue") == rightness(slots["colour",], "red", None) == 0
    assert rightness(slots["tags",], ["a", "b"], ["a", "c"]) == 0.5
    assert rightness(slots["new",], True, 1) == 0


def test_a_date_is_asked_for_as_precisely_as_it_is_known():
    dates = of_one_class({("born",): Property(Date()), ("c",): Property(Category())})
    every = [Entity(f"e{i}", {"born": {"year": 1900 + i, "month": 1 + i % 12}, "c": "ab"[i % 2]}) for i in range(60)]
    model = tiny(dates, every)
    outcomes = outcomes_of(model, every[:6])
    assert {one.property for one in outcomes} == {("", "born.year"), ("", "born.month"), ("", "c")}


def test_weights_restore_the_share_of_entities_that_have_a_property():
    hidden, lacking = weights(30, 60, 4.0, 100)  # 30 reserved values, of a property that 4 of 100 have
    assert 30 * hidden + 60 * lacking == pytest.approx(90)
    assert 30 * hidden / 90 == pytest.approx(0.04)
    assert weights(5, 0, 5.0, 5) == weights(5, 5, 0.0, 0) == (1.0, 1.0)


def test_an_entity_without_a_property_has_no_leaf_of_it():
    reading = read(schema(), entities(thing(3))[0])
    assert not any(path[0] == "born" for path in without(reading, ("born",)).leaves)
    assert set(reading.leaves) - set(without(reading, ("born",)).leaves) == {
        ("born", p) for p in ("year", "month", "day")
    }
