"""The frontier: errors by time budget, of kbdisk, a CatBoost for each property, and an iterative imputer.

python benchmarks/frontier.py SOURCE --budget 10s [--mask 0]     one source, budget and mask
python benchmarks/frontier.py                                    the table and the picture of all that is stored

SOURCE is a file or one of: gsm, nuclei, wikilike-1500, laureates, mondial, countries. Values are hidden as by `kbdisk bench
kb` (15 % of the single values), and each method gets the same time on the same cores. A run that was stopped goes on
when the same command is given again.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from common import KINDS, Kept, command_line, groups, mean_ratio, out_option, print_tables, shown_ratio, source_file

import kbdisk
from kbdisk.bench.base import Table
from kbdisk.bench.kb import KBOptions, identity, refuse, run
from kbdisk.bench.pictures import MARKS, drawn
from kbdisk.bench.results import OURS, Result, read
from kbdisk.cli.bench import teller_of
from kbdisk.cli.benchkb import ResumedFit
from kbdisk.plots import COLOURS, GRID
from kbdisk.training.schedule import seconds_of

NAME = "frontier"
AGAINST = ("catboost", "iterative")
OVERRUN = 1.2  # times its budget: a method that takes longer is named beneath the table


def measure(source: str, budget: str, mask: int, out: Path, *, validation: bool, ours: bool, quiet: bool) -> None:
    """Each method within one budget, with one mask."""
    kb, teller = kbdisk.load(source_file(source)), teller_of(quiet, verbose=False)
    options = KBOptions(
        masks=(mask,),
        validation=validation,
        against=AGAINST,
        ours=ours,
        budget=budget,
        seconds=seconds_of(budget),
    )
    refuse(options)
    kept = Kept(out, NAME, (source, budget, mask, options.part), identity(kb, options))
    fit = ResumedFit(
        {"preset": "default", "budget": budget, "device": "auto", "quiet": quiet, "verbose": False}, kept.model, teller
    )
    for result in run(kb, options, fit, kept.results, teller):
        details = {**result.details, "budget": options.seconds}
        kept.add(replace(result, bench=NAME, setting=source, details=details))
        if result.method == OURS:
            fit.forget()
    kept.end()


def table(results: Sequence[Result]) -> list[Table]:
    """A row for each source, part, budget and method: errors of numbers and labels apart, and the seconds used."""
    rows = []
    for (source, part, budget, method), own in sorted(groups(results, _point).items(), key=_in_order):
        errors = [shown_ratio(mean_ratio(own, kinds)) for kinds in KINDS.values()]
        seconds = f"{statistics.fmean(result.seconds for result in own):.0f}"
        name = source if part == "test" else f"{source}, {part}"
        rows.append([name, f"{budget:g} s", method, *errors, seconds, str(len(own))])
    if not rows:
        return []
    header = ["source", "budget", "method", *KINDS, "seconds", "masks"]
    title = "Error over the constant's by time budget, mean over properties with 20 hidden values or more"
    return [Table(title, header, rows, list(_verdicts(results)))]


def _point(result: Result) -> tuple[str, str, float, str]:
    return result.setting, result.part, result.details["budget"], result.method


def _in_order(item: tuple[Any, Any]) -> tuple[Any, ...]:
    (source, part, budget, method), _ = item
    return source, part, budget, (OURS, *AGAINST).index(method)


def _verdicts(results: Sequence[Result]) -> list[str]:
    """For each budget, over all sources: whether ours is at or below the better of the others, by kind."""
    lines = []
    points = groups([result for result in results if result.part == "test"] or results, _point)
    for budget in sorted({point[2] for point in points}):
        words = []
        for kind in ("numbers", "labels"):
            pairs = []
            for source in sorted({point[:2] for point in points if point[2] == budget}):
                means = {m: mean_ratio(points.get((*source, budget, m), []), KINDS[kind]) for m in (OURS, *AGAINST)}
                if None not in means.values():
                    pairs.append((means[OURS], min(means[name] for name in AGAINST)))
            if pairs:
                ours, best = (statistics.fmean(side) for side in zip(*pairs, strict=True))
                words.append(f"{kind} {ours:.3f}, the better of the others {best:.3f} ({len(pairs)} sources)")
        if words:
            lines.append(f"{budget:g} s: ours, " + "; ".join(words) + ".")
    for (source, _, budget, method), own in points.items():
        seconds = statistics.fmean(result.seconds for result in own)
        if seconds > OVERRUN * budget:
            lines.append(f"{source}: {method} took {seconds:.0f} s of its {budget:g} s.")
    return lines


def picture(results: Sequence[Result], path: Path) -> bool:
    """A panel for each source and kind: the error of each method by its budget."""
    points = groups([result for result in results if result.part == "test"] or results, _point)
    sources = list(dict.fromkeys(point[0] for point in points))
    if not sources:
        return False

    def draw(figure: Any) -> None:
        from matplotlib.lines import Line2D

        panels = figure.subplots(len(sources), 2, squeeze=False)
        for row, source in zip(panels, sources, strict=True):
            for axes, kind in zip(row, ("numbers", "labels"), strict=True):
                for method, mark, colour in zip((OURS, *AGAINST), MARKS, COLOURS.values(), strict=False):
                    line = [
                        (point[2], value)
                        for point, own in sorted(points.items())
                        if (point[0], point[3]) == (source, method)
                        and (value := mean_ratio(own, KINDS[kind])) is not None
                    ]
                    if line:
                        axes.plot(*zip(*line, strict=True), marker=mark, color=colour)
                if not axes.lines:  # it has no labels, or no numbers
                    axes.axis("off")
                    continue
                axes.set_xscale("log")
                budgets = sorted({point[2] for point in points if point[0] == source})
                axes.set_xticks(budgets, [f"{budget:g} s" for budget in budgets])
                axes.set_xlim(budgets[0] / 1.5, budgets[-1] * 1.5)
                axes.minorticks_off()
                axes.grid(axis="both", color=GRID, linewidth=0.8)
                axes.set_title(f"{Path(source).name}, {kind}", loc="left", fontsize=10)
                axes.set_ylabel("error / constant's")
        looks = zip((OURS, *AGAINST), MARKS, COLOURS.values(), strict=False)
        shown = [Line2D([], [], marker=mark, color=colour, label=method) for method, mark, colour in looks]
        figure.legend(handles=shown, frameon=False, ncols=len(shown), loc="outside upper right")

    drawn(path, 8, 2.6 * len(sources) + 0.4, draw)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="?")
    parser.add_argument("--budget", default="60s", help="of each method, such as 10s, 60s or 5m")
    parser.add_argument("--mask", type=int, default=0, help="which values are hidden, and the seed of training")
    parser.add_argument("--validation", action="store_true", help="hide once more within what is given, and score that")
    parser.add_argument("--not-ours", action="store_true", help="measure the others alone")
    parser.add_argument("--quiet", action="store_true")
    out_option(parser)
    arguments = parser.parse_args()
    if arguments.source is not None:
        measure(
            arguments.source,
            arguments.budget,
            arguments.mask,
            arguments.out,
            validation=arguments.validation,
            ours=not arguments.not_ours,
            quiet=arguments.quiet,
        )
    results = read(arguments.out / f"{NAME}.jsonl")
    print_tables(table(results))
    picture(results, arguments.out / f"{NAME}.png")


if __name__ == "__main__":
    command_line(main)
