"""Multinomial logistic regression for each property of labels: fitted in a fraction of a second, however many labels.

Every training value is hidden alone once. A label's chance depends linearly on what else is visible: labels as flags,
numbers on their standard scale, and whether they are known. Evidence that came over a property's own link is left out: see
`OneHotExamples.columns_beside`. The members of a set count as one value together.

Weights are penalized by their squares. The labels of an entity, its numbers, and evidence over links have a penalty each, which
held-out entities select: evidence is much, and little of it tells anything.

The frequencies of labels beside a value of another property are evidence, too (`label_cooccurrence`), with a single weight for
each such property: they predict from values that are too rare for weights of their own.

n values of one slot   F columns   f of them that one property uses, p of these numbers   K labels   J columns of evidence
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from scipy import sparse
from torch import Tensor
from torch.nn import functional as F

from kbdisk.data import Codec
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
    ignored,
)
from kbdisk.experts.config import LabelRegressionConfig
from kbdisk.experts.examples import (
    FEWEST_OF_SLOT,
    FEWEST_VALUES,
    Examples,
    OneHotExamples,
    commonest_labels,
    folds_of,
    random_rows,
    values_within,
)
from kbdisk.experts.feature_screening import best_columns, varying
from kbdisk.experts.features import KEY_COLUMN, NUMBER, NUMBER_COLUMN, ONE_HOT_KINDS, OneHotFeatures
from kbdisk.experts.label_cooccurrence import Cooccurrence, Evidence, Rows, best_cooccurrences
from kbdisk.experts.weights import EPSILON
from kbdisk.model.optimizers import LBFGS
from kbdisk.parallel import parallel_map, usable_processes

EVIDENCE_SHARE = 0.7  # of the time, at most, in which all slots are fitted without inputs
MIN_SHARE_LEARNT = 0.5  # of a slot's values; with fewer, evidence alone predicts better than inputs

ENOUGH_LEARNT = 0.7  # of a slot's values, from which on it is fitted again after those that have learnt from fewer
MIN_SECONDS_FITTED = 0.3  # once the values are prepared
VALUES_PER_SECOND = 10_000  # examples of all slots together, for each second of regressions
VALUES_PER_SECOND_OF_SLOT = 20_000  # examples of a slot, for each second of its evidence
CELLS_PER_SECOND = 600_000  # values times labels, for each second of inputs, until the speed is measured
CELLS_OF_SLOT = 150_000  # added for each slot: selecting its inputs takes as long as these, however few values it has
MIN_REGRESSION_VALUES = 20  # known values of a slot, below which it has no regression
PENALTIES = (5.0, 1.0, 0.2)  # times half the squares of the weights, that are tried
LARGER = 30.0  # times the penalty of an entity's labels, that is tried for each other group of inputs
FOLDS = 5  # each of them selects the penalties, or the first one alone
MAX_CELLS_OF_FOLDS = 20_000  # values times labels, beyond which it is one
MAX_PENALTY_ROWS, MAX_SCREENED_ROWS = 1500, 2048  # values by which the penalty, and the inputs, are selected
EVIDENCE_PENALTY = 1.0  # nats for a weight of 1 of evidence
INITIAL_EVIDENCE = -1.0  # of which `softplus` is the weight
MAX_CELLS = 1 << 25  # values times columns, and evidence of labels, that a regression is fitted to
LABELS, NUMBERS, LINKED, GROUPS = 0, 1, 2, 3  # groups of inputs: of the entity itself, labels and numbers; over links
STEPS, FEW_STEPS, HISTORY = 30, 12, 10  # of L-BFGS; the few are to select the penalty
MAX_SPARSE_DENSITY = 0.1  # of the inputs that are not 0
ROWS_AT_ONCE = 2048  # that inputs are made of
MAX_DEVIATIONS = 3.0  # standard deviations, beyond which a number is no further off


@dataclass(frozen=True)
class InputMatrix:
    """The inputs of a regression (n, f). On a wide source nearly all of them are 0: then products leave these out."""

    rows: Any  # a tensor, or scipy's `csr_array`

    @classmethod
    def of(cls, blocks: Iterable[Tensor]) -> InputMatrix:
        """The matrix of some blocks of rows, of which at least one."""
        compressed = [block if _is_dense(block) else sparse.csr_array(block.numpy()) for block in blocks]
        if any(isinstance(block, Tensor) for block in compressed):
            dense = (block if isinstance(block, Tensor) else torch.from_numpy(block.toarray()) for block in compressed)
            return cls(torch.cat(list(dense)))
        return cls(sparse.vstack(compressed, format="csr"))

    @property
    def columns(self) -> int:
        """f"""
        return int(self.rows.shape[1])

    def only(self, rows: Tensor) -> InputMatrix:
        """Some rows, by their places (m,)."""
        return InputMatrix(self.rows[rows if isinstance(self.rows, Tensor) else rows.numpy()])

    def times(self, matrix: Tensor) -> Tensor:
        """(f, K) -> (n, K)"""
        return self._product(self.rows, matrix)

    def transposed_times(self, matrix: Tensor) -> Tensor:
        """(n, K) -> (f, K)"""
        return self._product(self.rows.T, matrix)

    @staticmethod
    def _product(left: Any, right: Tensor) -> Tensor:
        return left @ right if isinstance(left, Tensor) else torch.from_numpy(left @ right.contiguous().numpy())


def _is_dense(block: Tensor) -> bool:
    """Whether so much of a block is not 0 that a dense product is faster."""
    return not block.numel() or int(block.count_nonzero()) > MAX_SPARSE_DENSITY * block.numel()


@dataclass(frozen=True)
class Design:
    """The design of a regression: its inputs from columns."""

    columns: Tensor  # (f,) which of all
    mean: Tensor  # (f,) 0 of flags
    deviation: Tensor  # (f,) 1 of flags
    numbers: Tensor  # (p,) which of the columns are numbers

    @classmethod
    def none(cls) -> Design:
        """The design without inputs."""
        nothing = torch.zeros(0, dtype=torch.long)
        return cls(nothing, torch.zeros(0), torch.zeros(0), nothing)

    @classmethod
    def of(cls, numbers: Tensor, columns: Tensor, is_number: Tensor) -> Design:
        """The design for some columns (f,). `numbers` (n, p) are the values of the number columns, which `is_number` (f,) marks."""
        known = ~numbers.isnan()
        count = known.sum(0).clamp(min=1)
        values = numbers.nan_to_num(0.0).double()
        mean = values.sum(0) / count
        deviation = (((values - mean) * known).square().sum(0) / count).sqrt()
        means, deviations = torch.zeros(len(columns)), torch.ones(len(columns))
        means[is_number] = mean.float()
        deviations[is_number] = deviation.where(deviation > 0, torch.ones_like(deviation)).float()
        return cls(columns, means, deviations, is_number.nonzero()[:, 0])

    def __call__(self, features: Tensor) -> Tensor:
        """(n, f) -> (n, f + p): flags and standardized numbers, 0 where unknown; then whether each number is known."""
        scaled = ((features - self.mean) / self.deviation).clamp(-MAX_DEVIATIONS, MAX_DEVIATIONS).nan_to_num(0.0)
        return torch.cat([scaled, (~features[:, self.numbers].isnan()).to(scaled.dtype)], 1)

    def to(self, device: torch.device) -> Design:
        """Itself on a device."""
        return Design(*(part.to(device) for part in vars(self).values()))


@dataclass(frozen=True)
class LabelRegression:
    """The regression of one slot: an expert."""

    design: Design
    evidence: Evidence
    coefficients: Tensor  # (K, f + p) float32
    bias: Tensor  # (K,)
    labels: Tensor  # (K,) the codes of the labels
    label_share: Tensor  # () float64, the share of all values that are one of these labels

    def predict(self, inputs: Inputs) -> Prediction:
        """The probabilities of labels."""
        row = self.design(inputs.features[:, self.design.columns])
        scores = F.linear(row, self.coefficients, self.bias) + self.evidence(inputs.features, len(self.labels))
        return LabelMasses(self.labels.expand(len(row), -1), self.label_share * scores.double().softmax(1))

    def to(self, device: torch.device) -> LabelRegression:
        """Itself on a device."""
        parts = (self.coefficients, self.bias, self.labels, self.label_share)
        return LabelRegression(self.design.to(device), self.evidence.to(device), *(part.to(device) for part in parts))


@torch.no_grad()
def fit(
    codec: Codec,
    sides: Sides,
    *,
    config: LabelRegressionConfig,
    seed: int,
    seconds: float | None = None,
    report: Report = ignored,
) -> Candidates:
    """Regressions of all properties of labels, as far as there is time."""
    device = sides.training.slot.device
    begun = time.monotonic()
    most = values_within(seconds, VALUES_PER_SECOND, FEWEST_VALUES, config.values)
    examples = OneHotExamples(sides, most, config.columns, seed, ONE_HOT_KINDS - {NUMBER}, keys=True, sizes=False)
    left = None if seconds is None else max(seconds - (time.monotonic() - begun), MIN_SECONDS_FITTED)
    end = None if left is None else time.monotonic() + left
    evidence_end = None if end is None else time.monotonic() + EVIDENCE_SHARE * (end - time.monotonic())
    tasks = _fit_evidence(examples, config, seed, evidence_end, report)
    tasks |= _fit_inputs(tasks, examples, _groups_of(codec, examples.features), config, seed, end, report)
    report(1, 1)
    experts = {
        (slot, USUALLY_VISIBLE): WeightedExpert.unweighted(task.regression().to(device))
        for slot, task in sorted(tasks.items())
    }

    def refitted(group: ExpertGroup, seconds: float | None = None, report: Report = ignored) -> ExpertGroup:
        until = math.inf if seconds is None else time.monotonic() + seconds
        return replace(group, experts=_refitted(group.experts, tasks, examples, config, seed, until, report))

    return Candidates(examples.group(experts), refitted)


def _fit_evidence(
    examples: OneHotExamples, config: LabelRegressionConfig, seed: int, end: float | None, report: Report
) -> dict[int, Task]:
    """The task of each slot, fitted to evidence alone; those with many values come first, as they gain most."""
    processes = usable_processes(examples.features.slot.device)
    largest_first = sorted(examples.training, key=lambda slot: -len(examples.training[slot]))

    def fit_slot(place: int) -> Task | None:
        left = math.inf if end is None else end - time.monotonic()
        if left <= 0:
            return None
        slot, seconds = largest_first[place], None
        if end is not None:
            seconds = min(left, processes * left / (len(largest_first) - place))
        some = examples.training[slot].within(seconds, VALUES_PER_SECOND_OF_SLOT, seed)
        return Task.of_evidence(some, examples.features, examples.columns_beside(slot), config)

    tasks: dict[int, Task] = {}
    for done, task in enumerate(parallel_map(fit_slot, range(len(largest_first)), processes)):
        if task is not None:
            tasks[largest_first[done]] = task
        report(done + 1, 2 * len(largest_first))
    return tasks


def _fit_inputs(
    tasks: Mapping[int, Task],
    examples: OneHotExamples,
    groups: Tensor,
    config: LabelRegressionConfig,
    seed: int,
    end: float | None,
    report: Report,
) -> dict[int, Task]:
    """Fits tasks with inputs, the cheapest first, each to about the same share of its values, until the time is over."""
    processes = usable_processes(examples.features.slot.device)
    costs = _costs(tasks, examples, config)
    slots = list(costs)
    seconds = None if end is None else max(end - time.monotonic(), 0.0)
    fitting_time = FittingTime(seconds, list(costs.values()), processes)

    def fit_slot(place: int) -> Task | None:
        slot, share = slots[place], fitting_time.share(place)
        if share <= 0:
            return None
        values, used = examples.training[slot], examples.columns_beside(slot)
        share = max(share, MIN_SHARE_LEARNT)
        most = max(int(share * _fitted_values(tasks[slot], values, config)), FEWEST_OF_SLOT)
        task = tasks[slot].with_inputs(values, most, examples.features, groups, used, config, seed)
        fitting_time.took(place, share)
        return task.without_inputs()

    found = {}
    for done, task in enumerate(parallel_map(fit_slot, range(len(slots)), processes)):
        if task is not None:
            found[slots[done]] = task
        report(len(slots) + done + 1, 2 * len(slots))
    return found


def _groups_of(codec: Codec, features: OneHotFeatures) -> Tensor:
    """(F,) the group of inputs, with a penalty of its own, that each column belongs to."""
    is_linked = torch.tensor([slot.over is not None for slot in codec.slots])[features.slot.cpu()]
    groups = torch.where(features.label.cpu() == NUMBER_COLUMN, NUMBERS, LABELS)
    return groups.masked_fill(is_linked, LINKED)


def _fitted_values(task: Task, examples: Examples, config: LabelRegressionConfig) -> int:
    """How many values a task may be fitted to."""
    return min(len(examples), task.max_fitted_values(config.screened))


def _costs(tasks: Mapping[int, Task], examples: OneHotExamples, config: LabelRegressionConfig) -> dict[int, int]:
    """By slot, ascending: proportional to the time of a regression with inputs, about."""
    costs = {
        slot: _fitted_values(task, examples.training[slot], config) * len(task.labels) for slot, task in tasks.items()
    }
    return dict(sorted(costs.items(), key=lambda item: item[1]))


class FittingTime:
    """Plans the share of its values that each slot learns from, so that the time suffices for all.

    Each process measures its own speed, and takes the others to be as fast.
    """

    def __init__(
        self,
        seconds: float | None,
        costs: Sequence[float],
        processes: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`costs` are the cells of all values of each slot."""
        self.costs, self.processes, self.clock = costs, processes, clock
        self.begun = clock()
        self.end = math.inf if seconds is None else self.begun + seconds
        self.spent = 0.0  # cells

    def share(self, place: int) -> float:
        """The share of the values of the slot at a place, where those before it are fitted; 0 once the time is over."""
        now = self.clock()
        if now >= self.end:
            return 0.0
        speed = self.spent / (now - self.begun) if self.spent and now > self.begun else CELLS_PER_SECOND
        left = self.costs[place:]
        cells = speed * (self.end - now) * min(self.processes, len(left)) - CELLS_OF_SLOT * len(left)
        return min(max(cells / max(sum(left), EPSILON), EPSILON), 1.0)

    def took(self, place: int, share: float) -> None:
        """Count a slot as done, with the share of its values that it has learnt from."""
        self.spent += CELLS_OF_SLOT + share * self.costs[place]


