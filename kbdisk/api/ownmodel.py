"""The model that a knowledge base is completed by where none is named: trained on its own entities, and kept beside it.

It is used again as long as what the source gives, its schema and the choices about training are the same; a run that was cut
short goes on. After an edit of the source training continues from the networks of the kept model, as long as it knows
all classes and properties, and nearly all labels; values that were held out stay held out. Text is read, not learnt to be written, unless it is named: that is by far the dearest part.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path as FilePath
from typing import Any

from kbdisk.api import training
from kbdisk.api.model import Model
from kbdisk.api.reading import Reading
from kbdisk.completion import CompletionConfig
from kbdisk.completion.fields import fields_of, overlaps, refuse_excluded, refuse_unknown, refuse_unknown_classes
from kbdisk.data.scales import without_scales
from kbdisk.entity import Path
from kbdisk.errors import CheckpointError, ConfigError
from kbdisk.schemas.composites import Kind
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.kinds import Text
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema
from kbdisk.store.files import FORMAT, Files, read_config
from kbdisk.training import checkpoint
from kbdisk.training.lock import SUFFIX as LOCK
from kbdisk.training.lock import refuse_busy, training_lock
from kbdisk.training.run import Run
from kbdisk.training.train import left_open
from kbdisk.training.validation import Watch

MINUTE, LONGEST = 60.0, 600.0  # seconds for the entities below, and at most
GROWTH = 0.7  # the power of how many more there are
ENTITIES = 1000
READ = 4  # texts of a class that are inputs: of countries that have their names in fifty languages, the first
MADE_HERE = "kbdisk complete"  # the maker of a model that may be made anew


@dataclass(frozen=True)
class Wanted:
    """What a user said about training."""

    schema: Schema | None = None
    named: str = ""  # what the schema is called
    preset: str = "default"
    budget: str | float | None = None
    steps: int | None = None
    seed: int = 0
    device: str = "auto"
    only: Collection[Path] = ()
    classes: Collection[str] = ()
    explicit: bool = False  # whether any of that was said, and is not just the default

    @property
    def way(self) -> str:
        """How what the schema leaves out can be included."""
        if self.schema is not None:
            return f"{self.named} leaves it out. Put it in there."
        why = "schema infer --explain says why"
        return f"the inferred schema leaves it out: kbdisk {why}. Put it into one of your own, and say --schema."

    def run(self, entities: int) -> Run:
        """The choices of a run: by default with a time budget that fits so many entities."""
        budget = fitting_budget(entities) if self.budget is None and self.steps is None else self.budget
        return training.run_of(self.preset, budget, None, self.seed, self.steps)


def fitting_budget(entities: int) -> float:
    """Seconds of training: a minute for a thousand entities or fewer, five for ten thousand, ten at most."""
    more: float = (max(entities, ENTITIES) / ENTITIES) ** GROWTH
    return round(min(MINUTE * more, LONGEST))


@dataclass(frozen=True)
class Own:
    """A source's own model, and the folder it is in; None where it is kept in none."""

    model: Model
    folder: FilePath | None


def own_model(
    reading: Reading,
    wanted: Wanted,
    folder: FilePath | None,
    say: Callable[[str], None],
    watch: Watch | None,
    keep: bool = True,
) -> Own:
    """The model kept in the folder if it still is right, or a new one, kept there with `keep`.

    Where nothing would be filled anyway nothing is trained.
    """
    whole = training.schema_of(wanted.schema, reading)
    schema = told_apart(whole, wanted.only)
    refuse_excluded(schema, wanted.only, reading.entities, reading.name, wanted.way)
    refuse_unknown(schema, wanted.only)
    refuse_unknown_classes(schema, wanted.classes)
    run = wanted.run(len(reading.entities))
    if folder is not None and folder.exists():
        kept = _kept(folder, reading, schema, run, wanted)
        if kept is not None:
            _remove_run(folder)
            say(f"using the model in {folder}")
            return Own(kept, folder)
    start = _start(folder, reading, schema, run, wanted) if folder is not None and folder.exists() else None
    schema = replace(schema, rules=training.rules_of(whole, reading.entities, run))  # which may give text
    if len(reading.entities) <= ENTITIES:  # of more there is nearly always something to learn
        untrained = training.untrained(reading, schema, run, wanted.device)
        if not _fills(untrained, wanted.only):
            say("nothing is trained: too little is known of any property that may be filled")
            return Own(untrained, None)
    place = folder if keep and folder is not None and os.access(folder.resolve().parent, os.W_OK) else None
    notes = {"maker": MADE_HERE, "schema": wanted.named or "inferred"}
    settings: dict[str, Any] = {"device": wanted.device, "watch": watch, "notes": notes}
    settings |= {"run": run} if start is None else {"start": start}
    return Own(_trained(reading, schema, settings, place, say), place)


