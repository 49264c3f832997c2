"""Guides: experts that have a say beside networks, property by property; how much, held-out values tell.

Boosted trees are such (kbdisk.forest), and known entities that are alike (kbdisk.likeness).
"""

from kbdisk.guides.guide import Guide, Guided, Guiding, Labels, Said, Seen
from kbdisk.guides.judging import judged

__all__ = ["Guide", "Guided", "Guiding", "Labels", "Said", "Seen", "judged"]
