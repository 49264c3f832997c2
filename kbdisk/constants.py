"""What is best said to everybody, as training has it: median, mean, the commonest label, the members or words that are in the most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self

import torch

from kbdisk.data import Codec
from kbdisk.data.dataset import Tokens
from kbdisk.entity import Link
from kbdisk.metrics import apart, label, members, words

SAMPLE = 20_000  # values of a slot that its constant is learnt from
FEWER = 500  # sets and texts
LONGEST = 40  # members or words of a constant, at most


@dataclass(frozen=True)
class Constant:
    """What is best said of a slot to everybody."""

    value: Any  # the median, a label, a link, a list of members, a text of words
    mean: float | None = None  # of numbers
    interval: tuple[float, float] | None = None  # of numbers: where nine tenths are


@dataclass(frozen=True)
class Constants:
    """The constants of all slots that training has values of."""

    slots: Mapping[int, Constant]

    @classmethod
    def fit(cls, codec: Codec, tokens: Tokens) -> Self:
        """Learn from training entities."""
        found: dict[int, Constant] = {}
        own = (tokens.known & ~tokens.layout.fixed[tokens.slot]).nonzero()[:, 0]
        own = own[tokens.slot[own].argsort(stable=True)]
        for several in own.split(tokens.slot[own].unique_consecutive(return_counts=True)[1].tolist()):
            slot = int(tokens.slot[several[0]])
            kind = codec.slots[slot].kind
            some = several[_some(kind, len(several))]
            codes = tokens.codes[kind].gather(tokens.row[some])
            values = [one for one in codec.slots[slot].codec.decode(codes) if one is not None]
            if values:
                found[slot] = CONSTANTS[kind](values)
        return cls(found)

    def to_json(self) -> dict[str, Any]:
        """Itself as plain data."""
        return {
            str(slot): [_plain(one.value), one.mean, list(one.interval) if one.interval else None]
            for slot, one in self.slots.items()
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Itself again."""
        return cls(
            {
                int(slot): Constant(_unplain(value), mean, tuple(interval) if interval else None)
                for slot, (value, mean, interval) in data.items()
            }
        )


def constant_of(kind: str, values: Sequence[Any]) -> Constant:
    """What is best said to everybody where these are the values, one at least, of a leaf of some kind."""
    return CONSTANTS[kind](values[_some(kind, len(values))])


def _some(kind: str, count: int) -> slice:
    """Which of so many values a constant is learnt from: evenly many."""
    return slice(None, None, -(-count // (FEWER if kind in ("set", "text") else SAMPLE)))


def _of_numbers(values: Sequence[Any]) -> Constant:
    numbers = torch.tensor([float(one) for one in values], dtype=torch.float64)
    low, middle, high = numbers.quantile(torch.tensor([0.05, 0.5, 0.95], dtype=torch.float64)).tolist()
    return Constant(middle, float(numbers.mean()), (low, high))


def _of_labels(values: Sequence[Any]) -> Constant:
    first: dict[Hashable, Any] = {}
    for one in values:
        first.setdefault(label(one), one)
    return Constant(first[Counter(map(label, values)).most_common(1)[0][0]])


def _of_sets(values: Sequence[Any]) -> Constant:
    names = {label(one): one for value in values for one in value}
    return Constant([names[one] for one in nearest([members(value) for value in values])])


def _of_texts(values: Sequence[Any]) -> Constant:
    return Constant(" ".join(nearest([words(value) for value in values])))


CONSTANTS: Mapping[str, Callable[[Sequence[Any]], Constant]] = {
    "number": _of_numbers,
    "category": _of_labels,
    "link": _of_labels,
    "set": _of_sets,
    "text": _of_texts,
}


def nearest(sets: Sequence[frozenset[Any]]) -> list[Any]:
    """The members of the set with the least 1 - IoU on average, among the commonest one and those of the k commonest members."""
    counts = Counter(one for each in sets for one in each)
    order = sorted(counts, key=lambda one: (-counts[one], str(one)))
    whole = Counter(sets).most_common(1)[0][0]
    candidates = [whole, *(frozenset(order[:k]) for k in range(min(len(order), LONGEST) + 1))]
    best = min(candidates, key=lambda one: sum(apart(one, each) for each in sets))
    return sorted(best, key=lambda one: (-counts[one], str(one)))


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, Link):
        return {"link": value.id}
    return {"decimal": str(value)} if isinstance(value, Decimal) else value


def _unplain(value: Any) -> Any:
    if isinstance(value, list):
        return [_unplain(one) for one in value]
    if isinstance(value, dict):
        return Link(value["link"]) if "link" in value else Decimal(value["decimal"])
    return value
