"""Decide: the confidence of each statement, and which statements are written.

The way of a confidence, such as the 52 % = presence 83 % x correctness 63 % of `kbdisk why`:

    the model's presence      predict.py, `GapPredictor._presence`: by the network, and by boosted trees where these help
    the model's correctness   model/estimates.py, `Estimate.confidence`: the probability of the value in the belief of network and
                              experts; of a number, the mass within its tolerance. predict.py, `_predict_values`, has the belief,
                              by given values alone, and shrinks it where held-out values were predicted badly (shrinkage.py) or
                              restricts it to what constraints allow (truncation.py). Parts of a value: `correctness_of`, here
    both calibrated           `Decider._decided`, here, by evaluation/calibration.py: lines in log odds. api/train.py, `calibrated`,
                              fits them after training to the outcomes of a trial on held-out entities (trial.py). On a source
                              with entities unlike the training data trial.py fits others (`calibrations_of`)
    the confidence            `Decision.confidence`, here: presence times correctness

Missing parts of a value, and what the schema requires, have presence 1. A value that a rule gives has the correctness of the rule
(rules.py), one by a formula the product of those of what it needs, one that all such parts share the share of these (values.py).
The confidence of predicted links comes about in links.py. Further members of sets have a calibration of their own (members.py), and are
written by threshold and gain whatever `fill` says, but for `asked`. Which statements are written, by `CompletionConfig.fill`:

    asked    blank cells, nulls, missing parts of a value, what the schema requires: threshold and gain
    likely   these, and absent properties: threshold and gain
    all      every property that the entity's class has: neither, unless a threshold or a precision is stated

Their confidence reaches the threshold, and writing their property is a gain on held-out values. By default a property without a gain
at the threshold is written from the first higher one at which it has a gain. Of a property without a gain at any threshold the
reason is that of the threshold with the highest gain among those that some held-out statement reaches:

    UNSURE             no held-out statement reaches a threshold
    TOO_OFTEN_WRONG    the statements lose: a wrong one loses three times what a right one gains, so that writing nothing is better
    NO_BETTER          they gain, but no more than the constant does, written for every entity
    TOO_FEW            they gain more than the constant and than nothing, but within noise

Properties that entities have together or not at all, such as the parts of an object, are written together or not at all.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kbdisk.completion.config import CompletionConfig
from kbdisk.completion.fields import overlaps
from kbdisk.completion.gaps import Gap
from kbdisk.completion.members import member_key
from kbdisk.completion.predictions import Prediction
from kbdisk.completion.summary import Measured
from kbdisk.entity import Path
from kbdisk.evaluation.calibration import (
    RAISED_THRESHOLDS,
    THRESHOLD,
    THRESHOLDS,
    Calibration,
    Gain,
    precision_of,
)
from kbdisk.evaluation.intervals import Key
from kbdisk.schemas.composites.date import Date
from kbdisk.schemas.schema import Schema
from kbdisk.schemas.text.names import last_word
from kbdisk.training.trained import Trained

NOT_ASKED = "not asked for"
ABSENT = "probably the entity has none"
# reasons of a property without a gain
UNSURE = "too unsure on held-out values"
TOO_OFTEN_WRONG = "too often wrong on held-out values"
NO_BETTER = "no better than a constant on held-out values"
TOO_FEW = "too few held-out values to tell"
UNMEASURED = "no held-out values to measure confidence on"
FURTHER_MEMBER = "a further member: written only where --only names its property, if it is sure enough"
INCOMPLETE_GROUP = "what it belongs together with is not written"


@dataclass(frozen=True)
class Decision:
    """A statement with its confidence, and the reason why it is not written, if any."""

    prediction: Prediction
    presence: float  # calibrated
    correctness: float
    why_not: str = ""

    @property
    def confidence(self) -> float:
        """The probability that the statement is right."""
        return self.presence * self.correctness


class Decider:
    """Decides which statements of a model are written."""

    def __init__(self, trained: Trained, config: CompletionConfig, calibration: Calibration | None = None) -> None:
        """`calibration` replaces that of the model, where the entities need another."""
        self.codec, self.config = trained.codec, config
        self.calibration = calibration or calibration_of(trained)
        self._gains: dict[tuple[Key, float], Gain | None] = {}
        self._why_not: dict[Key, str] = {}
        self._thresholds: dict[Key, float | None] = {}
        self.keys: set[Key] = set()  # properties of which statements were made that a threshold may write

    @property
    def raises_thresholds(self) -> bool:
        """Whether a property without a gain at the usual threshold gets the next one of `RAISED_THRESHOLDS` that has it."""
        return self.config.min_confidence is None and self.config.precision is None and self.config.fill != "all"

    @property
    def minimum(self) -> float:
        """The least confidence of written values, of whatever property."""
        config = self.config
        stated = config.min_confidence if config.precision is None else config.precision
        return stated if stated is not None else 0.0 if config.fill == "all" else THRESHOLD

    def threshold(self, key: Key) -> float | None:
        """The confidence from which on statements of a property are written; None where no confidence suffices."""
        if key not in self._thresholds:
            self._thresholds[key] = self._find_threshold(key)
        return self._thresholds[key]

    def _find_threshold(self, key: Key) -> float | None:
        if self.config.precision is not None:
            return self.calibration.threshold_for(self.config.precision, key)
        return next((level for level in self._levels(self.minimum) if self._is_gain(key, level)), self.minimum)

    def _levels(self, threshold: float) -> tuple[float, ...]:
        """The thresholds at which a property may have a gain."""
        return (threshold, *RAISED_THRESHOLDS) if self.raises_thresholds else (threshold,)

    def _is_gain(self, key: Key, threshold: float) -> bool:
        """Whether writing the statements of a property from a threshold on is a gain on held-out values."""
        gain = self._gain(key, threshold)
        return gain is not None and gain.is_significant

    def _gain(self, key: Key, threshold: float) -> Gain | None:
        """The gain of writing a property from a threshold on; None where none of its values was held out."""
        if (key, threshold) not in self._gains:
            self._gains[key, threshold] = self.calibration.gain(key, threshold)
        return self._gains[key, threshold]

    def _why_no_gain(self, key: Key, threshold: float) -> str:
        """The reason why a property has no gain, by the threshold where the gain is highest."""
        gains = [gain for level in self._levels(threshold) if (gain := self._gain(key, level)) is not None]
        if not gains:
            return UNMEASURED
        gains = [gain for gain in gains if gain.written]
        if not gains:
            return UNSURE
        best = max(gains, key=lambda gain: gain.over_nothing)
        if best.sum_of_gains <= 0:
            return TOO_OFTEN_WRONG
        return NO_BETTER if best.over_constant <= 0 else TOO_FEW

    def why_not(self, key: Key) -> str:
        """The reason why no value of a property is written, whatever its confidence; empty where some are."""
        if key not in self._why_not:
            self._why_not[key] = self._find_why_not(key)
        return self._why_not[key]

    def _find_why_not(self, key: Key) -> str:
        threshold = self.threshold(key)
        if threshold is None:
            return f"its held-out values never reached a precision of {self.config.precision:g}"
        if self.config.fill == "all":
            return ""
        if not self.calibration.is_known:
            return UNMEASURED
        return "" if self._is_gain(key, threshold) else self._why_no_gain(key, threshold)

    def measured(self) -> Measured | None:
        """The share of right statements on held-out data, of the properties of which statements were made."""
        if not self.calibration.is_known:
            return None
        written = {key: self.threshold(key) or 0.0 for key in self.keys}
        by_threshold = {
            threshold: self._precision({key: max(threshold, self.raised(key)) for key in self.keys})
            for threshold in THRESHOLDS
        }
        return Measured(self._precision(written), by_threshold, self.calibration.precision(0.0))

    def _precision(self, thresholds: Mapping[Key, float]) -> float | None:
        """The share of right ones among the held-out statements that reach the thresholds of their properties."""
        return precision_of(
            [
                statement
                for key, threshold in thresholds.items()
                for statement in self.calibration.statements.get(key, ())
                if statement.confidence >= threshold
            ]
        )

    def raised(self, key: Key) -> float:
        """The confidence that statements of a property need for a gain, whatever threshold a user asks for."""
        return (self.threshold(key) or 0.0) if self.raises_thresholds else 0.0

    def not_asked(self, gap: Gap) -> str:
        """The reason of a gap without a place for a value where only asked gaps are filled; else empty."""
        return NOT_ASKED if self.config.fill == "asked" and not gap.asked else ""

    @property
    def skips_by_presence(self) -> bool:
        """Whether a gap may need no prediction because its value is probably absent."""
        return self.minimum > 0

    def never(self, gap: Gap) -> str:
        """Why nothing is written for a gap, however probable it is that the entity has a value there; empty where something may be."""
        return self.not_asked(gap) or self.why_not(self._lead_key(gap))

    def skips(self, gap: Gap, presence: float | None) -> str:
        """The reason why a gap needs no prediction, as no statement about it could be written; empty where one could."""
        if never := self.never(gap):
            return never
        key = self._lead_key(gap)
        threshold = self.threshold(key)
        return ABSENT if threshold is not None and self.presence(gap, presence, key) < threshold else ""

    def _lead_key(self, gap: Gap) -> Key:
        """The property by which a gap is decided on before a statement is made."""
        return self.codec.learnt_as(gap.field.class_name, gap.field.lead or gap.field.path)

    def presence(self, gap: Gap, presence: float | None, key: Key | None = None) -> float:
        """The calibrated probability that an entity has the value that a gap lacks; `key` is that of a statement about it."""
        if gap.parts or (gap.field.schema_property.required and not gap.is_member):
            return 1.0
        key = key or self._lead_key(gap)
        return self.calibration.presence(key, presence, gap.field.class_name, has_place=gap.asked)

    def decided(self, prediction: Prediction) -> Decision:
        """The decision on a prediction. Only the parts of a date that reach the threshold are kept."""
        decisions = [self._decided(part) for part in by_precision(prediction)]
        written = [decision for decision in decisions if not decision.why_not]
        return written[-1] if written else decisions[0]

    def _decided(self, prediction: Prediction) -> Decision:
        gap, key = prediction.gap, self.key(prediction)
        presence = self.presence(gap, prediction.presence, key)
        correctness = correctness_of(prediction)
        correctness = (
            0.0 if correctness is None else self.calibration.correctness(key, correctness, gap.field.class_name)
        )
        decision = Decision(prediction, presence, correctness, prediction.why_not or self.why_not(key))
        threshold = self.threshold(key)
        if not decision.why_not and threshold is not None and decision.confidence < threshold:
            return replace(decision, why_not=below(threshold))
        return decision

    def key(self, prediction: Prediction) -> Key:
        """The property that a statement is learnt as; of a date its last part."""
        field = prediction.gap.field
        path = field.lead or field.path
        if isinstance(field.kind, Date) and prediction.answers:
            path = list(prediction.answers)[-1]
        return self.codec.learnt_as(field.class_name, path)


class MemberDecider(Decider):
    """Decides which further members of sets are written: whatever `fill` says, where they are asked for, by threshold and gain.

    Known members show that a member fits. That one is missing only a person knows, who names the property.
    """

    def __init__(self, trained: Trained, config: CompletionConfig, calibration: Calibration) -> None:
        super().__init__(trained, replace(config, fill="likely") if config.fill == "all" else config)
        self.calibration = calibration

    def _decided(self, prediction: Prediction) -> Decision:
        decision, gap = super()._decided(prediction), prediction.gap
        if decision.why_not or gap.field.why_not:
            return decision
        return replace(decision, why_not=why_unnamed(gap, self.config))

    def key(self, prediction: Prediction) -> Key:
        return member_key(self.codec, prediction.gap.field.class_name, prediction.gap.path)


def why_unnamed(gap: Gap, config: CompletionConfig) -> str:
    """The reason why no predicted member of a set is written; empty where `only` names its property."""
    is_named = any(overlaps(named, gap.path) for named in config.only)
    return "" if is_named else gap.field.why_not or FURTHER_MEMBER


def calibration_of(trained: Trained) -> Calibration:
    """The calibration of a model; one that changes nothing where no values were held out."""
    recorded = trained.record.calibration
    return Calibration.from_json(recorded) if recorded else Calibration()


def below(threshold: float) -> str:
    """The reason of a statement whose confidence is below a threshold."""
    return f"confidence below {threshold:g}"


def correctness_of(prediction: Prediction) -> float | None:
    """The model's own probability that a statement is right, given that there is a value; None where none is made."""
    if prediction.why_not or not prediction.leaves:
        return None
    return math.prod(answer.confidence for answer in prediction.answers.values())