def _refitted(
    experts: Mapping[SlotLevel, WeightedExpert],
    tasks: Mapping[int, Task],
    examples: OneHotExamples,
    config: LabelRegressionConfig,
    seed: int,
    until: float,
    report: Report,
) -> dict[SlotLevel, WeightedExpert]:
    """The same experts, fitted to the examples of all sides; those that no time is left for stay as they are.

    Those come first that have learnt from few of their values; of these and of the others, the cheapest.
    """
    if time.monotonic() >= until:
        return dict(experts)
    sides, found = examples.all(), dict(experts)
    device = examples.features.slot.device
    costs = _costs(tasks, examples, config)
    learnt = {
        slot: len(task.fitted_rows) / max(_fitted_values(task, examples.training[slot], config), 1)
        for slot, task in tasks.items()
    }
    order = sorted(experts, key=lambda key: (learnt[key[0]] > ENOUGH_LEARNT, costs[key[0]]))

    def refit_expert(key: SlotLevel) -> LabelRegression | None:
        if time.monotonic() >= until:
            return None
        task = tasks[key[0]]
        every = Examples.joined([side[key[0]] for side in sides if key[0] in side])
        most = task.max_fitted_values(len(task.design.columns))
        task = task.with_examples(every, most, seed)
        return task.with_inputs_of(task.fitted_among(every)).fitted().regression()

    for done, regression in enumerate(parallel_map(refit_expert, order, usable_processes(device))):
        if regression is not None:
            found[order[done]] = replace(experts[order[done]], expert=regression.to(device))
        report(done + 1, len(order))
    return found


