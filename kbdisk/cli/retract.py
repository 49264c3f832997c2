"""`kbdisk retract`: takes the values that kbdisk filled in out of a file again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import rich_click as click

from kbdisk.cli import screen
from kbdisk.cli.options import only_paths, open_source, source_options
from kbdisk.cli.progress import show_reading
from kbdisk.cli.screen import say
from kbdisk.cli.summary import unwritten_data
from kbdisk.cli.tables import counted, value_text
from kbdisk.entity import show
from kbdisk.errors import LoadError
from kbdisk.loaders.files import refuse_in_place, refuse_unwritable
from kbdisk.loaders.values.tagged_json import encode
from kbdisk.locks import locked

if TYPE_CHECKING:
    from kbdisk.completion.retract import Retractable
    from kbdisk.loaders.kb import Placeless

MAX_SHOWN = 10  # changed values in the summary, and values that stay for another reason


@click.command()
@click.argument("target")
@click.option(
    "--only",
    metavar="PATHS",
    multiple=True,
    help="Take out values of these properties only: launch.year,weight.",
)
@click.option("--dry-run", is_flag=True, help="Change nothing; print what would be taken out.")
@source_options
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object on standard output.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar and no summary.")
@click.pass_context
def retract(context: click.RichContext, /, target: str, **options: Any) -> None:
    """Take the values that kbdisk filled in out of TARGET.

    They are known from its marked blocks, or from TARGET.provenance.jsonl beside it. The text before the completion is
    restored: a completed file that was not edited since is the original to the byte; Parquet has the same values, and is
    serialised anew. Given values are never changed. A filled value that was edited since counts as given: it stays, and is
    listed. Exits with status 1 where a value could not be taken out, or --skip-errors skipped something; with 2 where
    neither blocks nor provenance exist.

    \b
    kbdisk retract completed.ttl --dry-run
    kbdisk retract completed.ttl
    kbdisk retract phones.csv --only weight,launch.year
    """  # fmt: skip
    from kbdisk.completion.retract import retract as take_out
    from kbdisk.completion.retract import retractable

    if not os.path.isfile(target):  # noqa: PTH113 - Path.is_file raises for odd names
        problem = "expected a file, got standard input." if target == "-" else "expected a file, got none of this name."
        raise LoadError(target, f"{problem} Name the file that kbdisk complete wrote.")
    only = only_paths(options["only"])
    is_dry, quiet = options["dry_run"], options["quiet"]
    if not is_dry:
        refuse_in_place(target)
        refuse_unwritable(target)
    with locked(target):
        with show_reading(quiet, f"reading {target}") as progress:
            kb = open_source(target, options, progress)
            plan = retractable(kb, only, options["classes"])
        left = plan.left if is_dry or not (plan.fillings or plan.dropped) else take_out(plan)
    if options["as_json"]:
        screen.write_json(_summary_data(target, plan, left, is_dry))
    elif is_dry:
        fillings = plan.fillings
        screen.write_lines(f"{filling.id}  {show(filling.path)}  {value_text(filling.value)}" for filling in fillings)
    if not quiet and not options["as_json"]:
        for text in _summary_lines(target, plan, left, is_dry):
            say(text)
    context.exit(1 if left or kb.skipped else 0)


def _summary_lines(target: str, plan: Retractable, left: list[Placeless], is_dry: bool) -> Iterator[str]:
    """The lines of the summary."""
    for change in plan.changed[:MAX_SHOWN]:
        yield f"stays: {change.id} {show(change.path)} is {value_text(change.now)}, changed since kbdisk filled in {value_text(change.value)}"
    if len(plan.changed) > MAX_SHOWN:
        yield f"and {counted(len(plan.changed) - MAX_SHOWN, 'changed value stays', 'changed values stay')}"
    for id, path, reason in left[:MAX_SHOWN]:
        yield f"stays: {id} {show(path)} {reason}"
    if len(left) > MAX_SHOWN:
        yield f"and {counted(len(left) - MAX_SHOWN, 'value that kbdisk filled in stays', 'values that kbdisk filled in stay')}"
    values = counted(len(plan.fillings), "value", "values")
    if is_dry:
        yield f"nothing was changed: {values} of {target} would be taken out"
    else:
        yield f"took {values} out of {target}"


def _summary_data(target: str, plan: Retractable, left: list[Placeless], is_dry: bool) -> dict[str, Any]:
    return {
        "target": target,
        "retracted": 0 if is_dry else len(plan.fillings),
        "values": [
            {"id": filling.id, "path": show(filling.path), "value": encode(filling.value)} for filling in plan.fillings
        ],
        "changed": [
            {"id": change.id, "path": show(change.path), "value": encode(change.value), "now": encode(change.now)}
            for change in plan.changed
        ],
        "left": unwritten_data(left),
        "skipped": len(plan.kb.skipped),
    }
