"""Gaussian processes: one for each property, a number or a category, given the visible features of an entity.

The kernel is the sum of a linear and a squared-exponential one. Each block of features has a relevance in either; they,
the variance and the noise maximise the marginal likelihood of known values. A process of a number predicts the number or
its code, whichever has the lower leave-one-out error. A process of a category has one output for each label, and a
softmax of them whose temperature maximises the leave-one-out likelihood.

Each known value is masked alone, with as much of its entity visible as is usual. Hidden features count as their mean;
where less is visible, the process has a weight of its own beside the model.

n known values of one property   N known entities   m queries   F features   G blocks of features   P knots
t outputs of a process: 1, or one for each label
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from kbdisk.data import Codec
from kbdisk.data.dataset import Batch, Tokens
from kbdisk.experts.base import (
    LITTLE_VISIBLE,
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
from kbdisk.experts.config import GaussianProcessConfig
from kbdisk.experts.features import (
    NUMBER,
    NUMBER_COLUMNS,
    NUMBER_HASH,
    HashedFeatures,
    known_labels,
    most_frequent_slots,
)
from kbdisk.experts.queries import Masked, chunks, draw_entities, masked_alone, usual_amounts
from kbdisk.experts.weights import limited
from kbdisk.model.estimates import decode_codes
from kbdisk.model.optimizers import AdamW, linear_decay

STEPS, LEARNING_RATE = 60, 0.15  # of Adam, for the kernel
BATCH_POINTS = 160  # of a step
PRIOR_DEVIATION = 2.0  # of the logarithm of a kernel parameter, around its initial value
INITIAL_NOISE = 0.1  # of the variance of the values
MIN_NOISE = 1e-6  # of the variance of the process: rounding leaves nothing to factor below it

PROCESS_KINDS = {NUMBER, "category"}
MIN_PROCESS_VALUES = 20  # known values of a property, below which it has no process
MAX_REPEATS = 2  # of an entity among the masked values: alone, and with the rest of a composite
MASKING_SHARE = 0.2  # of the time, at most: for masking known values
INVERSE_TEMPERATURES = torch.logspace(-1, 1.5, 26, dtype=torch.float64)
MIN_PROBABILITY = 1e-9  # whose logarithm is taken
MAX_COVARIANCES = 1 << 22  # computed at once
EXTRAPOLATION = 0.5  # of the range of known numbers: predictions are clamped to the range and this much on either side


# ---------------------------------------------------------------- regression


class Kernel(NamedTuple):
    """A covariance function; all in float64."""

    linear: Tensor  # (F,) relevance in the linear part
    rbf: Tensor  # (F,) relevance in the squared-exponential part: inverse length scales
    variance: Tensor  # () of the squared-exponential part
    noise: Tensor  # () of each value

    def between(self, x: Tensor, others: Tensor) -> Tensor:
        """The covariance of the process at points (m, F) and (n, F): (m, n)."""
        at, to = x * self.rbf, others * self.rbf
        square = (at * x).sum(1, keepdim=True) - 2 * at @ others.T + (to * others).sum(1)
        return self.variance * (-0.5 * square.clamp(min=0)).exp() + (x * self.linear) @ others.T


class Posterior(NamedTuple):
    """A process conditioned on known values."""

    coefficients: Tensor  # (n, t) the mean at x is kernel.between(x, points) @ coefficients
    inverse_diagonal: Tensor  # (n,) of the inverse covariance

    def leave_one_out(self, y: Tensor) -> Tensor:
        """(n, t) the mean at each point, conditioned on all other points, of known values (n, t)."""
        return y - self.coefficients / self.inverse_diagonal[:, None]


def condition(kernel: Kernel, x: Tensor, y: Tensor) -> Posterior:
    """Condition on values (n, t) of mean 0 at points (n, F)."""
    inverse = inverse_covariance(kernel, x)
    return Posterior(inverse @ y, inverse.diagonal().clone())


def inverse_covariance(kernel: Kernel, x: Tensor) -> Tensor:
    """(n, n) of known values at points (n, F), noise included."""
    return torch.cholesky_inverse(torch.linalg.cholesky(_covariance(kernel, x)))


def fit_kernel(block: Tensor, x: Tensor, y: Tensor, generator: Generator, seconds: float | None = None) -> Kernel:
    """The kernel of values (n, t) of mean 0 and variance 1 at points (n, F), by their marginal likelihood.

    `block` (F,) is the block of each feature; -1: it has no relevance. The learning rate falls to 0 over the steps, or over
    the time where that is shorter.
    """
    count = int(block.max()) + 1
    initial = torch.full((2 * count + 2,), -math.log(count), dtype=x.dtype, device=x.device)
    initial[-2:] = torch.tensor([0.5, INITIAL_NOISE], dtype=x.dtype).log()
    logs = initial.clone().requires_grad_()
    optimizer, last_finite = AdamW([{"params": [logs], "lr": LEARNING_RATE, "weight_decay": 0.0}]), initial
    with torch.enable_grad():
        for _ in linear_decay(optimizer, LEARNING_RATE, STEPS, seconds):
            batch = torch.randperm(len(x), generator=generator, device=x.device)[:BATCH_POINTS]
            penalty = ((logs - initial) / PRIOR_DEVIATION).square().sum() / 2
            loss = (_negative_log_likelihood(_kernel(logs, block), x[batch], y[batch]) + penalty) / len(batch)
            if not loss.isfinite():
                break
            last_finite = logs.detach().clone()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return _kernel(last_finite, block)


def _kernel(logs: Tensor, block: Tensor) -> Kernel:
    parameters = logs.exp()
    linear, rbf = (part[block.clamp(min=0)] * (block >= 0) for part in parameters[:-2].chunk(2))
    return Kernel(linear, rbf, parameters[-2], parameters[-1])


def _covariance(kernel: Kernel, x: Tensor) -> Tensor:
    return kernel.between(x, x) + noise_of(kernel, x) * torch.eye(len(x), dtype=x.dtype, device=x.device)


def noise_of(kernel: Kernel, x: Tensor) -> Tensor:
    """() the variance of the noise of values at points (n, F), at least a part of that of the process."""
    variance = kernel.variance + (x.square() * kernel.linear).sum(1)
    return kernel.noise + MIN_NOISE * variance.mean()


def _negative_log_likelihood(kernel: Kernel, x: Tensor, y: Tensor) -> Tensor:
    """The negative log-likelihood of the values, without the constant; NaN where the covariance has no Cholesky factor."""
    factor, failed = torch.linalg.cholesky_ex(_covariance(kernel, x))
    if failed:
        return torch.full_like(kernel.noise, math.nan)
    half = torch.linalg.solve_triangular(factor, y, upper=False)
    loss: Tensor = half.square().sum() / 2 + y.shape[1] * factor.diagonal().log().sum()
    return loss


def rising_knots(start: Sequence[float], end: Sequence[float]) -> Tensor:
    """(2, P) float64, without knots at which either side does not rise."""
    knots = torch.tensor([list(start), list(end)], dtype=torch.float64)
    rising = (knots.diff(dim=1) > 0).all(0)
    return torch.cat([knots[:, :1], knots[:, 1:][:, rising]], 1)


def interpolate(knots: Tensor, values: Tensor) -> Tensor:
    """Values on the lines between knots (2, P), extrapolated beyond them; without knots the values themselves."""
    if not knots.shape[1]:
        return values
    start, end = knots
    right = torch.searchsorted(start, values.contiguous()).clamp(1, len(start) - 1)
    part = (values - start[right - 1]) / (start[right] - start[right - 1])
    interpolated: Tensor = end[right - 1] + part * (end[right] - end[right - 1])
    return interpolated


# ---------------------------------------------------------------- the expert


@dataclass(frozen=True)
class Points:
    """Known entities of all classes, shared by all processes."""

    features: Tensor  # (N, F) float32, NaN where unknown
    entities: Tensor  # (N,) their numbers


@dataclass(frozen=True)
class GaussianProcess:
    """The process of one property: an expert."""

    points: Points
    rows: Tensor  # (n,) the points that have the property
    coefficients: Tensor  # (n, t) float64
    kernel: Kernel
    mean: Tensor  # (t,) float64
    scale: Tensor  # (t,) float64, of the outputs
    span: Tensor  # (2,) float64, the least and the greatest known number
    knots: Tensor  # (2, P) float64, numbers and their codes, ascending, where the output is a code; else none
    labels: Tensor  # (t,) the codes of labels; none of a number
    inverse_temperature: Tensor  # () float64, of the softmax
    inverse_diagonal: Tensor  # (n,) of the inverse covariance

    def predict(self, inputs: Inputs) -> Prediction:
        """Numbers, or the probabilities of labels."""
        size = max(MAX_COVARIANCES // max(len(self.rows), 1), 1)
        outputs = torch.cat([self._outputs(part) for part in inputs.chunks(size)])
        if len(self.labels):
            return LabelMasses(self.labels.expand(len(outputs), -1), (self.inverse_temperature * outputs).softmax(1))
        room = EXTRAPOLATION * (self.span[1] - self.span[0])
        return self.numbers(outputs)[:, 0].clamp(self.span[0] - room, self.span[1] + room)

    def numbers(self, outputs: Tensor) -> Tensor:
        """Outputs as numbers."""
        return interpolate(self.knots.flip(0), outputs)

    def _outputs(self, inputs: Inputs) -> Tensor:
        """(m, t); for an entity that is a point, conditioned on all other points."""
        x = inputs.features.nan_to_num().double()
        covariance = self.kernel.between(x, self._x)
        outputs = covariance @ self.coefficients
        query, row = (inputs.entities[:, None] == self.points.entities[self.rows]).nonzero().unbind(1)
        if len(query):
            outputs[query] -= self._own_weight(x[query], covariance[query], row)[:, None] * self.coefficients[row]
        return outputs * self.scale + self.mean

    def _own_weight(self, x: Tensor, covariance: Tensor, row: Tensor) -> Tensor:
        """(k,) how much more the outputs at x (k, F) have of the coefficients of these points (k,) than without these points.

        Where x is the point itself, as where the same values are visible, it follows from the diagonal of the inverse covariance.
        """
        relevant = (self.kernel.linear > 0) | (self.kernel.rbf > 0)
        if torch.equal(x[:, relevant], self._x[row][:, relevant]):
            return 1 / self.inverse_diagonal[row] - self._noise
        inverse = self._inverse[:, row]  # (n, k)
        weight: Tensor = (covariance * inverse.T).sum(1) / inverse[row, torch.arange(len(row), device=row.device)]
        return weight

    @cached_property
    def _noise(self) -> Tensor:
        """() the noise of each point, with the jitter that makes the covariance invertible."""
        return noise_of(self.kernel, self._x)

    @cached_property
    def _x(self) -> Tensor:
        """(n, F)"""
        return self.points.features[self.rows].nan_to_num().double()

    @cached_property
    def _inverse(self) -> Tensor:
        """(n, n)"""
        return inverse_covariance(self.kernel, self._x)


# ---------------------------------------------------------------- training examples


@dataclass
class KnownValues:
    """Known values of one property, each with the features that were visible while it was masked."""

    features: list[Tensor] = field(default_factory=list)  # (n, F)
    codes: list[Tensor] = field(default_factory=list)  # (n, ...)
    entities: list[Tensor] = field(default_factory=list)  # (n,)
    count: int = 0

    def append(self, features: Tensor, codes: Tensor, entities: Tensor) -> None:
        """Add values."""
        self.features.append(features)
        self.codes.append(codes)
        self.entities.append(entities)
        self.count += len(entities)

    def first_of_each_entity(self) -> tuple[Tensor, Tensor, Tensor]:
        """(n, F), (n, ...) and (n,): the value that was masked alone comes first."""
        features, codes, entities = (torch.cat(parts) for parts in (self.features, self.codes, self.entities))
        distinct, index = entities.unique(return_inverse=True)
        order = torch.arange(len(entities), device=entities.device)
        first = torch.full_like(distinct, len(entities)).scatter_reduce_(0, index, order, "amin").sort().values
        return features[first], codes[first], entities[first]


@dataclass(frozen=True)
class Examples:
    """Training examples of one process."""

    features: Tensor  # (n, F) NaN where hidden
    entities: Tensor  # (n,)
    y: Tensor  # (n, t) float64

    def first(self, count: int) -> Examples:
        """The first ones."""
        return Examples(*(getattr(self, part.name)[:count] for part in fields(Examples)))

    def followed_by(self, others: Examples, count: int) -> Examples:
        """These and others, cut to a count."""
        both = ([getattr(examples, part.name) for examples in (self, others)] for part in fields(Examples))
        return Examples(*map(torch.cat, both)).first(count)


def few_valued_slots(tokens: Tokens, config: GaussianProcessConfig) -> Tensor:
    """(S,) the slots of numbers and labels with enough values for a process, and not too many."""
    counts = tokens.slot[tokens.free].bincount(minlength=len(tokens.layout.fixed))
    is_kind = torch.zeros_like(tokens.layout.fixed)
    for kind in tokens.layout.spans.keys() & PROCESS_KINDS:
        start, end = tokens.layout.spans[kind]
        is_kind[start:end] = True
    return is_kind & (counts >= MIN_PROCESS_VALUES) & (counts <= config.max_values)


def applies(codec: Codec, training: Tokens, held_out: Tokens, config: GaussianProcessConfig) -> bool:
    """Whether some property has few enough values for a process."""
    return bool(few_valued_slots(training, config).any())


class ExampleMaker:
    """Makes training examples of tokens."""

    def __init__(self, codec: Codec, tokens: Tokens, config: GaussianProcessConfig, generator: Generator) -> None:
        self.codec, self.config, self.generator = codec, config, generator
        self.featurizer = HashedFeatures.of(codec, most_frequent_slots(codec, config.properties)).to(tokens.slot.device)
        self.usual_amount = usual_amounts(tokens)
        self.slots = few_valued_slots(tokens, config)

    def known_values(self, tokens: Tokens, seconds: float | None = None) -> Mapping[int, KnownValues]:
        """Numbers and labels by slot, each masked alone, where enough of its entity stays visible; as time permits."""
        few_valued = tokens.owners_of((self.slots[tokens.slot] & tokens.free).nonzero()[:, 0]).unique()
        chosen = draw_entities(tokens, self.config.values, self.generator, few_valued)
        chosen = chosen[torch.randperm(len(chosen), generator=self.generator, device=chosen.device)]
        values: dict[int, KnownValues] = defaultdict(KnownValues)
        begun = time.monotonic()
        for chunk in chunks(tokens, chosen):
            batch = tokens.batch(chunk)
            for masked in masked_alone(batch, tokens.layout, self.usual_amount, self.generator):
                self._append(values, batch, masked)
            if seconds is not None and time.monotonic() - begun > seconds:
                break
        return values

    def _append(self, values: dict[int, KnownValues], batch: Batch, masked: Masked) -> None:
        batch, masked, _ = masked.narrowed(batch)
        table = self.featurizer.table(batch, masked.visible)
        for kind in batch.spans.keys() & PROCESS_KINDS:
            start, end = batch.spans[kind]
            tokens = known_labels(batch, kind, masked.tokens[start:end])
            entity, codes = batch.entity[start + tokens], batch.values[kind][tokens]
            for (slot, level), rows in by_slot_and_level(batch.slot[start + tokens], masked.levels[start + tokens]):
                if (
                    level == USUALLY_VISIBLE
                    and self.slots[slot]
                    and values[slot].count < MAX_REPEATS * self.config.points
                ):
                    features = self.featurizer.hide(table[entity[rows]], self.codec, slot)
                    values[slot].append(features, codes[rows], batch.id_hash[entity[rows]])

    def labels(self, slot: int, known: KnownValues) -> Tensor:
        """(t,) the labels among the values; none of numbers."""
        codes = torch.cat(known.codes)
        return codes.unique() if self.codec.slots[slot].kind != NUMBER else codes.new_zeros(0, dtype=torch.long)

    def examples(self, slot: int, known: KnownValues, labels: Tensor) -> Examples:
        """One for each entity: its number, or one of the labels."""
        features, codes, entities = known.first_of_each_entity()
        if len(labels):
            is_label = torch.isin(codes, labels)
            y = F.one_hot(torch.searchsorted(labels, codes[is_label]), len(labels)).double()
            return Examples(features[is_label], entities[is_label], y)
        numbers = decode_codes(self.codec, torch.full((len(codes),), slot, device=codes.device), codes)
        y = torch.tensor(list(map(float, numbers)), dtype=torch.float64, device=codes.device)[:, None]
        return Examples(features, entities, y)

    def scaled(self, slot: int, numbers: Tensor) -> Tensor:
        """Numbers on the scale of their property, by which their errors are compared: logarithms where they are skewed."""
        floor = 0.0 if self.codec.slots[slot].kind != NUMBER else self.codec.slots[slot].codec.floor_of_logs
        return numbers.clamp(min=floor).log() if floor else numbers

    def knots(self, slot: int) -> list[Tensor]:
        """(2, P) numbers and their codes; none where the codes are linear in the numbers."""
        x, z, _ = self.codec.slots[slot].codec.map.knots
        knots = rising_knots(x, z)
        return [knots.to(self.usual_amount.device)] if knots.shape[1] > 2 else []

    def block(self, slot: int, examples: Examples) -> Tensor:
        """(F,) the block of each feature; -1 for features that are always hidden, and for the hashes of numbers."""
        group = self.codec.group_of(slot)
        block = self.featurizer.block(self.codec, slot)
        for number, other in enumerate(self.codec.slots):
            start = int(self.featurizer.start[number])
            if self.codec.group_of(number) == group and other.kind == NUMBER and start >= 0:
                hashes = start + sum(NUMBER_COLUMNS.blocks) - NUMBER_HASH
                block[hashes : hashes + NUMBER_HASH] = -1
        return torch.where((~examples.features.isnan()).any(0), block.to(examples.features.device), -1)


# ---------------------------------------------------------------- fitting


@torch.no_grad()
def fit(
    codec: Codec,
    sides: Sides,
    *,
    config: GaussianProcessConfig,
    seed: int,
    seconds: float | None = None,
    report: Report = ignored,
) -> Candidates:
    """The processes of all properties, as far as there is time.

    With a weight they have the values that were reserved, too, and those of held-out entities.
    """
    tokens = sides.training
    begun, generator = time.monotonic(), Generator(tokens.slot.device).manual_seed(seed)
    maker = ExampleMaker(codec, tokens, config, generator)
    masking_seconds = None if seconds is None else MASKING_SHARE * seconds
    known = {
        slot: values
        for slot, values in maker.known_values(tokens, masking_seconds).items()
        if values.count >= MIN_PROCESS_VALUES
    }
    seconds_of_masking = time.monotonic() - begun
    experts: dict[SlotLevel, WeightedExpert] = {}
    examples: dict[int, Examples] = {}
    for done, (slot, values) in enumerate(sorted(known.items())):
        left = None if seconds is None else (seconds - _since(begun)) / (len(known) - done)
        labels = maker.labels(slot, values)
        examples[slot] = maker.examples(slot, values, labels)
        process = _fit_process(maker, slot, examples[slot], labels, left)
        if process is not None:
            experts |= {
                (slot, level): WeightedExpert.unweighted(process) for level in (USUALLY_VISIBLE, LITTLE_VISIBLE)
            }
        report(done + 1, len(known))

    def refitted(group: ExpertGroup, seconds: float | None = None, report: Report = ignored) -> ExpertGroup:
        masking_was_cut = masking_seconds is not None and seconds_of_masking >= masking_seconds
        if seconds is not None and (masking_was_cut or seconds < seconds_of_masking):
            return _with_shared_points(group)
        end = math.inf if seconds is None else time.monotonic() + seconds
        known = {} if sides.complete is None else maker.known_values(sides.complete)
        every = {
            slot: (maker.examples(slot, known[slot], labels) if slot in known else examples[slot]).first(config.points)
            for slot, labels in _labels_of(group).items()
        }
        return _with_shared_points(_with_held_out(group, maker, every, sides.held_out, end) or group)

    return Candidates(ExpertGroup(maker.featurizer, maker.usual_amount, experts), refitted)


def _since(begun: float) -> float:
    return time.monotonic() - begun


def _fit_process(
    maker: ExampleMaker, slot: int, examples: Examples, labels: Tensor, seconds: float | None
) -> GaussianProcess | None:
    """The process of a property; None where its values or features do not differ, or there is no time."""
    if (
        len(examples.y) < MIN_PROCESS_VALUES
        or len(labels) > maker.config.labels
        or (seconds is not None and seconds <= 0)
    ):
        return None
    examples = examples.first(maker.config.points)
    block = maker.block(slot, examples)
    scales = [examples.y.new_zeros(2, 0), *([] if len(labels) else maker.knots(slot))]  # of the number, of its code
    targets = [(knots, interpolate(knots, examples.y)) for knots in scales]
    targets = [(knots, y) for knots, y in targets if 0 < y.std() < torch.inf]
    if not targets or bool((block < 0).all()):
        return None
    every = torch.cat([y for _, y in targets], 1)
    mean = every.mean(0)
    scale = torch.where(every.std(0) > 0, every.std(0), 1)  # no example may have a label
    x = examples.features.nan_to_num().double()
    kernel = fit_kernel(block, x, (every - mean) / scale, maker.generator, seconds)
    span = torch.stack([examples.y.min(), examples.y.max()])
    empty = Points(examples.features[:0], examples.entities[:0]), torch.arange(0, device=block.device), every[:0]
    processes, errors = [], []
    for (knots, _), own_mean, own_scale in zip(
        targets, mean.chunk(len(targets)), scale.chunk(len(targets)), strict=True
    ):
        unconditioned = GaussianProcess(
            *empty, kernel, own_mean, own_scale, span, knots, labels, torch.ones_like(span[0]), mean[:0]
        )
        process, leave_one_out = _conditioned(unconditioned, examples)
        processes.append(process)
        error = maker.scaled(slot, process.numbers(leave_one_out)) - maker.scaled(slot, examples.y)
        errors.append(error.flatten())
    return processes[int(limited(torch.stack(errors, 1)).square().sum(0).argmin())]


def _conditioned(process: GaussianProcess, examples: Examples) -> tuple[GaussianProcess, Tensor]:
    """The process conditioned on these examples alone, and its leave-one-out outputs (n, t)."""
    standard = (interpolate(process.knots, examples.y) - process.mean) / process.scale
    posterior = condition(process.kernel, examples.features.nan_to_num().double(), standard)
    outputs = posterior.leave_one_out(standard) * process.scale + process.mean
    rows = torch.arange(len(examples.entities), device=examples.entities.device)
    points = Points(examples.features, examples.entities)
    conditioned = replace(
        process,
        points=points,
        rows=rows,
        coefficients=posterior.coefficients,
        inverse_diagonal=posterior.inverse_diagonal,
    )
    if len(process.labels):
        conditioned = replace(conditioned, inverse_temperature=_best_inverse_temperature(outputs, examples.y))
    return conditioned, outputs


def _best_inverse_temperature(outputs: Tensor, truth: Tensor) -> Tensor:
    """() by the likelihood of one-hot labels (n, t) under leave-one-out outputs (n, t)."""
    candidates = INVERSE_TEMPERATURES.to(outputs.device)
    probabilities = (candidates[:, None, None] * outputs).softmax(2)  # (candidates, n, t)
    likelihood = ((probabilities * truth).sum(2) + MIN_PROBABILITY).log().sum(1)
    return candidates[likelihood.argmax()]


def _labels_of(group: ExpertGroup) -> dict[int, Tensor]:
    """By slot the labels (t,) of its process."""
    found = {}
    for (slot, _), weighted in group.experts.items():
        assert isinstance(weighted.expert, GaussianProcess)
        found[slot] = weighted.expert.labels
    return found


def _with_held_out(
    group: ExpertGroup, maker: ExampleMaker, examples: Mapping[int, Examples], held_out: Tokens, end: float
) -> ExpertGroup | None:
    """Processes conditioned on the held-out values, too; None where that is not done by `end`, a time of time.monotonic.

    All or none: processes share their points, whose features differ before and after.
    """
    known, processes = maker.known_values(held_out), {}
    for (slot, _), weighted in group.experts.items():
        process = weighted.expert
        assert isinstance(process, GaussianProcess)
        if time.monotonic() >= end:
            return None
        if slot not in processes:
            every = examples[slot]
            if slot in known:
                more = maker.examples(slot, known[slot], process.labels)
                every = every.followed_by(more, maker.config.points)
            processes[slot] = _conditioned(process, every)[0]
    experts = {key: replace(weighted, expert=processes[key[0]]) for key, weighted in group.experts.items()}
    return replace(group, experts=experts)


def _with_shared_points(group: ExpertGroup) -> ExpertGroup:
    """The points of all processes in one table: each entity has one row, with all of its features."""
    every = [
        weighted_expert.expert.points
        for weighted_expert in group.experts.values()
        if isinstance(weighted_expert.expert, GaussianProcess)
    ]
    entities, index = torch.cat([points.entities for points in every]).unique(return_inverse=True)
    table = every[0].features.new_full((len(entities), every[0].features.shape[1]), torch.nan)
    rows_of_each = index.split([len(points.entities) for points in every])
    for rows, points in zip(rows_of_each, every, strict=True):
        table[rows] = torch.where(points.features.isnan(), table[rows], points.features)
    shared, experts = Points(table, entities), {}
    for (key, weighted), rows in zip(group.experts.items(), rows_of_each, strict=True):
        assert isinstance(weighted.expert, GaussianProcess)
        experts[key] = replace(weighted, expert=replace(weighted.expert, points=shared, rows=rows))
    return replace(group, experts=experts)
