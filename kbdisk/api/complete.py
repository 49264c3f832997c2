"""A knowledge base completed, stage by stage: plan, predict, decide, write.

    completed = kbdisk.complete("kb.jsonl", model="kb.kbdisk")
    completed.plan.properties                      what is there, what lacks, what may be filled
    completed.predictions.rows                     what the model predicts for each gap
    for completion in completed: ...               what is written
    completed.with_thresholds(precision=0.95)      decides again, without predicting again
    completed.write("done.jsonl")

The network is asked once, before anything is decided. Deciding is quick and is done anew each time somebody asks.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path as FilePath
from typing import Any, NamedTuple

from kbdisk.api.model import CountCallback, Model
from kbdisk.api.source import Knowledge, LoadedSource, StrPath, as_path, named_by_schema, refuse_repeated, sources_of
from kbdisk.api.train import (
    LINKS,
    is_continuable,
    refuse_strangers,
    rules_beside,
    run_of,
    schema_of,
    train,
    untrained_model,
)
from kbdisk.api.train import (
    open as open_model,
)
from kbdisk.completion.answers import Answer, Answers, answers_in_blocks, answers_of, reviewed_of
from kbdisk.completion.complete import Completing, predicting_writable_gaps
from kbdisk.completion.config import CompletionConfig
from kbdisk.completion.fields import fields_of, overlaps, refuse_excluded, refuse_unknown, refuse_unknown_classes
from kbdisk.completion.plan import Plan
from kbdisk.completion.predict import Predicting
from kbdisk.completion.predictions import Predictions
from kbdisk.completion.provenance import fingerprint, read_rows, rows, unwritten
from kbdisk.completion.review import FORMATS, Reviewing, ReviewRow, write_review_of
from kbdisk.completion.summary import Summary
from kbdisk.completion.trial import Calibrations, calibrations_of
from kbdisk.completion.write import write_completions
from kbdisk.data.scales import without_scales
from kbdisk.data.spool import Spool
from kbdisk.entity import Completion, Entity, Path, show
from kbdisk.errors import CheckpointError, ConfigError, LoadError, WriteError, setting
from kbdisk.evaluation.drift import Drift
from kbdisk.loaders import KB
from kbdisk.loaders.files import folder_beside, sidecar_of, spooled
from kbdisk.loaders.formats import target_format
from kbdisk.loaders.kb import Placeless, Report
from kbdisk.loaders.naming import Identifiers
from kbdisk.locks import locked
from kbdisk.notebook import html_line
from kbdisk.schemas.composites import Kind
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.importers import read_constraints
from kbdisk.schemas.kinds import Text
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema
from kbdisk.store.files import FORMAT, Files, read_config, refuse_kept_folder
from kbdisk.training import checkpoint
from kbdisk.training.clock import Clock
from kbdisk.training.lock import SUFFIX as LOCK
from kbdisk.training.lock import refuse_busy, training_lock
from kbdisk.training.run import Run
from kbdisk.training.train import left_open
from kbdisk.training.validation import Watch

EXCLUDED = "the schema of the model leaves it out. Train one by a schema that has it."
OTHER_THRESHOLDS = "needs values for all gaps, and only some were predicted. Complete anew, with every_gap=True."
SOME_GAPS = "expected predictions for all gaps, got those for some. Name another file, or move this one away."
MAX_BYTES_IN_MEMORY = 1 << 24  # of the rows of a sidecar
MAX_DECIDED_TO_SHOW = 10_000  # predictions that a notebook decides on to show a summary
MIN_SECONDS, MAX_SECONDS = 90.0, 900.0  # of a completion with its training, without a budget
ENTITIES_PER_MIN_SECONDS = 1000  # that so many entities or fewer get
SECONDS_EXPONENT = 0.7  # by which the time grows with the number of entities
MAX_GIVEN_LIST_TEXTS = 2  # text fields of a list's parts that are given: the first
MAX_GIVEN_TEXTS = 4  # text properties of a class that are given: of countries named in fifty languages, the first
MAKER = "kbdisk complete"  # a model by this maker may be trained anew


@dataclass(frozen=True, eq=False)
class ModelledSource:
    """Sources with the model by which they are completed."""

    loaded: LoadedSource
    model: Model
    folder: str = ""  # of the model; empty where it has none
    is_own: bool = False  # whether the model was trained on these very sources
    model_hash: str = ""  # the fingerprint of the model, if it is known

    @property
    def kbs(self) -> Sequence[KB]:
        """The sources."""
        return self.loaded.kbs

    @property
    def entities(self) -> Sequence[Entity]:
        """The entities of all sources."""
        return self.loaded.entities

    @classmethod
    def by_model(
        cls, kbs: Sequence[KB], model: Model | StrPath, only: Collection[Path] = (), device: str = "auto"
    ) -> ModelledSource:
        """Sources with a model that is named; SchemaError where its schema describes nothing in them."""
        folder = "" if isinstance(model, Model) else os.fspath(model)
        opened = model if isinstance(model, Model) else open_model(model, device)
        kbs = [named_by_schema(kb, opened.schema) for kb in kbs]
        loaded = LoadedSource.of(kbs)
        for kb in kbs:
            entities = kb if len(kbs) > 1 else loaded.entities
            refuse_strangers(opened.schema, kb.name, entities, blank=True)
            refuse_repeated(kb, entities)
            refuse_excluded(opened.schema, only, entities, kb.name, EXCLUDED)
        return cls(loaded, opened, folder)


def read_for_own_model(kbs: Sequence[KB], schema: Schema | None) -> LoadedSource:
    """Sources read to train a model of them; LoadError where several entities have one id."""
    named = [kb if schema is None else named_by_schema(kb, schema) for kb in kbs]
    loaded = LoadedSource.of(named)
    for kb in named:
        refuse_repeated(kb, kb if len(named) > 1 else loaded.entities)
    return loaded


@dataclass(frozen=True)
class SourceAnswers:
    """The answers of people to values that were proposed earlier."""

    time: str  # when kbdisk read the answers; it is the time of the completion
    answers: Answers
    # answers given by changing values in our blocks, by the lines of the sidecar about these values
    by_line: Mapping[bytes, Answer] = field(default_factory=dict)

    @classmethod
    def of(cls, kbs: Sequence[KB], time: str | None = None) -> SourceAnswers:
        """The answers to values of sources that are files; read now, if no time is stated."""
        time, answers = time or datetime.now(UTC).isoformat(timespec="seconds"), Answers()
        files = [part.name for kb in kbs if kb.files for part in kb.parts]
        for file in files:
            answers.add(answers_of(file).rows.values())
        by_line = answers_in_blocks(kbs[0], time) if len(files) == 1 else {}
        answers.add(by_line.values())
        return cls(time, answers, by_line)


@dataclass(eq=False)
class WriteResult:
    """The result of writing."""

    report: Report
    made: int = 0  # the number of values that earlier completions filled in
    hint: str | None = None  # about entities without ids
    lost: list[Placeless] = field(default_factory=list)  # given values that the target has no place for

    def __post_init__(self) -> None:
        self._spooled_rows = spooled(self, MAX_BYTES_IN_MEMORY)

    @property
    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows of the sidecar, as the target has their values."""
        return read_rows(self._spooled_rows, self.report)


