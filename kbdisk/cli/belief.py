"""`kbdisk belief`: what a model believes of one property of one entity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import rich_click as click

from kbdisk.cli import screen
from kbdisk.cli.sources import OPTIONS, open_source, watching
from kbdisk.cli.verbosely import open_model, verbose_option
from kbdisk.jsonio import dump_json
from kbdisk.loaders.files import standard_output

if TYPE_CHECKING:
    from rich.console import Console

    from kbdisk.api.beliefs import Belief

WIDEST = 16  # columns of a value in a table
READING = click.option(
    "--id-path", "id_path", metavar="PATH", help="Where an entity's id stands in SOURCE, such as meta.id."
)


def entity_source_options(command: Any) -> Any:
    """The options that say how SOURCE is read; --id is the entity here."""
    for option in reversed([READING, *OPTIONS[1:]]):
        command = option(command)
    return command


@click.command()
@click.argument("model")
@click.argument("source")
@click.option("--id", "entity", metavar="ID", required=True, help="The entity, by its id.")
@click.option("--path", metavar="PATH", help="The property, such as launch.year.  [default: a table of all]")
@click.option("--plot", metavar="FILE", help="A picture of it, too: PNG, SVG or PDF.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
@click.option("--format", metavar="FORMAT", help="Format of SOURCE where its name does not tell.")
@click.option(
    "--device", metavar="NAME", default="auto", show_default=True, help="Where it computes: auto, cpu or cuda."
)
@entity_source_options
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
@verbose_option
@click.pass_context
def belief(
    context: click.RichContext,
    /,
    model: str,
    source: str,
    entity: str,
    path: str | None,
    plot: str | None,
    as_json: bool,
    format: str | None,
    device: str,
    id_path: str | None,
    quiet: bool,
    verbose: bool,
    **options: Any,
) -> None:
    """Tell what MODEL believes of a property of an entity of SOURCE.

    Whether the entity has a value there or not: the value is hidden, and told from all others that it has. Of a
    quantity its number is meant; the parts of a date have paths of their own. Exits with status 1 where
    --skip-errors skipped something.

    \b
    kbdisk belief phones.kbdisk phones.jsonl --id nokia-3310 --path weight
    kbdisk belief phones.kbdisk phones.jsonl --id palm-pre --path os --plot b.png
    kbdisk belief phones.kbdisk phones.jsonl --id nokia-3310
    """
    if plot is not None and path is None:
        raise click.UsageError("--plot needs a property: say --path.")
    if plot is not None:
        from kbdisk.plots import refuse_plot

        refuse_plot(plot)
    found = open_model(model, device, verbose)
    with watching(quiet, f"reading {source}") as progress:
        kb = open_source(source, format, {**options, "id": id_path}, progress)
        if path is None:
            told = found.beliefs(entity, kb)
            _print(_json_of_all(told)) if as_json else screen.show(_table(told, entity))
            context.exit(1 if kb.skipped else 0)
        one = found.belief(entity, path, kb)
    if plot is not None:
        from kbdisk.api.picture import plot_belief

        plot_belief(one, plot)
    if as_json:
        _print(_json(one.to_json()))
    else:
        from kbdisk.cli.charts import rendered

        screen.show(rendered(one))
    context.exit(1 if kb.skipped else 0)


def _print(told: bytes) -> None:
    with standard_output() as stream:
        stream.write(told)


def _json(data: Any) -> bytes:
    return dump_json(data)


def _json_of_all(told: Mapping[str, Belief]) -> bytes:
    return _json([one.to_json() for one in told.values()])


def _table(told: Mapping[str, Belief], entity: str) -> str:
    """A line for each property: what would be said, how sure, what is given."""
    from rich.text import Text

    from kbdisk.cli.charts import percent, value_text
    from kbdisk.cli.tables import printed, table_of

    table = table_of("property", "believed", ">sure", "90 % within", "given")
    for place in (1, 4):
        table.columns[place].no_wrap, table.columns[place].overflow = True, "ellipsis"
        table.columns[place].max_width = WIDEST
    for path, one in told.items():
        between = ""
        if one.kind == "number":
            low, high = one.interval()  # type: ignore[attr-defined]
            between = f"{value_text(low)} … {value_text(high)}"
        given = "" if one.given is None else value_text(one.given)
        said = Text(value_text(one.value))
        table.add_row(Text(path, "green"), said, percent(one.confidence), Text(between, no_wrap=True), Text(given))

    def show_it(console: Console) -> None:
        console.print(Text(entity, "bold"))
        console.print()
        console.print(table)

    return printed(show_it)
