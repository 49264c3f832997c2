"""Synthetic tables, judged as in TabDDPM: how good is a CatBoost that learns from drawn rows alone?

A model learns from train, with early stopping by validation. Some sets of rows are drawn from it. Several judges learn from each
set and are scored on test. With `validation` they are scored on validation, and a fifth of train is used for early stopping. Other
judges learn from the real rows; they must reproduce the published scores (benchmarks.judge). The split is the published one, or is
drawn anew for each seed.

Beside the judges' scores stand scores of the rows themselves (benchmarks.row_scores), of each drawn set, and the CPU seconds and
memory of fitting and of drawing. For the real rows these are scores of the rows for early stopping, which no method saw.

In the tables more is better, and the score of real rows is the reference. Figures are means over all judges of all sets and seeds,
with their standard deviation, as the published ones are.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.base import PAPERS, Options, Table, of_model
from benchmarks.judge import Parameters, parameters, scores
from benchmarks.methods import DISKPAPER, PAPER_PRESET, SINGLE_STEP
from benchmarks.peers import PEERS, registry
from benchmarks.peers.protocol import FILL, FIT, PeerError, Sampling, Stopwatch, ignore_progress, rounded_costs
from benchmarks.plots import save_plot
from benchmarks.progress import Progress
from benchmarks.results import OURS, Figure, Result, Row
from benchmarks.row_scores import row_scores
from benchmarks.tables import (
    MEMORY_NOTE,
    USAGE_HEADER,
    but_for,
    column_name,
    dates_and_commits,
    titled,
    usage_cells,
)
from benchmarks.tabular_sets import Rows, TabularSet, chosen_sets, read_set
from kbdisk.api.plots import COLOURS, GRID, INK, PALE
from kbdisk.training.schedule import seconds_of

if TYPE_CHECKING:
    import torch

    from kbdisk.training import Run, Trained

DRAWN_PER_ROW, MIN_DRAWN, MAX_DRAWN = 24, 50_000, 400_000  # rows that are drawn for each of train's; at least; at most
REAL = "real"
NEAR = 0.01  # below the best that is published: within this it is called near
POOLED_NOTE = "± is the standard deviation over all judges of all drawn sets; more is better."
SOURCES_NOTE = (
    "DiSK is of the paper's table, TabDDPM and the real rows are of TabDDPM's. macro-F1 of classes, R2 of numbers."
)


class Published(NamedTuple):
    """The scores of one set: of judges that learn from real rows, and from rows that others drew."""

    real: float
    disk: float
    tabddpm: float

    @property
    def best(self) -> float:
        """Of drawn rows, other methods among them."""
        return max(self.disk, self.tabddpm)


PUBLISHED = {
    "abalone": Published(0.556, 0.550, 0.550),
    "adult": Published(0.815, 0.800, 0.795),
    "buddy": Published(0.906, 0.907, 0.906),
    "california": Published(0.857, 0.842, 0.836),
    "churn2": Published(0.740, 0.742, 0.755),
    "diabetes": Published(0.785, 0.763, 0.740),
    "house": Published(0.662, 0.624, 0.677),
}
# By the paper's table, which leaves out a score that is below the constant's.
PUBLISHED_OF_METHODS: Mapping[str, Mapping[str, float]] = {
    "smote": {
        "abalone": 0.549,
        "adult": 0.791,
        "buddy": 0.891,
        "california": 0.840,
        "churn2": 0.743,
        "diabetes": 0.683,
        "house": 0.662,
    },
    "tvae": {
        "abalone": 0.433,
        "adult": 0.781,
        "buddy": 0.864,
        "california": 0.752,
        "churn2": 0.732,
        "diabetes": 0.714,
        "house": 0.493,
    },
    "ctabgan": {"adult": 0.783, "buddy": 0.855, "churn2": 0.688, "diabetes": 0.731},
    "ctabgan+": {
        "abalone": 0.467,
        "adult": 0.772,
        "buddy": 0.884,
        "california": 0.525,
        "churn2": 0.702,
        "diabetes": 0.734,
        "house": 0.504,
    },
    "tabddpm": {name: known.tabddpm for name, known in PUBLISHED.items()},
}
PUBLISHED_COLUMNS = {"real": "real, published", "disk": "DiSK", "tabddpm": "TabDDPM", "best": "best"}


# ---------------------------------------------------------------- measured


def run(options: Options, progress: Progress) -> Iterator[Result]:
    """Set by set: the scores of real rows, then those of drawn rows, model by model."""
    names = chosen_sets(options.data, options.only)
    models = [] if options.real else _models(options)
    for chosen in models:
        _run_and_device(chosen, options.seeds[0])  # a mistake is reported before anything is judged
    for name in names:
        by_seed = [read_set(options.data, name, options.split, seed, options.validation) for seed in options.seeds]
        tuned = parameters(options.data, name)
        is_same = options.split == PAPERS  # all seeds have the same rows
        for turn, (seed, table) in enumerate(zip(options.seeds, by_seed, strict=True)):
            if not (turn and is_same) and not options.is_done(name, REAL, 0 if is_same else seed):
                yield _judge_real(table, tuned, options, 0 if is_same else seed, progress)
            for chosen in models:
                left = [method for method in chosen.methods if not options.is_done(name, method, seed)]
                yield from _judge_model(table, tuned, replace(chosen, methods=tuple(left)), seed, progress)
            for method in () if options.real else options.methods:
                if method in PEERS and not options.is_done(name, method, seed):
                    yield from _judge_peer(method, table, tuned, options, seed, progress)


def _models(options: Options) -> list[Options]:
    """The options of each model of ours, with the methods that draw from it."""
    drawn = [method for method in (OURS, SINGLE_STEP) if method in options.methods]
    models = [replace(options, methods=tuple(drawn))] if drawn else []
    if DISKPAPER in options.methods:
        models.append(replace(options, methods=(DISKPAPER,), preset=PAPER_PRESET))
    return models


def _judge_real(table: TabularSet, tuned: Parameters, options: Options, seed: int, progress: Progress) -> Result:
    begun = time.monotonic()
    by_set = _judge(table, [table.train], tuned, options, progress, REAL)
    seconds = round(time.monotonic() - begun, 1)
    details = {"row_scores": [row_scores(table, table.stop, seed)]}
    return _result(table, options, REAL, by_set, details, seed=seed, seconds=seconds)


def _judge_model(
    table: TabularSet, tuned: Parameters, options: Options, seed: int, progress: Progress
) -> Iterator[Result]:
    """A model, and the rows that each method draws from it: property by property, or all at once."""
    if not options.methods:
        return
    count, fitting = _rows_of_a_set(table, options), Stopwatch()
    with fitting.phase(FIT):
        trained = _train(table, options, seed, progress)
    columns = table.train.numbers.shape[1] + table.train.categories.shape[1] + 1
    for method in options.methods:
        leap, stopwatch = columns if method == SINGLE_STEP else 1, deepcopy(fitting)
        with stopwatch.phase(FILL):
            drawn = [_draw(trained, table, count, seed, turn, leap, progress) for turn in range(options.draws)]
        by_set = _judge(table, drawn, tuned, options, progress, f"{method}, seed {seed}")
        details = {
            "samples": count,
            "per_second": round(count * len(drawn) / stopwatch.seconds[FILL], 1),
            "row_scores": [row_scores(table, rows, seed) for rows in drawn],
            "took": rounded_costs(stopwatch.seconds, stopwatch.usage),
        }
        yield of_model(_result(table, options, method, by_set, details, seed=seed), trained, options)


def _rows_of_a_set(table: TabularSet, options: Options) -> int:
    """How many rows are drawn for each set."""
    return options.samples or min(max(DRAWN_PER_ROW * len(table.train), MIN_DRAWN), MAX_DRAWN)


def _judge_peer(
    peer: str, table: TabularSet, tuned: Parameters, options: Options, seed: int, progress: Progress
) -> Iterator[Result]:
    """The rows that a peer draws; nothing where it cannot, which is reported."""
    count, total = _rows_of_a_set(table, options), _rows_of_a_set(table, options) * options.draws
    with progress.counting(f"{table.name}: {peer}, seed {seed}") as report:
        seconds = seconds_of(options.budget) if options.budget else None
        try:
            sampled = registry.sample(peer, Sampling(table, total, seconds, seed, report or ignore_progress))
        except PeerError as error:
            progress.say(f"{table.name}: {error}")
            return
    drawn = [sampled.rows.pick(places) for places in np.array_split(np.arange(total), options.draws)]
    by_set = _judge(table, drawn, tuned, options, progress, f"{peer}, seed {seed}")
    per_second = round(total / max(sampled.seconds[FILL], 1e-3), 1)
    details = {
        "samples": count,
        "per_second": per_second,
        "row_scores": [row_scores(table, rows, seed) for rows in drawn],
        "took": {**sampled.settings, **rounded_costs(sampled.seconds, sampled.usage)},
    }
    budget = f" + {options.budget}" if options.budget else ""
    fit_seconds = round(sampled.seconds[FIT], 1)
    yield _result(table, options, peer, by_set, details, seed=seed, told=budget, seconds=fit_seconds)


def _train(table: TabularSet, options: Options, seed: int, progress: Progress) -> Trained:
    from kbdisk.training.train import train

    run, device = _run_and_device(options, seed)
    training, stop = table.entities(table.train, "train"), table.entities(table.stop, "stop")
    with progress.training(f"tabular: {table.name}, training, preset {options.preset}, seed {seed}") as watch:
        watch = watch or (lambda progress: None)
        if options.kept is None:
            return train(table.schema, training, run, device, watch, held_out=stop)
        options.kept.mkdir(parents=True, exist_ok=True)
        folder = options.kept / f"{table.name}-{options.preset}-{seed}"
        return train(table.schema, training, run, device, watch, held_out=stop, checkpoint=folder, resume=True)


def _run_and_device(options: Options, seed: int) -> tuple[Run, torch.device]:
    """How a model is trained, and where."""
    from kbdisk.api.train import run_of
    from kbdisk.training.optimizer import device_named

    return run_of(options.preset, options.budget, options.config, seed), device_named(options.device)


def _draw(trained: Trained, table: TabularSet, count: int, seed: int, turn: int, leap: int, progress: Progress) -> Rows:
    from kbdisk.sampling import sample

    with progress.counting(f"{table.name}: drawing set {turn + 1}") as report:
        return table.rows(sample(trained, count, seed=1000 * seed + turn, leap=leap, watch=report))


def _judge(
    table: TabularSet, sets: Sequence[Rows], tuned: Parameters, options: Options, progress: Progress, label: str
) -> list[list[float]]:
    """The scores of each of several sets of rows."""
    by_set = []
    with progress.counting(f"{table.name}: judging, {label}") as report:
        for done, rows in enumerate(sets, 1):
            by_set.append(scores(table, rows, tuned, range(options.judges)))
            if report is not None:
                report(done, len(sets))
    return by_set


def _result(
    table: TabularSet,
    options: Options,
    method: str,
    by_set: Sequence[Sequence[float]],
    details: dict[str, Any] | None = None,
    **others: Any,
) -> Result:
    pooled = [score for of_set in by_set for score in of_set]
    rounded = [[round(score, 5) for score in of_set] for of_set in by_set]
    details = {"metric": table.metric, "scores": rounded, **(details or {})}
    rows = [Row(table.name, sum(pooled) / len(pooled), len(pooled))]
    split, part = options.split, options.part
    return Result("tabular", method, rows, split=split, part=part, setting=table.name, details=details, **others)


# ---------------------------------------------------------------- shown


def tables(results: Sequence[Result]) -> list[Table]:
    """For each split and part: the judges' scores, those of the rows themselves, and how they came about."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        groups.setdefault(_split_and_part(result), []).append(result)
    shown = []
    for key, group in groups.items():
        of_rows = table_of_rows(group, *key)
        shown += [table_of_scores(group, *key), *([of_rows] if of_rows.rows else []), table_of_runs(group, *key)]
    return shown


