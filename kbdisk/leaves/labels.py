"""The labels of a slot, with their codes and counts; and the columns of slots that share their labels.

Codes count from 0; -1 is any other label. Labels keep their types: true is not 1, "1" is not 1; 1, 1.0 and Decimal("1.0")
are the same label, as equal numbers are.

The probability that the next label is one that training never had is estimated by Good and Turing: it is the share of
labels that occur once.

n rows   S slots   C columns   V labels   D width
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from itertools import repeat
from typing import Any, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from kbdisk.leaves.base import Rows
from kbdisk.schemas.kinds import Label

UNKNOWN_LABEL = -1  # the code of a label that is not among these
MIN_NAMES = 20  # values, from which on labels may be names
MIN_SINGLETON_SHARE = 0.9  # of the values, that occur once if labels are names
MAX_LISTED = 8  # labels in a message
LABEL_TYPES = (str, int, float, bool, Decimal)


@dataclass(frozen=True)
class Labels:
    """Labels in order, how often training had each, and whether there may be others."""

    values: tuple[Label, ...]
    counts: tuple[int, ...]
    open: bool = False
    names: tuple[str, ...] = ()  # of linked entities; "" for an entity without a name

    @classmethod
    def fit(cls, given: Sequence[Label], values: Iterable[Any], open: bool, sort: bool = False) -> Self:
        """The given labels, then, if others are allowed, those of the values: the most frequent first, or the smallest."""
        counts = Counter((isinstance(value, bool), value) for value in values)
        known = dict.fromkeys((isinstance(value, bool), value) for value in given)
        if open:
            order = _size if sort else lambda key: (-counts[key], *_size(key))
            known |= dict.fromkeys(sorted(counts.keys() - known.keys(), key=order))
        return cls(tuple(value for _, value in known), tuple(counts[key] for key in known), open)

    def __len__(self) -> int:
        return len(self.values)

    def __contains__(self, value: Any) -> bool:
        return value in (self._code_of_boolean if isinstance(value, bool) else self._code_of_other)

    @property
    def unseen(self) -> float:
        """The probability of a label that training never had, at most 0.9; 0 where no others are allowed."""
        if not self.open:
            return 0.0
        if not self.values:
            return 1.0
        return min((self.counts.count(1) + 0.5) / (sum(self.counts) + 1), 0.9)

    @cached_property
    def _trained(self) -> frozenset[tuple[bool, Any]]:
        """The labels that training had; the schema may have given others."""
        pairs = zip(self.values, self.counts, strict=True)
        return frozenset((isinstance(value, bool), value) for value, count in pairs if count)

    @cached_property
    def are_names(self) -> bool:
        """Whether hardly any label recurs, as with identifiers, so that the next value is most likely a new label."""
        return self.counts.count(1) >= MIN_SINGLETON_SHARE * max(self._total, 1)

    def unseen_values(self, values: Sequence[Any]) -> list[Any]:
        """The values that training never had; none where labels are names, of which most are new."""
        if self.are_names and self._total >= MIN_NAMES:
            return []
        return [value for value in values if (isinstance(value, bool), value) not in self._trained]

    def p_values(self, values: Sequence[Any]) -> list[float]:
        """For each label the probability that the next one is new to training; 1 for a label that training had."""
        if self.are_names and self._total >= MIN_NAMES:
            return [1.0] * len(values)
        return [1.0 if (isinstance(value, bool), value) in self._trained else self._p_unseen for value in values]

    @cached_property
    def _p_unseen(self) -> float:
        """The probability that the next label is new to training."""
        return min((self.counts.count(1) + 0.5) / (self._total + 1), 1.0)

    @cached_property
    def _total(self) -> int:
        return sum(self.counts)

    def learnt(self) -> dict[str, Any]:
        """How many labels training had."""
        return {"labels": len(self._trained)}

    @cached_property
    def _code_of_boolean(self) -> dict[Any, int]:
        return {value: place for place, value in enumerate(self.values) if isinstance(value, bool)}

    @cached_property
    def _code_of_other(self) -> dict[Any, int]:
        return {value: place for place, value in enumerate(self.values) if not isinstance(value, bool)}

    def encode(self, values: Sequence[Any]) -> npt.NDArray[np.int64]:
        """The codes (n,) of labels; ValueError for a value that is not a label, or is not among these where no others are allowed."""
        kinds = set(map(type, values))
        for kind in kinds:
            if not issubclass(kind, LABEL_TYPES):
                raise ValueError(f"expected a label, got {next(value for value in values if type(value) is kind)!r}")
        known: Iterable[int] = map(self._code_of_other.get, values, repeat(UNKNOWN_LABEL))
        if bool in kinds:
            tables = (
                self._code_of_boolean if value is True or value is False else self._code_of_other for value in values
            )
            known = (table.get(value, UNKNOWN_LABEL) for table, value in zip(tables, values, strict=True))
        codes = np.fromiter(known, np.int64, len(values))
        if not self.open and (codes < 0).any():
            raise ValueError(f"expected {self._allowed()}, got {values[int(np.argmin(codes))]!r}")
        return codes

    def _allowed(self) -> str:
        """The allowed labels, as text."""
        if self.values == (False, True) and isinstance(self.values[0], bool):
            return "true or false"
        ending = ", ..." if len(self.values) > MAX_LISTED else ""
        return f"one of {', '.join(map(str, self.values[:MAX_LISTED]))}{ending}"

    def extended(self, new_labels: Iterable[Label]) -> Labels:
        """The labels with more that training never had; the codes of the old ones stay."""
        assert self.open
        known = {(isinstance(value, bool), value) for value in self.values}
        new_keys = [
            key for key in dict.fromkeys((isinstance(value, bool), value) for value in new_labels) if key not in known
        ]
        values, counts = self.values + tuple(value for _, value in new_keys), self.counts + (0,) * len(new_keys)
        return replace(self, values=values, counts=counts, names=self.names and self.names + ("",) * len(new_keys))

    def with_names(self, names: Mapping[Any, str]) -> Labels:
        """The labels with the names of linked entities."""
        return replace(self, names=tuple(names.get(value, "") for value in self.values))

    @property
    def texts(self) -> list[str]:
        """Each label as text: its name, or the label itself."""
        texts = ["true" if value is True else "false" if value is False else str(value) for value in self.values]
        return [name or text for name, text in zip(self.names, texts, strict=True)] if self.names else texts

    def to_json(self) -> dict[str, Any]:
        """The labels as plain data; a Decimal as {"decimal": "1.50"}."""
        labels: tuple[Any, ...] = self.values
        values = [{"decimal": str(value)} if isinstance(value, Decimal) else value for value in labels]
        names = {"names": list(self.names)} if self.names else {}
        return {"values": values, "counts": list(self.counts), "open": self.open, **names}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The labels of plain data."""
        values: Iterable[Any] = (
            Decimal(value["decimal"]) if isinstance(value, dict) else value for value in data["values"]
        )
        return cls(tuple(values), tuple(data["counts"]), data["open"], tuple(data.get("names", ())))


