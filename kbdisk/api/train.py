"""From a knowledge base to a model, and a model folder opened again: what the user says becomes a schema and a run."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path as FilePath
from typing import Any

import torch

from kbdisk.api.model import Model
from kbdisk.api.source import Knowledge, LoadedSource
from kbdisk.completion.config import CompletionConfig
from kbdisk.completion.fields import fields_of
from kbdisk.completion.predict import leading_slots
from kbdisk.completion.sidecar import has_block_rows_alone
from kbdisk.completion.trial import outcomes_of
from kbdisk.data import Codec
from kbdisk.data.dataset import by_chance
from kbdisk.data.graph import Graph
from kbdisk.data.parse import read_all
from kbdisk.data.scales import with_scales
from kbdisk.data.superclasses import hierarchy_of
from kbdisk.entity import Entity, show
from kbdisk.errors import ConfigError, LoadError, SchemaError, option_name
from kbdisk.evaluation.calibration import Calibration
from kbdisk.evaluation.drift import MISFIT, Drift, level_of
from kbdisk.evaluation.evaluate import Scope, evaluate
from kbdisk.evaluation.presence import weight_of_presence_trees, with_presence_of
from kbdisk.experts import presence_trees
from kbdisk.experts.presence_trees import PresenceTrees
from kbdisk.experts.rule_columns import find_rules
from kbdisk.experts.rules import SECONDS
from kbdisk.leaves.base import OUTSIDE_RANGE, UNSEEN_LABEL
from kbdisk.model.network import DiSK
from kbdisk.schemas.infer import Inference, infer
from kbdisk.schemas.rules import Rule
from kbdisk.schemas.schema import Schema
from kbdisk.schemas.text.names import did_you_mean
from kbdisk.schemas.text.numerals import of_any_length
from kbdisk.store.files import refuse_output_path
from kbdisk.store.folder import open_folder, save
from kbdisk.training import checkpoint
from kbdisk.training.data import split
from kbdisk.training.lock import training_lock
from kbdisk.training.loop import MIN_STEPS
from kbdisk.training.optimizer import device_named
from kbdisk.training.run import Run
from kbdisk.training.schedule import seconds_of
from kbdisk.training.train import train as trained
from kbdisk.training.trained import Record, Trained
from kbdisk.training.validation import After, Progress, Watch

Folder = str | os.PathLike[str]

RULES_SHARE = 0.1  # of the time for training, that the search for rules may take
LEAST_RULES_SECONDS = 5.0  # that it may take in any case: narrow sources need a fraction of it, on a busy machine too
EVALUATION_SHARE, LEAST_EVALUATION_SECONDS = (
    0.15,
    5.0,
)  # of the time budget, for an evaluation once the model is trained
CALIBRATION_SHARE = 0.2  # of the time budget, that a trial of completion may take once the model is trained
ENCODED_PER_SECOND = 500  # of the time for trees of presence, entities that these learn from
SHOWN = 1000  # entities whose properties are looked at to name some
LEAST_WIDTH = 16  # of a network that learns nothing
EVALUATED_PER_SECOND, MIN_EVALUATED = 10, 100  # held-out entities that a model is evaluated on, by its time budget
FEWEST_TEXTS = 60  # that tell how well a model says texts
MIN_SHARE_KNOWN = 0.9  # of the entities, that a model to continue from was trained on
# of a property's values: those with labels that such a model has never seen, and does not learn; and how many may be so anyway
MAX_SHARE_NEW, MAX_NEW_OF_FEW = 0.05, 3
TEXTS_PER_SECOND = 2  # of the time budget, of all properties together


@of_any_length()
def train(
    kb: Knowledge,
    schema: Schema | Inference | Folder | None = None,
    *,
    preset: str | None = None,
    budget: str | float | None = None,
    steps: int | None = None,
    config: Folder | None = None,
    run: Run | None = None,
    seed: int | None = None,
    device: str = "auto",
    out: Folder | None = None,
    resume: bool = False,
    force: bool = False,
    watch: Watch | None = None,
    notes: Mapping[str, str] | None = None,
    start: Model | None = None,
) -> Model:
    """A model of a knowledge base, whose schema is inferred where none is given.

    Training continues from the networks of `start`, a model of an earlier state of the same knowledge base, with its settings
    and its schema. It must know all classes and properties and nearly all labels: `is_continuable` tells.

    `preset` is default, fast, best, ...; without one it is default. `budget` bounds the time, such as "10m", "90s" or
    seconds. `steps` is the number of training steps, in the place of the preset's time; with both, whichever ends first.
    `config` is a run file over the preset. With `out` the model is saved there, and with `resume` a run that was stopped
    beside it is continued. `notes` are facts that it keeps, in the place of its own of the same name.
    """
    told = {"preset": preset, "budget": budget, "steps": steps, "config": config, "seed": seed}
    if run is not None and (beside := [name for name, value in told.items() if value is not None]):
        raise ConfigError("run", f"says all of a training. Leave {' and '.join(beside)} out, or put it into the run.")
    if start is not None and (beside := [name for name, value in told.items() if value is not None]):
        raise ConfigError("start", f"has the settings of its own training. Leave {' and '.join(beside)} out.")
    chosen = start.trained.run if start is not None else run or run_of(preset or "default", budget, config, seed, steps)
    where = device_named(device)
    loaded = LoadedSource.of(kb)
    known = schema_of(schema, loaded)
    refuse_strangers(known, loaded.name, loaded.entities)
    _refuse_one(loaded)
    if start is not None and not is_continuable(start, loaded):
        raise ConfigError("start", "expected a model of nearly the same entities, got one that lacks some. Train anew.")
    rules = rules_of(known, loaded.entities, chosen)
    keep = None
    if out is not None:
        refuse_output_path(out, force)
        keep = checkpoint.beside(FilePath(out))
    with nullcontext() if out is None else training_lock(FilePath(out)):
        try:
            made = trained(
                replace(known, rules=None),  # which nothing is learnt of
                loaded.entities,
                chosen,
                where,
                watch or _unwatched,
                source=loaded.facts(),
                checkpoint=keep,
                resume=resume,
                force=force,
                start=None if start is None else start.trained,
            )
        except ValueError as error:
            raise LoadError(loaded.name, f"{error}.") from None
        made.codec = replace(made.codec, schema=replace(made.schema, rules=rules))
        made.record.facts |= facts(where, schema) | dict(notes or {})
        held_out_ids = set(made.record.validation)
        held_out = [entity for entity in loaded.entities if known.id_of(entity) in held_out_ids]
        reserving = [entity for entity in loaded.entities if known.id_of(entity) in made.reserved]
        made.record.unlike_level = level_of(made.schema, made.codec, held_out)
        sample = evaluation_sample(held_out, chosen) + evaluation_sample(reserving, chosen)
        graph, scope = loaded.graph(made.schema), scope_of(chosen)
        if sample:
            report = partial(_report, watch or _unwatched, made.record, "evaluating")
            budget = chosen.train.seconds
            made.record.quality = evaluate(
                made,
                sample,
                graph,
                scope,
                reserved=made.reserved,
                watch=report,
                seconds=None if budget is None else max(EVALUATION_SHARE * budget, LEAST_EVALUATION_SECONDS),
            )
            report = partial(_report, watch or _unwatched, made.record, "growing trees of presence")
            made.presence_trees = presence_trees_of(made, loaded.entities, graph, chosen, report)
            report = partial(_report, watch or _unwatched, made.record, "calibrating")
            made.record.calibration = calibrated(made, sample, graph, chosen, report)
        if out is not None and keep is not None:
            save(made, out, force=force)
            checkpoint.remove(keep)
    return Model(made, loaded)


def is_continuable(model: Model, loaded: LoadedSource) -> bool:
    """Whether training can continue from a model: its networks have learnt, and nearly all it was trained on is still there.

    All classes and properties are those that it knows, and nearly all labels.
    """
    record, schema = model.record, model.schema
    ids = {schema.id_of(entity) for entity in loaded.entities if schema.class_of(entity)}
    known = {*record.training, *record.validation}
    if record.facts.get("steps", 0) < MIN_STEPS or not record.validation:
        return False
    if len(ids & known) < MIN_SHARE_KNOWN * max(len(ids), len(known)):
        return False
    held_out = frozenset(record.validation)
    learnt = (entity for entity in loaded.entities if schema.id_of(entity) not in held_out)
    drift = Drift.of(model.trained.codec, learnt)
    new = (row for row in drift.rows() if row.what not in (MISFIT, OUTSIDE_RANGE))
    return all(
        row.what == UNSEEN_LABEL and row.count <= max(MAX_SHARE_NEW * drift.total(row), MAX_NEW_OF_FEW) for row in new
    )


def rules_of(schema: Schema, entities: Sequence[Entity], run: Run) -> tuple[Rule, ...]:
    """The rules that a schema states, or where it states none those that hold among the entities."""
    if schema.rules is not None:
        return schema.rules
    share = SECONDS if run.train.seconds is None else RULES_SHARE * run.train.seconds
    budget = min(SECONDS, max(share, LEAST_RULES_SECONDS))
    return tuple(offered.rule for offered in find_rules(schema, entities, budget))


def evaluation_sample(entities: Sequence[Entity], run: Run) -> list[Entity]:
    """A random sample of entities whose size grows with the time budget; without a budget all of them."""
    seconds = run.train.seconds
    size = len(entities) if seconds is None else max(int(EVALUATED_PER_SECOND * seconds), MIN_EVALUATED)
    return [entities[index] for index in by_chance(len(entities), size, run.seed).tolist()]


def _report(watch: Watch, record: Record, doing: str, done: int, total: int) -> None:
    """Tell whoever watches how far a stage after training is."""
    steps, seconds = record.facts["steps"], record.facts["seconds"]
    watch(Progress(steps, steps, seconds, math.nan, ended=True, after=After(doing, done, total)))


def presence_trees_of(
    trained: Trained, entities: Sequence[Entity], graph: Graph, run: Run, report: Callable[[int, int], None]
) -> PresenceTrees | None:
    """Trees for the presence of properties, fitted to training entities, of which there are as many as time allows."""
    config, budget = run.presence_trees, run.train.seconds
    if trained.only_draws or not config.share:
        return None
    begun = time.monotonic()
    seconds = None if budget is None else config.share * budget
    most = config.entities if seconds is None else min(config.entities, int(ENCODED_PER_SECOND * seconds))
    ids = set(trained.record.training)
    training = [entity for entity in entities if trained.schema.id_of(entity) in ids]
    indices = by_chance(len(training), most, run.seed).tolist()
    readings = list(read_all(trained.schema, [training[index] for index in indices]))
    if not readings:
        return None
    fitted = presence_trees.fit(
        trained.codec,
        trained.codec.encode(readings, graph=graph),
        leading_slots(fields_of(trained.codec, CompletionConfig(fill="all")), trained.codec.slots),
        config=config,
        seed=run.seed,
        seconds=None if seconds is None else seconds - (time.monotonic() - begun),
        report=report,
    )
    return None if fitted is None else fitted.to(trained.device)


def calibrated(
    trained: Trained, sample: Sequence[Entity], graph: Graph, run: Run, report: Callable[[int, int], None]
) -> dict[str, Any]:
    """The calibration of confidence on held-out entities and reserved values, as plain data; none of what only draws.

    The trees of presence get their weight, and are dropped where it is 0.
    """
    if trained.only_draws:
        return {}
    seconds = None if run.train.seconds is None else CALIBRATION_SHARE * run.train.seconds
    outcomes = outcomes_of(
        trained, sample, graph, reserved=trained.reserved, seconds=seconds, seed=run.seed, watch=report
    )
    if trained.presence_trees is not None:
        weight = weight_of_presence_trees(outcomes)
        trained.presence_trees = trained.presence_trees.weighted(weight) if weight else None
        outcomes = [with_presence_of(outcome, weight) for outcome in outcomes]
    return Calibration.fit(outcomes).to_json() if outcomes else {}


def scope_of(run: Run) -> Scope:
    """What a model is asked once it is trained: of a short run fewer texts, as writing them would take longer than that."""
    usual, seconds = Scope(), run.train.seconds
    if seconds is None:
        return usual
    texts = max(min(usual.texts, int(seconds)), FEWEST_TEXTS)
    return replace(usual, texts=texts, texts_in_all=max(int(TEXTS_PER_SECOND * seconds), FEWEST_TEXTS))


def untrained_model(knowledge: Knowledge, schema: Schema, run: Run, device: str = "auto") -> Model:
    """A model of what `train` would look at, before it has learnt anything: it says what there is to be learnt."""
    loaded = LoadedSource.of(knowledge)
    where = device_named(device)
    refuse_strangers(schema, loaded.name, loaded.entities)
    readings = list(read_all(schema, loaded.entities))
    parts = split(schema, readings, run.train.validation, run.seed)
    known, beside = ([readings[place] for place in side] for side in (parts.training, parts.validation))
    scaled, known, beside = with_scales(schema, known, beside)
    unseen = {id(readings[place].entity) for place in parts.validation}
    hierarchy = hierarchy_of(entity for entity in loaded.entities if id(entity) not in unseen)
    codec = Codec.fit(scaled, known, run.codec, hierarchy=hierarchy).beside(beside)
    small = replace(run, model=replace(run.model, width=LEAST_WIDTH))
    with torch.random.fork_rng():
        network = DiSK(codec, small.model).to(where)
    rules = rules_of(schema, loaded.entities, run)
    codec = replace(codec, schema=replace(codec.schema, rules=rules))
    return Model(Trained(codec, network, small, Record(loaded.facts())), loaded)


def open(folder: Folder, device: str = "auto") -> Model:
    """A model that was saved."""
    return Model(open_folder(folder, device_named(device)))


def run_of(
    preset: str, budget: str | float | None, config: Folder | None, seed: int | None, steps: int | None = None
) -> Run:
    """A preset, a run file over it, and the options beside them; a number of steps replaces the preset's time."""
    run = Run.of(preset)
    if steps is not None:
        if steps < 1:
            raise ConfigError(option_name("steps"), f"expected at least 1, got {steps!r}.")
        run = run.with_train(seconds=None)
    if config is not None:
        run = run.with_file(FilePath(config))
    if budget is not None:
        run = run.with_train(seconds=seconds_of(budget))
    if steps is not None:
        run = run.with_train(steps=steps)
    return run if seed is None else replace(run, seed=seed)


