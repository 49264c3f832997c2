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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
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

    @property
    def read_from_estimates(self) -> Tensor:
        """(k,) the columns whose hidden numbers it reads from estimates."""

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

    @cached_property
    def filled(self) -> Tensor:
        """(k,) the columns that are filled."""
        return self.columns[list(self.estimates)]

    def __call__(self, features: Tensor, estimates: Estimates | None = None) -> Tensor:
        """(n, F) all features, NaN where unknown -> (n, f + k) filled columns, and which cells are filled.

        Without estimates for these rows those of the first round are made.
        """
        filled = features[:, self.columns]
        if not self.estimates:
            return filled
        hidden = features[:, self.filled].isnan()
        if estimates is not None:
            filled[:, list(self.estimates)] = estimates.codes(self.filled)
        else:
            others = features.index_fill(1, self.own, torch.nan)
            for (place, estimate), rows in zip(self.estimates.items(), hidden.unbind(1), strict=True):
                filled[rows, place] = estimate(others[rows])
        return torch.cat([filled, hidden.float()], 1)

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
    """The features of some entities. A hidden number is imputed when it is first read.

    All hidden numbers of its column whose reading was announced are imputed with it, as trees predict many rows at once far faster
    than few at a time.

    n entities   F features   K columns that are imputed
    """

    def __init__(self, features: Tensor, rounds: Sequence[Mapping[int, Estimate]]) -> None:
        """`features` (n, F) are NaN where hidden; each of the `rounds` has an estimate for each column that is imputed."""
        self.features, self.rounds = features, rounds
        self.columns = sorted(set().union(*rounds))
        self._place = features.new_full((features.shape[1],), -1, dtype=torch.long)  # of a column, among those imputed
        self._place[self.columns] = torch.arange(len(self.columns), device=features.device)
        numbers = features[:, self.columns]
        self._codes = [numbers.clone() for _ in rounds]  # (n, K) NaN where nothing was read yet
        self._lacking = [numbers.isnan() for _ in rounds]  # (n, K) the same
        self._announced = [torch.zeros_like(self._lacking[0]) for _ in rounds]  # (n, K)

    def rows(self, rows: Tensor) -> EstimatedRows:
        """The estimates of the last round for some rows (m,)."""
        return EstimatedRows(self, rows, len(self.rounds) - 1)

    def announce(self, reads: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Note which columns (k,) of the last round will be read in which rows (m,), and what their trees read of earlier rounds."""
        read = torch.zeros(self.features.shape[0], len(self.columns), dtype=torch.bool, device=self.features.device)
        for columns, rows in reads:
            read[rows[:, None], self._place[columns]] = True
        for turn in reversed(range(len(self.rounds))):
            read = read & self._lacking[turn]
            self._announced[turn] |= read
            before = torch.zeros_like(read)
            for place in read.any(0).nonzero()[:, 0].tolist():
                estimate = self.rounds[turn][self.columns[place]]
                if self._is_of_first_round(place, turn):
                    before[:, place] |= read[:, place]
                else:
                    before[:, self._place[estimate.expert.read_from_estimates]] |= read[:, place, None]
            read = before

    def codes(self, columns: Tensor, rows: Tensor, turn: int) -> Tensor:
        """(m, k) the codes of columns (k,) in some rows (m,); hidden ones are imputed by the round `turn`."""
        places, rows = self._place[columns], rows[:, None]
        lacking = self._lacking[turn][rows, places]
        for number in lacking.any(0).nonzero()[:, 0].tolist():
            self._impute(int(places[number]), rows[lacking[:, number], 0], turn)
        return self._codes[turn][rows, places]

    def _impute(self, place: int, rows: Tensor, turn: int) -> None:
        wanted = self._announced[turn][:, place].clone()
        wanted[rows] = True
        rows = (wanted & self._lacking[turn][:, place]).nonzero()[:, 0]
        column = self.columns[place]
        if self._is_of_first_round(place, turn):
            codes = self.codes(self._place.new_tensor([column]), rows, 0)[:, 0]
        else:
            before = EstimatedRows(self, rows, turn - 1) if turn else None
            codes = self.rounds[turn][column](self.features[rows], before)
        self._codes[turn][rows, place] = codes
        self._lacking[turn][rows, place] = False

    def _is_of_first_round(self, place: int, turn: int) -> bool:
        """Whether an estimate of a later round is the one of the first: the number has no trees of its own."""
        column = self.columns[place]
        return turn > 0 and self.rounds[turn][column] is self.rounds[0].get(column)


class EstimatedRows(NamedTuple):
    """The estimates of one round for some rows of a table."""

    table: EstimatedTable
    rows: Tensor  # (m,)
    turn: int  # the round

    def codes(self, columns: Tensor) -> Tensor:
        """(m, k) the codes of columns (k,)."""
        return self.table.codes(columns, self.rows, self.turn)


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
