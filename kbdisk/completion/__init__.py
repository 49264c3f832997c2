"""Completing a knowledge base: which gaps are filled, with which values, how sure these are, and a summary."""

from __future__ import annotations

from kbdisk.completion.complete import Completing, complete
from kbdisk.completion.config import CompletionConfig
from kbdisk.completion.plan import Plan
from kbdisk.completion.predict import Predicting
from kbdisk.completion.predictions import Prediction, Predictions
from kbdisk.completion.summary import Summary

__all__ = ["Completing", "CompletionConfig", "Plan", "Predicting", "Prediction", "Predictions", "Summary", "complete"]
