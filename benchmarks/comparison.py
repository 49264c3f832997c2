"""Comparison: errors on hidden values and seconds, of kbdisk and of other methods within the same time.

python -m benchmarks comparison SOURCE --budget 10s [--mask 0]     one source, budget and mask
python -m benchmarks comparison                                    the tables and the plot of all that is stored
python -m benchmarks comparison --page docs/comparison.md          the same, with links and drawn rows, written into a page

SOURCE is a file or one of: gsm, nuclei, wikilike-1500, laureates, mondial, countries. Values are hidden as by
`python -m benchmarks kb` (15 % of the single values). Methods are ours and all installed peers that fill values (`python -m
benchmarks peers`); each gets the same time on the same cores. What a method refuses is stored, too. The same command resumes a run
that was stopped.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import kbdisk
from benchmarks import gsm, links, nuclear, tabular
from benchmarks.base import Table
from benchmarks.data import source_file
from benchmarks.kb import KINDS, KBOptions, ResumedFit, details_of, identity, mean_ratio, refuse, run
from benchmarks.masking import ANY
from benchmarks.peers import FILLS, PEERS, registry
from benchmarks.peers.environments import missing
from benchmarks.peers.protocol import FILL, FIT, PeerError
from benchmarks.plots import MARKERS, save_plot
from benchmarks.progress import TerminalProgress
from benchmarks.render import markdown, picture_line, text_around, write_between
from benchmarks.results import OURS, Result, StoredRun, group_latest, read
from benchmarks.script import add_out_option, argument_parser
from benchmarks.tables import MEMORY_NOTE, NO_USAGE, USAGE_HEADER, print_tables, ratio_cell, usage_cells
from kbdisk.api.plots import COLOURS, GRID
from kbdisk.evaluation import BASELINES
from kbdisk.training.schedule import seconds_of

NAME = "comparison"
SORTS: dict[str, Callable[[str, str], bool]] = {  # of values, by the name and the kind of their property
    "numbers": lambda name, kind: kind == "number" and ANY not in name,
    "labels": lambda name, kind: kind == "label" and ANY not in name,
    "within lists": lambda name, kind: ANY in name,
}
KEPT = ("kind", "filled", "took", "intervals")  # of the details of a result: the error of each value is left out
LEAST_DRAWN, MOST_DRAWN = 0.01, 2.0  # times the constant's error: smaller and larger errors are drawn there
OVERRUN = 1.2  # times its budget: a method that takes longer is named beneath the table
Point = tuple[str, str, float, str]  # source, part, budget, method


def methods_of(only: str, progress: TerminalProgress) -> tuple[str, ...]:
    """The methods that are named, or ours and all that are installed; the others are reported with the reason."""
    if only:
        names = tuple(name.strip() for name in only.split(","))
        registry.refuse([name for name in names if name != OURS], FILLS, "--only")
        return names
    problems = {name: missing(name) for name in registry.able(FILLS)}
    for name, problem in problems.items():
        if problem:
            progress.say(f"without {name}: {problem}")
    return (OURS, *(name for name, problem in problems.items() if not problem))


def measure(source: str, budget: str, mask: int, out: Path, only: str, *, validation: bool, quiet: bool) -> None:
    """Each method within one budget, with one mask."""
    kb, progress = kbdisk.load(source_file(source)), TerminalProgress(quiet)
    methods = methods_of(only, progress)
    others = tuple(method for method in methods if method != OURS)
    options = KBOptions(
        masks=(mask,),
        validation=validation,
        against=others,
        ours=OURS in methods,
        budget=budget,
        seconds=seconds_of(budget),
    )
    refuse(options)
    name = Path(source).name
    stored_run = StoredRun.of(out, NAME, (name, budget, mask, options.part), identity(kb, options))
    fit = ResumedFit(stored_run.model, progress, budget)
    known = {result.method for result in stored_run.results}
    for method in methods:
        if method in known:
            continue
        is_ours = method == OURS
        chosen = replace(options, against=() if is_ours else (method,), ours=is_ours)
        try:
            (result,) = run(kb, chosen, fit, [], progress)
        except PeerError as error:
            result = _refused(method, chosen, mask, error)
            progress.say(str(error))
        details = {name: result.details[name] for name in KEPT if name in result.details}
        details["budget"] = options.seconds
        stored_run.add(replace(result, bench=NAME, setting=name, details=details))
        if is_ours:
            fit.forget()
    stored_run.end()


def _refused(method: str, options: KBOptions, mask: int, error: PeerError) -> Result:
    """The result of a method that could not fill the source: no figures, and the reason."""
    return Result(
        NAME, method, [], seed=mask, split=options.split, part=options.part, told=f" + {options.budget}",
        details=details_of({}, {"cannot": error.problem}),
    )  # fmt: skip


# ---------------------------------------------------------------- tables


def tables(results: Sequence[Result]) -> list[Table]:
    """The errors and seconds, what each method used, and what it can do."""
    points = group_latest(results, _point)
    if not points:
        return []
    uses_are_known = any(_usage_cells(group) != NO_USAGE for group in points.values())
    return [_errors(points), *([_uses(points)] if uses_are_known else []), _abilities(points), _versions(points)]


def _point(result: Result) -> Point:
    return result.setting, result.part, result.details["budget"], result.method


def in_order(methods: Iterator[str]) -> list[str]:
    """Methods without repetition, ours first, then as in the table of peers."""
    order = [OURS, *PEERS]
    return sorted(set(methods), key=lambda method: (order.index(method) if method in order else len(order), method))


def _sorted(points: Mapping[Point, list[Result]]) -> list[tuple[Point, list[Result]]]:
    order = in_order(method for *_, method in points)
    return sorted(points.items(), key=lambda item: (*item[0][:3], order.index(item[0][3])))


def _errors(points: Mapping[Point, list[Result]]) -> Table:
    """A row for each source, part, budget and method: errors of numbers and labels apart, and the seconds used."""
    has_intervals = any(_coverage(group) for group in points.values())
    rows = []
    for (source, part, budget, method), group in _sorted(points):
        errors = [ratio_cell(mean_ratio(group, kinds)) for kinds in KINDS.values()]
        covered = [_coverage(group)] if has_intervals else []
        phases = [_seconds(group, phase) for phase in (FIT, FILL)]
        total = f"{statistics.fmean(result.seconds for result in group):.0f}"
        name = _source_cell(source, part)
        rows.append([name, f"{budget:g} s", method, *errors, *covered, *phases, total, str(len(group))])
    covered = ["within 90 % intervals"] if has_intervals else []
    header = ["source", "budget", "method", *KINDS, *covered, "fit, s", "fill, s", "all, s", "masks"]
    title = "Error over the constant's, mean over properties with 20 hidden values or more"
    return Table(title, header, rows, [*_verdicts(points), *_remarks(points)])


def _source_cell(source: str, part: str) -> str:
    return source if part == "test" else f"{source}, {part}"


def _coverage(results: Sequence[Result]) -> str:
    """The share of hidden numbers within their intervals, of those that have one; nothing where none has."""
    counts = [result.details["intervals"] for result in results if "intervals" in result.details]
    total = sum(count["of"] for count in counts)
    return f"{sum(count['covered'] for count in counts) / total:.0%} of {total:,}" if total else ""


def _uses(points: Mapping[Point, list[Result]]) -> Table:
    """CPU seconds and memory of each method: means over masks, and the most memory."""
    rows = [
        [_source_cell(source, part), f"{budget:g} s", method, *_usage_cells(group)]
        for (source, part, budget, method), group in _sorted(points)
    ]
    notes = [MEMORY_NOTE]
    return Table("What each method used", ["source", "budget", "method", *USAGE_HEADER], rows, notes)


def _usage_cells(results: Sequence[Result]) -> list[str]:
    return usage_cells([result.details["took"] for result in results])


def _seconds(results: Sequence[Result], phase: str) -> str:
    seconds = [result.details["took"][phase] for result in results if phase in result.details["took"]]
    return f"{statistics.fmean(seconds):.1f}" if seconds else ""


def _verdicts(points: Mapping[Point, list[Result]]) -> Iterator[str]:
    """For each budget, over all sources: whether ours is at or below the best of the others, by kind."""
    parts = {point[1] for point in points}
    part = "test" if "test" in parts else min(parts)
    for budget in sorted({point[2] for point in points if point[1] == part}):
        words = []
        for kind in ("numbers", "labels"):
            pairs = []
            for source in sorted({point[0] for point in points if point[1:3] == (part, budget)}):
                means = {
                    point[3]: mean
                    for point, group in points.items()
                    if point[:3] == (source, part, budget) and (mean := mean_ratio(group, KINDS[kind])) is not None
                }
                others = [mean for method, mean in means.items() if method != OURS]
                if OURS in means and others:
                    pairs.append((means[OURS], min(others)))
            if pairs:
                ours, best = (statistics.fmean(side) for side in zip(*pairs, strict=True))
                words.append(f"{kind} {ours:.3f}, the best of the others {best:.3f} ({len(pairs)} sources)")
        if words:
            yield f"{budget:g} s: ours, " + "; ".join(words) + "."


def _remarks(points: Mapping[Point, list[Result]]) -> Iterator[str]:
    """Which methods took too long, and what they refused."""
    for (source, _, budget, method), group in _sorted(points):
        seconds = statistics.fmean(result.seconds for result in group)
        if seconds > OVERRUN * budget:
            yield f"{source}: {method} took {seconds:.0f} s of its {budget:g} s."
        for problem in dict.fromkeys(result.details["took"].get("cannot") for result in group):
            if problem:
                yield f"{source}: {method} cannot: {problem}"


def _abilities(points: Mapping[Point, list[Result]]) -> Table:
    """What share of the hidden values each method filled, of all sources, by the sort of value."""
    rows = []
    for method in in_order(method for *_, method in points):
        results = [result for point, group in points.items() if point[3] == method for result in group]
        rows.append([method, *(_filled_share(results, sort) for sort in SORTS)])
    note = (
        "A value that a method leaves out counts as the constant's. Within lists means values in the parts of a list."
    )
    return Table(
        "What each method filled: the share of hidden values, checked by running", ["method", *SORTS], rows, [note]
    )


def _filled_share(results: Sequence[Result], sort: str) -> str:
    hidden = filled = 0
    for result in results:
        for row in result.rows:
            if SORTS[sort](row.name, result.details["kind"][row.name]):
                hidden, filled = hidden + row.n, filled + result.details["filled"][row.name]
    return f"{filled / hidden:.0%}" if hidden else ""


def _versions(points: Mapping[Point, list[Result]]) -> Table:
    """What each method is, its packages, and its settings in the latest run."""
    rows = []
    for method in in_order(method for *_, method in points):
        results = [result for point, group in points.items() if point[3] == method for result in group]
        latest = max(results, key=lambda result: result.facts.get("date", ""))
        took = latest.details["took"]
        packages = took.get("versions", {}) or {"kbdisk": latest.facts.get("kbdisk", "")}
        settings = {name: value for name, value in took.items() if isinstance(value, int | float)}
        shown = [f"{name} {value:g}" for name, value in settings.items() if name not in (FIT, FILL, "seconds")]
        summary = PEERS[method].summary if method in PEERS else "kbdisk complete --fill all."
        versions = ", ".join(f"{package} {number}" for package, number in packages.items())
        rows.append([method, summary, versions, ", ".join(shown), latest.facts.get("commit", "")])
    return Table("The methods", ["method", "what it is", "versions", "settings of the latest run", "commit"], rows)


# ---------------------------------------------------------------- the figure


def plot(results: Sequence[Result], path: Path) -> bool:
    """A panel for each source and kind: the error of each method against the seconds that it took."""
    parts = [result for result in results if result.part == "test"] or results
    points = group_latest(parts, _point)
    sources = list(dict.fromkeys(point[0] for point in points))
    methods = in_order(method for *_, method in points)
    if not sources:
        return False
    colours = list(COLOURS.values())
    styles = {
        method: (MARKERS[place % len(MARKERS)], colours[place % len(colours)]) for place, method in enumerate(methods)
    }

    def draw(figure: Any) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.ticker import LogLocator

        panels = figure.subplots(len(sources), 2, squeeze=False)
        for row, source in zip(panels, sources, strict=True):
            for axes, kind in zip(row, ("numbers", "labels"), strict=True):
                for method, (marker, colour) in styles.items():
                    line = [
                        (statistics.fmean(result.seconds for result in group), min(max(value, LEAST_DRAWN), MOST_DRAWN))
                        for point, group in sorted(points.items())
                        if (point[0], point[3]) == (source, method)
                        and (value := mean_ratio(group, KINDS[kind])) is not None
                    ]
                    if line:
                        axes.plot(*zip(*line, strict=True), marker=marker, color=colour)
                if not axes.lines:  # it has no labels, or no numbers
                    axes.axis("off")
                    continue
                axes.set_xscale("symlog", linthresh=1)
                axes.set_yscale("log")  # one method that is far off would press all others together
                axes.yaxis.set_minor_locator(LogLocator(subs=(2, 3, 4, 6, 8)))
                for format_ticks in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
                    format_ticks("{x:g}")
                axes.grid(axis="both", color=GRID, linewidth=0.8)
                axes.set_title(f"{source}, {kind}", loc="left", fontsize=10)
                axes.set_xlabel("seconds")
                axes.set_ylabel("error / constant's")
        shown = [
            Line2D([], [], marker=marker, color=colour, label=method) for method, (marker, colour) in styles.items()
        ]
        figure.legend(handles=shown, frameon=False, ncols=min(5, len(shown)), loc="outside upper right")

    save_plot(path, 8, 2.6 * len(sources) + 0.8, draw)
    return True


def main(argv: Sequence[str]) -> None:
    parser = argument_parser(NAME, __doc__)
    parser.add_argument("source", nargs="?")
    parser.add_argument("--budget", default="60s", help="of each method, such as 10s, 60s or 5m")
    parser.add_argument("--mask", type=int, default=0, help="which values are hidden, and the seed of training")
    parser.add_argument("--validation", action="store_true", help="hide once more within what is given, and score that")
    parser.add_argument("--only", default="", help="which methods, with commas between them, such as ours,catboost")
    parser.add_argument("--page", type=Path, help="write the tables of all that is stored into a page of Markdown")
    parser.add_argument("--quiet", action="store_true")
    add_out_option(parser)
    arguments = parser.parse_args(argv)
    if arguments.source is not None:
        measure(
            arguments.source,
            arguments.budget,
            arguments.mask,
            arguments.out,
            arguments.only,
            validation=arguments.validation,
            quiet=arguments.quiet,
        )
    results = read(arguments.out / f"{NAME}.jsonl")
    print_tables(tables(results))
    plot(results, arguments.out / f"{NAME}.png")
    if arguments.page is not None:
        write_page(results, tables_of_others(arguments.out), arguments.page, arguments.out / f"{NAME}.png")


def tables_of_others(folder: Path) -> list[Table]:
    """The tables of other benchmarks that have measured peers: the paper's two of predictions, ranked links, and drawn rows."""

    def stored(name: str) -> list[Result]:
        return read(folder / f"{name}.jsonl")

    judged = [result for result in stored("tabular") if "row_scores" in result.details]
    return [
        *gsm.tables(predicted_beside_peers(stored("gsm"))),
        *nuclear.tables(predicted_beside_peers(stored("nuclear"))),
        *links.table(links.beside_peers(stored(links.NAME))),
        *tabular.tables(judged),
    ]


def predicted_beside_peers(results: Sequence[Result]) -> list[Result]:
    """The results of peers, and on the same splits those of ours with the same budget and those of baselines, which have no budget."""
    with_budget = [result for result in results if result.method in PEERS and result.method not in BASELINES]
    limits, splits = {result.told for result in with_budget}, {(result.split, result.part) for result in with_budget}
    return [
        result
        for result in results
        if (result.split, result.part) in splits and (result.told in limits or result.method in BASELINES)
    ]


def write_page(results: Sequence[Result], others: Sequence[Table], page: Path, picture: Path) -> None:
    """Write the tables and the plot, then other tables, between the markers of a page."""
    lines = [line for table in tables(results) for line in markdown(table)]
    lines += [picture_line(picture, page), ""] if results else []
    lines += [line for table in others for line in markdown(table)]
    write_between(page, text_around(page, NAME), lines)