class Completed(Iterable[Completion]):
    """A knowledge base with its gaps predicted. Iterating over it decides which are filled: a completion for each entity."""

    def __init__(
        self,
        source: ModelledSource,
        plan: Plan,
        predictions: Predictions,
        shapes: Schema | None = None,
        answered: SourceAnswers | None = None,
        calibrations: Calibrations | None = None,
    ) -> None:
        self.source, self.plan, self.predictions, self.shapes = source, plan, predictions, shapes
        self.answered = answered or SourceAnswers.of(source.kbs)
        self.calibrations = calibrations
        self._decided: Completing | None = None

    @classmethod
    def of(
        cls,
        source: ModelledSource,
        choices: CompletionConfig,
        *,
        shapes: Schema | None = None,
        predictions: Predictions | None = None,
        every_gap: bool = True,
        progress: CountCallback | None = None,
        time: str | None = None,
        at_once: bool = True,
    ) -> Completed:
        """Plan and predict; `predictions` of the same source and model are taken as they are. `time` is now, if not stated.

        Without `at_once` predictions are taken when they are decided on, and other processes predict the next gaps meanwhile.
        """
        source.model.trained.warn_of_order(
            ", not to complete any: what it fills in is a rough guess. Train with --preset default.", stacklevel=3
        )
        trained = source.model.trained
        plan = Plan(trained, source.entities, choices, source.loaded.readings(trained.schema))
        answered = SourceAnswers.of(source.kbs, time)
        calibrations = None if source.is_own else calibrations_of(plan.trained, plan.entities, choices)
        predicting = (
            Predicting(plan, shapes, answers=answered.answers, watch=progress)
            if every_gap
            else predicting_writable_gaps(
                plan, shapes, calibrations=calibrations, answers=answered.answers, watch=progress
            )
        )
        if predictions is None:
            coming = (lines for _, lines in predicting.lines())
            first = list(itertools.islice(coming, 1))  # other processes begin to predict
            predictions = Predictions(predicting.about, predicting.covers_all_gaps, itertools.chain(first, coming))
            if at_once:
                predictions.finish()
        elif every_gap and not predictions.covers_all_gaps:
            raise LoadError(predictions.name, SOME_GAPS)
        else:
            predictions.refuse_other(predicting.about())
        return cls(source, plan, predictions, shapes, answered, calibrations)

    def __repr__(self) -> str:
        """The predicted gaps; the filled ones once decisions were made."""
        sources = ", ".join(kb.name for kb in self.source.kbs)
        filled = "" if self._decided is None else f", {self._decided.summary.filled:,} filled"
        return f"<Completed {sources}: {self.predictions.count:,} gaps predicted{filled}>"

    def _repr_html_(self) -> str:
        """The summary. Many predictions are not decided on for it: then one line."""
        if self._decided is None and not self._is_quickly_decided:
            return html_line(f"{repr(self)[1:-1]}: .summary decides which are filled")
        return self.summary._repr_html_()

    @property
    def _is_quickly_decided(self) -> bool:
        """Whether a notebook may decide on all predictions to show the summary."""
        is_quickly_read = all(part.is_quickly_read for kb in self.source.kbs for part in kb.parts)
        return self.predictions.count <= MAX_DECIDED_TO_SHOW and is_quickly_read

    # ------------------------------------------------------------ deciding

    def __iter__(self) -> Iterator[Completion]:
        return self._completions(keeps_held_back=False)

    def _completions(self, *, keeps_held_back: bool) -> Iterator[Completion]:
        predicted = self.predictions.beside(self.plan)
        completing = Completing(
            self.plan, predicted, self.shapes, self.answered.answers, keeps_held_back, self.calibrations
        )
        yield from completing
        self._decided = completing

    @property
    def _all_decided(self) -> Completing:
        """The latest decisions on all entities."""
        if self._decided is None:
            deque(self, maxlen=0)
        assert self._decided is not None
        return self._decided

    @property
    def summary(self) -> Summary:
        """How many gaps were filled, property by property, and why others were not."""
        return self._all_decided.summary

    @property
    def drift(self) -> Drift:
        """What in the source is unlike the training data."""
        return self._all_decided.drift

    @property
    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each value that is written, as a provenance file has it."""
        for completion in self:
            yield from rows(completion, self._model_facts, self.answered.time)

    def with_thresholds(
        self, *, min_confidence: float | None = None, precision: float | None = None, fill: str | None = None
    ) -> Completed:
        """The same predictions, decided on with other thresholds; without any, the default one. Nothing is predicted again."""
        if not self.predictions.covers_all_gaps:
            raise ConfigError("with_thresholds", OTHER_THRESHOLDS)
        choices = self.plan.config
        choices = replace(choices, min_confidence=min_confidence, precision=precision, fill=fill or choices.fill)
        other = copy.copy(self)
        other.plan, other._decided = self.plan.with_config(choices), None
        return other

    @cached_property
    def _model_facts(self) -> dict[str, str]:
        source = self.source
        return {"name": FilePath(source.folder).name, "hash": source.model_hash or fingerprint(source.model.trained)}

    # ------------------------------------------------------------ writing

    def write(
        self,
        target: StrPath | None,
        *,
        format: str | None = None,
        insert: bool = False,
        force: bool = False,
        in_place: bool = False,
        review: str | None = None,
        review_options: Mapping[str, Any] | None = None,
    ) -> WriteResult:
        """Write the source with what is filled in, and beside it TARGET.provenance.jsonl. Without a target nothing is written.

        `review` is a table of all proposed values, for people to decide on; `review_options` say how the source was read.
        """
        kbs, name = self.source.kbs, None if target is None else os.fspath(target)
        if review:
            _refuse_review(review, kbs, force)
        identifiers, written = Identifiers(), WriteResult(Report())
        reviewing = Reviewing(kbs[0], self.plan.entities, self.plan.schema) if review else None
        reviewed: list[ReviewRow] = []
        held_back: list[ReviewRow] = []

        def recorded() -> Iterator[tuple[Completion, list[dict[str, Any]]]]:
            for completion in self._completions(keeps_held_back=reviewing is not None):
                written.made += len(completion.entity.made or ())
                identifiers.take(completion.entity)
                sidecar_rows = list(rows(completion, self._model_facts, self.answered.time))
                if reviewing is not None:
                    pairs = zip(sidecar_rows, completion.filled, strict=True)
                    reviewed.extend(reviewing.row(completion, path, row) for row, path in pairs)
                    held_back.extend(reviewing.held_back(completion, self._model_facts, self.answered.time))
                yield completion, sidecar_rows

        def beside(report: Report, several: ExitStack) -> None:
            if self.answered.by_line:
                self.answered.answers.write(reviewed_of(kbs[0].name), several)

        written.report = write_completions(
            kbs,
            recorded(),
            name,
            format=format,
            insert=insert,
            force=force,
            in_place=in_place,
            answered=self.answered.by_line,
            beside=beside,
            kept=written._spooled_rows,
        )
        if review:
            all_rows = [*reviewed, *sorted(held_back, key=lambda row: -(row.confidence or 0.0))]
            target_file = "" if name in (None, "-") else str(name)
            self._write_review(review, all_rows, written.report, target_file, dict(review_options or {}))
        written.hint = identifiers.hint
        written.lost = unwritten(self.summary, written._spooled_rows, written.report.unwritable)
        return written

    def _write_review(
        self, file: str, rows: Sequence[ReviewRow], report: Report, target: str, options: dict[str, Any]
    ) -> None:
        """Write the review. It comes after the target, which is complete without it."""
        kb = self.source.kbs[0]
        kb.refuse_changed()
        if kb.options.id is not None:
            options["id"] = show(kb.options.id)
        with locked(file):
            write_review_of(file, rows, report, kb.name, target, options)


def complete(
    source: Knowledge,
    out: StrPath | None = None,
    *,
    model: Model | StrPath | None = None,
    schema: Schema | StrPath | None = None,
    preset: str | None = None,
    budget: str | float | None = None,
    steps: int | None = None,
    keep: StrPath | None = None,
    shapes: Schema | StrPath | None = None,
    only: Iterable[Path | str] = (),
    classes: Iterable[str] = (),
    seed: int | None = None,
    device: str = "auto",
    predictions: Predictions | StrPath | None = None,
    every_gap: bool | None = None,
    force: bool = False,
    watch: Watch | None = None,
    progress: CountCallback | None = None,
    report: Callable[[str], None] | None = None,
    **choices: Any,
) -> Completed:
    """A knowledge base with its gaps predicted, as `kbdisk complete` does it; with `out` it is written there.

    `model` is a model, or the folder of one. Without it a model is trained on the source, by `schema`, `preset`, `budget` and
    `steps`, and kept in the folder `keep`, by default beside its first file, to be used again. The written values satisfy the
    constraints of `shapes`, a schema or a file of SHACL. `choices` are those of kbdisk.completion.CompletionConfig: fill,
    min_confidence, precision, estimate, order, leap, draws.

    `predictions` are those of an earlier call, or a file. The predictions are read from the file if it exists, else saved to
    it. Values are predicted for all gaps, so that `with_thresholds` needs no new prediction; with `every_gap=False` only for
    gaps that may be written, which takes less time. False is the default for values that are drawn, or predicted from each
    other, as more gaps would change them.

    `watch` is called during training, `progress` during prediction, `report` with a line about the model.
    """
    chosen = choices_of(only, classes, seed, choices)
    clock = Clock(fills=chosen.fill, report=report)
    training_options = {"schema": schema, "preset": preset, "budget": budget, "steps": steps}
    named = [name for name, value in training_options.items() if value is not None]
    if model is not None and named:
        raise ConfigError(named[0], "says how to train, and model what was trained. Leave one out.")
    if model is not None and keep is not None:
        raise ConfigError("keep", "is for a newly trained model, and model is a trained one. Leave one out.")
    if keep is not None:
        refuse_kept_folder(keep)
    kbs = sources_of(source)
    if out is not None:
        _refuse_target(kbs, os.fspath(out), force)
    if shapes is not None and not isinstance(shapes, Schema):
        shapes = read_constraints(os.fspath(shapes), report or _unreported)
    kept = predictions_of(predictions)
    if model is not None:
        modelled = ModelledSource.by_model(kbs, model, chosen.only, device)
    else:
        known = schema if schema is None or isinstance(schema, Schema) else Schema.read(schema)
        options = TrainingOptions(
            schema=known,
            schema_name="" if schema is None else "given" if isinstance(schema, Schema) else os.fspath(schema),
            preset=preset or "default",
            budget=budget,
            steps=steps,
            seed=chosen.seed,
            device=device,
            only=chosen.only,
            classes=chosen.classes,
            explicit=bool(named),
        )
        loaded = read_for_own_model(kbs, known)
        modelled = own_model(loaded, options, report or _unreported, watch, folder=keep, clock=clock)
    every_gap = chosen.is_independent if every_gap is None else every_gap
    completed = Completed.of(
        modelled,
        chosen,
        shapes=shapes,
        predictions=kept,
        every_gap=every_gap,
        progress=progress,
        at_once=out is None,
    )
    if kept is None and predictions is not None and not isinstance(predictions, Predictions):
        completed.predictions.save(os.fspath(predictions))
    if out is not None:
        completed.write(out, force=force)
    for line in clock.lines():
        (report or _unreported)(line)
    return completed


def choices_of(
    only: Iterable[Path | str], classes: Iterable[str], seed: int | None, choices: Mapping[str, Any]
) -> CompletionConfig:
    """The settings of a completion; ConfigError for an option that does not exist."""
    option_names = [field.name for field in fields(CompletionConfig)]
    for name in choices:
        if name not in option_names:
            raise ConfigError(name, f"expected one of {', '.join(option_names)}, got another option. Leave it out.")
    paths = [only] if isinstance(only, str) else only
    names = (classes,) if isinstance(classes, str) else tuple(classes)
    return CompletionConfig(**choices, only=tuple(map(as_path, paths)), classes=names, seed=seed or 0)


def predictions_of(predictions: Predictions | StrPath | None) -> Predictions | None:
    """Predictions, or those of a file that exists; None where they are to be saved to it. WriteError where they could not be."""
    if predictions is None or isinstance(predictions, Predictions):
        return predictions
    file = FilePath(predictions)
    if file.exists():
        return Predictions.read(file)
    if not file.absolute().parent.is_dir():
        raise WriteError(str(file), "cannot be written: no such directory.")
    return None


def _refuse_review(name: str, kbs: Sequence[KB], force: bool) -> None:
    """Refuse a review that could not be applied, or that has decisions in it already."""
    if not name.lower().endswith(FORMATS):
        raise ConfigError("review", f"expected a name that ends in {', '.join(FORMATS)}, got {name!r}.")
    if len(kbs) > 1 or not kbs[0].files or len(kbs[0].parts) > 1:
        raise ConfigError("review", f"needs one source that is a file, got {', '.join(kb.name for kb in kbs)}.")
    if FilePath(name).exists() and not force:
        raise WriteError(name, f"exists already, with what was decided in it. Say {setting('force')} to replace it.")


def _refuse_target(kbs: Sequence[KB], target: str, force: bool) -> None:
    """Refuse a target that exists, or whose format is unknown, before a model is trained."""
    target_format(kbs, target, None)
    for file in (FilePath(target), sidecar_of(target)):
        if target != "-" and file.exists() and not force:
            raise WriteError(str(file), f"exists already. Say {setting('force')} to replace it.")


def _unreported(line: str) -> None:
    pass


# ---------------------------------------------------------------- the source's own model
#
# Where no model is named the source is completed by a model that was trained on its own entities and is kept beside it. The
# kept model is used again as long as the given values, the schema and the settings of training are the same. A training that
# was interrupted is resumed. After an edit of the source training continues from the networks of the kept model, as long as
# it knows all classes and properties and nearly all labels; held-out values stay held out. Text is given to the networks
# but not predicted, unless it is named, as decoding text is by far the most expensive part.


@dataclass(frozen=True)
class TrainingOptions:
    """The options of a user for the training of a source's own model."""

    schema: Schema | None = None
    schema_name: str = ""
    preset: str = "default"
    budget: str | float | None = None
    steps: int | None = None
    seed: int = 0
    device: str = "auto"
    only: Collection[Path] = ()
    classes: Collection[str] = ()
    explicit: bool = False  # whether the user named a schema, a preset, a budget or steps

    @property
    def why_excluded(self) -> str:
        """Why a property is not in the schema, and how to include it."""
        if self.schema is not None:
            return f"{self.schema_name} leaves it out. Put it in there."
        why = "schema infer --explain says why"
        return f"the inferred schema leaves it out: kbdisk {why}. Put it into one of your own, and say --schema."

    def run(self, entities: int) -> Run:
        """The settings of a training; without a budget or steps, its time fits the number of entities."""
        budget = fitting_budget(entities) if self.budget is None and self.steps is None else self.budget
        run = run_of(self.preset, budget, None, self.seed, self.steps)
        return run.with_experts(**{LINKS: replace(run.experts[LINKS], share=0.0)})  # completing does not ask it


