"""k nearest neighbours in the network's latent space.

Asked for a property, the network makes a vector of the visible values. Entities with nearly the same vector have nearly the
same value, often the very same. So a belief gives some of its mass to the values of the nearest neighbours, and an answer
in numbers is a weighted mean of the network's answers, of means of the neighbours, and of kriging among them. The weights
of each property are fitted to held-out values.

Each known value is masked alone, and each composite as a whole; rounds then mask many values at once. The vectors that the
network makes are the keys of an index, one for each property where as much is visible as is usual and another where less
is. No entity is its own neighbour, and no held-out entity is a neighbour of another.

q asked tokens of one kind   m of one slot and level   M values of an index   K neighbours   D width of the vectors
R reaches   P kernels of a belief   G settings of kriging   W widths   n held-out values   s their steps   E predictors
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from kbdisk.data.dataset import Batch, Tokens
from kbdisk.experts import kriging
from kbdisk.experts.base import Report, SlotLevel, by_slot_and_level, visibility_levels
from kbdisk.experts.config import LatentKNNConfig
from kbdisk.experts.queries import MAX_HELD_OUT_VALUES, Question, chunks, draw_entities, questions_about, usual_amounts
from kbdisk.experts.weights import each_mixture, each_squares, relative_likelihoods
from kbdisk.leaves.belief import SupportsInterpolation
from kbdisk.leaves.number.belief import AROUND_WIDTHS, NumberBelief
from kbdisk.leaves.text.decoder import TextBelief
from kbdisk.leaves.tokenizer import PAD
from kbdisk.model.beliefs import Asked, Beliefs, Memo
from kbdisk.model.masking import shuffled
from kbdisk.model.network import DiSK

LATENT_KINDS = ("number", "category", "link", "text")  # whose beliefs can take mass from neighbours
SCALE_NEIGHBOUR = 8  # reaches are in parts of the squared distance to this neighbour
REACHES = (0.1, 0.4, 1.6, 6.4)  # how far the weights of neighbours reach
OWN_ANSWERS = 2  # of a belief in a number
NUMBER_PREDICTORS = OWN_ANSWERS + len(REACHES) + len(kriging.SETTINGS)
MAX_DISTANCES = 1 << 22  # computed at once
MIN_DEVIATION = 1e-3  # of a component of the vectors
MIN_SCALE = 1e-6  # of a squared distance, in each dimension
MIN_OWN_WEIGHT = 1e-12  # of the belief's own answers, which are all there is without neighbours

MIN_LATENT_VALUES = 50  # held-out values of all properties of a kind, below which nothing is fitted
MIN_WEIGHT = 0.02  # of all neighbours, below which a property has no index
MIN_PROBABILITY = 1e-30  # whose logarithm is taken
HELD_OUT_PART, MIN_HELD_OUT_VALUES = (
    8,
    2000,
)  # a small index is judged by an eighth as many values, but by 2,000 at least

PASSES_PER_VALUE = 2.0  # alone, and with others
FIT_PER_KRIGING, FIT_PER_PROPERTY = (
    8.0,
    0.1,
)  # seconds of fitting weights: in parts of kriging's for a value; of a property
TIMED_ROWS = 64  # of kriging


# ---------------------------------------------------------------- the index of one property


class LatentValues(NamedTuple):
    """Masked values of one slot and level, with the vectors that the network made of what was visible."""

    vectors: Tensor  # (n, D)
    codes: Tensor  # (n, ...)
    entities: Tensor  # (n,)

    @classmethod
    def concatenated(cls, parts: Sequence[LatentValues]) -> LatentValues:
        """All values of some parts."""
        vectors, codes, entities = zip(*parts, strict=True)
        return cls(torch.cat(vectors), concatenated_codes(codes), torch.cat(entities))

    def shuffled(self, generator: Generator) -> LatentValues:
        """In random order: of neighbours at the same distance none is preferred."""
        order = torch.randperm(len(self.entities), generator=generator, device=self.entities.device)
        return LatentValues(*(part[order] for part in self))


class Neighbours(NamedTuple):
    """The nearest neighbours of m queries."""

    codes: Tensor  # (m, K, ...)
    weights: Tensor  # (m, R, K) float64 within each reach; their sum is 1, or 0 without neighbours
    at: Tensor  # (m, D) the standardised vectors of the queries
    rows: Tensor  # (m, K) which values of the index they are
    exists: Tensor  # (m, K)
    scale: Tensor  # (m, 1) float64, the squared distance to a near one


@dataclass(frozen=True)
class LatentIndex:
    """Known values of one slot and level by their vectors, and the weights of predictions from them."""

    keys: Tensor  # (M, D) float16 standardised vectors
    mean: Tensor  # (D,)
    deviation: Tensor  # (D,)
    codes: Tensor  # (M, ...)
    entities: Tensor  # (M,)
    held_out: Tensor  # (M,) whether the entity was held out in training
    mass: Tensor  # (R, P) float64, of a belief: for neighbours within a reach, by a kernel
    answer_weights: Tensor  # (OWN_ANSWERS + R + G,) float64: of the belief's own answers, means within a reach, kriging
    around: Tensor  # (W,) float64, masses of a belief in a number for the surroundings of its answer

    @classmethod
    def build(cls, values: LatentValues) -> LatentIndex:
        """An index of training values, without weights yet."""
        vectors = values.vectors.float()
        mean, deviation = vectors.mean(0), vectors.std(0, correction=0).clamp(min=MIN_DEVIATION)
        mass = vectors.new_zeros(len(REACHES), 0, dtype=torch.float64)
        answer_weights = vectors.new_zeros(NUMBER_PREDICTORS, dtype=torch.float64)
        answer_weights[:OWN_ANSWERS] = 1 / OWN_ANSWERS
        codes, entities = values.codes[:0], values.entities[:0]
        around = answer_weights.new_zeros(len(AROUND_WIDTHS))
        empty = cls(vectors[:0].half(), mean, deviation, codes, entities, entities > 0, mass, answer_weights, around)
        return empty.with_values(values, held_out=False)

    def __len__(self) -> int:
        return len(self.keys)

    def with_values(self, values: LatentValues, *, held_out: bool) -> LatentIndex:
        """The same index with more values."""
        keys = ((values.vectors.float() - self.mean) / self.deviation).half()
        return replace(
            self,
            keys=torch.cat([self.keys, keys]),
            codes=concatenated_codes([self.codes, values.codes]),
            entities=torch.cat([self.entities, values.entities]),
            held_out=torch.cat([self.held_out, torch.full_like(values.entities, held_out, dtype=torch.bool)]),
        )

    def neighbours(self, vectors: Tensor, entities: Tensor, held_out: Tensor, count: int) -> Neighbours:
        """The neighbours of queries with vectors (m, D), without values of the same entity (m,), and without held-out values for a
        held-out entity (m,)."""
        at = (vectors.float() - self.mean) / self.deviation
        keys = self.keys.float()
        lengths = keys.square().sum(1)
        chunks = [part.split(max(MAX_DISTANCES // len(self), 1)) for part in (at, entities, held_out)]
        nearest = []
        for some, numbers, are_held_out in zip(*chunks, strict=True):
            square = torch.addmm(lengths, some, keys.T, alpha=-2) + some.square().sum(1, keepdim=True)
            excluded = (numbers[:, None] == self.entities) | (are_held_out[:, None] & self.held_out)
            square = square.clamp(min=0).masked_fill(excluded, torch.inf)
            nearest.append(square.topk(min(count, len(keys)), largest=False))
        square, rows = (torch.cat(parts).double() for parts in zip(*nearest, strict=True))
        rows, scale = rows.long(), _scale(square) + MIN_SCALE * at.shape[1]
        return Neighbours(self.codes[rows], _reach_weights(square, scale), at, rows, square.isfinite(), scale)

    def belief_mass(self, near: Neighbours) -> Tensor:
        """(m, P, K) the mass of a belief for each neighbour."""
        return torch.einsum("rp,mrk->mpk", self.mass, near.weights)

    def number_weights(self, near: Neighbours, *, every: bool = True) -> Tensor:
        """(m, R + G, K) the weight of each neighbour's number within each reach, and in each setting of kriging.

        Unless `every` is wanted, settings of kriging that have no weight in the answer are 0.
        """
        wanted = self.answer_weights[-len(kriging.SETTINGS) :] > 0
        if every:
            wanted = torch.ones_like(wanted)
        by_kriging = kriging.weights(near.at, self.keys, near.rows, near.exists, near.scale, wanted)
        return torch.cat([near.weights, by_kriging], 1)

    def predictions(self, near: Neighbours, numbers: Tensor) -> Tensor:
        """(m, R + G) from the numbers of neighbours (m, K), within each reach and by each setting of kriging."""
        return torch.einsum("mrk,mk->mr", self.number_weights(near), numbers)

    def weights_of_answers(self, near: Neighbours) -> Tensor:
        """(m, OWN_ANSWERS + K) the weights of the belief's own answers and of the number of each neighbour."""
        own = self.answer_weights[:OWN_ANSWERS].clamp(min=MIN_OWN_WEIGHT).expand(len(near.rows), OWN_ANSWERS)
        by_predictor = self.number_weights(near, every=False)
        of_neighbours = torch.einsum("r,mrk->mk", self.answer_weights[OWN_ANSWERS:], by_predictor)
        weights = torch.cat([own, of_neighbours], 1)
        return weights / weights.sum(1, keepdim=True)

    def masses_around(self, near: Neighbours) -> Tensor:
        """(m, W) the masses around an answer, where there is a neighbour at all."""
        return self.around * near.exists.any(1, keepdim=True)


