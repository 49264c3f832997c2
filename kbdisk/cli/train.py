"""`kbdisk train`: a model folder of one or several sources."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from kbdisk.cli.resuming import resumable
from kbdisk.cli.screen import say
from kbdisk.cli.sources import loading, open_sources, refuse_missing, source_options, tell_made, watching
from kbdisk.cli.tables import counted
from kbdisk.cli.trainbar import training
from kbdisk.cli.verbosely import tell_left_out
from kbdisk.errors import ConfigError, KBDiskWarning
from kbdisk.jsonio import dump_json
from kbdisk.loaders.files import standard_output

if TYPE_CHECKING:
    from kbdisk.api import Model, Reading
    from kbdisk.schemas.infer import Inference
    from kbdisk.schemas.schema import Schema

PRESETS = ("fast", "default", "best", "synthetic", "paper")
SHOWN = 10  # things left out, or skipped, that are named


@click.command()
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.option(
    "--schema",
    metavar="SCHEMA",
    help="A schema: a file, the name of one in the library, or - for standard input.  [default: inferred]",
)
@click.option("--out", metavar="MODEL", help="Folder to write.  [default: SOURCE.kbdisk]")
@click.option(
    "--preset",
    type=click.Choice(PRESETS),
    default="default",
    show_default=True,
    help="What is trained, and how long: fast for a minute, default a quarter of an hour, best an hour; synthetic for 20 "
    "minutes, to draw by `kbdisk sample` rather than to complete; paper as it was published.",
)
@click.option("--budget", metavar="TIME", help="Longest time that training takes, such as 90s, 10m or 2h.")
@click.option("--config", metavar="FILE", help="A run file, TOML: whatever else can be chosen, over the preset.")
@click.option(
    "--seed",
    metavar="N",
    type=click.IntRange(min=0),
    help="Another seed, another split and another start.  [default: 0]",
)
@click.option(
    "--device", metavar="NAME", default="auto", show_default=True, help="Where it computes: auto, cpu or cuda."
)
@click.option("--resume", is_flag=True, help="Go on where this command was stopped; begin where it was not.")
@click.option("--force", is_flag=True, help="Replace MODEL where it exists, and give up a run that was stopped.")
@click.option("--format", metavar="FORMAT", help="Format of SOURCE where its name does not tell.")
@source_options
@click.option("--json", "as_json", is_flag=True, help="What came of it as one JSON object on standard output.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar, and no table at the end.")
@click.option(
    "-v", "--verbose", is_flag=True, help="Tell what was chosen, what is left out, and each look at what is held out."
)
@click.pass_context
def train(
    context: click.RichContext, /, sources: tuple[str, ...], as_json: bool, quiet: bool, verbose: bool, **options: Any
) -> None:
    """Train a model on the entities of SOURCE, or of several together.

    A tenth of the entities is held out, of fewer than 500 up to a fifth: it tells when to stop, and at the end how
    wrong each property is told from the others, beside the one constant that is best for all. Ctrl-C stops and keeps
    the run: --resume goes on exactly there. Exits with status 1 where --skip-errors skipped something.

    \b
    kbdisk train phones.jsonl --schema phone
    kbdisk train kb.ttl --class City --budget 10m --out cities.kbdisk
    kbdisk train 2019.csv 2020.csv --config run.toml --json | jq .quality
    kbdisk train kb.ttl --resume
    """  # fmt: skip
    out = options["out"] or _beside(sources)
    _refuse_at_once(out, sources, options)
    with loading(quiet, f"reading {', '.join(sources)} ..."):
        from kbdisk import api
        from kbdisk.api.training import run_of

    run = run_of(options["preset"], options["budget"], options["config"], options["seed"])
    _refuse_unfinished(out, options["resume"], options["force"])
    schema = _schema(options["schema"], sources)
    with resumable(context):
        reading, inferred = _read(sources, schema is None, quiet, verbose, options)
        if not quiet:
            _tell(reading, inferred, out, verbose, options)
            _tell_misfits(reading, schema, inferred)
            tell_made(reading.made)
        settings = {name: options[name] for name in ("device", "resume", "force")}
        with training(quiet, verbose) as watch:
            model = api.train(reading, schema or inferred, run=run, out=out, watch=watch, **settings)
    skipped = [error for kb in reading.sources for error in kb.skipped]
    if as_json:
        _print_json(model, out, len(skipped))
    elif not quiet:
        _print(model, out, verbose)
    for error in skipped[:SHOWN]:
        say(f"skipped {error}")
    stopped = model.record.facts.get("stopped")
    if stopped:
        say(f"stopped early: {stopped}. {out} has the weights before.")
    context.exit(1 if skipped or stopped else 0)


def _beside(sources: tuple[str, ...]) -> str:
    """Where the model is written unless that is said."""
    first = sources[0]
    if first == "-" or first.startswith(("http://", "https://")):
        raise ConfigError("--out", f"{first} is no file that a model could stand beside. Say --out MODEL.")
    return f"{first}.kbdisk"


def _refuse_at_once(out: str, sources: tuple[str, ...], options: dict[str, Any]) -> None:
    """What would only come out at the end, or after much reading; without torch."""
    from kbdisk.store.files import refuse_output_path
    from kbdisk.training.lock import refuse_busy

    refuse_output_path(out, options["force"])
    refuse_busy(Path(out))
    for source in sources:
        refuse_missing(source)


def _refuse_unfinished(out: str, resume: bool, force: bool) -> None:
    from kbdisk.training import checkpoint

    kept = checkpoint.beside(Path(out))
    if not resume and not force:
        checkpoint.refuse_unfinished(kept)
    if resume and not checkpoint.is_there(kept):
        say(f"{kept}: no run was stopped there: beginning one")


def _schema(name: str | None, sources: tuple[str, ...]) -> Schema | str | None:
    if name is None:
        return None
    if name == "-" and "-" in sources:
        raise click.UsageError("--schema and SOURCE both want standard input.")
    from kbdisk.cli.schema import open_schema

    found = open_schema(name)
    return found if name == "-" else name


def _read(
    sources: tuple[str, ...], infers: bool, quiet: bool, verbose: bool, options: dict[str, Any]
) -> tuple[Reading, Inference | None]:
    """The entities of all sources, of the classes that are wanted; and their schema, where it has to be inferred."""
    import kbdisk
    from kbdisk.api import Reading

    if len(set(sources)) < len(sources):
        raise click.UsageError("The same SOURCE is named twice.")
    with warnings.catch_warnings(), watching(quiet, f"reading {', '.join(sources)}") as progress:
        if not verbose:
            warnings.simplefilter("ignore", KBDiskWarning)  # what is odd in a source is for inspect to tell
        kbs = open_sources(sources, options["format"], options, progress)
        reading = _wanted(Reading.of(kbs), options["classes"])
        known = kbs[0] if len(kbs) == 1 else reading.entities
        inferred = kbdisk.infer(known, classes=options["classes"]) if infers else None
    for kb in kbs:
        if kb.source is not None:
            kb.source.progress = None
    return reading, inferred


def _wanted(reading: Reading, classes: tuple[str, ...]) -> Reading:
    from dataclasses import replace

    from kbdisk.inspection import is_class
    from kbdisk.schemas.text.names import refuse_unmet

    if not classes:
        return reading
    met = dict.fromkeys(name for one in reading.entities for name in one.classes)
    refuse_unmet(reading.name, classes, met)
    kept = [one for one in reading.entities if any(is_class(name, want) for name in one.classes for want in classes)]
    return replace(reading, entities=kept)


def _tell(reading: Reading, inferred: Inference | None, out: str, verbose: bool, options: dict[str, Any]) -> None:
    """What it is about to do, on standard error."""
    from kbdisk.loaders.naming import identifiers

    entities = counted(len(reading.entities), "entity", "entities")
    if inferred is None:
        say(f"training on {reading.name}: {entities}, schema {options['schema']}")
        return
    hint = identifiers(reading.entities)
    if hint.hint is not None:
        say(hint.hint)
    classes = inferred.schema.classes
    properties = counted(sum(len(one.properties) for one in classes.values()), "property", "properties")
    of = f" in {len(classes)} classes" if len(classes) > 1 else ""
    say(f"training on {reading.name}: {entities}")
    say(f"no schema was given: inferred one, {properties}{of}; it will be {out}/schema.yaml")
    if verbose:
        from kbdisk.entity import show

        for (of_class, path), why in list(inferred.left_out.items())[:SHOWN]:
            say(f"left out of the schema: {show((of_class, *path) if of_class else path)}: {why}")


def _tell_misfits(reading: Reading, schema: Schema | str | None, inferred: Inference | None) -> None:
    """What the schema refuses, which would be lost without a word."""
    from kbdisk.cli.drift import misfit_lines, too_large_lines
    from kbdisk.schemas.schema import Schema

    known = schema if isinstance(schema, Schema) or schema is None else Schema.read(schema)
    told = misfit_lines(known, reading.entities, reading.name) if known is not None else ()
    if inferred is not None:
        told = too_large_lines(inferred.schema, reading.entities, reading.name)
    for line in told:
        say(line)


def _print_json(model: Model, out: str, skipped: int) -> None:
    record = model.record
    data = {
        "model": out,
        "source": record.source,
        "trained_on": len(record.training),
        "held_out": len(record.validation),
        "facts": record.facts,
        "quality": record.quality,
        "history": record.history,
        "skipped": skipped,
    }
    with standard_output() as stream:
        stream.write(dump_json(data))


def _print(model: Model, out: str, verbose: bool) -> None:
    """How good it is, and where: on standard error."""
    from rich.text import Text

    from kbdisk.cli import screen
    from kbdisk.cli.show import show_quality
    from kbdisk.store.card import quality

    record, console = model.record, screen.console(stderr=True)
    facts = record.facts
    best = "" if facts["best_step"] == facts["steps"] else f", the best after {facts['best_step']:,}"
    held_out = f"{len(record.training):,} trained on, {len(record.validation):,} held out"
    members = len(model.trained.members)
    networks = f"{members} networks, the first of " if members > 1 else ""
    steps = counted(facts["steps"], "step", "steps")
    console.print(
        Text(f"{networks}{steps}{best}, in {facts['seconds']:,.0f} s; {held_out}"),
        soft_wrap=True,
    )
    if verbose:
        tell_left_out(console, model)
    rows = quality({"quality": record.quality})
    if rows:
        console.print()
        show_quality(console, rows)
        console.print()
    else:
        console.print(Text("Nothing was held out of so few entities, so nobody knows how good it is."), soft_wrap=True)
    console.print(Text.assemble("wrote ", (out, "bold")), soft_wrap=True)
