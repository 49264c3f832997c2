"""`kbdisk sample`: entities that might be, drawn from a model."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import rich_click as click

from kbdisk.cli.counting import counting
from kbdisk.cli.screen import say
from kbdisk.cli.verbosely import open_model, verbose_option
from kbdisk.errors import ConfigError, KBDiskWarning, WriteError
from kbdisk.jsonio import dump_json
from kbdisk.loaders.files import standard_output

if TYPE_CHECKING:
    from kbdisk.api import Model
    from kbdisk.entity import Entity, Path

TABLES = ("csv", "tsv")
PLAIN = ("json", "jsonl", *TABLES)
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
    help="How many entities to draw.",
)
@click.option(
    "--given",
    "given",
    metavar="PATH=VALUE",
    multiple=True,
    help='A value that all of them have, such as brand=Nokia; a set is a list: \'os=["iOS","Bada"]\'. Repeat it for others.',
)
@click.option("--class", "of", metavar="CLASS", help="Only entities of this class.")
@click.option("--out", metavar="TARGET", required=True, help="File to write, or - for standard output.")
@click.option("--format", metavar="FORMAT", help="Format of TARGET where its name does not tell.")
@click.option("--text", is_flag=True, help="Make up free text, too, such as names. It takes long.")
@click.option(
    "--leap",
    metavar="K",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Properties drawn at a time: more is faster, and less alike.",
)
@click.option("--seed", metavar="N", type=int, default=0, show_default=True, help="Another seed, other entities.")
@click.option(
    "--device", metavar="NAME", default="auto", show_default=True, help="Where it computes: auto, cpu or cuda."
)
@click.option("--force", is_flag=True, help="Replace TARGET where it exists.")
@click.option("--json", "as_json", is_flag=True, help="The summary as one JSON object on standard output.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar and no summary.")
@verbose_option
def sample(
    model: str, out: str, given: tuple[str, ...], as_json: bool, quiet: bool, verbose: bool, **options: Any
) -> None:
    """Draw entities that might be, from MODEL.

    Each has the properties that some entity of the training data has, and values drawn one by one, each given those
    before it: so they hang together as in the data. What is --given they all have. For many rows, train with
    --preset synthetic.

    \b
    kbdisk sample phones.kbdisk -n 1000 --out new.jsonl
    kbdisk sample phones.kbdisk -n 20 --given brand=Nokia --out nokia.csv
    kbdisk sample kb.kbdisk --class City --out - --format turtle | head
    """  # fmt: skip
    import kbdisk
    from kbdisk.entity import show
    from kbdisk.sampling import parse_given
    from kbdisk.sampling import sample as drawn

    if as_json and out == "-":
        raise click.UsageError("--json and --out - both want standard output.")
    begun = time.monotonic()
    found = open_model(model, options["device"], verbose)
    values = parse_given(found.trained, [_pair(text) for text in given])
    count = options["n"]
    with counting(quiet, "drawing") as told:
        chosen = {name: options[name] for name in ("of", "seed", "leap", "text")}
        drawing = time.monotonic()
        made = drawn(found.trained, count, values, watch=told, **chosen)
        entities = _written(found, made, out, options["format"], set(values))
        report = kbdisk.write(entities, out, format=options["format"], force=options["force"])
    if report.unwritable:
        id, path, reason = report.unwritable[0]
        raise WriteError(out, f"{id} {show(path)}: {reason}.")
    seconds = time.monotonic() - drawing
    if as_json:
        _print_json(out, count, seconds, time.monotonic() - begun, options["seed"])
    elif not quiet:
        where = "standard output" if out == "-" else out
        say(f"wrote {where}, {count:,} {_entities(count)}, {count / seconds:,.0f} a second")


def _written(
    model: Model, entities: Iterable[Entity], out: str, format: str | None, given: set[Path]
) -> Iterable[Entity]:
    """The entities, in JSON and tables with their values as those of the source are written; RDF has types for them."""
    from kbdisk.loaders.formats import format_of_target

    styles, name = model.trained.styles, format_of_target(None, out, format)
    entities = map(styles.restyled, entities) if styles is not None and name in PLAIN else entities
    if name not in TABLES:
        return entities
    made_up = {slot.path for slot in model.trained.codec.slots if slot.kind == "text"} - given
    return without_formulas(entities, made_up)


def without_formulas(entities: Iterable[Entity], made_up: set[Path]) -> Iterator[Entity]:
    """The entities without what a spreadsheet would run among the texts that are made up; labels are those of the data."""
    from kbdisk.entity import Text, walk
    from kbdisk.loaders.values import formulas

    left_out = 0
    for entity in entities:
        for path, leaf in list(walk(entity.tree)):
            text = leaf.text if isinstance(leaf, Text) else leaf
            is_made_up = any(path[:length] in made_up for length in range(1, len(path) + 1))
            if is_made_up and isinstance(text, str) and formulas.start_of(text):
                place: Any = entity.tree
                for key in path[:-1]:
                    place = place[key]
                place[path[-1]] = None
                left_out += 1
        yield entity
    if left_out:
        warnings.warn(f"{LEFT_OUT}: {left_out:,}", KBDiskWarning, stacklevel=2)


def _pair(text: str) -> tuple[str, str]:
    path, sign, value = text.partition("=")
    if not sign or not path:
        raise ConfigError("--given", f"expected PATH=VALUE, such as brand=Nokia, got {text!r}.")
    return path, value


def _entities(count: int) -> str:
    return "entity" if count == 1 else "entities"


def _print_json(target: str, count: int, drawing: float, seconds: float, seed: int) -> None:
    data = {
        "target": target,
        "entities": count,
        "seed": seed,
        "seconds": round(seconds, 3),
        "per_second": round(count / drawing, 1),
    }
    with standard_output() as stream:
        stream.write(dump_json(data))
