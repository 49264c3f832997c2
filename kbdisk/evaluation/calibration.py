"""Confidence: the probability that a statement is right, as presence times correctness, each calibrated on held-out data.

    presence      the probability that the entity has the property: relative to entities that are known to have it
    correctness   the probability that the value is right, given that the entity has the property

Both are calibrated per property by logistic regression on the model's own log odds, with shrinkage: all properties share
a slope and an intercept, and each has an offset with a Gaussian prior whose width cross-validation chooses. A class adds an
offset of its own to that of the property, with a prior as well: where cities have a property and islands lack it, one presence
for both would be wrong.

Presence learnt from what is recorded is at most the share that is recorded: where a fifth of the values is missing, no
entity has more than .8. The recorded share r of a property is estimated by the lower quarter of the presence of entities that
have it, and is taken to be at least .8: of a property that fewer entities have recorded, absence may be a fact. An entity with
the recorded presence p has the property with the probability q = p / r. But its value is not recorded, which is likelier for
an entity that lacks the property. By how much depends on how many values a knowledge base leaves out, which can't be known;
so the odds q / (1 - q) are divided by three. An entity that looks like those that have the property still has presence 1. A blank cell
is a place for a value, and its r may be any.

A property is filled by default if that is a gain: on held-out statements, writing those whose confidence reaches the
threshold gains more than writing nothing and more than writing the constant everywhere. A wrong statement loses three
times what a right one gains. This is measured with cross-fitted confidences.

The model's probabilities come from `kbdisk.completion.predict`, the outcomes from `kbdisk.completion.trial`;
`kbdisk.completion.decide` asks the result, and has the way of a confidence at its head.

n outcomes   K properties
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from kbdisk.evaluation.intervals import Floats, Key, Levels, Rank

Ints: TypeAlias = npt.NDArray[np.int64]

THRESHOLD = 0.5  # of the confidence, where the user states none
THRESHOLDS = (0.9, 0.75, 0.5)  # that a summary shows
# thresholds of a property whose statements have no gain from THRESHOLD on: the first from which on they have one
RAISED_THRESHOLDS = (0.6, 0.7, 0.8, 0.9)
FOLDS = 5
BINS = 10  # of confidence
WIDTHS = (0.1, 0.3, 1.0, 3.0)  # of the prior of the offsets, in log odds
WIDTHS_BY_CLASS = (0.0, 0.3, 1.0, 3.0)  # of the prior of the offsets of classes around their property's
PRIOR_OF_LINE = 1.0  # precision of the prior of intercept and slope, around 0 and 1
MIN_CHANCE, MAX_LOG_ODDS = 1e-9, 12.0
RECORDED_QUANTILE = 0.25  # the recorded share is this quantile of the presence of entities that have the property
MIN_RECORDED_SHARE = 0.8
UNRECORDED_ODDS = 1 / 3  # odds that a value is not recorded where there is one, beside where there is none
MAX_UNLABELLED_PRESENCE = 0.97  # what is learnt without any negative outcome is never certain
MIN_OUTCOMES = 10  # from which on anything is calibrated
WRONG_COST = 3.0  # the loss of a wrong statement; a right one gains 1
MIN_GAIN_IN_ERRORS = 1.64  # standard errors by which a gain has to be above 0: one-sided, 95 %
MIN_GAIN_OF_WIDER_PRIOR = 1.0  # nats of cross-validation that a wider prior has to gain
PRIOR_STATEMENTS = 2.0  # imagined statements, half of them wrong, in every estimate of a gain
PRIOR_OF_PRECISION = 20.0  # imagined statements, as often right as those of all properties, in a property's precision
MAX_NEWTON_STEPS, NEWTON_TOLERANCE = 100, 1e-9


class Outcome(NamedTuple):
    """A statement about a held-out entity that completion would make, and whether it would be right."""

    property: Key
    presence: float | None  # the model's; None where it predicts none
    correctness: float | None  # the model's; None where it makes no statement
    right: float | None  # 0 to 1; of a set the share of its members; None where the entity lacks the property
    constant: float | None  # how right the constant would be; None where the entity lacks the property
    weight: float = 1.0  # how many such statements it stands for
    class_name: str = ""  # of the entity
    is_declared: bool = False  # the source says that the entity lacks the property
    ranks: tuple[Rank, ...] = ()  # of the numbers that it states
    presence_parts: tuple[float, float] | None = None  # presence by the networks and by trees, where there are trees


class Statement(NamedTuple):
    """A held-out statement, with its confidence and whether it was right."""

    confidence: float  # cross-fitted
    unknown: float  # the probability that an entity without a recorded value has the property
    right: float  # 0 where the entity lacks the property
    constant: float  # how right the constant would have been
    weight: float

    @property
    def counted(self) -> float:
        """Its weight in a precision, reduced where the entity may have the property without a recorded value."""
        return self.weight * (1 - self.unknown)


@dataclass(frozen=True)
class Line:
    """A line from log odds to log odds: slope and intercept for all properties, offsets for each property and its classes."""

    slope: float = 1.0
    intercept: float = 0.0
    offsets: Mapping[Key, float] = field(default_factory=dict)
    by_class: Mapping[tuple[str, Key], float] = field(default_factory=dict)  # around the offset of the property

    def __call__(self, key: Key, probability: float, class_name: str = "") -> float:
        """The calibrated probability."""
        chance = min(max(probability, MIN_CHANCE), 1 - MIN_CHANCE)  # in plain Python: it is asked for each gap
        model_odds = min(max(math.log(chance / (1 - chance)), -MAX_LOG_ODDS), MAX_LOG_ODDS)
        odds = self.intercept + self.slope * model_odds + self.offsets.get(key, 0.0)
        odds += self.by_class.get((class_name, key), 0.0)
        return 1 / (1 + math.exp(-min(max(odds, -MAX_LOG_ODDS), MAX_LOG_ODDS)))

    @classmethod
    def fit(
        cls,
        keys: Sequence[Key],
        probabilities: Floats,
        truth: Floats,
        weights: Floats,
        classes: Sequence[str] | None = None,
    ) -> Self:
        """Fit the line by maximum likelihood of the truth (n,), 0 to 1; without `classes` (n,) no class has its own offset."""
        if len(keys) < MIN_OUTCOMES or weights.sum() == 0:
            return cls()
        properties, place = _numbered(keys)
        data = _Data(log_odds(probabilities), place, truth, weights, len(properties))
        fold = _folds(len(keys))
        costs = [
            sum(data.cost(data.fitted(width, fold != held_out), fold == held_out) for held_out in range(FOLDS))
            for width in WIDTHS
        ]
        width = next(
            width for width, cost in zip(WIDTHS, costs, strict=True) if cost <= min(costs) + MIN_GAIN_OF_WIDER_PRIOR
        )
        everything = np.ones(len(keys), dtype=bool)
        parameters = data.fitted(width, everything)
        if parameters[1] < 0:  # the model's log odds do not predict the truth
            data = data._replace(odds=np.zeros_like(data.odds))
            parameters = data.fitted(width, everything)
            parameters[1] = 0.0
        offsets = dict(zip(properties, parameters[2:].tolist(), strict=True))
        by_class = {} if classes is None else _offsets_by_class(data, parameters, list(zip(classes, keys, strict=True)))
        return cls(float(parameters[1]), float(parameters[0]), offsets, by_class)

    def then(self, other: Line) -> Line:
        """The composition of this line and another, which is a line, too."""
        keys = {**self.offsets, **other.offsets}
        offsets = {key: other.slope * self.offsets.get(key, 0.0) + other.offsets.get(key, 0.0) for key in keys}
        pairs = {**self.by_class, **other.by_class}
        by_class = {pair: other.slope * self.by_class.get(pair, 0.0) + other.by_class.get(pair, 0.0) for pair in pairs}
        return Line(other.slope * self.slope, other.slope * self.intercept + other.intercept, offsets, by_class)

    def to_json(self) -> dict[str, Any]:
        """The line as plain data."""
        offsets = [[class_name, path, round(offset, 6)] for (class_name, path), offset in self.offsets.items()]
        by_class = [[name, *key, round(offset, 6)] for (name, key), offset in self.by_class.items()]
        return {"slope": self.slope, "intercept": self.intercept, "offsets": offsets, "by_class": by_class}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The line of plain data."""
        offsets = {(class_of_key, path): offset for class_of_key, path, offset in data["offsets"]}
        by_class = {(name, (class_of_key, path)): offset for name, class_of_key, path, offset in data["by_class"]}
        return cls(data["slope"], data["intercept"], offsets, by_class)


