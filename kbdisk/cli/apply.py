"""`kbdisk apply`: writes the decisions of a review, and remembers them."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from kbdisk.cli import screen
from kbdisk.cli.options import RECORDED, given_parameters, open_source, source_options, to_option
from kbdisk.cli.progress import show_reading
from kbdisk.cli.screen import say
from kbdisk.cli.summary import describe_backup, describe_target, unwritten_data, unwritten_lines
from kbdisk.cli.tables import counted
from kbdisk.errors import ConfigError, LoadError, WriteError
from kbdisk.loaders.files import refuse_in_place, refuse_long_names, refuse_unwritable, sidecar_of
from kbdisk.locks import locked

if TYPE_CHECKING:
    from kbdisk.completion.apply import Decisions
    from kbdisk.completion.review import Reviewed
    from kbdisk.loaders.kb import Report

MOVED = "expected its source {} there, got no such file. Say --source FILE, or put the review beside it again."


@click.command()
@click.argument("review")
@click.option("--out", metavar="TARGET", help="File to write.  [default: the target of kbdisk complete, if it had one]")
@click.option("--in-place", is_flag=True, help="Write into the source itself; the original is kept as SOURCE.before.")
@click.option("--source", metavar="FILE", help="The source of the review, if it was moved.")
@to_option
@click.option("--insert", is_flag=True, help="Also fill gaps inside anonymous [ ... ] of Turtle, in their place.")
@click.option("--force", is_flag=True, help="Replace TARGET where it exists.")
@source_options
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object on standard output.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar and no summary.")
@click.pass_context
def apply(context: click.RichContext, /, review: str, **options: Any) -> None:
    """Write the accepted and corrected values of REVIEW, and remember the rejected ones.

    REVIEW is a table that `kbdisk complete --review` wrote. Put accept or reject into its column decision, or another
    value into correction: a number, a date such as 1912-11-28, an amount with its unit, true or false, the id of an
    entity. Rows without either stay undecided. Written values are recorded in TARGET.provenance.jsonl, corrected ones count
    as given from then on. Answers are kept in SOURCE.reviewed.jsonl: a rejected value is never proposed again. Nothing is
    written where a row makes no sense, or where the source has changed since at the place of a row. Exits with status 1
    where a value has no place in TARGET.

    \b
    kbdisk complete kb.ttl --review review.csv
    kbdisk apply review.csv --out completed.ttl
    kbdisk apply review.csv --in-place
    """
    from kbdisk.completion import apply as applying
    from kbdisk.completion.review import read_review

    if options["classes"]:
        raise ConfigError("--class", "changes nothing here: REVIEW says which values are written. Leave it out.")
    reviewed, rows = read_review(review)
    source = _find_source(review, reviewed, options["source"])
    target = _choose_target(review, reviewed, source, options)
    _restore_options(context, review, reviewed, options)
    time = datetime.now(UTC).isoformat(timespec="seconds")
    report: Report | None = None
    with locked(source):
        with show_reading(options["quiet"], f"reading {source}") as progress:
            kb = open_source(source, options, progress)
            linked_ids = cache(partial(applying.linked_ids, kb))
            decisions = applying.decisions_of(review, rows, linked_ids)
            decisions = applying.refuse_changed_places(review, kb, decisions)
        if not decisions.writes:
            applying.remember(kb, decisions, time)
        else:
            _refuse_target(target, options, source)
            settings = {name: options[name] for name in ("insert", "force", "in_place")}
            report = applying.apply(kb, decisions, target, time, format=options["target_format"], **settings)
    _print_summary(source, target, decisions, report, options)
    context.exit(1 if kb.skipped or (report is not None and report.unwritable) else 0)


def _find_source(review: str, reviewed: Reviewed, named: str | None) -> str:
    """The source of a review: the one that --source names, else relative to the review, else to the working directory."""
    if named is not None:
        return named
    beside = os.path.normpath(os.path.join(os.path.dirname(review), reviewed.source))  # noqa: PTH118, PTH120 - odd names
    file = next((name for name in (beside, reviewed.source) if os.path.isfile(name)), None)  # noqa: PTH113
    if file is None:
        raise LoadError(review, MOVED.format(beside))
    return file


def _choose_target(review: str, reviewed: Reviewed, source: str, options: dict[str, Any]) -> str:
    """The file to write; empty where no option names one."""
    if options["in_place"]:
        if options["out"] is not None:
            raise ConfigError("--in-place", "writes into the source, and --out beside it. Leave one out.")
        return source
    if options["out"] is not None:
        return str(options["out"])
    folder = os.path.dirname(review)  # noqa: PTH120
    return os.path.normpath(os.path.join(folder, reviewed.target)) if reviewed.target else ""  # noqa: PTH118


def _restore_options(context: click.Context, review: str, reviewed: Reviewed, options: dict[str, Any]) -> None:
    """Set the options by which the source was read for the review, except those that the command line gives."""
    given = given_parameters(context)
    for name, value in reviewed.options.items():
        is_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
        has_type = is_list if isinstance(options.get(name), tuple) else isinstance(value, str | bool)
        if name not in RECORDED or not has_type:
            raise LoadError(
                review, f"expected options that kbdisk wrote, got {name!r}. Take the review as it was written."
            )
        if name not in given:
            options[name] = tuple(value) if isinstance(value, list) else value


def _refuse_target(target: str, options: dict[str, Any], source: str) -> None:
    """Refuse a target that cannot be written, before anything is."""
    if not target:
        raise click.UsageError("Missing option '--out'. Say where to write, or --in-place.")
    if options["as_json"] and target == "-":
        raise click.UsageError("--json and --out - both want standard output.")
    if target == "-":
        return
    refuse_long_names(target)
    refuse_unwritable(target)
    if options["in_place"]:
        refuse_in_place(target)
        return
    path = Path(target)
    if path.exists() and path.samefile(source):
        raise WriteError(target, "is the source itself. Say --in-place to change it.")
    for file in (path, sidecar_of(target)):
        if file.is_file() and not options["force"]:
            raise WriteError(str(file), "exists already. Say --force to replace it.")


def _print_summary(
    source: str, target: str, decisions: Decisions, report: Report | None, options: dict[str, Any]
) -> None:
    from kbdisk.completion.answers import ACCEPTED, CORRECTED, REJECTED, reviewed_of

    counts = {answer: decisions.count(answer) for answer in (ACCEPTED, CORRECTED, REJECTED)}
    unwritable = report.unwritable if report is not None else []
    if options["as_json"]:
        data = {
            "source": source,
            "target": target if report is not None else None,
            "written": report.written if report is not None else 0,
            "before": report.before if report is not None else None,
            **counts,
            "undecided": decisions.undecided,
            "unwritable": unwritten_data(unwritable),
        }
        screen.write_json(data)
        return
    if not options["quiet"]:
        outcome = ", ".join(f"{count:,} {answer}" for answer, count in counts.items() if count) or "nothing is new"
        if decisions.undecided:
            outcome += f"; {counted(decisions.undecided, 'row', 'rows')} undecided"
        if report is not None:
            say(f"wrote {describe_target(target)}: {outcome}{describe_backup(report.before)}")
        else:
            say(f"{outcome}: nothing to write")
        if sum(counts.values()):
            say(f"answers are remembered in {reviewed_of(source)}")
    for text in unwritten_lines(unwritable):
        say(text)
