"""Training examples of the experts of one property: known values with the values that are visible beside each.

n values of one slot   F features   K labels
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor

from kbdisk.data.dataset import Batch, Tokens
from kbdisk.experts.base import SET, ExpertGroup, Sides, SlotLevel, WeightedExpert
from kbdisk.experts.features import ONE_HOT_KINDS, OneHotFeatures
from kbdisk.experts.queries import chunks, draw_entities, masked_alone, usual_amounts
from kbdisk.experts.sparse_table import ROWS_AT_ONCE, SparseTable

TOKENS_AT_ONCE = 1 << 15  # that are masked
FEWEST_VALUES = 10_000  # of all slots, that are learnt from where time is short
FEWEST_OF_SLOT = 300  # the same of one slot
MIN_LABEL_VALUES = 2  # values of a label, below which it is left out
MIN_SHARE_OVER = 0.02  # of the entities with a link: evidence that came over it in as many is no feature of the link


@dataclass
class Examples:
    """Known values of one slot, on the CPU."""

    tables: list[SparseTable] = field(default_factory=list)  # (m, F) what was visible of some entities
    rows: list[Tensor] = field(default_factory=list)  # (n,) the row of each value in its table
    codes: list[Tensor] = field(default_factory=list)  # (n, ...)
    entities: list[Tensor] = field(default_factory=list)  # (n,) the number of each value's entity
    weights: list[Tensor] = field(default_factory=list)  # (n,) float32: the members of a set sum to 1

    def __len__(self) -> int:
        return sum(map(len, self.codes))

    def append(self, table: SparseTable, rows: Tensor, codes: Tensor, entities: Tensor, weights: Tensor) -> None:
        """Add values. A table is shared by all slots, so the column of a value's own slot may disclose it."""
        for parts, part in zip(vars(self).values(), (table, rows, codes, entities, weights), strict=True):
            parts.append(part)

    @classmethod
    def joined(cls, sides: Iterable[Examples]) -> Examples:
        """The examples of several sides."""
        joined = cls()
        for side in sides:
            for parts, more in zip(vars(joined).values(), vars(side).values(), strict=True):
                parts += more
        return joined

    def within(self, seconds: float | None, per_second: int, seed: int) -> Examples:
        """A random sample of as many values as fit the seconds of a slot, if these are limited."""
        return self.sample(values_within(seconds, per_second, FEWEST_OF_SLOT), seed)

    def sample(self, count: int, seed: int) -> Examples:
        """A random sample of the values; all of them where there are no more."""
        return self if len(self) <= count else self.select(random_rows(len(self), count, seed))

    def select(self, chosen: Tensor) -> Examples:
        """Some of the values, by their places (m,), which ascend."""
        ends = torch.tensor([len(codes) for codes in self.codes]).cumsum(0)
        counts = torch.searchsorted(chosen, ends).diff(prepend=ends.new_zeros(1))
        selected = Examples()
        for place, within in enumerate(chosen.split(counts.tolist())):
            start = ends[place] - len(self.codes[place])
            of_values = (self.rows, self.codes, self.entities, self.weights)
            rows, codes, entities, weights = (part[place][within - start] for part in of_values)
            selected.append(self.tables[place], rows, codes, entities, weights)
        return selected

    def features(self, columns: Tensor) -> Tensor:
        """(n, f) what was visible beside each value, in columns (f,) of other slots."""
        return torch.cat([table.dense(rows, columns) for table, rows in zip(self.tables, self.rows, strict=True)])

    def visible(self, columns: Tensor) -> Tensor:
        """(f,) those of some columns of which something was visible beside at least one value."""
        known = [table.is_visible(rows, columns) for table, rows in zip(self.tables, self.rows, strict=True)]
        return columns[torch.stack(known).any(0)] if known else columns

    def read(self, read: Callable[[Tensor], Tensor]) -> Tensor:
        """(n, f) what a function of all features (n, F) gives, of what was visible beside each value."""
        blocks = (
            table.dense(block)
            for table, rows in zip(self.tables, self.rows, strict=True)
            for block in rows.split(ROWS_AT_ONCE)
        )
        return torch.cat(list(map(read, blocks)))


