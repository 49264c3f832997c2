"""Gradient-boosted trees (CatBoost) for presence: the probability that an entity has a property at all.

Each property has two boosters, and each learns from one half of the training entities. For a training entity the booster
predicts that learnt from the other half, so that its own lack of the property has no influence. For any other entity both
predict, and the mean of their log odds counts. A booster stops as soon as more trees do not lower its log loss on the other
half.

The features are the values of all other properties, their presence, and the class. The parts of the property and the
evidence that comes over its links, but for rare cases, are left out. Where properties are absent together, such as the day, the city and the country
of a death, trees take that for a fact.

The log odds are a weighted mean of those of the network and those of the trees. The weight is fitted to a trial of completion.

N entities   B of a batch   F features   q asked tokens   P properties   T trees of a booster   d levels   L = 2 ** d leaves
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from kbdisk.data import Codec
from kbdisk.data.dataset import Batch, Tokens
from kbdisk.entity import Path
from kbdisk.experts.base import Report, ignored
from kbdisk.experts.catboost import unattended
from kbdisk.experts.config import PresenceTreesConfig
from kbdisk.experts.examples import evidence_over
from kbdisk.experts.feature_screening import best_columns, varying
from kbdisk.experts.features import OneHotFeatures
from kbdisk.experts.queries import chunks
from kbdisk.experts.trees import SymmetricTrees

HALVES = 2
MIN_ENTITIES = 20  # that have a property, and that lack it, below which it has no trees
MIN_OF_HALF = 5  # of these in each half
MAX_CLASS_COLUMNS = 64  # the most frequent classes
TREE_SETTINGS = {  # by CatBoost's names
    "iterations": 60,
    "depth": 4,
    "learning_rate": 0.2,
    "border_count": 16,
    "leaf_estimation_iterations": 1,
    "od_type": "Iter",
    "od_wait": 10,
}
MAX_LOG_ODDS = 12.0
ROWS_AT_ONCE = 1024  # asked tokens whose trees are looked up at once
WEIGHTS_TRIED = 21  # that are compared, from 0 to 1
REQUIRED_ERRORS = 1.64  # standard errors by which the best weight has to be better than 0: one-sided, 95 %


# ---------------------------------------------------------------- features


@dataclass(frozen=True)
class PresenceFeatures:
    """The columns of `OneHotFeatures`, then one for each slot that has none there, then one for each class."""

    values: OneHotFeatures
    slots: Tensor  # (s,) ascending: a column is 1 where the slot is visible, else NaN
    classes: Tensor  # (c,) a column is 1 for entities of the class, else 0

    def __len__(self) -> int:
        return len(self.values) + len(self.slots) + len(self.classes)

    @classmethod
    def fit(cls, batch: Batch, own: Tensor, most: int) -> PresenceFeatures:
        """The features of some entities; `own` (S,) are the slots that are no evidence."""
        values = OneHotFeatures.fit(batch, most)
        known = batch.slot[batch.known & own[batch.slot]].unique()
        classes, counts = batch.classes.unique(return_counts=True)
        commonest = classes[counts.argsort(descending=True, stable=True)[:MAX_CLASS_COLUMNS]].sort().values
        slots = known[~torch.isin(known, values.slot)][:most]
        return cls(values, slots, commonest if len(classes) > 1 else commonest[:0])

    @property
    def slot(self) -> Tensor:
        """(F,) the slot of each column; -1 of a class."""
        return torch.cat([self.values.slot, self.slots, torch.full_like(self.classes, -1)])

    def table(self, batch: Batch, visible: Tensor) -> Tensor:
        """(B, F) float32 of the visible tokens (T,)."""
        there = torch.full((batch.size, len(self.slots)), torch.nan, device=batch.entity.device)
        if len(self.slots):
            column = torch.searchsorted(self.slots, batch.slot).clamp(max=len(self.slots) - 1)
            tokens = (visible & (self.slots[column] == batch.slot)).nonzero()[:, 0]
            there[batch.entity[tokens], column[tokens]] = 1.0
        of_classes = (batch.classes[:, None] == self.classes).float()
        return torch.cat([self.values.table(batch, visible), there, of_classes], 1)

    def to(self, device: torch.device) -> PresenceFeatures:
        """The same on a device."""
        values = OneHotFeatures(self.values.slot.to(device), self.values.label.to(device))
        return PresenceFeatures(values, self.slots.to(device), self.classes.to(device))


# ---------------------------------------------------------------- the expert


@dataclass(frozen=True)
class PresenceTrees:
    """The trees of all properties that have some, and their weight beside the network."""

    features: PresenceFeatures
    entities: Tensor  # (N,) the numbers of the entities that were learnt from, ascending
    slots: Tensor  # (P,) the leading slot of each property, ascending
    column: Tensor  # (P, 2, T, d) features
    border: Tensor  # (P, 2, T, d) float32
    leaves: Tensor  # (P, 2, T, L) float32
    start: Tensor  # (P, 2) float64
    weight: Tensor  # () float64, 0 to 1

    def __len__(self) -> int:
        return len(self.slots)

    def log_odds(self, batch: Batch, visible: Tensor, tokens: Tensor) -> Tensor:
        """(q,) float64 of some tokens' presence by the trees alone, given the visible tokens (T,); NaN where there are none."""
        slot = batch.slot[tokens]
        place = torch.searchsorted(self.slots, slot).clamp(max=len(self.slots) - 1)
        odds = torch.full((len(tokens),), torch.nan, dtype=torch.float64, device=tokens.device)
        rows = (self.slots[place] == slot).nonzero()[:, 0]
        if not len(rows):
            return odds
        table = self.features.table(batch, visible)
        is_known, half = torch.isin(batch.id_hash, self.entities), half_of(batch.id_hash)  # (B,)
        for some in rows.split(ROWS_AT_ONCE):
            entity = batch.entity[tokens[some]]
            scores = self._scores(table, entity, place[some])  # (m, 2)
            of_other_half = scores.gather(1, (1 - half[entity])[:, None])[:, 0]
            odds[some] = torch.where(is_known[entity], of_other_half, scores.mean(1))
        return odds.clamp(-MAX_LOG_ODDS, MAX_LOG_ODDS)

    def _scores(self, table: Tensor, entity: Tensor, place: Tensor) -> Tensor:
        """(m, 2) by each booster: the entities (m,) are rows of a table (B, F), `place` (m,) are those of properties."""
        _, halves, T, d = self.column.shape
        values = table[entity[:, None, None, None], self.column[place]]  # (m, 2, T, d)
        bits = 1 << torch.arange(d, device=table.device)
        leaf = ((values > self.border[place]) * bits).sum(3)  # NaN is above no border
        booster = (place[:, None] * halves + torch.arange(halves, device=table.device))[:, :, None]  # (m, 2, 1)
        tree = booster * T + torch.arange(T, device=table.device)  # (m, 2, T)
        found = self.leaves.flatten()[tree * (1 << d) + leaf]
        return found.sum(2, dtype=torch.float64) + self.start[place]

    def combined(self, batch: Batch, visible: Tensor, presence: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The presence of some tokens by a network, and beside it that by the trees.

        `logits` become the weighted mean; `network` (p,) and `trees` (p,) are what it is made of, NaN where there are no trees.
        """
        network = presence["logits"].double()
        trees = self.log_odds(batch, visible, presence["tokens"]).to(network)
        mean = (1 - self.weight) * network.clamp(-MAX_LOG_ODDS, MAX_LOG_ODDS) + self.weight * trees
        return {**presence, "logits": torch.where(trees.isnan(), network, mean), "network": network, "trees": trees}

    def weighted(self, weight: float) -> PresenceTrees:
        """The same with another weight."""
        return replace(self, weight=torch.full_like(self.weight, weight))

    def to(self, device: torch.device) -> PresenceTrees:
        """The same on a device."""
        return PresenceTrees(*(getattr(self, part.name).to(device) for part in fields(self)))


def half_of(numbers: Tensor) -> Tensor:
    """(n,) 0 or 1: the half that entities are in, by their numbers."""
    return numbers % HALVES


def weight_of_trees(network: Tensor, trees: Tensor, truth: Tensor, weights: Tensor) -> float:
    """The weight with the least log loss, of log odds (n,) by each and the truth (n,), whose rows count as `weights` (n,) say.

    0 where the gain over the network alone is no more than noise.
    """
    if not len(truth):
        return 0.0
    network, trees = (odds.double().clamp(-MAX_LOG_ODDS, MAX_LOG_ODDS) for odds in (network, trees))
    grid = torch.linspace(0, 1, WEIGHTS_TRIED, dtype=torch.float64)
    odds = network + grid[:, None] * (trees - network)  # (g, n)
    costs = weights * F.binary_cross_entropy_with_logits(odds, truth.double().expand_as(odds), reduction="none")
    best = int(costs.sum(1).argmin())
    gain = costs[0] - costs[best]
    return float(grid[best]) if float(gain.sum()) > REQUIRED_ERRORS * float(gain.square().sum().sqrt()) else 0.0


# ---------------------------------------------------------------- fitting


@torch.no_grad()
def fit(
    codec: Codec,
    tokens: Tokens,
    leading: Collection[int],
    *,
    config: PresenceTreesConfig,
    seed: int,
    seconds: float | None = None,
    report: Report = ignored,
) -> PresenceTrees | None:
    """Trees for properties, by their leading slots; those that most entities have come first, as long as there is time.

    `tokens` are the training entities. None where no property has trees. The weight is 1 until it is fitted.
    """
    end = None if seconds is None else time.monotonic() + seconds
    examples = _Examples.of(codec, tokens, config, seed)
    counts = {slot: int(examples.has(slot).sum()) for slot in sorted(leading)}
    order = sorted((slot for slot in counts if examples.can_learn(slot)), key=lambda slot: -counts[slot])
    boosters: dict[int, list[SymmetricTrees]] = {}
    needed = 0.0  # seconds, of the property before
    for done, slot in enumerate(order, 1):
        begun = time.monotonic()
        if end is not None and begun + needed >= end:
            break
        pair = examples.fit(slot)
        if pair is not None:
            boosters[slot] = pair
        needed = time.monotonic() - begun
        report(done, len(order))
    return _stacked(boosters, examples) if boosters else None


@dataclass(frozen=True, eq=False)
class _Examples:
    """The training entities, as rows of one table."""

    codec: Codec
    config: PresenceTreesConfig
    seed: int
    features: PresenceFeatures
    table: Tensor  # (N, F) with all that is known
    classes: Tensor  # (N,)
    entities: Tensor  # (N,) their numbers
    slots_there: Tensor  # (N, S) bool
    slots_lacking: Tensor  # (N, S) bool; a slot may be neither
    property: Tensor  # (S,) which property each slot is of, or follows from; -1: none
    over: Mapping[int, Tensor]  # by the slot of a link, the slots of evidence that came over it

    @classmethod
    def of(cls, codec: Codec, tokens: Tokens, config: PresenceTreesConfig, seed: int) -> _Examples:
        """A random part of the entities, where there are many."""
        order = torch.randperm(len(tokens), generator=Generator().manual_seed(seed))[: config.entities].sort().values
        order = order[tokens.sizes[order].argsort(stable=True)]
        own = torch.tensor([not slot.fixed for slot in codec.slots])
        features = PresenceFeatures.fit(tokens.batch(order), own, config.columns)
        tables, there = [], torch.zeros(len(order), len(codec.slots), dtype=torch.bool)
        first = 0
        for chunk in chunks(tokens, order):
            batch = tokens.batch(chunk)
            tables.append(features.table(batch, batch.known))
            there[first + batch.entity[batch.known], batch.slot[batch.known]] = True
            first += len(chunk)
        return cls(
            codec,
            config,
            seed,
            features,
            torch.cat(tables),
            tokens.classes[order],
            tokens.id_hash[order],
            there,
            tokens.lacking(order),
            _properties(codec),
            evidence_over(tokens, order),
        )

    def has(self, slot: int) -> Tensor:
        """(N,) which entities have a slot."""
        return self.slots_there[:, slot]

    def can_learn(self, slot: int) -> bool:
        """Whether enough entities have a slot, and enough lack it, in each half as well."""
        half = half_of(self.entities)
        return all(
            int(side.sum()) >= MIN_ENTITIES and int(side[half == number].sum()) >= MIN_OF_HALF
            for side in (self.has(slot), self.slots_lacking[:, slot])
            for number in range(HALVES)
        )

    def fit(self, slot: int) -> list[SymmetricTrees] | None:
        """The boosters of both halves, whose columns are those of the table; None where no feature varies."""
        of_columns = torch.cat([self.property, torch.tensor([-1])])[self.features.slot]  # (F,) -1 is the last
        own = (self.property == self.property[slot]).nonzero()[:, 0].tolist()
        over = torch.cat([torch.zeros(0, dtype=torch.long), *(self.over[link] for link in own if link in self.over)])
        is_of_others = (of_columns != self.property[slot]) & ~torch.isin(self.features.slot, over)
        columns = is_of_others.nonzero()[:, 0]
        having, lacking = (side.nonzero()[:, 0] for side in (self.has(slot), self.slots_lacking[:, slot]))
        rows = torch.cat([having, lacking])
        features = self.table[rows][:, columns]
        target = torch.arange(len(rows)) < len(having)
        half = half_of(self.entities)[rows]
        varies = torch.stack([varying(features[half == number]) for number in range(HALVES)]).all(0)
        if not bool(varies.any()):
            return None
        columns, features = columns[varies], features[:, varies]
        best = best_columns(features, target[:, None].double(), self.config.screened)
        columns, features = columns[best], features[:, best]
        boosters = [_booster(features, target, half == number, self.seed) for number in range(HALVES)]
        return [replace(trees, column=columns[trees.column]) for trees in boosters]


def _properties(codec: Codec) -> Tensor:
    """(S,) the number of the property that each slot is of, or that it came over; -1: none."""
    paths = {path for of in codec.schema.classes.values() for path in of.properties}
    numbers: dict[Path, int] = {}
    found = []
    for slot in codec.slots:
        path: Path = slot.path if slot.over is None else () if slot.over.incoming else slot.over.link
        top = next((path[:length] for length in range(1, len(path) + 1) if path[:length] in paths), None)
        found.append(-1 if top is None else numbers.setdefault(top, len(numbers)))
    return torch.tensor(found, dtype=torch.long)


def _booster(features: Tensor, target: Tensor, is_training: Tensor, seed: int) -> SymmetricTrees:
    """A booster of some of the rows (n,), with early stopping on the rest."""
    from catboost import CatBoost, Pool

    training, rest = (Pool(features[rows].numpy(), target[rows].long().numpy()) for rows in (is_training, ~is_training))
    settings: dict[str, Any] = {**TREE_SETTINGS, **unattended(seed % (1 << 31)), "loss_function": "Logloss"}
    return SymmetricTrees.of(CatBoost(settings).fit(training, eval_set=rest, use_best_model=True))


def _stacked(boosters: Mapping[int, Sequence[SymmetricTrees]], examples: _Examples) -> PresenceTrees:
    """All boosters with as many trees and levels each: those that are added say nothing."""
    every = [trees for slot in sorted(boosters) for trees in boosters[slot]]
    depth = max(max(trees.column.shape[1] for trees in every), 1)
    count = max(len(trees.column) for trees in every)
    padded = [_padded(trees.padded(depth), count) for trees in every]
    column, border, leaves, start = (
        torch.stack([getattr(trees, name) for trees in padded]).unflatten(0, (len(boosters), HALVES))
        for name in ("column", "border", "leaves", "start")
    )
    return PresenceTrees(
        examples.features,
        examples.entities.sort().values,
        torch.tensor(sorted(boosters)),
        column,
        border,
        leaves[..., 0],
        start[..., 0],
        torch.ones((), dtype=torch.float64),
    )


def _padded(trees: SymmetricTrees, count: int) -> SymmetricTrees:
    """The same trees and further ones, whose leaves are 0."""
    more = count - len(trees.column)
    return replace(
        trees,
        column=F.pad(trees.column, (0, 0, 0, more)),
        border=F.pad(trees.border, (0, 0, 0, more), value=torch.inf),
        leaves=F.pad(trees.leaves, (0, 0, 0, 0, 0, more)),
    )
