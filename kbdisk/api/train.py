"""Train a model of a knowledge base, or open one that was saved; the schema and the settings of a training (`Run`)."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path as FilePath
from typing import Any, NoReturn

import torch

from kbdisk.api.model import Model
from kbdisk.api.source import Knowledge, LoadedSource, StrPath
from kbdisk.completion.config import CompletionConfig
from kbdisk.completion.fields import fields_of
from kbdisk.completion.predict import leading_slots
from kbdisk.completion.sidecar import has_block_rows_alone
from kbdisk.completion.trial import outcomes_of
from kbdisk.data import Codec
from kbdisk.data.dataset import random_sample
from kbdisk.data.graph import Graph, has_links
from kbdisk.data.parse import Reading, read_all
from kbdisk.data.scales import with_scales
from kbdisk.data.spool import Selection
from kbdisk.data.superclasses import hierarchy_of
from kbdisk.data.triples import Triples
from kbdisk.entity import Entity, Path, show
from kbdisk.errors import ConfigError, LoadError, SchemaError, option_name
from kbdisk.evaluation.calibration import Calibration
from kbdisk.evaluation.drift import MISFIT, Drift, level_of
from kbdisk.evaluation.evaluate import Scope, evaluate
from kbdisk.evaluation.links import calibrated as calibrated_links
from kbdisk.evaluation.presence import weight_of_presence_trees, with_presence_of
from kbdisk.experts import EXPERTS, link_factorization, presence_trees
from kbdisk.experts.base import Report
from kbdisk.experts.link_factorization import LinkPredictor
from kbdisk.experts.presence_trees import PresenceTrees
from kbdisk.experts.rule_columns import find_rules
from kbdisk.experts.rules import SECONDS
from kbdisk.heap import return_freed_memory
from kbdisk.leaves.base import OUTSIDE_RANGE, UNSEEN_LABEL
from kbdisk.model.network import DiSK
from kbdisk.parallel import in_background, usable_processes
from kbdisk.schemas.infer import Inference, infer
from kbdisk.schemas.rules import Rule
from kbdisk.schemas.schema import Class, Schema
from kbdisk.schemas.text.names import did_you_mean
from kbdisk.schemas.text.numerals import of_any_length
from kbdisk.store.files import refuse_output_path
from kbdisk.store.folder import open_folder, save
from kbdisk.training import checkpoint
from kbdisk.training.clock import CALIBRATION, EVALUATION, Clock, Limits
from kbdisk.training.data import Data, part_with_time_for
from kbdisk.training.distributed import ProcessEnded, Processes, device_here
from kbdisk.training.lock import training_lock
from kbdisk.training.loop import MIN_STEPS
from kbdisk.training.optimizer import device_named
from kbdisk.training.run import Run
from kbdisk.training.schedule import seconds_of
from kbdisk.training.split import split
from kbdisk.training.train import train as fit
from kbdisk.training.trained import Record, Trained
from kbdisk.training.validation import Watch, unwatched

RULES_SHARE = 0.1  # of the time budget, of the search for rules
MIN_RULES_SECONDS = 5.0  # that it has in any case: narrow sources need a fraction of it, on a busy machine too
EVALUATED, CALIBRATED = Limits(0.04, 1.0, 40.0), Limits(0.12, 3.0, 90.0)  # the time after training, of one process
SHORT_BUDGET = 30.0  # seconds: with less, evaluation and calibration have less time, in proportion
# of asking a held-out value in one process, at most: some twice what it takes with a network as it is by default
SECONDS_OF_EVALUATION, SECONDS_OF_CALIBRATION = 0.003, 0.009
SLOWNESS_OF_TEXT = 100  # decoding a text takes as long as so many other values
MAX_SECONDS_OF_PRESENCE = 60.0  # of trees of presence
LEAST_OF_PRESENCE, SECONDS_OF_PRESENCE = 2.0, 0.00015  # and, of each training entity and property, at most
PRESENCE_TREES, LINKS = "presence_trees", "link_factorization"  # experts that are fitted after training
ENCODED_PER_SECOND = 500  # entities that presence trees learn from, by their time
MAX_COMPARED = 5000  # held-out entities that say how unlike the training data an entity may be
MAX_ENTITIES_NAMED = 1000  # that are searched for the names of properties in an error message
MIN_SECONDS_OF_LINKS = 0.5  # of their factorisation, once its triples were made
MIN_LINKS = 50  # of a source, from which on links are learnt
UNTRAINED_WIDTH = 16  # of a network that is not trained
EVALUATED_PER_SECOND, MIN_EVALUATED = 10, 100  # held-out entities that a model is evaluated on, by its time budget
MIN_TEXTS_EVALUATED = 60
TEXTS_PER_SECOND = 2  # texts that a model is evaluated on, of all properties together, by its time budget
MIN_SHARE_KNOWN = 0.9  # of the entities: those on which a model to continue from was trained
# values of a property whose labels such a model has not seen: their maximum share, and the number that is allowed in any case
MAX_SHARE_NEW, MAX_NEW_OF_FEW = 0.05, 3


@of_any_length()
def train(
    kb: Knowledge,
    schema: Schema | Inference | StrPath | None = None,
    *,
    preset: str | None = None,
    budget: str | float | None = None,
    steps: int | None = None,
    config: StrPath | None = None,
    run: Run | None = None,
    seed: int | None = None,
    device: str = "auto",
    out: StrPath | None = None,
    resume: bool = False,
    force: bool = False,
    watch: Watch | None = None,
    notes: Mapping[str, str] | None = None,
    start: Model | None = None,
    clock: Clock | None = None,
    rules: Callable[[], tuple[Rule, ...]] | None = None,
    processes: Processes = Processes(),  # noqa: B008 - it is frozen
) -> Model:
    """A model of a knowledge base, whose schema is inferred where none is given.

    Training continues from the networks of `start`, a model of an earlier state of the same knowledge base, with its settings
    and its schema. It must know all classes and properties and nearly all labels: see `is_continuable`.

    `preset` is default, fast, best, ...; without one it is default. `budget` ("10m", "90s" or seconds) bounds the time from
    now on, or from when the `clock` began, until the model is there. `steps` is the number of training steps, instead of the
    preset's time; with both, whichever ends first. `config` is a run file that changes settings of the preset. With `out` the
    model is saved there, and with `resume` a run that was stopped beside it is continued. `notes` are facts for the model's
    record, and replace those of the same name. `rules` returns the rules of the model; without it they are those of the
    schema, or else searched for.

    Connected `processes` train the networks together, each given the same arguments. Process 0 does all else and returns the
    model; `ProcessEnded` ends the others after the networks. See `kbdisk.training.distributed`.
    """
    settings = {"preset": preset, "budget": budget, "steps": steps, "config": config, "seed": seed}
    stated = " and ".join(name for name, value in settings.items() if value is not None)
    if run is not None and stated:
        raise ConfigError("run", f"says all of a training. Leave {stated} out, or put it into the run.")
    if start is not None and stated:
        raise ConfigError("start", f"has the settings of its own training. Leave {stated} out.")
    if start is not None:
        run = start.trained.run
    run = run or run_of(preset or "default", budget, config, seed, steps)
    clock, torch_device = clock or Clock(), device_named(device_here(device) if processes.size > 1 else device)
    watch = watch or unwatched
    with processes.end_together():
        loaded = LoadedSource.of(kb)
        known = schema_of(schema, loaded)
        refuse_strangers(known, loaded.name, loaded.entities)
        _refuse_single_entity(loaded)
        if start is not None and not is_continuable(start, loaded):
            lacks = "is of a sample of them" if "left_out" in start.record.facts else "lacks some"
            problem = f"expected a model of nearly the same entities, got one that {lacks}. Train anew."
            raise ConfigError("start", problem)
        part = part_with_time_for(known, loaded.entities, run) if start is None and run.train.members else None
        learnt, left_out = (loaded, 0) if part is None else (loaded.part(part[0]), part[1])
    if not processes.is_first:
        _train_networks_alone(known, learnt, run, torch_device, out, start, processes)
    if not run.train.members:
        return _train_links_alone(
            loaded, known, run, out, watch, resume, force, facts(torch_device, schema) | dict(notes or {}), clock
        )
    if rules is None:
        learnt.readings(known)  # both processes need them
        rules = rules_beside(known, learnt, run)
    keep = None
    if out is not None:
        refuse_output_path(out, force)
        keep = checkpoint.beside(FilePath(out))
    with nullcontext() if out is None else training_lock(FilePath(out)):
        try:
            trained = fit(
                replace(known, rules=None),  # the networks do not use rules
                learnt.entities,
                run,
                torch_device,
                watch,
                source=loaded.facts(),
                checkpoint=keep,
                resume=resume,
                force=force,
                start=None if start is None else start.trained,
                clock=clock,
                after=partial(limits_after_training, run, known, usable_processes(torch_device)),
                readings=learnt.readings(known) if start is None else None,
                processes=processes,
                left_out=left_out,
            )
        except ValueError as error:
            raise LoadError(loaded.name, f"{error}.") from None
        return_freed_memory()
        trained.codec = replace(trained.codec, schema=replace(trained.schema, rules=rules()))
        trained.record.facts |= facts(torch_device, schema) | dict(notes or {})
        record = trained.record
        compared = sampled(record.validation, MAX_COMPARED, run.seed)
        asked = evaluation_sample(record.validation, run) + evaluation_sample(list(trained.reserved), run)
        wanted = {*compared, *asked}
        by_id = {id: entity for entity in learnt.entities if (id := known.id_of(entity)) in wanted}
        record.unlike_level = level_of(trained.schema, trained.codec, [by_id[id] for id in compared if id in by_id])
        sample = [by_id[id] for id in asked if id in by_id]
        graph, scope = learnt.graph(trained.schema), scope_of(run)
        if sample:
            seconds, report = clock.stage(EVALUATION, "evaluating")
            trained.record.quality = evaluate(
                trained, sample, graph, scope, reserved=trained.reserved, watch=report, seconds=seconds
            )
            if clock.has_time_for(PRESENCE_TREES):
                seconds, report = clock.stage(PRESENCE_TREES, EXPERTS[PRESENCE_TREES].doing)
                trees = presence_trees_of(
                    trained, learnt.readings_or_entities(trained.schema), graph, run, seconds, report
                )
                trained.experts = trained.with_experts(presence_trees=trees).experts
            else:
                clock.leave_out(PRESENCE_TREES)
            seconds, report = clock.stage(CALIBRATION, "calibrating")
            trained.record.calibration = calibrated(trained, sample, graph, run.seed, seconds, report)
        del graph
        return_freed_memory()
        if clock.has_time_for(LINKS, sum(slot.count for slot in trained.codec.slots if slot.role == "value")):
            seconds, report = clock.stage(LINKS, EXPERTS[LINKS].doing)
            readings = learnt.readings(trained.schema) if has_links(trained.schema) else ()
            links = links_of(trained.schema, readings, run, seconds, report)
            trained.experts = trained.with_experts(link_factorization=links).experts
        else:
            clock.leave_out(LINKS)
        return_freed_memory()
        clock.trained = clock.spent
        trained.record.facts["seconds"] = round(clock.trained, 1)
        if out is not None and keep is not None:
            save(trained, out, force=force)
            checkpoint.remove(keep)
    return Model(trained, loaded)


def _train_networks_alone(
    schema: Schema,
    loaded: LoadedSource,
    run: Run,
    device: torch.device,
    out: StrPath | None,
    start: Model | None,
    processes: Processes,
) -> NoReturn:
    """The part in a training of a process other than the first: the steps of the networks, if there are any."""
    if run.train.members:
        fit(
            replace(schema, rules=None),
            loaded.entities,
            run,
            device,
            unwatched,
            checkpoint=None if out is None else checkpoint.beside(FilePath(out)),
            start=None if start is None else start.trained,
            processes=processes,
        )
    raise ProcessEnded(0)


def _train_links_alone(
    loaded: LoadedSource,
    schema: Schema,
    run: Run,
    out: StrPath | None,
    watch: Watch,
    resume: bool,
    force: bool,
    known_facts: Mapping[str, Any],
    clock: Clock,
) -> Model:
    """A model that predicts links alone, as its network is not trained."""
    if resume:
        raise ConfigError(
            option_name("resume"), "a stopped run of links alone is not kept. Leave it out to begin anew."
        )
    if out is not None:
        refuse_output_path(out, force)
    with nullcontext() if out is None else training_lock(FilePath(out)):
        trained = untrained_model(loaded, schema, run, rules=()).trained
        ids = [schema.id_of(entity) for entity in loaded.entities if schema.class_of(entity)]
        record = Record(loaded.facts(), [], ids, facts={"steps": 0, "best_step": 0, "seconds": 0.0} | dict(known_facts))
        clock.start(run.train.seconds, watch, after={LINKS: Limits(1.0, 0.0, math.inf)})
        seconds, report = clock.stage(LINKS, EXPERTS[LINKS].doing)
        links = links_of(schema, loaded.readings(schema), run, seconds, report, run.train.steps)
        if links is None:
            raise LoadError(
                loaded.name, f"expected at least {MIN_LINKS} links between entities, got fewer. Choose another preset."
            )
        clock.trained = clock.spent
        record.facts["seconds"] = round(clock.trained, 1)
        trained = replace(trained, record=record, run=run).with_experts(link_factorization=links)
        if out is not None:
            save(trained, out, force=force)
    return Model(trained, loaded)


def is_continuable(model: Model, loaded: LoadedSource) -> bool:
    """Whether training can continue from a model: it has been trained, and on nearly the same entities.

    It knows all classes and properties of the source, and nearly all labels.
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


