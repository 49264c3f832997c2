"""`kbdisk write`: a knowledge base to the same or another format, with new values put in."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import rich_click as click

from kbdisk.cli import placeless
from kbdisk.cli.marks import Marks, is_wanted
from kbdisk.cli.screen import say
from kbdisk.cli.sources import named_from, open_source, source_options, watching
from kbdisk.errors import ConfigError
from kbdisk.jsonio import dump_json
from kbdisk.loaders.files import refuse_long_names, set_aside, sidecar_of, standard_output
from kbdisk.locks import locked

if TYPE_CHECKING:
    from kbdisk.entity import Completion, Entity, Path
    from kbdisk.loaders import KB, Report

SHOWN = 10  # skipped entities that are named in the summary


@click.command()
@click.argument("source")
@click.option("--out", metavar="TARGET", required=True, help="File to write, or - for standard output.")
@click.option(
    "--values",
    metavar="FILE",
    help='New values, JSON Lines: {"id": ..., "path": "launch.year", "value": 1999}. An entity without an id is called by its number, from 1: a header and blank lines do not count.',
)
@click.option("--from", "origin", metavar="FORMAT", help="Format of SOURCE where its name does not tell.")
@click.option("--format", metavar="FORMAT", help="Format of TARGET where its name does not tell.")
@click.option("--only-new", is_flag=True, help="Write the new values alone.")
@click.option("--insert", is_flag=True, help="Also fill gaps inside anonymous [ ... ] of Turtle, in their place.")
@click.option("--force", is_flag=True, help="Replace TARGET where it exists.")
@click.option("--in-place", is_flag=True, help="Let TARGET be SOURCE itself, which is kept as it was as SOURCE.before.")
@source_options
@click.option("--json", "as_json", is_flag=True, help="The summary as one JSON object on standard output.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar, and no summary where all is well.")
@click.pass_context
def write(context: click.RichContext, /, source: str, as_json: bool, quiet: bool, **options: Any) -> None:
    """Write SOURCE to TARGET, with new values where --values has some.

    In the same format every byte of SOURCE stays as it is, and new values are put in the way SOURCE writes
    such values; --class, and another format, write everything anew. Given values are never changed. Exits
    with status 1 where a value found no place, or --skip-errors skipped something.

    \b
    kbdisk write kb.ttl --out kb.jsonl
    kbdisk write kb.ttl --values new.jsonl --out completed.ttl
    kbdisk write kb.ttl --values new.jsonl --only-new --out new.ru
    kbdisk write phones.csv --out - --format jsonl | head
    """
    from kbdisk.cli.newvalues import new_values
    from kbdisk.loaders.formats import WritePlan, format_of_target

    target = options["out"]
    if as_json and target == "-":
        raise click.UsageError("--json and --out - both want standard output.")
    refuse_long_names(target)
    with contextlib.ExitStack() as changing:
        if options["in_place"] and os.path.isfile(target):  # noqa: PTH113 - Path.is_file raises for odd names
            changing.enter_context(locked(target))  # before it is read
        with watching(quiet, f"reading {source}") as progress:
            kb = open_source(source, options["origin"], options, progress)
            values = new_values(options["values"], kb) if options["values"] else []
            format = format_of_target(kb, target, options["format"])
            only_new = options["only_new"] or format == "quickstatements" or (format == "sparql-update" and kb.updates)
            unmarked = only_new or options["in_place"]
            marks = Marks([], target) if unmarked else Marks.of(kb, target, format, options["classes"])
            settings = {name: options[name] for name in ("format", "only_new", "insert")}
            plan = WritePlan.for_items(_items(kb, format, only_new, values, options["classes"]), target, **settings)
            beside = marks.write if marks.lines and target != "-" else None
            changing.enter_context(locked(target))
            report = plan.run(force=options["force"], in_place=options["in_place"], beside=beside)
            report.unwritable += _left_out(values, options["classes"])
        stale = None if target == "-" or options["in_place"] else _set_aside(target, marks)
    if as_json:
        _print_json(kb, target, report)
    elif not quiet or report.unwritable or kb.skipped:
        _print(kb, target, report)
    if stale is not None:
        say(stale)
    if marks.lines and not quiet and not as_json:
        say(marks.told())
    context.exit(1 if report.unwritable or kb.skipped else 0)


def _items(
    kb: KB, format: str, only_new: bool, values: list[Completion], classes: tuple[str, ...]
) -> KB | Iterable[Entity | Completion]:
    """What is to be written: in the source's own format its completions alone, else every entity."""
    if only_new and not values:
        raise ConfigError("--only-new", "there are no new values. Say --values FILE.")
    chosen = [one for one in values if is_wanted(one.entity, classes)]
    if only_new:
        return chosen
    if kb.keeps(format) and not classes:
        if not chosen and kb.keeps_bytes(format):
            deque(kb, maxlen=0)  # what is copied is sound, or refused
        return chosen or kb
    return _all(kb, chosen, classes)


def _all(kb: KB, values: list[Completion], classes: tuple[str, ...]) -> Iterator[Entity | Completion]:
    """Every entity that is wanted, with its new values."""
    from kbdisk.schemas.text.names import refuse_unmet

    filled, met = {completion.entity.id: completion for completion in values}, dict[str, None]()
    for entity in kb:
        met |= dict.fromkeys(entity.classes)
        if is_wanted(entity, classes):
            yield filled.get(entity.id, entity)
    refuse_unmet(kb.name, classes, met)


def _left_out(values: list[Completion], classes: tuple[str, ...]) -> list[tuple[str, Path, str]]:
    """New values of entities that --class leaves out."""
    out = (one for one in values if not is_wanted(one.entity, classes))
    return [(one.entity.id, path, "is of none of the classes asked for") for one in out for path in one.filled]


def _set_aside(target: str, marks: Marks) -> str | None:
    """What becomes of a sidecar that told of another file of the target's name; None where there is none."""
    sidecar = sidecar_of(target)
    if not marks.lines:
        marks.aside = set_aside(sidecar) if sidecar.is_file() else None
    if marks.aside is None:
        return None
    return f"{sidecar} told of the file that was there before: it is now {marks.aside}"


def _print_json(kb: KB, target: str, report: Report) -> None:
    data = {
        "source": kb.name,
        "target": target,
        "written": report.written,
        "before": report.before,
        "unwritable": placeless.as_data(report.unwritable),
        "skipped": len(kb.skipped),
    }
    with standard_output() as stream:
        stream.write(dump_json(data))


def _print(kb: KB, target: str, report: Report) -> None:
    """The summary, on standard error: standard output may be the target."""
    from kbdisk.cli.completed import as_it_was

    new = report.written
    values = f", {new:,} new {'value' if new == 1 else 'values'}" if new else ""
    say(f"wrote {'standard output' if target == '-' else target}{values}{as_it_was(report.before)}")
    for text in placeless.lines(report.unwritable):
        say(text)
    for error in kb.skipped[:SHOWN]:
        say(f"skipped {named_from(error)}")
    if len(kb.skipped) > SHOWN:
        say(f"and {len(kb.skipped) - SHOWN:,} more")