def concatenated_codes(parts: Sequence[Tensor]) -> Tensor:
    """Codes (n, ...) as one tensor, texts padded to the longest."""
    shape = max(codes.shape[1:] for codes in parts)
    return torch.cat([padded_codes(codes, shape) for codes in parts])


def padded_codes(codes: Tensor, shape: Sequence[int]) -> Tensor:
    """Codes, each of this shape: texts are padded, others have it already."""
    return F.pad(codes, (0, shape[0] - codes.shape[-1]), value=PAD) if shape else codes


def _reach_weights(square: Tensor, scale: Tensor) -> Tensor:
    """(m, K) squared distances, ascending, infinite where there is no neighbour, and a scale (m, 1) -> (m, R, K)"""
    exists = square.isfinite()
    beyond_nearest = ((square - square[:, :1]) / scale).nan_to_num(nan=0.0, posinf=torch.inf)  # (m, K)
    weights = torch.stack([(-beyond_nearest / reach).softmax(1) for reach in REACHES], 1)
    return weights * exists[:, None]


def _scale(square: Tensor) -> Tensor:
    """(m, 1) the squared distance to a near neighbour, of squared distances (m, K); 0 where there is none."""
    last = square.isfinite().sum(1, keepdim=True).clamp(1, SCALE_NEIGHBOUR) - 1
    return square.gather(1, last).nan_to_num(posinf=0)


