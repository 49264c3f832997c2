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

import copy
import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any

from kbdisk.api import training
from kbdisk.api.model import Model
from kbdisk.api.ownmodel import Wanted, own_model
from kbdisk.api.reading import Knowledge, Reading, as_path, named_by_schema, refuse_repeated, sources_of
from kbdisk.completion.answers import Answer, Answers, answers_in_blocks, answers_of, reviewed_of
from kbdisk.completion.complete import Completing, predicting_writable_gaps
from kbdisk.completion.config import CompletionConfig
from kbdisk.completion.fields import refuse_excluded
from kbdisk.completion.plan import Plan
from kbdisk.completion.predict import Predicting
from kbdisk.completion.predictions import Predictions
from kbdisk.completion.provenance import fingerprint, read_rows, rows, unwritten
from kbdisk.completion.recalibration import Calibrations, calibrations_of
from kbdisk.completion.review import FORMATS, Reviewing, ReviewRow, write_review_of
from kbdisk.completion.sidecar import given_entities
from kbdisk.completion.summary import Summary
from kbdisk.completion.write import write_completions
from kbdisk.entity import Completion, Entity, Path, show
from kbdisk.errors import ConfigError, LoadError, WriteError, setting
from kbdisk.evaluation.drift import Drift
from kbdisk.loaders import KB
from kbdisk.loaders.files import folder_beside, sidecar_of, spooled
from kbdisk.loaders.formats import target_format
from kbdisk.loaders.kb import Placeless, Report
from kbdisk.loaders.naming import Identifiers
from kbdisk.locks import locked
from kbdisk.schemas.importers import read_constraints
from kbdisk.schemas.schema import Schema
from kbdisk.store.files import refuse_kept_folder
from kbdisk.training.validation import Watch

Folder = str | os.PathLike[str]
Counted = Callable[[int, int], None]  # how many entities are done, of how many

EXCLUDED = "the schema of the model leaves it out. Train one by a schema that has it."
OTHER_THRESHOLDS = "needs values for all gaps, and only some were predicted. Complete anew, with every_gap=True."
SOME_GAPS = "expected predictions for all gaps, got those for some. Name another file, or move this one away."
MAX_BYTES_IN_MEMORY = 1 << 24  # of the rows of a sidecar


@dataclass(frozen=True, eq=False)
class ModelledSource:
    """Sources and the model by which they are completed."""

    kbs: Sequence[KB]
    entities: Iterable[Entity]
    model: Model
    folder: str = ""  # where the model is; empty where it is kept nowhere
    is_own: bool = False  # whether the model was trained on these very sources

    @classmethod
    def by_model(
        cls, kbs: Sequence[KB], model: Model | Folder, only: Collection[Path] = (), device: str = "auto"
    ) -> ModelledSource:
        """Sources with a model that is named; SchemaError where it is of other things."""
        folder = "" if isinstance(model, Model) else os.fspath(model)
        opened = model if isinstance(model, Model) else training.open(model, device)
        kbs = [named_by_schema(kb, opened.schema) for kb in kbs]
        for kb in kbs:
            training.refuse_strangers(opened.schema, kb.name, kb, blank=True)
            refuse_repeated(kb, kb)
            refuse_excluded(opened.schema, only, kb, kb.name, EXCLUDED)
        return cls(kbs, Reading.of(kbs).entities if len(kbs) > 1 else given_entities(kbs[0]), opened, folder)

    @classmethod
    def by_own_model(
        cls,
        reading: Reading,
        wanted: Wanted,
        report: Callable[[str], None],
        watch: Watch | None = None,
        *,
        folder: Folder | None = None,
        keep: bool = True,
    ) -> ModelledSource:
        """Sources with the model that was trained on them: the one in the folder, or a new one, kept there.

        Without a folder it is the one beside the first file.
        """
        file = reading.sources[0].parts[0]
        beside = folder_beside([file.name]) if file.path is not None else None
        own = own_model(reading, wanted, FilePath(folder) if folder else beside, report, watch, keep=keep)
        return cls(reading.sources, reading.entities, own.model, "" if own.folder is None else str(own.folder), True)


def read_for_own_model(kbs: Sequence[KB], schema: Schema | None) -> Reading:
    """Sources read to train a model of them; LoadError where several entities have one id."""
    named = [kb if schema is None else named_by_schema(kb, schema) for kb in kbs]
    reading = Reading.of(named)
    for kb in named:
        refuse_repeated(kb, kb if len(named) > 1 else reading.entities)
    return reading


@dataclass(frozen=True)
class Answered:
    """What people answered to values that were proposed before."""

    time: str  # when kbdisk read the answers, and completes
    answers: Answers
    # by what they did to values in our blocks, by the lines of the sidecar that tell of these
    by_line: Mapping[bytes, Answer] = field(default_factory=dict)

    @classmethod
    def of(cls, kbs: Sequence[KB]) -> Answered:
        """The answers to values of sources that are files."""
        time, answers = datetime.now(UTC).isoformat(timespec="seconds"), Answers()
        files = [part.name for kb in kbs if kb.files for part in kb.parts]
        for file in files:
            answers.add(answers_of(file).rows.values())
        by_line = answers_in_blocks(kbs[0], time) if len(files) == 1 else {}
        answers.add(by_line.values())
        return cls(time, answers, by_line)


