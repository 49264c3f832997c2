"""The last step of encoding: columns of values become codes, and flat lists of tokens the arrays of `Tokens`.

N entities   T tokens   E needs
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kbdisk.data.batch import PADDING
from kbdisk.data.dataset import Codes, RaggedCodes, Tokens
from kbdisk.data.index import Index, Ints
from kbdisk.entity import show

UNKNOWN = -1  # in the place of a value, where one is asked for


@dataclass(frozen=True)
class Flat:
    """Tokens in the order that they were met in, entity by entity."""

    entity: Ints  # (T,)
    slot: Ints  # (T,)
    place: Ints  # (T,) of the value in its column
    needs: Ints  # (E, 2) a token, and a link that it came over
    kept: Ints  # (k, 2) an entity, and a slot that it neither has nor lacks


def number_of(id: str) -> int:
    """A number that no other id has, but for a chance of 2 ** -63."""
    return int.from_bytes(blake2b(id.encode(errors="surrogatepass"), digest_size=8).digest()) >> 1


def assembled(index: Index, ids: tuple[str, ...], of: Ints, flat: Flat, columns: Sequence[Sequence[Any]]) -> Tokens:
    """A data set. What cannot be coded is left out, and what came over such a link, too; `unread` tells of it."""
    codes, rows, problems = _coded(index, columns)
    starts = np.cumsum([0, *map(len, columns)])[index.column[flat.slot]]
    value = np.where(flat.place == UNKNOWN, len(rows) - 1, starts + flat.place)
    row = rows[value]  # (T,)
    lost = row < 0
    lost[flat.needs[lost[flat.needs[:, 1]], 0]] = True
    there = np.flatnonzero(~lost)
    order = there[np.lexsort((flat.slot[there], flat.entity[there]))]  # stable: incoming links stay as they came

    entity, slot = flat.entity[order], flat.slot[order]
    offsets = _offsets(entity, len(ids))
    place = np.zeros(len(row), np.int64)  # of each token within its entity
    place[order] = np.arange(len(order)) - offsets[entity]
    needs = flat.needs[~lost[flat.needs].any(1)]
    owner, needs = flat.entity[needs[:, 0]], place[needs]
    order_of_needs = np.lexsort((needs[:, 1], needs[:, 0], owner))
    held, held_offsets = _held(index, of, flat)
    return Tokens(
        layout=index.layout,
        ids=ids,
        **_tensors(
            who=np.array([number_of(one) for one in ids], np.int64),
            classes=of,
            offsets=offsets,
            slot=slot,
            row=row[order],
            known=flat.place[order] != UNKNOWN,
            unit=_first_of_unit(index, entity, slot) - offsets[entity],
            needs=needs[order_of_needs],
            need_offsets=_offsets(owner, len(ids)),
            held=held,
            held_offsets=held_offsets,
        ),
        codes=codes,
        unread=tuple(
            f"{ids[flat.entity[token]]}: {show(index.slots[flat.slot[token]].path)}: {problems[value[token]]}"
            for token in np.flatnonzero(row < 0)
        ),
    )


def _tensors(**arrays: npt.NDArray[Any]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(np.ascontiguousarray(one)) for name, one in arrays.items()}


def _offsets(owner: Ints, count: int) -> Ints:
    """Where each owner's part begins among sorted ones: (count + 1,)."""
    return np.searchsorted(owner, np.arange(count + 1))


def _first_of_unit(index: Index, entity: Ints, slot: Ints) -> Ints:
    """The first token of the composite that each is a part of; of evidence itself."""
    unit = index.unit[slot]
    alone = len(index.slots) * (entity[-1] + 1 if len(entity) else 1) + np.arange(len(slot))
    key = np.where(index.is_evidence[slot], alone, entity * len(index.slots) + unit)
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    return first[which]


def _held(index: Index, of: Ints, flat: Flat) -> tuple[Ints, Ints]:
    """For each slot that an entity does not lack, how many before it it lacks, on its own stretch of numbers."""
    entity = np.concatenate([flat.entity, flat.kept[:, 0]])
    number = index.numbers(of[entity], np.concatenate([flat.slot, flat.kept[:, 1]]))
    stride = len(index.layout.own) + 1
    key = np.unique((entity * stride + number)[number >= 0])
    entity, number = key // stride, key % stride
    offsets = _offsets(entity, len(of))
    lacking = number - (np.arange(len(key)) - offsets[entity])
    return entity * stride + lacking, offsets


def _coded(
    index: Index, columns: Sequence[Sequence[Any]]
) -> tuple[dict[str, Codes | RaggedCodes], Ints, dict[int, str]]:
    """Codes by kind; the row of each value, columns one after the other, -1 where it has no code; why it has none.

    One more row at the end: that of what is asked for, the blank.
    """
    rows = np.zeros(sum(map(len, columns)) + 1, np.int64)
    parts: dict[str, list[Tensor]] = {kind: [] for kind in index.layout.spans}
    problems: dict[int, str] = {}
    ends = dict.fromkeys(parts, 1)  # row 0 is the blank
    start = 0
    for one, values in zip(index.columns, columns, strict=True):
        bad = {start + place: why for place, why in _problems(one.codec, values)}
        problems |= bad
        fine = np.ones(len(values), bool)
        fine[[place - start for place in bad]] = False
        rows[start : start + len(values)] = np.where(fine, ends[one.kind] + fine.cumsum() - 1, -1)
        start, ends[one.kind] = start + len(values), ends[one.kind] + int(fine.sum())
        if len(values) or not parts[one.kind]:
            parts[one.kind].append(one.codec.encode([value for value, good in zip(values, fine, strict=True) if good]))
    return {kind: _stacked(kind, several) for kind, several in parts.items()}, rows, problems


def _problems(codec: Any, values: Sequence[Any], start: int = 0) -> list[tuple[int, str]]:
    """Which values cannot be coded, and why; by halves, since they are few."""
    try:
        codec.encode(values)
    except ValueError as error:
        if len(values) == 1:
            return [(start, str(error))]
        half = len(values) // 2
        return [*_problems(codec, values[:half], start), *_problems(codec, values[half:], start + half)]
    return []


def _stacked(kind: str, parts: Sequence[Tensor]) -> Codes | RaggedCodes:
    """The codes of several columns under one blank."""
    if kind not in PADDING:
        return Codes(torch.cat([parts[0].new_zeros(1, *parts[0].shape[1:]), *parts]))
    there = [part != PADDING[kind] for part in parts]
    lengths = torch.cat([torch.zeros(2, dtype=torch.long), *(one.sum(1) for one in there)])
    flat = torch.cat([part[one] for part, one in zip(parts, there, strict=True)])
    return RaggedCodes(flat, lengths.cumsum(0), PADDING[kind])
