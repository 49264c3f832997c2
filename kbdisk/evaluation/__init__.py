"""Evaluation: how good a model's answers are on values that it is not shown."""

from __future__ import annotations

from kbdisk.evaluation.against import Rivals, training_entities
from kbdisk.evaluation.curve import Curve, curve
from kbdisk.evaluation.drift import Drift
from kbdisk.evaluation.evaluate import Sides, Summary, evaluate, summary
from kbdisk.evaluation.exam import Scope

__all__ = ["Curve", "Drift", "Rivals", "Scope", "Sides", "Summary", "curve", "evaluate", "summary", "training_entities"]