@dataclass(frozen=True)
class Presence:
    """Calibrated presence: the probability that an entity has a property, from the model's presence.

    `usual` is the recorded share of each property, estimated by the calibrated presence of entities that have it;
    `usual_by_class` that of a property among the entities of a class, where there are enough.
    """

    line: Line = Line()
    usual: Mapping[Key, float] = field(default_factory=dict)
    usual_by_class: Mapping[tuple[str, Key], float] = field(default_factory=dict)

    def __call__(self, key: Key, presence: float | None, class_name: str = "", *, has_place: bool = False) -> float:
        """The calibrated presence; `has_place`: the entity has a place for a value, such as a blank cell."""
        if presence is None:
            return 1.0
        recorded = self.line(key, presence, class_name)
        usual = self.usual_by_class.get((class_name, key), self.usual.get(key))
        if usual is None:
            return recorded
        has_property = min(recorded / max(usual, 1e-6 if has_place else MIN_RECORDED_SHARE), 1.0)
        return UNRECORDED_ODDS * has_property / (UNRECORDED_ODDS * has_property + (1 - has_property))

    @classmethod
    def fit(cls, outcomes: Sequence[Outcome]) -> Self:
        """Fit to the outcomes whose presence is known."""
        line = fit_presence(outcomes)
        property_presences: dict[Key, list[float]] = {}
        class_presences: dict[tuple[str, Key], list[float]] = {}
        for outcome in outcomes:
            if outcome.right is not None and outcome.presence is not None:
                key, name = outcome.property, outcome.class_name
                presence = line(key, outcome.presence, name)
                property_presences.setdefault(key, []).append(presence)
                class_presences.setdefault((name, key), []).append(presence)
        return cls(
            line,
            {key: float(np.quantile(presences, RECORDED_QUANTILE)) for key, presences in property_presences.items()},
            {
                pair: float(np.quantile(presences, RECORDED_QUANTILE))
                for pair, presences in class_presences.items()
                if len(presences) >= MIN_OUTCOMES
            },
        )

    def to_json(self) -> dict[str, Any]:
        """The presence as plain data."""
        usual = [[*key, round(presence, 6)] for key, presence in self.usual.items()]
        by_class = [[name, *key, round(presence, 6)] for (name, key), presence in self.usual_by_class.items()]
        return {"line": self.line.to_json(), "usual": usual, "usual_by_class": by_class}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The presence of plain data."""
        return cls(
            Line.from_json(data["line"]),
            {(class_of_key, path): presence for class_of_key, path, presence in data["usual"]},
            {(name, (class_of_key, path)): presence for name, class_of_key, path, presence in data["usual_by_class"]},
        )


@dataclass(frozen=True)
class UnlabelledPresence(Presence):
    """Presence learnt from positive and unlabelled outcomes (Elkan and Noto 2008), of each property by itself.

    The outcomes with a property are positive. Those without one are unlabelled: some of these have it too, and the weights of the
    positive ones add up to their number. Then presence is the odds of being a positive outcome.
    """

    lines: Mapping[Key, Line] = field(default_factory=dict)

    def __call__(self, key: Key, presence: float | None, class_name: str = "", *, has_place: bool = False) -> float:
        if presence is None:
            return 1.0
        positive = self.lines.get(key, self.line)(key, presence, class_name)
        return min(positive / max(1 - positive, MIN_CHANCE), MAX_UNLABELLED_PRESENCE)

    @classmethod
    def fit(cls, outcomes: Sequence[Outcome]) -> Self:
        by_property: dict[Key, list[Outcome]] = {}
        for outcome in outcomes:
            by_property.setdefault(outcome.property, []).append(outcome)
        return cls(lines={key: fit_presence(of_property) for key, of_property in by_property.items()})


class _Data(NamedTuple):
    """The data that a line is fitted to. Parameters: intercept, slope, and an offset for each of K properties."""

    odds: Floats  # (n,)
    place: Ints  # (n,) of the property
    truth: Floats
    weights: Floats
    size: int  # K

    def fitted(self, width: float, chosen: npt.NDArray[np.bool_]) -> Floats:
        """(2 + K,) the likeliest parameters by Newton's method; the offsets' block of the Hessian is diagonal."""
        odds, place, truth, weights = self.odds[chosen], self.place[chosen], self.truth[chosen], self.weights[chosen]
        line = np.stack([np.ones(len(odds)), odds], 1)  # (n, 2)
        parameters = np.zeros(2 + self.size)
        parameters[1] = 1.0
        precision = 1 / width**2
        for _ in range(MAX_NEWTON_STEPS):
            chance = _sigmoid(line @ parameters[:2] + parameters[2:][place])
            error, curve = weights * (chance - truth), weights * np.maximum(chance * (1 - chance), 1e-6)
            gradient = line.T @ error + PRIOR_OF_LINE * (parameters[:2] - (0, 1))
            offset_gradient = np.bincount(place, error, self.size) + precision * parameters[2:]
            diagonal = np.bincount(place, curve, self.size) + precision  # (K,)
            cross = np.stack([np.bincount(place, curve * column, self.size) for column in line.T], 1)  # (K, 2)
            line_hessian = (line * curve[:, None]).T @ line + PRIOR_OF_LINE * np.eye(2)
            reduced = line_hessian - cross.T @ (cross / diagonal[:, None])
            step = np.linalg.solve(reduced, gradient - cross.T @ (offset_gradient / diagonal))
            offset_step = (offset_gradient - cross @ step) / diagonal
            size = max(1.0, np.abs(np.concatenate([step, offset_step])).max() / 2)  # far from the optimum shorter steps
            parameters -= np.concatenate([step, offset_step]) / size
            if np.abs(np.concatenate([step, offset_step])).max() < NEWTON_TOLERANCE:
                break
        return parameters

    def cost(self, parameters: Floats, chosen: npt.NDArray[np.bool_]) -> float:
        """-log p of some outcomes."""
        return _cost(self.lines(parameters)[chosen], self.truth[chosen], self.weights[chosen])

    def lines(self, parameters: Floats) -> Floats:
        """(n,) the calibrated log odds."""
        return np.asarray(parameters[0] + parameters[1] * self.odds + parameters[2:][self.place])


def _numbered(names: Sequence[Any]) -> tuple[list[Any], Ints]:
    """The distinct names, and (n,) the number of each name among them."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return list(numbers), np.array([numbers[name] for name in names], dtype=np.int64)


