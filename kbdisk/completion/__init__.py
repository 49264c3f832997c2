"""Completing a knowledge base: which gaps are filled, with what, how sure that is, and what it came to."""

from __future__ import annotations

from kbdisk.completion.choices import Choices
from kbdisk.completion.completing import Completing, complete
from kbdisk.completion.summary import Summary

__all__ = ["Choices", "Completing", "Summary", "complete"]
