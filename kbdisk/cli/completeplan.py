"""What a call of `kbdisk complete` is to do: refused before any work where it makes no sense, then done step by step."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path as FilePath
from typing import IO, TYPE_CHECKING, Any

import rich_click as click

from kbdisk.cli import placeless
from kbdisk.cli.counting import Told
from kbdisk.cli.drift import misfit_lines, too_large_lines
from kbdisk.cli.leftout import refuse_left_out
from kbdisk.cli.screen import say, say_rendered
from kbdisk.cli.sources import named_by_schema, only_paths, open_sources, refuse_repeated, tell_made
from kbdisk.cli.trainbar import training
from kbdisk.errors import ConfigError, WriteError
from kbdisk.loaders.identifiers import Identifiers
from kbdisk.loaders.target import (
    refuse_in_place,
    refuse_long_names,
    refuse_odd,
    refuse_unwritable,
    sidecar_of,
    standard_output,
)
from kbdisk.locks import locked

if TYPE_CHECKING:
    from contextlib import ExitStack

    from kbdisk.api.model import Model
    from kbdisk.api.reading import Reading
    from kbdisk.completion import Completing
    from kbdisk.completion.answers import Answer, Answers
    from kbdisk.completion.review import ReviewRow
    from kbdisk.entity import Completion, Entity
    from kbdisk.evaluation import Drift
    from kbdisk.loaders import KB, Report
    from kbdisk.schemas.schema import Schema

UNMARKED = "nothing there tells what is filled in from what was given: write to a file to keep them apart"
LEARNT = "the schema of the model leaves it out. Train one by a schema that has it."
TRAINING = ("schema", "preset", "budget")  # options that say how a model is trained, where none is named


class Plan:
    """What a call of the command is to do."""

    def __init__(self, sources: tuple[str, ...], options: dict[str, Any]) -> None:
        self.sources, self.options = sources, options
        self.only = only_paths(options["only"])
        self.target: str = options["out"] or (sources[0] if options["in_place"] else "")
        self.kbs: list[KB] = []
        self.reading: Reading | None = None
        self.shapes: Schema | None = None
        self.folder = ""  # where the model is; empty where it is kept nowhere
        self.time = datetime.now(UTC).isoformat(timespec="seconds")
        self.made = 0  # values that an earlier completion filled in
        self.earlier: list[bytes] = []  # lines that tell of them
        self.answers: Answers | None = None  # of people, to what was proposed before
        self.answered: dict[bytes, Answer] = {}  # by what they did to our blocks since, by lines of the sidecar
        self.identifiers = Identifiers()
        self.quiet = options["quiet"]
        self.review: str = "" if options["dry_run"] else options["review"] or ""
        self.reviewed: list[ReviewRow] = []
        self.held_back: list[ReviewRow] = []
        self.dry = options["dry_run"] or bool(self.review and not self.target)

    @property
    def sidecar(self) -> FilePath:
        """The file that tells what is filled in: in place that of the source, whatever name the target goes by."""
        return sidecar_of(self.sources[0] if self.options["in_place"] else self.target)

    # ------------------------------------------------------------ before any work

    def refuse(self) -> None:
        """What makes no sense, before anything is read."""
        options = self.options
        if not self.target and not self.dry and not self.review:
            raise click.UsageError("Missing option '--out'. Say where to write, or --review, or --dry-run.")
        self._refuse_review()
        if options["as_json"] and self.target == "-":
            raise click.UsageError("--json and --out - both want standard output.")
        if len(self.sources) > 1 and "-" in self.sources:
            raise ConfigError("-", "expected files where there are several sources. Name the one that is piped.")
        if options["draws"] and (self.dry or self.target == "-") and not options["as_json"]:
            raise ConfigError("--draws", "stand in TARGET.provenance.jsonl, and there is none here. Leave it out.")
        told = [name for name in TRAINING if options[name] is not None]
        if options["model"] and told:
            raise ConfigError(f"--{told[0]}", "says how to train, and --model what was trained. Leave one out.")
        if options["strict"] and not options["model"]:
            raise ConfigError(
                "--strict", "compares SOURCE with what a model learnt from. Say --model, or leave it out."
            )
        for name in ("in_place", "insert") if len(self.sources) > 1 else ():
            if options[name]:
                raise ConfigError(f"--{name.replace('_', '-')}", "needs one source alone. Leave it out.")

    def _refuse_review(self) -> None:
        """A review that cannot be, or that nobody could apply."""
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
        place = FilePath(name)
        if place.is_dir() or not place.absolute().parent.is_dir():
            raise WriteError(name, "cannot be written: no such directory, or one of this name.")
        if self.target and place.absolute() == FilePath(self.target).absolute():
            raise ConfigError("--review", f"{name} is the target, too. Choose another name.")
        if place.exists() and not options["force"]:
            raise WriteError(name, "exists already, with what was decided in it. Say --force to replace it.")

    def locked(self) -> AbstractContextManager[None]:
        """In place: nobody else changes the source from before it is read until it is written. Readers go on."""
        in_place = self.options["in_place"] and not self.dry and os.path.isfile(self.target)  # noqa: PTH113
        return locked(self.target) if in_place else nullcontext()

    def open(self, progress: Any) -> None:
        """The sources, and all that can be wrong with the target, before a model is trained."""
        from kbdisk.loaders import FORMATS, together
        from kbdisk.training.files import Files

        self.shapes = self._read_shapes()
        self.kbs = together(open_sources(self.sources, self.options["origin"], self.options, progress))
        self.format = self._format()
        assert self.format in FORMATS
        self._refuse_target()
        if self.options["model"]:
            Files.of(self.options["model"])

    def _read_shapes(self) -> Schema | None:
        """The schema of --shapes; a line for each constraint of the file that is not enforced."""
        from kbdisk.schemas import imports
        from kbdisk.schemas.schema import Schema

        file = self.options["shapes"]
        if file is None:
            return None
        if imports.is_ours(FilePath(file)):
            return Schema.read(file)
        imported = imports.read(file)
        for line in imported.left_out:
            self.say(f"{file}: not enforced: {line}")
        return imported.schema

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
        from kbdisk.loaders.writing import Plan as Writing

        target, options = self.target, self.options
        one = self.kbs[0]
        Writing.of(one, target or os.devnull, format=self.format, only_new=False, insert=options["insert"])
        if target == "-" or self.dry:
            return
        refuse_long_names(target)
        refuse_odd(self.sidecar)
        place = FilePath(target)
        if any(place.exists() and path.samefile(place) for kb in self.kbs for path in kb.files):
            if len(self.kbs) > 1 or len(one.parts) > 1:
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
        for file in (place, self.sidecar):
            if file.is_file() and not options["force"]:
                raise WriteError(str(file), "exists already. Say --force to replace it.")

    # ------------------------------------------------------------ the work

    def model(self) -> Model:
        """The model that is named, or the source's own."""
        from kbdisk import api
        from kbdisk.api.training import refuse_strangers

        options = self.options
        if options["model"]:
            self.folder = options["model"]
            model = api.open(options["model"], device=options["device"])
            self.kbs = [named_by_schema(kb, model.schema) for kb in self.kbs]
            for kb in self.kbs:
                refuse_strangers(model.schema, kb.name, kb, blank=True)
                refuse_repeated(kb, kb)
                refuse_left_out(model.schema, self.only, kb, kb.name, LEARNT)
            return model
        from kbdisk.api.reading import Reading
        from kbdisk.cli.ownmodel import Wanted, folder_beside, own_model
        from kbdisk.cli.schema import open_schema

        schema = open_schema(options["schema"]) if options["schema"] else None
        if schema is not None:
            self.kbs = [named_by_schema(kb, schema) for kb in self.kbs]
        self.reading = Reading.of(self.kbs if len(self.kbs) > 1 else self.kbs[0])
        for kb in self.kbs:
            refuse_repeated(kb, kb if len(self.kbs) > 1 else self.reading.entities)
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
        for line in misfit_lines(wanted.schema, self.reading.entities, self.reading.name) if wanted.schema else ():
            self.say(line)
        with training(self.quiet, options["verbose"]) as watch:
            own = own_model(
                self.reading, wanted, folder_beside(self.sources), self.say, watch, keep=not options["dry_run"]
            )
        for line in (
            too_large_lines(own.model.schema, self.reading.entities, self.reading.name) if not wanted.schema else ()
        ):
            self.say(line)
        self.folder = "" if own.folder is None else str(own.folder)
        return own.model

    def completing(self, model: Model, told: Told | None) -> Completing:
        """The completions."""
        from kbdisk.completion import complete

        options = self.options
        self._read_answers()
        names = ("fill", "estimate", "min_confidence", "precision", "draws", "order", "leap", "seed", "classes")
        chosen = {name: options[name] for name in names}
        return complete(
            model.trained,
            self._entities(),
            only=self.only,
            watch=told,
            shapes=self.shapes,
            answers=self.answers,
            keeps_held_back=bool(self.review),
            **chosen,
        )

    def _read_answers(self) -> None:
        """What people answered to values that were proposed before: in reviews, and by what they did to our blocks."""
        from kbdisk.completion.answers import answers_in_blocks, answers_of

        if len(self.kbs) == 1 and self.kbs[0].files:
            self.answers = answers_of(self.sources[0])
            self.answered = answers_in_blocks(self.kbs[0], self.time)
            self.answers.add(self.answered.values())

    def _entities(self) -> Iterable[Entity]:
        if len(self.kbs) > 1:
            from kbdisk.api.reading import Reading

            return (self.reading or Reading.of(self.kbs)).entities
        from kbdisk.completion.earlier import given

        return given(self.kbs[0]) if self.reading is None else self.reading.entities

    def write(self, completing: Completing, model: Model, kept: IO[bytes]) -> Report:
        """Write the target with its sidecar, and keep a row for each value; a dry run writes to nowhere."""
        from kbdisk.completion.answers import reviewed_of
        from kbdisk.completion.provenance import write_sidecar
        from kbdisk.completion.wording import words_of
        from kbdisk.loaders.writing import Plan as Writing

        options = self.options
        target = os.devnull if self.dry else self.target
        format = self.format if self.dry or target == "-" else options["format"]
        items: Any = self._kept(completing, model, kept)
        mixed = len(self.kbs) > 1
        writing = Writing.of(items, target, format=format, only_new=False, insert=options["insert"], mixed=mixed)

        def beside(report: Report, several: ExitStack) -> None:
            for kb in self.kbs:
                kb.refuse_changed()
            if self.answers is not None and self.answered:
                self.answers.write(reviewed_of(self.sources[0]), several)
            write_sidecar(self.sidecar, self.earlier, kept, report, several, words_of(self.kbs, self.format))

        alone = self.dry or target == "-"
        report = writing.run(force=options["force"], in_place=options["in_place"], beside=None if alone else beside)
        if self.review:
            self._write_review(report, kept)
        return report

    def _write_review(self, report: Report, kept: IO[bytes]) -> None:
        """The review of what was written, or would be; after the target, as it is right without a review."""
        from kbdisk.cli.idle import reading_options
        from kbdisk.completion.review import write_review_of

        kb = self.kbs[0]
        kb.refuse_changed()
        options = reading_options(self.options)
        id = kb.options.id
        if id is not None:
            from kbdisk.entity import show

            options["id"] = show(id)
        target = "" if self.dry or self.target == "-" else self.target
        rows = [*self.reviewed, *sorted(self.held_back, key=lambda row: -(row.confidence or 0.0))]
        with locked(self.review):
            write_review_of(self.review, rows, report, self.sources[0], target, options)

    def _kept(self, completing: Completing, model: Model, kept: IO[bytes]) -> Iterator[Completion]:
        from kbdisk.completion.answers import without_lines
        from kbdisk.completion.carried import UNTOLD, Carried
        from kbdisk.completion.earlier import BLOCKS
        from kbdisk.completion.provenance import fingerprint, line, rows
        from kbdisk.completion.review import Reviewing

        told = {"name": FilePath(self.folder).name, "hash": fingerprint(model.trained)}
        carried = Carried(self.kbs, self.format, in_place=self.options["in_place"])
        anew = len(self.kbs) > 1 or not self.kbs[0].keeps(self.format)
        plain: dict[str, Any] = UNTOLD if anew and self.format in BLOCKS else {}
        reviewing = Reviewing(self.kbs[0], self._entities(), model.schema) if self.review else None
        for completion in completing:
            self.made += len(completion.entity.made or ())
            self.identifiers.take(completion.entity)
            self.earlier += without_lines(carried.of(completion.entity), self.answered)
            for row, path in zip(rows(completion, told, self.time), completion.filled, strict=True):
                kept.write(line(row | plain))
                if reviewing is not None:
                    self.reviewed.append(reviewing.row(completion, path, row))
            if reviewing is not None:
                self.held_back += reviewing.held_back(completion, told, self.time)
            yield completion
        if any(kb.skipped for kb in self.kbs):
            self.earlier += carried.rest()

    # ------------------------------------------------------------ what is told

    def say(self, text: str) -> None:
        """A line on standard error."""
        if not self.quiet:
            say(text)

    def drift(self, completing: Completing) -> Drift | None:
        """What is unlike what the model learnt from; None where it learnt from the source itself."""
        return completing.drift if self.options["model"] else None

    def tell(self, completing: Completing, report: Report, kept: IO[bytes]) -> bool:
        """The summary; whether all that was given is in the target."""
        from kbdisk.cli.completed import as_json, as_tables, listed
        from kbdisk.completion.earlier import BLOCKS
        from kbdisk.completion.provenance import read_rows, unwritten

        lost = unwritten(completing.summary, kept, report.unwritable)
        options = self.options
        told = {
            "source": ", ".join(self.sources),
            "target": None if self.dry else self.target,
            "model": self.folder or None,
            "review": self.review or None,
            "written": 0 if self.dry else report.written,
            "before": report.before,
            "made": self.made,
            "skipped": sum(len(kb.skipped) for kb in self.kbs),
            "unwritable": placeless.as_data(lost),
        }
        drift = self.drift(completing)
        told |= {} if drift is None else {"drift": drift.to_json()}
        if options["as_json"]:
            values = list(read_rows(kept, report)) if self.dry or options["verbose"] else None
            with standard_output() as stream:
                stream.write(as_json(told, completing.summary, values))
            return not lost
        if self.dry and not self.review:
            with standard_output() as stream:
                for text in listed(read_rows(kept, report)):
                    stream.write(text.encode() + b"\n")
        elif options["verbose"]:
            for text in listed(read_rows(kept, report)):
                say(text)
        if self.review and not self.quiet and not options["as_json"]:
            say(f"wrote {self.review}: decide on its rows, then: kbdisk apply {self.review}")
        if not self.quiet:
            tell_made(self.made)
            if self.identifiers.hint is not None:
                say(self.identifiers.hint)
            say_rendered(as_tables(told, completing.summary, drift))
            if self.target == "-" and self.format not in BLOCKS and completing.summary.filled:
                say(UNMARKED)
        for text in placeless.lines(lost, " given"):
            say(text)
        return not lost