# ---------------------------------------------------------------- the model


@dataclass(frozen=True)
class LatentKNN:
    """The indices of all properties that have one."""

    indices: Mapping[SlotLevel, LatentIndex]
    usual_amount: Tensor  # (C,) the amount that is usually visible of an entity of each class
    held_out: Tensor  # ascending, the numbers of the entities that were held out in training
    neighbours: int

    def __len__(self) -> int:
        return sum(map(len, self.indices.values()))

    @property
    def _has_numbers(self) -> bool:
        """Whether a number has an index."""
        return any(index.codes.is_floating_point() for index in self.indices.values())

    def combine(self, beliefs: Beliefs, batch: Batch, visible: Tensor) -> Beliefs:
        """Beliefs of the network, given the visible tokens (T,), combined with the neighbours' values."""
        levels = visibility_levels(batch, visible, self.usual_amount)
        kinds = {kind: self._combine(batch, kind, asked, levels) for kind, asked in beliefs.kinds.items()}
        return replace(beliefs, kinds=kinds)

    def _combine(self, batch: Batch, kind: str, asked: Asked, levels: Tensor) -> Asked:
        entity, slots = batch.entity[asked.tokens], batch.slot[asked.tokens]
        indexed = [
            (rows, self.indices[key]) for key, rows in by_slot_and_level(slots, levels[entity]) if key in self.indices
        ]
        if not isinstance(asked.belief, SupportsInterpolation):
            return asked
        if not indexed:
            if not isinstance(asked.belief, NumberBelief) or not self._has_numbers:
                return asked
            # as where another number that is asked has an index: no answer depends on what else is asked
            return replace(asked, belief=asked.belief.with_answer(asked.belief.expected()))
        entities = batch.id_hash[entity]
        held_out = torch.isin(entities, self.held_out)
        n, K, kernels = len(slots), self.neighbours, asked.belief.kernels
        are_numbers = isinstance(asked.belief, NumberBelief)
        shape = max(index.codes.shape[1:] for _, index in indexed)
        codes = batch.values[kind].new_zeros(n, K, *shape)
        mass = torch.zeros(n, kernels, K, dtype=torch.float64, device=slots.device)
        answer_weights, around = mass.new_zeros(n, OWN_ANSWERS + K), mass.new_zeros(n, len(AROUND_WIDTHS))
        answer_weights[:, :OWN_ANSWERS] = 1 / OWN_ANSWERS  # without an index
        for rows, index in indexed:
            near = index.neighbours(asked.vectors[rows], entities[rows], held_out[rows], K)
            count = near.weights.shape[2]  # fewer where the index is small
            codes[rows, :count] = padded_codes(near.codes, shape)
            mass[rows, :, :count] = index.belief_mass(near)
            if are_numbers:
                answer_weights[rows, : OWN_ANSWERS + count] = index.weights_of_answers(near)
                around[rows] = index.masses_around(near)
        belief = asked.belief.interpolated(codes, mass, answer_weights)
        if not isinstance(belief, NumberBelief):
            return replace(asked, belief=belief)
        return replace(asked, belief=belief.with_mass_around(belief.expected(), around))


