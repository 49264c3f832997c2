"""`kbdisk bench`: measures kbdisk on real data, and writes what was measured into docs/benchmarks.md."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from kbdisk.bench import opened
from kbdisk.cli.counting import counting
from kbdisk.cli.idle import on_command_line
from kbdisk.cli.screen import say, show
from kbdisk.cli.train import PRESETS
from kbdisk.cli.trainbar import training
from kbdisk.errors import ConfigError

if TYPE_CHECKING:
    from kbdisk.bench.base import Options, Table, Teller
    from kbdisk.bench.results import Result
    from kbdisk.bench.unfinished import Unfinished

RENDER = "render"
ALWAYS = frozenset({"seeds", "seed", "out", "quiet", "verbose"})  # what every bench is told
RENDERING = frozenset({"out", "page", "quiet"})
SAME = ("preset", "budget", "config", "validation", "split", "device", "samples", "draws", "judges", "real")
CHECKOUT, ELSEWHERE, PAGE = Path("benchmarks/results"), Path("results"), Path("docs/benchmarks.md")


SUMMARIES = {
    "gsm": "phones: each property told from the others (the main table)",
    "nuclear": "nuclei: from the others, and from z and n alone",
    "tabular": "synthetic tables, judged by a CatBoost that learns from them",
    "kb-numeric": "FB15k-237: numbers told from an entity's links",
    "curves": "the error by how much is given; whether samples hang together",
    "ablation": "gsm with one choice changed at a time, on validation",
    "two-moons": "the paper's figure: what one Gaussian cannot draw",
    RENDER: "docs/benchmarks.md from all that is stored",
}
OPTIONS = [
    click.option("--data", metavar="DIR", help="The folder of data.  [default: KBDISK_DATA, or ../shared/data]"),
    click.option(
        "--preset",
        type=click.Choice(PRESETS),
        default="default",
        show_default=True,
        help="What is trained, as of train.",
    ),
    click.option("--budget", metavar="TIME", help="Longest time of each training, such as 90s, 15m or 1h."),
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
    click.option("--against", metavar="NAMES", default="", help="Baselines to measure beside, such as constant,gbdt."),
    click.option(
        "--not-ours",
        is_flag=True,
        help="Train nothing of ours, of gsm, nuclear, kb-numeric: only what --against names.",
    ),
    click.option(
        "--only", metavar="NAMES", default="", help="Some data sets or variants, of benches that have several."
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
    click.option("-v", "--verbose", is_flag=True, help="Tell each look at what is held out."),
]


@click.group()
def bench() -> None:
    """Measure kbdisk on real data, beside the paper and other methods. A run that was stopped goes on when it is given again.

    Prints a table, adds a line of JSON for each result to OUT/NAME.jsonl, and draws OUT/NAME*.png. Choices are made
    with --validation; test is for the figures that are told.

    \b
    kbdisk bench kb kb.ttl --budget 2m
    kbdisk bench gsm --preset fast --seeds 1 --validation
    kbdisk bench gsm --against constant,gbdt
    kbdisk bench tabular --only abalone,diabetes --real
    kbdisk bench render
    """


def _add_command(name: str) -> None:
    """The command of one bench, or that renders all of them."""

    def command(context: click.RichContext, **options: Any) -> None:
        _run(context, name, **options)

    command.__doc__ = SUMMARIES[name][:1].upper() + SUMMARIES[name][1:] + "."
    wrapped: Any = click.pass_context(command)
    for option in reversed(OPTIONS):
        wrapped = option(wrapped)
    bench.add_command(click.command(name)(wrapped))


for _name in SUMMARIES:
    _add_command(_name)


def _run(context: click.RichContext, name: str, **options: Any) -> None:
    """Measure one bench, or render all that is stored."""
    takes = _takes(name)
    _refuse_idle(context, name, takes)
    out = results_folder(options["out"])
    if name == RENDER:
        from kbdisk.bench.pages import render

        found = render(out, Path(options["page"]))
        teller_of(options["quiet"], verbose=False).say(f"wrote {options['page']}: {', '.join(found)}")
        return
    from kbdisk.bench.base import data_folder

    data = data_folder(options["data"]) if "data" in takes else Path()
    _measure(name, out, _options(data, options), teller_of(options["quiet"], options["verbose"]))


def results_folder(told: str | None) -> Path:
    """Where results are: as told, in a checkout its own folder, else ./results."""
    return Path(told) if told else CHECKOUT if PAGE.is_file() else ELSEWHERE


def _takes(name: str) -> frozenset[str]:
    """The parameters that a bench heeds."""
    return RENDERING if name == RENDER else ALWAYS | opened(name).TAKES


def _refuse_idle(context: click.Context, bench_name: str, takes: Collection[str]) -> None:
    """ConfigError where something is told that would change nothing: figures must be of what was asked."""
    for name, option in on_command_line(context).items():
        if name not in takes:
            others = ", ".join(other for other in SUMMARIES if name in _takes(other))
            raise ConfigError(option, f"it changes nothing of {bench_name}: it is for {others}.")


def _options(data: Path, told: dict[str, Any]) -> Options:
    from kbdisk.bench.base import Options

    against, only = (tuple(one.strip() for one in told[name].split(",") if one.strip()) for name in ("against", "only"))
    if against:
        from kbdisk.evaluation import refuse_unknown

        refuse_unknown(against, "--against")
    if told["not_ours"] and not against:
        raise click.UsageError("--not-ours leaves nothing to measure: name something with --against.")
    seeds = tuple(range(told["seed"], told["seed"] + told["seeds"]))
    same = {key: told[key] for key in SAME}
    return Options(data, seeds=seeds, against=against, ours=not told["not_ours"], only=only, **same)


def _measure(name: str, out: Path, options: Options, teller: Teller) -> None:
    from kbdisk.bench.results import append, stamped

    of, file = opened(name), out / f"{name}.jsonl"
    unfinished = unfinished_of(name, out, options)
    found: list[Result] = list(unfinished.results)
    kept = unfinished.file.with_suffix(".kbdisk")
    done = frozenset((result.setting, result.method, result.seed) for result in found)
    if done:
        teller.say(f"going on with a run that was stopped: {len(found)} results are there")
    try:
        for result in of.run(replace(options, kept=kept, done=done), teller):
            found.append(stamped(result))
            append(file, found[-1])
            unfinished.add(found[-1])
        unfinished.end()
        shutil.rmtree(kept, ignore_errors=True)
    finally:
        if found:
            show("\n\n".join(shown(table) for table in of.tables(found)) + "\n")
    teller.say(f"stored in {file}")
    draw(name, out, teller)


def unfinished_of(name: str, out: Path, options: Options) -> Unfinished:
    """The results of the same run, if it was stopped: with the same options, of the same code."""
    from kbdisk.bench.kb import code_version
    from kbdisk.bench.unfinished import Unfinished

    config = Path(options.config).read_text("utf-8") if options.config and Path(options.config).is_file() else ""
    identity = hashlib.sha256("\n".join((repr(options), config, code_version())).encode()).hexdigest()
    return Unfinished.of(out / f"{name}.{identity[:12]}.unfinished.jsonl", identity)


def draw(name: str, out: Path, teller: Teller) -> None:
    """Draw all that is stored of a bench."""
    from kbdisk.bench.pages import pictures
    from kbdisk.bench.results import read

    try:
        drawn = opened(name).figure(read(out / f"{name}.jsonl"), out / f"{name}.png")
    except ConfigError as error:  # without matplotlib
        teller.say(f"no picture: {error.problem}")
    else:
        teller.say(f"drawn in {', '.join(map(str, pictures(out, name)))}" if drawn else "no picture: nothing to draw")


def shown(table: Table) -> str:
    """A table as lines that are as wide as it is: one that is cut tells nothing."""
    lines = [table.header, *table.rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    told = [table.title]
    for line in lines:
        first, *rest = (
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        told.append("  ".join([first, *rest]).rstrip())
    return "\n".join([*told, *table.notes])


def teller_of(quiet: bool, verbose: bool) -> Teller:
    from kbdisk.bench.base import Teller

    class Terminal(Teller):
        """Tells on standard error."""

        @contextlib.contextmanager
        def training(self, what: str) -> Iterator[Any]:
            self.say(what)
            with training(quiet, verbose) as watch:
                yield watch

        @contextlib.contextmanager
        def counting(self, what: str) -> Iterator[Any]:
            with counting(quiet, what) as told:
                yield told

        def say(self, line: str) -> None:
            if not quiet:
                say(line)

    return Terminal()
