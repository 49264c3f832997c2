"""Gradient-boosted trees for each property, stacked with the model by their accuracy on hidden values.

Every training value is hidden alone once, and every composite as a whole. The members of a set count as one value together.
Evidence that came over a property's own link is left out: see `OneHotExamples.columns_beside`. A first booster of each property
learns from the training entities; values that nothing has learnt from give its weight beside the model. Boosters that have a
weight are then averaged with further ones, each fitted to all entities but one fold, as far as there is time.

Trees of labels are CatBoost's, trees of numbers those of `histogram_boosting`.

Where one other number explains most of a number, a straight line of it takes the place of the trees, unless these are more accurate on
the values that decide when the first booster stops. Trees tell a birth from a
death in steps, and nothing beyond the known values; few values make few steps, and a line needs two. Trees that were fitted to
the residuals of a line were less accurate than the line alone, and so was the mean of both: where the other number is not
visible, residuals are large, and trees that learn them spoil the rest.

n values of one slot   F features   f of them that one property uses   K labels   P knots
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from kbdisk.data import Codec
from kbdisk.data.dataset import Batch
from kbdisk.experts.base import (
    USUALLY_VISIBLE,
    Candidates,
    Estimates,
    ExpertGroup,
    Inputs,
    LabelMasses,
    Prediction,
    Report,
    Seen,
    Sides,
    SlotLevel,
    WeightedExpert,
    ignored,
)
from kbdisk.experts.boosting_time import SideBySide, Timing, Work, shared_threads
from kbdisk.experts.catboost import MANY_LABELS, early_stopped, threads, unattended
from kbdisk.experts.config import BoostedTreesConfig
from kbdisk.experts.examples import FEWEST_VALUES, Examples, OneHotExamples, commonest_labels, folds_of, values_within
from kbdisk.experts.feature_screening import best_columns, gains, varying
from kbdisk.experts.features import NUMBER, NUMBER_COLUMN, OneHotFeatures
from kbdisk.experts.filled_columns import (
    Estimate,
    EstimatedTable,
    FilledColumns,
    Round,
    needed_estimates,
    slots_worth_filling,
)
from kbdisk.experts.gaussian_process import interpolate, rising_knots
from kbdisk.experts.histogram_boosting import MAX_BORDERS, grow
from kbdisk.experts.target_scale import TargetScale
from kbdisk.experts.trees import SymmetricTrees, Trees

if TYPE_CHECKING:
    from catboost import Pool

MIN_TREE_VALUES = 20  # known values of a slot, below which it has no trees
MIN_LABEL_COUNT = 50  # entities a label, below which many labels have no trees: regression is more accurate, and faster
FIRST = -1  # in the place of a fold
STOPPING_FOLDS, STOPPING_FOLDS_OF_MANY = 5, 10  # one fold of these decides when the first booster stops
MANY_VALUES = 1000  # from which on there are more folds
MAX_LABEL_CELLS = 60_000  # values times labels that a booster of many labels learns from, about
VALUES_PER_SECOND = 10_000  # examples of all slots together, for each second of trees
VALUES_PER_SECOND_OF_SLOT = 5500  # examples of a slot, for each second of its first trees: more leave too few trees
WORTHWHILE_TREES = 20  # that a slot should have time for: where it has less, first trees read fewer columns
VALUES_OF_BOOSTER = 300  # added to the number of values: what any booster takes besides
WAVE = 4  # numbers that are learnt side by side, from the estimates of those before
MIN_SECONDS_TWICE = 0.5  # of a property, from which on trees are grown again from the estimates of all
LATER_ROUNDS = 1  # of imputing hidden numbers, which read the estimates of the round before
MANY_LABELS_SHARE = 0.35  # of a limited time, at most: for properties of many labels, which regressions predict as well
ESTIMATE_SHARE = 0.4  # of the time of as many properties, for trees that make estimates and are grown again
MAX_SHARES = 1.0  # times its even share of the time, that the first booster of a property may take
FLAG_BORDERS = 2  # of a column of 0, 1 and unknown
MIN_LINE_VALUES = 20  # that both numbers are known of
MIN_LINE_VALUES_COMPARED = 10  # by which it is compared to trees; with fewer the line stands
MIN_EXPLAINED = 0.6  # of the distances from the median of the values that have both: a weaker line only adds its noise
MAX_LINE_COLUMNS = 8  # that lines are fitted to: those that explain most by themselves
SHARE_FITTED_AGAIN = 0.9  # of the values: those with the smallest errors, to which a line is fitted again
LINE_MARGIN = 0.5  # of the range of the known values: how far a line may lead beyond them


# ---------------------------------------------------------------- a line of one other number


@dataclass(frozen=True)
class Line:
    """Points of the target's scale by another number, or by its logarithm where the target's scale is one of logarithms."""

    column: Tensor  # () of all features
    knots: Tensor  # (2, P) float64 codes of the other number, and the numbers
    numbers: Tensor  # (5,) float64: slope, intercept, bounds of the target, the least number of which a log is taken

    def __call__(self, features: Tensor) -> Tensor:
        """(n, F) features -> (n,) float64; NaN where the other number is not visible"""
        return self.of(features[:, self.column])

    def of(self, codes: Tensor) -> Tensor:
        """(n,) codes of the other number -> (n,) float64"""
        slope, intercept, low, high, least = self.numbers.unbind()
        numbers = interpolate(self.knots, codes.double())
        numbers = torch.where(least > 0, torch.maximum(numbers, least).log(), numbers)
        return (slope * numbers + intercept).clamp(low, high)

    def to(self, device: torch.device) -> Line:
        """The same on a device."""
        return Line(*(tensor.to(device) for tensor in vars(self).values()))

    @classmethod
    def best(
        cls, codec: Codec, columns: OneHotFeatures, used: Tensor, features: Tensor, target: Tensor, scale: TargetScale
    ) -> Line | None:
        """The line of one of the used columns (f,), by features (n, f) and targets (n,), that explains most; None if none does."""
        best: tuple[float, Line | None] = (0.0, None)
        slots = columns.slot.cpu()[used]
        numbers = (columns.label.cpu()[used] == NUMBER_COLUMN).nonzero()[:, 0]
        if len(numbers) > MAX_LINE_COLUMNS:
            explained = gains(features[:, numbers], target[:, None])
            numbers = numbers[explained.topk(MAX_LINE_COLUMNS).indices.sort().values]
        for place in numbers.tolist():
            codes = features[:, place]
            known = ~codes.isnan()
            if int(known.sum()) < MIN_LINE_VALUES:
                continue
            line = _fit_line(codec.slots[int(slots[place])].codec, used[place], codes[known], target, known, scale)
            if line is not None:
                both = target[known]
                apart = float((both - both.median()).abs().sum())
                gain = apart - float((both - line.of(codes[known])).abs().sum())
                if gain >= MIN_EXPLAINED * apart:
                    best = max(best, (gain, line), key=lambda pair: pair[0])
        return best[1]


def _fit_line(
    codec: Any, column: Tensor, codes: Tensor, target: Tensor, known: Tensor, scale: TargetScale
) -> Line | None:
    number_knots, code_knots, _ = codec.map.knots
    knots = rising_knots(code_knots, number_knots)
    if knots.shape[1] < 2:
        return None
    visible_numbers, y = interpolate(knots, codes.double()), target[known]
    least = (codec.floor_of_logs or float(visible_numbers.min())) if scale.least else 0.0
    if scale.least and least <= 0:
        return None
    x = visible_numbers.clamp(min=least).log() if scale.least else visible_numbers
    kept = torch.ones(len(x), dtype=torch.bool)
    slope, intercept = 0.0, 0.0
    for _ in range(2):
        mean, deviation = x[kept].mean(), x[kept].std()
        if not bool(deviation > 0) or not bool(deviation.isfinite()):
            return None
        standard = (x[kept] - mean) / deviation
        slope = float((standard * (y[kept] - y[kept].mean())).sum() / standard.square().sum() / deviation)
        intercept = float(y[kept].mean()) - slope * float(mean)
        errors = (y - slope * x - intercept).abs()
        kept = errors <= errors.quantile(SHARE_FITTED_AGAIN)
    low, high = float(target.min()), float(target.max())
    margin = LINE_MARGIN * (high - low)
    numbers = torch.tensor([slope, intercept, low - margin, high + margin, least], dtype=torch.float64)
    return Line(column, knots, numbers)


# ---------------------------------------------------------------- the expert


@dataclass(frozen=True)
class BoostedTrees:
    """The trees of one property: an expert."""

    trees: Trees
    columns: FilledColumns  # that they read
    labels: Tensor  # (K,) the codes of the classes; none of a number
    label_share: Tensor  # () float64, of all values: those that are one of these labels
    scale: TargetScale | None  # of a number
    line: Line | None = None  # of a number, in the place of the trees where the other number is visible

    @property
    def read_from_estimates(self) -> Tensor:
        """(k,) the columns whose hidden numbers it reads from estimates."""
        return self.columns.filled

    def predict(self, inputs: Inputs) -> Prediction:
        """Numbers, or the probabilities of labels."""
        if self.scale is not None:
            return self.numbers(inputs.features, inputs.estimates)
        scores = self.trees(self.columns(inputs.features, inputs.estimates))
        return LabelMasses(self.labels.expand(len(scores), -1), self.label_share * scores.softmax(1))

    def numbers(self, features: Tensor, estimates: Estimates | None = None) -> Tensor:
        """The predicted numbers (n,) float64, from features (n, F)."""
        assert self.scale is not None
        scores = self.trees(self.columns(features, estimates))[:, 0]
        if self.line is not None:
            points = self.line(features)
            scores = torch.where(points.isnan(), scores, points)
        return torch.from_numpy(self.scale.unscaled(scores.cpu().numpy())).to(scores)

    def to(self, device: torch.device) -> BoostedTrees:
        """The same on a device."""
        return replace(
            self,
            trees=self.trees.to(device),
            columns=self.columns.to(device),
            labels=self.labels.to(device),
            label_share=self.label_share.to(device),
            line=None if self.line is None else self.line.to(device),
        )


@dataclass(frozen=True)
class TreeGroup(ExpertGroup):
    """Boosted trees of all properties. The hidden numbers that they read are imputed in rounds."""

    first: Round = field(default_factory=dict)  # of all numbers that were learnt one after the other

    @cached_property
    def estimates(self) -> Round:
        """The estimates of the first round that its trees read, and those that these read in turn."""
        read: set[int] = set()
        for weighted in self.experts.values():
            assert isinstance(weighted.expert, BoostedTrees)
            read.update(weighted.expert.read_from_estimates.tolist())
        return needed_estimates(self.first, read)

    @cached_property
    def rounds(self) -> list[Round]:
        """The estimates of each round: those after the first are by the trees that have weights, where a number has some."""
        weighted: dict[int, BoostedTrees] = {}  # by the column of a number
        for (_, level), of_key in self.experts.items():
            trees = of_key.expert
            assert isinstance(trees, BoostedTrees)
            if trees.scale is not None and len(trees.columns.own) and level == USUALLY_VISIBLE:
                weighted[int(trees.columns.own[0])] = trees

        def later(column: int, estimate: Estimate) -> Estimate:
            first, trees = estimate.expert, weighted.get(column)
            assert isinstance(first, BoostedTrees)
            if trees is None or trees.trees.leaves is first.trees.leaves:
                return estimate
            return replace(estimate, expert=trees)

        second = {column: later(column, estimate) for column, estimate in self.estimates.items()}
        return [self.estimates, *[second] * LATER_ROUNDS]

    def seen(self, batch: Batch, visible: Tensor) -> Seen:
        """The features of the visible tokens (T,), and estimates of the hidden numbers."""
        seen = super().seen(batch, visible)
        return seen._replace(estimates=EstimatedTable(seen.features, self.rounds))

    def announce(self, seen: Seen, asked: Iterable[tuple[SlotLevel, Tensor]]) -> None:
        """Impute the hidden numbers that the trees of all properties will read column by column."""
        assert isinstance(seen.estimates, EstimatedTable)
        reads = []
        for key, entities in asked:
            trees = self.experts[key].expert
            assert isinstance(trees, BoostedTrees)
            reads.append((trees.read_from_estimates, entities))
        seen.estimates.announce(reads)


# ---------------------------------------------------------------- fitting


def load_libraries(codec: Codec) -> None:
    """Import the libraries that grow trees. It takes a second, which should not count as the time of a booster."""
    are_numbers = {slot.kind == NUMBER for slot in codec.slots}
    if False in are_numbers:
        import catboost  # noqa: F401
    if True in are_numbers:
        import sklearn.ensemble  # noqa: F401


@torch.no_grad()
def fit(
    codec: Codec,
    sides: Sides,
    *,
    config: BoostedTreesConfig,
    seed: int,
    seconds: float | None = None,
    report: Report = ignored,
) -> Candidates:
    """A booster of every property; with a weight, it is averaged with those that leave out one fold each."""
    begun, device = time.monotonic(), sides.training.slot.device
    load_libraries(codec)
    most = values_within(seconds, VALUES_PER_SECOND, FEWEST_VALUES, config.values)
    examples = OneHotExamples(sides, most, config.columns, seed)
    enough = [(slot, values) for slot, values in sorted(examples.training.items()) if len(values) >= MIN_TREE_VALUES]
    cost = {slot: _estimated_cost(codec, config, slot, values) for slot, values in enough}
    cheapest_first = dict(sorted(enough, key=lambda item: cost[item[0]]))
    many = frozenset(slot for slot, of_slot in cost.items() if of_slot.has_many_labels)

    def share_of_time(slots: Iterable[int], among: Iterable[int]) -> float:
        """The part of the time of several slots that some of them have: a booster of more values takes longer."""
        some, whole = (sum(len(cheapest_first[slot]) + VALUES_OF_BOOSTER for slot in group) for group in (slots, among))
        return some / max(whole, 1)

    def builders(slots: Iterable[int]) -> dict[int, Build]:
        """Which read the estimates that there are so far."""
        before = dict(estimates)

        def build(slot: int, seconds: float) -> Task | None:
            values = cheapest_first[slot].within(seconds, VALUES_PER_SECOND_OF_SLOT, seed)
            columns = values.visible(examples.columns_beside(slot))
            of_tree = seconds / WORTHWHILE_TREES
            return Task.build(codec, slot, values, examples.features, columns, config, before, fitting.timing, of_tree)

        return {slot: partial(build, slot) for slot in slots}

    def reported(before: int) -> Report:
        """The report of boosters after so many others."""
        total = len(chain) + len(cheapest_first) - (0 if fits_twice else len(chain))
        return lambda done, count: report(min(before + done, total), total)

    estimates: dict[int, Estimate] = {}  # by column
    in_chain: dict[int, BoostedTrees] = {}  # by slot
    fitting = Fitting(many, math.inf if seconds is None else MANY_LABELS_SHARE * seconds, seed, device)
    worth = slots_worth_filling(examples.features, cheapest_first)
    chain = sorted(worth, key=lambda slot: (-len(cheapest_first[slot]), slot))
    fits_twice = seconds is None or seconds >= MIN_SECONDS_TWICE * len(cheapest_first)
    share = (ESTIMATE_SHARE if fits_twice else 1.0) * share_of_time(chain, cheapest_first)
    chain_end = begun if seconds is None else time.monotonic() + share * (begun + seconds - time.monotonic())
    for start in range(0, len(chain), WAVE):
        wave = chain[start : start + WAVE]
        within = (chain_end - time.monotonic()) * share_of_time(wave, chain[start:])
        grown = fitting.fit_first(builders(wave), None if seconds is None else within, reported(start))
        for slot, expert in grown.items():
            estimates[int(examples.features.numbers_of(slot))] = Estimate.of(codec, slot, expert)
        in_chain |= grown
    slots = [slot for slot in cheapest_first if fits_twice or slot not in in_chain]
    left = None if seconds is None else begun + seconds - time.monotonic()
    experts = in_chain | fitting.fit_first(builders(slots), left, reported(len(chain)))
    first = {column: estimate.to(device) for column, estimate in estimates.items()}
    unweighted = {
        (slot, USUALLY_VISIBLE): WeightedExpert.unweighted(expert.to(device)) for slot, expert in experts.items()
    }

    def refitted(group: ExpertGroup, seconds: float | None = None, report: Report = ignored) -> ExpertGroup:
        if seconds is not None and not fitting.can_fit_a_fold(seconds):
            return group
        end = None if seconds is None else time.monotonic() + seconds
        return replace(group, experts=fitting.fit_folds(group.experts, examples.all(), config.folds, end, report))

    return Candidates(TreeGroup(examples.features, examples.usual_amount, unweighted, first), refitted)


class _Cost(NamedTuple):
    """Ascends with the time of a booster of a slot. Of many labels a tree takes as long as many others."""

    has_many_labels: bool
    cells: int


def _estimated_cost(codec: Codec, config: BoostedTreesConfig, slot: int, values: Examples) -> _Cost:
    is_number = codec.slots[slot].kind == NUMBER
    labels = 0 if is_number else len(commonest_labels(torch.cat(values.codes), config.labels))
    return _Cost(labels > MANY_LABELS, len(values) * max(labels, 1))


@dataclass(frozen=True)
class Task:
    """The regression or classification of one slot."""

    codec: Codec
    slot: int
    columns: FilledColumns
    labels: Tensor  # (K,) ascending; none of a number
    scale: TargetScale | None  # of a number
    label_share: float  # of all values: those that are one of the labels
    features: Tensor  # (n, f) of all at first, then those that are used
    target: Tensor  # (n,) a number on its scale, or the place of a label among the labels
    entities: Tensor  # (n,)
    weights: Tensor  # (n,) float32
    estimates: Round  # that columns are filled by
    line: Line | None = None  # of a number, where another number explains it
    points: Tensor | None = (
        None  # (n,) of the line, until it is compared to trees; NaN where the other number is not visible
    )

    @classmethod
    def build(
        cls,
        codec: Codec,
        slot: int,
        examples: Examples,
        features: OneHotFeatures,
        used: Tensor,
        config: BoostedTreesConfig,
        estimates: Round,
        timing: Timing | None = None,
        seconds: float = math.inf,
    ) -> Task | None:
        """The task with the best of the used columns (f,); None where there is nothing to learn.

        Each tree has so many `seconds`. Where all columns would take longer, the trees read the best of them alone.
        """
        codes, entities = torch.cat(examples.codes), torch.cat(examples.entities)
        labels, scale = codes.new_zeros(0, dtype=torch.long), None
        if codec.slots[slot].kind == NUMBER:
            scale = TargetScale.fit(_numbers(codec, slot, codes), codec.slots[slot].codec.floor_of_logs)
        else:
            labels = commonest_labels(codes, config.labels)
            if len(labels) > MANY_LABELS and len(entities.unique()) < MIN_LABEL_COUNT * len(labels):
                return None
        if scale is None and len(labels) < 2:
            return None
        columns, weights = FilledColumns(used, features.of(slot).cpu()), torch.cat(examples.weights)
        visible = examples.features(used)
        task = cls(codec, slot, columns, labels, scale, 1.0, visible, codes, entities, weights, estimates)
        affordable = partial((timing or Timing()).affordable_columns, seconds=seconds)
        screened = task._screened(config.screened, features, affordable)
        return screened and screened._filled(examples)

    def _filled(self, examples: Examples) -> Task:
        """The same task, with estimates in the place of hidden numbers."""
        columns = self.columns.with_estimates(~self.features.isnan(), self.estimates)
        return replace(self, columns=columns).with_examples([examples]) if columns.places else self

    def _screened(self, max_columns: int, all_columns: OneHotFeatures, affordable: Affordable) -> Task | None:
        """With encoded targets, and the columns alone that explain some of them, the best as far as they are affordable."""
        target, encoded = self.encode(self.target)
        features, entities, weights = self.features[encoded], self.entities[encoded], self.weights[encoded]
        varies = varying(features)
        if not bool(varies.any()) or len(target.unique()) < 2:
            return None
        columns, features, line, points = self.columns.columns[varies], features[:, varies], None, None
        if self.scale is not None:
            line = Line.best(self.codec, all_columns, columns, features, target, self.scale)
        if line is not None:
            points = line.of(features[:, columns == line.column][:, 0])
        matrix = F.one_hot(target, len(self.labels)).double() if len(self.labels) else target[:, None]
        are_numbers = all_columns.label.cpu()[columns] == NUMBER_COLUMN
        borders = (~features.isnan()).sum(0).clamp(max=MAX_BORDERS).where(are_numbers, FLAG_BORDERS)
        costs, most = affordable(len(features), borders, len(self.labels))
        best = best_columns(features, matrix, max_columns, costs, most)
        share = float(encoded.double().mean())
        return replace(
            self,
            columns=replace(self.columns, columns=columns[best]),
            features=features[:, best],
            target=target,
            entities=entities,
            weights=weights,
            label_share=share,
            line=line,
            points=points,
        )

    def without_worse_line(self, trees: Trees, rows: Tensor) -> Task:
        """The task without its line if the trees are more accurate on rows (n,) from which they have not learnt."""
        if self.points is None:
            return self
        compared = rows & ~self.points.isnan()
        tree_errors = trees(self.features[compared])[:, 0] - self.target[compared]
        line_errors = self.points[compared] - self.target[compared]
        is_worse = len(line_errors) >= MIN_LINE_VALUES_COMPARED and bool(
            tree_errors.abs().mean() < line_errors.abs().mean()
        )
        return replace(self, line=None if is_worse else self.line, points=None)

    def encode(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """(m,) the targets of codes (n, ...), and (n,) which codes have one: labels that are too rare have none."""
        if self.scale is not None:
            numbers = self.scale.scaled(_numbers(self.codec, self.slot, codes))
            return torch.tensor(numbers, dtype=torch.float64), torch.ones(len(codes), dtype=torch.bool)
        is_label = torch.isin(codes, self.labels)
        return torch.searchsorted(self.labels, codes[is_label]), is_label

    def with_examples(self, sides: Sequence[Examples]) -> Task:
        """The same task with other examples."""
        target, encoded = self.encode(torch.cat([codes for side in sides for codes in side.codes]))
        read = partial(self.columns.of_training, estimates=self.estimates)
        features = torch.cat([side.read(read) for side in sides])
        entities = torch.cat([numbers for side in sides for numbers in side.entities])[encoded]
        weights = torch.cat([weights for side in sides for weights in side.weights])[encoded]
        return replace(self, features=features[encoded], target=target, entities=entities, weights=weights)

    def expert(self, boosters: Sequence[Trees]) -> BoostedTrees:
        """The average of some boosters."""
        share = torch.tensor(self.label_share, dtype=torch.float64)
        trees = boosters[0].averaged(boosters)
        return BoostedTrees(trees, self.columns, self.labels, share, self.scale, self.line)

    def can_learn(self, training: Tensor) -> bool:
        """Whether targets and features differ among some of the values (n,), and other values are left."""
        varies = bool(varying(self.features[training]).any())
        return varies and len(self.target[training].unique()) >= 2 and not bool(training.all())

    def fit(
        self, training: Tensor, seed: int, timing: Timing, end: float = math.inf, thread_count: int | None = None
    ) -> Trees:
        """A booster of some of the values (n,), with early stopping on the rest.

        Labels that only the rest has are added to the training values. Boosters of many labels learn from a part of the values.
        """
        if self.scale is not None:
            return grow(
                self.features,
                self.target,
                training,
                seed=seed,
                timing=timing,
                end=end,
                threads=thread_count or threads(),
            )
        K = len(self.labels)
        if K > MANY_LABELS:
            stride = max(len(training) * K // MAX_LABEL_CELLS, 1)
            fewer = training & (torch.arange(len(training)) % stride == 0)
            training = fewer if self.can_learn(fewer) else training
        training = training | ~torch.isin(self.target, self.target[training])
        used = self.target[training].unique()  # CatBoost counts no others
        loss = {"loss_function": "MultiClass", "classes_count": len(used)}
        settings = {**early_stopped(len(self.target), K), **unattended(seed % (1 << 31), thread_count), **loss}
        validation = training if bool(training.all()) else ~training
        start = log_shares(self.target[training], self.weights[training], K)
        pools = self._pool(training, used, start), self._pool(validation, used, start)
        work = Work.of(self.features[training], K)
        trees = SymmetricTrees.of(timing.fit(settings, pools, work, end)).among(used, K)
        return replace(trees, start=trees.start + start)

    def _pool(self, rows: Tensor, used: Tensor, start: Tensor) -> Pool:
        """The values of some rows, whose labels are all among the used ones."""
        from catboost import Pool

        features, target, weights = self.features[rows].numpy(), self.target[rows], self.weights[rows].numpy()
        baseline = start[used].expand(len(target), -1).numpy()
        return Pool(features, torch.searchsorted(used, target).numpy(), baseline=baseline, weight=weights)


def log_shares(target: Tensor, weights: Tensor, labels: int) -> Tensor:
    """(K,) the logarithms of the shares that labels have, where trees start."""
    counts = torch.bincount(target, weights, minlength=labels).double() + 1
    return (counts / counts.sum()).log()


def _numbers(codec: Codec, slot: int, codes: Tensor) -> NDArray[np.float64]:
    numbers: NDArray[np.float64] = codec.slots[slot].codec.numbers(codes)
    return numbers


# ---------------------------------------------------------------- within a time budget


Affordable: TypeAlias = Callable[[int, Tensor, int], tuple[Tensor, float]]  # as `Timing.affordable_columns`
Build: TypeAlias = Callable[[float], "Task | None"]  # by the seconds that a slot has


@dataclass
class Fitting:
    """The boosters of all slots, several side by side."""

    many: frozenset[int]  # slots of many labels, which come last
    seconds_of_many: float  # that these have at most, together
    seed: int
    device: torch.device  # where experts are asked
    tasks: dict[int, Task] = field(default_factory=dict)  # built when their turn comes: screening features takes time
    boosters: dict[int, dict[int, Trees]] = field(default_factory=dict)  # by slot and fold; the first has none: FIRST
    fit_seconds: dict[int, float] = field(default_factory=dict)  # of the first booster
    timing: Timing = field(default_factory=Timing)

    def fit_first(
        self, builders: Mapping[int, Build], seconds: float | None, report: Report
    ) -> dict[int, BoostedTrees]:
        """The first booster of some slots, the cheapest first, on the CPU. One that a slot had before is replaced."""
        end = math.inf if seconds is None else time.monotonic() + seconds
        count, first_of_many = len(builders), next((slot for slot in builders if slot in self.many), None)
        side_by_side, thread_count = shared_threads(count)
        fitted = []
        with SideBySide(side_by_side, self.timing.stopping) as workers:
            for done, (slot, build) in enumerate(builders.items()):
                if slot == first_of_many:
                    end = min(end, time.monotonic() + self.seconds_of_many)
                if time.monotonic() >= end:
                    break
                task = build((end - time.monotonic()) / (count - done))
                training = None if task is None else _first_part(task, self.seed)
                if task is not None and training is not None:
                    workers.wait_for_a_thread()
                    begun = time.monotonic()
                    if begun >= end and slot in self.boosters:
                        break  # it keeps the one that it has
                    limit = min(begun + MAX_SHARES * side_by_side * (end - begun) / (count - done), end)
                    self.tasks[slot], self.boosters[slot] = task, {}
                    workers.start(partial(self._fit, task, FIRST, training, limit, thread_count))
                    fitted.append(slot)
                report(done + 1, count)
        report(count, count)
        return {slot: self.expert(slot) for slot in fitted}

    def _fit(self, task: Task, fold: int, training: Tensor, end: float, thread_count: int) -> None:
        begun = time.monotonic()
        trees = task.fit(training, self.seed + fold + 1, self.timing, end, thread_count)
        self.boosters[task.slot][fold] = trees
        if fold == FIRST:
            self.tasks[task.slot] = task.without_worse_line(trees, ~training)
            self.fit_seconds[task.slot] = time.monotonic() - begun

    def expert(self, slot: int) -> BoostedTrees:
        """The average of a slot's boosters."""
        boosters = [trees for _, trees in sorted(self.boosters[slot].items())]
        return self.tasks[slot].expert(boosters)

    def can_fit_a_fold(self, seconds: float) -> bool:
        """Whether some slot's booster can be fitted once more in so many seconds."""
        return any(needed <= seconds for needed in self.fit_seconds.values())

    def fit_folds(
        self,
        first: Mapping[SlotLevel, WeightedExpert],
        sides: Sequence[Mapping[int, Examples]],
        count: int,
        end: float | None,
        report: Report,
    ) -> dict[SlotLevel, WeightedExpert]:
        """Experts with further boosters: fold by fold, the cheapest slot first, as long as its first booster took is left.

        The first booster of a slot has not learnt from reserved values and held-out entities. Of few values that is a loss, and
        a further booster takes little time.
        """
        until = math.inf if end is None else end
        slots = sorted((slot for slot, _ in first), key=lambda slot: (slot in self.many, self.fit_seconds[slot]))
        tasks: dict[int, Task] = {}
        folds: dict[int, Tensor] = {}
        order = list(product(range(count), slots))
        side_by_side, thread_count = shared_threads(len(order))
        with SideBySide(side_by_side, self.timing.stopping) as workers:
            for done, (fold, slot) in enumerate(order, 1):
                workers.wait_for_a_thread()
                if until - time.monotonic() >= self.fit_seconds[slot]:
                    if slot not in tasks:
                        tasks[slot] = self.tasks[slot].with_examples([side[slot] for side in sides if slot in side])
                        folds[slot] = folds_of(tasks[slot].entities, count, self.seed + 1)
                    training = folds[slot] != fold
                    if tasks[slot].can_learn(training):
                        workers.start(partial(self._fit, tasks[slot], fold, training, until, thread_count))
                report(done, len(order))
        return {key: replace(weighted, expert=self.expert(key[0]).to(self.device)) for key, weighted in first.items()}


def _first_part(task: Task, seed: int) -> Tensor | None:
    """(n,) the values that the first booster learns from; None where these do not differ enough."""
    count = STOPPING_FOLDS if len(task.target) < MANY_VALUES else STOPPING_FOLDS_OF_MANY
    training = folds_of(task.entities, count, seed) > 0
    return training if task.can_learn(training) else None
