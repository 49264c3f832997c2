"""Completion of any knowledge base: single values are hidden, every method fills them, errors are compared.

number, quantity, date    mean absolute error, on the property's scale, over that of the training median
category, link, truth     error rate, over that of the commonest label

The scale is the logarithm where the known values are positive and spread over more than a decade. A value
that a method leaves empty is predicted by the constant, so that every method is scored on every hidden value.
"""

from __future__ import annotations

import hashlib
import math
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.base import Table
from benchmarks.masking import Cell, Kind, Masked, Values, mask, property_name, read_hidden, without
from benchmarks.peers import FILLS, registry
from benchmarks.peers.protocol import FILL, FIT, Filled, Imputation, Interval, Stopwatch, ignore_progress, rounded_costs
from benchmarks.plots import draw_ratios
from benchmarks.progress import Progress
from benchmarks.results import OURS, Result, Row, code_version, group_latest, latest
from benchmarks.tasks import Answers, Task
from kbdisk.entity import Date, Entity
from kbdisk.entity import Path as EntityPath
from kbdisk.errors import ConfigError, LoadError

if TYPE_CHECKING:
    from kbdisk.api.model import Model
    from kbdisk.loaders import KB

MIN_COUNTED = 20  # hidden values of a property, from which on it counts in averages
MIN_COMPARED = 50  # from which on properties are counted that ours is ahead on
RESAMPLES, LEVEL = 2000, 0.95  # of the paired bootstrap
RIVAL = "catboost"  # what the bootstrap compares ours with, where it was measured
CHUNK = 1 << 20  # bytes hashed at once
TABLES = frozenset({"csv", "tsv", "parquet"})  # formats in which a hidden value leaves a blank cell
KINDS: dict[str, tuple[Kind, ...]] = {"all": ("number", "label"), "numbers": ("number",), "labels": ("label",)}

Fit = Callable[[list[Entity], int], "Model"]  # (entities, seed) -> the model by which kbdisk complete would fill them


@dataclass(frozen=True)
class KBOptions:
    """What is hidden, and what is compared."""

    share: float = 0.15
    masks: tuple[int, ...] = (0,)
    hidden: Path | None = None  # a file of values that the source lacks, in the place of masks
    validation: bool = False  # hide once more within what is given, and score that
    against: tuple[str, ...] = ("catboost",)
    ours: bool = True
    preset: str = "default"
    budget: str | None = None
    seconds: float | None = None  # the budget
    device: str = "auto"

    @property
    def part(self) -> str:
        """What is scored."""
        return "validation" if self.validation else "test"

    @property
    def split(self) -> str:
        """How the hidden values were chosen."""
        return self.hidden.name if self.hidden else f"{self.share:g} hidden"


class Scored(NamedTuple):
    """One property of one method and mask: an error for each hidden value, and the constant's."""

    errors: list[float]
    constant: list[float]
    filled: int
    kind: Kind

    @property
    def ratio(self) -> float:
        """The error over the constant's."""
        return math.fsum(self.errors) / math.fsum(self.constant)


def refuse(options: KBOptions) -> None:
    """ConfigError for what makes no sense, before anything is read."""
    registry.refuse(options.against, FILLS, "--against")
    if not 0 < options.share < 1:
        raise ConfigError("--share", f"expected more than 0 and less than 1, got {options.share:g}.")
    if not options.ours and not options.against:
        raise ConfigError("--not-ours", "leaves nothing to measure. Name something with --against.")


def run(kb: KB, options: KBOptions, fit: Fit, done: Sequence[Result], progress: Progress) -> Iterator[Result]:
    """Each method with each mask, but for what is done already."""
    entities = list(kb)
    known = {(result.seed, result.method) for result in done}
    methods = ([OURS] if options.ours else []) + [name for name in registry.able(FILLS) if name in options.against]
    for seed in options.masks:
        if all((seed, method) in known for method in methods):
            continue
        masked = masked_entities(kb, entities, options, seed)
        imputation = Imputation.of(masked, options.seconds, seed)
        if not imputation.tasks:
            raise LoadError(
                kb.name, "expected single values that can be hidden, got none that another entity has, too."
            )
        for method in methods:
            if (seed, method) in known:
                continue
            label = f"{kb.name}: {method}, mask {seed}"
            begun = time.monotonic()
            if method == OURS:
                progress.say(f"{label}, {len(masked.cells):,} values hidden")
                filled = completed(imputation, fit, progress)
            else:
                with progress.counting(label) as report:
                    filled = registry.fill(method, replace(imputation, report=report or ignore_progress))
            seconds = round(time.monotonic() - begun, 1)
            scored = score(masked, imputation.tasks, filled.answers)
            result = _result(Path(kb.name).name, method, options, seed, scored, seconds, facts_of(filled))
            yield replace(result, details=result.details | {"intervals": coverage(masked, filled.intervals)})


