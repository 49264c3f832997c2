"""Property prediction, scored as in the paper: one property is hidden, others are given, one pass.

    number            root mean squared error of the mean, in original units
    category          error rate of the most likely label
    text              1 - IoU of the words of the text that is decoded word by word

All methods predict the same values, and the same code scores them. A peer gets all scored entities at once: each once for each of its
known values, without that value. It learns from the training entities alone.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from benchmarks.base import Options, of_model
from benchmarks.masking import Cell, Masked, pattern
from benchmarks.methods import DISKPAPER, PAPER_PRESET
from benchmarks.peers import PEERS, TEXTS, registry
from benchmarks.peers.protocol import FILL, FIT, Filled, Imputation, PeerError, ignore_progress
from benchmarks.progress import Progress, Report
from benchmarks.results import OURS, Result, Row
from benchmarks.tables import CANNOT
from kbdisk.entity import Entity, Path, Text
from kbdisk.evaluation import BASELINES
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
    with progress.training(f"{task.bench}: training, preset {options.preset}, seed {seed}") as watch:
        name = f"{task.bench}-{options.preset}-{task.setting}-{seed}"
        return train_or_open(task.train, task.schema, run, options, name, watch)


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


def evaluate_model(
    model: Model, task: Task, options: Options, seed: int, progress: Progress, method: str = OURS
) -> Result:
    """The errors of a model, and for each target the mean -log p of the true values."""
    nats: dict[Path, list[float]] = {}
    with progress.counting(f"{task.bench}: asking") as report:
        rows = scores(task, predictions(model, task, report, nats))
    means = {
        target.name: math.fsum(values) / len(values) for target in task.targets if (values := nats.get(target.path))
    }
    result = Result(**_facts(task), method=method, rows=rows, seed=seed, details={"nats": means})
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


# ---------------------------------------------------------------- peers


def evaluate_peer(name: str, task: Task, options: Options, seed: int, progress: Progress) -> Result:
    """The errors of a peer that fills hidden cells; a value that it leaves out is predicted by the constant."""
    from kbdisk.training.schedule import seconds_of

    progress.say(f"{task.bench}: {name}, seed {seed}" + (f", {task.setting}" if task.setting else ""))
    texts = TEXTS in PEERS[name].abilities
    questions = list(_questions(task, texts))
    seconds = seconds_of(options.budget) / len(questions) if options.budget else None
    filled: list[Filled] = []
    begun = time.monotonic()
    facts = {**_facts(task), "method": name, "seed": seed, "told": f" + {options.budget}" if options.budget else ""}
    try:
        for asked in questions:
            with progress.counting(name) as report:
                imputation = Imputation.of(Masked(asked.entities, asked.cells), seconds, seed, len(task.train))
                filled.append(registry.fill(name, replace(imputation, report=report or ignore_progress)))
    except PeerError as error:
        progress.say(str(error))
        return Result(**facts, rows=[], details={"took": {CANNOT: error.problem}})
    predicted = _constants(task, texts)
    answered = 0
    for asked, of_asked in zip(questions, filled, strict=True):
        for place, value in of_asked.answers.items():
            cell = asked.cells[place]
            predicted[cell.path][asked.scored[cell.entity - len(task.train)]] = asked.labels.get(value, value)
            answered += 1
    able = replace(task, targets=[target for target in task.targets if target.path in predicted])
    share = round(answered / max(sum(len(asked.cells) for asked in questions), 1), 4)
    phases = {phase: round(sum(of.seconds.get(phase, 0.0) for of in filled), 1) for phase in (FIT, FILL)}
    took = {**filled[-1].settings, "answered": share, **phases}
    return Result(
        **facts, rows=scores(able, predicted.__getitem__), seconds=round(time.monotonic() - begun, 1),
        details={"took": took},
    )  # fmt: skip


@dataclass(frozen=True)
class _Question:
    """Training entities, then scored ones without what is asked of them."""

    entities: list[Entity]
    scored: list[int]  # of the entities after those of training: which of the scored ones each is
    cells: list[Cell]
    labels: dict[str, Any]  # a label as a peer has it -> as the schema has it


def _questions(task: Task, texts: bool) -> Iterator[_Question]:
    """All targets at once; where only some properties are given, each target alone, with these for training, too."""
    kinds = _kinds(task.schema)
    train = [task.schema.leaves(entity) for entity in task.train]
    scored = [task.schema.leaves(entity) for entity in task.scored]
    labels = {
        str(value): value
        for leaves in (*train, *scored)
        for path, value in leaves.items()
        if kinds.get(path) not in (None, "number", "text")
    }
    given = {path for path, role in _roles(task.schema) if role == "given"}
    targets = list(dict.fromkeys(target.path for target in task.targets if texts or kinds[target.path] != "text"))
    for of_question in [targets] if task.given is None else [[path] for path in targets]:
        shown = None if task.given is None else {*given, *of_question}
        entities = [_plain(entity.id, leaves, kinds, shown) for entity, leaves in zip(task.train, train, strict=True)]
        places: list[int] = []
        cells: list[Cell] = []
        for place, (entity, leaves) in enumerate(zip(task.scored, scored, strict=True)):
            for path in of_question:
                if path in leaves:
                    kind: Literal["number", "label"] = "number" if kinds[path] == "number" else "label"
                    cells.append(Cell(len(entities), path, (pattern(path), "", kind), leaves[path]))
                    rest = {other: value for other, value in leaves.items() if other != path}
                    entities.append(_plain(entity.id, rest, kinds, shown))
                    places.append(place)
        yield _Question(entities, places, cells, labels)


def _plain(id: str, leaves: Mapping[Path, Any], kinds: Mapping[Path, str], shown: Collection[Path] | None) -> Entity:
    """An entity with some leaves as plain values: numbers as numbers, labels and texts as strings that never read as numbers."""
    tree: dict[str, Any] = {}
    for path, value in leaves.items():
        if path in kinds and (shown is None or path in shown):
            part = tree
            for key in path[:-1]:
                part = part.setdefault(str(key), {})
            part[str(path[-1])] = float(value) if kinds[path] == "number" else Text(str(value), "")
    return Entity(id, tree)


def _kinds(schema: Schema) -> dict[Path, str]:
    """The leaves that a schema of one class has, with their kinds."""
    (of,) = schema.classes.values()
    return {path: kind_of(leaf) for path, leaf in of.leaves().items()}


def _constants(task: Task, texts: bool) -> dict[Path, list[Any]]:
    """The predictions of the constant: of each target a value for each scored entity."""
    from kbdisk.evaluation import baseline

    (of,) = task.schema.classes
    kinds = _kinds(task.schema)
    paths = [target.path for target in task.targets if texts or kinds[target.path] != "text"]
    fitted = baseline("constant").fit(task.schema, task.train, asked={(of, path): frozenset([path]) for path in paths})
    return {path: fitted.predict(of, path, task.scored, estimate="mean") for path in paths}


# ---------------------------------------------------------------- scores


def _roles(schema: Schema) -> Iterator[tuple[Path, str]]:
    """The leaves that a schema of one class has, with their roles."""
    (of,) = schema.classes.values()
    for leaf in of.leaves():
        yield leaf, next(prop.role for path, prop in of.properties.items() if leaf[: len(path)] == path)


def scores(task: Task, predictions: Predictions) -> list[Row]:
    """A row for each target that is known of any entity."""
    kinds = _kinds(task.schema)
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
    """Each method, task by task; one model of ours, or of the paper's preset, serves all tasks."""
    for method in options.methods:
        left = [task for task in tasks if not options.is_done(task.setting, method, seed)]
        if left and method in (OURS, DISKPAPER):
            chosen = options if method == OURS else replace(options, preset=PAPER_PRESET)
            model = train_model(tasks[0], chosen, seed, progress)
            yield from (evaluate_model(model, task, chosen, seed, progress, method) for task in left)
        elif method in BASELINES:
            yield from (evaluate_baseline(method, task, seed, progress) for task in left)
        else:
            yield from (evaluate_peer(method, task, options, seed, progress) for task in left)


def _facts(task: Task) -> dict[str, Any]:
    return {"bench": task.bench, "split": task.split, "part": task.part, "setting": task.setting}