def rules_beside(schema: Schema, loaded: LoadedSource, run: Run) -> Callable[[], tuple[Rule, ...]]:
    """Begin the search for rules in another process; the returned function waits for the rules."""
    processes = usable_processes() if schema.rules is None else 1
    return in_background(lambda: rules_of(schema, loaded.readings_or_entities(schema), run), processes)


def rules_of(schema: Schema, entities: Sequence[Entity | Reading], run: Run) -> tuple[Rule, ...]:
    """The rules of a schema; of a schema without any, the rules that hold among the entities."""
    if schema.rules is not None:
        return schema.rules
    share = SECONDS if run.train.seconds is None else RULES_SHARE * run.train.seconds
    budget = min(SECONDS, max(share, MIN_RULES_SECONDS))
    return tuple(offered.rule for offered in find_rules(schema, entities, budget))


def evaluation_sample(ids: Sequence[str], run: Run) -> list[str]:
    """A random sample of the ids of entities whose size grows with the time budget; without a budget all of them."""
    seconds = run.train.seconds
    size = len(ids) if seconds is None else max(int(EVALUATED_PER_SECOND * seconds), MIN_EVALUATED)
    return sampled(ids, size, run.seed)


def sampled(ids: Sequence[str], most: int, seed: int) -> list[str]:
    """The ids, or a random sample of so many."""
    return [ids[place] for place in random_sample(len(ids), most, seed).tolist()]


