"""An inspection as tables that read well at 80 columns and use 120."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kbdisk.cli import screen
from kbdisk.cli.values import shown, shown_number
from kbdisk.entity import Link
from kbdisk.inspection import MAX_DISTINCT, shown_path
from kbdisk.loaders.files import standard_output
from kbdisk.schemas.text.names import last_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kbdisk.inspection import ClassFacts, Edge, Inspection, PathFacts

CLASSES, PATHS, EDGES, GRAPHS = 12, 40, 20, 10  # rows shown without --all
GAP = 2  # columns of a terminal between those of a table
UNNAMED, OUTSIDE = "(no class)", "(not in the source)"


def rendered(found: Inspection, everything: bool) -> str:
    """An inspection as text for standard output."""
    return printed(lambda console: _show(console, found, everything))


def printed(show: Callable[[Console], None]) -> str:
    """What is shown on a console as text, without blanks at the ends of lines."""
    console = screen.console()
    with standard_output(), console.capture() as captured:  # a capture writes nothing, and that can fail, too
        show(console)
    return "\n".join(line.rstrip() for line in captured.get().split("\n"))


def _show(console: Console, found: Inspection, everything: bool) -> None:
    names = short_names({*found.classes, *(edge.target for edge in found.edges if edge.target)})
    _head(console, found)
    classes = sorted(found.classes.values(), key=lambda facts: -facts.entities)
    for facts in classes[: None if everything else CLASSES]:
        _class(console, facts, names[facts.name], found, everything)
    _rest(console, len(classes) - CLASSES, "classes", everything)
    _edges(console, found.edges, names, everything)
    _graphs(console, found, everything)
    _troubles(console, found)


def short_names(classes: Iterable[str]) -> dict[str | None, str]:
    """Each class by the last word of its IRI, or whole where two share it."""
    words: dict[str, list[str]] = {}
    for name in classes:
        words.setdefault(last_word(name), []).append(name)
    short: dict[str | None, str] = {
        name: word if len(same) == 1 else name for word, same in words.items() for name in same
    }
    return short | {"": UNNAMED, None: OUTSIDE}


def _head(console: Console, found: Inspection) -> None:
    line = Text.assemble((found.name, "bold"), f"  {found.format}, {counted(found.entities, 'entity', 'entities')}")
    if found.labelled:
        line.append(f", {_share(found.labelled, found.entities)} labelled")
    if len(found.classes) > 1:
        line.append(f", {len(found.classes)} classes")
    console.print(line, soft_wrap=True)
    if found.identifiers.hint is not None:
        console.print(Text(found.identifiers.hint, "dim"), soft_wrap=True)


def _class(console: Console, facts: ClassFacts, name: str, found: Inspection, everything: bool) -> None:
    console.print()
    if len(found.classes) > 1 or facts.name:
        line = Text.assemble((name, "bold cyan"), f"  {counted(facts.entities, 'entity', 'entities')}")
        if facts.labelled != facts.entities and found.labelled:
            line.append(f", {_share(facts.labelled, facts.entities)} labelled")
        console.print(line)
    paths = [(shown_path(names, path), path) for names, path in facts.paths.items()]
    console.print(_paths(paths[: None if everything else PATHS], facts.entities, console.width))
    _rest(console, len(paths) - PATHS, "paths", everything)


def _paths(paths: list[tuple[str, PathFacts]], entities: int, width: int) -> Table:
    asked, made = any(path.asked for _, path in paths), any(path.made for _, path in paths)
    table = table_of("path", ">filled", *[">asked"] * asked, *[">made"] * made, "kind", ">distinct", "values")
    kinds = [_kinds(path) for _, path in paths]
    table.columns[0].width = min(max([4, *(len(text) for text, _ in paths)]), width * 2 // 5)
    table.columns[-3].width = min(max([4, *map(len, kinds)]), width // 4)
    for (text, path), kind in zip(paths, kinds, strict=True):
        cells: list[Text | str] = [Text(text, "green"), _share(path.filled, entities)]
        cells += [f"{path.asked:,}" if path.asked else ""] * asked + [f"{path.made:,}" if path.made else ""] * made
        distinct = f"{MAX_DISTINCT:,}+" if path.distinct is None else f"{path.distinct:,}" if path.values else ""
        table.add_row(*cells, Text(kind), distinct, Text(_values(path), overflow="ellipsis", no_wrap=True))
    return table


def _kinds(path: PathFacts) -> str:
    """The kinds of value, the most frequent first, those that are few with their count."""
    kinds = path.kinds.most_common()
    if not kinds:
        return "no value"
    text = ", ".join([kinds[0][0], *(f"{kind} ({count:,})" for kind, count in kinds[1:])])
    return f"{text}, up to {path.most:,}" if path.most > 1 else text


def _values(path: PathFacts) -> str:
    """Range, then examples: what a reader wants to see of the values."""
    units = list(path.units)
    if path.low is not None and path.high is not None and len(units) <= 1 and path.low != path.high:
        unit = f" {units[0]}" if units else ""
        return f"{shown_number(path.low)} … {shown_number(path.high)}{unit}"
    if path.years and path.years[0] != path.years[1]:
        return f"{path.years[0]} … {path.years[1]}"
    return ", ".join(last_word(value.id) if isinstance(value, Link) else shown(value) for value in path.examples)


def _edges(console: Console, edges: list[Edge], names: dict[str | None, str], everything: bool) -> None:
    if not edges:
        return
    console.print()
    table = table_of("from", "path", "to", ">links")
    for edge in edges[: None if everything else EDGES]:
        to = Text(names[edge.target])
        table.add_row(Text(names[edge.origin], "cyan"), Text(edge.path, "green"), to, f"{edge.links:,}")
    console.print(table)
    _rest(console, len(edges) - EDGES, "kinds of link", everything)


def _graphs(console: Console, found: Inspection, everything: bool) -> None:
    if not found.graphs:
        return
    console.print()
    table = table_of("named graph", ">entities")
    for name, count in found.graphs.most_common(None if everything else GRAPHS):
        table.add_row(Text(name), f"{count:,}")
    console.print(table)
    _rest(console, len(found.graphs) - GRAPHS, "named graphs", everything)


def _troubles(console: Console, found: Inspection) -> None:
    for what, (count, places) in found.odd.items():
        more = ", …" if count > len(places) else ""
        console.print(
            Text.assemble("\n", ("odd", "yellow"), f"  {what}: {count:,} ({', '.join(places)}{more})"), soft_wrap=True
        )
    if found.skips:
        console.print(Text.assemble("\n", ("skipped", "red"), f"  {found.skips:,}"))
        for error in found.skipped:
            console.print(Text(f"  {error}"), soft_wrap=True)


def _rest(console: Console, more: int, what: str, everything: bool) -> None:
    if more > 0 and not everything:
        console.print(Text(f"and {more:,} more {what}: --all shows them, --json has them", "dim"))


def table_of(*columns: str) -> Table:
    """A table without lines; a column whose name begins with > is aligned right."""
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    for name in columns:
        right = name[0] == ">"
        table.add_column(name.lstrip(">"), justify="right" if right else "left", overflow="fold", no_wrap=right)
    return table


def _share(part: int, whole: int) -> str:
    """A share in percent that says 100 % only of all and 0 % only of none."""
    if not whole:
        return "0 %"
    percent = 100 * part / whole
    if 0 < percent < 1:
        return "<1 %"
    return f"{min(round(percent), 99) if part < whole else 100} %"


def counted(number: int, one: str, many: str) -> str:
    """How many of what: `1 entity`, `1,064 entities`."""
    return f"{number:,} {one if number == 1 else many}"
