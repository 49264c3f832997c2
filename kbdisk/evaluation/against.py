"""A model's rivals: baselines that learn from the entities that it was trained on, and are asked what it is asked.

What is hidden from the model is hidden from them, what is given it is given them: but for what links bring, of which
they see the links alone.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kbdisk.baselines import baseline
from kbdisk.baselines.base import Answer, Baseline, Leaf
from kbdisk.data.graph import Graph
from kbdisk.data.parse import Reading, read
from kbdisk.entity import Entity, Path
from kbdisk.errors import LoadError
from kbdisk.evaluation.exam import Exam, Scope, Told
from kbdisk.evaluation.questions import Posed, Property, askable, hidden_with
from kbdisk.metrics import Case, property_of
from kbdisk.schemas.composites import show_pattern
from kbdisk.training.trained import Trained

if TYPE_CHECKING:
    from kbdisk.evaluation.evaluate import Sides

WAITING = 5000  # questions that are answered at once
KEPT = ("mae", "rmse", "error", "iou")  # scores that a rival's answers have, beside the one that stands for the kind

Cell = dict[str, Any]  # a rival's scores of a property: `theirs`, as `ours` in a row, and each of KEPT
Cells = Mapping[tuple[str, str], Cell]  # by class and path


@dataclass(frozen=True)
class Rivals:
    """Baselines that have learnt, by name, and how long each took."""

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
        watch: Told | None = None,
    ) -> Rivals:
        """Let baselines learn what some entities will be asked for."""
        leaves = _leaves(trained, asked, scope)
        graph = Graph.read(trained.schema, training)
        fitted: dict[str, Baseline] = {}
        seconds: dict[str, float] = {}
        several = list(dict.fromkeys(names))
        for turn, name in enumerate(several):
            begun = time.monotonic()
            fitted[name] = baseline(name).fit(
                trained.schema,
                training,
                graph,
                asked=leaves,
                seed=trained.run.seed,
                watch=_part(watch, turn, len(several)),
            )
            seconds[name] = round(time.monotonic() - begun, 1)
        return cls(fitted, seconds)

    def scores(self, exam: Exam, given: float | None = None) -> dict[str, Cells]:
        """How good each is at what the model is asked: of each property that it tells."""
        return {name: _cells(exam, list(answers(exam, one, given))) for name, one in self.fitted.items()}

    def joined(self, exam: Exam, rows: Sequence[dict[str, Any]], given: float | None = None) -> list[dict[str, Any]]:
        """Rows with what each scores, by its name; None of what it cannot tell."""
        scores = self.scores(exam, given)
        return [
            row | {"against": {name: cells.get((row["class"], row["path"])) for name, cells in scores.items()}}
            for row in rows
        ]

    def to_json(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """How the model does beside each, as plain data."""
        return {
            name: beside(name, rows) | {"seconds": self.seconds[name], "left_out": self.left_out(name)}
            for name in self.fitted
        }

    def left_out(self, name: str) -> dict[str, str]:
        """What a rival can say nothing of, by class and path, and why."""
        found = self.fitted[name].left_out.items()
        return {f"{of}.{show_pattern(path)}" if of else show_pattern(path): why for (of, path), why in found}


def training_entities(trained: Trained, sides: Sides, name: str) -> list[Entity]:
    """The entities that a model was trained on; LoadError where a source does not have all of them."""
    found = {trained.schema.id_of(one) for one in sides.trained_on}
    wanted = set(trained.record.training)
    if not wanted or wanted - found:
        source = trained.record.source.get("name", "another source")
        raise LoadError(
            name,
            f"expected the {len(wanted):,} entities that the model was trained on, which baselines learn from, "
            f"got {len(found):,} of them. Give the source that it was trained on ({source}).",
        )
    return sides.trained_on


def beside(name: str, rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """On how many properties a model is better than a rival, and its error in parts of the rival's, on average."""
    pairs = [(row["ours"], cell["theirs"]) for row in rows if (cell := row["against"][name]) is not None]
    told = [(ours, theirs) for ours, theirs in pairs if ours is not None and theirs is not None]
    ratios = [ours / theirs for ours, theirs in told if theirs]
    return {
        "properties": len(told),
        "better": sum(ours < theirs for ours, theirs in told),
        "ratio": sum(ratios) / len(ratios) if ratios else None,
    }