def masked_entities(kb: KB, entities: Sequence[Entity], options: KBOptions, seed: int) -> Masked:
    """The entities without what is hidden with a mask; of validation without what test would hide, either."""
    blank = kb.format in TABLES
    if options.hidden is not None:
        cells = read_hidden(options.hidden, kb, entities)
        given = without(entities, cells, blank)
        if not options.validation:
            return Masked(given, cells)
    elif not options.validation:
        return mask(entities, options.share, f"test {seed}", blank)
    else:
        given = mask(entities, options.share, f"test {seed}", blank).entities
    return mask(given, options.share, f"validation {seed}", blank)


def completed(imputation: Imputation, fit: Fit, progress: Progress) -> Filled:
    """What `kbdisk complete --fill all` writes for the cells."""
    masked, stopwatch = imputation.masked, Stopwatch()
    with stopwatch.phase(FIT):
        model = fit(masked.entities, imputation.seed)
    trees: list[Any] = []
    intervals: list[Mapping[EntityPath, Any]] = []  # of each entity's filled values
    with progress.counting("completing") as report, stopwatch.phase(FILL):
        for completion in model.complete(masked.entities, fill="all", watch=report):
            trees.append(completion.tree() if completion.filled else completion.entity.tree)
            intervals.append({path: filled.belief.interval for path, filled in completion.filled.items()})
    answers = answers_of(masked, imputation.values, trees)
    facts = model.record.facts
    settings: dict[str, Any] = {name: facts[name] for name in ("steps", "seconds", "parameters") if name in facts}
    return Filled(answers, stopwatch.seconds, settings, stopwatch.usage, intervals_of(masked, trees, intervals))


def facts_of(filled: Filled) -> dict[str, Any]:
    """The settings of a method, the versions of its packages, the seconds of fitting and of filling, and what both used."""
    return {**filled.settings, **rounded_costs(filled.seconds, filled.usage)}


def intervals_of(
    masked: Masked, trees: Sequence[Any], intervals: Sequence[Mapping[EntityPath, Any]]
) -> dict[int, Interval]:
    """The intervals of filled numbers, by the place of their cell. Dates are left out: their intervals are of a part."""
    by_place: dict[int, Interval] = {}
    for place, cell in enumerate(masked.cells):
        _, half, kind = cell.property
        interval = intervals[cell.entity].get(cell.path)
        if isinstance(interval, Mapping):  # of a coordinate
            interval = interval.get(half)
        if kind == "number" and interval is not None and not isinstance(value_at(trees[cell.entity], cell.path), Date):
            low, high = interval
            by_place[place] = float(low), float(high)
    return by_place


def coverage(masked: Masked, intervals: Mapping[int, Interval]) -> dict[str, int]:
    """How many hidden numbers have an interval, and how many of them are within theirs."""
    covered = sum(low <= float(masked.cells[place].truth) <= high for place, (low, high) in intervals.items())
    return {"of": len(intervals), "covered": covered}


def answers_of(masked: Masked, values: Values, trees: Sequence[Any]) -> Answers:
    """The values that the trees of completed entities have for the cells."""
    answers: Answers = {}
    for place, cell in enumerate(masked.cells):
        value = value_at(trees[cell.entity], cell.path)
        for half, kind, scalar in values.scalars(cell.property[0], value) if value is not None else ():
            if (half, kind) == cell.property[1:]:
                is_year = cell.whole_year and isinstance(value, Date)
                answers[place] = float(math.floor(scalar)) if is_year else scalar
    return answers


