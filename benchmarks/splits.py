"""Splits into entities for training and for scoring. A draw is a hash of the seed and a name: the same on every machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.data import data_file
from kbdisk.errors import LoadError

TEST_SHARE = 0.2  # of all, that is scored, where no split is published
VALIDATION_SHARE = 0.1  # of train, that is scored in place of test


class Sides(NamedTuple):
    """Two sides, by places, each in order."""

    train: list[int]
    scored: list[int]


def sides_of(places: Iterable[int], scored: Iterable[int]) -> Sides:
    """Some places, and those among them that are scored."""
    held_out = set(scored)
    return Sides([place for place in places if place not in held_out], sorted(held_out))


def published(data: Path, name: str, source: str, count: int) -> Sides:
    """The two sides that a file of the data names, by numbers below a count; LoadError where it does not."""
    file = data_file(data, name, source)
    try:
        sides = json.loads(file.read_text("utf-8"))
        train, scored = ([int(place) for place in sides[side]] for side in ("train", "val"))
    except (ValueError, TypeError, KeyError) as error:
        raise LoadError(str(file), f"expected the rows of train and val, got something else: {error!r}.") from None
    largest = max([*train, *scored], default=-1)
    if largest >= count:
        raise LoadError(str(file), f"expected numbers of the {count:,} rows, got {largest}: it is of other data.")
    return Sides(train, scored)


def within(places: Sequence[int], sides: Sides) -> Sides:
    """The sides of some places, from sides that number these places."""
    return Sides(*([places[number] for number in side] for side in sides))


def drawn(names: Sequence[Hashable], share: float, seed: int) -> set[int]:
    """The places whose names fall into a share of all; those of one name fall together."""
    return {place for place, name in enumerate(names) if _hash(f"{seed} {name}") < share}


def _hash(text: str) -> float:
    """From 0 to below 1."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest(), "big") / (1 << 48)


def grouped(keys: Sequence[Iterable[Hashable]]) -> list[int]:
    """Union-find: the group of each place, such that places that share any key are in one, named by its first place."""
    leader = list(range(len(keys)))
    first: dict[Hashable, int] = {}

    def find(place: int) -> int:
        while leader[place] != place:
            leader[place] = place = leader[leader[place]]
        return place

    for place, of_place in enumerate(keys):
        for key in of_place:
            low, high = sorted((find(first.setdefault(key, place)), find(place)))
            leader[high] = low
    return [find(place) for place in range(len(keys))]