class Coefficients(NamedTuple):
    """What a regression fits."""

    weight: Tensor  # (K, f + p)
    bias: Tensor  # (K,)
    evidence: Tensor  # (J,) the weights of evidence, before `softplus`

    @classmethod
    def initial(cls, inputs: InputMatrix, target: Tensor, weights: Tensor, labels: int, columns: int) -> Coefficients:
        """The start of a fit: the shares of the labels, and little weight on evidence."""
        counts = torch.bincount(target, weights, minlength=labels).float()
        shares = (counts + 1) / (counts + 1).sum()
        return cls(torch.zeros(labels, inputs.columns), shares.log(), torch.full((columns,), INITIAL_EVIDENCE))

    def scores(self, inputs: InputMatrix, evidence: Tensor) -> Tensor:
        """(n, f + p), (J, n, K) -> (n, K)"""
        scores = inputs.times(self.weight.T) + self.bias
        return torch.addmv(scores.flatten(), evidence.flatten(1).T, F.softplus(self.evidence)).view_as(scores)


@dataclass(frozen=True)
class Task:
    """The classification of one slot, on the CPU. All its values are counted for evidence, and some are fitted to."""

    design: Design
    labels: Tensor  # (K,) ascending
    label_share: float  # the share of all values that are one of the labels
    target: Tensor  # (n,) the place of a label among the labels
    entities: Tensor  # (n,)
    weights: Tensor  # (n,) float32
    cooccurrences: Sequence[Cooccurrence]  # J
    fitted_rows: Tensor  # (m,) of the n, ascending
    inputs: InputMatrix  # (m, f + p)
    groups: Tensor  # (f + p,) of the inputs, each with a penalty of its own: LABELS, NUMBERS, LINKED
    penalties: Tensor  # (3,) of these
    start: Coefficients | None = None  # fitted to some of the examples

    @classmethod
    def of_evidence(
        cls, examples: Examples, columns: OneHotFeatures, used: Tensor, config: LabelRegressionConfig
    ) -> Task | None:
        """The task fitted to evidence of the used columns (f,) alone, which takes a fraction of the time; None where there is nothing to learn."""
        codes = torch.cat(examples.codes)
        labels = commonest_labels(codes, config.labels)
        if len(codes) < MIN_REGRESSION_VALUES or len(labels) < 2:
            return None
        is_label = torch.isin(codes, labels)
        target = torch.searchsorted(labels, codes[is_label])
        entities, weights = torch.cat(examples.entities)[is_label], torch.cat(examples.weights)[is_label]
        used = used[columns.label.cpu()[used] < 0]
        cooccurrences = best_cooccurrences(
            examples.features(used)[is_label],
            used.tolist(),
            (columns.label.cpu()[used] == NUMBER_COLUMN).tolist(),
            Rows.of(target, entities, weights, len(labels)),
        )
        most = MAX_CELLS // max(len(cooccurrences) * len(labels), 1)
        rows = torch.arange(len(target))[:: max(len(target) // max(most, 1), 1)]
        share, design = float(is_label.double().mean()), Design.none()
        none = InputMatrix(torch.zeros(len(rows), 0))
        groups, penalties = torch.zeros(0, dtype=torch.long), torch.ones(GROUPS)
        task = cls(design, labels, share, target, entities, weights, cooccurrences, rows, none, groups, penalties)
        return task.fitted(FEW_STEPS)

    def with_inputs(
        self,
        examples: Examples,
        most: int,
        columns: OneHotFeatures,
        groups: Tensor,
        used: Tensor,
        config: LabelRegressionConfig,
        seed: int,
    ) -> Task:
        """The same task with inputs of the used columns (f,) and with the best penalties, fitted to `most` of the examples.

        `groups` (F,) has the group of each column. The task is unchanged where no column or no penalty can be selected.
        """
        used = used[columns.label.cpu()[used] != KEY_COLUMN]
        used = self._screened(examples.sample(MAX_SCREENED_ROWS, seed), used, config.screened)
        if not len(used):
            return self
        task = self.with_examples(examples, min(most, self.max_fitted_values(len(used))), seed)
        is_number = columns.label.cpu()[used] == NUMBER_COLUMN
        fitted = task.fitted_among(examples)
        design = Design.of(fitted.features(used[is_number]), used, is_number)
        of_inputs = torch.cat([groups[used], groups[used[is_number]]])
        return replace(task, design=design, groups=of_inputs).with_inputs_of(fitted).with_best_penalties(seed) or self

    def max_fitted_values(self, columns: int) -> int:
        """How many values it is fitted to with so many columns, at most, as memory allows."""
        return MAX_CELLS // max(columns + len(self.cooccurrences) * len(self.labels), 1)

    def _screened(self, examples: Examples, columns: Tensor, most: int) -> Tensor:
        """Those of the columns (f,) that differ among some examples and explain most of their labels."""
        codes, columns = torch.cat(examples.codes), examples.visible(columns)
        is_label = torch.isin(codes, self.labels)
        features = examples.features(columns)[is_label]
        varies = varying(features)
        if not bool(varies.any()):
            return columns[:0]
        target = F.one_hot(torch.searchsorted(self.labels, codes[is_label]), len(self.labels)).double()
        return columns[varies][best_columns(features[:, varies], target, most)]

    @cached_property
    def rows(self) -> Rows:
        """The rows of which labels are counted."""
        return Rows.of(self.target, self.entities, self.weights, len(self.labels))

    def with_examples(self, examples: Examples, most: int, seed: int) -> Task:
        """The same task with other examples, `most` of which it is fitted to; it has no inputs of them yet."""
        codes = torch.cat(examples.codes)
        is_label = torch.isin(codes, self.labels)
        evidence = torch.tensor([counts.column.number for counts in self.cooccurrences], dtype=torch.long)
        counted = examples.features(evidence)[is_label]
        target = torch.searchsorted(self.labels, codes[is_label])
        task = replace(
            self,
            target=target,
            entities=torch.cat(examples.entities)[is_label],
            weights=torch.cat(examples.weights)[is_label],
            fitted_rows=random_rows(len(target), most, seed),
        )
        again = zip(self.cooccurrences, counted.unbind(1), strict=True)
        return replace(task, cooccurrences=[counts.again(values, task.rows) for counts, values in again])

    def fitted_among(self, examples: Examples) -> Examples:
        """Those of its examples that it is fitted to."""
        places = torch.isin(torch.cat(examples.codes), self.labels).nonzero()[:, 0]
        return examples.select(places[self.fitted_rows])

    def with_inputs_of(self, fitted: Examples) -> Task:
        """The same task with the inputs of the examples that it is fitted to."""
        blocks = (fitted.select(rows) for rows in torch.arange(len(fitted)).split(ROWS_AT_ONCE))
        return replace(
            self, inputs=InputMatrix.of(self.design(block.features(self.design.columns)) for block in blocks)
        )

    def with_best_penalties(self, seed: int) -> Task | None:
        """The same task with the penalties by which held-out folds of its entities are predicted best; None where none predicts them."""
        fold = folds_of(self.entities[self.fitted_rows], FOLDS, seed)
        every = torch.arange(len(fold)) % max(len(fold) // MAX_PENALTY_ROWS, 1) == 0
        count = FOLDS if int(every.sum()) * len(self.labels) <= MAX_CELLS_OF_FOLDS else 1
        held_out = (every & (fold == number) for number in range(count))
        sides = [(every & ~mask, mask) for mask in held_out if self._is_divided(every & ~mask, mask)]
        folds = [(self._fit_of(training), self._fit_of(validation)) for training, validation in sides]
        search = PenaltySearch(folds, self.groups, len(self.labels))
        penalties = search.best()
        if search.start is None:
            return None
        task = replace(self, penalties=penalties, start=search.start)
        return task if len(folds) == 1 and bool(every.all()) else task.fitted(FEW_STEPS)

    def _is_divided(self, training: Tensor, validation: Tensor) -> bool:
        """Whether masks (m,) of its fitted rows leave something to learn and to validate."""
        return bool(validation.any()) and len(self.target[self.fitted_rows[training]].unique()) > 1

    def without_inputs(self) -> Task:
        """The same task without the inputs of its examples, which take the most memory: they are made anew for others."""
        return replace(self, inputs=InputMatrix(torch.zeros(len(self.fitted_rows), 0)))

    def _fit_of(self, mask: Tensor) -> Fit:
        """The fit to the fitted rows that a mask (m,) selects."""
        rows = self.fitted_rows[mask]
        evidence = [counts.evidence(self.rows, rows) for counts in self.cooccurrences]
        of_labels = torch.stack(evidence) if evidence else torch.zeros(0, len(rows), len(self.labels))
        inputs = self.inputs if bool(mask.all()) else self.inputs.only(mask.nonzero()[:, 0])
        return Fit(inputs, of_labels, self.target[rows], self.weights[rows])

    def regression(self) -> LabelRegression:
        """The expert with the coefficients that were fitted last."""
        assert self.start is not None
        share = torch.tensor(self.label_share, dtype=torch.float64)
        evidence = Evidence.of(self.cooccurrences, F.softplus(self.start.evidence).tolist(), self.rows)
        return LabelRegression(self.design, evidence, self.start.weight, self.start.bias, self.labels, share)

    def fitted(self, steps: int = STEPS) -> Task:
        """The task with coefficients fitted to its fitted rows."""
        fit = self._fit_of(torch.ones(len(self.fitted_rows), dtype=torch.bool))
        return replace(self, start=fit.fitted(len(self.labels), self.penalties[self.groups], self.start, steps))


class Fit(NamedTuple):
    """Examples that coefficients are fitted to."""

    inputs: InputMatrix  # (n, f + p)
    evidence: Tensor  # (J, n, K)
    target: Tensor  # (n,)
    weights: Tensor  # (n,)

    def nats(self, coefficients: Coefficients) -> Tensor:
        """() of all targets together."""
        scores = coefficients.scores(self.inputs, self.evidence)
        return F.cross_entropy(scores, self.target, reduction="none") @ self.weights

    def nats_and_gradient(self, coefficients: Coefficients) -> tuple[Tensor, Coefficients]:
        """() and the derivatives by the coefficients."""
        log_probabilities = coefficients.scores(self.inputs, self.evidence).log_softmax(1)
        of_target = log_probabilities.gather(1, self.target[:, None])[:, 0]
        by_score = log_probabilities.exp_()
        by_score.scatter_add_(1, self.target[:, None], -torch.ones_like(of_target)[:, None])
        by_score *= self.weights[:, None]
        by_weight = self.inputs.transposed_times(by_score).T.contiguous()
        by_evidence = self.evidence.flatten(1) @ by_score.flatten() * coefficients.evidence.sigmoid()
        return -of_target @ self.weights, Coefficients(by_weight, by_score.sum(0), by_evidence)

    def fitted(
        self, labels: int, penalty: Tensor, start: Coefficients | None = None, steps: int = STEPS
    ) -> Coefficients:
        """The coefficients that make targets likeliest, less penalties (f + p,) on squares of weights and one on weights of evidence."""
        start = start or Coefficients.initial(self.inputs, self.target, self.weights, labels, len(self.evidence))
        coefficients = Coefficients(*(part.clone() for part in start))
        solver = LBFGS(list(coefficients), max_iter=steps, history_size=HISTORY, line_search_fn="strong_wolfe")

        def cost() -> Tensor:
            nats, gradient = self.nats_and_gradient(coefficients)
            weight, bias, evidence = coefficients
            weight.grad = gradient.weight + penalty * weight
            bias.grad = gradient.bias
            evidence.grad = gradient.evidence + EVIDENCE_PENALTY * evidence.sigmoid()
            return nats + (penalty * weight.square()).sum() / 2 + EVIDENCE_PENALTY * F.softplus(evidence).sum()

        solver.step(cost)  # type: ignore[no-untyped-call]
        return Coefficients(*(part.detach() for part in coefficients))


class PenaltySearch:
    """Coordinate search for the penalties of groups of inputs, by the likelihood of held-out folds."""

    def __init__(self, folds: Sequence[tuple[Fit, Fit]], groups: Tensor, labels: int) -> None:
        self.folds, self.groups, self.labels = folds, groups, labels
        self.starts: list[Coefficients | None] = [None] * len(folds)
        self.least = math.inf

    @property
    def start(self) -> Coefficients | None:
        """The coefficients of the last fold with the best penalties; None where no penalties predict it."""
        return self.starts[-1] if self.starts else None

    def best(self) -> Tensor:
        """(3,) The best common penalty; for numbers, and for evidence over links, `LARGER` times as much where that gains.

        Common penalties are tried from the largest on, as long as the next one gains.
        """
        penalties = torch.full((GROUPS,), PENALTIES[0])
        for penalty in PENALTIES:
            common = torch.full((GROUPS,), penalty)
            if not self._gains(common):
                break
            penalties = common
        for group in sorted({NUMBERS, LINKED}.intersection(self.groups.tolist())):
            larger = penalties.clone()
            larger[group] *= LARGER
            if self._gains(larger):
                penalties = larger
        return penalties

    def _gains(self, penalties: Tensor) -> bool:
        """Whether penalties predict the held-out folds better than the best before; then they are the start of the next."""
        of_inputs, starts, nats = penalties[self.groups], [], 0.0
        for (fitting, validating), start in zip(self.folds, self.starts, strict=True):
            starts.append(fitting.fitted(self.labels, of_inputs, start, FEW_STEPS))
            nats += float(validating.nats(starts[-1]))
        if not nats < self.least:  # also where they are not a number
            return False
        self.least, self.starts = nats, list(starts)
        return True
