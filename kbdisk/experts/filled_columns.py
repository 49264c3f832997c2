"""Columns in which hidden numbers are filled by estimates: what the trees of one property read.

A number that an entity lacks often follows from others that it has, and tells of a third: a nucleus without a binding energy
has a mass. Trees that see a gap cannot follow such a chain. So trees of such numbers are grown first, one after the other, and
what they predict takes the place of the number where that is hidden. A flag for each such column says where.

Only a number that most entities with the property have is filled: others are missing because they make no sense there.

When trees predict, hidden numbers are imputed in rounds (`EstimatedTable`), as a chain may have several links:

    first round    the trees of a number read the estimates of numbers that were learnt before it
    later rounds   the trees that have weights read the estimates of the round before

n rows   F features   f of them that one property uses   k of these that are filled
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Protocol, TypeAlias

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


Round: TypeAlias = Mapping[int, Estimate]  # by column; in the first round each reads only columns before its own


@dataclass(frozen=True)
class FilledColumns:
    """The columns that the trees of one property read."""

    columns: Tensor  # (f,)
    own: Tensor  # those of the property itself
    places: list[int] = field(default_factory=list)  # of the columns that are filled, among the used ones

    def __len__(self) -> int:
        return len(self.columns) + len(self.places)

    @cached_property
    def filled(self) -> Tensor:
        """(k,) the columns that are filled."""
        return self.columns[self.places]

    def __call__(self, features: Tensor, estimates: Estimates | None) -> Tensor:
        """(n, F) all features, NaN where unknown -> (n, f + k) the columns, filled from estimates for the same rows, and which cells are.

        Without filled columns there need be no estimates.
        """
        filled = features[:, self.columns]
        if not self.places:
            return filled
        assert estimates is not None
        hidden = filled[:, self.places].isnan()
        filled[:, self.places] = estimates.codes(self.filled)
        return torch.cat([filled, hidden.float()], 1)

    def of_training(self, features: Tensor, estimates: Round) -> Tensor:
        """The same for features that may show the property itself: estimates are made without it, by one round."""
        if not self.places:
            return self(features, None)
        table = EstimatedTable(features.index_fill(1, self.own, torch.nan), [estimates], never_imputed=self.own)
        rows = torch.arange(len(features), device=features.device)
        table.announce([(self.filled, rows)])
        return self(features, table.rows(rows))

    def with_estimates(self, known: Tensor, estimates: Round) -> FilledColumns:
        """Filled from those estimates where numbers are worth filling by where they are known (n, f)."""
        worth = worth_filling(known).nonzero()[:, 0].tolist()
        return replace(self, places=[place for place in worth if int(self.columns[place]) in estimates])

    def to(self, device: torch.device) -> FilledColumns:
        """The same on a device."""
        return replace(self, columns=self.columns.to(device), own=self.own.to(device))


def needed_estimates(estimates: Round, read: Iterable[int]) -> Round:
    """The estimates of a first round for the columns that are read, and for those that these read in turn."""
    columns, kept = set(read), {}
    for column, estimate in reversed(list(estimates.items())):
        if column in columns:
            kept[column] = estimate
            columns.update(estimate.expert.read_from_estimates.tolist())
    return dict(reversed(list(kept.items())))


# ---------------------------------------------------------------- rounds of imputation


class EstimatedTable:
    """The features of some entities. A hidden number is imputed once, when it is first read or announced.

    All hidden numbers of its column whose reading was announced are imputed with it, as trees predict many rows at once far faster
    than few at a time.

    n entities   F features   K columns that are imputed
    """

    def __init__(self, features: Tensor, rounds: Sequence[Round], never_imputed: Tensor | None = None) -> None:
        """`features` (n, F) are NaN where hidden; each of the `rounds` has an estimate for each column that is imputed.

        The columns `never_imputed` (m,) stay hidden: trees that learnt a number from these rows would disclose it to its own estimates.
        """
        self.features, self.rounds = features, rounds
        self.columns = sorted(set().union(*rounds))
        self._place = features.new_full((features.shape[1],), -1, dtype=torch.long)  # of a column, among those imputed
        self._place[self.columns] = torch.arange(len(self.columns), device=features.device)
        numbers = features[:, self.columns]
        self._codes = [numbers.clone() for _ in rounds]  # (n, K) NaN where nothing was read yet
        self._lacking = [numbers.isnan() for _ in rounds]  # (n, K) the same
        self._announced = [torch.zeros_like(self._lacking[0]) for _ in rounds]  # (n, K)
        if never_imputed is not None:
            hidden = self._place[never_imputed]
            for lacking in self._lacking:
                lacking[:, hidden[hidden >= 0]] = False

    def rows(self, rows: Tensor) -> EstimatedRows:
        """The estimates of the last round for some rows (m,)."""
        return EstimatedRows(self, rows, len(self.rounds) - 1)

    def announce(self, reads: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Note which columns (k,) of the last round will be read in which rows (m,), and what their trees read of earlier rounds."""
        places = {column: place for place, column in enumerate(self.columns)}
        read = torch.zeros(self.features.shape[0], len(self.columns), dtype=torch.bool, device=self.features.device)
        for columns, rows in reads:
            read[rows[:, None], self._place[columns]] = True
        for turn in reversed(range(len(self.rounds))):
            before = torch.zeros_like(read)
            for column, estimate in reversed(list(self.rounds[turn].items())):  # a column after all that read it
                place = places[column]
                reading = read[:, place] & self._lacking[turn][:, place]
                if not bool(reading.any()):
                    continue
                if self._is_of_first_round(place, turn):
                    before[:, place] |= reading
                else:
                    sources = before if turn else read
                    sources[:, self._place[estimate.expert.read_from_estimates]] |= reading[:, None]
            self._announced[turn] |= read & self._lacking[turn]
            read = before
        for column in self.rounds[0]:  # in their order, so that none waits for a long chain of others
            rows = (self._announced[0][:, places[column]] & self._lacking[0][:, places[column]]).nonzero()[:, 0]
            if len(rows):
                self._impute(places[column], rows, 0)

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
            before = EstimatedRows(self, rows, max(turn - 1, 0))
            codes = self.rounds[turn][column](self.features[rows], before)
        self._codes[turn][rows, place] = codes
        self._lacking[turn][rows, place] = False

    def _is_of_first_round(self, place: int, turn: int) -> bool:
        """Whether an estimate of a later round is the one of the first."""
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
    """The slots of numbers that are worth filling for another slot, of those that have examples."""
    columns = (features.label.cpu() == NUMBER_COLUMN).nonzero()[:, 0]
    slots = features.slot.cpu()[columns]
    worth: set[int] = set()
    for slot, of_slot in examples.items():
        others = slots != slot
        filled = worth_filling(~of_slot.features(columns[others]).isnan())
        worth |= set(slots[others][filled].tolist())
    return worth & examples.keys()
