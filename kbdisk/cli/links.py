"""`kbdisk links`: the likeliest links of an entity that are not known, in either direction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import rich_click as click
from rich.text import Text

from kbdisk.cli import screen
from kbdisk.cli.options import entity_source_options, open_source, refuse_missing, verbose_option
from kbdisk.cli.progress import show_loading, show_reading, show_training
from kbdisk.cli.screen import say
from kbdisk.cli.tables import build_table, percent, render
from kbdisk.entity import show
from kbdisk.errors import ConfigError
from kbdisk.loaders.files import folder_beside
from kbdisk.schemas.text.names import last_word

if TYPE_CHECKING:
    from rich.console import Console

    from kbdisk.api.model import Model
    from kbdisk.api.source import LoadedSource
    from kbdisk.completion.links import PredictedLink

DEFAULT_BUDGET = "1m"
NOT_CALIBRATED = "How sure it is was not calibrated: too few links could be held out."
KEPT = ".links.kbdisk"  # ends the name of a model of links alone, beside its source


@click.command()
@click.argument("source")
@click.option(
    "--id", "entities", metavar="ID", multiple=True, required=True, help="The entity, by its id. Repeat it for more."
)
@click.option("--path", metavar="PATH", help="The property, such as spouse.  [default: all with links]")
@click.option("--incoming", is_flag=True, help="Ask which entities link to it, in the place of where it links to.")
@click.option(
    "-k",
    "count",
    metavar="N",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Links of each entity, at most.",
)
@click.option(
    "--model",
    metavar="MODEL",
    help="A model folder.  [default: SOURCE.kbdisk if it predicts links; else SOURCE.links.kbdisk, which is made]",
)
@click.option(
    "--budget",
    metavar="TIME",
    help=f"How long a model of links is trained, where there is none.  [default: {DEFAULT_BUDGET}]",
)
@click.option("--force", is_flag=True, help="Train SOURCE.links.kbdisk again.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
@entity_source_options
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
@verbose_option
@click.pass_context
def links(
    context: click.RichContext,
    /,
    source: str,
    entities: tuple[str, ...],
    path: str | None,
    incoming: bool,
    count: int,
    model: str | None,
    budget: str | None,
    force: bool,
    as_json: bool,
    id_path: str | None,
    quiet: bool,
    verbose: bool,
    **options: Any,
) -> None:
    """Predict links of an entity of SOURCE: the likeliest targets of a property that are not known.

    A factorisation of all links (ComplEx) predicts them, with classes and values as further nodes. The confidence of a
    link is the probability that the entity has one more such link, by what is recorded of others, times the probability
    that this is the one, calibrated on held-out links. Beside it stand the most similar entities that have the same
    link. Nothing is written into SOURCE. Exits with status 1 where --skip-errors skipped something.

    \b
    kbdisk links kb.ttl --id http://example.org/ada --path spouse -k 3
    kbdisk links kb.ttl --id http://example.org/rome --path born --incoming
    kbdisk links kb.ttl --id http://example.org/ada --json | jq '.links[].tail'
    """  # fmt: skip
    refuse_missing(source)
    if model is not None and (budget is not None or force):
        raise ConfigError("--model", "is asked as it is. Leave --budget and --force out.")
    with show_loading(quiet, f"reading {source} ..."):
        from kbdisk.api.source import LoadedSource
    with show_reading(quiet, f"reading {source}") as progress:
        kb = open_source(source, {**options, "id": id_path}, progress)
        loaded = LoadedSource.of(kb)
    opened = _model_of(source, loaded, model, budget or DEFAULT_BUDGET, force, quiet, verbose)
    known = {"tail" if incoming else "head": list(entities)}
    predicted = opened.predict_links(**known, property=path, kb=loaded, k=count)
    if as_json:
        rows = [link.to_json() for of_entity in predicted for link in of_entity]
        screen.write_json({"source": source, "links": rows})
    else:
        labels = {opened.schema.id_of(other): other.label for other in loaded.entities if other.label}
        screen.show(render_links(entities, predicted, labels, incoming))
    context.exit(1 if kb.skipped else 0)


def _model_of(
    source: str, loaded: LoadedSource, folder: str | None, budget: str, force: bool, quiet: bool, verbose: bool
) -> Model:
    """The model that is named, or that is kept beside the source; else a new model of its links."""
    import kbdisk

    if folder is not None:
        return kbdisk.open(folder)
    beside = folder_beside((source,))
    if beside is None:
        raise ConfigError("--model", f"expected a model folder, as none can stand beside {source}.")
    kept = FilePath(f"{source.rstrip('/')}{KEPT}")
    for candidate in (beside, kept):
        if candidate.exists() and not force:
            model = kbdisk.open(candidate)
            if model.predicts_links and model.is_of(loaded):
                if verbose:
                    say(f"using the model in {candidate}")
                return model
    if not quiet:
        say(f"learning the links of {source} for {budget}; the model is kept in {kept}")
    with show_training(quiet, verbose) as watch:
        return kbdisk.train(loaded, preset="links", budget=budget, out=kept, force=True, watch=watch)


def render_links(
    entities: Sequence[str], predicted: Sequence[Sequence[PredictedLink]], labels: Mapping[str, str], incoming: bool
) -> str:
    """A table for each entity."""

    def name(id: str) -> str:
        return labels.get(id) or last_word(id)

    def show_links(console: Console) -> None:
        for number, (entity, of_entity) in enumerate(zip(entities, predicted, strict=True)):
            if number:
                console.print()
            console.print(Text.assemble((name(entity), "bold"), f"  {entity}"), soft_wrap=True)
            console.print()
            if not of_entity:
                console.print(Text("No link that is not known.", "dim"))
                continue
            table = build_table("property", "from" if incoming else "to", ">sure", "so have")
            for link in of_entity:
                other = link.head if incoming else link.tail
                cell = Text(f"{name(other)}  {last_word(other)}" if other in labels else last_word(other))
                similar = Text(", ".join(map(name, link.similar)), "dim", no_wrap=True, overflow="ellipsis")
                table.add_row(Text(show(link.path), "green"), cell, percent(link.confidence), similar)
            console.print(table)
        if not all(link.is_calibrated for of_entity in predicted for link in of_entity):
            console.print()
            console.print(Text(NOT_CALIBRATED, "dim"))

    return render(show_links)
