"""Boosted trees beside the networks: one forest for each property that it tells better, or as well in another way."""

from kbdisk.forest.config import ForestConfig
from kbdisk.forest.forest import Forest, Guided
from kbdisk.forest.growing import grow

__all__ = ["Forest", "ForestConfig", "Guided", "grow"]
