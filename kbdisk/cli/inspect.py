"""`kbdisk inspect`: what a knowledge base holds, as tables or as one JSON object."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import rich_click as click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kbdisk.cli import screen
from kbdisk.cli.options import open_source, source_options
from kbdisk.cli.progress import show_reading
from kbdisk.cli.tables import (
    build_table,
    counted,
    given_number_text,
    render,
    short_names,
    show_rest,
    value_text,
    whole_percent,
)
from kbdisk.entity import Link
from kbdisk.errors import KBDiskWarning
from kbdisk.inspection import MAX_DISTINCT, shown_path
from kbdisk.schemas.text.names import last_word

if TYPE_CHECKING:
    from kbdisk.inspection import ClassFacts, Edge, Inspection, Names, PathFacts

# Rows that are shown without --all.
MAX_CLASSES_SHOWN, MAX_PATHS_SHOWN, MAX_EDGES_SHOWN, MAX_GRAPHS_SHOWN = 12, 40, 20, 10


@click.command()
@click.argument("source")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object instead of tables, with all paths and full names."
)
@source_options
@click.option(
    "--examples",
    metavar="N",
    type=click.IntRange(0, 100),
    default=3,
    show_default=True,
    help="Number of example values of each path.",
)
@click.option("--all", "everything", is_flag=True, help="Show every class and every path.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
@click.pass_context
def inspect(
    context: click.RichContext,
    /,
    source: str,
    as_json: bool,
    examples: int,
    everything: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Show what is in SOURCE: classes, paths, how full they are, and links.

    SOURCE is a file (.gz, .bz2 and .zst too), - for standard input, or the address of a SPARQL endpoint.
    Exits with status 1 where --skip-errors skipped something.

    \b
    kbdisk inspect kb.ttl
    kbdisk inspect phones.jsonl --id meta.id --json | jq .classes
    kbdisk inspect dump.nt.gz --class City --examples 5
    zcat table.csv.gz | kbdisk inspect - --from csv
    """  # fmt: skip
    from kbdisk.inspection import inspect as inspect_kb

    with warnings.catch_warnings(), show_reading(quiet, f"reading {source}") as progress:
        warnings.simplefilter("ignore", KBDiskWarning)  # the result has each, counted and with its places
        kb = open_source(source, options, progress)
        inspection = inspect_kb(kb, examples=examples, classes=options["classes"])
    if as_json:
        screen.write_json(inspection_data(inspection))
    else:
        screen.show(render(lambda console: _show(console, inspection, everything)))
    context.exit(1 if inspection.skips else 0)


# ---------------------------------------------------------------- as JSON


def inspection_data(inspection: Inspection) -> dict[str, Any]:
    """An inspection as plain data. A class without a name is null, and so is a link's target outside the source."""
    return {
        "source": inspection.name,
        "format": inspection.format,
        "entities": inspection.entities,
        "labelled": inspection.labelled,
        "numbered": inspection.identifiers.numbered,
        "would_name": inspection.identifiers.best,
        "classes": [_class_data(facts) for facts in inspection.classes.values()],
        "links": [
            {
                "class": edge.origin or None,
                "path": edge.path,
                "to": edge.target or None,
                "outside": edge.target is None,
                "links": edge.links,
            }
            for edge in inspection.edges
        ],
        "graphs": dict(inspection.graphs),
        "odd": [{"what": what, "count": count, "places": places} for what, (count, places) in inspection.odd.items()],
        "skipped": {"count": inspection.skips, "first": inspection.skipped},
    }


def _class_data(facts: ClassFacts) -> dict[str, Any]:
    return {
        "class": facts.name or None,
        "entities": facts.entities,
        "labelled": facts.labelled,
        "paths": [_path_data(names, path, facts.entities) for names, path in facts.paths.items()],
    }


def _path_data(names: Names, path: PathFacts, entities: int) -> dict[str, Any]:
    from kbdisk.loaders.values.tagged_json import encode

    return {
        "path": shown_path(names, path),
        "filled": path.filled,
        "fill_rate": round(path.filled / entities, 6),
        "asked": path.asked,
        "made": path.made,
        "values": path.values,
        "many": path.many,
        "most": path.most,
        "kinds": dict(path.kinds),
        "distinct": path.distinct,  # null: more than are counted
        "units": dict(path.units),
        "languages": dict(path.languages),
        "min": encode(path.low),
        "max": encode(path.high),
        "years": path.years,
        "examples": [encode(value) for value in path.examples],
    }


# ---------------------------------------------------------------- as tables


def _show(console: Console, inspection: Inspection, everything: bool) -> None:
    names = short_names({*inspection.classes, *(edge.target for edge in inspection.edges if edge.target)})
    _show_head(console, inspection)
    classes = sorted(inspection.classes.values(), key=lambda facts: -facts.entities)
    limit = None if everything else MAX_CLASSES_SHOWN
    for facts in classes[:limit]:
        _show_class(console, facts, names[facts.name], inspection, everything)
    show_rest(console, len(classes), limit, "classes")
    _show_edges(console, inspection.edges, names, None if everything else MAX_EDGES_SHOWN)
    _show_graphs(console, inspection, None if everything else MAX_GRAPHS_SHOWN)
    _show_problems(console, inspection)