def _cost(odds: Floats, truth: Floats, weights: Floats) -> float:
    """-log p of the truth under log odds."""
    return float((weights * (np.logaddexp(0, odds) - truth * odds)).sum())


def _offsets_by_class(
    data: _Data, parameters: Floats, pairs: Sequence[tuple[str, Key]]
) -> dict[tuple[str, Key], float]:
    """The offsets of classes around those of their properties; empty where cross-validation prefers none."""
    names, place = _numbered(pairs)
    if len(names) == len({key for _, key in names}):  # each property is of one class
        return {}
    odds, truth, weights = data.lines(parameters), data.truth, data.weights
    fold = _folds(len(odds))

    def fitted(width: float, chosen: npt.NDArray[np.bool_]) -> Floats:
        offsets = np.zeros(len(names))
        if width == 0:
            return offsets
        where = place[chosen]
        for _ in range(MAX_NEWTON_STEPS):
            chance = _sigmoid(odds[chosen] + offsets[where])
            gradient = np.bincount(where, weights[chosen] * (chance - truth[chosen]), len(names)) + offsets / width**2
            curve = np.bincount(where, weights[chosen] * np.maximum(chance * (1 - chance), 1e-6), len(names))
            step = (gradient / (curve + 1 / width**2)).clip(-1, 1)
            offsets -= step
            if np.abs(step).max() < NEWTON_TOLERANCE:
                break
        return offsets

    costs = []
    for width in WIDTHS_BY_CLASS:
        cost = 0.0
        for held_out in range(FOLDS):
            offsets = fitted(width, fold != held_out)
            test = fold == held_out
            cost += _cost(odds[test] + offsets[place[test]], truth[test], weights[test])
        costs.append(cost)
    width = next(
        width
        for width, cost in zip(WIDTHS_BY_CLASS, costs, strict=True)
        if cost <= min(costs) + MIN_GAIN_OF_WIDER_PRIOR
    )
    if width == 0:
        return {}
    return dict(zip(names, fitted(width, np.ones(len(odds), dtype=bool)).tolist(), strict=True))


