"""Tables as Markdown, put between two markers of a page whose rest is written by hand."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from kbdisk.bench import BENCHES, opened
from kbdisk.bench.base import Table
from kbdisk.bench.results import read
from kbdisk.errors import ConfigError
from kbdisk.loaders.files import writing

BEGIN, END = "<!-- rendered by kbdisk bench render: begin -->", "<!-- rendered by kbdisk bench render: end -->"


def render(results: Path, page: Path) -> list[str]:
    """Write the tables of all that is stored into a page; the names of the benches that there were results of."""
    try:
        text = page.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(page), f"expected a page of Markdown, got none: {error}.") from None
    before, begun, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not begun or not ended:
        raise ConfigError(str(page), f"expected the lines {BEGIN} and {END}, got none. Put them where tables belong.")
    found = [name for name in BENCHES if (results / f"{name}.jsonl").exists()]
    if not found:
        raise ConfigError(
            "--out", f"expected results in {results}, got none. Name the folder that kbdisk bench filled."
        )
    blocks = [line for name in found for line in section(name, results, page)]
    with writing(page) as stream:
        stream.write("\n".join([before + BEGIN, "", *blocks, END + after]).encode())
    return found


def section(name: str, results: Path, page: Path) -> Iterator[str]:
    """The lines of one bench: its tables, of test where that was scored, and its pictures, drawn anew."""
    stored, bench = read(results / f"{name}.jsonl"), opened(name)
    bench.figure(stored, results / f"{name}.png")
    for table in bench.tables([one for one in stored if one.part == "test"] or stored):
        yield from markdown(table)
    for picture in pictures(results, name):
        yield f"![{picture.stem}]({Path(os.path.relpath(picture, page.parent)).as_posix()})"
        yield ""


def pictures(results: Path, name: str) -> list[Path]:
    """What is drawn of a bench: NAME.png, or one for each of its parts, NAME-PART.png."""
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