def value_at(tree: Any, path: EntityPath) -> Any:
    """The value at a path, the first where there are several; None where there is none."""
    for key in path:
        there = isinstance(tree, list) and isinstance(key, int) and key < len(tree)
        if not there and not (isinstance(tree, dict) and key in tree):
            return None
        tree = tree[key]
    return (tree[0] if tree else None) if isinstance(tree, list) else tree


# ---------------------------------------------------------------- scores


def score(masked: Masked, tasks: Sequence[Task], answers: Mapping[int, Any]) -> dict[str, Scored]:
    """The errors of each property, in the order of the cells."""
    kinds: dict[str, set[str]] = {}
    for task in tasks:
        kinds.setdefault(property_name(task.of), set()).add(task.of[2])
    scored = {}
    for task in sorted(tasks, key=lambda task: -len(task.cells)):
        name = property_name(task.of)
        name += ", labels" if task.of[2] == "label" and len(kinds[name]) > 1 else ""
        cells = [masked.cells[place] for place in task.cells]
        constant = [cost(task, cell, task.constant) for cell in cells]
        if math.fsum(constant) > 0:  # otherwise the constant is right everywhere
            errors = [
                cost(task, cell, answers.get(place, task.constant))
                for place, cell in zip(task.cells, cells, strict=True)
            ]
            scored[name] = Scored(errors, constant, sum(place in answers for place in task.cells), task.of[2])
    return scored


def cost(task: Task, cell: Cell, answer: Any) -> float:
    """The error of an answer: the distance on the property's scale, or 1 for a wrong label."""
    if task.of[2] == "label":
        return float(answer != cell.truth)
    return abs(task.scale.to(float(answer)) - task.scale.to(float(cell.truth)))


def _result(
    source: str,
    method: str,
    options: KBOptions,
    seed: int,
    scored: Mapping[str, Scored],
    seconds: float,
    facts: Mapping[str, Any],
) -> Result:
    return Result(
        "kb",
        method,
        rows_of(scored),
        seed=seed,
        split=options.split,
        part=options.part,
        setting=source,
        preset=options.preset if method == OURS else "",
        told=f" + {options.budget}" if options.budget else "",
        steps=int(facts.get("steps", 0)),
        seconds=seconds,
        details=details_of(scored, facts),
    )


def rows_of(scored: Mapping[str, Scored]) -> list[Row]:
    """A row for each property: its error over the constant's."""
    return [Row(name, of_property.ratio, len(of_property.errors)) for name, of_property in scored.items()]


def details_of(scored: Mapping[str, Scored], facts: Mapping[str, Any]) -> dict[str, Any]:
    """What a result keeps beside its ratios: each error, for paired comparisons, and which properties are numbers."""
    return {
        "errors": {name: _rounded(of_property.errors) for name, of_property in scored.items()},
        "constant": {name: _rounded(of_property.constant) for name, of_property in scored.items()},
        "filled": {name: of_property.filled for name, of_property in scored.items()},
        "kind": {name: of_property.kind for name, of_property in scored.items()},
        "took": dict(facts),
    }


def _rounded(errors: Sequence[float]) -> list[float]:
    return [round(error, 6) for error in errors]


def mean_ratio(results: Iterable[Result], kinds: Sequence[Kind], least: int = MIN_COUNTED) -> float | None:
    """The mean error over the constant's of the properties with so many hidden values or more; of several masks the mean."""
    means = []
    for result in results:
        kind_of = result.details["kind"]
        counted = [row.value for row in result.rows if row.n >= least and kind_of[row.name] in kinds]
        if counted:
            means.append(statistics.fmean(counted))
    return statistics.fmean(means) if means else None


# ---------------------------------------------------------------- shown


def tables(results: Sequence[Result]) -> list[Table]:
    """One for each source, part, way of hiding and budget."""
    return [_table(key, group) for key, group in group_latest(results, _key).items()]


def _key(result: Result) -> tuple[str, ...]:
    return result.setting, result.split, result.part, result.told


