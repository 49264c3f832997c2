"""Likeness: known entities that are alike in what is visible say what else they have; learnt is what counts as alike."""

from kbdisk.likeness.config import LikenessConfig
from kbdisk.likeness.learning import learn

__all__ = ["LikenessConfig", "learn"]
