"""Property prediction, scored as in the paper: one property is hidden, others are given, one pass.

    number            root mean squared error of the mean, in original units
    category          error rate of the most likely label
    text              1 - IoU of the words of the text that is decoded word by word

kbdisk and baselines predict the same values, and the same code scores them.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from benchmarks.base import Options, of_model
from benchmarks.progress import Progress, Report
from benchmarks.results import OURS, Result, Row
from kbdisk.entity import Entity, Path
from kbdisk.schemas.kinds import kind_of
from kbdisk.schemas.schema import Schema

if TYPE_CHECKING:
    from kbdisk.api.model import Model
    from kbdisk.training.run import Run
    from kbdisk.training.validation import Watch

ALL = 1 << 40  # more values than there are of any property


@dataclass(frozen=True)
class Target:
    """A row of a table: the leaf that is predicted, and what its errors are multiplied with."""

    name: str
    path: Path
    scale: Callable[[Entity], float] | None = None


@dataclass(frozen=True)
class Task:
    """What is learnt, and what is predicted."""

    bench: str
    schema: Schema
    targets: Sequence[Target]
    train: Sequence[Entity]
    scored: Sequence[Entity]
    split: str
    part: str
    setting: str = ""
    given: Literal[0] | None = None  # 0: of the others only those of role `given`; None: all


Predictions = Callable[[Path], list[Any]]  # by a leaf's path, of each scored entity; None where there is none


def train_model(task: Task, options: Options, seed: int, progress: Progress) -> Model:
    """A model of the training entities."""
    from kbdisk.api.train import run_of

    run = run_of(options.preset, options.budget, options.config, seed)
    with progress.training(f"{task.bench}: training, seed {seed}") as watch:
        return train_or_open(task.train, task.schema, run, options, f"{task.bench}-{task.setting}-{seed}", watch)


def train_or_open(
    entities: Sequence[Entity], schema: Schema, run: Run, options: Options, name: str, watch: Watch | None
) -> Model:
    """A new model; of a run that goes on the one that it has trained, or was training, by that name."""
    import kbdisk
    from kbdisk.training.checkpoint import beside, is_there

    folder = None if options.kept is None else options.kept / re.sub(r"\W+", "-", name)
    if folder is not None and folder.is_dir():
        return kbdisk.open(folder, options.device)
    if folder is not None:
        folder.parent.mkdir(parents=True, exist_ok=True)
    resume = folder is not None and is_there(beside(folder))
    return kbdisk.train(
        list(entities), schema, run=run, device=options.device, watch=watch, out=folder, resume=resume, force=not resume
    )


def evaluate_model(model: Model, task: Task, options: Options, seed: int, progress: Progress) -> Result:
    """The errors of a model, and for each target the mean -log p of the true values."""
    nats: dict[Path, list[float]] = {}
    with progress.counting(f"{task.bench}: asking") as report:
        rows = scores(task, predictions(model, task, report, nats))
    means = {
        target.name: math.fsum(values) / len(values) for target in task.targets if (values := nats.get(target.path))
    }
    result = Result(**_facts(task), method=OURS, rows=rows, seed=seed, details={"nats": means})
    return of_model(result, model.trained, options)


def predictions(
    model: Model, task: Task, report: Report | None = None, nats: dict[Path, list[float]] | None = None
) -> Predictions:
    """A model's prediction of each known value: the mean of a number, else what is likeliest. `nats` get -log p."""
    from kbdisk.evaluation.evaluate import Evaluation, Scope

    evaluation = Evaluation.of(model.trained, task.scored, None, Scope(limit=ALL, texts=ALL))
    slots = model.trained.codec.slots
    by_path: dict[Path, list[Any]] = {target.path: [None] * len(task.scored) for target in task.targets}
    for case in evaluation.cases(task.given, report):
        slot = slots[case.slot]
        if slot.path in by_path:
            by_path[slot.path][case.entity] = case.mean if slot.kind == "number" else case.prediction
            if nats is not None and case.nats is not None:
                nats.setdefault(slot.path, []).append(case.nats)
    return by_path.__getitem__


def evaluate_baseline(name: str, task: Task, seed: int, progress: Progress) -> Result:
    """The errors of a baseline, of all targets that it can predict."""
    from kbdisk.evaluation import baseline

    progress.say(f"{task.bench}: {name}, seed {seed}" + (f", {task.setting}" if task.setting else ""))
    (of,) = task.schema.classes
    others = {path for path, role in _roles(task.schema) if role == "value"} if task.given == 0 else set()
    hidden = {(of, target.path): frozenset({target.path, *others}) for target in task.targets}
    begun = time.monotonic()
    with progress.counting(name) as report:
        fitted = baseline(name).fit(task.schema, task.train, asked=hidden, seed=seed, watch=report)
    able = replace(task, targets=[target for target in task.targets if (of, target.path) not in fitted.left_out])
    rows = scores(able, lambda path: fitted.predict(of, path, task.scored, estimate="mean"))
    return Result(**_facts(task), method=name, rows=rows, seed=seed, seconds=round(time.monotonic() - begun, 1))


def _roles(schema: Schema) -> Iterator[tuple[Path, str]]:
    """The leaves that a schema of one class has, with their roles."""
    (of,) = schema.classes.values()
    for leaf in of.leaves():
        yield leaf, next(prop.role for path, prop in of.properties.items() if leaf[: len(path)] == path)


def scores(task: Task, predictions: Predictions) -> list[Row]:
    """A row for each target that is known of any entity."""
    (of,) = task.schema.classes.values()
    kinds = {path: kind_of(leaf) for path, leaf in of.leaves().items()}
    leaves = [task.schema.leaves(entity) for entity in task.scored]
    rows = []
    for target in task.targets:
        triples = zip(task.scored, leaves, predictions(target.path), strict=True)
        known = [
            (entity, values[target.path], predicted) for entity, values, predicted in triples if target.path in values
        ]
        if kinds[target.path] == "number":  # a number that is not predicted has no error
            known = [(entity, truth, predicted) for entity, truth, predicted in known if predicted is not None]
        if known:
            rows.append(Row(target.name, _error(kinds[target.path], target.scale, known), len(known)))
    return rows


def _error(kind: str, scale: Callable[[Entity], float] | None, known: Sequence[tuple[Entity, Any, Any]]) -> float:
    from kbdisk.metrics import error

    if kind != "number":
        return math.fsum(error(kind, truth, predicted) for _, truth, predicted in known) / len(known)
    errors = ((float(truth) - float(predicted)) * (scale(entity) if scale else 1) for entity, truth, predicted in known)
    return math.sqrt(math.fsum(error * error for error in errors) / len(known))


def measure(tasks: Sequence[Task], options: Options, seed: int, progress: Progress) -> Iterator[Result]:
    """Ours, one model for all tasks, where that is wanted; then each baseline."""
    left = [task for task in tasks if options.ours and not options.is_done(task.setting, OURS, seed)]
    if left:
        model = train_model(tasks[0], options, seed, progress)
        for task in left:
            yield evaluate_model(model, task, options, seed, progress)
    for name in options.against:
        for task in tasks:
            if not options.is_done(task.setting, name, seed):
                yield evaluate_baseline(name, task, seed, progress)


def _facts(task: Task) -> dict[str, Any]:
    return {"bench": task.bench, "split": task.split, "part": task.part, "setting": task.setting}