def fitting_budget(entities: int) -> float:
    """Seconds of a completion: one and a half minutes for a thousand entities or fewer, 15 minutes at most."""
    more: float = (max(entities, ENTITIES_PER_MIN_SECONDS) / ENTITIES_PER_MIN_SECONDS) ** SECONDS_EXPONENT
    return round(min(MIN_SECONDS * more, MAX_SECONDS))


def own_model(
    loaded: LoadedSource,
    options: TrainingOptions,
    report: Callable[[str], None],
    watch: Watch | None = None,
    *,
    folder: StrPath | None = None,
    keep: bool = True,
    clock: Clock | None = None,
) -> ModelledSource:
    """Sources with the model that was trained on them: the one in the folder if it still fits, or a new one.

    A new model is kept in the folder with `keep`; the default folder stands beside the first file. Nothing is trained where no
    property could be filled. The budget bounds what the `clock` counts; without one what is done here.
    """
    file = loaded.kbs[0].parts[0]
    beside = folder_beside([file.name]) if file.path is not None else None
    kept_at = FilePath(folder) if folder else beside
    model, kept_folder = _own_model(loaded, options, report, watch, kept_at, keep, clock or Clock())
    return ModelledSource(loaded, model, str(kept_folder or ""), is_own=True)


def _own_model(
    loaded: LoadedSource,
    options: TrainingOptions,
    report: Callable[[str], None],
    watch: Watch | None,
    folder: FilePath | None,
    keep: bool,
    clock: Clock,
) -> tuple[Model, FilePath | None]:
    """The model, and its folder, if it has one."""
    clock.read = clock.spent
    full_schema = schema_of(options.schema, loaded)
    schema = with_text_given(full_schema, options.only)
    refuse_excluded(schema, options.only, loaded.entities, loaded.name, options.why_excluded)
    refuse_unknown(schema, options.only)
    refuse_unknown_classes(schema, options.classes)
    run = options.run(len(loaded.entities))
    kept = _kept_model(folder, loaded, schema, run, options) if folder is not None and folder.exists() else None
    if kept is not None and kept.is_current and folder is not None:
        _remove_run(folder)
        report(f"using the model in {folder}")
        return kept.model, folder
    if schema == full_schema and not isinstance(loaded.entities, Spool):
        loaded.readings(schema)  # both processes need them
    rules = rules_beside(full_schema, loaded, run)  # rules may fill text
    if len(loaded.entities) <= ENTITIES_PER_MIN_SECONDS:  # larger sources nearly always have something to learn
        untrained = untrained_model(loaded, schema, run, options.device, rules())
        if not _fills(untrained, options.only):
            report("nothing is trained: too little is known of any property that may be filled")
            return untrained, None
    kept_folder = folder if keep and folder is not None and os.access(folder.resolve().parent, os.W_OK) else None
    notes = {"maker": MAKER, "schema": options.schema_name or "inferred"}
    settings: dict[str, Any] = {
        "device": options.device,
        "watch": watch,
        "notes": notes,
        "clock": clock,
        "rules": rules,
    }
    settings |= {"run": run} if kept is None else {"start": kept.model}
    return _train_and_keep(loaded, schema, settings, kept_folder, report), kept_folder


