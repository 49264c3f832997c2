"""The model that a knowledge base is completed by where none is named: trained on its own entities, and kept beside it.

It is used again as long as the source, its schema and the choices about training are the same; a run that was cut
short goes on. Text is read, not learnt to be written, unless it is named: that is by far the dearest part.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from kbdisk.entity import Path
from kbdisk.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from kbdisk.api.model import Model
    from kbdisk.api.reading import Reading
    from kbdisk.schemas.schema import Class, Property, Schema
    from kbdisk.training.loop import Watch
    from kbdisk.training.run import Run

SUFFIX = ".kbdisk"
MINUTE, LONGEST = 60.0, 600.0  # seconds for the entities below, and at most
ENTITIES = 1000
MADE_HERE = "given"  # the schema of a model that was made here was handed over, not named by a user


@dataclass(frozen=True)
class Wanted:
    """What a user said about training."""

    schema: Schema | None = None
    preset: str = "default"
    budget: str | None = None
    seed: int = 0
    device: str = "auto"
    only: Collection[Path] = ()
    explicit: bool = False  # whether any of that was said, and is not just the default

    def run(self, entities: int) -> Run:
        """The choices of a run, with a budget that fits so many entities."""
        from kbdisk.api.training import run_of

        budget = fitting_budget(entities) if self.budget is None else self.budget
        return run_of(self.preset, budget, None, self.seed)


def fitting_budget(entities: int) -> float:
    """Seconds of training: a minute for a thousand entities or fewer, ten for a hundred thousand or more."""
    return round(min(MINUTE * math.sqrt(max(entities, ENTITIES) / ENTITIES), LONGEST))


def own_model(
    reading: Reading, wanted: Wanted, folder: FilePath | None, say: Callable[[str], None], watch: Watch | None
) -> Model:
    """The model kept in the folder if it still is right, or a new one, kept there where there is a folder."""
    from kbdisk.api import training
    from kbdisk.training.checkpoint import beside, is_there

    schema = told_apart(training.schema_of(wanted.schema, reading), wanted.only)
    run = wanted.run(len(reading.entities))
    if folder is not None and folder.exists():
        kept = _kept(folder, reading, schema, run, wanted)
        if kept is not None:
            say(f"using the model in {folder}")
            return kept
    settings: dict[str, Any] = {"run": run, "device": wanted.device, "watch": watch}
    if folder is None:
        say(_doing("training", reading, run))
        return training.train(reading, schema, **settings)
    unfinished = is_there(beside(folder))
    say(_doing("training goes on" if unfinished else "training", reading, run))
    try:
        return training.train(reading, schema, **settings, out=folder, resume=unfinished, force=True)
    except CheckpointError:
        if not unfinished:
            raise
    say("what was kept is of another run: training anew")
    return training.train(reading, schema, **settings, out=folder, force=True)


def folder_beside(sources: Collection[str]) -> FilePath | None:
    """Where the model of a source is kept; None where there is no place: standard input, an endpoint, no permission."""
    first = next(iter(sources))
    if first == "-" or first.startswith(("http://", "https://")):
        return None
    file = FilePath(first)
    return FilePath(f"{first.rstrip('/')}{SUFFIX}") if os.access(file.resolve().parent, os.W_OK) else None


def told_apart(schema: Schema, only: Collection[Path]) -> Schema:
    """The schema with all text to be read alone, but for what is named."""
    return replace(schema, classes={name: _of_class(one, only) for name, one in schema.classes.items()})


def _of_class(of: Class, only: Collection[Path]) -> Class:
    from kbdisk.completion.fields import meets

    def given(path: Path, one: Property) -> Property:
        dear = one.role == "value" and _is_text(one) and not any(meets(each, path) for each in only)
        return replace(one, role="given") if dear else one

    return replace(of, properties={path: given(path, one) for path, one in of.properties.items()})


def _is_text(one: Property) -> bool:
    """Whether it is text, or a list of nothing else."""
    from kbdisk.schemas.composites import leaves_of
    from kbdisk.schemas.composites.listed import COUNT
    from kbdisk.schemas.leaf import Text

    leaves = [leaf for path, leaf in leaves_of((), one.kind) if path != COUNT]
    return all(isinstance(leaf, Text) for leaf in leaves)


def _kept(folder: FilePath, reading: Reading, schema: Schema, run: Run, wanted: Wanted) -> Model | None:
    """The model of the folder where it is the one that would be trained; None where it is an earlier one of ours."""
    from kbdisk.api import training
    from kbdisk.training.files import Files

    config = Files.of(folder).config
    source, facts = config.get("source", {}), config.get("facts", {})
    same_source = source.get("sha256") == reading.sha256 and source.get("entities") == len(reading.entities)
    if facts.get("schema") != MADE_HERE:
        if same_source and not wanted.explicit:
            return training.open(folder, wanted.device)
        raise ConfigError(
            str(folder), "another model stands where this one would be kept. Name it by --model, or move it away."
        )
    if not same_source or config.get("run") != _plain(run) or config.get("kbdisk") != _version():
        return None
    model = training.open(folder, wanted.device)
    ids = {model.schema.id_of(entity) for entity in reading.entities if model.schema.class_of(entity)}
    same_ids = ids == {*model.record.training, *model.record.validation}
    return model if same_ids and _same(model.schema, schema) else None


def _same(kept: Schema, wanted: Schema) -> bool:
    """Whether a model of one schema is one of the other: one that writes more text is as good."""
    if told_apart(kept, ()).to_yaml() != told_apart(wanted, ()).to_yaml():
        return False
    named = ((of, path) for of, path, one in _properties(wanted) if one.role == "value")
    return set(named) <= {(of, path) for of, path, one in _properties(kept) if one.role == "value"}


def _properties(schema: Schema) -> Iterator[tuple[str, Path, Property]]:
    return ((of, path, each) for of, one in schema.classes.items() for path, each in one.properties.items())


def _plain(run: Run) -> Mapping[str, Any]:
    """A run as its folder has it."""
    import json

    plain: Mapping[str, Any] = json.loads(json.dumps(run.to_json()))
    return plain


def _version() -> str:
    from importlib.metadata import version

    return version("kbdisk")


def _doing(what: str, reading: Reading, run: Run) -> str:
    seconds = run.train.seconds or 0
    most = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
    return f"{what} on {len(reading.entities):,} entities of {reading.name}, for {most} at most"
