"""Confidence: the probability that a statement is right, as presence times correctness, each calibrated on held-out data.

    presence      the probability that the entity has the property
    correctness   the probability that the value is right, given that the entity has the property

Both are calibrated per property by logistic regression on the model's own log odds, with shrinkage: all properties share
a slope and an intercept, and each has an offset with a Gaussian prior whose width cross-validation chooses.

Evidence that a property should be filled by default: on held-out statements, writing those whose confidence reaches the
threshold gains more than writing nothing and more than writing the constant everywhere. A wrong statement loses as much as
a right one gains. The confidences that this is measured with are cross-fitted.

n outcomes   K properties
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

Key: TypeAlias = tuple[str, str]  # the class and the path of a property, as rows of an evaluation have them
Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]

THRESHOLD = 0.5  # of the confidence, where the user states none
THRESHOLDS = (0.9, 0.75, 0.5)  # that a summary shows
FOLDS = 5
WIDTHS = (0.1, 0.3, 1.0, 3.0)  # of the prior of the offsets, in log odds
PRIOR_OF_LINE = 1.0  # precision of the prior of intercept and slope, around 0 and 1
MAX_LOG_ODDS = 12.0
MIN_OUTCOMES = 10  # from which on anything is calibrated
NOISE = 1.64  # standard errors by which a gain has to be above 0: one-sided, 95 %
SIMPLER = 1.0  # nats of cross-validation that a wider prior has to gain
PRIOR_STATEMENTS = 2.0  # imagined statements, half of them wrong, in every estimate of a gain
STEPS, CLOSE = 100, 1e-9  # of Newton's method


class Outcome(NamedTuple):
    """A statement about a held-out entity that completion would make, and whether it would be right."""

    property: Key
    presence: float | None  # the model's; None where it has no opinion
    correctness: float | None  # the model's; None where it makes no statement
    right: float | None  # 0 to 1; of a set the share of its members; None where the entity lacks the property
    constant: float | None  # how right the constant would be; None where the entity lacks the property
    weight: float = 1.0  # how many such statements it stands for


class Statement(NamedTuple):
    """A held-out statement, as it was judged."""

    confidence: float  # cross-fitted
    right: float  # 0 where the entity lacks the property
    constant: float  # how right the constant would have been
    weight: float


@dataclass(frozen=True)
class Line:
    """Log odds to log odds: a slope and an intercept for all properties, and an offset for each."""

    slope: float = 1.0
    intercept: float = 0.0
    offsets: Mapping[Key, float] = field(default_factory=dict)

    def __call__(self, key: Key, probability: float) -> float:
        """The calibrated probability."""
        odds = self.intercept + self.slope * float(log_odds(np.array([probability]))[0]) + self.offsets.get(key, 0.0)
        return 1 / (1 + math.exp(-max(-MAX_LOG_ODDS, min(MAX_LOG_ODDS, odds))))

    @classmethod
    def fit(cls, keys: Sequence[Key], probabilities: Floats, truth: Floats, weights: Floats) -> Self:
        """The line under which the truth (n,), 0 to 1, is likeliest."""
        if len(keys) < MIN_OUTCOMES or weights.sum() == 0:
            return cls()
        names, place = np.unique(np.array([f"{of}\n{path}" for of, path in keys]), return_inverse=True)
        data = _Data(log_odds(probabilities), place.astype(np.int64), truth, weights, len(names))
        fold = _folds(len(keys))
        costs = [
            sum(data.cost(data.fitted(width, fold != held_out), fold == held_out) for held_out in range(FOLDS))
            for width in WIDTHS
        ]
        width = next(width for width, cost in zip(WIDTHS, costs, strict=True) if cost <= min(costs) + SIMPLER)
        everything = np.ones(len(keys), dtype=bool)
        found = data.fitted(width, everything)
        if found[1] < 0:  # what the model says has nothing to do with the truth
            found = data._replace(odds=np.zeros_like(data.odds)).fitted(width, everything)
            found[1] = 0.0
        offsets = {
            (name.split("\n", 1)[0], name.split("\n", 1)[1]): float(offset)
            for name, offset in zip(names.tolist(), found[2:], strict=True)
        }
        return cls(float(found[1]), float(found[0]), offsets)

    def to_json(self) -> dict[str, Any]:
        """Itself as plain data."""
        offsets = [[of, path, round(offset, 6)] for (of, path), offset in self.offsets.items()]
        return {"slope": self.slope, "intercept": self.intercept, "offsets": offsets}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Itself again."""
        return cls(data["slope"], data["intercept"], {(of, path): offset for of, path, offset in data["offsets"]})


