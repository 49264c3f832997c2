"""`kbdisk bench kb`: hides values of any source, fills them by kbdisk and by others, and compares the errors.

`kbdisk bench generate` makes a source of which the truth is known.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from kbdisk.cli.bench import draw, results_folder, shown, teller_of
from kbdisk.cli.screen import show
from kbdisk.cli.sources import open_source, source_options
from kbdisk.cli.train import PRESETS
from kbdisk.cli.trainbar import training
from kbdisk.errors import ConfigError
from kbdisk.loaders.files import standard_output

if TYPE_CHECKING:
    from kbdisk.api.model import Model
    from kbdisk.bench.kb import KBOptions
    from kbdisk.bench.results import Result
    from kbdisk.entity import Entity

NAME = "kb"


@click.command(NAME)
@click.argument("source", metavar="SOURCE")
@click.option(
    "--share",
    metavar="P",
    type=float,
    default=0.15,
    show_default=True,
    help="The share of single values that is hidden.",
)
@click.option(
    "--mask",
    "masks",
    metavar="N",
    type=click.IntRange(min=0),
    multiple=True,
    help="Which values are hidden, and the seed of what is trained. Repeat it for the mean of several.  [default: 0]",
)
@click.option(
    "--hidden",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Values that SOURCE lacks, instead of a mask: entity, property and value, with tabs.",
)
@click.option(
    "--validation",
    is_flag=True,
    help="Hide once more within what is given, and score that: the test values stay hidden.",
)
@click.option(
    "--against",
    metavar="NAMES",
    default="catboost",
    show_default=True,
    help="Methods beside ours: constant, catboost, iterative. Commas between them; none for ours alone.",
)
@click.option("--not-ours", is_flag=True, help="Measure only what --against names.")
@click.option(
    "--preset",
    type=click.Choice(PRESETS),
    default="default",
    show_default=True,
    help="What is trained, as of complete.",
)
@click.option(
    "--budget",
    metavar="TIME",
    help="Longest time of a training, such as 90s or 5m; it limits the methods of --against, too.  [default: as of complete; no limit for others]",
)
@click.option("--device", metavar="DEVICE", default="auto", show_default=True, help="auto, cpu, cuda.")
@click.option(
    "--out", metavar="DIR", help="Folder of the results.  [default: benchmarks/results in a checkout, or results]"
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.option("--format", "format", metavar="FORMAT", help="Format of SOURCE.  [default: by its name]")
@source_options
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@click.option("-v", "--verbose", is_flag=True, help="Show each validation during training.")
@click.pass_context
def bench_kb(context: click.RichContext, /, source: str, **options: Any) -> None:
    """Any knowledge base: hide values, complete it, compare the errors.

    A share of the single values of SOURCE is hidden (never ids, types or names). kbdisk completes it as kbdisk complete
    --fill all does; a CatBoost for each property, with an entity's other values, types and commonest links as features,
    does the same. The table has the error over the constant's (median, commonest label) of each property.

    A run that was stopped goes on where it was when the same command is given again.

    \b
    kbdisk bench kb kb.ttl --budget 2m
    kbdisk bench kb kb.ttl --mask 0 --mask 1 --mask 2 --against catboost,iterative
    kbdisk bench kb kb.ttl.gz --hidden kb.hidden.tsv.gz --budget 5m
    """  # fmt: skip
    from kbdisk.bench import kb as module
    from kbdisk.bench.results import append, stamped
    from kbdisk.bench.unfinished import Unfinished

    chosen = _options(options)
    module.refuse(chosen)
    teller = teller_of(options["quiet"], options["verbose"])
    kb = open_source(source, options["format"], options)
    out = results_folder(options["out"])
    file = out / f"{NAME}.jsonl"
    unfinished = Unfinished.of(out / f"{NAME}.{Path(source).name}.unfinished.jsonl", module.identity(kb, chosen))
    results = [result for result in unfinished.results if result.seed in chosen.masks]
    if results:
        teller.say(f"going on with a run that was stopped: {len(results)} results are there")
    fit = ResumedFit(options, unfinished.file.with_suffix(".kbdisk"), teller)
    for result in module.run(kb, chosen, fit, results, teller):
        results.append(stamped(result))
        append(file, results[-1])
        unfinished.add(results[-1])
        if result.method == "ours":
            fit.forget()
    unfinished.end()
    _print(results, options["as_json"])
    teller.say(f"stored in {file}")
    draw(NAME, out, teller)


def _options(options: dict[str, Any]) -> KBOptions:
    from kbdisk.bench.kb import KBOptions
    from kbdisk.training.schedule import seconds_of

    against = tuple(name.strip() for name in options["against"].split(",") if name.strip() and name.strip() != "none")
    if options["hidden"] is not None and not options["validation"] and options["masks"] and len(options["masks"]) > 1:
        raise ConfigError("--mask", "expected one with --hidden, whose values are the same for every mask.")
    return KBOptions(
        share=options["share"],
        masks=options["masks"] or (0,),
        hidden=options["hidden"],
        validation=options["validation"],
        against=against,
        ours=not options["not_ours"],
        preset=options["preset"],
        budget=options["budget"],
        seconds=seconds_of(options["budget"]) if options["budget"] else None,
        device=options["device"],
    )


class ResumedFit:
    """Trains the model by which `kbdisk complete` would fill entities; it goes on with one whose training was stopped."""

    def __init__(self, options: dict[str, Any], folder: Path, teller: Any) -> None:
        self.options, self.folder, self.teller = options, folder, teller

    def __call__(self, entities: list[Entity], seed: int) -> Model:
        from kbdisk.api.ownmodel import Wanted, own_model
        from kbdisk.api.reading import Reading

        options = self.options
        wanted = Wanted(preset=options["preset"], budget=options["budget"], seed=seed, device=options["device"])
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with training(options["quiet"], options["verbose"]) as watch:
            return own_model(Reading.of(entities), wanted, self.folder, self.teller.say, watch).model

    def forget(self) -> None:
        """Remove the model, whose figures are stored."""
        if self.folder.is_dir():
            shutil.rmtree(self.folder)


def _print(results: list[Result], as_json: bool) -> None:
    from kbdisk.bench.kb import summary, tables

    if as_json:
        from kbdisk.jsonio import dump_json

        with standard_output() as stream:
            stream.write(dump_json(summary(results)))
    else:
        show("\n\n".join(shown(table) for table in tables(results)) + "\n")


@click.command("generate")
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path))
@click.option(
    "--entities", metavar="N", type=click.IntRange(min=10), default=1500, show_default=True, help="How many entities."
)
@click.option(
    "--properties",
    metavar="N",
    type=click.IntRange(min=1),
    default=160,
    show_default=True,
    help="How many properties, relations and noise among them.",
)
@click.option(
    "--classes",
    metavar="N",
    type=click.IntRange(min=1),
    default=160,
    show_default=True,
    help="How many classes, in a hierarchy; an entity has several.",
)
@click.option(
    "--relations",
    metavar="N",
    type=click.IntRange(min=0),
    default=40,
    show_default=True,
    help="How many properties follow from others.",
)
@click.option(
    "--noise",
    metavar="N",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="How many properties depend on nothing.",
)
@click.option(
    "--exceptions",
    metavar="P",
    type=float,
    default=0.01,
    show_default=True,
    help="The share of a relation's values that break it.",
)
@click.option(
    "--missing", metavar="P", type=float, default=0.3, show_default=True, help="The share of values that are left out."
)
@click.option("--one-unit", is_flag=True, help="Each quantity in one unit, money in one currency.")
@click.option("--seed", metavar="N", type=int, default=0, show_default=True, help="Another seed is another source.")
@click.option("--force", is_flag=True, help="Replace OUT.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing.")
def bench_generate(out: Path, **options: Any) -> None:
    """Make a source of which the truth is known.

    Writes Turtle (OUT ends in .ttl) or JSON Lines (.jsonl), and beside it OUT.truth.json: the planted relations with
    their exceptions, the columns of noise, and all values, those that were left out among them.

    \b
    kbdisk bench generate made.ttl --seed 1
    kbdisk bench generate made.jsonl --entities 500 --properties 60 --relations 14
    """  # fmt: skip
    from kbdisk.bench.generator import GeneratorOptions, generate, refuse_name, write_generated
    from kbdisk.errors import WriteError

    refuse_name(out)
    names = ("entities", "properties", "classes", "relations", "noise", "exceptions", "missing", "seed")
    chosen = GeneratorOptions(**{name: options[name] for name in names}, mixed=not options["one_unit"])
    if out.exists() and not options["force"]:
        raise WriteError(str(out), "exists already. Say --force to replace it.")
    truth = write_generated(generate(chosen), out)
    teller_of(options["quiet"], verbose=False).say(f"wrote {out}, and the truth to {truth}")
