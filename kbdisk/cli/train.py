"""`kbdisk train`: a model folder of one or several sources."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click
from rich.text import Text

from kbdisk.cli import screen
from kbdisk.cli.drift import checked_entities, misfit_lines, too_large_lines
from kbdisk.cli.options import (
    device_option,
    open_sources,
    refuse_missing,
    report_earlier_fillings,
    resumable,
    show_left_out,
    source_options,
)
from kbdisk.cli.progress import show_loading, show_reading, show_training
from kbdisk.cli.screen import say
from kbdisk.cli.tables import counted
from kbdisk.errors import ConfigError, KBDiskWarning

if TYPE_CHECKING:
    from kbdisk.api.model import Model
    from kbdisk.api.source import LoadedSource
    from kbdisk.schemas.infer import Inference
    from kbdisk.schemas.schema import Schema
    from kbdisk.training.distributed import Processes

PRESETS = ("fast", "default", "best", "links", "synthetic", "paper")
MAX_SHOWN = 10  # paths left out of a schema, or errors skipped


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
    help="The size of the model, and how long the command takes: fast a minute, default a quarter of an hour, best an hour; "
    "links for links alone, five minutes, for `kbdisk links`; synthetic for 20 minutes, for `kbdisk sample` rather than completion; paper as in the publication.",
)
@click.option("--budget", metavar="TIME", help="Maximum time of the whole command, such as 90s, 10m or 2h.")
@click.option(
    "--steps",
    metavar="N",
    type=click.IntRange(min=1),
    help="Number of training steps, instead of the preset's time; with --budget, whichever ends first.",
)
@click.option("--config", metavar="FILE", help="A run file, TOML: all other settings, over those of the preset.")
@click.option(
    "--seed",
    metavar="N",
    type=click.IntRange(min=0),
    help="Seed of the split, of the initial weights and of all random draws.  [default: 0]",
)
@device_option
@click.option("--resume", is_flag=True, help="Resume this command's stopped run; begin one where there is none.")
@click.option("--force", is_flag=True, help="Replace MODEL where it exists, and discard a stopped run.")
@source_options
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON object on standard output.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar, and no table at the end.")
@click.option(
    "-v", "--verbose", is_flag=True, help="Also print what the inferred schema leaves out, and each validation."
)
@click.pass_context
def train(
    context: click.RichContext, /, sources: tuple[str, ...], as_json: bool, quiet: bool, verbose: bool, **options: Any
) -> None:
    """Train a model on the entities of SOURCE, or of several together.

    A tenth of the entities is held out, of fewer than 500 up to a fifth: early stopping minimises their loss, and the
    table at the end has their error in each property, predicted from the others, beside that of the best constant.
    Ctrl-C stops and keeps the run: --resume continues exactly there. Exits with status 1 where --skip-errors skipped
    something.

    \b
    kbdisk train phones.jsonl --schema phone
    kbdisk train kb.ttl --class City --budget 10m --out cities.kbdisk
    kbdisk train 2019.csv 2020.csv --config run.toml --json | jq .quality
    kbdisk train kb.ttl --resume
    """  # fmt: skip
    begun = time.monotonic()
    with _connected_processes(context, options["device"]) as processes:
        if not processes.is_first:  # process 0 prints for all
            quiet, verbose, as_json = True, False, False
            warnings.simplefilter("ignore", KBDiskWarning)
        with processes.end_together():
            out = options["out"] or _folder_beside(sources)
            _refuse_early(out, sources, options, processes)
        with show_loading(quiet, f"reading {', '.join(sources)} ..."):
            from kbdisk.api.train import run_of
            from kbdisk.api.train import train as train_model
            from kbdisk.training.clock import Clock

        with processes.end_together():
            run = run_of(options["preset"], options["budget"], options["config"], options["seed"], options["steps"])
            if processes.is_first:
                _refuse_unfinished(out, options["resume"], options["force"])
            schema = _choose_schema(options["schema"], sources)
        with resumable(context):
            with processes.end_together():
                loaded, inference = _read(sources, schema is None, quiet, verbose, options)
            if not quiet:
                _report_start(loaded, inference, out, verbose, options)
                _report_misfits(loaded, schema, inference)
                report_earlier_fillings(loaded.made)
            clock = Clock(begun, report=None if quiet else say)
            settings = {name: options[name] for name in ("device", "resume", "force")}
            settings |= {"clock": clock, "processes": processes}
            with show_training(quiet, verbose) as watch:
                model = train_model(loaded, schema or inference, run=run, out=out, watch=watch, **settings)
    skipped = [error for kb in loaded.kbs for error in kb.skipped]
    if as_json:
        screen.write_json(_result_data(model, out, len(skipped)))
    elif not quiet:
        _show_result(model, out, verbose)
    for line in clock.lines() if not quiet else ():
        say(line)
    for error in skipped[:MAX_SHOWN]:
        say(f"skipped {error}")
    stopped = model.record.facts.get("stopped")
    if stopped:
        say(f"stopped early: {stopped}. {out} has the weights before.")
    context.exit(1 if skipped or stopped else 0)


@contextmanager
def _connected_processes(context: click.RichContext, device: str) -> Iterator[Processes]:
    """The processes that torchrun has started, connected. One that ends before the first has its exit status."""
    from kbdisk.training.distributed import ProcessEnded, Processes

    processes = Processes.of_environment()
    try:
        with processes.connected(device):
            yield processes
    except ProcessEnded as ended:
        context.exit(ended.status)


def _folder_beside(sources: tuple[str, ...]) -> str:
    """The default folder of the model."""
    first = sources[0]
    if first == "-" or first.startswith(("http://", "https://")):
        raise ConfigError("--out", f"{first} is no file that a model could stand beside. Say --out MODEL.")
    return f"{first}.kbdisk"


def _refuse_early(out: str, sources: tuple[str, ...], options: dict[str, Any], processes: Processes) -> None:
    """Refuse a folder or a source that cannot be used, before anything is read and without torch."""
    from kbdisk.store.files import refuse_output_path
    from kbdisk.training.lock import refuse_busy

    if processes.is_first:
        refuse_output_path(out, options["force"])
        refuse_busy(Path(out))
    for source in sources:
        refuse_missing(source)


def _refuse_unfinished(out: str, resume: bool, force: bool) -> None:
    from kbdisk.training import checkpoint

    folder = checkpoint.beside(Path(out))
    if not resume and not force:
        checkpoint.refuse_unfinished(folder)
    if resume and not checkpoint.is_there(folder):
        say(f"{folder}: no run was stopped there: beginning one")


def _choose_schema(name: str | None, sources: tuple[str, ...]) -> Schema | str | None:
    """The schema that is named; None where it is to be inferred."""
    if name is None:
        return None
    if name == "-" and "-" in sources:
        raise click.UsageError("--schema and SOURCE both want standard input.")
    from kbdisk.cli.schema import open_schema

    schema = open_schema(name)
    return schema if name == "-" else name


def _read(
    sources: tuple[str, ...], infers: bool, quiet: bool, verbose: bool, options: dict[str, Any]
) -> tuple[LoadedSource, Inference | None]:
    """The entities of all sources, of the wanted classes; and their schema, where it is to be inferred."""
    import kbdisk
    from kbdisk.api.source import LoadedSource

    if len(set(sources)) < len(sources):
        raise click.UsageError("The same SOURCE is named twice.")
    with warnings.catch_warnings(), show_reading(quiet, f"reading {', '.join(sources)}") as progress:
        if not verbose:
            warnings.simplefilter("ignore", KBDiskWarning)  # kbdisk inspect shows what is odd in a source
        kbs = open_sources(sources, options, progress)
        complete = LoadedSource.of(kbs)
        loaded = complete.of_classes(options["classes"])
        known = kbs[0] if len(kbs) == 1 else loaded.entities
        entities = complete.entities if len(kbs) == 1 and not complete.made else None
        inference = kbdisk.infer(known, classes=options["classes"], entities=entities) if infers else None
    for kb in kbs:
        if kb.source is not None:
            kb.source.progress = None
    return loaded, inference


# ---------------------------------------------------------------- what is printed


def _report_start(
    loaded: LoadedSource, inference: Inference | None, out: str, verbose: bool, options: dict[str, Any]
) -> None:
    """The lines before a training."""
    from kbdisk.loaders.naming import identifiers

    entities = counted(len(loaded.entities), "entity", "entities")
    if inference is None:
        say(f"training on {loaded.name}: {entities}, schema {options['schema']}")
        return
    hint = identifiers(loaded.entities).hint
    if hint is not None:
        say(hint)
    classes = inference.schema.classes
    properties = counted(sum(len(class_.properties) for class_ in classes.values()), "property", "properties")
    in_classes = f" in {len(classes)} classes" if len(classes) > 1 else ""
    say(f"training on {loaded.name}: {entities}")
    say(f"no schema was given: inferred one, {properties}{in_classes}; it will be {out}/schema.yaml")
    if verbose:
        from kbdisk.entity import show

        for (class_name, path), reason in list(inference.left_out.items())[:MAX_SHOWN]:
            say(f"left out of the schema: {show((class_name, *path) if class_name else path)}: {reason}")


def _report_misfits(loaded: LoadedSource, schema: Schema | str | None, inference: Inference | None) -> None:
    """The lines about values that the schema refuses, and that training leaves out."""
    from kbdisk.schemas.schema import Schema

    if inference is not None:
        opened = inference.schema
    else:
        assert schema is not None
        opened = schema if isinstance(schema, Schema) else Schema.read(schema)
    lines = (misfit_lines if inference is None else too_large_lines)(opened, *checked_entities(loaded, opened))
    for line in lines:
        say(line)


def _result_data(model: Model, out: str, skipped: int) -> dict[str, Any]:
    record = model.record
    return {
        "model": out,
        "source": record.source,
        "trained_on": len(record.training),
        "held_out": len(record.validation),
        "facts": record.facts,
        "quality": record.quality,
        "history": record.history,
        "skipped": skipped,
    }


def _show_result(model: Model, out: str, verbose: bool) -> None:
    """The steps, the table of errors and the folder, on standard error."""
    from kbdisk.cli.show import show_quality
    from kbdisk.store.card import quality

    record, console = model.record, screen.console(stderr=True)
    facts = record.facts
    best = "" if facts["best_step"] == facts["steps"] else f", the best after {facts['best_step']:,}"
    held_out = f"{len(record.training):,} trained on, {len(record.validation):,} held out"
    held_out += f", {facts['left_out']:,} left out" if "left_out" in facts else ""
    members = len(model.trained.members)
    networks = f"{members} networks, the first of " if members > 1 else ""
    steps = counted(facts["steps"], "step", "steps")
    line = f"{networks}{steps}{best}, in {facts['seconds']:,.0f} s; {held_out}"
    console.print(Text(line), soft_wrap=True)
    if verbose:
        show_left_out(console, model)
    rows = quality({"quality": record.quality})
    if rows:
        console.print()
        show_quality(console, rows)
        console.print()
    else:
        console.print(Text("Nothing was held out of so few entities, so its quality is unknown."), soft_wrap=True)
    console.print(Text.assemble("wrote ", (out, "bold")), soft_wrap=True)
