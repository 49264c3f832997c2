"""Completing a knowledge base: which gaps are filled, with what, how sure that is, and a summary of it."""

from __future__ import annotations

from kbdisk.completion.choices import Choices
from kbdisk.completion.completing import Completing, complete
from kbdisk.completion.plan import Plan
from kbdisk.completion.predicting import Predicting
from kbdisk.completion.predictions import Prediction, Predictions
from kbdisk.completion.summary import Summary

__all__ = ["Choices", "Completing", "Plan", "Predicting", "Prediction", "Predictions", "Summary", "complete"]