def _split_and_part(result: Result) -> tuple[str, str]:
    """Which split and part; the first results of all name no split."""
    return result.split or PAPERS, result.part


def table_of_scores(results: Sequence[Result], split: str, part: str) -> Table:
    """A row for each set, a column for each method; beside scores on the published test those that are published."""
    columns = by_column(results)
    published = PUBLISHED_COLUMNS if (split, part) == (PAPERS, "test") else {}
    rows = []
    for name in sorted({result.setting for result in results}):
        known = PUBLISHED.get(name)
        measured = [_cell(figures.get(name)) for figures in columns.values()]
        rows.append([name, *measured, *(f"{getattr(known, column):.3f}" if known else "" for column in published)])
    comparisons = _beside_published(columns) if published else _beside_real(columns)
    notes = [*comparisons, POOLED_NOTE, *([SOURCES_NOTE] if published else [])]
    return Table(titled("Synthetic tables", split, part), ["set", *columns, *published.values()], rows, notes)


ROW_SCORES = {  # the heads of columns, and the names of the scores beneath
    "C2ST": ("c2st",),
    "Trend": ("trend",),
    "closer to train": ("closer",),
    "distance, of test": ("distance", "distance_of_test"),
}
ROWS_NOTES = (
    "C2ST: the AUC of boosted trees that tell drawn rows from test rows, 0.5 at best. Trend: column pair trends of sdmetrics beside "
    "train, 1 at best; few rows lower it. Closer to train: the share of rows whose closest record is of train and not of test, 0.5 at best. Distance: "
    "of the closest record of train, the median; after it that of test rows.",
    "real: the rows for early stopping, which no method saw, in the place of drawn ones.",
    MEMORY_NOTE,
)


