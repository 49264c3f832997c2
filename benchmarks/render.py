"""Tables as Markdown, put between two markers of a page; the rest of the page is written by hand."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import BENCHES, load_bench
from benchmarks.base import Table
from benchmarks.results import read
from kbdisk.errors import ConfigError
from kbdisk.loaders.files import writing


def markers(command: str) -> tuple[str, str]:
    """The lines of a page between which a command puts its tables."""
    begin, end = (f"<!-- rendered by python -m benchmarks {command}: {end} -->" for end in ("begin", "end"))
    return begin, end


BEGIN, END = markers("render")


def render(results: Path, page: Path) -> list[str]:
    """Write the tables of all that is stored into a page; the names of the benchmarks that there were results of."""
    around = text_around(page, "render")
    names = [name for name in BENCHES if (results / f"{name}.jsonl").exists()]
    if not names:
        raise ConfigError("--out", f"expected results in {results}, got none. Name the folder that benchmarks filled.")
    write_between(page, around, [line for name in names for line in section(name, results, page)])
    return names


def text_around(page: Path, command: str) -> tuple[str, str]:
    """The text of a page up to the tables of a command, and from there on, with the markers; ConfigError without these."""
    begin, end = markers(command)
    try:
        text = page.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(page), f"expected a page of Markdown, got none: {error}.") from None
    before, has_begin, rest = text.partition(begin)
    _, has_end, after = rest.partition(end)
    if not has_begin or not has_end:
        raise ConfigError(str(page), f"expected the lines {begin} and {end}, got none. Put them where tables belong.")
    return before + begin, end + after


def write_between(page: Path, around: tuple[str, str], lines: Sequence[str]) -> None:
    """Write a page: the text around its tables, and lines between."""
    before, after = around
    with writing(page) as stream:
        stream.write("\n".join([before, "", *lines, after]).encode())


def section(name: str, results: Path, page: Path) -> Iterator[str]:
    """The lines of one benchmark: its tables, of test where that was scored, and its plots, drawn anew."""
    stored, bench = read(results / f"{name}.jsonl"), load_bench(name)
    bench.figure(stored, results / f"{name}.png")
    for table in bench.tables([result for result in stored if result.part == "test"] or stored):
        yield from markdown(table)
    for plot in plots_of(name, results):
        yield picture_line(plot, page)
        yield ""


def picture_line(picture: Path, page: Path) -> str:
    """A picture as a line of a page."""
    return f"![{picture.stem}]({Path(os.path.relpath(picture, page.parent)).as_posix()})"


def plots_of(name: str, results: Path) -> list[Path]:
    """The plots of a benchmark: NAME.png, or one for each of its parts, NAME-PART.png."""
    return [*results.glob(f"{name}.png"), *sorted(results.glob(f"{name}-*.png"))]


def markdown(table: Table) -> Iterator[str]:
    """A table's lines."""
    yield f"### {table.title}"
    yield ""
    for row in (table.header, ["---"] * len(table.header), *table.rows):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
    yield ""
    if table.notes:
        yield from (f"- {note}" for note in table.notes)
        yield ""