def _remove_run(folder: FilePath) -> None:
    """Remove the checkpoint of a process that was killed after it saved its model, unless another process trains now."""
    if checkpoint.beside(folder).exists() or folder.with_name(folder.name + LOCK).exists():
        with contextlib.suppress(CheckpointError), training_lock(folder):
            checkpoint.remove(checkpoint.beside(folder))


def _fills(model: Model, only: Collection[Path]) -> bool:
    """Whether the model can fill any property."""
    by_class = fields_of(model.trained.codec, CompletionConfig(only=tuple(only)))
    return any(not field.why_not for class_fields in by_class.values() for field in class_fields.fields.values())


def _train_and_keep(
    loaded: LoadedSource,
    schema: Schema,
    settings: Mapping[str, Any],
    folder: FilePath | None,
    report: Callable[[str], None],
) -> Model:
    """A new model, or one whose interrupted training is resumed; saved where there is a folder."""
    start: Model | None = settings.get("start")
    run: Run = settings["run"] if start is None else start.trained.run
    if folder is None:
        report(_training_line("training", loaded, run))
        return train(loaded, schema, **settings)
    refuse_busy(folder)
    unfinished = checkpoint.is_there(checkpoint.beside(folder))
    continued = "training" if start is None else f"the source has changed: continuing from the model in {folder}"
    report(_training_line("going on with training" if unfinished else continued, loaded, run))
    try:
        return train(loaded, schema, **settings, out=folder, resume=unfinished, force=True)
    except CheckpointError:
        if not unfinished:
            raise
    report("what was kept is of another run: training anew")
    return train(loaded, schema, **settings, out=folder, force=True)