def limits_after_training(run: Run, schema: Schema, processes: int, data: Data) -> dict[str, Limits]:
    """The time of the stages after training, in their order: no more than the questions of each can use.

    Questions are divided among processes. Of these the root of their number saves time; the rest is for more questions.
    """
    sharing = math.sqrt(processes)
    shorter = min((run.train.seconds or math.inf) / SHORT_BUDGET, 1.0)
    questions = sum(
        count * (SLOWNESS_OF_TEXT if slot.kind == "text" else 1)
        for slot, count in zip(data.codec.slots, data.held_out_values.tolist(), strict=True)
    )
    evaluated, calibrated = (
        limits._replace(
            share=limits.share / sharing,
            least=shorter * limits.least,
            most=min(limits.most, limits.least + seconds * questions / sharing),
        )
        for limits, seconds in ((EVALUATED, SECONDS_OF_EVALUATION), (CALIBRATED, SECONDS_OF_CALIBRATION))
    )
    entities = min(len(data.training), run.experts[PRESENCE_TREES].entities)
    for_presence = LEAST_OF_PRESENCE + SECONDS_OF_PRESENCE * entities * len(_slots_of_presence(data.codec))
    presence = Limits(run.experts[PRESENCE_TREES].share, 0.0, min(for_presence, MAX_SECONDS_OF_PRESENCE))
    links = Limits(run.experts[LINKS].share if has_links(schema) else 0.0, 0.0, math.inf)
    return {EVALUATION: evaluated, PRESENCE_TREES: presence, CALIBRATION: calibrated, LINKS: links}


