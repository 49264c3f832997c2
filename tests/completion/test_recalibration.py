"""Confidence is calibrated once more on the known values of a source of which many entities are unlike the training data."""

from __future__ import annotations

from dataclasses import replace

import pytest
from models import SURE, calibrated
from things import entities, thing

from kbdisk.completion import complete
from kbdisk.completion.config import CompletionConfig
from kbdisk.completion.decide import calibration_of
from kbdisk.completion.trial import calibrations_of
from kbdisk.completion.why import why

SOME = 16


def shifted(numbers, size=5000.0):
    """Things that are far heavier than any that the model knows, and whose tags are new."""
    trees = [thing(number) for number in numbers]
    return entities(*({**tree, "mass": {"value": size, "unit": "kg"}, "tags": ["never", "seen"]} for tree in trees))


@pytest.fixture(scope="module")
def sure(model):
    """The model, which takes everything that it says for right."""
    return calibrated(model, correctness=SURE)


@pytest.fixture(scope="module")
def calibrations(sure):
    """The calibrations for a source of which all entities are unlike the training data."""
    return calibrations_of(sure, shifted(range(SOME)), CompletionConfig())


def test_of_a_source_like_the_training_data_the_calibration_stays(sure):
    calibrations = calibrations_of(sure, entities(*map(thing, range(SOME))), CompletionConfig())
    assert calibrations.like == calibrations.unlike == calibration_of(sure)


def test_a_few_entities_that_are_unlike_change_nothing_and_are_flagged(sure):
    source = [*entities(*map(thing, range(SOME))), *shifted([SOME])]
    assert calibrations_of(sure, source, CompletionConfig()).unlike == calibration_of(sure)
    *like, unlike = complete(sure, source)
    assert not any(completion.unlike for completion in like)
    assert unlike.unlike


def test_what_is_wrong_on_known_values_of_the_source_is_stated_with_less_confidence(sure, calibrations):
    before, after = calibration_of(sure), calibrations.unlike
    key = sure.codec.learnt_as("", ("colour",))
    statements = after.statements[key]
    right = sum(statement.right for statement in statements) / len(statements)
    assert before.correctness(key, 0.5) > 0.99
    assert after.correctness(key, 0.5) == pytest.approx(right, abs=0.25)
    assert after.presence == before.presence


def test_entities_that_are_unlike_are_counted_and_completed_by_their_own_calibration(sure):
    like, unlike = entities(*map(thing, range(20))), shifted(range(20, 40))
    gappy = [replace(entity, tree={**entity.tree, "colour": None}) for entity in (*like, *unlike)]
    completing = complete(sure, gappy, fill="all")
    completions = list(completing)
    assert [bool(completion.unlike) for completion in completions] == [False] * 20 + [True] * 20
    assert completing.summary.unlike == 20
    assert max(completing.summary.unlike_in.values()) == 20
    assert completing.summary.to_json()["unlike"]["entities"] == 20
    calibrations = calibrations_of(sure, gappy, CompletionConfig(fill="all"))
    assert {completions[0].filled[("colour",)].confidence} != {completions[-1].filled[("colour",)].confidence}
    assert calibrations.like != calibrations.unlike


def test_the_same_source_is_calibrated_to_the_same(sure, calibrations):
    again = calibrations_of(sure, shifted(range(SOME)), CompletionConfig())
    assert again.unlike == calibrations.unlike != calibration_of(sure)


def test_entities_that_the_model_was_trained_on_do_not_raise_the_confidence_of_the_others(sure):
    """A model is right about what it has learnt: that says nothing about new entities."""
    source = [*entities(*map(thing, range(SOME))), *shifted(range(100, 110))]
    calibrations = calibrations_of(sure, source, CompletionConfig())
    assert {sure.schema.id_of(entity) for entity in source[:SOME]} <= {*sure.record.training, *sure.record.validation}
    assert calibrations.unlike != calibration_of(sure)
    statements = sum(len(own) for own in calibrations.like.statements.values())
    assert statements <= sum(len(own) for own in calibration_of(sure).statements.values())


def test_why_states_the_confidence_that_completing_such_a_source_states(sure):
    source = [replace(entity, tree={**entity.tree, "colour": None}) for entity in shifted(range(SOME))]
    *_, last = complete(sure, source, fill="all")
    explained = why(sure, last.entity, ("colour",), source)
    assert explained.confidence == pytest.approx(last.filled[("colour",)].confidence, abs=1e-3)
    assert explained.confidence < why(sure, last.entity, ("colour",)).confidence
