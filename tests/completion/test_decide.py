"""A property is written from the lowest threshold on from which its statements are a gain on held-out values."""

from __future__ import annotations

import pytest

from kbdisk.completion.config import CompletionConfig
from kbdisk.completion.decide import NO_GAIN, Decider
from kbdisk.evaluation.calibration import RAISED_THRESHOLDS, THRESHOLD, Calibration, Statement

SURE = [Statement(0.95, 0.0, 1.0, 0.0, 1.0)] * 40  # right, where the constant is wrong
UNSURE = [Statement(0.55, 0.0, right, 0.0, 1.0) for right in (1.0, 0.0, 0.0)] * 20


def decider(model, statements, **config):
    key = ("Thing", "mass.value")
    return Decider(model, CompletionConfig(**config), Calibration(statements={key: statements})), key


def test_statements_that_are_a_gain_are_written_from_the_usual_threshold_on(model):
    decides, key = decider(model, SURE)
    assert decides.threshold(key) == THRESHOLD
    assert not decides.why_not(key)


def test_unsure_statements_that_are_mostly_wrong_raise_the_threshold_of_their_property(model):
    decides, key = decider(model, SURE + UNSURE)
    assert decides.threshold(key) == RAISED_THRESHOLDS[0] > 0.55
    assert not decides.why_not(key)
    decides.keys.add(key)
    assert decides.measured().by_threshold[0.5] == 1.0  # of what is written


def test_a_property_that_is_a_gain_from_no_threshold_on_is_not_written(model):
    decides, key = decider(model, UNSURE)
    assert decides.why_not(key) == NO_GAIN


@pytest.mark.parametrize(
    ("config", "threshold", "why_not"),
    [({"min_confidence": 0.5}, 0.5, NO_GAIN), ({"fill": "all"}, 0.0, ""), ({"min_confidence": 0.9}, 0.9, "")],
    ids=str,
)
def test_a_threshold_that_is_asked_for_is_not_raised(model, config, threshold, why_not):
    decides, key = decider(model, SURE + UNSURE, **config)
    assert decides.threshold(key) == threshold
    assert decides.why_not(key) == why_not