def with_text_given(schema: Schema, only: Collection[Path]) -> Schema:
    """The schema with text in the role `given`, except for named properties; at most `MAX_GIVEN_TEXTS` for each class."""
    classes = {name: _class_with_text_given(known, only) for name, known in schema.classes.items()}
    shared = schema.properties and {
        path: _property_with_text_given(known, path, only) for path, known in schema.properties.items()
    }
    return replace(schema, classes=classes, properties=shared)


def _class_with_text_given(schema_class: Class, only: Collection[Path]) -> Class:
    before = schema_class.properties
    properties = {path: _property_with_text_given(known, path, only) for path, known in before.items()}
    texts = [path for path, known in before.items() if known.role == "value" and properties[path].role == "given"]
    ignored = {path: replace(properties[path], role="ignore") for path in texts[MAX_GIVEN_TEXTS:]}
    schema_class = replace(schema_class, properties={**properties, **ignored})
    return replace(schema_class, constraints=schema_class.constraints_on_properties())


def _property_with_text_given(known: Property, path: Path, only: Collection[Path]) -> Property:
    """A property whose texts are given: in the role `given` if it is text. Of a list the first text fields are; others are left out.

    An ignored property, such as an identifier, is learnt where it is named.
    """
    if known.role == "ignore" and path in only:
        return replace(known, role="value")
    kind = _with_texts_given(known.kind, path, only, itertools.count())
    if known.role != "value" or kind is known.kind:
        return known
    return replace(known, role="given") if kind is None else replace(known, kind=kind)


