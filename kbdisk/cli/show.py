"""`kbdisk show`: the card of a model folder, read without loading the model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import rich_click as click
from rich.text import Text

from kbdisk.cli import screen
from kbdisk.cli.tables import GAP, build_table, render, show_pairs
from kbdisk.loaders.files import standard_output

if TYPE_CHECKING:
    from rich.console import Console

    from kbdisk.store.card import Row
    from kbdisk.store.files import Files

DROPPED_FIRST = ("kind", "known", "n", "metric")  # columns that a narrow terminal does without, in this order


@click.command()
@click.argument("model")
@click.option(
    "--json", "as_json", is_flag=True, help="All that is recorded, with the ids of the split, as one JSON object."
)
@click.option("-v", "--verbose", is_flag=True, help="Also show every setting of the run, and each validation.")
def show(model: str, as_json: bool, verbose: bool) -> None:
    """Show what MODEL is, what it was trained on, and its errors.

    MODEL is a folder that `kbdisk train` or `kbdisk complete` wrote. The errors are those of held-out entities: each
    property is hidden in turn and predicted from the others; beside it stands the error of the best constant.

    \b
    kbdisk show phones.kbdisk
    kbdisk show phones.kbdisk --json | jq .quality
    """
    from kbdisk.store.files import Files

    files = Files.of(model)
    files.check_sizes()
    if as_json:
        with standard_output() as stream:
            stream.write(json.dumps(_card_data(files), indent=2).encode() + b"\n")
    else:
        screen.show(_render_card(files, model, verbose))


def _card_data(files: Files) -> dict[str, Any]:
    from kbdisk.store.files import METRICS, SPLIT

    config = {key: value for key, value in files.config.items() if key not in ("files", "checksum")}
    return {**config, **files.json(METRICS), "split": files.json(SPLIT)}


def _render_card(files: Files, name: str, verbose: bool) -> str:
    from kbdisk.store.card import quality, text, trained_how, trained_on
    from kbdisk.store.files import METRICS

    metrics = files.json(METRICS)
    groups = [trained_on(files.config), trained_how(files.config)]

    def show_card(console: Console) -> None:
        head = Text.assemble((text(name), "bold"), f"  a model of kbdisk {files.config['kbdisk']}")
        console.print(head, soft_wrap=True)
        for group in groups:
            console.print()
            show_pairs(console, group)
        console.print()
        rows = quality(metrics)
        if rows:
            show_quality(console, rows)
        else:
            console.print(Text("Nothing was held out, or none of it was measured.", "dim"))
        if verbose:
            _show_run(console, files.config["run"], metrics["history"])

    return render(show_card)


def _show_run(console: Console, run: Mapping[str, Any], history: list[dict[str, Any]]) -> None:
    """The validations of a run, and its settings by the names that a run file has."""
    from kbdisk.store.card import number

    console.print()
    table = build_table(">step", ">seconds", ">held out, in nats")
    for validation in history:
        table.add_row(*(Text(number(validation.get(name))) for name in ("step", "seconds", "nats")))
    console.print(table)
    console.print()
    show_pairs(console, dict(_list_settings(run)))


def _list_settings(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    from kbdisk.store.card import text

    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _list_settings(value, f"{prefix}{name}.")
        else:
            yield text(f"{prefix}{name}"), text(value if isinstance(value, str) else json.dumps(value))


def show_quality(console: Console, rows: list[Row]) -> None:
    """The table of errors; a narrow terminal has fewer columns, so that paths are not broken."""
    heads: dict[str, str] = {"property": "property", "kind": "kind", "known": ">trained on", "n": ">n"}
    heads |= {"metric": "metric", "constant": ">constant", "ours": ">ours", "better": ">better"}
    widths = {
        name: max(len(head.lstrip(">")), *(len(getattr(row, name)) for row in rows)) for name, head in heads.items()
    }
    columns = list(heads)
    for name in DROPPED_FIRST:
        if sum(widths[column] + GAP for column in columns) - GAP > console.width:
            columns.remove(name)
    table = build_table(*(heads[name] for name in columns))
    for row in rows:
        cells: list[Any] = [getattr(row, name) for name in columns]
        table.add_row(*(Text(cell, _style_cell(name, cell)) for name, cell in zip(columns, cells, strict=True)))
    console.print(table)


def _style_cell(column: str, cell: str) -> str:
    if column == "better":
        return "red" if cell.startswith(("-", "0")) else ""
    return "green" if column == "property" else ""