def schema_of(schema: Schema | Inference | Folder | None, loaded: LoadedSource) -> Schema:
    """The schema that is meant, or else the one that the entities seem to have."""
    if isinstance(schema, Schema):
        return schema
    if isinstance(schema, Inference):
        return schema.schema
    if schema is not None:
        return Schema.read(schema)
    if len(loaded.kbs) == 1 and (not loaded.made or has_block_rows_alone(loaded.kbs[0])):
        return infer(loaded.kbs[0]).schema
    return infer(loaded.entities).schema


def refuse_strangers(schema: Schema, name: str, entities: Iterable[Entity], *, blank: bool = False) -> None:
    """SchemaError where the entities have nothing of what the schema knows; with `blank` a place for it is enough."""
    if any(_has_place(schema, one) if blank else schema.leaves(one) for one in entities):
        return
    learnt = [path for of in schema.classes.values() for path, one in of.properties.items() if one.role != "ignore"]
    names = list(dict.fromkeys(map(show, learnt)))
    if not names:
        raise SchemaError(name, "nothing in it can be learnt: expected properties that several entities have.")
    some = list(islice(entities, SHOWN))
    keys = list(dict.fromkeys(key for one in some for key in one.tree if key[:1] != "@"))
    if not any(map(schema.class_of, some)) and not {path[0] for path in learnt}.isdisjoint(keys):
        of = next((repr(name) for one in some for name in one.classes), "entities without a class")
        advice = 'Say their class (in JSON under "@type"), or choose another schema.'
        raise SchemaError(name, f"expected entities of the class {next(iter(schema.classes))!r}, got {of}. {advice}")
    met = [show((key,)) for key in keys]
    near = next((hint for one in met if (hint := did_you_mean(one, names))), "")
    there = ", ".join(met[:8]) or "none"
    raise SchemaError(name, f"expected properties of the schema, such as {', '.join(names[:4])}, got {there}.{near}")


