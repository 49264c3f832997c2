"""Guides: experts that have a say beside networks, property by property; how much, held-out values tell.

Boosted trees are such (kbdisk.forest), and known entities that are alike (kbdisk.likeness).
"""

from kbdisk.guides.guide import Expert, Guide, Guided, Guiding, Labels, Seen
from kbdisk.guides.judging import judged

__all__ = ["Expert", "Guide", "Guided", "Guiding", "Labels", "Seen", "judged"]