def table_of_rows(results: Sequence[Result], split: str, part: str) -> Table:
    """A row for each set and method: scores of the drawn rows themselves, and what fitting and drawing used."""
    rows = []
    for (name, column), group in _runs(results).items():
        sets = [scores for result in group for scores in result.details.get("row_scores", ())]
        if sets:
            cells = [_mean_cell([[of_set[key] for of_set in sets] for key in keys]) for keys in ROW_SCORES.values()]
            rows.append([name, column, *cells, *usage_cells([result.details.get("took", {}) for result in group])])
    header = ["set", "method", *ROW_SCORES, *(head.replace("fill", "draw") for head in USAGE_HEADER)]
    return Table(f"{titled('Synthetic tables', split, part)}: the rows themselves", header, rows, ROWS_NOTES)


def _mean_cell(scores: Sequence[Sequence[float | None]]) -> str:
    """The mean of each score over sets; nothing where it could not be computed."""
    known = [[value for value in of_sets if value is not None] for of_sets in scores]
    return ", ".join(f"{sum(values) / len(values):.3f}" for values in known if values)


def _runs(results: Sequence[Result]) -> dict[tuple[str, str], list[Result]]:
    """The latest results by their set and the name of their column."""
    runs: dict[tuple[str, str], list[Result]] = {}
    for name in sorted({result.setting for result in results}):
        for column in by_column(results):
            group = [result for result in _latest(results) if (result.setting, _column(result)) == (name, column)]
            if group:
                runs[name, column] = group
    return runs


