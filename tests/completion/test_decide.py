"""A property is written from the lowest threshold on from which its statements are a gain on held-out values."""

from __future__ import annotations

import pytest
from tables import for_each

from kbdisk.completion.config import CompletionConfig
from kbdisk.completion.decide import NO_BETTER, TOO_FEW, TOO_OFTEN_WRONG, UNMEASURED, UNSURE, Decider
from kbdisk.evaluation.calibration import RAISED_THRESHOLDS, THRESHOLD, Calibration, Statement

SURE = [Statement(0.95, 0.0, 1.0, 0.0, 1.0)] * 40  # right, where the constant is wrong
MOSTLY_WRONG = [Statement(0.55, 0.0, right, 0.0, 1.0) for right in (1.0, 0.0, 0.0)] * 20


def decider(model, statements, **config):
    key = ("Thing", "mass.value")
    return Decider(model, CompletionConfig(**config), Calibration(statements={key: statements})), key


def test_statements_that_are_a_gain_are_written_from_the_usual_threshold_on(model):
    decides, key = decider(model, SURE)
    assert decides.threshold(key) == THRESHOLD
    assert not decides.why_not(key)


def test_unsure_statements_that_are_mostly_wrong_raise_the_threshold_of_their_property(model):
    decides, key = decider(model, SURE + MOSTLY_WRONG)
    assert decides.threshold(key) == RAISED_THRESHOLDS[0] > 0.55
    assert not decides.why_not(key)
    decides.keys.add(key)
    assert decides.measured().by_threshold[0.5] == 1.0  # of what is written


def test_a_property_that_is_a_gain_from_no_threshold_on_is_not_written(model):
    decides, key = decider(model, MOSTLY_WRONG)
    assert decides.why_not(key) == TOO_OFTEN_WRONG


AS_GOOD_AS_THE_CONSTANT = [Statement(0.95, 0.0, right, right, 1.0) for right in [1.0] * 19 + [0.0]] * 20
NEVER_SURE = [Statement(0.4, 0.0, 1.0, 0.0, 1.0)] * 40
LOW_AND_WRONG_HIGH_AND_FEW = [*MOSTLY_WRONG, *SURE[:3]]
WRONG_AND_WORSE_THAN_THE_CONSTANT = [Statement(0.95, 0.0, right, 1.0, 1.0) for right in (1.0, 0.0)] * 20


@for_each(
    "case",
    [
        (AS_GOOD_AS_THE_CONSTANT, NO_BETTER),
        (NEVER_SURE, UNSURE),
        (SURE[:3], TOO_FEW),
        (LOW_AND_WRONG_HIGH_AND_FEW, TOO_FEW),  # from 0.9 on right, but three statements are no measurement
        (WRONG_AND_WORSE_THAN_THE_CONSTANT, TOO_OFTEN_WRONG),
    ],
)
def test_the_reason_says_what_a_property_without_a_gain_lacks(model, case):
    statements, why_not = case
    decides, key = decider(model, statements)
    assert decides.why_not(key) == why_not


def test_a_property_without_held_out_values_beside_others_with_some_is_unmeasured(model):
    decides, _ = decider(model, SURE)
    assert decides.why_not(("Thing", "other")) == UNMEASURED


@pytest.mark.parametrize(
    ("config", "threshold", "why_not"),
    [({"min_confidence": 0.5}, 0.5, TOO_OFTEN_WRONG), ({"fill": "all"}, 0.0, ""), ({"min_confidence": 0.9}, 0.9, "")],
    ids=str,
)
def test_a_threshold_that_is_asked_for_is_not_raised(model, config, threshold, why_not):
    decides, key = decider(model, SURE + MOSTLY_WRONG, **config)
    assert decides.threshold(key) == threshold
    assert decides.why_not(key) == why_not
