"""`kbdisk complete`: a knowledge base with its gaps filled, by a model of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path as FilePath
from typing import IO, TYPE_CHECKING, Any

import rich_click as click

from kbdisk.cli.counting import Told, counting
from kbdisk.cli.resuming import resumable
from kbdisk.cli.sources import open_source, source_options, watching
from kbdisk.cli.trainbar import training
from kbdisk.errors import ConfigError, WriteError
from kbdisk.loaders.target import standard_output

if TYPE_CHECKING:
    from kbdisk.api.model import Model
    from kbdisk.api.reading import Reading
    from kbdisk.completion import Completing
    from kbdisk.entity import Completion, Entity, Path
    from kbdisk.loaders import KB, Report

FILLS, ESTIMATES, ORDERS = ("asked", "likely", "all"), ("mean", "median", "mode", "sample"), ("certain", "random")
TRAINING = ("schema", "preset", "budget")  # options that say how a model is trained, where none is named


@click.command()
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.option("--out", metavar="TARGET", help="File to write, or - for standard output.")
@click.option("--model", metavar="MODEL", help="A model folder.  [default: train on SOURCE, keep it in SOURCE.kbdisk]")
@click.option(
    "--only",
    metavar="PATHS",
    multiple=True,
    help="Fill nothing but these properties: launch.year,weight. Text is filled only where named here.",
)
@click.option(
    "--fill",
    type=click.Choice(FILLS),
    default="likely",
    show_default=True,
    help="asked: blank cells, nulls, missing parts, what the schema requires. likely: also what such an entity is likely to have. all: all that its class has.",
)
@click.option(
    "--estimate",
    type=click.Choice(ESTIMATES),
    default="median",
    show_default=True,
    help="Which number is filled in for a belief.",
)
@click.option(
    "--min-confidence",
    metavar="C",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="Fill only what is this sure, from 0 to 1.",
)
@click.option(
    "--draws",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    help="Also draw N values for each gap, for the provenance file.",
)
@click.option(
    "--order",
    type=click.Choice(ORDERS),
    default="certain",
    show_default=True,
    help="In which order an entity's gaps are filled, each given those before it.",
)
@click.option(
    "--leap",
    metavar="K",
    type=click.IntRange(min=1),
    help="Gaps filled at a time.  [default: as many as take 8 passes]",
)
@click.option("--dry-run", is_flag=True, help="Write nothing; print what would be filled.")
@click.option(
    "--schema",
    metavar="SCHEMA",
    help="A schema to train by, as a file or its name in the library.  [default: infer it]",
)
@click.option("--preset", metavar="NAME", help="How large a model is trained: fast, default, best or paper.")
@click.option(
    "--budget",
    metavar="TIME",
    help="How long to train at most, such as 90s or 10m.  [default: fits the size of SOURCE]",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of training and of all that is drawn.")
@click.option("--device", metavar="NAME", default="auto", show_default=True, help="auto, cpu, cuda.")
@click.option("--from", "origin", metavar="FORMAT", help="Format of SOURCE where its name does not tell.")
@click.option("--format", metavar="FORMAT", help="Format of TARGET where its name does not tell.")
@click.option("--insert", is_flag=True, help="Also fill gaps inside anonymous [ ... ] of Turtle, in their place.")
@click.option("--force", is_flag=True, help="Replace TARGET where it exists.")
@click.option("--in-place", is_flag=True, help="Let TARGET be SOURCE itself.")
@source_options
@click.option("--json", "as_json", is_flag=True, help="The summary as one JSON object on standard output.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bars and no summary.")
@click.option("-v", "--verbose", is_flag=True, help="Also tell every value that is filled in.")
@click.pass_context
def complete(context: click.RichContext, /, sources: tuple[str, ...], **options: Any) -> None:
    """Fill what is missing in SOURCE, and write it to TARGET.

    Without --model a schema is inferred and a model trained on SOURCE itself: a minute for a thousand entities or
    fewer. Given values stay as they are, to the byte where TARGET has the format of SOURCE. Properties with fewer
    than 30 known values are held back, as are free text, labels and identifiers. How sure each value is, and between
    which bounds it is, stands in TARGET.provenance.jsonl. Several sources become one.

    \b
    kbdisk complete kb.ttl --out completed.ttl
    kbdisk complete phones.jsonl --out completed.csv --only weight,launch --min-confidence 0.8
    kbdisk complete new.jsonl --model phones.kbdisk --dry-run
    """  # fmt: skip
    quiet = options["quiet"]
    plan = Plan(sources, options)
    plan.refuse()
    with watching(quiet, f"reading {sources[0]}") as progress:
        plan.open(progress)
    with resumable(context):
        model = plan.model()
    with counting(quiet, "completing") as told, tempfile.TemporaryFile() as kept:
        completing = plan.completing(model, told)
        report = plan.write(completing, model, kept)
        plan.tell(completing, report, model, kept)
    context.exit(1 if any(kb.skipped for kb in plan.kbs) else 0)


class Plan:
    """What a call of the command is to do."""

    def __init__(self, sources: tuple[str, ...], options: dict[str, Any]) -> None:
        self.sources, self.options = sources, options
        self.only = tuple(_paths(options["only"]))
        self.target: str = options["out"] or (sources[0] if options["in_place"] else "")
        self.kbs: list[KB] = []
        self.reading: Reading | None = None
        self.time = datetime.now(UTC).isoformat(timespec="seconds")
        self.quiet, self.dry = options["quiet"], options["dry_run"]

    # ------------------------------------------------------------ before any work

    def refuse(self) -> None:
        """What makes no sense, before anything is read."""
        options = self.options
        if not self.target and not self.dry:
            raise click.UsageError("Missing option '--out'. Say where to write, or --dry-run.")
        if options["as_json"] and self.target == "-":
            raise click.UsageError("--json and --out - both want standard output.")
        if len(self.sources) > 1 and "-" in self.sources:
            raise ConfigError("-", "expected files where there are several sources. Name the one that is piped.")
        told = [name for name in TRAINING if options[name] is not None]
        if options["model"] and told:
            raise ConfigError(f"--{told[0]}", "says how to train, and --model what was trained. Leave one out.")
        for name in ("in_place", "insert") if len(self.sources) > 1 else ():
            if options[name]:
                raise ConfigError(f"--{name.replace('_', '-')}", "needs one source alone. Leave it out.")

    def open(self, progress: Any) -> None:
        """The sources, and all that can be wrong with the target, before a model is trained."""
        from kbdisk.loaders import FORMATS

        self.kbs = [open_source(one, self.options["origin"], self.options, progress) for one in self.sources]
        if not self.dry:
            self._refuse_target()
        self.format = self._format()
        assert self.format in FORMATS

    def _format(self) -> str:
        from kbdisk.loaders.writing import format_of_target

        kb = self.kbs[0] if len({one.format for one in self.kbs}) == 1 else None
        if self.dry and not self.target:
            return self.options["format"] or self.kbs[0].format
        if self.target == "-" and kb is not None and not self.options["format"]:
            return kb.format
        return format_of_target(kb, self.target, self.options["format"])

    def _refuse_target(self) -> None:
        """A target that is there, is the source, or cannot be."""
        from kbdisk.completion.provenance import sidecar_of
        from kbdisk.loaders.writing import Plan as Writing

        target, options = self.target, self.options
        one = self.kbs[0]
        Writing.of(one, target, format=options["format"], only_new=False, insert=options["insert"])
        if target == "-":
            return
        place = FilePath(target)
        if any(kb.path is not None and place.exists() and kb.path.samefile(place) for kb in self.kbs):
            if not options["in_place"]:
                raise WriteError(target, "is the source itself. Say --in-place to change it.")
            return
        if options["in_place"]:
            raise ConfigError("--in-place", f"{target} is not the source. Leave --in-place or --out out.")
        if place.is_dir():
            raise WriteError(target, "expected a file to write, got a directory.")
        if not place.absolute().parent.is_dir():
            raise WriteError(target, "cannot be written: no such directory.")
        for file in (place, sidecar_of(target)):
            if file.is_file() and not options["force"]:
                raise WriteError(str(file), "exists already. Say --force to replace it.")

    # ------------------------------------------------------------ the work

    def model(self) -> Model:
        """The model that is named, or the source's own."""
        from kbdisk import api

        options = self.options
        if options["model"]:
            return api.open(options["model"], device=options["device"])
        from kbdisk.api.reading import Reading
        from kbdisk.cli.ownmodel import Wanted, folder_beside, own_model
        from kbdisk.cli.schema import open_schema

        self.reading = Reading.of(self.kbs if len(self.kbs) > 1 else self.kbs[0])
        wanted = Wanted(
            schema=open_schema(options["schema"]) if options["schema"] else None,
            preset=options["preset"] or "default",
            budget=options["budget"],
            seed=options["seed"],
            device=options["device"],
            only=self.only,
            explicit=any(options[name] is not None for name in TRAINING),
        )
        folder = None if self.dry else folder_beside(self.sources)
        kept = folder_beside(self.sources) if self.dry else None
        if kept is not None and kept.exists():
            folder = kept  # read, if it fits
        with training(self.quiet, options["verbose"]) as watch:
            return own_model(self.reading, wanted, folder, self.say, watch)

    def completing(self, model: Model, told: Told | None) -> Completing:
        """The completions."""
        from kbdisk.completion import complete

        options = self.options
        names = ("fill", "estimate", "min_confidence", "draws", "order", "leap", "seed", "classes")
        chosen = {name: options[name] for name in names}
        return complete(model.trained, self._entities(), only=self.only, watch=told, **chosen)

    def _entities(self) -> Iterable[Entity]:
        if len(self.kbs) > 1:
            from kbdisk.api.reading import Reading

            reading = self.reading or Reading.of(self.kbs)
            return [replace(entity, source=None) for entity in reading.entities]
        return self.kbs[0] if self.reading is None else self.reading.entities

    def write(self, completing: Completing, model: Model, kept: IO[bytes]) -> Report:
        """Write the target, and keep a row for each new value; a dry run writes to nowhere."""
        import kbdisk

        options = self.options
        items: Any = self._kept(completing, model, kept)
        format, target = options["format"], self.target
        if self.dry:
            return kbdisk.write(items, os.devnull, format=self.format, insert=options["insert"])
        force = options["force"]
        return kbdisk.write(
            items,
            target,
            format=format or (self.format if target == "-" else None),
            insert=options["insert"],
            force=force,
            in_place=options["in_place"],
        )

    def _kept(self, completing: Completing, model: Model, kept: IO[bytes]) -> Iterator[Completion]:
        from kbdisk.completion.provenance import fingerprint, line, rows

        told = {"name": self._model_name(model), "hash": fingerprint(model.trained)}
        for completion in completing:
            for row in rows(completion, told, self.time):
                kept.write(line(row))
            yield completion

    def _model_name(self, model: Model) -> str:
        from kbdisk.cli.ownmodel import folder_beside

        folder = self.options["model"] or folder_beside(self.sources)
        return FilePath(folder).name if folder else ""

    # ------------------------------------------------------------ what is told

    def say(self, text: str) -> None:
        """A line on standard error."""
        if not self.quiet:
            click.echo(text, err=True)

    def tell(self, completing: Completing, report: Report, model: Model, kept: IO[bytes]) -> None:
        """Write the sidecar and the summary."""
        from kbdisk.cli.completed import as_json, as_tables, listed
        from kbdisk.completion.provenance import read_rows, sidecar_of, unwritten, write_sidecar

        refused = {(id, path) for id, path, _ in report.unwritable}
        unwritten(completing.summary, kept, report.unwritable)
        if not self.dry and self.target != "-":
            write_sidecar(sidecar_of(self.target), kept, refused, add=self.options["in_place"])
        options = self.options
        told = {
            "source": ", ".join(self.sources),
            "target": None if self.dry else self.target,
            "model": self._model_name(model) or None,
            "written": 0 if self.dry else report.written,
            "skipped": sum(len(kb.skipped) for kb in self.kbs),
        }
        if options["as_json"]:
            values = list(read_rows(kept, refused)) if self.dry or options["verbose"] else None
            with standard_output() as stream:
                stream.write(as_json(told, completing.summary, values))
            return
        if self.dry:
            with standard_output() as stream:
                for text in listed(read_rows(kept, refused)):
                    stream.write(text.encode() + b"\n")
        elif options["verbose"]:
            for text in listed(read_rows(kept, refused)):
                click.echo(text, err=True)
        if not self.quiet:
            click.echo(as_tables(told, completing.summary), err=True, nl=False)


def _paths(several: Iterable[str]) -> Iterator[Path]:
    """The paths that --only names, with commas between them or each by its own."""
    from kbdisk.entity import read_path

    for text in (one.strip() for told in several for one in told.split(",")):
        try:
            yield read_path(text.replace("[]", ""))
        except ValueError as error:
            raise ConfigError("--only", f"{error}.") from None
