"""Curves of the error by the share of given properties, and the consistency of drawn entities.

    gsm, nuclear   the same values predicted at every share of the entity's other properties
    samples        phones drawn with nothing given: does their maker make phones of such a name?

Less is better, except for samples. A difference within two standard errors of the paired difference is noise.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import gsm, nuclear
from benchmarks.base import PAPERS, Options, Table, of_model, refuse_split
from benchmarks.progress import Progress
from benchmarks.properties import Task, train_model
from benchmarks.results import OURS, Result, Row, latest
from benchmarks.tables import Measure, compared, titled
from kbdisk.entity import Entity
from kbdisk.errors import ConfigError

if TYPE_CHECKING:
    from kbdisk.api.model import Model
    from kbdisk.evaluation.curve import Curve

SETS = ("gsm", "nuclear")
NOISE = 2.0  # standard errors
DRAWN = 1000  # phones
AT_ONCE = 1 << 20  # more properties than there are

POINTS, ABOVE = "points", "points above the constant"
SURELY_ABOVE, RISES, SURE_RISES = (
    f"{ABOVE}, beyond noise",
    "rises to the next share",
    "rises to the next share, beyond noise",
)
RATIOS = {0.0: "mean of ours / constant, none given", 0.5: "half given", 1.0: "all given"}
ONE_BY_ONE, TOGETHER, REAL = "drawn one by one", "drawn all at once", "real, of test: met in train"
POINTS_NOTE = "points: errors of a property with a share of the other properties given; noise is two standard errors of a paired difference."
SAMPLES_NOTE = (
    "drawn, real: the share of phones for which a real phone has the same maker and first word of the name; more is better. "
    "Drawn phones are compared with all real phones, those of test with train alone."
)
NAMES = [POINTS, ABOVE, SURELY_ABOVE, RISES, SURE_RISES, *RATIOS.values(), ONE_BY_ONE, TOGETHER, REAL]


def run(options: Options, progress: Progress) -> Iterator[Result]:
    """Train on each set, seed by seed; predict, and draw."""
    unknown = [name for name in options.only if name not in SETS]
    if unknown:
        raise ConfigError("--only", f"expected some of {', '.join(SETS)}, got {unknown[0]!r}.")
    names = options.only or SETS
    refuse_split(options.split, nuclear.SPLITS if "nuclear" in names else gsm.SPLITS)
    for name in names:
        for seed in options.seeds:
            if not options.is_done(name, OURS, seed):
                yield _measure(name, options, seed, progress)


def _measure(name: str, options: Options, seed: int, progress: Progress) -> Result:
    task = _task(name, options, seed)
    model = train_model(task, options, seed, progress)
    curve, rows = error_curve(model, task.scored, progress)
    if name == "gsm":
        rows += consistency_of_samples(model, task, seed, progress)
    result = Result(
        "curves",
        OURS,
        rows,
        seed=seed,
        split=options.split,
        part=options.part,
        setting=name,
        details={"curve": curve.to_json()},
    )
    return of_model(result, model.trained, options)


def _task(name: str, options: Options, seed: int) -> Task:
    if name == "gsm":
        return replace(gsm.task(*gsm.read(options.data), options, seed), bench="curves, gsm")
    return replace(nuclear.tasks(*nuclear.read(options.data), options, seed)[0], bench="curves, nuclear")


# ---------------------------------------------------------------- by how much is given


def error_curve(model: Model, entities: Sequence[Entity], progress: Progress) -> tuple[Curve, list[Row]]:
    """The curve of a model, and how often it is above the constant, or rises."""
    from kbdisk.evaluation.curve import LIMIT, SHARES, TEXTS, Curve, Line
    from kbdisk.evaluation.evaluate import Evaluation, Scope

    evaluation = Evaluation.of(model.trained, entities, None, Scope(limit=LIMIT, texts=TEXTS))
    cases = []
    for turn, share in enumerate(SHARES):
        with progress.counting(f"asking, {share:.0%} given, {turn + 1} of {len(SHARES)}") as report:
            cases.append(list(evaluation.cases(share, report)))
    lines = []
    for rows in zip(*(evaluation.rows(of_share) for of_share in cases), strict=True):
        same = {key: rows[0][key] for key in ("path", "kind", "metric", "n", "constant")}
        lines.append(Line(class_name=rows[0]["class"], **same, ours=[row["ours"] for row in rows]))
    curve = Curve(list(SHARES), lines)
    return curve, _figures(curve, [_errors(evaluation, of_share) for of_share in cases])


Errors = dict[int, dict[int, tuple[float, float]]]  # slot -> entity -> ours, the constant's


def _errors(evaluation: Any, cases: Sequence[Any]) -> Errors:
    from kbdisk.metrics import error

    errors: Errors = {}
    for case in cases:
        kind, constant = evaluation.trained.codec.slots[case.slot].kind, evaluation.constants.slots[case.slot].value
        if kind != "number" or case.prediction is not None:
            pair = error(kind, case.truth, case.prediction), error(kind, case.truth, constant)
            errors.setdefault(case.slot, {})[case.entity] = pair
    return errors


def _figures(curve: Curve, by_share: Sequence[Errors]) -> list[Row]:
    above, rises = [], []
    for number, errors in enumerate(by_share):
        for slot, by_entity in errors.items():
            above.append(_mean_with_error([ours - constant for ours, constant in by_entity.values()]))
            if number:
                before = by_share[number - 1][slot]
                rises.append(_mean_with_error([ours - before[entity][0] for entity, (ours, _) in by_entity.items()]))
    counts = {
        POINTS: len(above),
        ABOVE: sum(mean > 0 for mean, _ in above),
        SURELY_ABOVE: sum(mean > NOISE * error for mean, error in above),
        RISES: sum(mean > 0 for mean, _ in rises),
        SURE_RISES: sum(mean > NOISE * error for mean, error in rises),
    }
    ratios = dict(zip(curve.shares, curve.mean, strict=True))
    shares = [Row(name, ratio) for share, name in RATIOS.items() if (ratio := ratios[share]) is not None]
    return [*(Row(name, count) for name, count in counts.items()), *shares]


def _mean_with_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean of differences, and its standard error, which of one difference alone is infinite."""
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.inf
    return statistics.fmean(values), error