@dataclass(eq=False)
class Written:
    """What writing came to."""

    report: Report
    made: int = 0  # values that an earlier completion filled in
    hint: str | None = None  # about entities without ids
    lost: list[Placeless] = field(default_factory=list)  # given values that the target has no place for

    def __post_init__(self) -> None:
        self._kept = spooled(self, MAX_BYTES_IN_MEMORY)

    @property
    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows of the sidecar, as the target has their values."""
        return read_rows(self._kept, self.report)


class Completed(Iterable[Completion]):
    """A knowledge base with its gaps predicted. Going through it decides: a completion for each entity."""

    def __init__(
        self,
        source: ModelledSource,
        plan: Plan,
        predictions: Predictions,
        shapes: Schema | None = None,
        answered: Answered | None = None,
        calibrations: Calibrations | None = None,
    ) -> None:
        self.source, self.plan, self.predictions, self.shapes = source, plan, predictions, shapes
        self.answered = answered or Answered.of(source.kbs)
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
        progress: Counted | None = None,
    ) -> Completed:
        """Plan and predict; `predictions` of the same source and model are taken as they are."""
        source.model.trained.warn_of_order(
            ", not to complete any: what it fills in is a rough guess. Train with --preset default.", stacklevel=3
        )
        plan = Plan(source.model.trained, source.entities, choices)
        answered = Answered.of(source.kbs)
        calibrations = None if source.is_own else calibrations_of(plan.trained, plan.entities, choices)
        predicting = (
            Predicting(plan, shapes, answers=answered.answers, watch=progress)
            if every_gap
            else predicting_writable_gaps(
                plan, shapes, calibrations=calibrations, answers=answered.answers, watch=progress
            )
        )
        if predictions is None:
            predictions = Predictions.of(predicting)
        elif every_gap and not predictions.covers_all_gaps:
            raise LoadError(predictions.name, SOME_GAPS)
        else:
            predictions.refuse_other(predicting.about())
        return cls(source, plan, predictions, shapes, answered, calibrations)

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
        """What the latest decisions came to."""
        if self._decided is None:
            deque(self, maxlen=0)
        assert self._decided is not None
        return self._decided

    @property
    def summary(self) -> Summary:
        """Property by property how many gaps were filled, and why others stay."""
        return self._all_decided.summary

    @property
    def drift(self) -> Drift:
        """What in the source is unlike what the model learnt from."""
        return self._all_decided.drift

    @property
    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each value that is written, as a provenance file has it."""
        for completion in self:
            yield from rows(completion, self._model_facts, self.answered.time)

    def with_thresholds(
        self, *, min_confidence: float | None = None, precision: float | None = None, fill: str | None = None
    ) -> Completed:
        """The same predictions, decided on with other thresholds; without either the usual one. Nothing is predicted again."""
        if not self.predictions.covers_all_gaps:
            raise ConfigError("with_thresholds", OTHER_THRESHOLDS)
        choices = self.plan.config
        choices = replace(choices, min_confidence=min_confidence, precision=precision, fill=fill or choices.fill)
        other = copy.copy(self)
        other.plan, other._decided = self.plan.with_config(choices), None
        return other

    @cached_property
    def _model_facts(self) -> dict[str, str]:
        return {"name": FilePath(self.source.folder).name, "hash": fingerprint(self.source.model.trained)}

    # ------------------------------------------------------------ writing

    def write(
        self,
        target: Folder | None,
        *,
        format: str | None = None,
        insert: bool = False,
        force: bool = False,
        in_place: bool = False,
        review: str | None = None,
        review_options: Mapping[str, Any] | None = None,
    ) -> Written:
        """Write the source with what is filled in, and beside it TARGET.provenance.jsonl. Without a target nothing is written.

        `review` is a table of all proposed values, for people to decide on; `review_options` say how the source was read.
        """
        kbs, name = self.source.kbs, None if target is None else os.fspath(target)
        if review:
            _refuse_review(review, kbs, force)
        identifiers, written = Identifiers(), Written(Report())
        reviewing = Reviewing(kbs[0], self.plan.entities, self.plan.schema) if review else None
        reviewed: list[ReviewRow] = []
        held_back: list[ReviewRow] = []

        def recorded() -> Iterator[tuple[Completion, list[dict[str, Any]]]]:
            for completion in self._completions(keeps_held_back=reviewing is not None):
                written.made += len(completion.entity.made or ())
                identifiers.take(completion.entity)
                own = list(rows(completion, self._model_facts, self.answered.time))
                if reviewing is not None:
                    pairs = zip(own, completion.filled, strict=True)
                    reviewed.extend(reviewing.row(completion, path, row) for row, path in pairs)
                    held_back.extend(reviewing.held_back(completion, self._model_facts, self.answered.time))
                yield completion, own

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
            kept=written._kept,
        )
        if review:
            all_rows = [*reviewed, *sorted(held_back, key=lambda row: -(row.confidence or 0.0))]
            target_file = "" if name in (None, "-") else str(name)
            self._write_review(review, all_rows, written.report, target_file, dict(review_options or {}))
        written.hint = identifiers.hint
        written.lost = unwritten(self.summary, written._kept, written.report.unwritable)
        return written

    def _write_review(
        self, file: str, rows: Sequence[ReviewRow], report: Report, target: str, options: dict[str, Any]
    ) -> None:
        """The review of what was written, or would be; after the target, as it is right without a review."""
        kb = self.source.kbs[0]
        kb.refuse_changed()
        if kb.options.id is not None:
            options["id"] = show(kb.options.id)
        with locked(file):
            write_review_of(file, rows, report, kb.name, target, options)


