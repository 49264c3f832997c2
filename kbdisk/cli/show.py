"""`kbdisk show`: the card of a model folder, read without loading the model."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import rich_click as click

from kbdisk.loaders.files import standard_output

if TYPE_CHECKING:
    from rich.console import Console

    from kbdisk.store.card import Row
    from kbdisk.store.files import Files

FIRST_TO_GO = ("kind", "known", "n", "metric")  # of a table's columns, where the terminal has no room for all


@click.command()
@click.argument("model")
@click.option(
    "--json", "as_json", is_flag=True, help="All that is recorded, the ids of the split too, as one JSON object."
)
@click.option(
    "-v", "--verbose", is_flag=True, help="Also tell every choice of the run, and each look at what was held out."
)
def show(model: str, as_json: bool, verbose: bool) -> None:
    """Tell what MODEL is, what it was trained on, and how good it is.

    MODEL is a folder that `kbdisk train` or `kbdisk complete` wrote. The figures are of held-out entities: each
    property hidden in turn and told from the others, beside the one constant that is best for all.

    \b
    kbdisk show phones.kbdisk
    kbdisk show phones.kbdisk --json | jq .quality
    """
    from kbdisk.store.files import Files

    files = Files.of(model)
    files.check_sizes()
    told = _json(files) if as_json else _tables(files, model, verbose)
    with standard_output(styled=not as_json) as stream:
        stream.write(told)


def _json(files: Files) -> bytes:
    import json

    from kbdisk.store.files import METRICS, SPLIT

    rest = {key: value for key, value in files.config.items() if key not in ("files", "checksum")}
    told = {**rest, **files.json(METRICS), "split": files.json(SPLIT)}
    return json.dumps(told, indent=2).encode() + b"\n"


def _tables(files: Files, name: str, verbose: bool) -> bytes:
    from kbdisk.cli.tables import printed
    from kbdisk.store.card import quality, text, trained_how, trained_on
    from kbdisk.store.files import METRICS

    metrics = files.json(METRICS)
    groups = [trained_on(files.config), trained_how(files.config)]

    def show_it(console: Console) -> None:
        from rich.text import Text

        console.print(
            Text.assemble((text(name), "bold"), f"  a model of kbdisk {files.config['kbdisk']}"), soft_wrap=True
        )
        for group in groups:
            console.print()
            show_pairs(console, group)
        console.print()
        rows = quality(metrics)
        if rows:
            show_quality(console, rows)
        else:
            console.print(Text("Nothing was held out, or nothing of it was measured.", "dim"))

        if verbose:
            _run(console, files.config["run"], metrics["history"])

    return printed(show_it).encode(sys.stdout.encoding, "replace")


def show_pairs(console: Console, group: Mapping[str, str]) -> None:
    """Names, and what there is to tell of each."""
    from rich.text import Text

    from kbdisk.cli.tables import table_of

    table = table_of("what", "value")
    table.show_header = False
    for name, value in group.items():
        table.add_row(Text(name, "dim"), Text(value))
    console.print(table)


def _run(console: Console, run: Mapping[str, Any], looks: list[dict[str, Any]]) -> None:
    """How a run went, and all that was chosen for it, by the names that a run file has."""
    from rich.text import Text

    from kbdisk.cli.tables import table_of
    from kbdisk.store.card import number

    console.print()
    table = table_of(">step", ">seconds", ">held out, in nats")
    for look in looks:
        table.add_row(*(Text(number(look.get(name))) for name in ("step", "seconds", "nats")))
    console.print(table)
    console.print()
    show_pairs(console, dict(_choices(run)))


def _choices(told: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    import json

    from kbdisk.store.card import text

    for name, value in told.items():
        if isinstance(value, dict):
            yield from _choices(value, f"{before}{name}.")
        else:
            yield text(f"{before}{name}"), text(value if isinstance(value, str) else json.dumps(value))


def show_quality(console: Console, rows: list[Row]) -> None:
    """The table of quality: on a narrow terminal fewer columns, so that paths stay whole; the figures stay."""
    from rich.text import Text

    from kbdisk.cli.tables import GAP, table_of

    names: dict[str, str] = {"property": "property", "kind": "kind", "known": ">trained on", "n": ">n"}
    names |= {"metric": "metric", "constant": ">constant", "ours": ">ours", "better": ">better"}
    widths = {
        name: max(len(head.lstrip(">")), *(len(getattr(row, name)) for row in rows)) for name, head in names.items()
    }
    kept = list(names)
    for name in FIRST_TO_GO:
        if sum(widths[one] + GAP for one in kept) - GAP > console.width:
            kept.remove(name)
    table = table_of(*(names[name] for name in kept))
    for row in rows:
        cells: list[Any] = [getattr(row, name) for name in kept]
        table.add_row(*(Text(cell, _colour(name, cell)) for name, cell in zip(kept, cells, strict=True)))
    console.print(table)


def _colour(name: str, cell: str) -> str:
    if name == "better":
        return "red" if cell.startswith(("-", "0")) else ""
    return "green" if name == "property" else ""
