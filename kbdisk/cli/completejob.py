"""What a call of `kbdisk complete` is to do: refused before any work where it makes no sense, then done stage by stage."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import rich_click as click

from kbdisk.cli import placeless
from kbdisk.cli.counting import Told
from kbdisk.cli.drift import misfit_lines, too_large_lines
from kbdisk.cli.idle import reading_options
from kbdisk.cli.screen import say, say_rendered
from kbdisk.cli.sources import only_paths, open_sources, tell_made
from kbdisk.cli.trainbar import training
from kbdisk.errors import ConfigError, WriteError
from kbdisk.loaders.files import (
    refuse_in_place,
    refuse_long_names,
    refuse_odd,
    refuse_unwritable,
    sidecar_of,
    standard_output,
)
from kbdisk.locks import locked

if TYPE_CHECKING:
    from kbdisk.api.completed import Completed, ModelledSource, Written
    from kbdisk.completion.predictions import Predictions
    from kbdisk.loaders import KB
    from kbdisk.schemas.schema import Schema

UNMARKED = "nothing there tells what is filled in from what was given: write to a file to keep them apart"
TRAINING = ("schema", "preset", "budget")  # options that say how a model is trained, where none is named
CHOICES = ("fill", "estimate", "min_confidence", "precision", "draws", "order", "leap")


class Job:
    """What a call of the command is to do."""

    def __init__(self, sources: tuple[str, ...], options: dict[str, Any]) -> None:
        self.sources, self.options = sources, options
        self.only = only_paths(options["only"])
        self.target: str = options["out"] or (sources[0] if options["in_place"] else "")
        self.quiet = options["quiet"]
        self.review: str = "" if options["dry_run"] else options["review"] or ""
        self.predictions_file: str = options["predictions"] or ""
        self.dry = options["dry_run"] or not self.target
        self.kbs: list[KB] = []
        self.shapes: Schema | None = None
        self.predictions: Predictions | None = None  # that are there already
        self.has_saved = False  # whether they were saved just now

    # ------------------------------------------------------------ before any work

    def refuse(self) -> None:
        """What makes no sense, before anything is read."""
        options = self.options
        if self.dry and not (options["dry_run"] or self.review or self.predictions_file):
            raise click.UsageError("Missing option '--out'. Say where to write, or --review, or --dry-run.")
        for option, file in ("--review", self.review), ("--predictions", self.predictions_file):
            if file:
                self._refuse_file(option, file)
        self._refuse_review()
        if options["as_json"] and self.target == "-":
            raise click.UsageError("--json and --out - both want standard output.")
        if len(self.sources) > 1 and "-" in self.sources:
            raise ConfigError("-", "expected files where there are several sources. Name the one that is piped.")
        if options["draws"] and (self.dry or self.target == "-") and not options["as_json"]:
            raise ConfigError("--draws", "stand in TARGET.provenance.jsonl, and there is none here. Leave it out.")
        named = [name for name in TRAINING if options[name] is not None]
        if options["model"] and named:
            raise ConfigError(f"--{named[0]}", "says how to train, and --model what was trained. Leave one out.")
        if options["strict"] and not options["model"]:
            raise ConfigError(
                "--strict", "compares SOURCE with what a model learnt from. Say --model, or leave it out."
            )
        for name in ("in_place", "insert") if len(self.sources) > 1 else ():
            if options[name]:
                raise ConfigError(f"--{name.replace('_', '-')}", "needs one source alone. Leave it out.")

    def _refuse_review(self) -> None:
        """A review that nobody could apply, or that somebody has decided on."""
        name, options = self.review, self.options
        if not name:
            return
        from kbdisk.completion.review import FORMATS

        if not name.lower().endswith(FORMATS):
            raise ConfigError("--review", f"expected a name that ends in {', '.join(FORMATS)}, got {name!r}.")
        if options["in_place"]:
            raise ConfigError("--in-place", "changes SOURCE before it is reviewed. Say it to kbdisk apply, not here.")
        if len(self.sources) > 1 or not os.path.isfile(self.sources[0]):  # noqa: PTH113 - Path.is_file raises for odd names
            raise ConfigError(
                "--review", f"needs one source that is a file, got {', '.join(self.sources)}. Leave it out."
            )
        if FilePath(name).exists() and not options["force"]:
            raise WriteError(name, "exists already, with what was decided in it. Say --force to replace it.")

    def _refuse_file(self, option: str, name: str) -> None:
        """A file beside the target that cannot be."""
        place = FilePath(name)
        if place.is_dir() or not place.absolute().parent.is_dir():
            raise WriteError(name, "cannot be written: no such directory, or one of this name.")
        others = dict.fromkeys(self.sources, "a source")
        if option == "--predictions":
            others[self.review] = "the review"
        if self.target not in ("", "-"):
            others |= {self.target: "the target", str(sidecar_of(self.target)): "the provenance of the target"}
        for other, what in others.items():
            if other and place.absolute() == FilePath(other).absolute():
                raise ConfigError(option, f"{name} is {what}, too. Choose another name.")

    def locked(self) -> AbstractContextManager[None]:
        """In place: nobody else changes the source from before it is read until it is written. Readers go on."""
        in_place = self.options["in_place"] and not self.dry and os.path.isfile(self.target)  # noqa: PTH113
        return locked(self.target) if in_place else nullcontext()

    def open(self, progress: Any) -> None:
        """The sources, and all that can be wrong with other files, before a model is trained."""
        from kbdisk.loaders import FORMATS, together
        from kbdisk.loaders.formats import target_format
        from kbdisk.schemas.importers import read_constraints
        from kbdisk.store.files import Files

        if self.options["shapes"] is not None:
            self.shapes = read_constraints(self.options["shapes"], self.say)
        self.kbs = together(open_sources(self.sources, self.options["origin"], self.options, progress))
        self.format = target_format(self.kbs, self.target or None, self.options["format"])
        assert self.format in FORMATS
        self._refuse_target()
        if self.options["model"]:
            Files.of(self.options["model"])

    def _refuse_target(self) -> None:
        """A target that is there, is the source, or cannot be."""
        from kbdisk.loaders.formats import WritePlan as Writing

        target, options = self.target, self.options
        kb = self.kbs[0]
        Writing.for_items(kb, target or os.devnull, format=self.format, only_new=False, insert=options["insert"])
        if target == "-" or self.dry:
            return
        sidecar = sidecar_of(self.sources[0] if options["in_place"] else target)
        refuse_long_names(target)
        refuse_odd(sidecar)
        place = FilePath(target)
        if any(place.exists() and path.samefile(place) for source in self.kbs for path in source.files):
            if len(self.kbs) > 1 or len(kb.parts) > 1:
                raise WriteError(target, "is one of several sources. Choose another target.")
            if not options["in_place"]:
                raise WriteError(target, "is the source itself. Say --in-place to change it.")
            refuse_in_place(target)
            refuse_unwritable(target)
            return
        if options["in_place"]:
            raise ConfigError("--in-place", f"{target} is not the source. Leave --in-place or --out out.")
        if place.is_dir():
            raise WriteError(target, "expected a file to write, got a directory.")
        if not place.absolute().parent.is_dir():
            raise WriteError(target, "cannot be written: no such directory.")
        refuse_unwritable(target)
        for file in (place, sidecar):
            if file.is_file() and not options["force"]:
                raise WriteError(str(file), "exists already. Say --force to replace it.")

    # ------------------------------------------------------------ the stages

    def modelled(self) -> ModelledSource:
        """The sources with the model that is named, or with their own."""
        from kbdisk.api.completed import ModelledSource, predictions_of, read_for_own_model
        from kbdisk.api.ownmodel import Wanted
        from kbdisk.cli.schema import open_schema

        options = self.options
        self.predictions = predictions_of(self.predictions_file or None)
        if options["model"]:
            return ModelledSource.by_model(self.kbs, options["model"], self.only, options["device"])
        schema = open_schema(options["schema"]) if options["schema"] else None
        reading = read_for_own_model(self.kbs, schema)
        wanted = Wanted(
            schema=schema,
            named=options["schema"] or "",
            preset=options["preset"] or "default",
            budget=options["budget"],
            seed=options["seed"],
            device=options["device"],
            only=self.only,
            classes=options["classes"] or (),
            explicit=any(options[name] is not None for name in TRAINING),
        )
        for line in misfit_lines(schema, reading.entities, reading.name) if schema else ():
            self.say(line)
        with training(self.quiet, options["verbose"]) as watch:
            modelled = ModelledSource.by_own_model(reading, wanted, self.say, watch, keep=not options["dry_run"])
        for line in too_large_lines(modelled.model.schema, reading.entities, reading.name) if not schema else ():
            self.say(line)
        return modelled

    def completed(self, modelled: ModelledSource, progress: Told | None) -> Completed:
        """The sources with their gaps predicted, or with the predictions that are there; these are saved where that is wanted."""
        from kbdisk.api.completed import Completed, choices_of

        options = self.options
        chosen = {name: options[name] for name in CHOICES}
        choices = choices_of(self.only, options["classes"] or (), options["seed"], chosen)
        completed = Completed.of(
            modelled,
            choices,
            shapes=self.shapes,
            predictions=self.predictions,
            every_gap=bool(self.review) or (bool(self.predictions_file) and choices.is_independent),
            progress=progress,
        )
        if self.predictions_file and self.predictions is None and not options["dry_run"]:
            completed.predictions.save(self.predictions_file)
            self.has_saved = True
        return completed

    def write(self, completed: Completed) -> Written:
        """Write the target with its sidecar and the review; a dry run writes to nowhere."""
        options = self.options
        return completed.write(
            None if self.dry else self.target,
            format=self.format if self.dry else options["format"],
            insert=options["insert"],
            force=options["force"],
            in_place=options["in_place"],
            review=self.review or None,
            review_options=reading_options(options) if self.review else None,
        )

    # ------------------------------------------------------------ the summary

    def say(self, text: str) -> None:
        """A line on standard error."""
        if not self.quiet:
            say(text)

    def report(self, completed: Completed, written: Written) -> int:
        """Show the summary. The exit status: 1 where a given value has no place in the target, or something was skipped."""
        from kbdisk.cli.completed import as_json, as_tables, listed
        from kbdisk.loaders import format_row

        options, summary = self.options, completed.summary
        skipped = sum(len(kb.skipped) for kb in completed.source.kbs)
        facts: dict[str, Any] = {
            "source": ", ".join(self.sources),
            "target": None if self.dry else self.target,
            "model": completed.source.folder or None,
            "review": self.review or None,
            "written": 0 if self.dry else written.report.written,
            "before": written.report.before,
            "made": written.made,
            "skipped": skipped,
            "unwritable": placeless.as_data(written.lost),
        }
        drift = None if completed.source.is_own else completed.drift
        if self.predictions_file:
            facts["predictions"] = {"file": self.predictions_file, "saved": self.has_saved}
        facts |= {} if drift is None else {"drift": drift.to_json()}
        status = 1 if written.lost or skipped or (options["strict"] and drift) else 0
        if options["as_json"]:
            values = list(written.rows) if self.dry or options["verbose"] else None
            with standard_output() as stream:
                stream.write(as_json(facts, summary, values))
            return status
        if self.dry and not self.review:
            with standard_output() as stream:
                for text in listed(written.rows):
                    stream.write(text.encode() + b"\n")
        elif options["verbose"]:
            for text in listed(written.rows):
                say(text)
        if self.review:
            self.say(f"wrote {self.review}: decide on its rows, then: kbdisk apply {self.review}")
        if not self.quiet:
            tell_made(written.made)
            if written.hint is not None:
                say(written.hint)
            say_rendered(as_tables(facts, summary, drift))
            if self.target == "-" and not format_row(self.format).has_blocks and summary.filled:
                say(UNMARKED)
        for text in placeless.lines(written.lost, " given"):
            say(text)
        return status
