"""Which statements are written: those whose confidence reaches the threshold, of properties where evidence says that it pays.

    asked    blank cells, nulls, missing parts of a value, what the schema requires: threshold and evidence
    likely   these, and absent properties: threshold and evidence
    all      every property that the entity's class has: neither, unless a threshold or a precision is stated

Confidence is presence times correctness, both calibrated: see `kbdisk.evaluation.calibration`. Of a missing part of a value, and
of what the schema requires, presence is 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kbdisk.completion.choices import Choices
from kbdisk.completion.gaps import Gap
from kbdisk.completion.predictions import Prediction
from kbdisk.completion.summary import Measured
from kbdisk.entity import Path
from kbdisk.evaluation.calibration import THRESHOLD, THRESHOLDS, Calibration, Evidence, precision_of
from kbdisk.evaluation.intervals import Key
from kbdisk.schemas.composites.date import Date
from kbdisk.training.trained import Trained

NOT_ASKED = "not asked for"
ABSENT = "probably the entity has none"
NO_EVIDENCE = "no gain on held-out values"
UNMEASURED = "no held-out values to measure confidence on"


@dataclass(frozen=True)
class Decision:
    """A statement with its confidence; why it is not written, where it is not."""

    filling: Prediction
    presence: float  # calibrated
    correctness: float
    why_not: str = ""

    @property
    def confidence(self) -> float:
        """The probability that the statement is right."""
        return self.presence * self.correctness


class Decider:
    """Decides which statements of a model are written."""

    def __init__(self, trained: Trained, choices: Choices, calibration: Calibration | None = None) -> None:
        """By the model's own calibration, unless there is another for the entities in question."""
        self.codec, self.choices = trained.codec, choices
        self.calibration = calibration or calibration_of(trained)
        self._evidence: dict[tuple[Key, float], Evidence | None] = {}
        self._thresholds: dict[Key, float | None] = {}
        self.keys: set[Key] = set()  # properties of which statements were made that a threshold may write

    @property
    def minimum(self) -> float:
        """The least confidence of what is written, whatever property it is of."""
        choices = self.choices
        stated = choices.min_confidence if choices.precision is None else choices.precision
        return stated if stated is not None else 0.0 if choices.fill == "all" else THRESHOLD

    def threshold(self, key: Key) -> float | None:
        """The confidence from which on statements of a property are written; None where no confidence suffices."""
        choices = self.choices
        if choices.precision is not None:
            if key not in self._thresholds:
                self._thresholds[key] = self.calibration.threshold_for(choices.precision, key)
            return self._thresholds[key]
        return self.minimum

    def why_not(self, key: Key) -> str:
        """Why nothing of a property is written, whatever its confidence."""
        threshold = self.threshold(key)
        if threshold is None:
            return f"its held-out values never reached a precision of {self.choices.precision:g}"
        if self.choices.fill == "all":
            return ""
        if not self.calibration.is_known:
            return UNMEASURED
        if (key, threshold) not in self._evidence:
            self._evidence[key, threshold] = self.calibration.evidence(key, threshold)
        evidence = self._evidence[key, threshold]
        return "" if evidence is not None and evidence.suffices else NO_EVIDENCE

    def measured(self) -> Measured | None:
        """The share of right statements on held-out data, of the properties of which statements were made."""
        if not self.calibration.is_known:
            return None
        statements = [
            one for key in self.keys for one in self.calibration.statements.get(key, ())
            if one.confidence >= (self.threshold(key) or 0.0)
        ]  # fmt: skip
        return Measured(
            precision_of(statements),
            {threshold: self.calibration.precision(threshold, self.keys) for threshold in THRESHOLDS},
            self.calibration.precision(0.0),
        )

    def not_asked(self, gap: Gap) -> str:
        """Why a gap stays one that nothing asks for, where only others are filled; else empty."""
        return NOT_ASKED if self.choices.fill == "asked" and not gap.asked else ""

    def skips(self, gap: Gap, presence: float | None) -> str:
        """Why no value need be predicted for a gap: no statement about it could be written. Empty where one may be."""
        if not_asked := self.not_asked(gap):
            return not_asked
        key = self.codec.learnt_as(gap.of.of, gap.of.lead or gap.of.path)
        threshold = self.threshold(key)
        if why_not := self.why_not(key):
            return why_not
        return ABSENT if threshold is not None and self.presence(gap, presence, key) < threshold else ""

    def presence(self, gap: Gap, presence: float | None, key: Key | None = None) -> float:
        """The calibrated probability that an entity has what a gap lacks; `key` is that of a statement about it."""
        if gap.parts or gap.of.one.required:
            return 1.0
        key = key or self.codec.learnt_as(gap.of.of, gap.of.lead or gap.of.path)
        return self.calibration.presence(key, presence, gap.of.of, has_place=gap.asked)

    def decided(self, filling: Prediction) -> Decision:
        """What becomes of a statement. Of a date as many parts are kept as reach the threshold."""
        decisions = [self._decided(part) for part in by_precision(filling)]
        written = [decision for decision in decisions if not decision.why_not]
        return written[-1] if written else decisions[0]

    def _decided(self, filling: Prediction) -> Decision:
        gap, key = filling.gap, self.key(filling)
        presence = self.presence(gap, filling.presence, key)
        correctness = correctness_of(filling)
        correctness = 0.0 if correctness is None else self.calibration.correctness(key, correctness, gap.of.of)
        decision = Decision(filling, presence, correctness, filling.why_not or self.why_not(key))
        threshold = self.threshold(key)
        if not decision.why_not and threshold is not None and decision.confidence < threshold:
            return replace(decision, why_not=below(threshold))
        return decision

    def key(self, filling: Prediction) -> Key:
        """The property that a statement is learnt as; of a date its last part."""
        gap = filling.gap
        path = gap.of.lead or gap.of.path
        if isinstance(gap.of.kind, Date) and filling.answers:
            path = list(filling.answers)[-1]
        return self.codec.learnt_as(gap.of.of, path)


def calibration_of(trained: Trained) -> Calibration:
    """The calibration of a model; one that changes nothing where nothing was held out."""
    recorded = trained.record.calibration
    return Calibration.from_json(recorded) if recorded else Calibration()


def below(threshold: float) -> str:
    """Why a statement is not written whose confidence is below a threshold."""
    return f"confidence below {threshold:g}"


def correctness_of(filling: Prediction) -> float | None:
    """The model's own probability that a statement is right, given that there is a value; None where none is made."""
    if filling.why_not or not filling.leaves:
        return None
    return math.prod(answer.confidence for answer in filling.answers.values())


def by_precision(filling: Prediction) -> Sequence[Prediction]:
    """A statement; of a date that to the year, to the month and to the day."""
    if not isinstance(filling.gap.of.kind, Date) or filling.why_not or len(filling.answers) < 2 or filling.gap.parts:
        return [filling]
    paths = list(filling.answers)
    return [_first(filling, paths[: number + 1]) for number in range(len(paths))]


def _first(filling: Prediction, paths: Sequence[Path]) -> Prediction:
    """A statement with some of its parts alone."""
    return replace(
        filling,
        leaves={path: filling.leaves[path] for path in paths if path in filling.leaves},
        answers={path: filling.answers[path] for path in paths},
        tokens={path: filling.tokens[path] for path in paths if path in filling.tokens},
        draws=[{path: leaf for path, leaf in each.items() if path in paths} for each in filling.draws],
    )