def _table(key: tuple[str, ...], results: Sequence[Result]) -> Table:
    source, split, part, budget = key
    columns = by_method(results)
    first = {name: row for column in reversed(columns.values()) for name, row in column.items()}
    ours = next((name for name in columns if name.startswith(OURS)), None)
    compares = ours is not None and RIVAL in columns
    header = ["property", "hidden", *(["filled"] if ours else []), *columns, *(["beside catboost"] if compares else [])]
    rows = []
    for name, row in sorted(first.items(), key=lambda item: -item[1].n):
        cells = [name, f"{row.n:g}"]
        if ours:
            cells.append(f"{columns[ours][name].filled:g}" if name in columns[ours] else "")
        cells += [f"{column[name].ratio:.2f}" if name in column else "" for column in columns.values()]
        if compares and ours is not None:
            cells.append(_verdict(columns[ours].get(name), columns[RIVAL].get(name)))
        rows.append(cells)
    seeds = sorted({result.seed for result in results})
    masks = f"mask {seeds[0]}" if len(seeds) == 1 else f"mean of masks {', '.join(map(str, seeds))}"
    title = (
        f"{source}: error over the constant's, {split}, {masks}{', validation' if part == 'validation' else ''}{budget}"
    )
    return Table(title, header, rows, [*_averages(columns, results), *_comparison(columns, ours if compares else None)])


class Pooled(NamedTuple):
    """One property of one method over several masks."""

    ratio: float  # the mean
    n: float  # hidden values in a mask, on average
    filled: float
    errors: list[float]  # over the constant's mean error, of all masks


def by_method(results: Sequence[Result]) -> dict[str, dict[str, Pooled]]:
    """The properties of each method over masks, ours first."""
    groups: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda result: result.method != OURS):
        groups.setdefault(f"{OURS}, {result.preset}" if result.method == OURS else result.method, []).append(result)
    return {method: _pooled(sorted(group, key=lambda result: result.seed)) for method, group in groups.items()}


def _pooled(results: Sequence[Result]) -> dict[str, Pooled]:
    names = dict.fromkeys(row.name for result in results for row in result.rows)
    pooled = {}
    for name in names:
        pairs = [(result, row) for result in results for row in result.rows if row.name == name]
        errors: list[float] = []
        for result, _ in pairs:
            mean = statistics.fmean(result.details["constant"][name])
            errors += [error / mean for error in result.details["errors"][name]]
        pooled[name] = Pooled(
            statistics.fmean(row.value for _, row in pairs),
            statistics.fmean(row.n for _, row in pairs),
            statistics.fmean(result.details["filled"][name] for result, _ in pairs),
            errors,
        )
    return pooled


def _verdict(ours: Pooled | None, other: Pooled | None) -> str:
    """Better, level or worse than another method, by a paired bootstrap of the difference; nothing of few values."""
    if ours is None or other is None or ours.n < MIN_COUNTED or len(ours.errors) != len(other.errors):
        return ""
    low, high = interval([a - b for a, b in zip(ours.errors, other.errors, strict=True)])
    return "better" if high < 0 else "worse" if low > 0 else "level"


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """The bootstrap interval of the mean of some differences; the same for the same differences."""
    import numpy as np

    draw = np.random.default_rng(0)
    values = np.asarray(differences)
    means = np.array([values[draw.integers(0, len(values), len(values))].mean() for _ in range(RESAMPLES)])
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _averages(columns: Mapping[str, Mapping[str, Pooled]], results: Sequence[Result]) -> Iterator[str]:
    for method, column in columns.items():
        counted = [row.ratio for row in column.values() if row.n >= MIN_COUNTED]
        weighted = [(row.ratio, row.n) for row in column.values()]
        times = [result for result in results if result.method == method.split(",")[0]]
        seconds = statistics.fmean(result.seconds for result in times)
        steps = f", {statistics.fmean(result.steps for result in times):,.0f} steps" if times[0].steps else ""
        filled, hidden = (sum(getattr(row, name) for row in column.values()) for name in ("filled", "n"))
        mean = f"{statistics.fmean(counted):.3f}" if counted else "none"
        overall = sum(ratio * n for ratio, n in weighted) / sum(n for _, n in weighted) if weighted else math.nan
        yield (
            f"{method}: mean over the {len(counted)} properties with {MIN_COUNTED} hidden values or more {mean}; over all "
            f"values {overall:.3f}; filled {filled:,.0f} of {hidden:,.0f}; {seconds:,.0f} s{steps}."
        )


