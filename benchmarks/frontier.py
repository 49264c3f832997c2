"""The frontier: errors by time budget, of kbdisk, a CatBoost for each property, and an iterative imputer.

python -m benchmarks frontier SOURCE --budget 10s [--mask 0]     one source, budget and mask
python -m benchmarks frontier                                    the table and the plot of all that is stored

SOURCE is a file or one of: gsm, nuclei, wikilike-1500, laureates, mondial, countries. Values are hidden as by
`python -m benchmarks kb` (15 % of the single values), and each method gets the same time on the same cores. The same command
resumes a run that was stopped.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import kbdisk
from benchmarks.base import Table
from benchmarks.data import source_file
from benchmarks.kb import KINDS, KBOptions, ResumedFit, identity, mean_ratio, refuse, run
from benchmarks.plots import MARKERS, save_plot
from benchmarks.progress import TerminalProgress
from benchmarks.results import OURS, Result, StoredRun, group_latest, read
from benchmarks.script import add_out_option, argument_parser
from benchmarks.tables import print_tables, ratio_cell
from kbdisk.api.plots import COLOURS, GRID
from kbdisk.training.schedule import seconds_of

NAME = "frontier"
AGAINST = ("catboost", "iterative")
OVERRUN = 1.2  # times its budget: a method that takes longer is named beneath the table


def measure(source: str, budget: str, mask: int, out: Path, *, validation: bool, ours: bool, quiet: bool) -> None:
    """Each method within one budget, with one mask."""
    kb, progress = kbdisk.load(source_file(source)), TerminalProgress(quiet)
    options = KBOptions(
        masks=(mask,),
        validation=validation,
        against=AGAINST,
        ours=ours,
        budget=budget,
        seconds=seconds_of(budget),
    )
    refuse(options)
    stored_run = StoredRun.of(out, NAME, (source, budget, mask, options.part), identity(kb, options))
    fit = ResumedFit(stored_run.model, progress, budget)
    for result in run(kb, options, fit, stored_run.results, progress):
        details = {**result.details, "budget": options.seconds}
        stored_run.add(replace(result, bench=NAME, setting=source, details=details))
        if result.method == OURS:
            fit.forget()
    stored_run.end()


def table(results: Sequence[Result]) -> list[Table]:
    """A row for each source, part, budget and method: errors of numbers and labels apart, and the seconds used."""
    rows = []
    for (source, part, budget, method), group in sorted(group_latest(results, _point).items(), key=_in_order):
        errors = [ratio_cell(mean_ratio(group, kinds)) for kinds in KINDS.values()]
        seconds = f"{statistics.fmean(result.seconds for result in group):.0f}"
        name = source if part == "test" else f"{source}, {part}"
        rows.append([name, f"{budget:g} s", method, *errors, seconds, str(len(group))])
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
    points = group_latest([result for result in results if result.part == "test"] or results, _point)
    for budget in sorted({point[2] for point in points}):
        words = []
        for kind in ("numbers", "labels"):
            pairs = []
            for source in sorted({point[:2] for point in points if point[2] == budget}):
                means = {
                    method: mean_ratio(points.get((*source, budget, method), []), KINDS[kind])
                    for method in (OURS, *AGAINST)
                }
                known = {method: mean for method, mean in means.items() if mean is not None}
                if known.keys() == means.keys():
                    pairs.append((known[OURS], min(known[method] for method in AGAINST)))
            if pairs:
                ours, best = (statistics.fmean(side) for side in zip(*pairs, strict=True))
                words.append(f"{kind} {ours:.3f}, the better of the others {best:.3f} ({len(pairs)} sources)")
        if words:
            lines.append(f"{budget:g} s: ours, " + "; ".join(words) + ".")
    for (source, _, budget, method), group in points.items():
        seconds = statistics.fmean(result.seconds for result in group)
        if seconds > OVERRUN * budget:
            lines.append(f"{source}: {method} took {seconds:.0f} s of its {budget:g} s.")
    return lines


def plot(results: Sequence[Result], path: Path) -> bool:
    """A panel for each source and kind: the error of each method by its budget."""
    points = group_latest([result for result in results if result.part == "test"] or results, _point)
    sources = list(dict.fromkeys(point[0] for point in points))
    if not sources:
        return False

    def draw(figure: Any) -> None:
        from matplotlib.lines import Line2D

        panels = figure.subplots(len(sources), 2, squeeze=False)
        for row, source in zip(panels, sources, strict=True):
            for axes, kind in zip(row, ("numbers", "labels"), strict=True):
                for method, marker, colour in zip((OURS, *AGAINST), MARKERS, COLOURS.values(), strict=False):
                    line = [
                        (point[2], value)
                        for point, group in sorted(points.items())
                        if (point[0], point[3]) == (source, method)
                        and (value := mean_ratio(group, KINDS[kind])) is not None
                    ]
                    if line:
                        axes.plot(*zip(*line, strict=True), marker=marker, color=colour)
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
        styles = zip((OURS, *AGAINST), MARKERS, COLOURS.values(), strict=False)
        shown = [Line2D([], [], marker=marker, color=colour, label=method) for method, marker, colour in styles]
        figure.legend(handles=shown, frameon=False, ncols=len(shown), loc="outside upper right")

    save_plot(path, 8, 2.6 * len(sources) + 0.4, draw)
    return True


def main(argv: Sequence[str]) -> None:
    parser = argument_parser("frontier", __doc__)
    parser.add_argument("source", nargs="?")
    parser.add_argument("--budget", default="60s", help="of each method, such as 10s, 60s or 5m")
    parser.add_argument("--mask", type=int, default=0, help="which values are hidden, and the seed of training")
    parser.add_argument("--validation", action="store_true", help="hide once more within what is given, and score that")
    parser.add_argument("--not-ours", action="store_true", help="measure the others alone")
    parser.add_argument("--quiet", action="store_true")
    add_out_option(parser)
    arguments = parser.parse_args(argv)
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
    plot(results, arguments.out / f"{NAME}.png")