def by_precision(prediction: Prediction) -> Sequence[Prediction]:
    """The statements that may be made of a prediction: one, or of a date those to the year, to the month and to the day."""
    gap = prediction.gap
    if not isinstance(gap.field.kind, Date) or prediction.why_not or len(prediction.answers) < 2 or gap.parts:
        return [prediction]
    paths = list(prediction.answers)
    return [_first_parts(prediction, paths[: number + 1]) for number in range(len(paths))]


def _first_parts(prediction: Prediction, paths: Sequence[Path]) -> Prediction:
    """A prediction with some of its parts alone."""
    return replace(
        prediction,
        leaves={path: prediction.leaves[path] for path in paths if path in prediction.leaves},
        answers={path: prediction.answers[path] for path in paths},
        tokens={path: prediction.tokens[path] for path in paths if path in prediction.tokens},
        draws=[{path: leaf for path, leaf in drawn.items() if path in paths} for drawn in prediction.draws],
    )


# ---------------------------------------------------------------- properties that belong together

MIN_SHARE_COMPLETE = 0.95  # of the entities that have any property of a group: those that have all of them
MIN_ENTITIES_WITH_ANY = 10
WORD_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\-\s]+")
LIMITS = {
    "min": "min", "minimum": "min", "lower": "min", "from": "min", "start": "min", "begin": "min",
    "max": "min", "maximum": "min", "upper": "min", "to": "min", "end": "min",
}  # fmt: skip