class OneHotExamples:
    """Examples with one-hot features: of the training entities, and once weights are fitted of all."""

    def __init__(
        self,
        sides: Sides,
        max_values: int,
        max_columns: int,
        seed: int,
        kinds: Collection[str] = ONE_HOT_KINDS,
        *,
        keys: bool = False,
        sizes: bool = True,
    ) -> None:
        """`keys` and `sizes` are those of `OneHotFeatures.fit`."""
        self.sides, self.max_values, self.kinds = sides, max_values, kinds
        self.generator = Generator(sides.training.slot.device).manual_seed(seed)
        self.drawn = draw_entities(sides.training, max_values, self.generator)
        drawn = sides.training.batch(self.drawn)
        self.features = OneHotFeatures.fit(drawn, max_columns, words=True, keys=keys, sizes=sizes)
        # Every amount is usual: these experts predict where little is visible, too.
        self.usual_amount = torch.zeros_like(usual_amounts(sides.training))
        self.training = self._of(sides.training, self.drawn)
        self.over = evidence_over(sides.training, self.drawn)

    def group(self, experts: Mapping[SlotLevel, WeightedExpert]) -> ExpertGroup:
        """Experts with these features."""
        return ExpertGroup(self.features, self.usual_amount, experts)

    def columns_beside(self, slot: int) -> Tensor:
        """(f,) the columns that a slot is learnt from, on the CPU: those of other slots, but for evidence that came over its link.

        Such evidence is hidden with the link. Of an entity that lacks the link it came over others, and means something else.
        """
        columns = self.features.without(slot).cpu()
        over = self.over.get(slot)
        return columns if over is None else columns[~torch.isin(self.features.slot.cpu()[columns], over)]

    def all(self) -> list[Mapping[int, Examples]]:
        """The examples of training entities, with the reserved values, and of held-out entities."""
        complete, held_out = self.sides.complete, self.sides.held_out
        first = self.training if complete is None else self._of(complete, self.drawn)
        return [first, self._of(held_out, draw_entities(held_out, self.max_values, self.generator))]

    def _of(self, tokens: Tokens, entities: Tensor) -> Mapping[int, Examples]:
        """Every number and label of some entities, by its slot."""
        values: dict[int, list[tuple[Tensor, ...]]] = defaultdict(list)
        tables: list[SparseTable] = []
        rows = 0
        for chunk in chunks(tokens, entities, TOKENS_AT_ONCE):
            batch = tokens.batch(chunk)
            for masked in masked_alone(batch, tokens.layout, self.usual_amount, self.generator):
                part, of_part, _ = masked.narrowed(batch)
                tables.append(self.features.sparse_table(part, of_part.visible).cpu())
                for slot, row, codes, numbers, weights in self._values(part, of_part.tokens):
                    values[slot].append((rows + row, codes, numbers, weights))
                rows += part.size
        if not tables:
            return {}
        table = SparseTable.joined(tables)
        return {
            slot: Examples([table], *([torch.cat(column)] for column in zip(*parts, strict=True)))
            for slot, parts in values.items()
        }

    def _values(self, batch: Batch, masked: Tensor) -> Iterator[tuple[int, Tensor, Tensor, Tensor, Tensor]]:
        """The masked values (T,) slot by slot: the slot, the entities, the codes, the numbers of the entities, and the weights."""
        for kind in batch.spans.keys() & self.kinds:
            start, end = batch.spans[kind]
            tokens = masked[start:end].nonzero()[:, 0]
            slots, counts = batch.slot[start + tokens].unique_consecutive(return_counts=True)
            for slot, of_slot in zip(slots.tolist(), tokens.split(counts.tolist()), strict=True):
                entity, codes = batch.entity[start + of_slot], batch.values[kind][of_slot]
                weights = torch.ones(len(entity), device=entity.device)
                if kind == SET:  # each member is a value
                    row, member = (codes >= 0).nonzero().unbind(1)
                    weights = 1 / (codes >= 0).sum(1)[row].float()
                    entity, codes = entity[row], codes[row, member]
                yield slot, entity.cpu(), codes.cpu(), batch.id_hash[entity].cpu(), weights.cpu()


def evidence_over(tokens: Tokens, entities: Tensor) -> dict[int, Tensor]:
    """By the slot of a link, the slots of evidence that came over it in at least `MIN_SHARE_OVER` of the entities with the link."""
    slots = len(tokens.layout.fixed)
    having, pairs, counts = torch.zeros(slots), [], []
    for chunk in chunks(tokens, entities, TOKENS_AT_ONCE):
        batch = tokens.batch(chunk)
        having += torch.bincount(batch.slot[batch.known].cpu(), minlength=slots)
        pair, count = (batch.slot[batch.needs[:, 1]] * slots + batch.slot[batch.needs[:, 0]]).unique(return_counts=True)
        pairs.append(pair.cpu())
        counts.append(count.cpu())
    if not pairs:
        return {}
    every, place = torch.cat(pairs).unique(return_inverse=True)
    total = torch.zeros(len(every)).index_add_(0, place, torch.cat(counts).float())
    link, evidence = every // slots, every % slots
    is_often = total >= MIN_SHARE_OVER * having[link]
    return {int(slot): evidence[is_often & (link == slot)] for slot in link[is_often].unique()}


def random_rows(count: int, most: int, seed: int) -> Tensor:
    """(m,) ascending, a random sample of `most` of so many rows, or all where there are no more."""
    return torch.randperm(count, generator=Generator().manual_seed(seed))[:most].sort().values


def values_within(seconds: float | None, per_second: int, least: int, most: float = math.inf) -> int:
    """The values that a fit learns from: as many as fit its seconds, if these are limited, and `least` in any case."""
    wanted = math.inf if seconds is None else max(per_second * seconds, least)
    return int(min(wanted, most, sys.maxsize))


def commonest_labels(codes: Tensor, max_labels: int) -> Tensor:
    """(K,) ascending; without labels that are too rare."""
    labels, counts = codes[codes >= 0].unique(return_counts=True)
    commonest = counts.argsort(descending=True, stable=True)[:max_labels]
    kept: Tensor = labels[commonest[counts[commonest] >= MIN_LABEL_VALUES]].sort().values
    return kept


def folds_of(entities: Tensor, count: int, seed: int) -> Tensor:
    """(n,) the fold of each value: all values of an entity are in one."""
    numbers, index = entities.unique(return_inverse=True)
    order = torch.randperm(len(numbers), generator=Generator().manual_seed(seed))
    return (order % count)[index]
