"""What no two entities have together: an organisation has a member once, a country a language. Such a pair is said once.

A key is two labels or links of a class that many entities have, no two of them the same pair, though some would by chance.

n entities   V labels of a slot
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kbdisk.batch import Batch
from kbdisk.codec import Codec
from kbdisk.completion.trusting import Trusting
from kbdisk.entity import Path
from kbdisk.network.beliefs import Beliefs

LABELS = ("category", "link")
REPEATED = 7.0  # pairs that chance would have met again: that it meets none is then as likely as 1 in 1,000
UNMET = -1  # the code of a label that has none

Codes: TypeAlias = npt.NDArray[np.int64]
Said: TypeAlias = dict[str, Tensor]
Taken: TypeAlias = dict[tuple[int, int, int], set[int]]  # by a slot, its partner, and that one's code


class Keys:
    """The keys of some entities, and what is taken. Each key stands in both directions."""

    def __init__(self, codec: Codec, entities: Iterable[tuple[str, Mapping[Path, Any]]]) -> None:
        """Learn from entities, each given as its class and leaves."""
        self.partners: dict[int, list[int]] = defaultdict(list)  # slots by slot
        self.taken: Taken = defaultdict(set)  # by what is given
        self.said: Taken = defaultdict(set)  # by what was filled in
        for codes in _coded(codec, entities):
            for one, other in combinations(codes, 2):
                a, b = (codes[slot][(codes[one] != UNMET) & (codes[other] != UNMET)] for slot in (one, other))
                if _is_key(a, b):
                    self.partners[one].append(other)
                    self.partners[other].append(one)
                    for label, partner in zip(a.tolist(), b.tolist(), strict=True):
                        _take(self.taken, one, other, label, partner)

    def settled(
        self, batch: Batch, beliefs: Beliefs, said: Mapping[str, Tensor], trusting: Trusting
    ) -> tuple[Said, dict[int, float]]:
        """kind -> codes (q,) of what is to be said for what was: in place of what is taken the likeliest that is not.

        The surest has the first choice. What was filled in may be wrong: it is said again where nothing else is left.
        Beside it how sure that is, by token: 0 where all that there is is given.
        """
        settled = {kind: codes.clone() for kind, codes in said.items()}
        kinds = [kind for kind in LABELS if kind in beliefs.kinds and len(self.partners)]
        codes = _known(batch, self.partners) if kinds else {}
        order: list[tuple[float, str, int, int, int]] = []
        for kind in kinds:
            one = beliefs.kinds[kind]
            chances = one.belief.log_prob(said[kind]).exp().tolist()
            places = zip(batch.entity[one.tokens].tolist(), batch.slot[one.tokens].tolist(), strict=True)
            for row, (entity, slot) in enumerate(places):
                if slot in self.partners:
                    order.append((-chances[row], kind, row, entity, slot))
                    codes[entity, slot] = int(said[kind][row])
        sure: dict[int, float] = {}
        for _, kind, row, entity, slot in sorted(order):
            one = beliefs.kinds[kind]
            beside = [(other, codes[entity, other]) for other in self.partners[slot] if (entity, other) in codes]
            given, filled = (
                set().union(*(by.get((slot, *each), ()) for each in beside)) for by in (self.taken, self.said)
            )
            if given or filled:
                shares = trusting.shares(slot, one.belief.pick(torch.tensor([row], device=batch.slot.device)))
                code, chance = best(shares, given | filled)
                if not chance:
                    code, chance = best(shares, given)
                settled[kind][row], codes[entity, slot] = code, code
                sure[int(one.tokens[row])] = chance
            for other, partner in beside:
                _take(self.said, slot, other, codes[entity, slot], partner)
        return settled, sure


def _take(taken: Taken, slot: int, other: int, label: int, partner: int) -> None:
    taken[slot, other, partner].add(label)
    taken[other, slot, label].add(partner)


def _coded(codec: Codec, entities: Iterable[tuple[str, Mapping[Path, Any]]]) -> Iterator[dict[int, Codes]]:
    """Class by class the codes (n,) of each slot of labels, of classes that have several."""
    wanted = {
        of: {path: slot for path, slot in table.slot.items() if codec.slots[slot].kind in LABELS and _is_single(path)}
        for of, table in codec.index.tables.items()
    }
    values: dict[str, list[Sequence[Any]]] = defaultdict(list)
    for of, leaves in entities:
        if len(wanted[of]) > 1:
            values[of].append([leaves.get(path) for path in wanted[of]])
    for of, rows in values.items():
        columns = zip(*rows, strict=True)
        yield {slot: _codes(codec, slot, column) for slot, column in zip(wanted[of].values(), columns, strict=True)}


def _codes(codec: Codec, slot: int, values: Sequence[Any]) -> Codes:
    codes = np.full(len(values), UNMET)
    known = [place for place, value in enumerate(values) if value is not None]
    if known:
        codes[known] = codec.slots[slot].codec.encode([values[place] for place in known]).numpy()
    return codes


def _is_single(path: Path) -> bool:
    return not any(isinstance(key, int) for key in path)


def _is_key(a: Codes, b: Codes) -> bool:
    """Whether no pair of labels is met twice, though some would be if one had nothing to do with the other."""
    n = len(a)
    if n < 2:
        return False
    chances = [float(((np.unique(one, return_counts=True)[1] / n) ** 2).sum()) for one in (a, b)]
    if n * (n - 1) / 2 * chances[0] * chances[1] < REPEATED:
        return False
    return len(np.unique(np.stack([a, b]), axis=1)[0]) == n


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


def best(shares: Tensor, gone: set[int]) -> tuple[int, float]:
    """The likeliest label of those (V,) that are not gone, and how likely it is then."""
    left = shares.clone()
    left[[code for code in gone if 0 <= code < len(left)]] = 0
    code, rest = int(left.argmax()), float(left.sum())
    unmet = max(1 - float(shares.sum()), 0.0)  # what is kept for labels never met stays
    return code, float(left[code]) / (rest + unmet) if rest > 0 else 0.0