def _show_head(console: Console, inspection: Inspection) -> None:
    entities = counted(inspection.entities, "entity", "entities")
    line = Text.assemble((inspection.name, "bold"), f"  {inspection.format}, {entities}")
    if inspection.labelled:
        line.append(f", {whole_percent(inspection.labelled, inspection.entities)} labelled")
    if len(inspection.classes) > 1:
        line.append(f", {len(inspection.classes)} classes")
    console.print(line, soft_wrap=True)
    if inspection.identifiers.hint is not None:
        console.print(Text(inspection.identifiers.hint, "dim"), soft_wrap=True)


def _show_class(console: Console, facts: ClassFacts, name: str, inspection: Inspection, everything: bool) -> None:
    console.print()
    if len(inspection.classes) > 1 or facts.name:
        line = Text.assemble((name, "bold cyan"), f"  {counted(facts.entities, 'entity', 'entities')}")
        if facts.labelled != facts.entities and inspection.labelled:
            line.append(f", {whole_percent(facts.labelled, facts.entities)} labelled")
        console.print(line)
    paths = [(shown_path(names, path), path) for names, path in facts.paths.items()]
    limit = None if everything else MAX_PATHS_SHOWN
    console.print(_build_path_table(paths[:limit], facts.entities, console.width))
    show_rest(console, len(paths), limit, "paths")


def _build_path_table(paths: list[tuple[str, PathFacts]], entities: int, width: int) -> Table:
    has_asked, has_made = any(path.asked for _, path in paths), any(path.made for _, path in paths)
    counts = [*[">asked"] * has_asked, *[">made"] * has_made]
    table = build_table("path", ">filled", *counts, "kind", ">distinct", "values")
    kinds = [_kinds_text(path) for _, path in paths]
    table.columns[0].width = min(max([4, *(len(text) for text, _ in paths)]), width * 2 // 5)
    table.columns[-3].width = min(max([4, *map(len, kinds)]), width // 4)
    for (text, path), kind in zip(paths, kinds, strict=True):
        cells: list[Text | str] = [Text(text, "green"), whole_percent(path.filled, entities)]
        cells += [f"{path.asked:,}" if path.asked else ""] * has_asked
        cells += [f"{path.made:,}" if path.made else ""] * has_made
        distinct = f"{MAX_DISTINCT:,}+" if path.distinct is None else f"{path.distinct:,}" if path.values else ""
        values = Text(_values_text(path), overflow="ellipsis", no_wrap=True)
        table.add_row(*cells, Text(kind), distinct, values)
    return table


def _kinds_text(path: PathFacts) -> str:
    """The kinds of value, most frequent first, the others with their counts."""
    kinds = path.kinds.most_common()
    if not kinds:
        return "no value"
    text = ", ".join([kinds[0][0], *(f"{kind} ({count:,})" for kind, count in kinds[1:])])
    return f"{text}, up to {path.most:,}" if path.most > 1 else text


def _values_text(path: PathFacts) -> str:
    """The range of the values, or else examples."""
    units = list(path.units)
    if path.low is not None and path.high is not None and len(units) <= 1 and path.low != path.high:
        unit = f" {units[0]}" if units else ""
        return f"{given_number_text(path.low)} … {given_number_text(path.high)}{unit}"
    if path.years and path.years[0] != path.years[1]:
        return f"{path.years[0]} … {path.years[1]}"
    return ", ".join(last_word(value.id) if isinstance(value, Link) else value_text(value) for value in path.examples)


def _show_edges(console: Console, edges: list[Edge], names: dict[str | None, str], limit: int | None) -> None:
    if not edges:
        return
    console.print()
    table = build_table("from", "path", "to", ">links")
    for edge in edges[:limit]:
        target = Text(names[edge.target])
        table.add_row(Text(names[edge.origin], "cyan"), Text(edge.path, "green"), target, f"{edge.links:,}")
    console.print(table)
    show_rest(console, len(edges), limit, "kinds of link")


def _show_graphs(console: Console, inspection: Inspection, limit: int | None) -> None:
    if not inspection.graphs:
        return
    console.print()
    table = build_table("named graph", ">entities")
    for name, count in inspection.graphs.most_common(limit):
        table.add_row(Text(name), f"{count:,}")
    console.print(table)
    show_rest(console, len(inspection.graphs), limit, "named graphs")


def _show_problems(console: Console, inspection: Inspection) -> None:
    for what, (count, places) in inspection.odd.items():
        more = ", …" if count > len(places) else ""
        line = Text.assemble("\n", ("odd", "yellow"), f"  {what}: {count:,} ({', '.join(places)}{more})")
        console.print(line, soft_wrap=True)
    if inspection.skips:
        console.print(Text.assemble("\n", ("skipped", "red"), f"  {inspection.skips:,}"))
        for error in inspection.skipped:
            console.print(Text(f"  {error}"), soft_wrap=True)