def _slots_of_presence(codec: Codec) -> set[int]:
    """The slot of every property whose presence is predicted."""
    return leading_slots(fields_of(codec, CompletionConfig(fill="all")), codec.slots)


def presence_trees_of(
    trained: Trained,
    entities: Sequence[Entity | Reading],
    graph: Graph,
    run: Run,
    seconds: float | None,
    report: Report,
) -> PresenceTrees | None:
    """Trees for the presence of properties, fitted to as many training entities as the seconds allow."""
    config = run.experts[PRESENCE_TREES]
    if trained.only_draws or not config.share:
        return None
    start = time.monotonic()
    max_entities = config.entities if seconds is None else min(config.entities, int(ENCODED_PER_SECOND * seconds))
    drawn = set(sampled(trained.record.training, max_entities, run.seed))
    ids = (other.id if isinstance(other, Reading) else trained.schema.id_of(other) for other in entities)
    sample = list(read_all(trained.schema, (other for other, id in zip(entities, ids, strict=True) if id in drawn)))
    if not sample:
        return None
    fitted = presence_trees.fit(
        trained.codec,
        trained.codec.encode(sample, graph=graph),
        _slots_of_presence(trained.codec),
        config=config,
        seed=run.seed,
        seconds=None if seconds is None else seconds - (time.monotonic() - start),
        report=report,
    )
    return None if fitted is None else fitted.to(trained.device)


