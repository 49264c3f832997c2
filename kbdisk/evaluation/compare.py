"""Comparison of a model with baselines, which learn from the entities that it was trained on, and answer the same questions.

What is hidden from the model is hidden from the baselines, and what is given to it is given to them. Of what arrives over links they
see only the links.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kbdisk.data.graph import Graph
from kbdisk.data.parse import Reading, read
from kbdisk.entity import Entity, Path
from kbdisk.errors import LoadError
from kbdisk.evaluation import baseline
from kbdisk.evaluation.baselines import Baseline, Leaf
from kbdisk.evaluation.evaluate import (
    Evaluation,
    Progress,
    Property,
    QuestionBatch,
    Scope,
    SourcePartition,
    askable_slots,
    hidden_with,
)
from kbdisk.metrics import Case, property_of
from kbdisk.schemas.composites import show_pattern
from kbdisk.training.trained import Trained

ANSWERED_AT_ONCE = 5000  # questions
COMPARED_SCORES = ("mae", "rmse", "error", "iou")  # of a baseline, beside the one that stands for the kind

Cell: TypeAlias = dict[str, Any]  # a baseline's scores of a property: `theirs`, as `ours` in a row, and COMPARED_SCORES
Cells: TypeAlias = Mapping[tuple[str, str], Cell]  # by class and path
Waiting: TypeAlias = Mapping[tuple[str, int], list[tuple[int, Reading]]]  # questions by class and slot


@dataclass(frozen=True)
class FittedBaselines:
    """Fitted baselines by name, and how many seconds each took."""

    fitted: Mapping[str, Baseline] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def fit(
        cls,
        names: Iterable[str],
        trained: Trained,
        training: Collection[Entity],
        asked: Collection[Entity],
        scope: Scope,
        watch: Progress | None = None,
    ) -> FittedBaselines:
        """Fit baselines to what the `asked` entities will be asked for."""
        leaves = _asked_leaves(trained, asked, scope)
        graph = Graph.read(trained.schema, training)
        fitted: dict[str, Baseline] = {}
        seconds: dict[str, float] = {}
        different = list(dict.fromkeys(names))
        for number, name in enumerate(different):
            begun = time.monotonic()
            fitted[name] = baseline(name).fit(
                trained.schema,
                training,
                graph,
                asked=leaves,
                seed=trained.run.seed,
                watch=_progress_of_part(watch, number, len(different)),
            )
            seconds[name] = round(time.monotonic() - begun, 1)
        return cls(fitted, seconds)

    def scores(self, evaluation: Evaluation, given: float | None = None) -> dict[str, Cells]:
        """The scores of each baseline on the model's questions, for the properties that it predicts."""
        return {
            name: _cells(evaluation, list(baseline_cases(evaluation, fitted, given)))
            for name, fitted in self.fitted.items()
        }

    def add_scores(
        self, evaluation: Evaluation, rows: Sequence[dict[str, Any]], given: float | None = None
    ) -> list[dict[str, Any]]:
        """Rows with the scores of each baseline by its name; None for a property that it cannot predict."""
        scores = self.scores(evaluation, given)
        return [
            row | {"against": {name: cells.get((row["class"], row["path"])) for name, cells in scores.items()}}
            for row in rows
        ]

    def to_json(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The comparison of the model with each baseline, as plain data."""
        return {
            name: compare(name, rows) | {"seconds": self.seconds[name], "left_out": self.left_out(name)}
            for name in self.fitted
        }

    def left_out(self, name: str) -> dict[str, str]:
        """The properties that a baseline cannot predict, by class and path, with the reasons."""
        reasons = self.fitted[name].left_out.items()
        return {
            f"{class_name}.{show_pattern(path)}" if class_name else show_pattern(path): reason
            for (class_name, path), reason in reasons
        }


def training_entities(trained: Trained, partition: SourcePartition, name: str) -> list[Entity]:
    """The entities that a model was trained on; LoadError where a source does not have all of them."""
    present = {trained.schema.id_of(entity) for entity in partition.trained_on}
    wanted = set(trained.record.training)
    if not wanted or wanted - present:
        source = trained.record.source.get("name", "another source")
        raise LoadError(
            name,
            f"expected the {len(wanted):,} entities that the model was trained on, which baselines learn from, "
            f"got {len(present):,} of them. Give the source that it was trained on ({source}).",
        )
    return partition.trained_on


def compare(name: str, rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """On how many properties a model is better than a baseline, and the mean ratio of its error to the baseline's."""
    pairs = [(row["ours"], cell["theirs"]) for row in rows if (cell := row["against"][name]) is not None]
    known = [(ours, theirs) for ours, theirs in pairs if ours is not None and theirs is not None]
    ratios = [ours / theirs for ours, theirs in known if theirs]
    return {
        "properties": len(known),
        "better": sum(ours < theirs for ours, theirs in known),
        "ratio": sum(ratios) / len(ratios) if ratios else None,
    }


def baseline_cases(evaluation: Evaluation, fitted: Baseline, given: float | None = None) -> Iterator[Case]:
    """A baseline's predictions of every value, given what the model is given."""
    waiting: dict[tuple[str, int], list[tuple[int, Reading]]] = {}
    for posed, visible in evaluation.batches(given):
        for slot, entity, reading in _asked_readings(evaluation, posed, visible.tolist()):
            waiting.setdefault((reading.class_name, slot), []).append((entity, reading))
        if sum(map(len, waiting.values())) >= ANSWERED_AT_ONCE:
            yield from _predicted(evaluation, fitted, waiting)
            waiting = {}
    yield from _predicted(evaluation, fitted, waiting)
    yield from evaluation.unread()


def _asked_leaves(trained: Trained, asked: Collection[Entity], scope: Scope) -> dict[Leaf, frozenset[Path]]:
    """The leaves that entities will be asked for, each with what is hidden with it."""
    codec = trained.codec
    known = {
        (reading.class_name, path)
        for entity in asked
        if (reading := read(codec.schema, entity)) is not None
        for path in reading.leaves
    }
    hidden = hidden_with(codec, scope.whole)
    wanted = ((slot, codec.slots[slot]) for slot in sorted(askable_slots(codec, scope.only, scope.classes)))
    return {
        (class_name, slot.path): frozenset(codec.slots[hidden_slot].path for hidden_slot in hidden[number])
        for number, slot in wanted
        for class_name in codec.index.members(slot)
        if (class_name, slot.path) in known
    }


def _asked_readings(
    evaluation: Evaluation, posed: QuestionBatch, visible: Sequence[bool]
) -> Iterator[tuple[int, int, Reading]]:
    """Each slot that is asked for, with the number of its entity, and the visible part of the entity."""
    slots = evaluation.trained.codec.slots
    shown: list[list[Path]] = [[] for _ in posed.questions]
    asked: list[tuple[int, int]] = []
    tokens = zip(posed.batch.entity.tolist(), posed.batch.slot.tolist(), visible, posed.asked.tolist(), strict=True)
    for question, slot, is_visible, is_asked in tokens:
        if is_asked:
            asked.append((question, slot))
        elif is_visible and slots[slot].role != "evidence":
            shown[question].append(slots[slot].path)
    for question, slot in asked:
        entity = posed.questions[question].entity
        reading = evaluation.readings[entity]
        yield slot, entity, reading._replace(leaves={path: reading.leaves[path] for path in shown[question]})


def _predicted(evaluation: Evaluation, fitted: Baseline, waiting: Waiting) -> Iterator[Case]:
    for (class_name, number), questions in waiting.items():
        slot = evaluation.trained.codec.slots[number]
        predictions = fitted.predict_leaf((class_name, slot.path), [reading for _, reading in questions])
        for (entity, _), prediction in zip(questions, predictions, strict=True):
            mean = prediction.value if slot.kind == "number" and prediction.mean is None else prediction.mean
            yield Case(entity, number, evaluation.value(entity, number), prediction.value, mean)


def _cells(evaluation: Evaluation, cases: Sequence[Case]) -> Cells:
    """The scores of the properties for which a baseline has a prediction of each value."""
    slots, unread = evaluation.trained.codec.slots, set(evaluation.chosen.unread)
    unpredicted: set[Property] = {
        property_of(slots[case.slot])
        for case in cases
        if case.prediction is None and (case.entity, case.slot) not in unread
    }
    predicted = [case for case in cases if property_of(slots[case.slot]) not in unpredicted]
    return {
        (row["class"], row["path"]): {"theirs": row["ours"], **{name: row[name] for name in COMPARED_SCORES}}
        for row in evaluation.rows(predicted)
    }


def _progress_of_part(watch: Progress | None, number: int, parts: int) -> Progress | None:
    """Reports the progress of one of several parts as that of the whole."""
    if watch is None:
        return None
    return lambda done, total: watch(number * total + done, parts * total)
