"""Which entities are learnt from, and which are scored on. A draw is a hash of the seed and a name: the same anywhere."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from kbdisk.bench.base import data_file
from kbdisk.errors import LoadError

TEST = 0.2  # of all, that is scored on, where no split is published
SHARE = 0.1  # of train, that is scored on in place of test


class Sides(NamedTuple):
    """Two sides, by places, each in order."""

    train: list[int]
    scored: list[int]


def sided(places: Iterable[int], scored: Iterable[int]) -> Sides:
    """Some places, and those among them that are scored on."""
    out = set(scored)
    return Sides([one for one in places if one not in out], sorted(out))


def published(data: Path, name: str, source: str, count: int) -> Sides:
    """The two sides that a file of the data names, by numbers below a count; LoadError where it does not."""
    file = data_file(data, name, source)
    try:
        found = json.loads(file.read_text("utf-8"))
        train, scored = ([int(place) for place in found[side]] for side in ("train", "val"))
    except (ValueError, TypeError, KeyError) as error:
        raise LoadError(str(file), f"expected the rows of train and val, got something else: {error!r}.") from None
    most = max([*train, *scored], default=-1)
    if most >= count:
        raise LoadError(str(file), f"expected numbers of the {count:,} rows, got {most}: it is of other data.")
    return Sides(train, scored)


def within(places: Sequence[int], sides: Sides) -> Sides:
    """The sides of some places, as the numbers of these among them say."""
    return Sides(*([places[one] for one in side] for side in sides))


def drawn(names: Sequence[Hashable], share: float, seed: int) -> set[int]:
    """The places whose names fall into a share of all; those of one name fall together."""
    return {place for place, name in enumerate(names) if _number(f"{seed} {name}") < share}


def _number(text: str) -> float:
    """From 0 to below 1, by chance."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest(), "big") / (1 << 48)


def grouped(keys: Sequence[Iterable[Hashable]]) -> list[int]:
    """The group of each place, such that places that share any key are in one: the first place in it."""
    leader = list(range(len(keys)))
    first: dict[Hashable, int] = {}

    def find(place: int) -> int:
        while leader[place] != place:
            leader[place] = place = leader[leader[place]]
        return place

    for place, own in enumerate(keys):
        for key in own:
            one, other = sorted((find(first.setdefault(key, place)), find(place)))
            leader[other] = one
    return [find(place) for place in range(len(keys))]