def table_of_runs(results: Sequence[Result], split: str, part: str) -> Table:
    """A row for each set and method: by how many models, drawn sets and judges its score is, and what that took."""
    rows = [
        [name, column, *_run_cells(group), dates_and_commits(group)] for (name, column), group in _runs(results).items()
    ]
    header = [
        "set",
        "method",
        "models",
        "drawn sets",
        "rows of each",
        "a second",
        "judges",
        "minutes",
        "when, by which commit",
    ]
    return Table(f"{titled('Synthetic tables', split, part)}: how", header, rows)


def _run_cells(results: Sequence[Result]) -> list[str]:
    sets = [len(result.details["scores"]) for result in results]
    judges = _range([len(of_set) for result in results for of_set in result.details["scores"]])
    if results[0].method == REAL:
        return ["", "", "", "", judges, ""]
    rows, rates = (_range([result.details[key] for result in results]) for key in ("samples", "per_second"))
    minutes = max(result.seconds for result in results) / 60
    return [f"{len(results)}", _range(sets), rows, rates, judges, f"{minutes:.1f}"]


def by_column(results: Sequence[Result]) -> dict[str, dict[str, Figure]]:
    """The figures of each set by the name of a column: ours first."""
    pooled: dict[str, dict[str, list[float]]] = {}
    for result in sorted(_latest(results), key=lambda result: result.method != OURS):
        of_set = pooled.setdefault(_column(result), {}).setdefault(result.setting, [])
        of_set.extend(score for of_drawn in result.details["scores"] for score in of_drawn)
    return {column: {name: Figure.of(values) for name, values in sets.items()} for column, sets in pooled.items()}


def _latest(results: Sequence[Result]) -> list[Result]:
    """Of several results of one set, column and seed the last one."""
    return list({(_column(result), result.setting, result.seed): result for result in results}.values())


def _column(result: Result) -> str:
    """The name of its column, without the budget: sets differ in size, so each may have a budget of its own."""
    files = [name for name in result.told.split(" + ") if name.endswith(".toml")]
    return column_name(replace(result, told="".join(f" + {name}" for name in files)))


