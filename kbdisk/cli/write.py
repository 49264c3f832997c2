"""`kbdisk write`: a knowledge base in the same or another format, with new values."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import rich_click as click

from kbdisk.cli import screen
from kbdisk.cli.options import open_source, source_options, to_option
from kbdisk.cli.progress import show_reading
from kbdisk.cli.screen import say
from kbdisk.cli.summary import describe_backup, describe_target, unwritten_data, unwritten_lines
from kbdisk.cli.tables import counted
from kbdisk.entity import Completion, Entity, Filled, Path, read_path, show
from kbdisk.errors import ConfigError, LoadError
from kbdisk.loaders.files import refuse_long_names, refuse_odd, set_aside, sidecar_of, sidecars_of, writing
from kbdisk.locks import locked

if TYPE_CHECKING:
    from kbdisk.loaders import KB, Report

MAX_SKIPPED_SHOWN = 10


@click.command()
@click.argument("source")
@click.option("--out", metavar="TARGET", required=True, help="File to write, or - for standard output.")
@click.option(
    "--values",
    metavar="FILE",
    help='New values, JSON Lines: {"id": ..., "path": "launch.year", "value": 1999}. The id of an entity without one is its number, from 1; the header and blank lines do not count.',
)
@to_option
@click.option("--only-new", is_flag=True, help="Write the new values alone.")
@click.option("--insert", is_flag=True, help="Also fill gaps inside anonymous [ ... ] of Turtle, in their place.")
@click.option("--force", is_flag=True, help="Replace TARGET where it exists.")
@click.option("--in-place", is_flag=True, help="TARGET may be SOURCE itself; the original is kept as SOURCE.before.")
@source_options
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object on standard output.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar, and no summary where everything was written.")
@click.pass_context
def write(context: click.RichContext, /, source: str, as_json: bool, quiet: bool, **options: Any) -> None:
    """Write SOURCE to TARGET, with the new values of --values.

    In the same format every byte of SOURCE stays as it is, and new values are written as SOURCE writes
    such values; --class, and another format, write everything anew. Given values are never changed. Exits
    with status 1 where a value has no place in TARGET, or --skip-errors skipped something.

    \b
    kbdisk write kb.ttl --out kb.jsonl
    kbdisk write kb.ttl --values new.jsonl --out completed.ttl
    kbdisk write kb.ttl --values new.jsonl --only-new --out new.ru
    kbdisk write phones.csv --out - --to jsonl | head
    """
    from kbdisk.loaders.formats import WritePlan, format_of_target

    target, classes = options["out"], options["classes"]
    if as_json and target == "-":
        raise click.UsageError("--json and --out - both want standard output.")
    refuse_long_names(target)
    with contextlib.ExitStack() as locks:
        if options["in_place"] and os.path.isfile(target):  # noqa: PTH113 - Path.is_file raises for odd names
            locks.enter_context(locked(target))  # before it is read
        with show_reading(quiet, f"reading {source}") as progress:
            kb = open_source(source, options, progress)
            values = read_new_values(options["values"], kb) if options["values"] else []
            format = format_of_target(kb, target, options["target_format"])
            only_new = options["only_new"] or format == "quickstatements" or (format == "sparql-update" and kb.updates)
            has_sidecar = not only_new and not options["in_place"]
            sidecar = Sidecar.of(kb, target, format, classes) if has_sidecar else Sidecar([], target)
            items = _choose_items(kb, format, only_new, values, classes)
            settings = {name: options[name] for name in ("only_new", "insert")}
            plan = WritePlan.for_items(items, target, format=options["target_format"], **settings)
            beside = sidecar.write if sidecar.lines and target != "-" else None
            locks.enter_context(locked(target))
            report = plan.run(force=options["force"], in_place=options["in_place"], beside=beside)
            report.unwritable += _list_excluded(values, classes)
        backup = None if target == "-" or options["in_place"] else _set_old_sidecar_aside(target, sidecar)
    if as_json:
        screen.write_json(_summary_data(kb, target, report))
    elif not quiet or report.unwritable or kb.skipped:
        _print_summary(kb, target, report)
    if backup is not None:
        say(backup)
    if sidecar.lines and not quiet and not as_json:
        say(sidecar.describe())
    context.exit(1 if report.unwritable or kb.skipped else 0)


# ---------------------------------------------------------------- what is written


def _choose_items(
    kb: KB, format: str, only_new: bool, values: list[Completion], classes: tuple[str, ...]
) -> KB | Iterable[Entity | Completion]:
    """What is to be written: in the source's own format its completions alone, else every entity."""
    if only_new and not values:
        raise ConfigError("--only-new", "there are no new values. Say --values FILE.")
    wanted = [completion for completion in values if is_wanted(completion.entity, classes)]
    if only_new:
        return wanted
    if kb.keeps(format) and not classes:
        if not wanted and kb.keeps_bytes(format):
            deque(kb, maxlen=0)  # reading refuses what is malformed before it is copied
        return wanted or kb
    return _all_entities(kb, wanted, classes)


