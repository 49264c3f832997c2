"""Confidence is calibrated by property; a property is filled where that pays on held-out statements."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import examples

from kbdisk.evaluation.calibration import (
    MAX_UNLABELLED_PRESENCE,
    Calibration,
    Line,
    Outcome,
    Reliability,
    Statement,
    UnlabelledPresence,
    log_odds,
)

A, B, C = ("T", "a"), ("T", "b"), ("", "c.year")


def fitted(slope, intercept, offsets, count=4000, seed=0):
    """A line fitted to truths that are drawn by a line."""
    draw = np.random.default_rng(seed)
    keys = [(A, B, C)[n % 3] for n in range(count)]
    chances = draw.uniform(0.02, 0.98, count)
    odds = intercept + slope * log_odds(chances) + np.array([offsets.get(key, 0.0) for key in keys])
    truth = (draw.uniform(size=count) < 1 / (1 + np.exp(-odds))).astype(float)
    return Line.fit(keys, chances, truth, np.ones(count))


def test_a_line_is_found_again():
    line = fitted(0.5, 0.3, {A: 1.5, B: -1.5})
    assert line.slope == pytest.approx(0.5, abs=0.1)
    for key, offset in ((A, 1.5), (B, -1.5), (C, 0.0)):
        assert line.intercept + line.offsets[key] == pytest.approx(0.3 + offset, abs=0.25)
    assert line(A, 0.5) == pytest.approx(1 / (1 + math.exp(-1.8)), abs=0.05)


def test_a_property_with_few_values_has_the_line_of_all():
    keys, chances, truth = [A] * 400 + [B] * 2, [0.5] * 402, [1.0, 0.0] * 200 + [0.0, 0.0]
    line = Line.fit(keys, np.array(chances), np.array(truth), np.ones(402))
    assert line(A, 0.5) == pytest.approx(0.5, abs=0.03)
    assert 0.25 < line(B, 0.5) <= line(A, 0.5) + 1e-6


def test_where_the_model_is_misleading_only_the_share_of_right_statements_counts():
    line = fitted(-1.0, 0.0, {})
    assert line.slope == 0
    assert line(A, 0.01) == line(A, 0.99) == pytest.approx(0.5, abs=0.05)


def test_what_a_statement_stands_for_counts_as_often():
    keys, chances = [A] * 60, np.full(60, 0.5)
    truth = np.array([1.0] * 30 + [0.0] * 30)
    weights = np.array([3.0] * 30 + [1.0] * 30)
    assert Line.fit(keys, chances, truth, weights)(A, 0.5) == pytest.approx(0.75, abs=0.03)


def test_without_held_out_values_probabilities_stay_as_the_model_has_them():
    assert Line.fit([], np.zeros(0), np.zeros(0), np.zeros(0))(A, 0.3) == pytest.approx(0.3)
    assert not Calibration.fit([]).is_known
    assert Calibration().confidence(A, 0.5, 0.5) == pytest.approx(0.25)
    assert Calibration().gain(A) is None


def outcomes(key, right, constant, count, correctness=0.9, presence=0.95) -> list[Outcome]:
    return [
        Outcome(key, presence, correctness, float(n < right * count), float(n < constant * count)) for n in range(count)
    ]


def lacking(key, count, presence) -> list[Outcome]:
    return [Outcome(key, presence, 0.9, None, None)] * count


def test_presence_from_positive_and_unlabelled_outcomes_is_the_share_of_those_that_are_positive():
    # a fifth of the unlabelled ones is positive; a positive one has the score .8 in three of four cases, a negative one in one of four
    positive = [Outcome(A, 0.8 if n % 4 else 0.2, 1.0, 1.0, 0.0, weight=0.5) for n in range(400)]
    unlabelled = [Outcome(A, 0.8 if n < 150 + 200 else 0.2, 1.0, None, None) for n in range(1000)]
    presence = UnlabelledPresence.fit([*positive, *unlabelled])
    assert presence(A, 0.8) == pytest.approx(150 / 350, abs=0.02)
    assert presence(A, 0.2) == pytest.approx(50 / 650, abs=0.02)
    assert presence(A, None) == 1.0
    certain = UnlabelledPresence.fit([*positive, *unlabelled[:10]])
    assert certain(A, 0.8) == MAX_UNLABELLED_PRESENCE


def test_a_property_whose_statements_are_right_and_whose_constant_is_not_is_worth_filling():
    assert Calibration.fit(outcomes(A, 0.9, 0.2, 60)).gain(A).is_significant


def test_a_property_is_not_worth_filling_where_its_constant_does_as_well():
    assert not Calibration.fit(outcomes(A, 0.9, 0.9, 60)).gain(A).is_significant


def test_a_property_is_not_worth_filling_where_as_many_are_wrong_as_right():
    assert not Calibration.fit(outcomes(A, 0.5, 0.1, 60)).gain(A).is_significant


def test_two_right_statements_are_no_evidence():
    both = [*outcomes(A, 1.0, 0.0, 2), *outcomes(B, 0.9, 0.2, 60)]
    assert not Calibration.fit(both).gain(A).is_significant


def test_of_a_property_with_one_value_evidence_is_that_presence_is_known():
    """Its constant is right wherever there is a value; writing it everywhere is wrong where there is none."""
    known = [*outcomes(A, 1.0, 1.0, 60), *lacking(A, 40, 0.05)]
    unknown = [*outcomes(B, 1.0, 1.0, 4, presence=0.04), *lacking(B, 96, 0.04)]
    calibration = Calibration.fit([*known, *unknown])
    assert calibration.gain(A).is_significant
    assert not calibration.gain(B).is_significant


def test_the_precision_of_a_threshold_is_that_of_held_out_statements():
    statements = {
        A: [Statement(0.9, 0.0, 1.0, 0.0, 1.0), Statement(0.8, 0.0, 0.0, 0.0, 1.0), Statement(0.3, 0.0, 0.0, 0.0, 2.0)]
    }
    calibration = Calibration(statements=statements)
    assert calibration.precision(0.85) == 1
    assert calibration.precision(0.5) == 0.5
    assert calibration.precision(0.0, [A]) == 0.25
    assert calibration.precision(0.95) is calibration.precision(0.0, [B]) is None


def test_the_threshold_for_a_precision_is_the_lowest_that_reached_it():
    sure = [Statement(0.9, 0.0, 1.0, 0.0, 1.0)] * 100
    unsure = [Statement(0.6, 0.0, float(n % 2), 0.0, 1.0) for n in range(20)]
    calibration = Calibration(statements={A: [*sure, *unsure], B: [Statement(0.9, 0.0, 0.0, 0.0, 1.0)] * 9})
    assert calibration.threshold_for(0.95, A) == 0.9
    assert calibration.threshold_for(0.8, A) == 0.6
    assert calibration.threshold_for(0.8, B) is None
    assert Calibration().threshold_for(0.8, A) is None


def test_the_precision_of_few_statements_is_shrunk_to_that_of_all():
    right, wrong = Statement(0.9, 0.0, 1.0, 0.0, 1.0), Statement(0.9, 0.0, 0.0, 0.0, 1.0)
    calibration = Calibration(statements={A: [right] * 5, B: [right, wrong] * 50})
    assert calibration.threshold_for(0.95, A) is None  # five that are right, where half of all are, are no measurement
    reliable = Calibration(statements={A: [right] * 5, B: [right] * 100})
    assert reliable.threshold_for(0.95, A) == reliable.threshold_for(0.95, C) == 0.9


def test_of_entities_whose_value_is_not_recorded_presence_is_lower_than_the_share_that_has_the_property():
    """Half of the entities have the property, and of these .85 have it recorded; of another kind all have it."""
    draw = np.random.default_rng(0)
    outcomes: list[Outcome] = []
    for presence, share in ((0.425, 0.5), (0.85, 1.0)):
        recorded = draw.uniform(size=2000) < 0.85 * share
        outcomes += [Outcome(A, presence, 0.9, *((1.0, 0.0) if known else (None, None))) for known in recorded]
    presence = Calibration.fit(outcomes).presence
    assert presence(A, 0.85) == pytest.approx(1.0, abs=0.05)
    assert presence(A, 0.425) == pytest.approx(1 / 4, abs=0.08)  # a third of the odds of .5


def of_class(name, key, right, count, presence=0.8) -> list[Outcome]:
    """Outcomes of a class, of which a share has the property."""
    return [
        Outcome(key, presence, 0.9, *((1.0, 0.0) if n < right * count else (None, None)), class_name=name)
        for n in range(count)
    ]


def test_a_class_has_its_own_level_around_that_of_its_property():
    calibration = Calibration.fit([*of_class("City", A, 0.9, 80), *of_class("Island", A, 0.1, 80)])
    presence = calibration.presence.line
    assert presence(A, 0.8, "City") == pytest.approx(0.9, abs=0.06)
    assert presence(A, 0.8, "Island") == pytest.approx(0.1, abs=0.06)
    assert presence(A, 0.8, "Town") == pytest.approx(
        0.5, abs=0.06
    )  # a class that is not known has that of the property


def test_classes_that_do_not_differ_have_no_level_of_their_own():
    calibration = Calibration.fit([*of_class("City", A, 0.5, 80), *of_class("Island", A, 0.5, 80)])
    assert not calibration.presence.line.by_class


def test_what_the_source_declares_absent_counts_as_wrong_in_full():
    declared = Outcome(A, 0.9, 0.9, None, None, is_declared=True)
    undeclared = Outcome(A, 0.9, 0.9, None, None)
    assert Calibration().judged(declared).counted == 1
    assert Calibration().judged(undeclared).counted == pytest.approx(0.1)


def test_the_calibration_error_is_the_mean_gap_between_confidence_and_the_share_that_is_right():
    sure = [Statement(0.95, 0.0, float(n < 8), 0.0, 1.0) for n in range(10)]
    unsure = [Statement(0.25, 0.0, float(n < 10), 0.0, 1.0) for n in range(30)]
    reliability = Reliability.of([*sure, *unsure])
    assert [tuple(map(float, one)) for one in reliability.bins] == [
        (pytest.approx(0.25), pytest.approx(1 / 3), 30.0),
        (pytest.approx(0.95), pytest.approx(0.8), 10.0),
    ]
    assert reliability.error == pytest.approx((30 * (1 / 3 - 0.25) + 10 * 0.15) / 40)
    assert Reliability.of([]).error is None


CHANCES = st.floats(0, 1)


@settings(max_examples=examples(20))
@given(
    st.lists(
        st.tuples(st.sampled_from([A, B, C]), CHANCES, CHANCES, st.none() | CHANCES, CHANCES, st.floats(0.1, 9)),
        max_size=80,
    )
)
def test_whatever_the_outcomes_confidence_is_a_probability_that_rises_with_what_the_model_says(rows):
    made = [
        Outcome(key, presence, correctness, right, None if right is None else constant, weight)
        for key, presence, correctness, right, constant, weight in rows
    ]
    calibration = Calibration.fit(made)
    found = [calibration.confidence(A, 0.5, chance / 10) for chance in range(11)]
    assert all(0 <= one <= 1 for one in found)
    assert found == sorted(found)
    again = Calibration.from_json(json.loads(json.dumps(calibration.to_json())))
    assert again.confidence(A, 0.5, 0.5) == pytest.approx(calibration.confidence(A, 0.5, 0.5), abs=1e-5)
    assert {key: again.gain(key) is None for key in (A, B, C)} == {
        key: calibration.gain(key) is None for key in (A, B, C)
    }


def test_a_line_after_a_line_is_one_line():
    first, second = Line(0.8, 0.3, {A: 0.5}), Line(0.6, -1.0, {A: 0.2, B: 0.4})
    for key in (A, B, C):
        assert first.then(second)(key, 0.7) == pytest.approx(second(key, first(key, 0.7)))


def test_a_calibration_is_adapted_to_other_data_property_by_property():
    draw = np.random.default_rng(0)
    before = Calibration(correctness=Line(1.2, 0.1, {A: 0.3}))
    outcomes = [
        Outcome(
            key,
            1.0,
            float(chance),
            float(draw.uniform() < before.correctness(key, chance) * (0.2 if key == A else 1)),
            0.0,
        )
        for key, chance in zip([A, B] * 1000, draw.uniform(0.3, 0.9, 2000), strict=True)
    ]
    after = before.adapted(outcomes)
    assert after.presence == before.presence
    for key in (A, B):
        own = [outcome for outcome in outcomes if outcome.property == key]
        stated = np.mean([after.correctness(key, outcome.correctness) for outcome in own])
        assert stated == pytest.approx(np.mean([outcome.right for outcome in own]), abs=3 * 0.5 / math.sqrt(len(own)))
    assert Reliability.of(statement for own in after.statements.values() for statement in own).error < 0.06


def test_a_few_outcomes_of_other_data_change_nothing():
    before = Calibration(correctness=Line(1.2, 0.1, {A: 0.3}))
    after = before.adapted([Outcome(A, 1.0, 0.9, 0.0, 0.0)] * 5)
    assert after.correctness(A, 0.9) == pytest.approx(before.correctness(A, 0.9))


def test_a_property_that_other_data_lacks_keeps_its_evidence():
    before = Calibration.fit([*outcomes(A, 0.9, 0.2, 60), *outcomes(B, 0.9, 0.2, 60)])
    after = before.adapted([*outcomes(A, 0.1, 0.2, 60), *lacking(B, 60, 0.95)])
    assert after.statements[B] == before.statements[B]
    assert after.gain(B).is_significant
    assert not after.gain(A).is_significant
