"""`kbdisk inspect`: what a knowledge base holds, as tables or as one JSON object."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

import rich_click as click

from kbdisk.cli.sources import open_source, source_options, watching
from kbdisk.errors import KBDiskWarning
from kbdisk.jsonio import dump_json
from kbdisk.loaders.files import standard_output

if TYPE_CHECKING:
    from kbdisk.inspection import ClassFacts, Inspection, Names, PathFacts


@click.command()
@click.argument("source")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables; all paths, whole names.")
@click.option("--format", metavar="FORMAT", help="Format of SOURCE where its name does not tell.")
@source_options
@click.option(
    "--examples",
    metavar="N",
    type=click.IntRange(0, 100),
    default=3,
    show_default=True,
    help="Values shown of each path.",
)
@click.option("--all", "everything", is_flag=True, help="Every class and every path, however many.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
@click.pass_context
def inspect(
    context: click.RichContext,
    /,
    source: str,
    as_json: bool,
    format: str | None,
    examples: int,
    everything: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Tell what is in SOURCE: classes, paths, how full they are, and links.

    SOURCE is a file (.gz, .bz2 and .zst too), - for standard input, or the address of a SPARQL endpoint.
    Exits with status 1 where --skip-errors skipped something.

    \b
    kbdisk inspect kb.ttl
    kbdisk inspect phones.jsonl --id meta.id --json | jq .classes
    kbdisk inspect dump.nt.gz --class City --examples 5
    zcat table.csv.gz | kbdisk inspect - --format csv
    """
    from kbdisk.inspection import inspect as inspected

    with warnings.catch_warnings(), watching(quiet, f"reading {source}") as progress:
        warnings.simplefilter("ignore", KBDiskWarning)  # each is in the result, counted and with its places
        kb = open_source(source, format, options, progress)
        found = inspected(kb, examples=examples, classes=options["classes"])
    with standard_output(styled=not as_json) as stream:
        stream.write(_json(found) if as_json else _tables(found, everything))
    context.exit(1 if found.skips else 0)


def _json(found: Inspection) -> bytes:
    return dump_json(as_data(found))


def _tables(found: Inspection, everything: bool) -> bytes:
    from kbdisk.cli.tables import rendered

    return rendered(found, everything).encode(sys.stdout.encoding, "replace")


def as_data(found: Inspection) -> dict[str, Any]:
    """An inspection as JSON: a class that has no name is null, and so is a target's that is outside the source."""
    return {
        "source": found.name,
        "format": found.format,
        "entities": found.entities,
        "labelled": found.labelled,
        "numbered": found.identifiers.numbered,
        "would_name": found.identifiers.best,
        "classes": [_class(facts) for facts in found.classes.values()],
        "links": [
            {
                "class": edge.origin or None,
                "path": edge.path,
                "to": edge.target or None,
                "outside": edge.target is None,
                "links": edge.links,
            }
            for edge in found.edges
        ],
        "graphs": dict(found.graphs),
        "odd": [{"what": what, "count": count, "places": places} for what, (count, places) in found.odd.items()],
        "skipped": {"count": found.skips, "first": found.skipped},
    }


def _class(facts: ClassFacts) -> dict[str, Any]:
    return {
        "class": facts.name or None,
        "entities": facts.entities,
        "labelled": facts.labelled,
        "paths": [_path(names, path, facts.entities) for names, path in facts.paths.items()],
    }


def _path(names: Names, path: PathFacts, entities: int) -> dict[str, Any]:
    from kbdisk.inspection import shown_path
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
