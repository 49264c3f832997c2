"""Smooth functions: each property as one of all that is visible. Where little is known, they tell it before networks can."""

from kbdisk.smooth.config import SmoothConfig
from kbdisk.smooth.learning import fit

__all__ = ["SmoothConfig", "fit"]
