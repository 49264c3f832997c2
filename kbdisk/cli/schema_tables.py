"""Schemas, reasons and findings as tables that fit 80 columns and use 120; a property in few words."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from kbdisk.cli.tables import UNNAMED, build_table, counted, render, short_names, show_rest
from kbdisk.entity import Path, show
from kbdisk.schemas import kinds
from kbdisk.schemas.composites import EACH, kind_name, leaves_of, show_pattern
from kbdisk.schemas.composites.base import Kind
from kbdisk.schemas.composites.date import NUMBERS, Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import VALUE, Quantity
from kbdisk.schemas.kinds import Category, Link, Number, Set
from kbdisk.schemas.property import Property

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kbdisk.inspection import Findings, MisfitGroup, UnmatchedPath
    from kbdisk.schemas.infer import Inference
    from kbdisk.schemas.schema import Class, Schema

MAX_FINDINGS_SHOWN = 20  # without --all
MAX_LABELS_SHOWN = 4
MAX_LABEL_LENGTH = 24

# ---------------------------------------------------------------- a schema


def render_schema(schema: Schema, name: str) -> str:
    """A schema as one table for each class."""
    count = sum(len(class_.properties) for class_ in schema.classes.values())

    def show_schema(console: Console) -> None:
        head = Text.assemble((schema.label or name, "bold"), f"  {counted(count, 'property', 'properties')}")
        if len(schema.classes) > 1:
            head.append(f" of {len(schema.classes)} classes")
        if schema.properties:
            head.append(f", {len(schema.properties)} shared")
        console.print(head)
        if schema.description:
            console.print(Text(schema.description, "dim"))
        for class_ in schema.classes.values():
            _show_class(console, class_, len(schema.classes) > 1)
        _show_rules(console, schema)

    return render(show_schema)


def _show_class(console: Console, class_: Class, has_others: bool) -> None:
    console.print()
    if has_others or class_.name:
        facts = [f"id: {show(class_.id)}"] if class_.id else []
        facts += [class_.iri] if class_.iri else []
        name = class_.name or UNNAMED
        console.print(Text.assemble((name, "bold cyan"), "  " if facts else "", ", ".join(facts)))
    table = build_table("path", "kind", "details")
    table.columns[0].max_width = console.width * 2 // 5
    table.columns[1].max_width = max(14, console.width // 5)
    for path, property_ in class_.properties.items():
        kind = Text(kind_name(property_.kind))
        table.add_row(Text(show(path), "green"), kind, Text(property_text(property_)))
        parts = ", ".join(f"{leaf} {kind}" for leaf, kind in leaf_kinds(property_).items())
        if parts:
            table.add_row("", "", Text(parts, "dim"))
    console.print(table)
    if class_.constraints:
        console.print()
        table = build_table("constraint", "kind")
        for constraint in class_.constraints:
            table.add_row(Text(constraint.text, "green"), Text(constraint.kind))
        console.print(table)


def _show_rules(console: Console, schema: Schema, notes: Sequence[str] = ()) -> None:
    """The rules of a schema, with the numbers of known values that agree with each and that do not."""
    if not schema.rules:
        return
    table = build_table("rule", ">agree", ">not", *["exceptions"] * bool(notes))
    for index, rule in enumerate(schema.rules):
        class_name = f" (of {rule.class_name or UNNAMED})" if rule.class_name is not None else ""
        note = [Text(notes[index].removeprefix("not of "))] if notes else []
        table.add_row(Text(rule.text + class_name, "green"), f"{rule.support:,}", f"{rule.exceptions:,}", *note)
    console.print()
    console.print(table)


def render_reasons(inference: Inference) -> str:
    """Each property with its kind and the reason for it; then what was left out."""

    def show_reasons(console: Console) -> None:
        schema = inference.schema
        for class_ in schema.classes.values():
            if len(schema.classes) > 1 or class_.name:
                console.print(Text.assemble((class_.name or UNNAMED, "bold cyan")))
            table = build_table("path", "kind", "why")
            table.columns[0].max_width = console.width * 2 // 5
            table.columns[1].max_width = max(12, console.width // 5)
            for path, property_ in class_.properties.items():
                reason = inference.reasons.get((class_.name, path), "")
                table.add_row(Text(show(path), "green"), Text(kind_name(property_.kind)), Text(reason))
            for (class_name, path), reason in inference.left_out.items():
                if class_name == class_.name:
                    table.add_row(Text(show(path), "dim"), Text("left out", "dim"), Text(reason))
            console.print(table)
            console.print()
        _show_rules(console, schema, inference.rule_notes)

    return render(show_reasons).rstrip("\n") + "\n"


def render_library(rows: Iterable[tuple[str, str, str]]) -> str:
    """The schemas that come with kbdisk."""

    def show_library(console: Console) -> None:
        table = build_table("name", "schema of", "classes")
        for name, label, classes in rows:
            table.add_row(Text(name, "green"), Text(label), Text(classes))
        console.print(table)

    return render(show_library)


# ---------------------------------------------------------------- what does not fit a schema


def render_findings(findings: Findings, schema_name: str, everything: bool) -> str:
    """The values that do not fit, then the paths and classes that only one side has."""

    def show_findings(console: Console) -> None:
        console.print(_verdict(findings, schema_name), soft_wrap=True)
        limit = None if everything else MAX_FINDINGS_SHOWN
        has_classes = len(findings.classes) > 1
        if findings.misfits:
            console.print()
            for misfit in findings.misfits[:limit]:
                _show_misfit(console, misfit, has_classes)
            show_rest(console, len(findings.misfits), limit, "kinds of misfit")
        _show_unmatched(console, "only in the schema", findings.absent, has_classes, limit)
        _show_unmatched(console, "only in the source", findings.unknown, has_classes, limit)
        _show_unknown_classes(console, findings, limit)
        for error in findings.skipped[:limit]:
            console.print(Text.assemble("\n", ("skipped", "red"), f"  {error}"), soft_wrap=True)

    return render(show_findings)


def _verdict(findings: Findings, schema_name: str) -> Text:
    misfits = sum(misfit.count for misfit in findings.misfits)
    entities = counted(sum(findings.classes.values()), "entity", "entities")
    line = Text.assemble((findings.source, "bold"), f"  {entities} against {schema_name}: ")
    if misfits:
        return line.append(f"{counted(misfits, 'misfit', 'misfits')}", "red")
    misspelt = sum(1 for path in findings.absent if path.near)
    if misspelt:
        return line.append(f"{counted(misspelt, 'path looks', 'paths look')} misspelt", "red")
    return line.append("all values fit", "green")


def _show_misfit(console: Console, misfit: MisfitGroup, has_classes: bool) -> None:
    where = f"{misfit.of or UNNAMED}.{misfit.path}" if has_classes else misfit.path
    console.print(Text.assemble((where, "green"), f"  {misfit.problem}  ", (f"{misfit.count:,}", "red")))
    for example in misfit.examples:
        value = example.problem.removeprefix(misfit.problem).removeprefix(", ")
        is_row_number = example.place.endswith(f" {example.id}")
        id = "" if is_row_number else f"  {example.id}"
        console.print(Text(f"    {example.place}{id}: {value or example.problem}"), soft_wrap=True)


def _show_unmatched(
    console: Console, head: str, unmatched: list[UnmatchedPath], has_classes: bool, limit: int | None
) -> None:
    """The paths that only the schema, or only the source, has."""
    if not unmatched:
        return
    console.print()
    has_counts, has_guesses = any(path.count for path in unmatched), any(path.near for path in unmatched)
    table = build_table(head, *[">entities"] * has_counts, *["nearest"] * has_guesses)
    for path in unmatched[:limit]:
        where = f"{path.of or UNNAMED}.{path.path}" if has_classes else path.path
        nearest = [Text(path.near or "", "red")] * has_guesses
        table.add_row(Text(where, "green"), *[f"{path.count:,}"] * has_counts, *nearest)
    console.print(table)
    show_rest(console, len(unmatched), limit, "paths")


def _show_unknown_classes(console: Console, findings: Findings, limit: int | None) -> None:
    if not findings.strange:
        return
    names: dict[Any, str] = dict(short_names(findings.strange))
    console.print()
    table = build_table("class that the schema does not know", ">entities")
    for name, count in findings.strange.most_common(limit):
        table.add_row(Text(names[name], "cyan"), f"{count:,}")
    console.print(table)
    show_rest(console, len(findings.strange), limit, "classes")


# ---------------------------------------------------------------- a property in few words


def property_text(property_: Property) -> str:
    """The restrictions on a property, and its role."""
    return ", ".join([*_kind_words(property_.kind), *_property_words(property_)])


def leaf_kinds(property_: Property) -> dict[str, str]:
    """The leaves of a composite by their paths within it; empty for a leaf itself, and for a number with a unit alone."""
    leaves: dict[Path, Kind] = {} if property_.role == "ignore" else dict(leaves_of((), property_.kind))
    return {_dotted(path): kind_name(kind) for path, kind in leaves.items() if path and leaves.keys() != {VALUE}}


def _dotted(path: Path) -> str:
    text = show_pattern(path)
    return text if path[0] == EACH else f".{text}"


def _kind_words(kind: Kind) -> Iterator[str]:
    match kind:
        case Number():
            yield from _number_words(kind)
        case Category():
            yield from _label_words(kind)
        case kinds.Text():
            yield from _text_words(kind)
        case Date():
            yield from [f"{kind.order}"] if kind.order != "iso" else []
            yield from [" ".join(kind.parts)] if kind.parts != NUMBERS else []
            yield from _bounds(kind.minimum, kind.maximum, "g")
            yield from ["decades and centuries as such"] if kind.coarse else []
        case Link(to):
            yield from [f"to {to}"] if to else []
            yield from [f"{len(kind.values):,} of them"] if kind.values else []
        case Set():
            yield from _kind_words(kind.of)
            yield from [f"at most {kind.most:,}"] if kind.most is not None else []
        case Quantity():
            others = [f"{unit} ({'?' if factor is None else f'{factor:g}'})" for unit, factor in kind.factors.items()]
            yield from [", ".join(["in " + (kind.unit or "no unit"), *others])]
            yield from ["or any unit"] if kind.any_unit else []
            yield from ["turned into " + str(kind.unit)] if kind.normal else []
            yield from ["decimal commas"] if kind.comma else []
            yield from _number_words(kind.value)
        case Listed(fields, most) | Mapped(fields=fields, most=most):
            yield from _kind_words(fields[""]) if "" in fields else ["of " + ", ".join(fields)]
            yield from [f"at most {most:,}"] if most is not None else []
        case _:
            yield from _field_words(kind)


def _number_words(kind: Number) -> Iterator[str]:
    if kind.integer:
        yield "whole"
    yield from _bounds(kind.minimum, kind.maximum)
    yield from [f"above {kind.above:,g}"] if kind.above is not None else []
    yield from [f"below {kind.below:,g}"] if kind.below is not None else []
    yield from [counted(kind.decimals, "decimal", "decimals")] if kind.decimals is not None else []
    yield from [f"scale: {kind.transform}"] if kind.transform != "auto" else []


def _bounds(low: float | None, high: float | None, form: str = ",g") -> Iterator[str]:
    if low is not None or high is not None:
        bounds = [("from", low), ("to", high)]
        yield " ".join(f"{word} {format(bound, form)}" for word, bound in bounds if bound is not None)


def _text_words(kind: kinds.Text) -> Iterator[str]:
    yield from [f"in {kind.language}" if kind.language else "in no language"] if kind.language is not None else []
    low, high = kind.min_length, kind.max_length
    if high is not None:
        yield counted(high, "character", "characters") if low == high else f"{low} to {high} characters"
    elif low:
        yield f"at least {counted(low, 'character', 'characters')}"


def _label_words(kind: Category) -> Iterator[str]:
    if kind.values:
        more = f", … ({len(kind.values):,})" if len(kind.values) > MAX_LABELS_SHOWN else ""
        sign = " < " if kind.ordered else " | " if kind.closed else ", "
        yield sign.join(map(_label_text, kind.values[:MAX_LABELS_SHOWN])) + more
        if not kind.closed:
            yield "or others"


def _label_text(label: Any) -> str:
    text = str(label).lower() if isinstance(label, bool) else str(label)
    return text if len(text) <= MAX_LABEL_LENGTH else text[: MAX_LABEL_LENGTH - 1] + "…"


def _field_words(kind: Kind) -> Iterator[str]:
    """The fields of a dataclass that differ from their defaults, also of a kind from outside this package."""
    for field in dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ():
        value = getattr(kind, field.name)
        if value != field.default and value is not None:
            text = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
            name = field.name.replace("_", " ")
            yield name if value is True else f"{name} {text}"


def _property_words(property_: Property) -> Iterator[str]:
    roles = {"given": "given: never predicted", "ignore": "ignored"}
    yield from [roles[property_.role]] if property_.role != "value" else []
    yield from (name for name in ("required", "unique") if getattr(property_, name))
    yield from [f"of several: {property_.many}"] if property_.many else []
    yield from [f"missing: {' '.join(map(repr, property_.missing))}"] if property_.missing else []
    yield from [f"no value: {' '.join(map(repr, property_.novalue))}"] if property_.novalue else []
    yield from [f"= {property_.formula.text}"] if property_.formula else []
    yield from [f"depends on {' and '.join(map(show, property_.depends))}"] if property_.depends else []