class _Data(NamedTuple):
    """What a line is fitted to. Parameters: intercept, slope, and an offset for each of K properties."""

    odds: Floats  # (n,)
    place: Ints  # (n,) of the property
    truth: Floats
    weights: Floats
    size: int  # K

    def fitted(self, width: float, chosen: npt.NDArray[np.bool_]) -> Floats:
        """(2 + K,) the likeliest parameters by Newton's method; the offsets' block of the Hessian is diagonal."""
        odds, place, truth, weights = self.odds[chosen], self.place[chosen], self.truth[chosen], self.weights[chosen]
        line = np.stack([np.ones(len(odds)), odds], 1)  # (n, 2)
        found = np.zeros(2 + self.size)
        found[1] = 1.0
        precision = 1 / width**2
        for _ in range(STEPS):
            chance = _sigmoid(line @ found[:2] + found[2:][place])
            error, curve = weights * (chance - truth), weights * np.maximum(chance * (1 - chance), 1e-6)
            gradient = line.T @ error + PRIOR_OF_LINE * (found[:2] - (0, 1))
            of_offsets = np.bincount(place, error, self.size) + precision * found[2:]
            diagonal = np.bincount(place, curve, self.size) + precision  # (K,)
            cross = np.stack([np.bincount(place, curve * column, self.size) for column in line.T], 1)  # (K, 2)
            whole = (line * curve[:, None]).T @ line + PRIOR_OF_LINE * np.eye(2)
            reduced = whole - cross.T @ (cross / diagonal[:, None])
            step = np.linalg.solve(reduced, gradient - cross.T @ (of_offsets / diagonal))
            of_places = (of_offsets - cross @ step) / diagonal
            size = max(1.0, np.abs(np.concatenate([step, of_places])).max() / 2)  # far from the optimum shorter steps
            found -= np.concatenate([step, of_places]) / size
            if np.abs(np.concatenate([step, of_places])).max() < CLOSE:
                break
        return found

    def cost(self, parameters: Floats, chosen: npt.NDArray[np.bool_]) -> float:
        """-log p of some outcomes."""
        odds = parameters[0] + parameters[1] * self.odds[chosen] + parameters[2:][self.place[chosen]]
        truth, weights = self.truth[chosen], self.weights[chosen]
        return float((weights * (np.logaddexp(0, odds) - truth * odds)).sum())


class Evidence(NamedTuple):
    """What writing a property's statements gains on held-out entities, per statement, and the standard errors of these."""

    statements: int  # about values that the entities have
    lacking: int
    over_nothing: float
    over_constant: float
    error_over_nothing: float
    error_over_constant: float

    @property
    def suffices(self) -> bool:
        """Whether both gains are above 0 by more than noise."""
        return (
            self.over_nothing > NOISE * self.error_over_nothing
            and self.over_constant > NOISE * self.error_over_constant
        )