def links_of(
    schema: Schema,
    readings: Sequence[Reading],
    run: Run,
    seconds: float | None,
    report: Report,
    steps: int | None = None,
) -> LinkPredictor | None:
    """A predictor of links, fitted to the links of these entities, by some steps at most; None where there are too few, or none are wanted."""
    config = run.experts[LINKS]
    if not config.share or not has_links(schema):
        return None
    begun = time.monotonic()
    triples = Triples.of(schema, readings, values=config.values)
    return_freed_memory()  # of columns of millions of triples
    if len(triples.links) < MIN_LINKS:
        return None
    left = None if seconds is None else max(seconds - (time.monotonic() - begun), MIN_SECONDS_OF_LINKS)
    fitted = link_factorization.fit(triples, config, run.seed, left, report, steps)
    return calibrated_links(fitted, triples)


def calibrated(
    trained: Trained, sample: Sequence[Entity], graph: Graph, seed: int, seconds: float | None, report: Report
) -> dict[str, Any]:
    """The calibration of confidence on held-out entities and reserved values, as plain data; empty for a model that only draws.

    The presence trees get their weight, and are dropped where it is 0.
    """
    if trained.only_draws:
        return {}
    outcomes = outcomes_of(trained, sample, graph, reserved=trained.reserved, seconds=seconds, seed=seed, watch=report)
    if trained.presence_trees is not None:
        weight = weight_of_presence_trees(outcomes)
        weighted = trained.presence_trees.weighted(weight) if weight else None
        trained.experts = trained.with_experts(presence_trees=weighted).experts
        outcomes = [with_presence_of(outcome, weight) for outcome in outcomes]
    return Calibration.fit(outcomes).to_json() if outcomes else {}


def scope_of(run: Run) -> Scope:
    """The scope of the evaluation after training: of a short run fewer texts, as decoding them is slow."""
    default, seconds = Scope(), run.train.seconds
    if seconds is None:
        return default
    texts = max(min(default.texts, int(seconds)), MIN_TEXTS_EVALUATED)
    return replace(default, texts=texts, texts_in_all=max(int(TEXTS_PER_SECOND * seconds), MIN_TEXTS_EVALUATED))


def untrained_model(
    knowledge: Knowledge, schema: Schema, run: Run, device: str = "auto", rules: tuple[Rule, ...] | None = None
) -> Model:
    """The model that `train` would start with. Its codec says which properties can be learnt. None: rules are searched for."""
    loaded = LoadedSource.of(knowledge)
    refuse_strangers(schema, loaded.name, loaded.entities)
    readings = loaded.readings(schema)
    parts = split(schema, readings, run.train.validation, run.seed)
    held_out_ids = {readings[place].id for place in parts.validation}
    hierarchy = hierarchy_of(entity for entity in loaded.entities if schema.id_of(entity) not in held_out_ids)
    scaled, training, held_out = with_scales(
        schema, Selection(readings, parts.training), Selection(readings, parts.validation)
    )
    codec = Codec.fit(scaled, training, run.codec, hierarchy=hierarchy).with_held_out(held_out)
    small = replace(run, model=replace(run.model, width=UNTRAINED_WIDTH))
    with torch.random.fork_rng():
        network = DiSK(codec, small.model).to(device_named(device))
    rules = rules_of(schema, readings, run) if rules is None else rules
    codec = replace(codec, schema=replace(codec.schema, rules=rules))
    return Model(Trained(codec, network, small, Record(loaded.facts())), loaded)


