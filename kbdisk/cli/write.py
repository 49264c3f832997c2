"""`kbdisk write`: a knowledge base to the same or another format, with new values put in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import rich_click as click

from kbdisk.cli.sources import open_source, source_options, watching
from kbdisk.errors import ConfigError
from kbdisk.loaders.target import standard_output

if TYPE_CHECKING:
    from kbdisk.entity import Completion, Entity
    from kbdisk.loaders import KB, Report

SHOWN = 10  # values without a place that are named in the summary


@click.command()
@click.argument("source")
@click.option("--out", metavar="TARGET", required=True, help="File to write, or - for standard output.")
@click.option(
    "--values", metavar="FILE", help='New values, JSON Lines: {"id": ..., "path": "launch.year", "value": 1999}.'
)
@click.option("--from", "origin", metavar="FORMAT", help="Format of SOURCE where its name does not tell.")
@click.option("--format", metavar="FORMAT", help="Format of TARGET where its name does not tell.")
@click.option("--only-new", is_flag=True, help="Write the new values alone.")
@click.option("--insert", is_flag=True, help="Also fill gaps inside anonymous [ ... ] of Turtle, in their place.")
@click.option("--force", is_flag=True, help="Replace TARGET where it exists.")
@click.option("--in-place", is_flag=True, help="Let TARGET be SOURCE itself.")
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
    import kbdisk
    from kbdisk.cli.newvalues import new_values

    target = options["out"]
    if as_json and target == "-":
        raise click.UsageError("--json and --out - both want standard output.")
    with watching(quiet, f"reading {source}") as progress:
        kb = open_source(source, options["origin"], options, progress)
        values = new_values(options["values"], kb) if options["values"] else []
        items = _items(kb, target, values, options)
        settings = {name: options[name] for name in ("format", "only_new", "insert", "force", "in_place")}
        report = kbdisk.write(items, target, **settings)
    new = sum(len(one.filled) for one in values) - len(report.unwritable)
    if as_json:
        _print_json(kb, target, new, report)
    elif not quiet or report.unwritable or kb.skipped:
        _print(kb, target, new, report)
    context.exit(1 if report.unwritable or kb.skipped else 0)


def _items(
    kb: KB, target: str, values: list[Completion], options: dict[str, Any]
) -> KB | Iterable[Entity | Completion]:
    """What is to be written: in the source's own format its completions alone, else every entity."""
    from kbdisk.loaders import format_of

    format = options["format"] or format_of(target) or (kb.format if target == "-" else "")
    if options["only_new"] and not values:
        raise ConfigError("--only-new", "there are no new values. Say --values FILE.")
    if options["only_new"]:
        return values
    if options["classes"]:
        return _of_classes(kb, values, options["classes"])
    if kb.keeps(format):
        return values or kb
    return _all(kb, values)


def _all(kb: KB, values: list[Completion]) -> Iterator[Entity]:
    """Every entity, with its new values in it."""
    import dataclasses

    filled = {completion.entity.id: completion for completion in values}
    for entity in kb:
        completion = filled.get(entity.id)
        yield entity if completion is None else dataclasses.replace(entity, tree=completion.tree())


def _of_classes(kb: KB, values: list[Completion], classes: tuple[str, ...]) -> Iterator[Entity]:
    from kbdisk.inspection import is_class

    for entity in _all(kb, values):
        if any(is_class(name, wanted) for name in entity.classes for wanted in classes):
            yield entity


def _print_json(kb: KB, target: str, new: int, report: Report) -> None:
    import orjson

    from kbdisk.entity import show

    unwritable = [{"id": id, "path": show(path), "reason": reason} for id, path, reason in report.unwritable]
    data = {
        "source": kb.name,
        "target": target,
        "written": new,
        "unwritable": unwritable,
        "skipped": len(kb.skipped),
    }
    with standard_output() as stream:
        stream.write(orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def _print(kb: KB, target: str, new: int, report: Report) -> None:
    """The summary, on standard error: standard output may be the target."""
    from kbdisk.entity import show

    values = f", {new:,} new {'value' if new == 1 else 'values'}" if new else ""
    click.echo(f"wrote {'standard output' if target == '-' else target}{values}", err=True)
    if report.unwritable:
        click.echo(f"{len(report.unwritable):,} without a place in it:", err=True)
    for id, path, reason in report.unwritable[:SHOWN]:
        click.echo(f"  {id} {show(path)}: {reason}", err=True)
    if len(report.unwritable) > SHOWN:
        click.echo(f"  and {len(report.unwritable) - SHOWN:,} more: --json has them", err=True)
    for error in kb.skipped[:SHOWN]:
        click.echo(f"skipped {error}", err=True)
    if len(kb.skipped) > SHOWN:
        click.echo(f"and {len(kb.skipped) - SHOWN:,} more", err=True)
