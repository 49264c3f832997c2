"""Property prediction, as the paper scores it: one property is hidden, others are given, one pass.

    number            root mean squared error, of the mean, in original units
    category          share of labels that are wrong, of the likeliest
    text              1 - IoU of words, of what is said word by word

Ours and baselines are asked for the same values, and scored by the same lines.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from kbdisk.bench.base import Options, Teller, Told, of_model
from kbdisk.bench.results import OURS, Result, Row
from kbdisk.entity import Entity, Path
from kbdisk.schemas.kinds import kind_of
from kbdisk.schemas.schema import Schema

if TYPE_CHECKING:
    from kbdisk.api import Model
    from kbdisk.training.run import Run
    from kbdisk.training.state import Watch

ALL = 1 << 40  # more values than there are of any property


@dataclass(frozen=True)
class Asked:
    """A row of a table: the leaf that is asked for, and what its errors are multiplied with."""

    name: str
    path: Path
    scale: Callable[[Entity], float] | None = None


@dataclass(frozen=True)
class Task:
    """What is learnt, and what is asked."""

    bench: str
    schema: Schema
    asked: Sequence[Asked]
    train: Sequence[Entity]
    scored: Sequence[Entity]
    split: str
    part: str
    setting: str = ""
    given: Literal[0] | None = None  # 0: of the others only those of role `given`; None: all


Said = Callable[[Path], list[Any]]  # by a leaf's path, of each scored entity; None where nothing is said


def trained(task: Task, options: Options, seed: int, teller: Teller) -> Model:
    """A model of what is learnt from."""
    from kbdisk.api.training import run_of

    run = run_of(options.preset, options.budget, options.config, seed)
    with teller.training(f"{task.bench}: training, seed {seed}") as watch:
        return train_or_open(task.train, task.schema, run, options, f"{task.bench}-{task.setting}-{seed}", watch)


def train_or_open(
    entities: Sequence[Entity], schema: Schema, run: Run, options: Options, name: str, watch: Watch | None
) -> Model:
    """A new model; of a run that goes on the one that it has trained, or was training, by that name."""
    from kbdisk import api
    from kbdisk.training.checkpoint import beside, is_there

    folder = None if options.kept is None else options.kept / re.sub(r"\W+", "-", name)
    if folder is not None and folder.is_dir():
        return api.open(folder, options.device)
    if folder is not None:
        folder.parent.mkdir(parents=True, exist_ok=True)
    resume = folder is not None and is_there(beside(folder))
    return api.train(
        list(entities), schema, run=run, device=options.device, watch=watch, out=folder, resume=resume, force=not resume
    )


def ours(model: Model, task: Task, options: Options, seed: int, teller: Teller) -> Result:
    """What a model comes to; beside its errors the mean -log p of what was asked for."""
    nats: dict[Path, list[float]] = {}
    with teller.counting(f"{task.bench}: asking") as told:
        rows = scores(task, said(model, task, told, nats))
    means = {one.name: math.fsum(own) / len(own) for one in task.asked if (own := nats.get(one.path))}
    result = Result(**_of(task), method=OURS, rows=rows, seed=seed, details={"nats": means})
    return of_model(result, model.trained, options)


def said(model: Model, task: Task, told: Told | None = None, nats: dict[Path, list[float]] | None = None) -> Said:
    """What a model says of each value that is known: the mean of a number, else what is likeliest. `nats` get -log p."""
    from kbdisk.evaluation.evaluate import Evaluation, Scope

    exam = Evaluation.of(model.trained, task.scored, None, Scope(limit=ALL, texts=ALL))
    slots = model.trained.codec.slots
    found: dict[Path, list[Any]] = {one.path: [None] * len(task.scored) for one in task.asked}
    for case in exam.cases(task.given, told):
        slot = slots[case.slot]
        if slot.path in found:
            found[slot.path][case.entity] = case.mean if slot.kind == "number" else case.prediction
            if nats is not None and case.nats is not None:
                nats.setdefault(slot.path, []).append(case.nats)
    return found.__getitem__


def against(name: str, task: Task, seed: int, teller: Teller) -> Result:
    """What a baseline comes to, of all that it can tell."""
    from kbdisk.evaluation import baseline

    teller.say(f"{task.bench}: {name}, seed {seed}" + (f", {task.setting}" if task.setting else ""))
    (of,) = task.schema.classes
    others = {path for path, role in _roles(task.schema) if role == "value"} if task.given == 0 else set()
    asked = {(of, one.path): frozenset({one.path, *others}) for one in task.asked}
    begun = time.monotonic()
    with teller.counting(name) as told:
        fitted = baseline(name).fit(task.schema, task.train, asked=asked, seed=seed, watch=told)
    able = replace(task, asked=[one for one in task.asked if (of, one.path) not in fitted.left_out])
    rows = scores(able, lambda path: fitted.predict(of, path, task.scored, estimate="mean"))
    return Result(**_of(task), method=name, rows=rows, seed=seed, seconds=round(time.monotonic() - begun, 1))


def _roles(schema: Schema) -> Iterator[tuple[Path, str]]:
    """The leaves that a schema of one class has, with what they are for."""
    (of,) = schema.classes.values()
    for path in of.leaves():
        yield path, next(one.role for at, one in of.properties.items() if path[: len(at)] == at)


def scores(task: Task, answers: Said) -> list[Row]:
    """A row for each property that is asked for and known of any entity."""
    (of,) = task.schema.classes.values()
    kinds = {path: kind_of(leaf) for path, leaf in of.leaves().items()}
    leaves = [task.schema.leaves(entity) for entity in task.scored]
    rows = []
    for one in task.asked:
        given = zip(task.scored, leaves, answers(one.path), strict=True)
        known = [(entity, own[one.path], answer) for entity, own, answer in given if one.path in own]
        if kinds[one.path] == "number":  # nobody knows how far off is what was never said
            known = [each for each in known if each[2] is not None]
        if known:
            rows.append(Row(one.name, _error(kinds[one.path], one.scale, known), len(known)))
    return rows


def _error(kind: str, scale: Callable[[Entity], float] | None, known: Sequence[tuple[Entity, Any, Any]]) -> float:
    from kbdisk.metrics import error

    if kind != "number":
        return math.fsum(error(kind, truth, answer) for _, truth, answer in known) / len(known)
    off = ((float(truth) - float(answer)) * (scale(entity) if scale else 1) for entity, truth, answer in known)
    return math.sqrt(math.fsum(one * one for one in off) / len(known))


def measured(tasks: Sequence[Task], options: Options, seed: int, teller: Teller) -> Iterator[Result]:
    """Ours, one model for all tasks, where that is wanted; then each baseline."""
    left = [task for task in tasks if options.ours and not options.is_done(task.setting, OURS, seed)]
    if left:
        model = trained(tasks[0], options, seed, teller)
        for task in left:
            yield ours(model, task, options, seed, teller)
    for name in options.against:
        for task in tasks:
            if not options.is_done(task.setting, name, seed):
                yield against(name, task, seed, teller)


def _of(task: Task) -> dict[str, Any]:
    return {"bench": task.bench, "split": task.split, "part": task.part, "setting": task.setting}