def complete(
    source: Knowledge,
    out: Folder | None = None,
    *,
    model: Model | Folder | None = None,
    schema: Schema | Folder | None = None,
    preset: str | None = None,
    budget: str | float | None = None,
    steps: int | None = None,
    keep: Folder | None = None,
    shapes: Schema | Folder | None = None,
    only: Iterable[Path | str] = (),
    classes: Iterable[str] = (),
    seed: int | None = None,
    device: str = "auto",
    predictions: Predictions | Folder | None = None,
    every_gap: bool | None = None,
    force: bool = False,
    watch: Watch | None = None,
    progress: Counted | None = None,
    report: Callable[[str], None] | None = None,
    **choices: Any,
) -> Completed:
    """A knowledge base with its gaps predicted, as `kbdisk complete` does it; with `out` it is written there.

    `model` is a model, or the folder of one. Without it a model is trained on the source, by `schema`, `preset`, `budget` and
    `steps`, and kept in the folder `keep`, by default beside its first file, to be used again. `shapes` is a schema, or a file of SHACL, whose constraints hold in what
    is written. `choices` are those of kbdisk.completion.CompletionConfig: fill, min_confidence, precision, estimate, order, leap, draws.

    `predictions` are those of an earlier call, or a file: where it is there the predictions are read from it, else they are
    saved to it. Values are predicted for all gaps, so that `with_thresholds` needs no new prediction; with `every_gap=False`
    only for those that may be written, which takes less time. That is the default for values that are drawn or predicted from
    each other, where it would change them.

    `watch` is called as a model is trained, `progress` as entities are predicted, `report` with a line about the model.
    """
    chosen = choices_of(only, classes, seed, choices)
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
        wanted = Wanted(
            schema=known,
            named="" if schema is None else "given" if isinstance(schema, Schema) else os.fspath(schema),
            preset=preset or "default",
            budget=budget,
            steps=steps,
            seed=chosen.seed,
            device=device,
            only=chosen.only,
            classes=chosen.classes,
            explicit=bool(named),
        )
        reading = read_for_own_model(kbs, known)
        modelled = ModelledSource.by_own_model(reading, wanted, report or _unreported, watch, folder=keep)
    every_gap = chosen.is_independent if every_gap is None else every_gap
    completed = Completed.of(modelled, chosen, shapes=shapes, predictions=kept, every_gap=every_gap, progress=progress)
    if kept is None and predictions is not None and not isinstance(predictions, Predictions):
        completed.predictions.save(os.fspath(predictions))
    if out is not None:
        completed.write(out, force=force)
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


def predictions_of(predictions: Predictions | Folder | None) -> Predictions | None:
    """The predictions that are named, where they are there already. WriteError where they could not be saved."""
    if predictions is None or isinstance(predictions, Predictions):
        return predictions
    file = FilePath(predictions)
    if file.exists():
        return Predictions.read(file)
    if not file.absolute().parent.is_dir():
        raise WriteError(str(file), "cannot be written: no such directory.")
    return None


def _refuse_review(name: str, kbs: Sequence[KB], force: bool) -> None:
    """A review that nobody could apply, or that somebody has decided on."""
    if not name.lower().endswith(FORMATS):
        raise ConfigError("review", f"expected a name that ends in {', '.join(FORMATS)}, got {name!r}.")
    if len(kbs) > 1 or not kbs[0].files or len(kbs[0].parts) > 1:
        raise ConfigError("review", f"needs one source that is a file, got {', '.join(kb.name for kb in kbs)}.")
    if FilePath(name).exists() and not force:
        raise WriteError(name, f"exists already, with what was decided in it. Say {setting('force')} to replace it.")


def _refuse_target(kbs: Sequence[KB], target: str, force: bool) -> None:
    """A target that there is already, or that has no format, before a model is trained."""
    target_format(kbs, target, None)
    for file in (FilePath(target), sidecar_of(target)):
        if target != "-" and file.exists() and not force:
            raise WriteError(str(file), f"exists already. Say {setting('force')} to replace it.")


def _unreported(line: str) -> None:
    pass
