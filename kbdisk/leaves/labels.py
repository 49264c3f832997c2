"""The labels of one slot as plain data: numbers for labels and back. Codes count from 0; -1 is any other label.

Labels keep their types: true is not 1, "1" is not 1; 1, 1.0 and Decimal("1.0") are one label, as numbers are equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from itertools import repeat
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from kbdisk.schemas.kinds import Label

OTHER = -1  # the code of a label that is not among these
MIN_NAMES = 20  # values that show that labels are names
SINGULAR = 0.9  # the share of values that are met once, from which on labels are names
TYPES = (str, int, float, bool, Decimal)


@dataclass(frozen=True)
class Labels:
    """Labels in order, how often training had each, and whether there may be others."""

    values: tuple[Label, ...]
    counts: tuple[int, ...]
    open: bool = False
    names: tuple[str, ...] = ()  # what they are called, if not by themselves; "" for one without a name

    @classmethod
    def learn(cls, given: Sequence[Label], values: Iterable[Any], open: bool, sort: bool = False) -> Self:
        """The given labels, then, where others may be, those met: the commonest first, or the smallest."""
        counts = Counter((isinstance(value, bool), value) for value in values)
        known = dict.fromkeys((isinstance(value, bool), value) for value in given)
        if open:
            order = _size if sort else lambda key: (-counts[key], *_size(key))
            known |= dict.fromkeys(sorted(counts.keys() - known.keys(), key=order))
        return cls(tuple(value for _, value in known), tuple(counts[key] for key in known), open)

    def __len__(self) -> int:
        return len(self.values)

    def __contains__(self, value: Any) -> bool:
        return value in (self._truths if isinstance(value, bool) else self._plain)

    @property
    def unseen(self) -> float:
        """How likely the next label is one never met: the share of those met once (Good and Turing); 0 where closed."""
        if not self.open:
            return 0.0
        if not self.values:
            return 1.0
        return min((self.counts.count(1) + 0.5) / (sum(self.counts) + 1), 0.9)

    @cached_property
    def _met(self) -> frozenset[tuple[bool, Any]]:
        """The labels that training had; others may be told by the schema."""
        both = zip(self.values, self.counts, strict=True)
        return frozenset((isinstance(value, bool), value) for value, count in both if count)

    @cached_property
    def are_names(self) -> bool:
        """Whether hardly a label comes again, as of an identifier: the next value is most likely a new one."""
        return self.counts.count(1) >= SINGULAR * max(self._total, 1)

    def never_met(self, values: Sequence[Any]) -> list[Any]:
        """Those of some labels that training never had; none where labels are names, and a new one is no news."""
        if self.are_names and self._total >= MIN_NAMES:
            return []
        return [value for value in values if (isinstance(value, bool), value) not in self._met]

    def p_values(self, values: Sequence[Any]) -> list[float]:
        """For each label the probability that the next one was never met, by Good and Turing; 1 for one that was met."""
        if self.are_names and self._total >= MIN_NAMES:
            return [1.0] * len(values)
        return [1.0 if (isinstance(value, bool), value) in self._met else self._unseen for value in values]

    @cached_property
    def _unseen(self) -> float:
        """The probability that the next label was never met, by Good and Turing."""
        return min((self.counts.count(1) + 0.5) / (self._total + 1), 1.0)

    @cached_property
    def _total(self) -> int:
        return sum(self.counts)

    def learnt(self) -> dict[str, Any]:
        """How many labels training had."""
        return {"labels": len(self._met)}

    @cached_property
    def _truths(self) -> dict[Any, int]:
        return {value: place for place, value in enumerate(self.values) if isinstance(value, bool)}

    @cached_property
    def _plain(self) -> dict[Any, int]:
        return {value: place for place, value in enumerate(self.values) if not isinstance(value, bool)}

    def find(self, values: Sequence[Any]) -> npt.NDArray[np.int64]:
        """The codes (n,) of labels; ValueError where one is no label, or none of these and these are all."""
        kinds = set(map(type, values))
        for kind in kinds:
            if not issubclass(kind, TYPES):
                raise ValueError(f"expected a label, got {next(value for value in values if type(value) is kind)!r}")
        found: Iterable[int] = map(self._plain.get, values, repeat(OTHER))
        if bool in kinds:
            own = (self._truths if value is True or value is False else self._plain for value in values)
            found = (table.get(value, OTHER) for table, value in zip(own, values, strict=True))
        codes = np.fromiter(found, np.int64, len(values))
        if not self.open and (codes < 0).any():
            raise ValueError(f"expected {self.listed()}, got {values[int(np.argmin(codes))]!r}")
        return codes

    def listed(self) -> str:
        """What is allowed, in words."""
        if self.values == (False, True) and isinstance(self.values[0], bool):
            return "true or false"
        return f"one of {', '.join(map(str, self.values[:8]))}{', ...' if len(self.values) > 8 else ''}"

    def extended(self, more: Iterable[Label]) -> Labels:
        """Itself with labels that training never had; the codes of the old ones stay."""
        assert self.open
        met = {(isinstance(value, bool), value) for value in self.values}
        new = [key for key in dict.fromkeys((isinstance(value, bool), value) for value in more) if key not in met]
        values, counts = self.values + tuple(value for _, value in new), self.counts + (0,) * len(new)
        return replace(self, values=values, counts=counts, names=self.names and self.names + ("",) * len(new))

    def named(self, names: Mapping[Any, str]) -> Labels:
        """Itself with what its labels are called."""
        return replace(self, names=tuple(names.get(value, "") for value in self.values))

    @property
    def texts(self) -> list[str]:
        """Each label as text: what it is called, or itself."""
        plain = ["true" if one is True else "false" if one is False else str(one) for one in self.values]
        return [name or text for name, text in zip(self.names, plain, strict=True)] if self.names else plain

    def to_json(self) -> dict[str, Any]:
        """Itself as plain data; a Decimal as {"decimal": "1.50"}."""
        labels: tuple[Any, ...] = self.values
        values = [{"decimal": str(value)} if isinstance(value, Decimal) else value for value in labels]
        named = {"names": list(self.names)} if self.names else {}
        return {"values": values, "counts": list(self.counts), "open": self.open, **named}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Itself again."""
        values: Iterable[Any] = (
            Decimal(value["decimal"]) if isinstance(value, dict) else value for value in data["values"]
        )
        return cls(tuple(values), tuple(data["counts"]), data["open"], tuple(data.get("names", ())))


def _size(key: tuple[bool, Any]) -> tuple[Any, ...]:
    """Truths, then numbers by their size, then strings."""
    truth, value = key
    return (0, value, "") if truth else (2, 0, value) if isinstance(value, str) else (1, value, "")
