"""Recalibration: confidence is calibrated once more where some of the entities to complete are unlike the training data.

Calibration on held-out entities holds for entities like them. A source with many unlike entities has known values of its own:
those of a random sample are hidden, one property at a time, and filled, as in the trial after training. Correctness is
calibrated on these outcomes, by logistic regression on the log odds of the confidence that the model has stated so far. So
what a property loses by the shift is measured, and a property that loses nothing keeps its confidence. Entities that are
unlike the training data have one calibration, and the others have another. Which one a hidden value counts for depends on
what the entity is without that value.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from kbdisk.completion.config import CompletionConfig
from kbdisk.completion.decide import calibration_of
from kbdisk.completion.trial import Question, Trial, without
from kbdisk.data.graph import Graph
from kbdisk.data.parse import Reading, read
from kbdisk.entity import Entity
from kbdisk.evaluation.calibration import Calibration
from kbdisk.evaluation.drift import Drift
from kbdisk.inspection import is_class
from kbdisk.training.trained import Trained

MAX_COMPARED = 1000  # entities, a random sample
MIN_SHARE_UNLIKE = 0.05  # of the sample: with fewer unlike entities confidence is not calibrated once more
MAX_ASKED = 100  # unlike entities of the sample whose values are hidden, and as many others
MIN_OUTCOMES = 50  # for a calibration


class Calibrations(NamedTuple):
    """The calibration of confidence for entities like the training data, and that for the others."""

    like: Calibration
    unlike: Calibration


def calibrations_of(trained: Trained, entities: Iterable[Entity], config: CompletionConfig) -> Calibrations:
    """The model's calibration; where enough of the entities are unlike the training data, calibrated on their known values."""
    before = calibration_of(trained)
    unchanged = Calibrations(before, before)
    if not before.is_known:
        return unchanged
    drift = Drift(trained.schema, trained.codec, trained.record.unlike_level)
    groups: dict[bool, list[Entity]] = {False: [], True: []}
    for entity in (sample := _sample(trained, entities, config)):
        groups[_is_unlike(drift, read(trained.schema, entity))].append(entity)
    if not groups[True] or len(groups[True]) < MIN_SHARE_UNLIKE * len(sample):
        return unchanged
    graph = Graph.read(trained.schema, entities if trained.codec.index.over else ())
    learnt = {*trained.record.training, *trained.record.validation}
    new = [entity for entity in groups[False] if trained.schema.id_of(entity) not in learnt]
    asked = [*groups[True][:MAX_ASKED], *new[:MAX_ASKED]]
    calibrations = []
    for is_unlike in (False, True):
        trial = ShiftedTrial(replace(trained, experts_before_refit={}), asked, graph, config.seed, drift, is_unlike)
        outcomes = list(trial.outcomes(None, None))
        calibrations.append(before.adapted(outcomes) if len(outcomes) >= MIN_OUTCOMES else before)
    return Calibrations(*calibrations)


class ShiftedTrial(Trial):
    """The questions about entities that are unlike the training data, without what is hidden; or about those that are like it."""

    def __init__(
        self,
        trained: Trained,
        entities: Collection[Entity],
        graph: Graph,
        seed: int,
        drift: Drift,
        is_unlike: bool,
    ) -> None:
        super().__init__(trained, entities, graph, {}, seed)
        self.drift, self.is_unlike = drift, is_unlike

    def questions(self) -> Iterator[Question]:
        """The questions about the chosen entities."""
        for question in super().questions():
            reading = self.readings[question.entity]
            for path in (question.hidden, *question.along):
                reading = reading if path is None else without(reading, path)
            if _is_unlike(self.drift, reading) == self.is_unlike:
                yield question


def _is_unlike(drift: Drift, reading: Reading | None) -> bool:
    return reading is not None and bool(drift.unlike(reading.entity, reading))


def _sample(trained: Trained, entities: Iterable[Entity], config: CompletionConfig) -> Sequence[Entity]:
    """A random sample of the entities that are to be completed and whose class the model knows."""
    generator, sample, count = random.Random(config.seed), list[Entity](), 0
    for entity in entities:
        known = trained.schema.class_of(entity)
        names = () if known is None else (*entity.classes, known.name)
        if not names or (
            config.classes and not any(is_class(name, other) for name in names for other in config.classes)
        ):
            continue
        count += 1
        place = len(sample) if len(sample) < MAX_COMPARED else generator.randrange(count)
        if place < MAX_COMPARED:
            sample[place : place + 1] = [entity]
    generator.shuffle(sample)
    return sample
