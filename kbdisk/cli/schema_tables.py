"""Schemas, reasons and findings as tables that read well at 80 columns and use 120."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from kbdisk.cli.schemawords import constraints, kind_name, leaves
from kbdisk.cli.tables import UNNAMED, counted, printed, short_names, table_of
from kbdisk.entity import show

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from kbdisk.inspection import Findings, MisfitGroup, UnmatchedPath
    from kbdisk.schemas.infer import Inference
    from kbdisk.schemas.schema import Class, Schema

SHOWN = 20  # rows shown of what does not fit, without --all


def shown_schema(schema: Schema, name: str) -> str:
    """A schema as one table for each class."""
    count = sum(len(one.properties) for one in schema.classes.values())

    def show_it(console: Console) -> None:
        head = Text.assemble((schema.label or name, "bold"), f"  {counted(count, 'property', 'properties')}")
        if len(schema.classes) > 1:
            head.append(f" of {len(schema.classes)} classes")
        if schema.properties:
            head.append(f", {len(schema.properties)} shared")
        console.print(head)
        if schema.description:
            console.print(Text(schema.description, "dim"))
        for one in schema.classes.values():
            _class(console, one, len(schema.classes) > 1)
        _rules(console, schema)

    return printed(show_it)


def _rules(console: Console, schema: Schema, notes: Sequence[str] = ()) -> None:
    """The rules of a schema, with the known values that agree with each and those that do not."""
    if not schema.rules:
        return
    table = table_of("rule", ">agree", ">not", *["exceptions"] * bool(notes))
    for place, rule in enumerate(schema.rules):
        of = f" (of {rule.class_name or UNNAMED})" if rule.class_name is not None else ""
        note = [Text(notes[place].removeprefix("not of "))] if notes else []
        table.add_row(Text(rule.text + of, "green"), f"{rule.support:,}", f"{rule.exceptions:,}", *note)
    console.print()
    console.print(table)


def shown_reasons(found: Inference) -> str:
    """Each property with its kind, and why it is that kind; then what was left out."""

    def show_it(console: Console) -> None:
        for one in found.schema.classes.values():
            if len(found.schema.classes) > 1 or one.name:
                console.print(Text.assemble((one.name or UNNAMED, "bold cyan")))
            table = table_of("path", "kind", "why")
            table.columns[0].max_width = console.width * 2 // 5
            table.columns[1].max_width = max(12, console.width // 5)
            for path, told in one.properties.items():
                why = found.reasons.get((one.name, path), "")
                table.add_row(Text(show(path), "green"), Text(kind_name(told.kind)), Text(why))
            for (of, path), why in found.left_out.items():
                if of == one.name:
                    table.add_row(Text(show(path), "dim"), Text("left out", "dim"), Text(why))
            console.print(table)
            console.print()
        _rules(console, found.schema, found.rule_notes)

    return printed(show_it).rstrip("\n") + "\n"


def shown_findings(found: Findings, schema_name: str, everything: bool) -> str:
    """What does not fit, then what only one side knows."""

    def show_it(console: Console) -> None:
        console.print(_verdict(found, schema_name), soft_wrap=True)
        limit = None if everything else SHOWN
        several = len(found.classes) > 1
        if found.misfits:
            console.print()
            for trouble in found.misfits[:limit]:
                _trouble(console, trouble, several)
            _rest(console, len(found.misfits), limit, "kinds of misfit")
        _strays(console, "only in the schema", found.absent, several, limit)
        _strays(console, "only in the source", found.unknown, several, limit)
        _strange(console, found, limit)
        for error in found.skipped[:limit]:
            console.print(Text.assemble("\n", ("skipped", "red"), f"  {error}"), soft_wrap=True)

    return printed(show_it)


def shown_library(rows: Iterable[tuple[str, str, str]]) -> str:
    """The schemas that come with kbdisk."""

    def show_it(console: Console) -> None:
        table = table_of("name", "schema of", "classes")
        for name, label, classes in rows:
            table.add_row(Text(name, "green"), Text(label), Text(classes))
        console.print(table)

    return printed(show_it)


# ---------------------------------------------------------------- parts of them


def _class(console: Console, one: Class, several: bool) -> None:
    console.print()
    if several or one.name:
        told = [f"id: {show(one.id)}"] if one.id else []
        told += [one.iri] if one.iri else []
        console.print(Text.assemble((one.name or UNNAMED, "bold cyan"), "  " if told else "", ", ".join(told)))
    table = table_of("path", "kind", "what holds of it")
    table.columns[0].max_width = console.width * 2 // 5
    table.columns[1].max_width = max(14, console.width // 5)
    for path, told_of in one.properties.items():
        table.add_row(Text(show(path), "green"), Text(kind_name(told_of.kind)), Text(constraints(told_of)))
        parts = ", ".join(f"{leaf} {kind}" for leaf, kind in leaves(told_of).items())
        if parts:
            table.add_row("", "", Text(parts, "dim"))
    console.print(table)
    if one.constraints:
        console.print()
        table = table_of("constraint", "kind")
        for constraint in one.constraints:
            table.add_row(Text(constraint.text, "green"), Text(constraint.kind))
        console.print(table)


def _verdict(found: Findings, schema_name: str) -> Text:
    misfits = sum(trouble.count for trouble in found.misfits)
    entities = counted(sum(found.classes.values()), "entity", "entities")
    line = Text.assemble((found.source, "bold"), f"  {entities} against {schema_name}: ")
    if misfits:
        return line.append(f"{counted(misfits, 'misfit', 'misfits')}", "red")
    near = sum(1 for one in found.absent if one.near)
    if near:
        return line.append(f"{counted(near, 'path looks', 'paths look')} misspelt", "red")
    return line.append("all values fit", "green")


def _trouble(console: Console, trouble: MisfitGroup, several: bool) -> None:
    where = f"{trouble.of or UNNAMED}.{trouble.path}" if several else trouble.path
    console.print(Text.assemble((where, "green"), f"  {trouble.problem}  ", (f"{trouble.count:,}", "red")))
    for example in trouble.examples:
        said = example.problem.removeprefix(trouble.problem).removeprefix(", ")
        id = (
            "" if example.place.endswith(f" {example.id}") else f"  {example.id}"
        )  # it may be but the number of its row
        console.print(Text(f"    {example.place}{id}: {said or example.problem}"), soft_wrap=True)


def _strays(console: Console, head: str, strays: list[UnmatchedPath], several: bool, limit: int | None) -> None:
    if not strays:
        return
    console.print()
    counted, guessed = any(one.count for one in strays), any(one.near for one in strays)
    table = table_of(head, *[">entities"] * counted, *["nearest"] * guessed)
    for one in strays[:limit]:
        where = f"{one.of or UNNAMED}.{one.path}" if several else one.path
        table.add_row(Text(where, "green"), *[f"{one.count:,}"] * counted, *[Text(one.near or "", "red")] * guessed)
    console.print(table)
    _rest(console, len(strays), limit, "paths")


def _strange(console: Console, found: Findings, limit: int | None) -> None:
    if not found.strange:
        return
    names: dict[Any, str] = dict(short_names(found.strange))
    console.print()
    table = table_of("class that the schema does not know", ">entities")
    for name, count in found.strange.most_common(limit):
        table.add_row(Text(names[name], "cyan"), f"{count:,}")
    console.print(table)
    _rest(console, len(found.strange), limit, "classes")


def _rest(console: Console, count: int, limit: int | None, what: str) -> None:
    if limit is not None and count > limit:
        console.print(Text(f"and {count - limit:,} more {what}: --all shows them, --json has them", "dim"))