def _all_entities(kb: KB, values: list[Completion], classes: tuple[str, ...]) -> Iterator[Entity | Completion]:
    """Every entity of the wanted classes, with its new values."""
    from kbdisk.schemas.text.names import refuse_unmet

    completions, present = {completion.entity.id: completion for completion in values}, dict[str, None]()
    for entity in kb:
        present |= dict.fromkeys(entity.classes)
        if is_wanted(entity, classes):
            yield completions.get(entity.id, entity)
    refuse_unmet(kb.name, classes, present)


def is_wanted(entity: Entity, classes: tuple[str, ...]) -> bool:
    """Whether an entity is of one of the classes; without classes every entity is wanted."""
    from kbdisk.inspection import is_class

    return not classes or any(is_class(name, wanted) for name in entity.classes for wanted in classes)


def _list_excluded(values: list[Completion], classes: tuple[str, ...]) -> list[tuple[str, Path, str]]:
    """New values of entities that --class leaves out."""
    excluded = (completion for completion in values if not is_wanted(completion.entity, classes))
    reason = "is of none of the classes asked for"
    return [(completion.entity.id, path, reason) for completion in excluded for path in completion.filled]


# ---------------------------------------------------------------- the file of new values

FORM = '{"id": "...", "path": "launch.year", "value": 1999}'
MAX_EMPTY_PLACES = 1000  # of a list, between its last value and a new one

NewValues = dict[Path, tuple[int, Any]]  # path -> number of its line, value


def read_new_values(name: str, kb: KB) -> list[Completion]:
    """A completion for each entity with new values, in the order of the source, checked against the source."""
    by_id = _read_lines(name)
    completions: dict[str, Completion] = {}
    is_numbered = False
    for entity in kb:
        is_numbered = is_numbered or entity.nameless
        values = by_id.get(entity.id)
        if values is None:
            continue
        if entity.id in completions:
            line = next(iter(values.values()))[0]
            problem = f"{kb.name} has more than one entity {entity.id!r}. Say --id to tell them apart."
            raise LoadError(name, problem, line)
        completions[entity.id] = _complete_entity(name, entity, values)
    for id in by_id.keys() - completions.keys():
        line = next(iter(by_id[id].values()))[0]
        advice = "Entities without an id count from 1" if is_numbered else "See how ids look with: kbdisk inspect"
        raise LoadError(name, f"expected the id of an entity of {kb.name}, got {id!r}. {advice}.", line)
    return list(completions.values())


def _read_lines(name: str) -> dict[str, NewValues]:
    from kbdisk import loaders

    by_id: dict[str, NewValues] = {}
    for entity in loaders.load(name, format="jsonl"):
        line, tree = entity.position, entity.tree
        if tree.keys() != {"id", "path", "value"} or type(tree["path"]) is not str:
            raise LoadError(name, f"expected {FORM}, got the keys {', '.join(tree)}.", line)
        try:
            path = read_path(tree["path"])
        except ValueError as error:
            raise LoadError(name, f"{error}.", line) from None
        values = by_id.setdefault(entity.id, {})
        if path in values:
            problem = f"{show(path)} of {entity.id!r} has a value in line {values[path][0]} already. Leave one out."
            raise LoadError(name, problem, line)
        if tree["value"] is None or not path:
            raise LoadError(name, f"expected a {'path' if not path else 'value'}, got none. Leave the line out.", line)
        values[path] = (line, tree["value"])
    return by_id


def _complete_entity(name: str, entity: Entity, values: NewValues) -> Completion:
    completion = Completion(entity)
    _refuse_overlaps(name, entity, values)
    for path, (line, value) in values.items():
        _refuse_blocked_path(name, entity, path, line)
        completion.filled[path] = Filled(value)
    return completion


def _refuse_overlaps(name: str, entity: Entity, values: NewValues) -> None:
    """Refuse a path that leads through another new value, or into what is a list by one path and a part by another."""
    first: dict[Path, tuple[int, Path]] = {}  # a path that others lead through -> the first of these
    for path, (line, _) in values.items():
        for length in range(1, len(path)):
            other_line, other = first.setdefault(path[:length], (line, path))
            if path[:length] in values:
                other_line, other = values[path[:length]][0], path[:length]
            elif isinstance(path[length], int) is isinstance(other[length], int):
                continue
            problem = (
                f"{show(path)} of {entity.id!r} and {show(other)} in line {other_line} cannot both be. Leave one out."
            )
            raise LoadError(name, problem, line)


