"""Properties that are always there together are filled together or not at all."""

from __future__ import annotations

import pytest

from kbdisk.completion.groups import Groups
from kbdisk.schemas.kinds import Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import of_one_class

STATS = [("stats", name) for name in ("hp", "attack", "speed")]
OTHERS = [("minTemp",), ("max_temp",), ("height",)]


@pytest.fixture
def groups() -> Groups:
    return Groups(of_one_class({path: Property(Number()) for path in (*STATS, *OTHERS)}), {"": [*STATS, *OTHERS]})


def test_an_object_that_entities_have_whole_is_written_whole_or_not_at_all(groups):
    for number in range(40):
        groups.see("", STATS if number % 2 else [])
    assert groups.half_made("", STATS, STATS[:2]) == set(STATS)
    assert groups.half_made("", STATS, STATS) == set()
    assert groups.half_made("", STATS[2:], STATS[2:]) == set()  # the others are given


def test_an_object_that_entities_have_in_part_may_be_written_in_part(groups):
    for number in range(40):
        groups.see("", STATS[: 1 + number % 3])
    assert groups.half_made("", STATS, STATS[:2]) == set()


def test_few_entities_show_nothing(groups):
    for _ in range(3):
        groups.see("", STATS)
    assert groups.half_made("", STATS, STATS[:1]) == set()


def test_a_min_is_not_written_without_its_max(groups):
    for _ in range(20):
        groups.see("", [*OTHERS])
    assert groups.half_made("", OTHERS, [("minTemp",), ("height",)]) == {("minTemp",), ("max_temp",)}
