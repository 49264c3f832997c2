"""Unique pairs: composite keys of two labels, such as an organisation and its member. Each pair of values is written once.

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

from kbdisk.completion.shrinkage import Shrinker
from kbdisk.data import Codec
from kbdisk.data.dataset import Batch
from kbdisk.data.parse import Reading
from kbdisk.entity import Link, Path, without_places
from kbdisk.model.beliefs import Beliefs

LABELS = ("category", "link")
MIN_CHANCE_REPEATS = 7.0  # expected repeats of a pair by chance: without any, chance has a probability of 1 in 1,000
ENTITIES_AT_ONCE = 1000  # of a class, that are encoded at once; a pair that repeats among the first of them is no key
UNKNOWN = -1  # the code of an entity without a label, or with one that training did not have

Codes: TypeAlias = npt.NDArray[np.int64]
# (slot, partner slot, code of the partner's label) -> code of a label that stands beside it -> id of the entity
Pairs: TypeAlias = dict[tuple[int, int, int], dict[int, str]]


class LabelTable(NamedTuple):
    """The labels of some entities."""

    ids: Sequence[str]
    codes: Mapping[int, Codes]  # by slot, (n,)

    @property
    def owners(self) -> Codes:
        """(n,) equal numbers for equal ids."""
        return np.unique(np.array(self.ids), return_inverse=True)[1]

    def of_pair(self, pair: tuple[int, int], owners: Codes) -> tuple[Codes, Codes, Codes]:
        """The labels in two slots, and the owners, of the entities that have both."""
        codes, partner_codes = (self.codes[slot] for slot in pair)
        both = (codes != UNKNOWN) & (partner_codes != UNKNOWN)
        return codes[both], partner_codes[both], owners[both]


class UniquePairs:
    """The keys of some entities, and the pairs that they have. Each key stands in both directions."""

    def __init__(self, codec: Codec, readings: Iterable[Reading]) -> None:
        """Learn which pairs of properties are keys. Entities are read until no pair can be one."""
        self.partners: dict[int, list[int]] = defaultdict(list)  # slots by slot
        self.given: Pairs = defaultdict(dict)
        self.filled: Pairs = defaultdict(dict)
        for given, made, pairs in _tables(codec, readings):
            for slot, partner in _keys(given, pairs):
                self.partners[slot].append(partner)
                self.partners[partner].append(slot)
                _add_all(self.given, given, given, slot, partner)
                _add_all(self.filled, made, given, slot, partner)
                _add_all(self.filled, given, made, slot, partner)
                _add_all(self.filled, made, made, slot, partner)

    def resolve(
        self, batch: Batch, ids: Sequence[str], beliefs: Beliefs, predicted: Mapping[str, Tensor], shrinker: Shrinker
    ) -> tuple[dict[str, Tensor], dict[int, float]]:
        """kind -> codes (q,) in which each label that would repeat a pair is the likeliest one that does not.

        The surest token has the first choice. Filled labels may be wrong: a pair with one is repeated where no other label is
        left. The second result is the probability of these labels by token, given that no given pair is repeated: 0 where all
        labels are given.
        """
        resolved = {kind: codes.clone() for kind, codes in predicted.items()}
        order = sorted(self._asked(batch, beliefs, predicted)) if self.partners else []
        codes = _known_codes(batch, self.partners) if order else {}
        codes |= {(entity, slot): int(predicted[kind][row]) for _, kind, row, entity, slot in order}
        probabilities: dict[int, float] = {}
        for _, kind, row, entity, slot in order:
            asked = beliefs.kinds[kind]
            partners = [
                (partner, codes[entity, partner]) for partner in self.partners[slot] if (entity, partner) in codes
            ]
            given, filled = (
                _labels_of_others(pairs, slot, partners, ids[entity]) for pairs in (self.given, self.filled)
            )
            if given or filled:
                belief = asked.belief.pick(torch.tensor([row], device=batch.slot.device))
                shares = shrinker.label_probabilities(slot, belief)
                code = likeliest(shares, given | filled)
                code = likeliest(shares, given) if code is None else code
                probabilities[int(asked.tokens[row])] = 0.0 if code is None else probability_of(shares, code, given)
                if code is not None:
                    resolved[kind][row], codes[entity, slot] = code, code
            for partner, label in partners:
                _add(self.filled, slot, partner, codes[entity, slot], label, ids[entity])
        return resolved, probabilities

    def _asked(
        self, batch: Batch, beliefs: Beliefs, predicted: Mapping[str, Tensor]
    ) -> Iterator[tuple[float, str, int, int, int]]:
        """The asked tokens of keys: the negative probability of the predicted label, the kind and its row, entity, slot."""
        for kind in LABELS:
            if kind in beliefs.kinds:
                asked = beliefs.kinds[kind]
                probabilities = asked.belief.log_prob(predicted[kind]).exp().tolist()
                places = zip(batch.entity[asked.tokens].tolist(), batch.slot[asked.tokens].tolist(), strict=True)
                for row, (entity, slot) in enumerate(places):
                    if slot in self.partners:
                        yield -probabilities[row], kind, row, entity, slot


def _add(pairs: Pairs, slot: int, partner: int, label: int, partner_label: int, id: str) -> None:
    pairs[slot, partner, partner_label][label] = id
    pairs[partner, slot, label][partner_label] = id


def _add_all(pairs: Pairs, table: LabelTable, partner_table: LabelTable, slot: int, partner: int) -> None:
    """Add the pairs of all entities: of one slot in the first table, beside its partner in the second."""
    for label, partner_label, id in zip(
        table.codes[slot].tolist(), partner_table.codes[partner].tolist(), table.ids, strict=True
    ):
        if label != UNKNOWN and partner_label != UNKNOWN:
            _add(pairs, slot, partner, label, partner_label, id)


def _labels_of_others(pairs: Pairs, slot: int, partners: Iterable[tuple[int, int]], id: str) -> set[int]:
    """The labels that another entity has beside one of these labels of partners."""
    return {label for partner in partners for label, owner in pairs.get((slot, *partner), {}).items() if owner != id}


# ---------------------------------------------------------------- learning keys


def label_slots(codec: Codec) -> dict[str, dict[Path, int]]:
    """The slots of labels by their paths, of each class that has several: no other class has a key."""
    slots = {
        class_name: {
            path: slot
            for path, slot in table.slot.items()
            if codec.slots[slot].kind in LABELS and without_places(path) == path
        }
        for class_name, table in codec.index.tables.items()
    }
    return {class_name: of_class for class_name, of_class in slots.items() if len(of_class) > 1}


class _OpenClass:
    """The labels of the entities of a class, while some pair of its slots may be a key."""

    def __init__(self, codec: Codec, slots: Mapping[Path, int]) -> None:
        self.codec, self.slots = codec, slots
        self.pairs = list(combinations(slots.values(), 2))
        self.ids: list[str] = []
        self.given: dict[int, list[Codes]] = {slot: [] for slot in slots.values()}  # in blocks
        self.made: dict[int, list[Codes]] = {slot: [] for slot in slots.values()}
        self.pending: list[tuple[Mapping[Path, Any], Mapping[Path, Any]]] = []  # leaves, and what was filled in

    def add(self, reading: Reading) -> None:
        """Add an entity."""
        self.ids.append(reading.id)
        made = reading.entity.made or {}
        given_labels, made_labels = (
            {path: values[path] for path in self.slots if path in values} for values in (reading.leaves, made)
        )
        self.pending.append((given_labels, made_labels))
        if len(self.pending) == ENTITIES_AT_ONCE:
            self.encode_pending()

    def encode_pending(self) -> None:
        """Encode the labels of what was added; of the first entities drop the pairs that repeat."""
        is_first = len(self.ids) == len(self.pending)
        for number, blocks in enumerate((self.given, self.made)):
            for path, slot in self.slots.items():
                blocks[slot].append(_codes(self.codec, slot, [labels[number].get(path) for labels in self.pending]))
        self.pending.clear()
        if is_first:
            table = self.tables()[0]
            owners = table.owners
            self.pairs = [pair for pair in self.pairs if not _repeats(_pairs_of_owners(*table.of_pair(pair, owners)))]

    def tables(self) -> tuple[LabelTable, LabelTable]:
        """The given labels and the filled ones."""
        given, made = (
            {slot: np.concatenate(of_slot) for slot, of_slot in blocks.items()} for blocks in (self.given, self.made)
        )
        return LabelTable(self.ids, given), LabelTable(self.ids, made)


def _tables(
    codec: Codec, readings: Iterable[Reading]
) -> Iterator[tuple[LabelTable, LabelTable, Sequence[tuple[int, int]]]]:
    """For each class, the given labels of each slot, the filled ones, and the pairs of slots that may be keys."""
    open_classes = {name: _OpenClass(codec, slots) for name, slots in label_slots(codec).items()}
    for reading in readings if open_classes else ():
        of_class = open_classes.get(reading.class_name)
        if of_class is None:
            continue
        of_class.add(reading)
        if not of_class.pairs:
            del open_classes[reading.class_name]
            if not open_classes:
                return
    for of_class in open_classes.values():
        if of_class.ids:
            of_class.encode_pending()
            yield *of_class.tables(), of_class.pairs


def _codes(codec: Codec, slot: int, values: Sequence[Any]) -> Codes:
    codes = np.full(len(values), UNKNOWN)
    known = [place for place, value in enumerate(values) if isinstance(value, str | int | float | bool | Link)]
    if known:
        codes[known] = codec.slots[slot].codec.encode([values[place] for place in known]).numpy()
    return codes


def _keys(table: LabelTable, pairs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The pairs of slots that are keys. First, as it is cheap, whether chance would repeat enough of their pairs at all."""
    repeats = {slot: _repeat_probability(codes[codes != UNKNOWN]) for slot, codes in table.codes.items()}
    owners = table.owners
    n = len(owners)
    for slot, partner in pairs:
        if n * (n - 1) / 2 * repeats[slot] * repeats[partner] >= MIN_CHANCE_REPEATS:
            codes, partner_codes, owners_of_both = table.of_pair((slot, partner), owners)
            if _is_key(codes, partner_codes, owners_of_both):
                yield slot, partner


