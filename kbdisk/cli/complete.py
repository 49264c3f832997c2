"""`kbdisk complete`: fills the gaps of a knowledge base with a model of it, or with a model that is named.

A call is refused before any work where it makes no sense; then its stages run: read, find or train the model, predict, write.
"""

from __future__ import annotations

import contextlib
import os
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from kbdisk.cli import screen
from kbdisk.cli.drift import checked_entities, misfit_lines, too_large_lines
from kbdisk.cli.options import (
    device_option,
    loading_options,
    only_paths,
    open_sources,
    reading_options,
    refuse_unused,
    report_earlier_fillings,
    resumable,
    source_options,
    strict_option,
    to_option,
)
from kbdisk.cli.progress import show_counting, show_loading, show_reading, show_training
from kbdisk.cli.screen import say, say_rendered
from kbdisk.cli.summary import list_values, render_summary, unwritten_data, unwritten_lines
from kbdisk.errors import ConfigError, LoadError, WriteError
from kbdisk.loaders.files import (
    refuse_in_place,
    refuse_long_names,
    refuse_odd,
    refuse_unwritable,
    sidecar_of,
)
from kbdisk.locks import locked

if TYPE_CHECKING:
    from kbdisk.api.bulk import BulkSummary
    from kbdisk.api.complete import Completed, ModelledSource, WriteResult
    from kbdisk.cli.progress import CountCallback
    from kbdisk.completion.predictions import Predictions
    from kbdisk.loaders import KB
    from kbdisk.loaders.files import Progress
    from kbdisk.schemas.schema import Schema
    from kbdisk.training.clock import Clock

PRESETS = ("fast", "default", "best", "paper")  # not synthetic, which is for sampling
FILLS, ESTIMATES, ORDERS = (
    ("asked", "likely", "all"),
    ("mean", "median", "mode", "sample"),
    ("given", "certain", "random"),
)
TRAINING = ("schema", "preset", "budget", "steps")  # options of training; with --model they are refused
CHOICES = ("fill", "estimate", "min_confidence", "precision", "draws", "order", "leap")  # fields of CompletionConfig
ENGINES = ("local", "ray")
FOR_MANY = ("engine", "workers", "address")  # options of completing many files
FOR_ONE = (
    "review",
    "predictions",
    "dry_run",
    "target_format",
    "in_place",
    "verbose",
)  # options that are not for many files
UNMARKED = "nothing there tells filled values from given ones: write to a file to keep them apart"