class Groups:
    """Groups of properties: the parts of an object, and a min with its max.

    A group whose properties entities have together or not at all, nearly always, is written as a whole or not at all, so that no
    object is left incomplete.
    """

    def __init__(self, schema: Schema, fillable: Mapping[str, Collection[Path]]) -> None:
        """`fillable` are the properties of each class that a value may be written for."""
        self.members: dict[str, dict[Path, list[Path]]] = {}  # by class, a key of the group -> its properties
        for name, schema_class in schema.classes.items():
            by_key: dict[Path, list[Path]] = defaultdict(list)
            for path in schema_class.properties:
                if path in fillable.get(name, ()):
                    by_key[_group_key(path)].append(path)
            self.members[name] = {key: paths for key, paths in by_key.items() if len(paths) > 1}
        self._have_any: dict[tuple[str, Path], int] = defaultdict(int)
        self._have_all: dict[tuple[str, Path], int] = defaultdict(int)

    def paths(self, class_name: str) -> Iterator[Path]:
        """The properties of a class that are in a group."""
        return (path for paths in self.members.get(class_name, {}).values() for path in paths)

    def count(self, class_name: str, known: Collection[Path]) -> None:
        """Count the properties that an entity of a class has."""
        for key, paths in self.members.get(class_name, {}).items():
            number = sum(path in known for path in paths)
            self._have_any[class_name, key] += number > 0
            self._have_all[class_name, key] += number == len(paths)

    def incomplete(self, class_name: str, missing: Iterable[Path], written: Collection[Path]) -> set[Path]:
        """The missing properties of an entity in groups of which not all missing properties are written."""
        all_missing = set(missing)
        incomplete: set[Path] = set()
        for key, paths in self.members.get(class_name, {}).items():
            have_any = self._have_any[class_name, key]
            if have_any >= MIN_ENTITIES_WITH_ANY and self._have_all[class_name, key] >= MIN_SHARE_COMPLETE * have_any:
                missing_of_group = all_missing.intersection(paths)
                if not missing_of_group <= set(written):
                    incomplete |= missing_of_group
        return incomplete


def _group_key(path: Path) -> Path:
    """The common key of a group's properties: the object that they are in, or a name without its min or max."""
    if len(path) > 1:
        return path[:-1]
    words = [word.lower() for word in WORD_BOUNDARY.split(last_word(str(path[0]))) if word]
    return ("", *(LIMITS.get(word, word) for word in words)) if any(word in LIMITS for word in words) else path
