"""`kbdisk evaluate`: how well a model tells each property from the others."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, NamedTuple

import rich_click as click

from kbdisk.cli.counting import counting
from kbdisk.cli.drift import strict_option
from kbdisk.cli.sources import open_source, source_options, watching
from kbdisk.cli.tables import counted
from kbdisk.cli.verbosely import open_model, verbose_option
from kbdisk.errors import ConfigError, LoadError
from kbdisk.jsonio import dump_json
from kbdisk.loaders.files import standard_output

if TYPE_CHECKING:
    from kbdisk.api import Model, Reading
    from kbdisk.cli.counting import Told
    from kbdisk.data.graph import Graph
    from kbdisk.entity import Entity, Path
    from kbdisk.evaluation.calibration import Reliability
    from kbdisk.evaluation.compare import FittedBaselines
    from kbdisk.evaluation.drift import Drift
    from kbdisk.evaluation.evaluate import Scope, SourcePartition

LIMIT, TEXTS = 1000, 200  # values of a property, as evaluation has it, which is too heavy to ask for a help text
CURVE_LIMIT, CURVE_TEXTS = 200, 50


@click.command()
@click.argument("model")
@click.argument("source")
@click.option("--curve", "as_curve", is_flag=True, help="The error by how much of an entity is given, instead.")
@click.option(
    "--plot",
    metavar="FILE",
    help="Draw the reliability of confidence and the coverage of intervals, with --curve the curve: a .png, .svg or .pdf.",
)
@click.option(
    "--against",
    metavar="NAMES",
    help="Baselines beside it: constant, gbdt, gbdt-median, gbdt-filled, gbdt-grid; several as gbdt,gbdt-filled.",
)
@click.option("--all", "everything", is_flag=True, help="Score the entities that MODEL was trained on, too.")
@click.option(
    "--only", metavar="PATH", multiple=True, help="Only what stands at this path or below it. Repeat it for more."
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    help=f"Values of each property that are asked for, at most.  [default: {LIMIT}, {TEXTS} of a text; {CURVE_LIMIT}, {CURVE_TEXTS} in a curve]",
)
@click.option("--whole", is_flag=True, help="Hide all parts of a date, a quantity or a list at once, not one by one.")
@click.option(
    "--seed", metavar="N", type=int, default=0, show_default=True, help="Which values are asked for where not all are."
)
@click.option(
    "--device", metavar="NAME", default="auto", show_default=True, help="Where it computes: auto, cpu or cuda."
)
@click.option("--format", metavar="FORMAT", help="Format of SOURCE where its name does not tell.")
@source_options
@strict_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables; RMSE and all else, too.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
@verbose_option
@click.pass_context
def evaluate(
    context: click.RichContext, /, model: str, source: str, as_json: bool, quiet: bool, verbose: bool, **options: Any
) -> None:
    """Tell how good MODEL is: on SOURCE, property by property.

    Each known value is hidden in turn, told from all else that its entity has, and compared; beside it stands what
    one constant for all entities would cost. Scored are entities that MODEL was not trained on: of the source that
    it was trained on, those that were held out. Exits with status 1 where --skip-errors skipped something, or --strict
    finds what is unlike what MODEL learnt from.

    The columns: known, the values that MODEL was trained on; n, the hidden ones; MAE is the mean absolute error,
    IoU the share of members (or words) that two sets share; within, how many numbers are within their 90 % interval;
    nats, -log p of a value.

    --against has baselines learn from the entities of SOURCE that MODEL was trained on, and asks them the same: gbdt is
    CatBoost, a model for each property from all others but texts, which trees cannot read, its numbers learnt for RMSE
    (gbdt-median: for MAE, too; in gbdt-filled constants stand where something is missing; gbdt-grid searches for settings,
    which takes ten times as long).

    \b
    kbdisk evaluate phones.kbdisk phones.jsonl
    kbdisk evaluate phones.kbdisk newer.jsonl --only launch --whole
    kbdisk evaluate kb.kbdisk kb.ttl --class City --json | jq .summary
    kbdisk evaluate phones.kbdisk phones.jsonl --plot confidence.png
    kbdisk evaluate phones.kbdisk phones.jsonl --curve --plot curve.png
    kbdisk evaluate phones.kbdisk phones.jsonl --against gbdt
    """
    from kbdisk.api import Reading
    from kbdisk.evaluation.drift import Drift
    from kbdisk.evaluation.evaluate import SourcePartition

    if options["plot"]:
        from kbdisk.plots import refuse_plot

        refuse_plot(options["plot"])
    options["against"] = _names(options["against"])
    opened = open_model(model, options["device"], verbose)
    with watching(quiet, f"reading {source}") as progress:
        kb = open_source(source, options["format"], options, progress)
        reading = Reading.of(kb)
    same = opened.is_of(reading)
    sides = SourcePartition.of(opened.trained, reading.entities, same)
    asked = [*sides.held_out, *sides.new, *sides.trained_on] if options["everything"] else sides.fair
    if not asked:
        count = counted(len(reading.entities), "entity", "entities")
        raise LoadError(source, f"none of {count} is of a class that the model knows.")
    head = f"{source}: {counted(len(asked), 'entity', 'entities')} asked about by {model}"
    drift = Drift.of(opened.trained.codec, [*asked, *sides.without_class], options["classes"])
    exam = Asked(opened, reading, asked, head, _notes(sides, asked, same), drift, options)
    rivals = exam.rivals(sides, quiet) if options["against"] else None
    with counting(quiet, "asking") as told:
        found = exam.curve(rivals, told) if exam.is_curve else exam.scores(rivals, told)
    with standard_output(styled=not as_json) as stream:
        stream.write(
            _json(model, source, sides, asked, found.data | {"drift": drift.to_json()}) if as_json else found.text
        )
    context.exit(1 if kb.skipped or (options["strict"] and drift) else 0)


class Found(NamedTuple):
    """What is printed: plain data, and tables."""

    data: dict[str, Any]
    text: bytes


@dataclass(frozen=True, eq=False)
class Asked:
    """What a model is asked about."""

    model: Model
    reading: Reading
    entities: list[Entity]
    head: str
    notes: list[str]
    drift: Drift
    options: dict[str, Any]

    @property
    def is_curve(self) -> bool:
        """Whether it is by how much is given."""
        return bool(self.options["as_curve"])

    def rivals(self, sides: SourcePartition, quiet: bool) -> FittedBaselines:
        """Baselines that have learnt from what the model was trained on."""
        from kbdisk.evaluation.compare import FittedBaselines, training_entities

        names, trained = self.options["against"], self.model.trained
        training = training_entities(trained, sides, self.reading.name)
        with counting(quiet, f"training {', '.join(names)}") as told:
            return FittedBaselines.fit(names, trained, training, self.entities, self._scope, told)

    def scores(self, rivals: FittedBaselines | None, told: Told | None) -> Found:
        """All else given."""
        from kbdisk.cli.scoretables import shown_scores
        from kbdisk.evaluation.evaluate import evaluate, summary

        rows = evaluate(self.model.trained, self.entities, self._graph, self._scope, against=rivals, watch=told)
        if not rows:
            raise LoadError(self.reading.name, "its entities have no value that the model predicts.")
        beside = rivals.to_json(rows) if rivals else {}
        data = {"limit": self._scope.limit, "rows": rows, "summary": asdict(summary(rows))}
        data |= {"against": beside} if rivals else {}
        reliability = self._reliability(told)
        data |= {"confidence": reliability.to_json()} if reliability else {}
        if self.options["plot"]:
            from kbdisk.evaluation.calibration import Reliability
            from kbdisk.plots import plot_reliability

            title = f"Confidence on held-out values: {FilePath(self.reading.name).name}"
            plot_reliability(reliability or Reliability([]), rows, self.options["plot"], title)
        text = shown_scores(self.head, self.notes, rows, summary(rows), self.drift, beside, reliability)
        return Found(data, _bytes(text))

    def _reliability(self, told: Told | None) -> Reliability | None:
        """How the confidence of statements compares with the share that is right; None where it is not known.

        Of entities held out in training the cross-fitted confidences are known. Others are tried where a picture is drawn.
        """
        from kbdisk.completion.trial import outcomes_of
        from kbdisk.evaluation.calibration import Calibration, Reliability

        trained = self.model.trained
        if not trained.record.calibration:
            return None
        calibration = Calibration.from_json(trained.record.calibration)
        held_out = set(trained.record.validation)
        if all(trained.schema.id_of(entity) in held_out for entity in self.entities):
            return Reliability.of(one for own in calibration.statements.values() for one in own)
        if not self.options["plot"]:
            return None
        outcomes = outcomes_of(trained, self.entities, self._graph, seed=self.options["seed"], watch=told)
        return Reliability.of(map(calibration.judged, outcomes))

    def curve(self, rivals: FittedBaselines | None, told: Told | None) -> Found:
        """By how much is given; as a picture, too."""
        from kbdisk.cli.scoretables import shown_curve
        from kbdisk.evaluation.curve import curve

        found = curve(self.model.trained, self.entities, self._graph, self._scope, against=rivals, watch=told)
        if self.options["plot"]:
            from kbdisk.plots import plot_curve

            plot_curve(found, self.options["plot"], f"Error by how much is given: {FilePath(self.reading.name).name}")
        data = {"limit": self._scope.limit, "curve": found.to_json()}
        return Found(data, _bytes(shown_curve(self.head, self.notes, found, self.drift)))

    @property
    def _graph(self) -> Graph:
        return self.reading.graph(self.model.schema)

    @cached_property
    def _scope(self) -> Scope:
        from kbdisk.evaluation.evaluate import Scope

        limit, texts = (CURVE_LIMIT, CURVE_TEXTS) if self.is_curve else (LIMIT, TEXTS)
        return Scope(
            only=tuple(map(_path, self.options["only"])),
            classes=self.options["classes"],
            limit=self.options["limit"] or limit,
            texts=self.options["limit"] or texts,
            whole=self.options["whole"],
            seed=self.options["seed"],
        )


def _notes(sides: SourcePartition, asked: list[Entity], same: bool) -> list[str]:
    """What a reader must know of the entities that were asked about."""
    notes = []
    known = len(sides.trained_on)
    if len(asked) > len(sides.fair) or sides.fair is sides.trained_on:
        part = "all of these" if known == len(asked) else f"{known:,} of these"
        notes.append(f"The model was trained on {part}: the figures are better than it is.")
    elif sides.held_out:
        of = counted(known, "entity", "entities")
        notes.append(
            f"{len(sides.held_out):,} were held out in training; {of} that it was trained on {'is' if known == 1 else 'are'} left out (--all)."
        )
    elif known:
        notes.append(f"{counted(known, 'entity', 'entities')} that the model was trained on left out (--all).")
    if not same and (known or sides.held_out):
        notes.append("The source is not what it was in training: entities are told apart by their ids.")
    if sides.without_class:
        notes.append(
            f"{counted(len(sides.without_class), 'entity', 'entities')} of no class that the model knows left out."
        )
    return notes


def _names(text: str | None) -> list[str]:
    """The names of baselines."""
    from kbdisk.evaluation import refuse_unknown

    names = [] if text is None else [name.strip() for name in text.split(",")]
    refuse_unknown(names, "--against")
    return names


def _path(text: str) -> Path:
    """A path such as prizes[0].share, or prizes[].share for any place."""
    from kbdisk.data.graph import pattern
    from kbdisk.entity import read_path

    try:
        return pattern(read_path(text.replace("[]", "[0]"))) if "[]" in text else read_path(text)
    except ValueError as error:
        raise ConfigError("--only", f"{error}.") from None


def _bytes(text: str) -> bytes:
    return text.encode(sys.stdout.encoding, "replace")


def _json(model: str, source: str, sides: SourcePartition, asked: list[Entity], data: dict[str, Any]) -> bytes:
    known = {id(one) for one in sides.trained_on}
    counts = {
        "asked": len(asked),
        "held_out": len(sides.held_out),
        "new": len(sides.new),
        "trained_on": sum(id(one) in known for one in asked),
    }
    whole = {"model": model, "source": source, "entities": counts, **data}
    return dump_json(whole)