@dataclass(frozen=True)
class Calibration:
    """Presence and correctness calibrated, the evidence for each property, and what each threshold would have given."""

    presence: Line = Line()
    correctness: Line = Line()
    statements: Mapping[Key, Sequence[Statement]] = field(default_factory=dict)

    @classmethod
    def fit(cls, outcomes: Sequence[Outcome]) -> Self:
        """Learn from the outcomes of a trial."""
        presence, correctness = _lines(outcomes)
        fold = _folds(len(outcomes))
        statements: dict[Key, list[Statement]] = {}
        for held_out in range(FOLDS):
            lines = _lines([one for one, number in zip(outcomes, fold, strict=True) if number != held_out])
            for outcome in (one for one, number in zip(outcomes, fold, strict=True) if number == held_out):
                confidence = confidence_of(lines, outcome.property, outcome.presence, outcome.correctness)
                own = Statement(confidence, outcome.right or 0.0, outcome.constant or 0.0, outcome.weight)
                statements.setdefault(outcome.property, []).append(own)
        return cls(presence, correctness, statements)

    @property
    def is_known(self) -> bool:
        """Whether anything was held out to learn from."""
        return bool(self.statements)

    def confidence(self, key: Key, presence: float | None, correctness: float) -> float:
        """The probability that a statement is right."""
        return confidence_of((self.presence, self.correctness), key, presence, correctness)

    def evidence(self, key: Key, threshold: float = THRESHOLD) -> Evidence | None:
        """What writing a property gains; None where nothing of it was held out."""
        own = self.statements.get(key)
        if not own:
            return None
        confidence, right, constant, weight = np.array(own).T
        gain = (confidence >= threshold) * (2 * right - 1)
        nothing, beyond = _mean(gain, weight), _mean(gain - (2 * constant - 1), weight)
        lacking = int(((constant == 0) & (right == 0)).sum())
        return Evidence(len(own) - lacking, lacking, nothing[0], beyond[0], nothing[1], beyond[1])

    def precision(self, threshold: float, keys: Iterable[Key] | None = None) -> float | None:
        """The share of right statements among those of some properties that reach a threshold; None where none does."""
        chosen = self.statements.values() if keys is None else [self.statements.get(key, ()) for key in keys]
        return precision_of([one for several in chosen for one in several if one.confidence >= threshold])

    def threshold_for(self, precision: float, key: Key | None = None) -> float | None:
        """The lowest threshold at which the held-out statements of a property, or of all, reached a precision; None: none did."""
        chosen = self.statements.values() if key is None else [self.statements.get(key, ())]
        own = sorted((one for several in chosen for one in several), reverse=True)
        right = weight = 0.0
        found = None
        for place, (confidence, truth, _, amount) in enumerate(own):
            right, weight = right + truth * amount, weight + amount
            is_last_of_equals = place + 1 == len(own) or own[place + 1][0] < confidence
            if is_last_of_equals and (right + precision) / (weight + 1) >= precision:
                found = confidence
        return found

    def to_json(self) -> dict[str, Any]:
        """Itself as plain data."""
        return {
            "presence": self.presence.to_json(),
            "correctness": self.correctness.to_json(),
            "statements": [
                {"class": of, "path": path, "outcomes": [[round(number, 6) for number in one] for one in own]}
                for (of, path), own in self.statements.items()
            ],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Itself again."""
        statements = {
            (row["class"], row["path"]): [Statement(*one) for one in row["outcomes"]] for row in data["statements"]
        }
        return cls(Line.from_json(data["presence"]), Line.from_json(data["correctness"]), statements)


def precision_of(statements: Sequence[Statement]) -> float | None:
    """The share of right statements; None where there is none."""
    weight = math.fsum(one.weight for one in statements)
    return math.fsum(one.right * one.weight for one in statements) / weight if weight else None


def confidence_of(lines: tuple[Line, Line], key: Key, presence: float | None, correctness: float | None) -> float:
    """Presence times correctness, each calibrated by its line; 0 where no statement is made."""
    if correctness is None:
        return 0.0
    there = 1.0 if presence is None else lines[0](key, presence)
    return there * lines[1](key, correctness)


def _lines(outcomes: Sequence[Outcome]) -> tuple[Line, Line]:
    """The lines of presence and of correctness."""
    by_presence = [one for one in outcomes if one.presence is not None]
    by_statement = [one for one in outcomes if one.right is not None and one.correctness is not None]
    return (
        Line.fit(
            [one.property for one in by_presence],
            np.array([one.presence for one in by_presence], dtype=np.float64),
            np.array([float(one.right is not None) for one in by_presence]),
            np.array([one.weight for one in by_presence]),
        ),
        Line.fit(
            [one.property for one in by_statement],
            np.array([one.correctness for one in by_statement], dtype=np.float64),
            np.array([one.right for one in by_statement], dtype=np.float64),
            np.array([one.weight for one in by_statement]),
        ),
    )


def _mean(gains: Floats, weights: Floats) -> tuple[float, float]:
    """The mean of gains, with imagined right and wrong statements, and its standard error."""
    values = np.concatenate([gains, [1.0, -1.0]])
    sizes = np.concatenate([weights, np.full(2, PRIOR_STATEMENTS / 2)])
    mean = float((values * sizes).sum() / sizes.sum())
    spread = ((values - mean) ** 2 * sizes**2).sum()
    return mean, float(math.sqrt(spread) / sizes.sum())


def _folds(count: int) -> Ints:
    """(n,) the fold of each outcome."""
    return np.random.default_rng(0).permutation(count) % FOLDS


def log_odds(probabilities: Floats) -> Floats:
    """The log odds, none of them extreme."""
    chance = probabilities.clip(1e-9, 1 - 1e-9)
    return np.asarray(np.log(chance / (1 - chance)).clip(-MAX_LOG_ODDS, MAX_LOG_ODDS))


def _sigmoid(odds: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-odds.clip(-40, 40))))