def _remove_run(folder: FilePath) -> None:
    """Remove what a process that was killed once its model was there left of its run, unless another one trains now."""
    if checkpoint.beside(folder).exists() or folder.with_name(folder.name + LOCK).exists():
        with contextlib.suppress(CheckpointError), training_lock(folder):
            checkpoint.remove(checkpoint.beside(folder))


def _fills(model: Model, only: Collection[Path]) -> bool:
    """Whether the model can fill any property."""
    by_class = fields_of(model.trained.codec, CompletionConfig(only=tuple(only)))
    return any(not field.why_not for class_fields in by_class.values() for field in class_fields.fields.values())


def _trained(
    reading: Reading,
    schema: Schema,
    settings: Mapping[str, Any],
    folder: FilePath | None,
    say: Callable[[str], None],
) -> Model:
    """A new model, or one whose training was cut short and goes on."""
    start: Model | None = settings.get("start")
    run: Run = settings["run"] if start is None else start.trained.run
    if folder is None:
        say(_doing("training", reading, run))
        return training.train(reading, schema, **settings)
    refuse_busy(folder)
    unfinished = checkpoint.is_there(checkpoint.beside(folder))
    continued = "training" if start is None else f"the source has changed: continuing from the model in {folder}"
    say(_doing("going on with training" if unfinished else continued, reading, run))
    try:
        return training.train(reading, schema, **settings, out=folder, resume=unfinished, force=True)
    except CheckpointError:
        if not unfinished:
            raise
    say("what was kept is of another run: training anew")
    return training.train(reading, schema, **settings, out=folder, force=True)


def told_apart(schema: Schema, only: Collection[Path]) -> Schema:
    """The schema with text to be read alone, but for what is named; of a class that has much of it no more than `READ`."""
    classes = {name: _of_class(one, only) for name, one in schema.classes.items()}
    shared = schema.properties and {path: _of_property(one, path, only) for path, one in schema.properties.items()}
    return replace(schema, classes=classes, properties=shared)


def _of_class(of: Class, only: Collection[Path]) -> Class:
    properties = {path: _of_property(one, path, only) for path, one in of.properties.items()}
    texts = [path for path, one in of.properties.items() if one.role == "value" and properties[path].role == "given"]
    ignored = {path: replace(properties[path], role="ignore") for path in texts[READ:]}
    of = replace(of, properties={**properties, **ignored})
    return replace(of, constraints=of.constraints_on_properties())


def _of_property(one: Property, path: Path, only: Collection[Path]) -> Property:
    """A property to be read alone where it is text; of the parts of a list without those fields that are.

    What is left out, such as an identifier, is learnt where it is named.
    """
    if one.role == "ignore" and path in only:
        return replace(one, role="value")
    kind = _without_text(one.kind, path, only)
    if one.role != "value" or kind is one.kind:
        return one
    return replace(one, role="given") if kind is None else replace(one, kind=kind)