def answers(exam: Exam, rival: Baseline, given: float | None = None) -> Iterator[Case]:
    """What a rival says of every value, given what the model is given."""
    waiting: dict[tuple[str, int], list[tuple[int, Reading]]] = {}  # by class and slot
    for one, visible in exam.turns(given):
        for slot, entity, reading in _put(exam, one, visible.tolist()):
            waiting.setdefault((reading.of, slot), []).append((entity, reading))
        if sum(map(len, waiting.values())) >= WAITING:
            yield from _told(exam, rival, waiting)
            waiting = {}
    yield from _told(exam, rival, waiting)
    yield from exam.unread()


# ---------------------------------------------------------------- what is asked


def _leaves(trained: Trained, asked: Collection[Entity], scope: Scope) -> dict[Leaf, frozenset[Path]]:
    """The leaves that entities will be asked for, each with what is hidden with it."""
    codec = trained.codec
    there = {
        (one.of, path) for entity in asked if (one := read(codec.schema, entity)) is not None for path in one.leaves
    }
    hidden = hidden_with(codec, scope.whole)
    wanted = ((slot, codec.slots[slot]) for slot in sorted(askable(codec, scope.only, scope.classes)))
    return {
        (of, slot.path): frozenset(codec.slots[other].path for other in hidden[number])
        for number, slot in wanted
        for of in codec.index.members(slot)
        if (of, slot.path) in there
    }


def _put(exam: Exam, one: Posed, visible: Sequence[bool]) -> Iterator[tuple[int, int, Reading]]:
    """Each slot that is asked for, of which entity, and that entity as far as it is visible."""
    slots = exam.trained.codec.slots
    shown: list[list[Path]] = [[] for _ in one.questions]
    asked: list[tuple[int, int]] = []
    tokens = zip(one.batch.entity.tolist(), one.batch.slot.tolist(), visible, one.asked.tolist(), strict=True)
    for place, slot, is_visible, is_asked in tokens:
        if is_asked:
            asked.append((place, slot))
        elif is_visible and slots[slot].role != "evidence":
            shown[place].append(slots[slot].path)
    for place, slot in asked:
        entity = one.questions[place].entity
        whole = exam.readings[entity]
        yield slot, entity, whole._replace(leaves={path: whole.leaves[path] for path in shown[place]})


def _told(exam: Exam, rival: Baseline, waiting: Mapping[tuple[str, int], list[tuple[int, Reading]]]) -> Iterator[Case]:
    for (of, slot), several in waiting.items():
        own = exam.trained.codec.slots[slot]
        found: Iterable[Answer] = rival.tell((of, own.path), [reading for _, reading in several])
        for (entity, _), answer in zip(several, found, strict=True):
            mean = answer.value if own.kind == "number" and answer.mean is None else answer.mean
            yield Case(entity, slot, exam.value(entity, slot), answer.value, mean)


def _cells(exam: Exam, found: Sequence[Case]) -> Cells:
    """The scores of the properties that a rival has an answer to each question of."""
    slots, unread = exam.trained.codec.slots, set(exam.choice.unread)
    silent: set[Property] = {
        property_of(slots[one.slot]) for one in found if one.prediction is None and (one.entity, one.slot) not in unread
    }
    told = [one for one in found if property_of(slots[one.slot]) not in silent]
    return {
        (row["class"], row["path"]): {"theirs": row["ours"], **{name: row[name] for name in KEPT}}
        for row in exam.rows(told)
    }


def _part(watch: Told | None, turn: int, turns: int) -> Told | None:
    """Tells of one of several as of a part of all."""
    if watch is None:
        return None
    return lambda done, total: watch(turn * total + done, turns * total)