def _comparison(columns: Mapping[str, Mapping[str, Pooled]], ours: str | None) -> Iterator[str]:
    if ours is None:
        return
    both = {name: (row, columns[RIVAL][name]) for name, row in columns[ours].items() if name in columns[RIVAL]}
    large = [pair for pair in both.values() if pair[0].n >= MIN_COMPARED]
    ahead = sum(row.ratio <= other.ratio for row, other in large)
    yield f"At or below {RIVAL} in {ahead} of {len(large)} properties with {MIN_COMPARED} hidden values or more."
    counted = {name: _verdict(*pair) for name, pair in both.items() if pair[0].n >= MIN_COUNTED}
    for word in ("better", "worse"):
        names = [name for name, verdict in counted.items() if verdict == word]
        yield f"{word.capitalize()} beyond a paired {LEVEL:.0%} bootstrap: {len(names)} of {len(counted)}" + (
            f" ({', '.join(names)})." if names else "."
        )


def summary(results: Sequence[Result]) -> dict[str, Any]:
    """The figures of results as plain data: each property's mean over masks, and the averages."""
    columns = by_method(latest(results))
    ours = next((name for name in columns if name.startswith(OURS)), None)
    properties: dict[str, Any] = {}
    for method, column in columns.items():
        for name, row in column.items():
            cell = properties.setdefault(name, {"hidden": row.n, "ratio": {}, "filled": {}})
            cell["ratio"][method], cell["filled"][method] = row.ratio, row.filled
    if ours is not None and RIVAL in columns:
        for name in columns[ours]:
            properties[name]["beside catboost"] = _verdict(columns[ours][name], columns[RIVAL].get(name))
    means = {
        method: statistics.fmean(counted)
        if (counted := [row.ratio for row in column.values() if row.n >= MIN_COUNTED])
        else None
        for method, column in columns.items()
    }
    runs = [
        {"method": result.method, "mask": result.seed, "seconds": result.seconds, "steps": result.steps}
        for result in results
    ]
    first = results[0]
    return {
        "source": first.setting, "hidden": first.split, "part": first.part, "mean": means, "counted_from": MIN_COUNTED,
        "properties": properties, "runs": runs,
    }  # fmt: skip


def figure(results: Sequence[Result], path: Path) -> bool:
    """The errors of each method, of the latest source, in parts of the constant's."""
    if not results:
        return False
    last = results[-1]
    others = [result for result in results if _key(result) == _key(last) and result.method != "constant"]
    names = [row.name for row in last.rows if row.n >= MIN_COUNTED]
    title = f"{last.setting}, error over the constant's"
    return draw_ratios(others, names, {"constant": dict.fromkeys(names, 1.0)}, path, title)


# ---------------------------------------------------------------- resuming


def identity(kb: KB, options: KBOptions) -> str:
    """The same for the same source, options and code: a run that was stopped goes on only where it is alike."""
    digest = hashlib.sha256(repr(replace(options, masks=())).encode())
    for part in kb.parts:
        if part.source is not None:
            with part.source.stored() as stream:
                while chunk := stream.read(CHUNK):
                    digest.update(chunk)
    if options.hidden is not None:
        digest.update(options.hidden.read_bytes())
    digest.update(code_version().encode())
    return digest.hexdigest()


class ResumedFit:
    """Trains the model by which `kbdisk complete` would fill entities; it goes on with one whose training was stopped."""

    def __init__(
        self, folder: Path, progress: Progress, budget: str | None, preset: str = "default", device: str = "auto"
    ) -> None:
        self.folder, self.progress = folder, progress
        self.budget, self.preset, self.device = budget, preset, device

    def __call__(self, entities: list[Entity], seed: int) -> Model:
        from kbdisk.api.complete import TrainingOptions, own_model
        from kbdisk.api.source import LoadedSource
        from kbdisk.training.clock import Clock

        options = TrainingOptions(preset=self.preset, budget=self.budget, seed=seed, device=self.device)
        clock, loaded = Clock(fills="all"), LoadedSource.of(entities)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with self.progress.training() as watch:
            return own_model(loaded, options, self.progress.say, watch, folder=self.folder, clock=clock).model

    def forget(self) -> None:
        """Remove the model, whose figures are stored."""
        if self.folder.is_dir():
            shutil.rmtree(self.folder)
