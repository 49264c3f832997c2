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
FIRST_CHECKED = 1000  # entities that are checked before all are
UNKNOWN = -1  # the code of an entity without a label, or with one that training did not have

Codes: TypeAlias = npt.NDArray[np.int64]
# (slot, partner slot, code of the partner's label) -> code of a label that stands beside it -> id of the entity
Pairs: TypeAlias = dict[tuple[int, int, int], dict[int, str]]


class LabelledEntity(NamedTuple):
    """An entity of a class that `label_slots` has."""

    id: str
    class_name: str
    labels: Mapping[Path, Any]  # given
    made: Mapping[Path, Any]  # filled in by an earlier completion


class LabelTable(NamedTuple):
    """The labels of some entities."""

    ids: Sequence[str]
    codes: Mapping[int, Codes]  # by slot, (n,)


class UniquePairs:
    """The keys of some entities, and the pairs that they have. Each key stands in both directions."""

    def __init__(self, codec: Codec, entities: Iterable[LabelledEntity]) -> None:
        """Learn which pairs of properties are keys."""
        self.partners: dict[int, list[int]] = defaultdict(list)  # slots by slot
        self.given: Pairs = defaultdict(dict)
        self.filled: Pairs = defaultdict(dict)
        for given, made in _tables(codec, entities):
            for slot, partner in _keys(given):
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


def labelled_entities(codec: Codec, readings: Iterable[Reading]) -> Iterator[LabelledEntity]:
    """The entities that keys are learnt from, with their labels. Where no class can have a key none is read."""
    wanted = label_slots(codec)
    for reading in readings if wanted else ():
        if reading.class_name in wanted:
            labels = {path: leaf for path, leaf in reading.leaves.items() if path in wanted[reading.class_name]}
            yield LabelledEntity(reading.id, reading.class_name, labels, reading.entity.made or {})


def _tables(codec: Codec, entities: Iterable[LabelledEntity]) -> Iterator[tuple[LabelTable, LabelTable]]:
    """For each class, the given labels of each slot and the filled ones."""
    wanted = label_slots(codec)
    by_class: dict[str, list[LabelledEntity]] = defaultdict(list)
    for entity in entities:
        by_class[entity.class_name].append(entity)
    for class_name, members in by_class.items():
        ids, slots = [entity.id for entity in members], wanted[class_name].items()
        given = {slot: _codes(codec, slot, [entity.labels.get(path) for entity in members]) for path, slot in slots}
        made = {slot: _codes(codec, slot, [entity.made.get(path) for entity in members]) for path, slot in slots}
        yield LabelTable(ids, given), LabelTable(ids, made)


def _codes(codec: Codec, slot: int, values: Sequence[Any]) -> Codes:
    codes = np.full(len(values), UNKNOWN)
    known = [place for place, value in enumerate(values) if isinstance(value, str | int | float | bool | Link)]
    if known:
        codes[known] = codec.slots[slot].codec.encode([values[place] for place in known]).numpy()
    return codes


def _keys(table: LabelTable) -> Iterator[tuple[int, int]]:
    """The pairs of slots that are keys. First, as it is cheap, whether chance would repeat enough of their pairs at all."""
    repeats = {slot: _repeat_probability(codes[codes != UNKNOWN]) for slot, codes in table.codes.items()}
    _, owners = np.unique(np.array(table.ids), return_inverse=True)
    for slot, partner in combinations(table.codes, 2):
        n = len(owners)
        if n * (n - 1) / 2 * repeats[slot] * repeats[partner] >= MIN_CHANCE_REPEATS:
            both = (table.codes[slot] != UNKNOWN) & (table.codes[partner] != UNKNOWN)
            if _is_key(table.codes[slot][both], table.codes[partner][both], owners[both]):
                yield slot, partner


def _is_key(codes: Codes, partner_codes: Codes, owners: Codes) -> bool:
    """Whether no two entities have the same pair, though some would if the two labels were independent."""
    pairs = codes * (partner_codes.max(initial=0) + 1) + partner_codes
    for checked in (slice(FIRST_CHECKED), slice(None)):
        # an entity that is read twice counts once
        distinct = np.unique(np.stack([pairs[checked], owners[checked]]), axis=1)[0]
        if len(np.unique(distinct)) < len(distinct):
            return False
    n = len(distinct)
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