# ---------------------------------------------------------------- samples


def consistency_of_samples(model: Model, task: Task, seed: int, progress: Progress) -> list[Row]:
    """The share of drawn phones whose maker and first word of the name real ones have."""
    real = maker_and_series([*task.train, *task.scored])
    rows = []
    for name, leap in ((ONE_BY_ONE, 1), (TOGETHER, AT_ONCE)):
        with progress.counting(f"drawing phones, {name.removeprefix('drawn ')}") as report:
            drawn = maker_and_series(model.sample(DRAWN, seed=seed, leap=leap, text=True, watch=report))
        rows += _share(name, drawn, set(real))
    return [*rows, *_share(REAL, maker_and_series(task.scored), set(maker_and_series(task.train)))]


def maker_and_series(entities: Sequence[Entity]) -> list[tuple[str, str]]:
    """Maker and first word of the name, of the phones that have both."""
    pairs = ((entity.tree.get("oem"), (entity.tree.get("model") or "").split()) for entity in entities)
    return [(maker, words[0]) for maker, words in pairs if maker and words]


def _share(name: str, pairs: Sequence[tuple[str, str]], real: set[tuple[str, str]]) -> list[Row]:
    return [Row(name, sum(pair in real for pair in pairs) / len(pairs), len(pairs))] if pairs else []


# ---------------------------------------------------------------- shown


def tables(results: Sequence[Result]) -> list[Table]:
    """One for each set, split and part."""
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        groups.setdefault((f"Curve of {result.setting}", result.split, result.part), []).append(result)
    tables = []
    for key, group in groups.items():
        has_samples = any(ONE_BY_ONE in result.values for result in group)
        notes = [POINTS_NOTE, SAMPLES_NOTE] if has_samples else [POINTS_NOTE]
        tables.append(compared(Measure(titled(*key), NAMES, what="figure", sources=notes), group))
    return tables


def figure(results: Sequence[Result], path: Path) -> bool:
    """The curve of the first seed of each set, each in its own plot."""
    from kbdisk.api.plots import plot_curve
    from kbdisk.evaluation.curve import Curve, Line

    def rank(result: Result) -> tuple[bool, str, int]:
        return result.split != PAPERS, result.part, result.seed

    for name in SETS:
        of_set = sorted((result for result in latest(results) if result.setting == name), key=rank)
        if of_set:
            curve = of_set[0].details["curve"]
            lines = [Line(class_name=row.pop("class"), **row) for row in (dict(row) for row in curve["properties"])]
            file = path.with_stem(f"{path.stem}-{name}")
            plot_curve(Curve(curve["shares"], lines), file, f"{name}: error by how much is given")
    return bool(results)
