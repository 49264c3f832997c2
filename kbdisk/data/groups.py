"""Rows in groups: ranges, runs of equal keys, and the medians of groups, as arrays."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]


def expanded(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The numbers from each start to below its end, all ranges in a row: the place of the range, and the number."""
    count = ends - starts
    place = np.repeat(np.arange(len(starts)), count)
    return place, np.arange(len(place)) - np.repeat(np.cumsum(count) - count, count) + starts[place]


def _sorted_stably(keys: Ints) -> tuple[Ints, Ints]:
    """Keys below 2^63 / len(keys) in ascending order, and the place that each had; equal keys stay in order.

    The place is the lower part of what is sorted: several times faster than a stable sort of the keys alone.
    """
    bits = len(keys).bit_length()
    both = np.sort((keys << bits) | np.arange(len(keys)))
    return both >> bits, both & ((1 << bits) - 1)


def starts_of(keys: Ints) -> Ints:
    """Where each run of equal keys begins."""
    is_first = np.ones(len(keys), np.bool_)
    is_first[1:] = keys[1:] != keys[:-1]
    return np.flatnonzero(is_first)


def grouped(keys: Ints) -> Iterator[tuple[int, Ints]]:
    """Each distinct key, ascending, with the places that have it, in their order."""
    order = keys.argsort(kind="stable")
    bounds = np.append(starts_of(keys[order]), len(keys)).tolist()
    for start, end in pairwise(bounds):
        yield int(keys[order[start]]), order[start:end]


def rank_in_group(keys: Ints) -> Ints:
    """The place of each row among those before it with the same key; equal keys are next to each other."""
    starts = starts_of(keys)
    return np.arange(len(keys)) - np.repeat(starts, np.diff(np.append(starts, len(keys))))


def grouped_medians(keys: Ints, values: Floats) -> tuple[Ints, Floats, Ints, Floats]:
    """The distinct keys, and for each the median of its values, their number, and the distance between quartiles."""
    by_value = values.argsort()
    keys, order = _sorted_stably(keys[by_value])
    values = values[by_value][order]
    starts = starts_of(keys)
    distinct, last = keys[starts], np.diff(np.append(starts, len(keys))) - 1
    median = (values[starts + last // 2] + values[starts + (last + 1) // 2]) / 2
    quartile = last // 4
    return distinct, median, last + 1, values[starts + last - quartile] - values[starts + quartile]
