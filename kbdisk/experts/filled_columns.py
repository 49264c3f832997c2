"""Columns in which hidden numbers are filled by estimates: what the trees of one property read.

A number that an entity lacks often follows from others that it has, and tells of a third: a nucleus without a binding energy
has a mass. Trees that see a gap cannot follow such a chain. So trees of each number are grown first, and what they predict
takes the place of the number where that is hidden. A flag for each such column says where.

Only a number that most entities with the property have is filled: others are missing because they make no sense there.

When trees predict, hidden numbers are imputed in rounds (`EstimatedTable`), as a chain may have several links:

    first round    trees that see gaps predict the number
    later rounds   the trees of the number itself read the estimates of the round before

n rows   F features   f of them that one property uses   k of these that are filled
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from kbdisk.data import Codec
from kbdisk.experts.base import Estimates
from kbdisk.experts.examples import Examples
from kbdisk.experts.features import NUMBER_COLUMN, OneHotFeatures
from kbdisk.experts.gaussian_process import interpolate, rising_knots

MIN_KNOWN_SHARE = 0.5  # of the entities with a property, that have a number which is filled for it


class PredictsNumbers(Protocol):
    """Predicts a number from all features."""

    def numbers(self, features: Tensor, estimates: Estimates | None = None) -> Tensor:
        """(n, F) -> (n,) float64, where hidden numbers may be read from estimates for the same rows"""

    def to(self, device: torch.device) -> PredictsNumbers:
        """The same on a device."""


@dataclass(frozen=True)
class Estimate:
    """Predicts a hidden number as its column has it."""

    expert: PredictsNumbers
    knots: Tensor  # (2, P) float64 numbers, and their codes

    def __call__(self, features: Tensor, estimates: Estimates | None = None) -> Tensor:
        """(n, F) -> (n,) float32 codes."""
        return interpolate(self.knots, self.expert.numbers(features, estimates)).float()

    def to(self, device: torch.device) -> Estimate:
        """The same on a device."""
        return Estimate(self.expert.to(device), self.knots.to(device))

    @classmethod
    def of(cls, codec: Codec, slot: int, expert: PredictsNumbers) -> Estimate:
        """Of a slot whose numbers are predicted."""
        number_knots, code_knots, _ = codec.slots[slot].codec.map.knots
        return cls(expert, rising_knots(number_knots, code_knots))


@dataclass(frozen=True)
class FilledColumns:
    """The columns that the trees of one property read.

    Features of training may show the property itself: then estimates are made without it.
    """

    columns: Tensor  # (f,)
    own: Tensor  # those of the property itself
    estimates: Mapping[int, Estimate] = field(default_factory=dict)  # of columns, by their place among the used ones

    def __len__(self) -> int:
        return len(self.columns) + len(self.estimates)

    def __call__(self, features: Tensor, estimates: Estimates | None = None) -> Tensor:
        """(n, F) all features, NaN where unknown -> (n, f + k) filled columns, and which cells are filled.

        Without estimates for these rows those of the first round are made.
        """
        filled = features[:, self.columns]
        if not self.estimates:
            return filled
        others = features.index_fill(1, self.own, torch.nan) if estimates is None else features
        flags = []
        for place, estimate in self.estimates.items():
            rows = filled[:, place].isnan()
            if estimates is None:
                filled[rows, place] = estimate(others[rows])
            else:
                filled[rows, place] = estimates.codes(int(self.columns[place]), rows)
            flags.append(rows)
        return torch.cat([filled, torch.stack(flags, 1).float()], 1)

    def with_estimates(
        self, features: OneHotFeatures, known: Tensor, estimates: Mapping[int, Estimate]
    ) -> FilledColumns:
        """With those estimates, by slot, of numbers that are worth filling by where they are known (n, f)."""
        slots = features.slot.cpu()[self.columns].tolist()
        filled = worth_filling(known) & (features.label.cpu()[self.columns] == NUMBER_COLUMN)
        places = filled.nonzero()[:, 0].tolist()
        return replace(self, estimates={at: estimates[slots[at]] for at in places if slots[at] in estimates})

    def to(self, device: torch.device) -> FilledColumns:
        """The same on a device."""
        estimates = {place: estimate.to(device) for place, estimate in self.estimates.items()}
        return FilledColumns(self.columns.to(device), self.own.to(device), estimates)


# ---------------------------------------------------------------- rounds of imputation


class EstimatedTable:
    """The features of some entities. A hidden number is imputed when it is first read."""

    def __init__(self, features: Tensor, rounds: Sequence[Mapping[int, Estimate]]) -> None:
        """`features` (n, F) are NaN where hidden; each of the `rounds` has an estimate for each column that is imputed."""
        self.features, self.rounds = features, rounds
        self._columns: list[dict[int, Tensor]] = [{} for _ in rounds]  # (n,) NaN where nothing was read yet

    def rows(self, rows: Tensor) -> EstimatedRows:
        """The estimates of the last round for some rows (m,)."""
        return EstimatedRows(self, rows, len(self.rounds) - 1)

    def codes(self, column: int, rows: Tensor, turn: int) -> Tensor:
        """(m,) the codes of a column in some rows (m,); hidden ones are imputed by the round `turn`."""
        if turn and self.rounds[turn][column] is self.rounds[0].get(column):  # a number without trees of its own
            return self.codes(column, rows, 0)
        if column not in self._columns[turn]:
            self._columns[turn][column] = self.features[:, column].clone()
        known = self._columns[turn][column]
        lacking = rows[known[rows].isnan()].unique()
        if len(lacking):
            before = EstimatedRows(self, lacking, turn - 1) if turn else None
            known[lacking] = self.rounds[turn][column](self.features[lacking], before)
        return known[rows]


class EstimatedRows(NamedTuple):
    """The estimates of one round for some rows of a table."""

    table: EstimatedTable
    rows: Tensor  # (m,)
    turn: int  # the round

    def codes(self, column: int, among: Tensor) -> Tensor:
        """The codes of a column in those of the rows that a mask (m,) names."""
        return self.table.codes(column, self.rows[among], self.turn)


# ---------------------------------------------------------------- which columns are filled


def worth_filling(known: Tensor) -> Tensor:
    """(f,) the columns that are known (n, f) often enough, though not always."""
    share = known.double().mean(0)
    return (share >= MIN_KNOWN_SHARE) & (share < 1)


def slots_worth_filling(features: OneHotFeatures, examples: Mapping[int, Examples]) -> set[int]:
    """The slots of numbers that are worth filling for another slot, by the examples of each."""
    columns = (features.label.cpu() == NUMBER_COLUMN).nonzero()[:, 0]
    slots = features.slot.cpu()[columns]
    worth: set[int] = set()
    for slot, of_slot in examples.items():
        others = slots != slot
        filled = worth_filling(~of_slot.features(columns[others]).isnan())
        worth |= set(slots[others][filled].tolist())
    return worth