def _pairs_of_owners(codes: Codes, partner_codes: Codes, owners: Codes) -> Codes:
    """The pairs that entities have, as numbers; an entity that is read twice counts once."""
    pairs = codes * (partner_codes.max(initial=0) + 1) + partner_codes
    distinct: Codes = np.unique(np.stack([pairs, owners]), axis=1)[0]
    return distinct


def _repeats(pairs: Codes) -> bool:
    return len(np.unique(pairs)) < len(pairs)


def _is_key(codes: Codes, partner_codes: Codes, owners: Codes) -> bool:
    """Whether no two entities have the same pair, though some would if the two labels were independent."""
    pairs = _pairs_of_owners(codes, partner_codes, owners)
    if _repeats(pairs):
        return False
    n = len(pairs)
    chance_repeats = n * (n - 1) / 2 * _repeat_probability(codes) * _repeat_probability(partner_codes)
    return n > 1 and chance_repeats >= MIN_CHANCE_REPEATS


def _repeat_probability(codes: Codes) -> float:
    """The probability that two entities have the same label."""
    counts, n = np.unique(codes, return_counts=True)[1], len(codes)
    return float((counts * (counts - 1)).sum()) / (n * (n - 1)) if n > 1 else 0.0


def _known_codes(batch: Batch, slots: Mapping[int, Any]) -> dict[tuple[int, int], int]:
    """The given codes of some slots in a batch, by the number of the entity and the slot."""
    known: dict[tuple[int, int], int] = {}
    for kind in LABELS:
        start, end = batch.spans.get(kind, (0, 0))
        given = batch.known[start:end].nonzero()[:, 0]
        codes = batch.values[kind][given].tolist() if len(given) else []
        places = batch.entity[given + start].tolist(), batch.slot[given + start].tolist()
        for entity, slot, code in zip(*places, codes, strict=True):
            if slot in slots and code != UNKNOWN:
                known[entity, slot] = code
    return known


# ---------------------------------------------------------------- choosing a label


def likeliest(shares: Tensor, taken: set[int]) -> int | None:
    """The likeliest label of those (V,) that are not taken; None where all are."""
    left = shares.clone()
    left[[code for code in taken if 0 <= code < len(left)]] = 0
    return int(left.argmax()) if float(left.sum()) > 0 else None


def probability_of(shares: Tensor, code: int, taken: set[int]) -> float:
    """The probability of a label given that it is none of the taken ones; the mass of unseen labels stays."""
    rest = 1 - float(shares[[other for other in taken if 0 <= other < len(shares)]].sum())
    return min(float(shares[code]) / max(rest, float(shares[code])), 1.0)