class Gain(NamedTuple):
    """The gains per statement of writing a property's statements on held-out entities, with their standard errors."""

    statements: int  # about values that the entities have
    lacking: int
    over_nothing: float
    over_constant: float
    error_over_nothing: float
    error_over_constant: float
    written: int  # statements that reach the threshold
    sum_of_gains: float  # of these, without the imagined statements

    @property
    def is_significant(self) -> bool:
        """Whether both gains are above 0 by more than noise."""
        return (
            self.over_nothing > MIN_GAIN_IN_ERRORS * self.error_over_nothing
            and self.over_constant > MIN_GAIN_IN_ERRORS * self.error_over_constant
        )


@dataclass(frozen=True)
class Calibration:
    """Presence, correctness and intervals calibrated, and the statements that gains and thresholds are measured on."""

    presence: Presence = Presence()
    correctness: Line = Line()
    levels: Levels = Levels()
    statements: Mapping[Key, Sequence[Statement]] = field(default_factory=dict)

    @classmethod
    def fit(cls, outcomes: Sequence[Outcome], presence_kind: type[Presence] = Presence) -> Self:
        """Fit to the outcomes of a trial of completion on held-out values: `kbdisk.completion.trial.outcomes_of`."""
        presence, correctness = presence_kind.fit(outcomes), fit_correctness(outcomes)
        fold = _folds(len(outcomes))
        statements: dict[Key, list[Statement]] = {}
        for held_out in range(FOLDS):
            training = [outcome for outcome, number in zip(outcomes, fold, strict=True) if number != held_out]
            without = cls(presence_kind.fit(training), fit_correctness(training))
            for outcome, number in zip(outcomes, fold, strict=True):
                if number == held_out:
                    statements.setdefault(outcome.property, []).append(without.judged(outcome))
        levels = Levels.fit([rank for outcome in outcomes for rank in outcome.ranks])
        return cls(presence, correctness, levels, statements)

    def adapted(self, outcomes: Sequence[Outcome]) -> Calibration:
        """The calibration with correctness recalibrated on outcomes of other data; presence stays the same."""
        calibrated = [
            outcome
            if outcome.correctness is None
            else outcome._replace(
                correctness=self.correctness(outcome.property, outcome.correctness, outcome.class_name)
            )
            for outcome in outcomes
        ]
        fold = _folds(len(outcomes))
        statements: dict[Key, list[Statement]] = {}
        for held_out in range(FOLDS):
            training = [outcome for outcome, number in zip(calibrated, fold, strict=True) if number != held_out]
            without = Calibration(self.presence, fit_correctness(training))
            for outcome, number in zip(calibrated, fold, strict=True):
                if number == held_out:
                    statements.setdefault(outcome.property, []).append(without.judged(outcome))
        correctness = self.correctness.then(fit_correctness(calibrated))
        hidden = Counter(outcome.property for outcome in outcomes if outcome.right is not None)
        measured = {
            key: property_statements for key, property_statements in statements.items() if hidden[key] >= MIN_OUTCOMES
        }
        return Calibration(self.presence, correctness, self.levels, {**self.statements, **measured})

    @property
    def is_known(self) -> bool:
        """Whether it was fitted to any held-out values."""
        return bool(self.statements)

    def judged(self, outcome: Outcome) -> Statement:
        """The statement of an outcome, with its calibrated confidence."""
        presence = self.presence(outcome.property, outcome.presence, outcome.class_name)
        stated = outcome.correctness
        correctness = 0.0 if stated is None else self.correctness(outcome.property, stated, outcome.class_name)
        unknown = presence if outcome.right is None and not outcome.is_declared else 0.0
        return Statement(presence * correctness, unknown, outcome.right or 0.0, outcome.constant or 0.0, outcome.weight)

    def confidence(self, key: Key, presence: float | None, correctness: float, class_name: str = "") -> float:
        """The probability that a statement is right."""
        return self.presence(key, presence, class_name) * self.correctness(key, correctness, class_name)

    def gain(self, key: Key, threshold: float = THRESHOLD) -> Gain | None:
        """The gain of writing a property; None where none of its values was held out."""
        statements = self.statements.get(key)
        if not statements:
            return None
        confidence, unknown, right, constant, weight = np.array(statements).T
        weight = weight * (1 - unknown)
        gains = (confidence >= threshold) * _gain(right)
        nothing, beyond = _mean(gains, weight), _mean(gains - _gain(constant), weight)
        lacking = int(((constant == 0) & (right == 0)).sum())
        return Gain(
            len(statements) - lacking,
            lacking,
            nothing[0],
            beyond[0],
            nothing[1],
            beyond[1],
            int((confidence >= threshold).sum()),
            float((weight * gains).sum()),
        )

    def precision(self, threshold: float, keys: Iterable[Key] | None = None) -> float | None:
        """The share of right statements among those of some properties that reach a threshold; None where none does."""
        chosen = self.statements.values() if keys is None else [self.statements.get(key, ()) for key in keys]
        return precision_of(
            [statement for statements in chosen for statement in statements if statement.confidence >= threshold]
        )

    def threshold_for(self, precision: float, key: Key | None = None) -> float | None:
        """The lowest threshold at which the held-out statements of a property, or of all, reach a precision; None: none does.

        The precision of a property is shrunk towards that of all properties at the same threshold: few statements of a
        property that happen to be right are no measurement.
        """
        thresholds, right, weight = self._cumulated
        overall = (right + precision) / (weight + 1)
        if key is None:
            reached = overall >= precision
        else:
            property_right, property_weight = _up_to(thresholds, self.statements.get(key, ()))
            reached = (property_right + PRIOR_OF_PRECISION * overall) / (
                property_weight + PRIOR_OF_PRECISION
            ) >= precision
        return float(thresholds[reached].min()) if reached.any() else None

    @cached_property
    def _cumulated(self) -> tuple[Floats, Floats, Floats]:
        """(n,) the confidences of statements, falling; how many statements that reach each are right, and how many count."""
        everything = [statement for statements in self.statements.values() for statement in statements]
        thresholds = np.unique([statement.confidence for statement in everything])[::-1]
        return thresholds, *_up_to(thresholds, everything)

    def to_json(self) -> dict[str, Any]:
        """The calibration as plain data."""
        return {
            "presence": self.presence.to_json(),
            "correctness": self.correctness.to_json(),
            "levels": self.levels.to_json(),
            "statements": [
                {
                    "class": class_name,
                    "path": path,
                    "outcomes": [[round(number, 6) for number in statement] for statement in statements],
                }
                for (class_name, path), statements in self.statements.items()
            ],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The calibration of plain data."""
        statements = {
            (row["class"], row["path"]): [Statement(*outcome) for outcome in row["outcomes"]]
            for row in data["statements"]
        }
        return cls(
            Presence.from_json(data["presence"]),
            Line.from_json(data["correctness"]),
            Levels.from_json(data["levels"]),
            statements,
        )


class Bin(NamedTuple):
    """Statements of about the same confidence."""

    confidence: float  # the mean
    right: float  # the share
    weight: float  # how many


@dataclass(frozen=True)
class Reliability:
    """The reliability diagram: the confidence of statements beside the share of them that is right, in bins."""

    bins: Sequence[Bin]

    @classmethod
    def of(cls, statements: Iterable[Statement]) -> Self:
        """Sort statements into bins of equal width, without empty bins."""
        by_bin: dict[int, list[Statement]] = {}
        for statement in statements:
            if statement.counted:
                by_bin.setdefault(min(int(statement.confidence * BINS), BINS - 1), []).append(statement)
        bins = []
        for _, in_bin in sorted(by_bin.items()):
            weight = math.fsum(statement.counted for statement in in_bin)
            mean = math.fsum(statement.confidence * statement.counted for statement in in_bin) / weight
            right = math.fsum(statement.right * statement.counted for statement in in_bin) / weight
            bins.append(Bin(mean, right, weight))
        return cls(bins)

    @property
    def weight(self) -> float:
        """How many statements there are."""
        return math.fsum(confidence_bin.weight for confidence_bin in self.bins)

    @property
    def error(self) -> float | None:
        """The expected calibration error; None of no statements."""
        gaps = math.fsum(weight * abs(confidence - right) for confidence, right, weight in self.bins)
        return gaps / self.weight if self.bins else None

    def to_json(self) -> dict[str, Any]:
        """The reliability as plain data."""
        return {"calibration_error": self.error, "bins": [confidence_bin._asdict() for confidence_bin in self.bins]}


def precision_of(statements: Sequence[Statement]) -> float | None:
    """The share of right statements; None where there is none."""
    weight = math.fsum(statement.counted for statement in statements)
    return math.fsum(statement.right * statement.weight for statement in statements) / weight if weight else None


def _up_to(thresholds: Floats, statements: Sequence[Statement]) -> tuple[Floats, Floats]:
    """(n,) how many of the statements that reach each of falling thresholds are right, and how many count."""
    if not statements:
        return np.zeros(len(thresholds)), np.zeros(len(thresholds))
    falling = sorted(statements, key=lambda statement: -statement.confidence)
    confidence = np.array([statement.confidence for statement in falling])
    right = np.cumsum([0.0, *(statement.right * statement.weight for statement in falling)])
    weight = np.cumsum([0.0, *(statement.counted for statement in falling)])
    count = np.searchsorted(-confidence, -thresholds, side="right")
    return right[count], weight[count]


def fit_presence(outcomes: Sequence[Outcome]) -> Line:
    """The line of presence, from the outcomes for which the model predicts one."""
    stated = [outcome for outcome in outcomes if outcome.presence is not None]
    return Line.fit(
        [outcome.property for outcome in stated],
        np.array([outcome.presence for outcome in stated], dtype=np.float64),
        np.array([float(outcome.right is not None) for outcome in stated]),
        np.array([outcome.weight for outcome in stated]),
        [outcome.class_name for outcome in stated],
    )


def fit_correctness(outcomes: Sequence[Outcome]) -> Line:
    """The line of correctness, from the statements about what entities have."""
    stated = [outcome for outcome in outcomes if outcome.right is not None and outcome.correctness is not None]
    return Line.fit(
        [outcome.property for outcome in stated],
        np.array([outcome.correctness for outcome in stated], dtype=np.float64),
        np.array([outcome.right for outcome in stated], dtype=np.float64),
        np.array([outcome.weight for outcome in stated]),
        [outcome.class_name for outcome in stated],
    )


def _gain(right: Floats) -> Floats:
    """(n,) the gain of each statement: 1 where it is right, -WRONG_COST where it is wrong."""
    return np.asarray(right - WRONG_COST * (1 - right))


def _mean(gains: Floats, weights: Floats) -> tuple[float, float]:
    """The mean of gains, with imagined right and wrong statements, and its standard error."""
    values = np.concatenate([gains, [1.0, -WRONG_COST]])
    sizes = np.concatenate([weights, np.full(2, PRIOR_STATEMENTS / 2)])
    mean = float((values * sizes).sum() / sizes.sum())
    spread = ((values - mean) ** 2 * sizes**2).sum()
    return mean, float(math.sqrt(spread) / sizes.sum())


def _folds(count: int) -> Ints:
    """(n,) the fold of each outcome."""
    return np.random.default_rng(0).permutation(count) % FOLDS


def log_odds(probabilities: Floats) -> Floats:
    """The log odds, clipped."""
    chance = probabilities.clip(MIN_CHANCE, 1 - MIN_CHANCE)
    return np.asarray(np.log(chance / (1 - chance)).clip(-MAX_LOG_ODDS, MAX_LOG_ODDS))


def _sigmoid(odds: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-odds.clip(-40, 40))))