def _refuse_one(loaded: LoadedSource) -> None:
    """LoadError where there is one entity alone, which may be a document about many."""
    if len(loaded.entities) != 1:
        return
    tree = loaded.entities[0].tree
    lists = [key for key, one in tree.items() if isinstance(one, list) and len(one) > 1 and isinstance(one[0], dict)]
    hint = f" If the entities are those listed in {lists[0]!r}, make that list the whole file." if lists else ""
    raise LoadError(loaded.name, f"expected at least 2 entities, got 1.{hint}")


def _has_place(schema: Schema, entity: Entity) -> bool:
    """Whether an entity has, or has a place for, any property of its class that is learnt."""
    of = schema.class_of(entity)
    learnt = () if of is None else (path for path, one in of.properties.items() if one.role != "ignore")
    return any(path[0] in entity.tree for path in learnt)


def facts(device: torch.device, schema: Schema | Inference | Folder | None) -> dict[str, Any]:
    """Where and when, and with what, a model was trained."""
    if schema is None or isinstance(schema, Inference):
        told = "inferred"
    else:
        told = "given" if isinstance(schema, Schema) else os.fspath(schema)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "kbdisk": version("kbdisk"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "device": f"{device.type}: {name}",
        "schema": told,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _unwatched(progress: Progress) -> None:
    pass
