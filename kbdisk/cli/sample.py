"""`kbdisk sample`: synthetic entities, drawn from a model."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import rich_click as click

from kbdisk.cli import screen
from kbdisk.cli.options import device_option, open_model, to_option, verbose_option
from kbdisk.cli.progress import show_counting
from kbdisk.cli.screen import say
from kbdisk.cli.summary import describe_target
from kbdisk.cli.tables import counted
from kbdisk.errors import ConfigError, KBDiskWarning, WriteError

if TYPE_CHECKING:
    from kbdisk.api.model import Model
    from kbdisk.entity import Entity, Path

TABLES = ("csv", "tsv")
WITHOUT_TYPES = ("json", "jsonl", *TABLES)  # formats with values as the source writes them; RDF has types for them
LEFT_OUT = "made-up texts that a spreadsheet would run as formulas, left out"


@click.command()
@click.argument("model")
@click.option(
    "-n",
    "n",
    metavar="N",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Number of entities to draw.",
)
@click.option(
    "--given",
    "given",
    metavar="PATH=VALUE",
    multiple=True,
    help='A value that all entities have, such as brand=Nokia; a set is a list: \'os=["iOS","Bada"]\'. Repeat it for others.',
)
@click.option("--class", "class_name", metavar="CLASS", help="Only entities of this class.")
@click.option("--out", metavar="TARGET", required=True, help="File to write, or - for standard output.")
@to_option
@click.option("--text", is_flag=True, help="Also draw free text, such as names. This is slow.")
@click.option(
    "--leap",
    metavar="K",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Properties drawn at a time: more is faster and less realistic.",
)
@click.option("--seed", metavar="N", type=int, default=0, show_default=True, help="Seed of the random draws.")
@device_option
@click.option("--force", is_flag=True, help="Replace TARGET where it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object on standard output.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar and no summary.")
@verbose_option
def sample(
    model: str, out: str, given: tuple[str, ...], as_json: bool, quiet: bool, verbose: bool, **options: Any
) -> None:
    """Draw synthetic entities from MODEL.

    Each has the properties of some entity of the training data. Its values are drawn one by one, each given those
    before it, so that they are consistent as in the data. All have the values of --given. For many rows, train with
    --preset synthetic.

    \b
    kbdisk sample phones.kbdisk -n 1000 --out new.jsonl
    kbdisk sample phones.kbdisk -n 20 --given brand=Nokia --out nokia.csv
    kbdisk sample kb.kbdisk --class City --out - --to turtle | head
    """  # fmt: skip
    import kbdisk
    from kbdisk.entity import show
    from kbdisk.sampling import parse_given
    from kbdisk.sampling import sample as draw

    if as_json and out == "-":
        raise click.UsageError("--json and --out - both want standard output.")
    begun = time.monotonic()
    opened = open_model(model, options["device"], verbose)
    values = parse_given(opened.trained, [_split_pair(text) for text in given])
    count, format = options["n"], options["target_format"]
    with show_counting(quiet, "drawing") as progress:
        settings = {name: options[name] for name in ("class_name", "seed", "leap", "text")}
        drawing = time.monotonic()
        drawn = draw(opened.trained, count, values, watch=progress, **settings)
        entities = _style_entities(opened, drawn, out, format, set(values))
        report = kbdisk.write(entities, out, format=format, force=options["force"])
    if report.unwritable:
        id, path, reason = report.unwritable[0]
        raise WriteError(out, f"{id} {show(path)}: {reason}.")
    now = time.monotonic()
    per_second = count / (now - drawing)
    if as_json:
        data = {"target": out, "entities": count, "seed": options["seed"]}
        screen.write_json(data | {"seconds": round(now - begun, 3), "per_second": round(per_second, 1)})
    elif not quiet:
        say(f"wrote {describe_target(out)}, {counted(count, 'entity', 'entities')}, {per_second:,.0f} a second")


def _style_entities(
    model: Model, entities: Iterable[Entity], out: str, format: str | None, given: set[Path]
) -> Iterable[Entity]:
    """The entities with their values as the source writes them, in JSON and tables."""
    from kbdisk.loaders.formats import format_of_target

    styles, name = model.trained.styles, format_of_target(None, out, format)
    entities = map(styles.restyled, entities) if styles is not None and name in WITHOUT_TYPES else entities
    if name not in TABLES:
        return entities
    made_up = {slot.path for slot in model.trained.codec.slots if slot.kind == "text"} - given
    return without_formulas(entities, made_up)


def without_formulas(entities: Iterable[Entity], made_up: set[Path]) -> Iterator[Entity]:
    """The entities without texts at `made_up` paths that a spreadsheet would run; labels are those of the data."""
    from kbdisk.entity import Text, walk
    from kbdisk.loaders.values import formulas

    left_out = 0
    for entity in entities:
        for path, leaf in list(walk(entity.tree)):
            text = leaf.text if isinstance(leaf, Text) else leaf
            is_made_up = any(path[:length] in made_up for length in range(1, len(path) + 1))
            if is_made_up and isinstance(text, str) and formulas.start_of(text):
                parent: Any = entity.tree
                for key in path[:-1]:
                    parent = parent[key]
                parent[path[-1]] = None
                left_out += 1
        yield entity
    if left_out:
        warnings.warn(f"{LEFT_OUT}: {left_out:,}", KBDiskWarning, stacklevel=2)


def _split_pair(text: str) -> tuple[str, str]:
    path, sign, value = text.partition("=")
    if not sign or not path:
        raise ConfigError("--given", f"expected PATH=VALUE, such as brand=Nokia, got {text!r}.")
    return path, value
