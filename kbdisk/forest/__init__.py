"""Boosted trees beside the networks: some for each property that they tell better, or as well in another way."""

from kbdisk.forest.config import ForestConfig
from kbdisk.forest.growing import grow

__all__ = ["ForestConfig", "grow"]
