"""What lacks together beyond chance is drawn together."""

from __future__ import annotations

import random

from kbdisk.completion.trial import JointMissingness

POPULATION, CENSUS, AREA = ("population",), ("census",), ("area",)


def test_what_lacks_together_more_often_than_by_chance_is_drawn_with_it():
    draw = random.Random(0)
    entities = []
    for _ in range(300):
        known = {AREA} if draw.random() < 0.5 else set()
        known |= {POPULATION, CENSUS} if draw.random() < 0.7 else set()
        entities.append(("City", known))
    lacking = JointMissingness(entities, {"City": [POPULATION, CENSUS, AREA]})
    drawn = [lacking.drawn("City", POPULATION, draw) for _ in range(100)]
    assert all(lacked == {CENSUS} for lacked in drawn)  # never the area, which lacks by itself
    assert all(not lacking.drawn("City", AREA, draw) for _ in range(100))


def test_nothing_is_drawn_where_every_entity_has_the_property():
    lacking = JointMissingness([("City", {POPULATION})] * 5, {"City": [POPULATION, AREA]})
    assert lacking.drawn("City", POPULATION, random.Random(0)) == frozenset()
    assert lacking.drawn("Island", AREA, random.Random(0)) == frozenset()