@click.command()
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.option(
    "--out",
    metavar="TARGET",
    help="File to write, or - for standard output. A folder (its name ends in /, or it exists) gets a file for each SOURCE: see above.",
)
@click.option("--model", metavar="MODEL", help="A model folder.  [default: train on SOURCE, see --keep]")
@click.option(
    "--keep",
    metavar="FOLDER",
    help="Folder in which a newly trained model is kept, and used again while it fits SOURCE.  [default: SOURCE.kbdisk]",
)
@click.option(
    "--only",
    metavar="PATHS",
    multiple=True,
    help="Fill only these properties: launch.year,weight. Text, labels, identifiers and axioms are filled only where named here, and classes as rdf:type.",
)
@click.option(
    "--fill",
    type=click.Choice(FILLS),
    default="likely",
    show_default=True,
    help="asked: blank cells, nulls, missing parts of a value, what the schema requires. likely: also absent properties. Both write values that reach the minimum confidence, of properties that the model predicts better than a constant does. all: every property that the entity's class has, whatever its confidence.",
)
@click.option(
    "--estimate",
    type=click.Choice(ESTIMATES),
    default="median",
    show_default=True,
    help="Which value of its predicted distribution a number gets.",
)
@click.option(
    "--min-confidence",
    metavar="C",
    type=click.FloatRange(0, 1),
    default=None,
    help="Minimum confidence of a value to be written, 0 to 1.  [default: 0.5; with --fill all: 0]",
)
@click.option(
    "--precision",
    metavar="P",
    type=click.FloatRange(0, 1),
    default=None,
    help="Instead of --min-confidence: use for each property the lowest threshold at which a share P of its held-out values was right.",
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
    default="given",
    show_default=True,
    help="given: fill each gap from given values alone; certain, random: one after the other, from filled values, too.",
)
@click.option(
    "--leap",
    metavar="K",
    type=click.IntRange(min=1),
    help="Gaps of an entity filled at a time, with --order certain or random.  [default: as many as take 8 passes]",
)
@click.option(
    "--review",
    metavar="FILE",
    help="Write a table of what would be filled, .csv, .tsv or .jsonl, for people to decide on: see kbdisk apply. With --out the target is written, too.",
)
@click.option(
    "--predictions",
    metavar="FILE",
    help="Keep the predictions for all gaps in FILE, .jsonl. If FILE exists, decide on the predictions in it by these thresholds, and predict nothing.",
)
@click.option("--dry-run", is_flag=True, help="Write nothing; print what would be filled.")
@click.option(
    "--schema",
    metavar="SCHEMA",
    help="The schema to train with: a file, or a name in the library.  [default: inferred]",
)
@click.option(
    "--shapes",
    metavar="FILE",
    help="SHACL shapes, or another schema: filled values satisfy them together with the given values.",
)
@click.option("--preset", type=click.Choice(PRESETS), help="The size of the model.  [default: default]")
@click.option(
    "--budget",
    metavar="TIME",
    help="Maximum time of the whole command, such as 90s or 10m: reading, training and filling.  [default: by the size of SOURCE]",
)
@click.option(
    "--steps",
    metavar="N",
    type=click.IntRange(min=1),
    help="Number of training steps, instead of a time; with --budget, whichever ends first.",
)
@click.option(
    "--seed", metavar="N", type=int, default=0, show_default=True, help="Seed of training and of all random draws."
)
@device_option
@to_option
@click.option("--insert", is_flag=True, help="Also fill gaps inside anonymous [ ... ] of Turtle, in their place.")
@click.option("--force", is_flag=True, help="Replace TARGET where it exists.")
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    help="What completes many files: this process, or each of torchrun's (local); or workers of Ray (ray).  [default: local]",
)
@click.option(
    "--workers",
    metavar="N",
    type=click.IntRange(min=1),
    help="Number of workers of Ray, each with the model.  [default: the number of processors]",
)
@click.option(
    "--address",
    metavar="ADDRESS",
    help="A Ray cluster, such as auto or ray://host:10001.  [default: $RAY_ADDRESS, or else Ray is started here]",
)
@strict_option
@click.option("--in-place", is_flag=True, help="Write into SOURCE itself; the original is kept as SOURCE.before.")
@source_options
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object on standard output.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bars and no summary.")
@click.option("-v", "--verbose", is_flag=True, help="Also print every value that is filled in.")
@click.pass_context
def complete(context: click.RichContext, /, sources: tuple[str, ...], **options: Any) -> None:
    """Fill what is missing in SOURCE, and write it to TARGET.

    Without --model a schema is inferred and a model trained on SOURCE itself: a minute and a half for a thousand
    entities or fewer. Given values stay as they are, to the byte where TARGET has the format of SOURCE. Properties with fewer
    than 30 known values are held back, as are free text, labels, identifiers and axioms of an ontology. The confidence
    of each value is the probability that it is right (docs/confidence.md). TARGET.provenance.jsonl has it, with the
    interval of numbers; while that file stands beside TARGET, later trainings and completions do not take filled values
    for given ones. Several sources become one TARGET, unless it is a folder. Exits with status 1 where a given value has no place in
    TARGET, where --skip-errors skipped something, or where --strict finds data unlike those that MODEL learnt from.

    Many files: where TARGET is a folder, each SOURCE (a file, or a pattern in quotes) is completed by itself with --model,
    into TARGET/NAME. A job that was stopped goes on with what is missing when it is started again. Files that fail are listed,
    and do not stop the others; the status is 2 then.

    \b
    kbdisk complete kb.ttl --out completed.ttl
    kbdisk complete phones.jsonl --out done.csv --only weight --min-confidence 0.8
    kbdisk complete new.jsonl --model phones.kbdisk --dry-run
    kbdisk complete kb.ttl --review review.csv
    kbdisk complete 'shards/*.jsonl.zst' --model phones.kbdisk --out done/
    """  # fmt: skip
    quiet = options["quiet"]
    if names_folder(options["out"]):
        context.exit(complete_many(sources, options))
    job = Job(sources, options)
    job.refuse()
    with job.lock_source():
        with show_reading(quiet, f"reading {sources[0]}") as progress:
            job.open_sources(progress)
        with show_loading(quiet, f"reading {sources[0]} ..."):
            import kbdisk.api.complete  # noqa: F401 - torch, now that nothing can be refused any more
        with resumable(context):
            modelled = job.find_model()
        with show_counting(quiet, "filling") as report_progress:
            completed = job.predict(modelled, report_progress)
            written = job.write(completed)
        status = job.report(completed, written)
        job.report_time()
    context.exit(status)


