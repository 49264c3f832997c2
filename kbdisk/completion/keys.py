"""Composite keys: pairs of values that no two entities share, such as an organisation and its member. Each pair is written once.

A key is two properties of a class, labels or links. Many entities have both, and no two have the same pair of values, though by
chance some would.

n entities   V labels of a slot
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kbdisk.completion.trusting import Trusting
from kbdisk.data import Codec
from kbdisk.data.batch import Batch
from kbdisk.entity import Link, Path, without_places
from kbdisk.network.beliefs import Beliefs

LABELS = ("category", "link")
REPEATED = 7.0  # pairs that chance would have met again: that it meets none is then as likely as 1 in 1,000
FIRST = 1000  # entities that are looked at before all are
UNMET = -1  # the code of a label that has none

Codes: TypeAlias = npt.NDArray[np.int64]
Said: TypeAlias = dict[str, Tensor]
Taken: TypeAlias = dict[
    tuple[int, int, int], dict[int, str]
]  # by a slot, its partner, that one's code: whose a label is


class Known(NamedTuple):
    """What is known of an entity of a class that `labels_of` has."""

    id: str
    of: str  # the class
    leaves: Mapping[Path, Any]  # its labels
    made: Mapping[Path, Any]  # what was filled in earlier


class Table(NamedTuple):
    """The labels of some entities."""

    ids: Sequence[str]
    codes: Mapping[int, Codes]  # by slot, (n,)


class Keys:
    """The keys of some entities, and what is taken. Each key stands in both directions."""

    def __init__(self, codec: Codec, entities: Iterable[Known]) -> None:
        """Learn from entities."""
        self.partners: dict[int, list[int]] = defaultdict(list)  # slots by slot
        self.taken: Taken = defaultdict(dict)  # by what is given
        self.said: Taken = defaultdict(dict)  # by what was filled in
        for given, made in _coded(codec, entities):
            for one, other in _pairs(given):
                self.partners[one].append(other)
                self.partners[other].append(one)
                _take_all(self.taken, given, given, one, other)
                _take_all(self.said, made, given, one, other)
                _take_all(self.said, given, made, one, other)
                _take_all(self.said, made, made, one, other)

    def settled(
        self, batch: Batch, ids: Sequence[str], beliefs: Beliefs, said: Mapping[str, Tensor], trusting: Trusting
    ) -> tuple[Said, dict[int, float]]:
        """kind -> codes (q,) of what is to be said for what was: in place of what is taken the likeliest that is not.

        The surest has the first choice. What was filled in may be wrong: it is said again where nothing else is left.
        Beside it how sure that is by what is given, by token: 0 where all that there is is given.
        """
        settled = {kind: codes.clone() for kind, codes in said.items()}
        order = sorted(self._asked(batch, beliefs, said)) if self.partners else []
        codes = _known(batch, self.partners) if order else {}
        codes |= {(entity, slot): int(said[kind][row]) for _, kind, row, entity, slot in order}
        sure: dict[int, float] = {}
        for _, kind, row, entity, slot in order:
            one = beliefs.kinds[kind]
            beside = [(other, codes[entity, other]) for other in self.partners[slot] if (entity, other) in codes]
            given, filled = (_gone(by, slot, beside, ids[entity]) for by in (self.taken, self.said))
            if given or filled:
                shares = trusting.shares(slot, one.belief.pick(torch.tensor([row], device=batch.slot.device)))
                code = best(shares, given | filled)
                code = best(shares, given) if code is None else code
                sure[int(one.tokens[row])] = 0.0 if code is None else chance_of(shares, code, given)
                if code is not None:
                    settled[kind][row], codes[entity, slot] = code, code
            for other, partner in beside:
                _take(self.said, slot, other, codes[entity, slot], partner, ids[entity])
        return settled, sure

    def _asked(
        self, batch: Batch, beliefs: Beliefs, said: Mapping[str, Tensor]
    ) -> Iterator[tuple[float, str, int, int, int]]:
        """What is asked of keys: how sure it is, the surest least, its kind and row, its entity and slot."""
        for kind in LABELS:
            if kind in beliefs.kinds:
                one = beliefs.kinds[kind]
                chances = one.belief.log_prob(said[kind]).exp().tolist()
                places = zip(batch.entity[one.tokens].tolist(), batch.slot[one.tokens].tolist(), strict=True)
                for row, (entity, slot) in enumerate(places):
                    if slot in self.partners:
                        yield -chances[row], kind, row, entity, slot


def _take(taken: Taken, slot: int, other: int, label: int, partner: int, id: str) -> None:
    taken[slot, other, partner][label] = id
    taken[other, slot, label][partner] = id


def _take_all(taken: Taken, some: Table, others: Table, one: int, other: int) -> None:
    """Whatever some entities have of one slot, beside what the same have of another."""
    for label, partner, id in zip(some.codes[one].tolist(), others.codes[other].tolist(), some.ids, strict=True):
        if label != UNMET and partner != UNMET:
            _take(taken, one, other, label, partner, id)


def _gone(taken: Taken, slot: int, beside: Iterable[tuple[int, int]], id: str) -> set[int]:
    """The labels that another entity has with what stands beside."""
    return {label for each in beside for label, whose in taken.get((slot, *each), {}).items() if whose != id}


def labels_of(codec: Codec) -> dict[str, dict[Path, int]]:
    """The slots of labels by their paths, of each class that has several: no other has a key."""
    slots = {
        of: {
            path: slot
            for path, slot in table.slot.items()
            if codec.slots[slot].kind in LABELS and without_places(path) == path
        }
        for of, table in codec.index.tables.items()
    }
    return {of: own for of, own in slots.items() if len(own) > 1}


def _coded(codec: Codec, entities: Iterable[Known]) -> Iterator[tuple[Table, Table]]:
    """Class by class what is given of each slot of labels, and what was filled in."""
    wanted = labels_of(codec)
    found: dict[str, list[Known]] = defaultdict(list)
    for one in entities:
        found[one.of].append(one)
    for of, several in found.items():
        ids = [one.id for one in several]
        given = {
            slot: _codes(codec, slot, [one.leaves.get(path) for one in several]) for path, slot in wanted[of].items()
        }
        made = {slot: _codes(codec, slot, [one.made.get(path) for one in several]) for path, slot in wanted[of].items()}
        yield Table(ids, given), Table(ids, made)


def _codes(codec: Codec, slot: int, values: Sequence[Any]) -> Codes:
    codes = np.full(len(values), UNMET)
    known = [place for place, value in enumerate(values) if isinstance(value, str | int | float | bool | Link)]
    if known:
        codes[known] = codec.slots[slot].codec.encode([values[place] for place in known]).numpy()
    return codes


def _pairs(table: Table) -> Iterator[tuple[int, int]]:
    """The pairs of slots that are keys. First what is cheap: whether chance would repeat enough of them at all."""
    repeats = {slot: _repeats(codes[codes != UNMET]) for slot, codes in table.codes.items()}
    _, whose = np.unique(np.array(table.ids), return_inverse=True)
    for one, other in combinations(table.codes, 2):
        n = len(whose)
        if n * (n - 1) / 2 * repeats[one] * repeats[other] >= REPEATED:
            both = (table.codes[one] != UNMET) & (table.codes[other] != UNMET)
            if _is_key(table.codes[one][both], table.codes[other][both], whose[both]):
                yield one, other


def _is_key(a: Codes, b: Codes, whose: Codes) -> bool:
    """Whether no two entities have the same pair, though some would if one label had nothing to do with the other."""
    pairs = a * (b.max(initial=0) + 1) + b
    for some in (slice(FIRST), slice(None)):
        own = np.unique(np.stack([pairs[some], whose[some]]), axis=1)[0]  # an entity that is read twice counts once
        if len(np.unique(own)) < len(own):
            return False
    n = len(own)
    return n > 1 and n * (n - 1) / 2 * _repeats(a) * _repeats(b) >= REPEATED


def _repeats(codes: Codes) -> float:
    """How likely two entities have the same."""
    counts, n = np.unique(codes, return_counts=True)[1], len(codes)
    return float((counts * (counts - 1)).sum()) / (n * (n - 1)) if n > 1 else 0.0


def _known(batch: Batch, slots: Mapping[int, Any]) -> dict[tuple[int, int], int]:
    """The codes of some slots that entities of a batch are given, by the number of the entity and the slot."""
    found: dict[tuple[int, int], int] = {}
    for kind in LABELS:
        start, end = batch.spans.get(kind, (0, 0))
        given = batch.known[start:end].nonzero()[:, 0]
        whose, which = batch.entity[given + start].tolist(), batch.slot[given + start].tolist()
        for entity, slot, code in zip(
            whose, which, batch.values[kind][given].tolist() if len(given) else [], strict=True
        ):
            if slot in slots and code != UNMET:
                found[entity, slot] = code
    return found


def best(shares: Tensor, gone: set[int]) -> int | None:
    """The likeliest label of those (V,) that are not gone; None where all are."""
    left = shares.clone()
    left[[code for code in gone if 0 <= code < len(left)]] = 0
    return int(left.argmax()) if float(left.sum()) > 0 else None


def chance_of(shares: Tensor, code: int, gone: set[int]) -> float:
    """How likely a label is where others are gone; what is kept for labels never met stays."""
    rest = 1 - float(shares[[other for other in gone if 0 <= other < len(shares)]].sum())
    return min(float(shares[code]) / max(rest, float(shares[code])), 1.0)
