"""Likeness: known entities that are alike in what is visible say what else they have. What counts, is learnt."""

from kbdisk.likeness.config import LikenessConfig
from kbdisk.likeness.learning import learn

__all__ = ["LikenessConfig", "learn"]