def _size(key: tuple[bool, Any]) -> tuple[Any, ...]:
    """The sort key: booleans, then numbers by their size, then strings."""
    is_boolean, value = key
    return (0, value, "") if is_boolean else (2, 0, value) if isinstance(value, str) else (1, value, "")


def with_placeholder(labels: Labels) -> Labels:
    """The labels of a slot; where it has none, a placeholder, so that a belief has at least one label."""
    return labels if len(labels) else Labels(("",), (0,), open=True)


def log_frequencies(labels: Labels) -> Tensor:
    """(V,) the log of the share of the training values that each label has."""
    counts = torch.tensor(labels.counts, dtype=torch.float32) + 0.5
    return (counts / counts.sum()).log()


# ---------------------------------------------------------------- slots that share a codec

Codec = TypeVar("Codec")


def distinct(codecs: Sequence[Codec]) -> list[Codec]:
    """Each codec once, in the order of the slots; equal codecs of two properties are two."""
    return list({id(codec): codec for codec in codecs}.values())


class Columns(nn.Module, Generic[Codec]):
    """The column of each slot: slots with the same codec are one column, and share the vectors of its labels.

    All places of a list have the same codec, and a value that arrives over links has the codec of the value at its other
    end. Paths distinguish the slots of a column.
    """

    column_of_slot: Tensor

    def __init__(self, codecs: Sequence[Codec]) -> None:
        super().__init__()
        number: dict[int, int] = {}
        columns = [number.setdefault(id(codec), len(number)) for codec in codecs]
        self.register_buffer("column_of_slot", torch.tensor(columns, dtype=torch.long), persistent=False)  # (S,)
        self.is_sorted = columns == sorted(columns)

    def forward(self, slot: Tensor) -> Tensor:
        """(n,) slots -> (n,) columns"""
        return self.column_of_slot[slot]

    def arrange(self, h: Tensor, rows: Rows) -> tuple[Tensor, Rows, Tensor | None]:
        """Rows (n, D) sorted by column, not by slot, and where each came from; None where the order stays.

        The slots of a column are of the same group, and columns are numbered by their first slots, so groups stay in order.
        """
        column = self.column_of_slot[rows.slot]
        if self.is_sorted:
            return h, Rows(column, rows.counts, rows.path), None
        column, order = column.sort(stable=True)
        return h[order], Rows(column, rows.counts, rows.path[order]), order