def _with_texts_given(kind: Kind, path: Path, only: Collection[Path], numbers: Iterator[int]) -> Kind | None:
    """A kind whose unnamed texts are given: of a list the first, without the others. None if it is such text, or holds nothing else."""
    if not isinstance(kind, Listed | Mapped):
        is_unnamed = isinstance(kind, Text) and not any(overlaps(named_path, path) for named_path in only)
        return None if is_unnamed else kind
    fields: dict[str, Kind] = {}
    has_other = False
    for name, inner in kind.fields.items():
        field_kind = _with_texts_given(inner, (*path, name) if name else path, only, numbers)
        has_other |= field_kind is not None
        if field_kind is None and isinstance(inner, Text) and next(numbers) < MAX_GIVEN_LIST_TEXTS:
            field_kind = replace(inner, given=True)
        if field_kind is not None:
            fields[name] = field_kind
    if fields == dict(kind.fields):
        return kind
    return replace(kind, fields=fields) if has_other else None


class KeptModel(NamedTuple):
    """The model in a folder, of an earlier completion of the same source."""

    model: Model
    is_current: bool  # whether it is the one that would be trained; else training continues from it


def _kept_model(
    folder: FilePath, loaded: LoadedSource, schema: Schema, run: Run, options: TrainingOptions
) -> KeptModel | None:
    """The model of the folder; None where it is an earlier one that may be replaced, and that training cannot continue from."""
    if _is_outdated(read_config(folder)):
        return None
    config = Files.of(folder).config
    source, facts = config.get("source", {}), config.get("facts", {})
    same_source = source.get("entities") == len(loaded.entities) and source.get("given") == loaded.given
    if facts.get("maker") != MAKER:
        if same_source and not options.explicit:
            return KeptModel(open_model(folder, options.device), is_current=True)
        raise ConfigError(
            str(folder), "another model stands where this one would be kept. Name it by --model, or move it away."
        )
    if not _is_run(config.get("run", {}), run) or config.get("kbdisk") != version("kbdisk"):
        return None
    model = open_model(folder, options.device)
    if not _is_same_schema(model.schema, schema, options.only):
        return None
    ids = {model.schema.id_of(entity) for entity in loaded.entities if model.schema.class_of(entity)}
    known = {*model.record.training, *model.record.validation}
    is_sampled = "left_out" in model.record.facts
    if same_source and (known <= ids if is_sampled else known == ids):
        return KeptModel(model, is_current=True)
    return KeptModel(model, is_current=False) if is_continuable(model, loaded) else None