class WithLatentKNN:
    """A network with its latent nearest neighbours: a model."""

    def __init__(self, network: DiSK, latent_knn: LatentKNN) -> None:
        self.network, self.latent_knn = network, latent_knn

    def __call__(self, batch: Batch, visible: Tensor, asked: Tensor, memo: Memo | None = None) -> Beliefs:
        """Beliefs about the asked tokens (T,), given the visible ones (T,) alone."""
        return self.latent_knn.combine(self.network(batch, visible, asked, memo), batch, visible)


# ---------------------------------------------------------------- fitting


@torch.no_grad()
def fit(
    network: DiSK,
    tokens: Tokens,
    held_out: Tokens,
    config: LatentKNNConfig,
    seed: int,
    report: Report | None = None,
) -> LatentKNN | None:
    """The indices that have a weight beside the network, by the held-out values; None if none has.

    Held-out values are added to them once the weights are fitted.
    """
    if not config.neighbours or not config.values or not len(held_out):
        return None
    network.eval()
    generator = Generator(tokens.slot.device).manual_seed(seed)
    usual_amount, most = usual_amounts(tokens), config.values
    training_entities = draw_entities(tokens, most, generator)
    held_out_entities = draw_entities(held_out, _held_out_values(most), generator)
    done, total = 0, len(training_entities) + len(held_out_entities)

    def report_entities(count: int) -> None:
        nonlocal done
        done += count
        if report is not None:
            report(done, total)

    collected: dict[SlotLevel, list[LatentValues]] = defaultdict(list)
    for question in questions_about(tokens, training_entities, usual_amount, config.rounds, generator, report_entities):
        for key, values in _latent_values(network, question):
            collected[key].append(values)
    indices = {
        key: LatentIndex.build(LatentValues.concatenated(parts).shuffled(generator)) for key, parts in collected.items()
    }
    collected.clear()
    predictions: dict[tuple[str, int], dict[SlotLevel, HeldOutBeliefs]] = defaultdict(
        lambda: defaultdict(HeldOutBeliefs)
    )
    for question in questions_about(
        held_out, held_out_entities, usual_amount, config.rounds, generator, report_entities
    ):
        for kind, key, values, belief in _held_out_beliefs(network, question):
            predictions[kind, key[1]][key].append(values, belief)
    weighted: dict[SlotLevel, LatentIndex] = {}
    for of_kind in predictions.values():
        weighted |= with_weights(indices, of_kind, config)
    return LatentKNN(weighted, usual_amount, held_out.id_hash.sort().values, config.neighbours) if weighted else None


