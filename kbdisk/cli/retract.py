"""`kbdisk retract`: what kbdisk filled in a file, taken out of it again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import rich_click as click

from kbdisk.cli.screen import say
from kbdisk.cli.sources import only_paths, open_source, source_options, watching
from kbdisk.cli.values import shown
from kbdisk.entity import show
from kbdisk.errors import LoadError
from kbdisk.jsonio import dump_json
from kbdisk.loaders.files import refuse_in_place, refuse_unwritable, standard_output
from kbdisk.loaders.values.tagged_json import encode
from kbdisk.locks import locked

if TYPE_CHECKING:
    from kbdisk.completion.retract import Retractable
    from kbdisk.loaders.kb import Placeless

SHOWN = 10  # changed values that are named in the summary


@click.command()
@click.argument("target")
@click.option(
    "--only",
    metavar="PATHS",
    multiple=True,
    help="Take out nothing but values of these properties: launch.year,weight.",
)
@click.option("--dry-run", is_flag=True, help="Change nothing; print what would be taken out.")
@click.option("--from", "origin", metavar="FORMAT", help="Format of TARGET where its name does not tell.")
@source_options
@click.option("--json", "as_json", is_flag=True, help="The summary as one JSON object on standard output.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar and no summary.")
@click.pass_context
def retract(context: click.RichContext, /, target: str, **options: Any) -> None:
    """Take out of TARGET what kbdisk filled in.

    Its marked blocks tell what that is, or TARGET.provenance.jsonl beside it. What stood there before comes back: a
    completed file that nobody changed is, to the byte, what it was; Parquet says the same, and is serialised anew. Given
    values are never touched. A value that somebody changed since is theirs: it stays, and is named. Exits with status 1
    where a value could not be taken out, or --skip-errors skipped something; with 2 where nothing tells what kbdisk
    filled in.

    \b
    kbdisk retract completed.ttl --dry-run
    kbdisk retract completed.ttl
    kbdisk retract phones.csv --only weight,launch.year
    """
    from kbdisk.completion.retract import retract as take_out
    from kbdisk.completion.retract import retractable

    if not os.path.isfile(target):  # noqa: PTH113 - Path.is_file raises for odd names
        problem = "expected a file, got standard input." if target == "-" else "expected a file, got none of this name."
        raise LoadError(target, f"{problem} Name the file that kbdisk complete wrote.")
    only = only_paths(options["only"])
    dry, quiet = options["dry_run"], options["quiet"]
    if not dry:
        refuse_in_place(target)
        refuse_unwritable(target)
    with locked(target):
        with watching(quiet, f"reading {target}") as progress:
            kb = open_source(target, options["origin"], options, progress)
            plan = retractable(kb, only, options["classes"])
        left = plan.left if dry or not (plan.fillings or plan.dropped) else take_out(plan)
    if options["as_json"]:
        with standard_output() as stream:
            stream.write(dump_json(_as_data(target, plan, left, dry)))
    elif dry:
        with standard_output() as stream:
            for filling in plan.fillings:
                stream.write(f"{filling.id}  {show(filling.path)}  {shown(filling.value)}\n".encode())
    if not quiet and not options["as_json"]:
        for text in _summary_lines(target, plan, left, dry):
            say(text)
    context.exit(1 if left or kb.skipped else 0)


def _summary_lines(target: str, plan: Retractable, left: list[Placeless], dry: bool) -> Iterator[str]:
    """The lines of the summary."""
    from kbdisk.cli.tables import counted

    for change in plan.changed[:SHOWN]:
        yield f"stays: {change.id} {show(change.path)} is {shown(change.now)}, changed since kbdisk filled in {shown(change.value)}"
    if len(plan.changed) > SHOWN:
        yield f"and {counted(len(plan.changed) - SHOWN, 'changed value stays', 'changed values stay')}"
    for id, path, reason in left[:SHOWN]:
        yield f"stays: {id} {show(path)} {reason}"
    if len(left) > SHOWN:
        yield f"and {counted(len(left) - SHOWN, 'value that kbdisk filled in stays', 'values that kbdisk filled in stay')}"
    values = counted(len(plan.fillings), "value", "values")
    if dry:
        yield f"nothing was changed: {values} of {target} would be taken out"
    else:
        yield f"took {values} out of {target}"


def _as_data(target: str, plan: Retractable, left: list[Placeless], dry: bool) -> dict[str, Any]:
    from kbdisk.cli import placeless

    return {
        "target": target,
        "retracted": 0 if dry else len(plan.fillings),
        "values": [{"id": one.id, "path": show(one.path), "value": encode(one.value)} for one in plan.fillings],
        "changed": [
            {"id": one.id, "path": show(one.path), "value": encode(one.value), "now": encode(one.now)}
            for one in plan.changed
        ],
        "left": placeless.as_data(left),
        "skipped": len(plan.kb.skipped),
    }
