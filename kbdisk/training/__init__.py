"""Training: from entities and a schema to a model."""

from __future__ import annotations

from kbdisk.training.run import PRESETS, Run
from kbdisk.training.trained import Record, Trained

__all__ = ["PRESETS", "Record", "Run", "Trained"]