def open(folder: StrPath, device: str = "auto") -> Model:
    """The model of a folder."""
    return Model(open_folder(folder, device_named(device)))


def run_of(
    preset: str, budget: str | float | None, config: StrPath | None, seed: int | None, steps: int | None = None
) -> Run:
    """The settings of a preset, changed by a run file and by options; a number of steps replaces the preset's time."""
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


def schema_of(schema: Schema | Inference | StrPath | None, loaded: LoadedSource) -> Schema:
    """The schema that is named, or else the one that is inferred from the entities."""
    if isinstance(schema, Schema):
        return schema
    if isinstance(schema, Inference):
        return schema.schema
    if schema is not None:
        return Schema.read(schema)
    if len(loaded.kbs) == 1 and not loaded.made:
        return infer(loaded.kbs[0], entities=loaded.entities).schema
    if len(loaded.kbs) == 1 and has_block_rows_alone(loaded.kbs[0]):
        return infer(loaded.kbs[0]).schema
    return infer(loaded.entities).schema


def refuse_strangers(schema: Schema, name: str, entities: Iterable[Entity], *, blank: bool = False) -> None:
    """SchemaError where no entity has a value that the schema describes; with `blank` an empty place for one is enough."""
    if any(_has_place(schema, entity) if blank else schema.leaves(entity) for entity in entities):
        return
    learnt = [path for schema_class in schema.classes.values() for path in _learnt_paths(schema_class)]
    names = list(dict.fromkeys(map(show, learnt)))
    if not names:
        raise SchemaError(name, "nothing in it can be learnt: expected properties that several entities have.")
    first_entities = list(islice(entities, MAX_ENTITIES_NAMED))
    keys = list(dict.fromkeys(key for entity in first_entities for key in entity.tree if key[:1] != "@"))
    if not any(map(schema.class_of, first_entities)) and not {path[0] for path in learnt}.isdisjoint(keys):
        classes = (repr(class_name) for entity in first_entities for class_name in entity.classes)
        got = next(classes, "entities without a class")
        advice = 'Say their class (in JSON under "@type"), or choose another schema.'
        raise SchemaError(name, f"expected entities of the class {next(iter(schema.classes))!r}, got {got}. {advice}")
    present = [show((key,)) for key in keys]
    hint = next((hint for key in present if (hint := did_you_mean(key, names))), "")
    got = ", ".join(present[:8]) or "none"
    raise SchemaError(name, f"expected properties of the schema, such as {', '.join(names[:4])}, got {got}.{hint}")


def _refuse_single_entity(loaded: LoadedSource) -> None:
    """LoadError where there is only one entity. It may be a document that lists the entities."""
    if len(loaded.entities) != 1:
        return
    tree = loaded.entities[0].tree
    lists = [
        key for key, value in tree.items() if isinstance(value, list) and len(value) > 1 and isinstance(value[0], dict)
    ]
    hint = f" If the entities are those listed in {lists[0]!r}, make that list the whole file." if lists else ""
    raise LoadError(loaded.name, f"expected at least 2 entities, got 1.{hint}")


def _has_place(schema: Schema, entity: Entity) -> bool:
    """Whether an entity has, or has a place for, any property of its class that is learnt."""
    schema_class = schema.class_of(entity)
    return schema_class is not None and any(path[0] in entity.tree for path in _learnt_paths(schema_class))


def _learnt_paths(schema_class: Class) -> Iterator[Path]:
    return (path for path, known in schema_class.properties.items() if known.role != "ignore")


def facts(device: torch.device, schema: Schema | Inference | StrPath | None) -> dict[str, Any]:
    """Facts about a training: versions, machine, device, schema, date."""
    if schema is None or isinstance(schema, Inference):
        schema_name = "inferred"
    else:
        schema_name = "given" if isinstance(schema, Schema) else os.fspath(schema)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "kbdisk": version("kbdisk"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "device": f"{device.type}: {name}",
        "schema": schema_name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