def _cell(figure: Figure | None) -> str:
    if figure is None:
        return ""
    return f"{figure.mean:.3f}" + (f" ± {figure.spread:.3f}" if figure.spread is not None else "")


def _beside_published(columns: Mapping[str, Mapping[str, Figure]]) -> list[str]:
    """How often ours is at or above the best that is published, and how far the judges of real rows are from theirs."""
    notes = []
    for column, figures in columns.items():
        means = {name: figure.mean for name, figure in figures.items() if name in PUBLISHED}
        if column == REAL:
            largest = max((abs(mean - PUBLISHED[name].real) for name, mean in means.items()), default=0.0)
            notes.append(f"{REAL}: at most {largest:.4f} from the published figures.")
            continue
        below = {
            name: PUBLISHED[name].best - mean for name, mean in means.items() if round(mean, 3) < PUBLISHED[name].best
        }
        near = [name for name, gap in below.items() if gap <= NEAR]
        far = [name for name, gap in below.items() if gap > NEAR]
        parts = [f"{column}: at or above the best in {len(means) - len(below)} of {len(means)}"]
        parts += [f"within {NEAR} of it: {', '.join(near)}"] if near else []
        parts += [f"further below: {', '.join(far)}"] if far else []
        notes.append("; ".join(parts) + ".")
    return [*notes, *_beside_published_of_methods(columns)]


def _beside_published_of_methods(columns: Mapping[str, Mapping[str, Figure]]) -> Iterator[str]:
    """How far each other method's scores are from those that the paper reports for it."""
    for column, figures in columns.items():
        published = PUBLISHED_OF_METHODS.get(column, {})
        apart = [
            f"{name} {published[name]:.3f} ({figure.mean - published[name]:+.3f})"
            for name, figure in sorted(figures.items())
            if name in published
        ]
        if apart:
            yield f"{column}, published, and how far the score here is from it: {', '.join(apart)}."


def _beside_real(columns: Mapping[str, Mapping[str, Figure]]) -> list[str]:
    """How often ours is at or above the real rows, where nothing is published."""
    real = columns.get(REAL, {})
    notes = []
    for column, figures in columns.items():
        both = [name for name in figures if name in real]
        if column != REAL and both:
            below = [name for name in both if figures[name].mean < real[name].mean]
            notes.append(
                f"{column}: at or above the real rows in {len(both) - len(below)} of {len(both)}{but_for(below)}."
            )
    return notes


def _range(values: Sequence[float]) -> str:
    low, high = (f"{value:,.0f}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def figure(results: Sequence[Result], path: Path) -> bool:
    """Each set's scores on the published test less those of its real rows, as published; False where there is none."""
    columns = by_column([result for result in results if _split_and_part(result) == (PAPERS, "test")])
    names = [name for name in reversed(PUBLISHED) if any(name in figures for figures in columns.values())]
    if not names:
        return False

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        axes.axvline(0, color=INK, linewidth=1, linestyle=(0, (4, 3)))
        for label, (means, marker, colour) in _series(columns).items():
            points = [(means[name] - PUBLISHED[name].real, place) for place, name in enumerate(names) if name in means]
            if points:
                axes.plot(*zip(*points, strict=True), marker, color=colour, label=label)
        axes.set_yticks(range(len(names)), names)
        axes.grid(axis="both", color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.set_xlabel("score less that of the real rows, as published")
        axes.set_title("CatBoosts that learn from drawn rows", loc="left", fontweight="bold")
        axes.legend(frameon=False, loc="best")

    save_plot(path, 7.6, 1.6 + 0.4 * len(names), draw)
    return True


def _series(columns: Mapping[str, Mapping[str, Figure]]) -> dict[str, tuple[dict[str, float], str, str]]:
    """What is plotted by its label: a score for each set, a marker, a colour."""
    series = {
        PUBLISHED_COLUMNS[column]: ({name: getattr(known, column) for name, known in PUBLISHED.items()}, marker, PALE)
        for column, marker in (("disk", "s"), ("tabddpm", "D"))
    }
    for (method, figures), marker in zip(columns.items(), "oPX*v" * len(columns), strict=False):
        means = {name: figure.mean for name, figure in figures.items() if name in PUBLISHED}
        series[method] = (means, marker, INK if method == REAL else COLOURS["number"])
    return series