class Job:
    """A call of the command, stage by stage."""

    def __init__(self, sources: tuple[str, ...], options: dict[str, Any]) -> None:
        self.sources, self.options, self.begun = sources, options, time.monotonic()
        self.only = only_paths(options["only"])
        self.target: str = options["out"] or (sources[0] if options["in_place"] else "")
        self.quiet = options["quiet"]
        self.review: str = "" if options["dry_run"] else options["review"] or ""
        self.predictions_file: str = options["predictions"] or ""
        self.has_target = bool(self.target) and not options["dry_run"]
        self.kbs: list[KB] = []
        self.shapes: Schema | None = None
        self.predictions: Predictions | None = None  # read from the file of predictions
        self.has_saved_predictions = False
        self.clock: Clock | None = None  # of a training

    # ------------------------------------------------------------ before any work

    def refuse(self) -> None:
        """Refuse options that make no sense, before anything is read."""
        options = self.options
        if not options["model"]:
            _refuse_several_processes()
        for name in FOR_MANY:
            if options[name] is not None:
                raise ConfigError(
                    f"--{name}", "is for many files, and --out names no folder. Leave it out, or say --out done/."
                )
        if not (self.has_target or options["dry_run"] or self.review or self.predictions_file):
            raise click.UsageError("Missing option '--out'. Say where to write, or --review, or --dry-run.")
        for option, file in ("--review", self.review), ("--predictions", self.predictions_file):
            if file:
                self._refuse_file(option, file)
        self._refuse_review()
        self._refuse_keep()
        if options["as_json"] and self.target == "-":
            raise click.UsageError("--json and --out - both want standard output.")
        if len(self.sources) > 1 and "-" in self.sources:
            raise ConfigError("-", "expected files where there are several sources. Name the one that is piped.")
        if options["draws"] and (not self.has_target or self.target == "-") and not options["as_json"]:
            raise ConfigError("--draws", "stand in TARGET.provenance.jsonl, and there is none here. Leave it out.")
        training = [name for name in TRAINING if options[name] is not None]
        if options["model"] and training:
            raise ConfigError(f"--{training[0]}", "says how to train, and --model what was trained. Leave one out.")
        if options["strict"] and not options["model"]:
            raise ConfigError(
                "--strict", "compares SOURCE with what a model learnt from. Say --model, or leave it out."
            )
        for name in ("in_place", "insert") if len(self.sources) > 1 else ():
            if options[name]:
                raise ConfigError(f"--{name.replace('_', '-')}", "needs one source alone. Leave it out.")

    def _refuse_review(self) -> None:
        """Refuse a review that could not be applied, or that has decisions in it already."""
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
        if Path(name).exists() and not options["force"]:
            raise WriteError(name, "exists already, with what was decided in it. Say --force to replace it.")

    def _refuse_keep(self) -> None:
        """Refuse a folder in which a newly trained model could not be kept."""
        folder = self.options["keep"]
        if folder is None:
            return
        from kbdisk.store.files import refuse_kept_folder

        if self.options["model"]:
            raise ConfigError("--keep", "is for a newly trained model, and --model names a trained one. Leave one out.")
        self._refuse_other_use("--keep", folder)
        if not self.options["dry_run"]:
            refuse_kept_folder(folder)

    def _refuse_file(self, option: str, name: str) -> None:
        """Refuse a file that cannot be written, or that has another use."""
        path = Path(name)
        if path.is_dir() or not path.absolute().parent.is_dir():
            raise WriteError(name, "cannot be written: no such directory, or one of this name.")
        self._refuse_other_use(option, name)

    def _refuse_other_use(self, option: str, name: str) -> None:
        """Refuse a name that another option has as well."""
        uses = dict.fromkeys(self.sources, "a source")
        if option != "--review":
            uses[self.review] = "the review"
        if option == "--keep":
            uses[self.predictions_file] = "the file of predictions"
        if self.target not in ("", "-"):
            uses |= {self.target: "the target", str(sidecar_of(self.target)): "the provenance of the target"}
        for other, use in uses.items():
            if other and Path(name).absolute() == Path(other).absolute():
                raise ConfigError(option, f"{name} is {use}, too. Choose another name.")

    def lock_source(self) -> AbstractContextManager[None]:
        """In place, keep others from changing the source from before it is read until it is written. Readers go on."""
        in_place = self.options["in_place"] and self.has_target and os.path.isfile(self.target)  # noqa: PTH113
        return locked(self.target) if in_place else nullcontext()

    def open_sources(self, progress: Progress | None) -> None:
        """Open the sources, and refuse a target, a model or shapes that cannot be used, before a model is trained."""
        from kbdisk.loaders import FORMATS, together
        from kbdisk.loaders.formats import target_format
        from kbdisk.schemas.importers import read_constraints
        from kbdisk.store.files import Files

        if self.options["shapes"] is not None:
            self.shapes = read_constraints(self.options["shapes"], self.say)
        self.kbs = together(open_sources(self.sources, self.options, progress))
        self.format = target_format(self.kbs, self.target or None, self.options["target_format"])
        assert self.format in FORMATS
        self._refuse_target()
        if self.options["model"]:
            Files.of(self.options["model"])

    def _refuse_target(self) -> None:
        """Refuse a target that exists, that is the source, or that cannot be written."""
        from kbdisk.loaders.formats import WritePlan

        target, options = self.target, self.options
        kb = self.kbs[0]
        WritePlan.for_items(kb, target or os.devnull, format=self.format, only_new=False, insert=options["insert"])
        if target == "-" or not self.has_target:
            return
        sidecar = sidecar_of(self.sources[0] if options["in_place"] else target)
        refuse_long_names(target)
        refuse_odd(sidecar)
        path = Path(target)
        if any(path.exists() and file.samefile(path) for source in self.kbs for file in source.files):
            if len(self.kbs) > 1 or len(kb.parts) > 1:
                raise WriteError(target, "is one of several sources. Choose another target.")
            if not options["in_place"]:
                raise WriteError(target, "is the source itself. Say --in-place to change it.")
            refuse_in_place(target)
            refuse_unwritable(target)
            return
        if options["in_place"]:
            raise ConfigError("--in-place", f"{target} is not the source. Leave --in-place or --out out.")
        if path.is_dir():
            raise WriteError(target, "expected a file to write, got a directory.")
        if not path.absolute().parent.is_dir():
            raise WriteError(target, "cannot be written: no such directory.")
        refuse_unwritable(target)
        for file in (path, sidecar):
            if file.is_file() and not options["force"]:
                raise WriteError(str(file), "exists already. Say --force to replace it.")

    # ------------------------------------------------------------ the stages

    def find_model(self) -> ModelledSource:
        """The sources with the model that is named, or with one that is trained on them."""
        from kbdisk.api.complete import ModelledSource, TrainingOptions, own_model, predictions_of, read_for_own_model
        from kbdisk.cli.schema import open_schema
        from kbdisk.training.clock import Clock

        options = self.options
        self.predictions = predictions_of(self.predictions_file or None)
        if options["model"]:
            return ModelledSource.by_model(self.kbs, options["model"], self.only, options["device"])
        schema = open_schema(options["schema"]) if options["schema"] else None
        loaded = read_for_own_model(self.kbs, schema)
        training_options = TrainingOptions(
            schema=schema,
            schema_name=options["schema"] or "",
            preset=options["preset"] or "default",
            budget=options["budget"],
            steps=options["steps"],
            seed=options["seed"],
            device=options["device"],
            only=self.only,
            classes=options["classes"] or (),
            explicit=any(options[name] is not None for name in TRAINING),
        )
        for line in misfit_lines(schema, *checked_entities(loaded, schema)) if schema else ():
            self.say(line)
        self.clock = Clock(self.begun, fills=options["fill"], report=self.say)
        with show_training(self.quiet, options["verbose"]) as watch:
            modelled = own_model(
                loaded,
                training_options,
                self.say,
                watch,
                folder=options["keep"],
                keep=not options["dry_run"],
                clock=self.clock,
            )
        own_schema = modelled.model.schema
        for line in too_large_lines(own_schema, *checked_entities(loaded, own_schema)) if not schema else ():
            self.say(line)
        return modelled

    def predict(self, modelled: ModelledSource, progress: CountCallback | None) -> Completed:
        """The sources with predictions for their gaps, made while values are decided on, or read from a file; new ones are saved there."""
        from kbdisk.api.complete import Completed, choices_of

        options = self.options
        choices = choices_of(
            self.only, options["classes"] or (), options["seed"], {name: options[name] for name in CHOICES}
        )
        completed = Completed.of(
            modelled,
            choices,
            shapes=self.shapes,
            predictions=self.predictions,
            every_gap=bool(self.review) or (bool(self.predictions_file) and choices.is_independent),
            progress=progress,
            at_once=False,
        )
        if self.predictions_file and self.predictions is None and not options["dry_run"]:
            completed.predictions.save(self.predictions_file)
            self.has_saved_predictions = True
        return completed

    def write(self, completed: Completed) -> WriteResult:
        """Write the target with its sidecar, and the review; without a target decide alone."""
        options = self.options
        return completed.write(
            self.target if self.has_target else None,
            format=options["target_format"] if self.has_target else self.format,
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

    def report(self, completed: Completed, written: WriteResult) -> int:
        """Show the summary; returns the exit status."""
        options, summary = self.options, completed.summary
        skipped = sum(len(kb.skipped) for kb in completed.source.kbs)
        drift = None if completed.source.is_own else completed.drift
        facts: dict[str, Any] = {
            "source": ", ".join(self.sources),
            "target": self.target if self.has_target else None,
            "model": completed.source.folder or None,
            "review": self.review or None,
            "written": written.report.written if self.has_target else 0,
            "before": written.report.before,
            "made": written.made,
            "skipped": skipped,
            "unwritable": unwritten_data(written.lost),
        }
        if self.predictions_file:
            facts["predictions"] = {"file": self.predictions_file, "saved": self.has_saved_predictions}
        facts |= {} if drift is None else {"drift": drift.to_json()}
        if options["as_json"]:
            lists_values = not self.has_target or options["verbose"]
            values = {"values": list(written.rows)} if lists_values else {}
            screen.write_json({**facts, **summary.to_json(), **values})
        else:
            self._print_values(written)
            if not self.quiet:
                self._print_summary(completed, written, render_summary(facts, summary, drift))
            for text in unwritten_lines(written.lost, " given"):
                say(text)
        return 1 if written.lost or skipped or (options["strict"] and drift) else 0

    def report_time(self) -> None:
        """The lines about a budget that did not suffice."""
        for line in self.clock.lines() if self.clock is not None else ():
            self.say(line)

    def _print_values(self, written: WriteResult) -> None:
        """Every filled value, where nothing else is written or --verbose wants it."""
        if not self.has_target and not self.review:
            screen.write_lines(list_values(written.rows))
        elif self.options["verbose"]:
            for text in list_values(written.rows):
                say(text)

    def _print_summary(self, completed: Completed, written: WriteResult, tables: str) -> None:
        from kbdisk.loaders import format_row

        if self.review:
            say(f"wrote {self.review}: decide on its rows, then: kbdisk apply {self.review}")
        report_earlier_fillings(written.made)
        if written.hint is not None:
            say(written.hint)
        say_rendered(tables)
        if self.target == "-" and not format_row(self.format).has_blocks and completed.summary.filled:
            say(UNMARKED)


# ---------------------------------------------------------------- many files


def _refuse_several_processes() -> None:
    """Refuse to train for a completion in several processes: each would train, and write the same target."""
    from kbdisk.training.distributed import Processes

    processes = Processes.of_environment()
    if processes.can_connect and not processes.is_first:
        raise SystemExit(2)  # process 0 prints for all
    if processes.can_connect:
        problem = f"is needed in {processes.size} processes. Train first (torchrun ... -m kbdisk train), then complete."
        raise ConfigError("--model", problem)


def names_folder(target: str | None) -> bool:
    """Whether a target is a folder: its name ends in a slash, or it is one."""
    return target is not None and (target.endswith(("/", os.sep)) or os.path.isdir(target))  # noqa: PTH112


def complete_many(sources: tuple[str, ...], options: dict[str, Any]) -> int:
    """Complete each file by itself, into a folder; returns the exit status."""
    _refuse_for_many(sources, options)
    with show_loading(options["quiet"], f"completing {sources[0]} ..."):
        import kbdisk.api.bulk
    reading = loading_options(options)
    shards = kbdisk.api.bulk.shards_of(sources, options["out"])
    with contextlib.suppress(LoadError):  # which is a failure of this file alone
        refuse_unused([kbdisk.load(shards[0].source, **reading)])
    shows_progress = not options["quiet"] and os.environ.get("RANK", "0") == "0"
    with show_counting(not shows_progress, "completing files", patience=0) as progress:
        summary = kbdisk.api.bulk.complete_shards(
            sources,
            options["out"],
            model=options["model"],
            shapes=options["shapes"],
            only=only_paths(options["only"]),
            classes=options["classes"] or (),
            seed=options["seed"],
            device=options["device"],
            insert=options["insert"],
            force=options["force"],
            engine=options["engine"] or "local",
            workers=options["workers"],
            address=options["address"],
            reading=reading,
            progress=progress,
            report=None if options["quiet"] else say,
            **{name: options[name] for name in CHOICES},
        )
    if summary.rank == 0:
        _report_many(summary, options)
    if summary.failed:
        return 2
    is_unlike = options["strict"] and summary.total("is_unlike")
    return 1 if summary.total("unwritable") or summary.total("unread") or is_unlike else 0


def _refuse_for_many(sources: tuple[str, ...], options: dict[str, Any]) -> None:
    """Refuse options that make no sense for many files, before anything slow is imported."""
    target = options["out"]
    if not options["model"]:
        problem = "is a folder, so each file is completed by itself, by a model that has to be trained before."
        raise ConfigError(target, f"{problem} Train on a sample first (kbdisk train), and say --model.")
    for name in (*TRAINING, "keep"):
        if options[name] is not None:
            raise ConfigError(f"--{name}", "says how to train, and --model what was trained. Leave one out.")
    for name in FOR_ONE:
        if options[name]:
            option = {"target_format": "to"}.get(name, name).replace("_", "-")
            raise ConfigError(f"--{option}", f"is for one target, and {target} is a folder. Leave it out.")
    if options["query"]:
        raise ConfigError("--query", "expected an endpoint, http:// or https://, as SOURCE. Leave --query out.")


def _report_many(summary: BulkSummary, options: dict[str, Any]) -> None:
    """Write the summary of many files, and a line for each that failed."""
    if options["as_json"]:
        screen.write_json({"target": options["out"], "model": options["model"], **summary.to_json()})
    elif not options["quiet"]:
        files = len(summary.done)
        text = f"wrote {files:,} {'file' if files == 1 else 'files'} to {options['out']}"
        text += f" ({len(summary.skipped):,} skipped, {len(summary.failed):,} failed)"
        filled, missing = summary.total("filled"), summary.total("missing")
        say(f"{text}: {summary.total('entities'):,} entities, {filled:,} gaps of {missing:,} filled")
    for result in summary.failed:
        say(f"failed: {result.problem}")