def _refuse_blocked_path(name: str, entity: Entity, path: Path, line: int) -> None:
    """Refuse a path that leads through something that is neither a part nor a list."""
    parent: Any = entity.tree
    for depth, key in enumerate(path):
        is_index = isinstance(key, int)
        fits = isinstance(parent, list if is_index else dict)
        if not fits:
            kind = "a list" if is_index else "a part"
            place = show(path[:depth]) or "the entity"
            problem = f"{show(path)}: expected {kind} at {place} of {entity.id!r}, got {parent!r}. Correct the path."
            raise LoadError(name, problem, line)
        if isinstance(key, int) and key > len(parent) + MAX_EMPTY_PLACES:
            raise LoadError(name, _describe_far_index(path, depth, len(parent)), line)
        try:
            parent = parent[key]
        except LookupError:  # is made when it is written
            parent = None
        if parent is None:
            _refuse_far_indices(name, path, depth + 1, line)
            return


def _refuse_far_indices(name: str, path: Path, start: int, line: int) -> None:
    """Refuse an index far behind the end of a list that does not exist yet."""
    for depth, key in enumerate(path[start:], start):
        if isinstance(key, int) and key > MAX_EMPTY_PLACES:
            raise LoadError(name, _describe_far_index(path, depth, 0), line)


def _describe_far_index(path: Path, depth: int, length: int) -> str:
    values = counted(length, "value", "values")
    place = show(path[:depth])
    return f"{show(path)}: expected an index near the end of {place}, which has {values}. Correct the path."


# ---------------------------------------------------------------- the sidecar of the target


class Sidecar:
    """The provenance of the values that kbdisk filled in in a source, for the file beside the target."""

    def __init__(self, lines: list[bytes], target: str) -> None:
        self.lines, self.target = lines, target
        self.backup: FilePath | None = None  # the sidecar of the file that was there before
        if lines and target != "-":
            refuse_odd(sidecar_of(target))

    @classmethod
    def of(cls, kb: KB, target: str, format: str, classes: tuple[str, ...]) -> Sidecar:
        """Of the wanted entities. A source without filled values is not read for it."""
        files = sidecars_of(str(kb.path)) if kb.path is not None else []
        if not files and not getattr(kb, "is_completed", False):
            return cls([], target)
        from kbdisk.completion.sidecar import CarriedRows, contested_keys, given_entities, with_renamed_keys

        carried = CarriedRows([kb], format, anew=bool(classes))
        wanted = (entity for entity in given_entities(kb) if is_wanted(entity, classes))
        lines = [line for entity in wanted for line in carried.of(entity)]
        return cls(list(with_renamed_keys(lines, contested_keys([kb], format, anew=bool(classes)))), target)

    def write(self, report: Report, stack: contextlib.ExitStack) -> None:
        """Write the sidecar; that of another file is set aside."""
        file = sidecar_of(self.target)
        with writing(file, several=stack) as stream:
            stream.writelines(self.lines)

        def set_old_aside(error: type[BaseException] | None, *rest: object) -> None:
            if error is None and file.is_file():
                self.backup = set_aside(file)

        stack.push(set_old_aside)

    def describe(self) -> str:
        """A line about where the provenance is, or that it is lost."""
        values = f"{counted(len(self.lines), 'value', 'values')} that kbdisk filled in"
        if self.target == "-":
            return f"{values}: standard output does not tell them from given ones. Write to a file to keep them apart."
        return f"{values}: their provenance is in {sidecar_of(self.target)}"


def _set_old_sidecar_aside(target: str, sidecar: Sidecar) -> str | None:
    """A line about the sidecar of another file of the target's name, which is set aside; None where there is none."""
    file = sidecar_of(target)
    if not sidecar.lines:
        sidecar.backup = set_aside(file) if file.is_file() else None
    if sidecar.backup is None:
        return None
    return f"{file} belonged to the file that was there before: it is now {sidecar.backup}"


# ---------------------------------------------------------------- the summary


def _summary_data(kb: KB, target: str, report: Report) -> dict[str, Any]:
    return {
        "source": kb.name,
        "target": target,
        "written": report.written,
        "before": report.before,
        "unwritable": unwritten_data(report.unwritable),
        "skipped": len(kb.skipped),
    }


def _print_summary(kb: KB, target: str, report: Report) -> None:
    """The summary, on standard error: standard output may be the target."""
    values = f", {counted(report.written, 'new value', 'new values')}" if report.written else ""
    say(f"wrote {describe_target(target)}{values}{describe_backup(report.before)}")
    for text in unwritten_lines(report.unwritable):
        say(text)
    for error in kb.skipped[:MAX_SKIPPED_SHOWN]:
        say(f"skipped {error}")
    if len(kb.skipped) > MAX_SKIPPED_SHOWN:
        say(f"and {len(kb.skipped) - MAX_SKIPPED_SHOWN:,} more")
