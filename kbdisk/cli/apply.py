"""`kbdisk apply`: what people decided in a review, written and remembered."""

from __future__ import annotations

import os
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from kbdisk.cli import placeless
from kbdisk.cli.screen import say
from kbdisk.cli.sources import open_source, source_options, watching
from kbdisk.errors import ConfigError, LoadError, WriteError
from kbdisk.jsonio import dump_json
from kbdisk.loaders.files import refuse_in_place, refuse_long_names, refuse_unwritable, sidecar_of, standard_output
from kbdisk.locks import locked

if TYPE_CHECKING:
    from kbdisk.completion.apply import Decisions
    from kbdisk.completion.review import Reviewed
    from kbdisk.loaders.kb import Report

MOVED = (
    "expected {} there, which the review is of, got no such file. Say --source FILE, or put the review beside it again."
)


@click.command()
@click.argument("review")
@click.option("--out", metavar="TARGET", help="File to write.  [default: that of kbdisk complete, if it had one]")
@click.option(
    "--in-place", is_flag=True, help="Write into the source itself, which is kept as it was as SOURCE.before."
)
@click.option("--source", metavar="FILE", help="The file that the review is of, where it was moved.")
@click.option("--from", "origin", metavar="FORMAT", help="Format of the source where its name does not tell.")
@click.option("--format", metavar="FORMAT", help="Format of TARGET where its name does not tell.")
@click.option("--insert", is_flag=True, help="Also fill gaps inside anonymous [ ... ] of Turtle, in their place.")
@click.option("--force", is_flag=True, help="Replace TARGET where it exists.")
@source_options
@click.option("--json", "as_json", is_flag=True, help="The summary as one JSON object on standard output.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar and no summary.")
@click.pass_context
def apply(context: click.RichContext, /, review: str, **options: Any) -> None:
    """Write what was accepted or corrected in REVIEW, and remember what was rejected.

    REVIEW is a table that `kbdisk complete --review` wrote. Put accept or reject into its column decision, or another
    value into correction: a number, a date such as 1912-11-28, an amount with its unit, true or false, the id of an
    entity. Rows without either stay undecided. Written values are recorded in TARGET.provenance.jsonl, corrected ones count
    as given from then on. Answers are kept in SOURCE.reviewed.jsonl: a rejected value is never proposed again. Nothing is
    written where a row makes no sense, or where the source has changed in its place since. Exits with status 1 where a
    value found no place in TARGET.

    \b
    kbdisk complete kb.ttl --review review.csv
    kbdisk apply review.csv --out completed.ttl
    kbdisk apply review.csv --in-place
    """
    from kbdisk.completion import apply as applying
    from kbdisk.completion.review import read_review

    if options["classes"]:
        raise ConfigError("--class", "changes nothing here: REVIEW says which values are written. Leave it out.")
    about, rows = read_review(review)
    source = _source(review, about, options["source"])
    target = _target(review, about, source, options)
    _read_as_reviewed(context, review, about, options)
    time = datetime.now(UTC).isoformat(timespec="seconds")
    report: Report | None = None
    with ExitStack() as several:
        several.enter_context(locked(source))
        with watching(options["quiet"], f"reading {source}") as progress:
            kb = open_source(source, options["origin"], options, progress)
            ids: dict[str, set[str]] = {}
            decisions = applying.decisions_of(
                review, rows, lambda: ids.get("") or ids.setdefault("", applying.linked_ids(kb))
            )
            decisions = applying.refuse_changed_places(review, kb, decisions)
        if not decisions.writes:
            applying.remember(kb, decisions, time)
        else:
            _refuse_target(target, options, source)
            names = ("format", "insert", "force", "in_place")
            report = applying.apply(kb, decisions, target, time, **{name: options[name] for name in names})
    _tell(source, target, decisions, report, options)
    context.exit(1 if kb.skipped or (report is not None and report.unwritable) else 0)


def _source(review: str, about: Reviewed, named: str | None) -> str:
    """The file that a review is of: the one that --source names, else from the folder of the review, else from here."""
    if named is not None:
        return named
    beside = os.path.normpath(os.path.join(os.path.dirname(review), about.source))  # noqa: PTH118, PTH120 - odd names
    file = next((name for name in (beside, about.source) if os.path.isfile(name)), None)  # noqa: PTH113
    if file is None:
        raise LoadError(review, MOVED.format(beside))
    return file


def _target(review: str, about: Reviewed, source: str, options: dict[str, Any]) -> str:
    """Where to write; nothing where nobody says."""
    if options["in_place"]:
        if options["out"] is not None:
            raise ConfigError("--in-place", "writes into the source, and --out beside it. Leave one out.")
        return source
    if options["out"] is not None:
        return str(options["out"])
    folder = os.path.dirname(review)  # noqa: PTH120
    return os.path.normpath(os.path.join(folder, about.target)) if about.target else ""  # noqa: PTH118


def _read_as_reviewed(context: click.Context, review: str, about: Reviewed, options: dict[str, Any]) -> None:
    """Read the source as it was read for the review, but for what the command line says."""
    from kbdisk.cli.idle import RECORDED, on_command_line

    on_line = on_command_line(context)
    for name, value in about.options.items():
        usual = options.get(name)
        is_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
        if name not in RECORDED or not (is_list if isinstance(usual, tuple) else isinstance(value, str | bool)):
            raise LoadError(
                review, f"expected options that kbdisk wrote, got {name!r}. Take the review as it was written."
            )
        if name not in on_line:
            options[name] = tuple(value) if isinstance(value, list) else value


def _refuse_target(target: str, options: dict[str, Any], source: str) -> None:
    """A target that cannot be, before anything is written."""
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
    place = Path(target)
    if place.exists() and place.samefile(source):
        raise WriteError(target, "is the source itself. Say --in-place to change it.")
    for file in (place, sidecar_of(target)):
        if file.is_file() and not options["force"]:
            raise WriteError(str(file), "exists already. Say --force to replace it.")


def _tell(source: str, target: str, decisions: Decisions, report: Report | None, options: dict[str, Any]) -> None:
    """The summary."""
    from kbdisk.cli.completed import as_it_was
    from kbdisk.cli.tables import counted
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
            "unwritable": placeless.as_data(unwritable),
        }
        with standard_output() as stream:
            stream.write(dump_json(data))
        return
    if not options["quiet"]:
        outcome = ", ".join(f"{count:,} {answer}" for answer, count in counts.items() if count)
        outcome = outcome or "nothing is new"
        if decisions.undecided:
            outcome += f"; {counted(decisions.undecided, 'row', 'rows')} undecided"
        where = "standard output" if target == "-" else target
        say(
            f"wrote {where}: {outcome}{as_it_was(report.before)}"
            if report is not None
            else f"{outcome}: nothing to write"
        )
        if sum(counts.values()):
            say(f"answers are remembered in {reviewed_of(source)}")
    for text in placeless.lines(unwritable):
        say(text)
