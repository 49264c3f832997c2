"""Guides: experts that have a say beside networks, property by property; how much, held-out values tell.

Boosted trees are such (kbdisk.forest), known entities that are alike (kbdisk.likeness), and a model that is asked again by
what is given alone (kbdisk.guides.given).
"""

from kbdisk.guides.given import GivenConfig, Opinions, Second, weigh
from kbdisk.guides.guide import Guide, Guided, Guiding, Labels, Said, Seen
from kbdisk.guides.judging import judged, weighed_by

__all__ = [
    "GivenConfig",
    "Guide",
    "Guided",
    "Guiding",
    "Labels",
    "Opinions",
    "Said",
    "Second",
    "Seen",
    "judged",
    "weigh",
    "weighed_by",
]