def _held_out_values(most: int) -> int:
    """The number of held-out values by which an index of `most` values is weighed: each takes longer than a value of the index."""
    return min(most, MAX_HELD_OUT_VALUES, max(most // HELD_OUT_PART, MIN_HELD_OUT_VALUES))


def _latent_values(network: DiSK, question: Question) -> Iterator[tuple[SlotLevel, LatentValues]]:
    """Masked values with the vectors that the network makes of the rest."""
    batch, hidden, levels = question
    asked = hidden.asked.nonzero()[:, 0]
    vectors = network.encode_asked(batch, hidden.visible, hidden.asked)
    for kind in (kind for kind in LATENT_KINDS if kind in batch.spans):  # always in the same order
        start, end = batch.spans[kind]
        of_kind = ((asked >= start) & (asked < end)).nonzero()[:, 0]
        for key, values, _ in _by_property(batch, kind, asked[of_kind], vectors[of_kind], levels):
            yield key, values


def _held_out_beliefs(
    network: DiSK, question: Question
) -> Iterator[tuple[str, SlotLevel, LatentValues, SupportsInterpolation]]:
    """Masked values by kind, with their vectors and the network's beliefs."""
    batch, hidden, levels = question
    for kind, asked in network(batch, hidden.visible, hidden.asked).kinds.items():
        properties = _by_property(batch, kind, asked.tokens, asked.vectors, levels) if kind in LATENT_KINDS else ()
        for key, values, rows in properties:
            belief = asked.belief.pick(rows)
            if isinstance(belief, SupportsInterpolation):
                yield kind, key, values, belief


def _by_property(
    batch: Batch, kind: str, tokens: Tensor, vectors: Tensor, levels: Tensor
) -> Iterator[tuple[SlotLevel, LatentValues, Tensor]]:
    """Asked tokens of one kind grouped by slot and level, and their rows."""
    entity = batch.entity[tokens]
    codes, entities = batch.values[kind][tokens - batch.spans[kind][0]], batch.id_hash[entity]
    for key, rows in by_slot_and_level(batch.slot[tokens], levels[entity]):
        yield key, LatentValues(vectors[rows], codes[rows], entities[rows]), rows


# ---------------------------------------------------------------- the weights


@dataclass
class HeldOutBeliefs:
    """Held-out values of one slot and level, and the network's beliefs about them."""

    values: list[LatentValues] = field(default_factory=list)
    logs: list[Tensor] = field(default_factory=list)  # (s,) log p of each step of a value: a text has several
    step_entities: list[Tensor] = field(default_factory=list)  # (s,)
    answers: list[Tensor] = field(default_factory=list)  # (n, OWN_ANSWERS) of numbers
    belief: SupportsInterpolation | None = None  # about the first of them

    def append(self, values: LatentValues, belief: SupportsInterpolation) -> None:
        """Add values."""
        self.values.append(values)
        self.logs.append(belief.steps(values.codes))
        steps = (values.codes != PAD).sum(1) if isinstance(belief, TextBelief) else 1
        self.step_entities.append(values.entities.repeat_interleave(steps))
        if isinstance(belief, NumberBelief):
            self.answers.append(belief.answers())
        self.belief = self.belief or belief


@dataclass(frozen=True)
class HeldOutPredictions:
    """The predictions of the network and of the neighbours for the held-out values of one slot and level."""

    logs: Tensor  # (s, E) float64, log p of each step by the network, then by each reach and kernel
    errors: Tensor | None = None  # (n, OWN_ANSWERS + R + G) of numbers
    truth: Tensor | None = None  # (n,) the numbers
    belief: NumberBelief | None = None  # about one of them, for each

    def likelihoods_around(self, values: LatentValues, answer_weights: Tensor, mass: Tensor) -> Tensor:
        """(n, 1 + W) the likelihoods of numbers with these masses (E,), and around answers with these weights."""
        assert self.errors is not None
        assert self.truth is not None
        assert self.belief is not None
        near = self.belief.log_masses_around(self.truth + self.errors @ answer_weights, values.codes)
        mixture = (self.logs + mass.clamp(min=MIN_PROBABILITY).log()).logsumexp(1)
        return relative_likelihoods(torch.cat([mixture[:, None], near.double()], 1))


def with_weights(
    indices: Mapping[SlotLevel, LatentIndex], beliefs: Mapping[SlotLevel, HeldOutBeliefs], config: LatentKNNConfig
) -> dict[SlotLevel, LatentIndex]:
    """The indices of one kind that have a weight beside the network, with their held-out values."""
    values = {key: LatentValues.concatenated(of_key.values) for key, of_key in beliefs.items() if key in indices}
    predictions = {key: _predictions(indices[key], beliefs[key], config.neighbours) for key in values}
    if sum(len(of_key.logs) for of_key in predictions.values()) < MIN_LATENT_VALUES:
        return {}
    entities = {key: torch.cat(beliefs[key].step_entities) for key in values}
    likelihoods = {key: relative_likelihoods(of_key.logs) for key, of_key in predictions.items()}
    mass = each_mixture(likelihoods, config.prior, entities)
    errors = {key: of_key.errors for key, of_key in predictions.items() if of_key.errors is not None}
    answer_weights = each_squares(errors, config.prior, entities, OWN_ANSWERS)
    near = {
        key: predictions[key].likelihoods_around(values[key], of_key, mass[key])
        for key, of_key in answer_weights.items()
    }
    around = each_mixture(near, config.prior, entities)
    kept = {}
    for key, own_values in values.items():
        index = replace(
            indices[key],
            mass=mass[key][1:].view(len(REACHES), -1),
            answer_weights=answer_weights.get(key, indices[key].answer_weights),
            around=around[key][1:] if key in around else indices[key].around,
        )
        if max(index.mass.sum(), index.answer_weights[OWN_ANSWERS:].sum(), index.around.sum()) > MIN_WEIGHT:
            kept[key] = index.with_values(own_values, held_out=True)
    return kept


def _predictions(index: LatentIndex, beliefs: HeldOutBeliefs, count: int) -> HeldOutPredictions:
    values, network_logs, belief = LatentValues.concatenated(beliefs.values), torch.cat(beliefs.logs), beliefs.belief
    assert belief is not None
    not_held_out = torch.zeros_like(values.entities, dtype=torch.bool)  # none of them is in the index yet
    near = index.neighbours(values.vectors, values.entities, not_held_out, count)
    logs = [network_logs]
    for weights in near.weights.unbind(1):  # (n, K)
        for kernel in range(belief.kernels):
            mass = weights.new_zeros(len(weights), belief.kernels, weights.shape[1])
            mass[:, kernel] = weights
            logs.append(belief.steps_interpolated(values.codes, network_logs, near.codes, mass))
    every_log = torch.stack(logs, 1).double()
    if not isinstance(belief, NumberBelief):
        return HeldOutPredictions(every_log)
    belief = belief.pick(torch.zeros_like(values.entities))  # only the tables of its slot are used
    by_neighbours = index.predictions(near, belief.numbers(near.codes))
    truth = belief.numbers(values.codes[:, None])
    errors = torch.cat([torch.cat(beliefs.answers), by_neighbours], 1) - truth
    return HeldOutPredictions(every_log, errors, truth[:, 0], belief)


# ---------------------------------------------------------------- how long it takes


class Timing(NamedTuple):
    """Measured on this machine, about."""

    forward: float  # seconds of a pass of the network for each entity
    weights: float  # seconds of fitting weights for each held-out value


@torch.no_grad()
def measure(network: DiSK, tokens: Tokens, neighbours: int) -> Timing:
    """Times a pass of the network and kriging among so many neighbours; machines differ in both."""
    network.eval()
    batch = tokens.batch(next(chunks(tokens, torch.arange(len(tokens), device=tokens.slot.device))))
    free = batch.known & ~batch.fixed
    asked = free & (shuffled(batch, free)[0] == 0)
    begun = time.monotonic()
    vectors = network.encode_asked(batch, batch.known & ~asked, asked)
    forward = (time.monotonic() - begun) / batch.size
    kriging_seconds = _kriging_seconds(vectors.shape[1], neighbours, vectors.device) if neighbours else 0.0
    return Timing(forward, FIT_PER_KRIGING * kriging_seconds)


def _kriging_seconds(width: int, neighbours: int, device: torch.device) -> float:
    """The seconds of kriging among so many neighbours, for each query."""
    keys = torch.rand(neighbours, width, generator=Generator(device).manual_seed(0), device=device)
    rows = torch.arange(neighbours, device=device).expand(TIMED_ROWS, neighbours)
    exist = torch.ones_like(rows, dtype=torch.bool)
    wanted = torch.ones(len(kriging.SETTINGS), dtype=torch.bool, device=device)
    begun = time.monotonic()
    at, scale = keys[:1].expand(TIMED_ROWS, width), exist[:, :1].double()
    kriging.weights(at, keys, rows, exist, scale, wanted).sum().item()
    return (time.monotonic() - begun) / TIMED_ROWS


def seconds(timing: Timing, tokens: Tokens, held_out: Tokens, most: int) -> float:
    """The time of fitting indices of so many values, about."""
    in_index, judging = min(most, len(tokens.slot)), min(_held_out_values(most), len(held_out.slot))
    passes = PASSES_PER_VALUE * timing.forward * (in_index + judging)
    return passes + timing.weights * judging + FIT_PER_PROPERTY * len(tokens.layout.fixed)