def _without_text(kind: Kind, path: Path, only: Collection[Path]) -> Kind | None:
    """A kind without text that is not named; None where nothing else is in it."""
    if isinstance(kind, Text):
        return kind if any(overlaps(named_path, path) for named_path in only) else None
    if not isinstance(kind, Listed | Mapped):
        return kind
    fields = {name: _without_text(inner, (*path, name) if name else path, only) for name, inner in kind.fields.items()}
    kept = {name: inner for name, inner in fields.items() if inner is not None}
    if all(kept.get(name) is inner for name, inner in kind.fields.items()):
        return kind
    return replace(kind, fields=kept) if kept else None


def _kept(folder: FilePath, reading: Reading, schema: Schema, run: Run, wanted: Wanted) -> Model | None:
    """The model of the folder where it is the one that would be trained; None where it is an earlier one of ours."""
    if _is_outdated(read_config(folder)):
        return None
    config = Files.of(folder).config
    source, facts = config.get("source", {}), config.get("facts", {})
    same_source = source.get("entities") == len(reading.entities) and source.get("given") == reading.given
    if facts.get("maker") != MADE_HERE:
        if same_source and not wanted.explicit:
            return training.open(folder, wanted.device)
        raise ConfigError(
            str(folder), "another model stands where this one would be kept. Name it by --model, or move it away."
        )
    if not same_source or not _is_run(config.get("run", {}), run) or config.get("kbdisk") != _version():
        return None
    model = training.open(folder, wanted.device)
    ids = {model.schema.id_of(entity) for entity in reading.entities if model.schema.class_of(entity)}
    same_ids = ids == {*model.record.training, *model.record.validation}
    return model if same_ids and _same(model.schema, schema, wanted.only) else None


def _start(folder: FilePath, reading: Reading, schema: Schema, run: Run, wanted: Wanted) -> Model | None:
    """The model of the folder where training can continue from it: one of an earlier state of the same source."""
    config = read_config(folder)
    if _is_outdated(config) or config.get("kbdisk") != _version() or not _is_run(config.get("run", {}), run):
        return None
    model = training.open(folder, wanted.device)
    fits = _same(model.schema, schema, wanted.only) and training.is_continuable(model, reading)
    return model if fits else None


def _is_outdated(config: Mapping[str, Any]) -> bool:
    """Whether it is one of ours, of a format that is no longer written."""
    facts = config.get("facts")
    return config["format"] < FORMAT and isinstance(facts, dict) and facts.get("maker") == MADE_HERE


def _same(kept: Schema, wanted: Schema, only: Collection[Path]) -> bool:
    """Whether a model of one schema is one of the other, as it would be trained; one that writes more text is as good."""
    kept = without_scales(kept)
    if wanted.rules is None:  # those of the kept one were found in the source
        kept = replace(kept, rules=None)
    same = _in_order(wanted)
    return same == _in_order(kept) or (not only and _in_order(told_apart(kept, ())) == same)


def _in_order(schema: Schema) -> str:
    """A schema as text, in whatever order its properties were met: where a gap was asked for, filling changes it."""
    classes = {
        name: replace(of, properties=dict(sorted(of.properties.items(), key=repr)))
        for name, of in sorted(schema.classes.items())
    }
    shared = schema.properties and dict(sorted(schema.properties.items(), key=repr))
    return replace(schema, classes=classes, properties=shared).to_yaml()


def _is_run(kept: Mapping[str, Any], run: Run) -> bool:
    """Whether a folder's run is this one, whose open sizes were fitted to the data."""
    told: dict[str, Any] = json.loads(json.dumps(run.to_json()))
    for table, name in left_open(run):
        told[table][name] = kept.get(table, {}).get(name)
    return told == kept


def _version() -> str:
    return version("kbdisk")


def _doing(what: str, reading: Reading, run: Run) -> str:
    steps, seconds = run.train.steps, run.train.seconds
    limits = [] if steps is None else [f"{steps:,} {'step' if steps == 1 else 'steps'}"]
    if seconds is not None:
        limits.append(f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min")
    count = len(reading.entities)
    entities = f"{count:,} {'entity' if count == 1 else 'entities'}"
    return f"{what} on {entities} of {reading.name}, for {' or '.join(limits)} at most"