def _is_outdated(config: Mapping[str, Any]) -> bool:
    """Whether the model is by `MAKER`, in an earlier format."""
    facts = config.get("facts")
    return config["format"] < FORMAT and isinstance(facts, dict) and facts.get("maker") == MAKER


def _is_same_schema(kept: Schema, wanted: Schema, only: Collection[Path]) -> bool:
    """Whether a kept model has the schema that is wanted. It may predict text that is not wanted, too."""
    kept = without_scales(kept)
    if wanted.rules is None:  # those of the kept model were found in the source
        kept = replace(kept, rules=None)
    text = _sorted_yaml(wanted)
    return text == _sorted_yaml(kept) or (not only and text == _sorted_yaml(with_text_given(kept, ())))


def _sorted_yaml(schema: Schema) -> str:
    """A schema as text, sorted: filled gaps may change the order in which properties are found."""
    classes = {
        name: replace(known, properties=dict(sorted(known.properties.items(), key=repr)))
        for name, known in sorted(schema.classes.items())
    }
    shared = schema.properties and dict(sorted(schema.properties.items(), key=repr))
    return replace(schema, classes=classes, properties=shared).to_yaml()


def _is_run(kept: Mapping[str, Any], run: Run) -> bool:
    """Whether the run of a folder has these settings, apart from sizes that were fitted to the data."""
    settings: dict[str, Any] = json.loads(json.dumps(run.to_json()))
    for table, name in left_open(run):
        settings[table][name] = kept.get(table, {}).get(name)
    return settings | {LINKS: kept.get(LINKS)} == kept


def _training_line(what: str, loaded: LoadedSource, run: Run) -> str:
    """The line that says what is trained, and how long that may take."""
    steps, seconds = run.train.steps, run.train.seconds
    limits = [] if steps is None else [f"for {steps:,} {'step' if steps == 1 else 'steps'} at most"]
    if seconds is not None:
        limits.append(f"within {f'{seconds:.0f} s' if seconds < 120 else f'{seconds / 60:.0f} min'} in all")
    count = len(loaded.entities)
    entities = f"{count:,} {'entity' if count == 1 else 'entities'}"
    return ", ".join([f"{what} on {entities} of {loaded.name}", *limits])
