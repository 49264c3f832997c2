"""The command line: `python -m benchmarks`. A command parses, calls a benchmark, stores and prints its results."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Collection, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from benchmarks import BENCHES, SCRIPTS, load_bench
from benchmarks.progress import Progress, TerminalProgress
from benchmarks.script import names_of
from kbdisk.cli.main import Commands
from kbdisk.cli.options import given_parameters, open_source, source_options
from kbdisk.cli.screen import show
from kbdisk.cli.train import PRESETS
from kbdisk.errors import ConfigError, WriteError
from kbdisk.loaders.files import standard_output

if TYPE_CHECKING:
    from benchmarks.base import Options, Table
    from benchmarks.kb import KBOptions
    from benchmarks.results import Result, StoredRun

RENDER, KB = "render", "kb"
ALWAYS = frozenset({"seeds", "seed", "out", "quiet", "verbose"})  # options that every benchmark uses
RENDERING = frozenset({"out", "page", "quiet"})
SAME = ("preset", "budget", "config", "validation", "split", "device", "samples", "draws", "judges", "real")
CHECKOUT, ELSEWHERE, PAGE = Path("benchmarks/results"), Path("results"), Path("docs/benchmarks.md")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.rich_config({"text_paragraph_linebreaks": "\n\n"})
def main() -> None:
    """Measure kbdisk on real data, beside the paper and other methods. A run that was stopped goes on when it is given again.

    Prints a table, adds a line of JSON for each result to OUT/NAME.jsonl, and draws OUT/NAME*.png. Choices are made
    with --validation; test is for the figures that are published.

    \b
    python -m benchmarks kb kb.ttl --budget 2m
    python -m benchmarks gsm --preset fast --seeds 1 --validation
    python -m benchmarks gsm --methods ours,constant,gbdt
    python -m benchmarks tabular --only abalone,diabetes --real
    python -m benchmarks render
    """


# ---------------------------------------------------------------- benchmarks of the data


OPTIONS = [
    click.option("--data", metavar="DIR", help="The folder of data.  [default: KBDISK_DATA, or ../shared/data]"),
    click.option(
        "--preset",
        type=click.Choice(PRESETS),
        default="default",
        show_default=True,
        help="What is trained, as of train.",
    ),
    click.option(
        "--budget",
        metavar="TIME",
        help="Longest time of each training, and of each peer, such as 90s or 15m; baselines have no limit.",
    ),
    click.option("--config", metavar="FILE", help="A run file, TOML: whatever else can be chosen, over the preset."),
    click.option(
        "--seeds", metavar="N", type=click.IntRange(min=1), default=3, show_default=True, help="How many are trained."
    ),
    click.option(
        "--seed", metavar="N", type=click.IntRange(min=0), default=0, show_default=True, help="The first seed."
    ),
    click.option(
        "--split",
        metavar="SPLIT",
        default="paper",
        show_default=True,
        help="Of gsm: paper, names or random; of nuclear, curves and tabular: paper or random.",
    ),
    click.option(
        "--validation",
        is_flag=True,
        help="Score on a tenth of what is trained on (of tabular: on its validation part); leave test alone.",
    ),
    click.option(
        "--methods",
        metavar="NAMES",
        default="ours",
        show_default=True,
        help="What is measured, with commas between: ours, baselines such as gbdt, peers such as lm-scratch; or all.",
    ),
    click.option(
        "--only", metavar="NAMES", default="", help="Some data sets or variants, of benchmarks that have several."
    ),
    click.option(
        "--samples",
        metavar="N",
        type=click.IntRange(min=1),
        help="Of tabular: rows of each set that is drawn.  [default: 24 times those of train, 50,000 to 400,000]",
    ),
    click.option(
        "--draws", metavar="N", type=click.IntRange(min=1), default=5, show_default=True, help="Of tabular: sets drawn."
    ),
    click.option(
        "--judges",
        metavar="N",
        type=click.IntRange(min=1),
        default=10,
        show_default=True,
        help="Of tabular: of each set.",
    ),
    click.option("--real", is_flag=True, help="Of tabular: train nothing, only judge the real rows."),
    click.option(
        "--out", metavar="DIR", help="Where results are.  [default: benchmarks/results in a checkout, or results]"
    ),
    click.option("--page", metavar="FILE", default=str(PAGE), show_default=True, help="Of render: the page to write."),
    click.option("--device", metavar="DEVICE", default="auto", show_default=True, help="auto, cpu, cuda."),
    click.option("-q", "--quiet", is_flag=True, help="No progress."),
    click.option("-v", "--verbose", is_flag=True, help="Show each validation during training."),
]


def _add_bench(name: str, summary: str) -> None:
    """The command of one benchmark, or that renders all of them."""

    def command(context: click.RichContext, **options: Any) -> None:
        _run(context, name, **options)

    command.__doc__ = summary
    wrapped: Any = click.pass_context(command)
    for option in reversed(OPTIONS):
        wrapped = option(wrapped)
    main.add_command(click.command(name)(wrapped))


for _name, _bench in BENCHES.items():
    if _name != KB:
        _add_bench(_name, _bench.summary)
_add_bench(RENDER, "The tables of docs/benchmarks.md from all that is stored.")


def _run(context: click.RichContext, name: str, **options: Any) -> None:
    """Run one benchmark, or render all that is stored."""
    used = _used_options(name)
    _refuse_unused(context, name, used)
    out = results_folder(options["out"])
    if name == RENDER:
        from benchmarks.render import render

        rendered = render(out, Path(options["page"]))
        TerminalProgress(options["quiet"]).say(f"wrote {options['page']}: {', '.join(rendered)}")
        return
    from benchmarks.data import data_folder

    data = data_folder(options["data"]) if "data" in used else Path()
    progress = TerminalProgress(options["quiet"], options["verbose"])
    _measure(name, out, _bench_options(name, data, options, progress), progress)


def results_folder(folder: str | None) -> Path:
    """Where results are: the folder of --out, in a checkout its own, else ./results."""
    return Path(folder) if folder else CHECKOUT if PAGE.is_file() else ELSEWHERE


def _used_options(name: str) -> frozenset[str]:
    """The parameters that a benchmark uses."""
    return RENDERING if name == RENDER else ALWAYS | BENCHES[name].options


def _refuse_unused(context: click.Context, bench_name: str, used: Collection[str]) -> None:
    """ConfigError for an option that would have no effect."""
    names = [*(name for name in BENCHES if name != KB), RENDER]
    for name, option in given_parameters(context).items():
        if name not in used:
            others = ", ".join(other for other in names if name in _used_options(other))
            raise ConfigError(option, f"it changes nothing of {bench_name}: it is for {others}.")


def _bench_options(name: str, data: Path, options: dict[str, Any], progress: Progress) -> Options:
    from benchmarks.base import Options
    from benchmarks.methods import METHODS

    methods = METHODS[name]().chosen(options["methods"], progress.say) if name in METHODS else ("ours",)
    seeds = tuple(range(options["seed"], options["seed"] + options["seeds"]))
    same = {key: options[key] for key in SAME}
    return Options(data, seeds=seeds, methods=methods, only=names_of(options["only"]), **same)


def _measure(name: str, out: Path, options: Options, progress: Progress) -> None:
    bench, run = load_bench(name), stored_run(name, out, options)
    results = list(run.results)
    done = frozenset((result.setting, result.method, result.seed) for result in results)
    if done:
        _say_resumed(results, progress)
    try:
        for result in bench.run(replace(options, kept=run.model, done=done), progress):
            results.append(run.add(result))
        run.end()
        shutil.rmtree(run.model, ignore_errors=True)
    finally:
        if results:
            _show(bench.tables(results))
    progress.say(f"stored in {run.file}")
    _draw(name, out, progress)


def stored_run(name: str, out: Path, options: Options) -> StoredRun:
    """The run of a benchmark, with its results if it was stopped: with the same options, of the same code."""
    from benchmarks.peers.registry import weights_of
    from benchmarks.results import StoredRun, code_version

    config = Path(options.config).read_text("utf-8") if options.config and Path(options.config).is_file() else ""
    parts = (repr(options), config, repr(weights_of(options.methods)), code_version())
    identity = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return StoredRun(out, name, identity[:12], identity)


def _say_resumed(results: Sequence[Result], progress: Progress) -> None:
    progress.say(f"going on with a run that was stopped: {len(results)} results are there")


def _show(tables: Sequence[Table]) -> None:
    from benchmarks.tables import as_text

    show("\n\n".join(map(as_text, tables)) + "\n")


def _draw(name: str, out: Path, progress: Progress) -> None:
    """Draw all that is stored of a benchmark."""
    from benchmarks.render import plots_of
    from benchmarks.results import read

    try:
        is_drawn = load_bench(name).figure(read(out / f"{name}.jsonl"), out / f"{name}.png")
    except ConfigError as error:  # without matplotlib
        progress.say(f"no picture: {error.problem}")
    else:
        files = ", ".join(map(str, plots_of(name, out)))
        progress.say(f"drawn in {files}" if is_drawn else "no picture: nothing to draw")


# ---------------------------------------------------------------- any knowledge base


@main.command(KB)
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
    help="Methods beside ours that fill values, as peers lists them. Commas between them; none for ours alone.",
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
@source_options
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@click.option("-v", "--verbose", is_flag=True, help="Show each validation during training.")
@click.pass_context
def kb(context: click.RichContext, /, source: str, **options: Any) -> None:
    """Any knowledge base: hide values, complete it, compare the errors.

    A share of the single values of SOURCE is hidden (never ids, types or names). kbdisk completes it as kbdisk complete
    --fill all does; a CatBoost for each property, with an entity's other values, types and commonest links as features,
    does the same. The table has the error over the constant's (median, commonest label) of each property.

    A run that was stopped goes on where it was when the same command is given again.

    \b
    python -m benchmarks kb kb.ttl --budget 2m
    python -m benchmarks kb kb.ttl --mask 0 --mask 1 --mask 2 --against catboost,iterative
    python -m benchmarks kb kb.ttl.gz --hidden kb.hidden.tsv.gz --budget 5m
    """  # fmt: skip
    from benchmarks import kb as bench
    from benchmarks.results import OURS, StoredRun

    chosen = _kb_options(options)
    bench.refuse(chosen)
    progress = TerminalProgress(options["quiet"], options["verbose"])
    entities = open_source(source, options)
    out = results_folder(options["out"])
    run = StoredRun(out, KB, Path(source).name, bench.identity(entities, chosen))
    results = [result for result in run.results if result.seed in chosen.masks]
    if results:
        _say_resumed(results, progress)
    fit = bench.ResumedFit(run.model, progress, chosen.budget, chosen.preset, chosen.device)
    for result in bench.run(entities, chosen, fit, results, progress):
        results.append(run.add(result))
        if result.method == OURS:
            fit.forget()
    run.end()
    if options["as_json"]:
        from kbdisk.jsonio import dump_json

        with standard_output() as stream:
            stream.write(dump_json(bench.summary(results)))
    else:
        _show(bench.tables(results))
    progress.say(f"stored in {run.file}")
    _draw(KB, out, progress)


def _kb_options(options: dict[str, Any]) -> KBOptions:
    from benchmarks.kb import KBOptions
    from kbdisk.training.schedule import seconds_of

    against = tuple(name for name in names_of(options["against"]) if name != "none")
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


@main.command("generate")
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
def generate(out: Path, **options: Any) -> None:
    """Make a source of which the truth is known.

    Writes Turtle (OUT ends in .ttl) or JSON Lines (.jsonl), and beside it OUT.truth.json: the planted relations with
    their exceptions, the columns of noise, and all values, those that were left out among them.

    \b
    python -m benchmarks generate made.ttl --seed 1
    python -m benchmarks generate made.jsonl --entities 500 --properties 60 --relations 14
    """  # fmt: skip
    from benchmarks import generator

    generator.refuse_name(out)
    names = ("entities", "properties", "classes", "relations", "noise", "exceptions", "missing", "seed")
    chosen = generator.GeneratorOptions(**{name: options[name] for name in names}, mixed=not options["one_unit"])
    if out.exists() and not options["force"]:
        raise WriteError(str(out), "exists already. Say --force to replace it.")
    truth = generator.write_generated(generator.generate(chosen), out)
    TerminalProgress(options["quiet"]).say(f"wrote {out}, and the truth to {truth}")


@main.command("world")
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path))
@click.option(
    "--entities",
    metavar="N",
    type=click.IntRange(min=100, max=1_000_000_000),
    default=10_000,
    show_default=True,
    help="How many entities.",
)
@click.option(
    "--shards",
    metavar="K",
    type=click.IntRange(min=1, max=99_999),
    help="Write K files into the folder OUT: part-00000.jsonl and so on.  [default: one file]",
)
@click.option("--seed", metavar="N", type=int, default=0, show_default=True, help="Another seed is another source.")
@click.option("--force", is_flag=True, help="Replace OUT.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing.")
def world(out: Path, **options: Any) -> None:
    """Make a source of any size of which the truth is known.

    Writes JSON Lines (OUT ends in .jsonl) or N-Triples (.nt), compressed if it ends in .gz, .bz2 or .zst as well. Memory
    does not grow with N. Beside OUT it writes OUT.hidden.tsv, the values that are missing, for kb --hidden, and
    OUT.world.json: of each property its gaps, the least error of any predictor, and that of the constant.

    \b
    python -m benchmarks world world.jsonl --entities 1000000
    python -m benchmarks world world.nt.gz --entities 10000000 --shards 64
    python -m benchmarks kb world.jsonl --hidden world.jsonl.hidden.tsv
    """  # fmt: skip
    from benchmarks.world import World
    from benchmarks.world_files import WorldFiles

    files = WorldFiles(World(options["entities"], options["seed"]), out, options["shards"])
    if not options["force"]:
        files.refuse_existing()
    progress = TerminalProgress(options["quiet"])
    with progress.counting(out.name) as report:
        files.write(report)
    progress.say(f"wrote {out}, hidden values beside it, and what is known to {files.description}")


# ---------------------------------------------------------------- benchmarks with a command line of their own


def _add_script(name: str, module: str, summary: str) -> None:
    """A command that hands its arguments, --help among them, to the `main` of a module."""

    @main.command(name, help=summary, add_help_option=False, context_settings={"ignore_unknown_options": True})
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def command(arguments: tuple[str, ...]) -> None:
        import_module(module).main(arguments)


for _name, _script in SCRIPTS.items():
    _add_script(_name, *_script)
