"""k nearest neighbours in feature space, with a learnt metric for each property.

A number is predicted in several ways: by means of the neighbours whose weights fall with the distance more or less steeply,
by kriging among the neighbours, and by the mean of all known values; a mixture of these, fitted to known values, is the
prediction. A label has the sum of its neighbours' weights. The metric weighs blocks of features. It is fitted by gradient
descent such that a kernel mean of known values predicts masked ones (neighbourhood components analysis, kernel regression).

Known values are masked one by one, with the rest of their composite, and many at once, as in all experts; each property has
a metric for entities with as much visible as is usual, and one for those with less.

m or n queries   M known entities of one class with the property   N known entities   K neighbours
F features   G blocks of features   E predictors   t targets
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from kbdisk.data import Codec
from kbdisk.data.dataset import Batch, Tokens
from kbdisk.experts import kriging
from kbdisk.experts.base import (
    USUALLY_VISIBLE,
    Candidates,
    ExpertGroup,
    Inputs,
    LabelMasses,
    Prediction,
    Report,
    Sides,
    SlotLevel,
    WeightedExpert,
    by_slot_and_level,
    ignored,
)
from kbdisk.experts.config import KNNConfig
from kbdisk.experts.features import HashedFeatures, known_labels, most_frequent_slots
from kbdisk.experts.queries import (
    Masked,
    chunks,
    draw_entities,
    masked_alone,
    questions_in_rounds,
    usual_amounts,
)
from kbdisk.experts.weights import least_squares_weights, limited, mixture_weights, squares
from kbdisk.model.estimates import decode_codes
from kbdisk.model.optimizers import AdamW, linear_decay

KNN_KINDS = ("number", "category", "link")
STEEPNESSES = (0.5, 1.0, 2.0, 4.0)  # of weights, in parts of the steepness with which the metric was fitted
NUMBER_PREDICTORS = len(STEEPNESSES) + len(kriging.SETTINGS) + 1  # the last: the mean of all known values
KRIGING_NEIGHBOURS = 32  # of the nearest, that kriging is among
SCALE_NEIGHBOUR = 8  # the lengths of kriging are in parts of the distance to this neighbour
MAX_DISTANCES = 1 << 22  # or features of neighbours, computed at once
MIN_SCALE = 1e-6  # of a squared distance

MIN_KNN_VALUES = 50  # known values of a property, and queries, below which it has no neighbours
MIXTURE_QUERIES = 1024  # that the mixture is fitted to, at most
MIXTURE_BATCH = 128
MIXTURE_PRIOR = 1.0  # queries that each predictor has to itself
MASKING_SHARE = 0.2  # of the time, at most: for masking known values
METRIC_SHARE = 0.7  # of a property's time: for the metric

STEPS, LEARNING_RATE = 80, 0.15  # of Adam, for the metric
BATCH_QUERIES, BATCH_KEYS = 256, 2048
MAX_SQUARED_ERROR = 9.0  # in squared deviations: larger errors count as this
INITIAL_DISTANCE = 8.0  # between entities, about
UNSEEN_LABEL_PROBABILITY = 1e-3  # of a label that no other entity has


# ---------------------------------------------------------------- the metric


def distances(weights: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    """Weighted squared distances (n, M) of queries (n, F) and keys (M, F), NaN where hidden; weights (F,).

    Features that a query hides do not count; those that a key lacks are its mean, 0.
    """
    visible, at, to = (~queries.isnan()) * weights, queries.nan_to_num(), keys.nan_to_num()
    weighted = at * weights
    return (weighted * at).sum(1, keepdim=True) - 2 * weighted @ to.T + visible @ to.square().T


def fit_metric(
    block: Tensor,
    queries: Tensor,
    own: Tensor,
    keys: Tensor,
    targets: Tensor,
    generator: Generator,
    seconds: float | None = None,
) -> Tensor:
    """The weights (F,) of features, equal within a block; `block` (F,), -1: weight 0.

    `own` (n,): the key that each query is itself; targets (M, t) numbers, or (M,) labels. The learning rate falls to 0 over the
    steps, or over the time where that is shorter.
    """
    device, count = keys.device, int(block.max()) + 1
    logs = torch.full((count,), INITIAL_DISTANCE / count, device=device).log().requires_grad_()
    optimizer = AdamW([{"params": [logs], "lr": LEARNING_RATE, "weight_decay": 0.0}])
    with torch.enable_grad():
        for _ in linear_decay(optimizer, LEARNING_RATE, STEPS, seconds):
            batch = torch.randint(len(queries), (BATCH_QUERIES,), generator=generator, device=device)
            others = torch.randperm(len(keys), generator=generator, device=device)[:BATCH_KEYS]
            weights = _block_weights(logs, block)
            similarity = (-distances(weights, queries[batch].float(), keys[others].float())).masked_fill(
                own[batch, None] == others, -torch.inf
            )
            loss = _metric_loss(similarity.softmax(1), targets[others], targets[own[batch]])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return _block_weights(logs.detach(), block)


def _block_weights(logs: Tensor, block: Tensor) -> Tensor:
    return logs.exp()[block.clamp(min=0)] * (block >= 0)


def _metric_loss(shares: Tensor, targets: Tensor, truth: Tensor) -> Tensor:
    if targets.is_floating_point():
        return (shares @ targets - truth).square().clamp(max=MAX_SQUARED_ERROR).mean()
    right = (shares * (targets == truth[:, None])).sum(1)
    return -(right + UNSEEN_LABEL_PROBABILITY).log().mean()


# ---------------------------------------------------------------- the expert


@dataclass(frozen=True)
class KnownEntities:
    """Known entities of all classes, shared by all properties."""

    features: Tensor  # (N, F) float16, NaN where unknown
    entities: Tensor  # (N,) their numbers
    held_out: Tensor  # (N,) whether each was held out in training

    def followed_by(self, others: KnownEntities) -> KnownEntities:
        """These and others."""
        both = ([getattr(known, part.name) for known in (self, others)] for part in fields(KnownEntities))
        return KnownEntities(*map(torch.cat, both))


class Neighbours(NamedTuple):
    """The nearest neighbours of m queries."""

    rows: Tensor  # (m, K) which of the M
    square: Tensor  # (m, K) float64 squared distances, ascending; infinite where there is none
    excluded: Tensor  # (m, M) whether a known entity must not be a neighbour


@dataclass(frozen=True)
class NearestNeighbours:
    """The nearest neighbours of one property: an expert."""

    known: KnownEntities
    rows: Tensor  # (M,) the known entities that have the property
    values: Tensor  # (M,) float64 numbers, or codes of labels
    weights: Tensor  # (F,) the metric
    mixture: Tensor  # (E,) float64 weights of the predictors
    count: int  # K

    @property
    def is_number(self) -> bool:
        """Whether the values are numbers, not labels."""
        return self.values.is_floating_point()

    def predict(self, inputs: Inputs) -> Prediction:
        """Numbers, or the neighbours' labels with their weights."""
        parts = [self._predict(chunk) for chunk in inputs.chunks(self.chunk)]
        if self.is_number:
            return torch.cat([numbers for numbers in parts if not isinstance(numbers, LabelMasses)])
        codes, mass = zip(*parts, strict=True)
        return LabelMasses(torch.cat(codes), torch.cat(mass))

    @property
    def chunk(self) -> int:
        """Queries that are answered at once."""
        return max(MAX_DISTANCES // max(len(self.rows), self.count * len(self.weights)), 1)

    def _predict(self, inputs: Inputs) -> Prediction:
        near = self.neighbours(inputs)
        if not self.is_number:
            return LabelMasses(self.values[near.rows], torch.einsum("e,mek->mk", self.mixture, softmax_weights(near)))
        numbers: Tensor = self.predictions(inputs, near, self.mixture > 0) @ self.mixture
        return numbers

    def neighbours(self, inputs: Inputs) -> Neighbours:
        """The nearest known entities: never the query itself, and for a held-out entity no held-out one."""
        columns = visible_columns(inputs)
        keys = self.known.features[self.rows][:, columns].float()
        square = distances(self.weights[columns], inputs.features[:, columns], keys).clamp(min=0)
        is_held_out = torch.isin(inputs.entities, self.known.entities[self.known.held_out])
        is_itself = inputs.entities[:, None] == self.known.entities[self.rows]
        excluded = is_itself | (is_held_out[:, None] & self.known.held_out[self.rows])
        nearest = square.masked_fill(excluded, torch.inf).topk(min(self.count, len(self.rows)), largest=False)
        return Neighbours(nearest.indices, nearest.values.double(), excluded)

    def predictions(self, inputs: Inputs, near: Neighbours, wanted: Tensor) -> Tensor:
        """(m, E) float64, the number by each predictor; finite but arbitrary where it is not wanted (E,).

        Without a neighbour all predict the mean.
        """
        numbers, mean = self.values[near.rows], self._means(near)[:, None]  # (m, K), (m, 1)
        nearest = near._replace(rows=near.rows[:, :KRIGING_NEIGHBOURS], square=near.square[:, :KRIGING_NEIGHBOURS])
        weights = [softmax_weights(near), self._kriging(inputs, nearest, wanted[len(STEEPNESSES) : -1])]
        predictions = [
            torch.einsum("mek,mk->me", of_predictors, (numbers - mean)[:, : of_predictors.shape[2]]) + mean
            for of_predictors in weights
        ]
        within_known = torch.cat(predictions, 1).clamp(self.values.min(), self.values.max())  # kriging extrapolates
        return torch.cat([within_known, mean], 1)

    def _means(self, near: Neighbours) -> Tensor:
        """(m,) of all known values that are not excluded; of all where every one is."""
        included = (~near.excluded).to(self.values.dtype)
        count = included.sum(1)
        return torch.where(count > 0, included @ self.values / count.clamp(min=1), self.values.mean())

    def _kriging(self, inputs: Inputs, near: Neighbours, wanted: Tensor) -> Tensor:
        scale_at = min(SCALE_NEIGHBOUR, near.rows.shape[1])
        scale = near.square[:, scale_at - 1 : scale_at].nan_to_num(posinf=1.0) + MIN_SCALE
        distinct, rows = near.rows.unique(return_inverse=True)
        columns = visible_columns(inputs)
        own, features = (
            points[:, columns].float() for points in (inputs.features, self.known.features[self.rows[distinct]])
        )
        weights = self.weights[columns].sqrt()
        at, keys = (points.nan_to_num() * weights for points in (own, features))
        exists, visible = near.square.isfinite(), ~own.isnan() & (weights > 0)
        return kriging.weights(at, keys, rows, exists, scale, wanted, visible)

    def with_more(self, known: KnownEntities, rows: Tensor, values: Tensor) -> NearestNeighbours:
        """With further values, of `known` entities that begin with its own."""
        return replace(self, known=known, rows=torch.cat([self.rows, rows]), values=torch.cat([self.values, values]))


def visible_columns(inputs: Inputs) -> Tensor:
    """The features that are visible in some query. No others count, such as those of other classes."""
    return (~inputs.features.isnan()).any(0).nonzero()[:, 0]


def softmax_weights(near: Neighbours) -> Tensor:
    """(m, S, K) float64, the weight of each neighbour at each steepness; their sum is 1, or 0 without neighbours."""
    exists = near.square.isfinite()
    beyond_nearest = (near.square - near.square[:, :1]).nan_to_num(nan=torch.inf, posinf=torch.inf)
    weights = torch.stack([(-beyond_nearest * steepness).softmax(1) for steepness in STEEPNESSES], 1)
    return weights.nan_to_num() * exists[:, None]


# ---------------------------------------------------------------- known values and queries


@dataclass(frozen=True)
class Values:
    """Known values of one slot."""

    rows: Tensor  # (M,) the known entity of each, ascending
    values: Tensor  # (M,) numbers, or labels
    targets: Tensor  # (M, 2) float32 for the metric: standardised numbers and their codes; or (M,) labels

    def __len__(self) -> int:
        return len(self.rows)


@dataclass
class Queries:
    """Known values of one property that were masked."""

    features: list[Tensor] = field(default_factory=list)  # (n, F) float16 features that were visible
    rows: list[Tensor] = field(default_factory=list)  # (n,) the known entity of each

    def __len__(self) -> int:
        return sum(map(len, self.rows))


def _known_entities(
    codec: Codec, features: HashedFeatures, tokens: Tokens, chosen: Tensor, *, held_out: bool
) -> tuple[KnownEntities, Mapping[int, Values]]:
    """The chosen entities, and their values by slot."""
    tables, numbers = [], []
    rows: dict[int, list[Tensor]] = defaultdict(list)
    codes: dict[int, list[Tensor]] = defaultdict(list)
    begin = 0
    for part in chunks(tokens, chosen):
        batch = tokens.batch(part)
        tables.append(features.table(batch, batch.known).half())
        numbers.append(batch.id_hash)
        for kind in batch.spans.keys() & set(KNN_KINDS):
            start, end = batch.spans[kind]
            known = known_labels(batch, kind, (batch.known & ~batch.fixed)[start:end])
            slots, counts = batch.slot[start + known].unique_consecutive(return_counts=True)
            for slot, of_slot in zip(slots.tolist(), known.split(counts.tolist()), strict=True):
                rows[slot].append(begin + batch.entity[start + of_slot])
                codes[slot].append(batch.values[kind][of_slot])
        begin += len(part)
    entities = torch.cat(numbers)
    known_entities = KnownEntities(torch.cat(tables), entities, torch.full_like(entities, held_out, dtype=torch.bool))
    return known_entities, {
        slot: _values(codec, slot, torch.cat(entity_rows), torch.cat(codes[slot])) for slot, entity_rows in rows.items()
    }


def _values(codec: Codec, slot: int, rows: Tensor, codes: Tensor) -> Values:
    if codec.slots[slot].kind != "number":
        return Values(rows, codes, codes)
    plain = decode_codes(codec, torch.full((len(codes),), slot, device=codes.device), codes)
    numbers = torch.tensor(list(map(float, plain)), dtype=torch.float64, device=codes.device)
    mean, deviation = codec.slots[slot].codec.moments
    return Values(rows, numbers, torch.stack([((numbers - mean) / deviation).float(), codes[:, 0]], 1))


def _queries(
    codec: Codec,
    features: HashedFeatures,
    tokens: Tokens,
    chosen: Tensor,
    usual_amount: Tensor,
    config: KNNConfig,
    generator: Generator,
    seconds: float | None,
) -> Mapping[SlotLevel, Queries]:
    """Values of some known entities, masked in all ways; as time permits."""
    drawn = torch.randperm(len(chosen), generator=generator, device=chosen.device)[: config.queries]
    queries: dict[SlotLevel, Queries] = defaultdict(Queries)
    begin, begun = 0, time.monotonic()
    for chunk in chunks(tokens, chosen[drawn]):
        batch = tokens.batch(chunk)
        for masked in _masked(batch, tokens, usual_amount, config.rounds, generator):
            part, of_part, entities = masked.narrowed(batch)
            table = features.table(part, of_part.visible).half()
            for (slot, level), entity in _by_place(part, of_part):
                of_place = queries[slot, level]
                if len(of_place) < config.queries:
                    of_place.features.append(features.hide(table[entity], codec, slot))
                    of_place.rows.append(drawn[begin + entities[entity]])
        begin += batch.size
        if seconds is not None and time.monotonic() - begun > seconds:
            break
    return queries


def _masked(batch: Batch, tokens: Tokens, usual_amount: Tensor, rounds: int, generator: Generator) -> Iterator[Masked]:
    """Values masked alone, then many at once."""
    yield from masked_alone(batch, tokens.layout, usual_amount, generator)
    for _, hidden, levels in questions_in_rounds(batch, tokens.layout, usual_amount, rounds, generator):
        yield Masked(hidden.asked, hidden.visible, levels[batch.entity])


def _by_place(batch: Batch, masked: Masked) -> Iterator[tuple[SlotLevel, Tensor]]:
    """The places of masked values, each with the entities (n,) that they are of."""
    for kind in batch.spans.keys() & set(KNN_KINDS):
        start, end = batch.spans[kind]
        tokens = start + known_labels(batch, kind, masked.tokens[start:end])
        for key, rows in by_slot_and_level(batch.slot[tokens], masked.levels[tokens]):
            yield key, batch.entity[tokens[rows]]


# ---------------------------------------------------------------- fitting


@torch.no_grad()
def fit(
    codec: Codec,
    sides: Sides,
    *,
    config: KNNConfig,
    seed: int,
    seconds: float | None = None,
    report: Report = ignored,
) -> Candidates:
    """The neighbours of every property, as far as there is time.

    With a weight they have the values that were reserved, too, and held-out entities.
    """
    tokens = sides.training
    begun, generator = time.monotonic(), Generator(tokens.slot.device).manual_seed(seed)
    chosen = draw_entities(tokens, config.values, generator)
    # In random order: of entities at the same distance none is preferred.
    chosen = chosen[torch.randperm(len(chosen), generator=generator, device=chosen.device)]
    features = HashedFeatures.of(codec, most_frequent_slots(codec, config.properties)).to(tokens.slot.device)
    usual_amount, experts = usual_amounts(tokens), {}
    if len(chosen):
        known, values = _known_entities(codec, features, tokens, chosen, held_out=False)
        masking_seconds = None if seconds is None else MASKING_SHARE * seconds
        queries = _queries(codec, features, tokens, chosen, usual_amount, config, generator, masking_seconds)
        order = _order(codec, queries, values)
        for done, (slot, level) in enumerate(order):
            left = None if seconds is None else _left(seconds, begun) / (len(order) - done)
            if left is None or left > 0:
                block = features.block(codec, slot).to(known.entities.device)
                neighbours = _fit_property(
                    known, values[slot], queries[slot, level], block, config.neighbours, generator, left
                )
                if neighbours is not None:
                    experts[slot, level] = WeightedExpert.unweighted(neighbours)
            report(done + 1, len(order))

    def refitted(group: ExpertGroup, seconds: float | None = None, report: Report = ignored) -> ExpertGroup:
        every = known
        if sides.complete is not None:
            every, complete = _known_entities(codec, features, sides.complete, chosen, held_out=False)
            group = _with_values(group, every, complete)
        others = draw_entities(sides.held_out, config.values, generator).sort().values
        return _with_held_out(group, every, codec, features, sides.held_out, others)

    return Candidates(ExpertGroup(features, usual_amount, experts), refitted)


def _order(codec: Codec, queries: Mapping[SlotLevel, Queries], values: Mapping[int, Values]) -> list[SlotLevel]:
    """The places with enough values and queries, those with the usual amount visible first."""
    of_one_value = {number for number, slot in enumerate(codec.slots) if not getattr(slot.codec, "many", False)}
    places = (
        key
        for key, of_key in queries.items()
        if key[0] in of_one_value and len(of_key) >= MIN_KNN_VALUES and len(values.get(key[0], ())) >= MIN_KNN_VALUES
    )
    return sorted(places, key=lambda key: (key[1] != USUALLY_VISIBLE, key))


def _left(seconds: float, begun: float) -> float:
    return seconds - (time.monotonic() - begun)


def _fit_property(
    known: KnownEntities,
    values: Values,
    queries: Queries,
    block: Tensor,
    count: int,
    generator: Generator,
    seconds: float | None,
) -> NearestNeighbours | None:
    """The neighbours of one property; None where all values are the same, or no query has a feature."""
    features, rows = torch.cat(queries.features), torch.cat(queries.rows)
    if len(values.values.unique()) < 2 or bool(features.isnan().all()):
        return None
    key_rows, begun = torch.searchsorted(values.rows, rows), time.monotonic()
    metric_seconds = None if seconds is None else METRIC_SHARE * seconds
    keys = known.features[values.rows]
    weights = fit_metric(block, features, key_rows, keys, values.targets, generator, metric_seconds)
    no_mixture = weights.new_zeros(0, dtype=torch.float64)
    neighbours = NearestNeighbours(known, values.rows, values.values, weights, no_mixture, count)
    drawn = torch.randperm(len(rows), generator=generator, device=rows.device)[:MIXTURE_QUERIES]
    inputs = Inputs(features[drawn].float(), known.entities[rows[drawn]])
    left = None if seconds is None else _left(seconds, begun)
    return replace(neighbours, mixture=_fit_mixture(neighbours, inputs, values.values[key_rows[drawn]], left))


def _fit_mixture(neighbours: NearestNeighbours, inputs: Inputs, truth: Tensor, seconds: float | None) -> Tensor:
    """(E,) the weights of the predictors, by as many queries as there is time for."""
    results: list[Tensor] = []
    begun = time.monotonic()
    size = min(neighbours.chunk, MIXTURE_BATCH)
    for batch, right in zip(inputs.chunks(size), truth.split(size), strict=True):
        if results and seconds is not None and time.monotonic() - begun > seconds:
            break
        near = neighbours.neighbours(batch)
        if neighbours.is_number:
            every = torch.ones(NUMBER_PREDICTORS, dtype=torch.bool, device=right.device)
            results.append(neighbours.predictions(batch, near, every) - right[:, None])
        else:
            is_right = neighbours.values[near.rows] == right[:, None]
            results.append((softmax_weights(near) * is_right[:, None]).sum(2))
    every_result = torch.cat(results)  # errors of numbers, or probabilities of the right labels
    if neighbours.is_number:
        return least_squares_weights(squares(limited(every_result)))
    return mixture_weights(
        every_result, torch.full((len(STEEPNESSES),), MIXTURE_PRIOR, dtype=torch.float64, device=every_result.device)
    )


def _with_values(group: ExpertGroup, known: KnownEntities, values: Mapping[int, Values]) -> ExpertGroup:
    """The same neighbours with other values."""
    experts = {}
    for key, weighted in group.experts.items():
        neighbours, own = weighted.expert, values[key[0]]
        assert isinstance(neighbours, NearestNeighbours)
        experts[key] = replace(weighted, expert=replace(neighbours, known=known, rows=own.rows, values=own.values))
    return replace(group, experts=experts)


def _with_held_out(
    group: ExpertGroup, known: KnownEntities, codec: Codec, features: HashedFeatures, held_out: Tokens, others: Tensor
) -> ExpertGroup:
    """The same neighbours, and some held-out entities."""
    more, values = _known_entities(codec, features, held_out, others, held_out=True)
    every, experts = known.followed_by(more), {}
    for (slot, level), weighted in group.experts.items():
        neighbours = weighted.expert
        assert isinstance(neighbours, NearestNeighbours)
        more_values = values.get(slot)
        rows, new = (
            (neighbours.rows[:0], neighbours.values[:0])
            if more_values is None
            else (len(known.entities) + more_values.rows, more_values.values)
        )
        experts[slot, level] = replace(weighted, expert=neighbours.with_more(every, rows, new))
    return replace(group, experts=experts)
