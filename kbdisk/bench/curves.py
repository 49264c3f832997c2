"""How errors fall as more of an entity is given, and whether what is drawn hangs together.

    gsm, nuclear   the same values asked for at every share of the entity's other properties, given ever more
    samples        phones drawn from nothing: is their maker one who makes phones of such a name?

Less is better but for the last. What is within two standard errors of the paired difference is called noise.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbdisk.bench import gsm, nuclear
from kbdisk.bench.base import PAPERS, TRAINING, Options, Table, Teller, of_model, refuse_split
from kbdisk.bench.properties import Task, trained
from kbdisk.bench.results import OURS, Result, Row, latest
from kbdisk.bench.tables import Measure, compared, titled
from kbdisk.entity import Entity
from kbdisk.errors import ConfigError

if TYPE_CHECKING:
    from kbdisk.api import Model
    from kbdisk.evaluation.curve import Curve

TAKES = TRAINING | {"validation", "split", "only"}
SETS = ("gsm", "nuclear")
NOISE = 2.0  # standard errors
DRAWN = 1000  # phones
AT_ONCE = 1 << 20  # more properties than there are

BELOW, ABOVE = "points", "points above the constant"
SURELY, RISES, STEEP = f"{ABOVE}, beyond noise", "rises to the next share", "rises to the next share, beyond noise"
RATIOS = {0.0: "mean of ours / constant, none given", 0.5: "half given", 1.0: "all given"}
BY_ONE, TOGETHER, REAL = "drawn one by one", "drawn all at once", "real, of test: met in train"
NOTES = (
    "points: errors of a property at a share of what else is known; noise is two standard errors of a paired difference.",
    "drawn, real: the share of phones whose maker and first word of the name a real phone has, too; more is better. For what "
    "is drawn any real phone counts, for those of test only one of train.",
)
NAMES = [BELOW, ABOVE, SURELY, RISES, STEEP, *RATIOS.values(), BY_ONE, TOGETHER, REAL]


def run(options: Options, teller: Teller) -> Iterator[Result]:
    """Train on each set, seed by seed; ask, and draw."""
    strange = [one for one in options.only if one not in SETS]
    if strange:
        raise ConfigError("--only", f"expected some of {', '.join(SETS)}, got {strange[0]!r}.")
    wanted = options.only or SETS
    refuse_split(options.split, nuclear.SPLITS if "nuclear" in wanted else gsm.SPLITS)
    for name in wanted:
        for seed in options.seeds:
            if not options.is_done(name, OURS, seed):
                yield _measured(name, options, seed, teller)


def _measured(name: str, options: Options, seed: int, teller: Teller) -> Result:
    task = _task(name, options, seed)
    model = trained(task, options, seed, teller)
    curve, rows = falling(model, task.scored, teller)
    if name == "gsm":
        rows += together(model, task, seed, teller)
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


def falling(model: Model, entities: Sequence[Entity], teller: Teller) -> tuple[Curve, list[Row]]:
    """The curve of a model, and how often it is above the constant, or rises."""
    from kbdisk.evaluation.curve import LIMIT, SHARES, TEXTS, Curve, Line
    from kbdisk.evaluation.evaluate import Evaluation, Scope

    exam = Evaluation.of(model.trained, entities, None, Scope(limit=LIMIT, texts=TEXTS))
    cases = []
    for turn, share in enumerate(SHARES):
        with teller.counting(f"asking, {share:.0%} given, {turn + 1} of {len(SHARES)}") as told:
            cases.append(list(exam.cases(share, told)))
    lines = []
    for rows in zip(*(exam.rows(one) for one in cases), strict=True):
        same = {key: rows[0][key] for key in ("path", "kind", "metric", "n", "constant")}
        lines.append(Line(of=rows[0]["class"], **same, ours=[row["ours"] for row in rows]))
    curve = Curve(list(SHARES), lines)
    return curve, _figures(curve, [_errors(exam, one) for one in cases])


Errors = dict[int, dict[int, tuple[float, float]]]  # slot -> entity -> ours, the constant's


def _errors(exam: Any, cases: Sequence[Any]) -> Errors:
    from kbdisk.metrics import error

    found: Errors = {}
    for one in cases:
        kind, constant = exam.trained.codec.slots[one.slot].kind, exam.constants.slots[one.slot].value
        if kind != "number" or one.prediction is not None:
            own = error(kind, one.truth, one.prediction), error(kind, one.truth, constant)
            found.setdefault(one.slot, {})[one.entity] = own
    return found


def _figures(curve: Curve, several: Sequence[Errors]) -> list[Row]:
    above, rises = [], []
    for number, each in enumerate(several):
        for slot, own in each.items():
            above.append(_gap([ours - constant for ours, constant in own.values()]))
            if number:
                before = several[number - 1][slot]
                rises.append(_gap([ours - before[entity][0] for entity, (ours, _) in own.items()]))
    counts = {
        BELOW: len(above),
        ABOVE: sum(mean > 0 for mean, _ in above),
        SURELY: sum(mean > NOISE * sure for mean, sure in above),
        RISES: sum(mean > 0 for mean, _ in rises),
        STEEP: sum(mean > NOISE * sure for mean, sure in rises),
    }
    ratios = dict(zip(curve.shares, curve.mean, strict=True))
    shares = [Row(name, ratio) for share, name in RATIOS.items() if (ratio := ratios[share]) is not None]
    return [*(Row(name, count) for name, count in counts.items()), *shares]


def _gap(values: Sequence[float]) -> tuple[float, float]:
    """The mean of differences, and its standard error; of one alone nothing is known, so that it is noise."""
    sure = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.inf
    return statistics.fmean(values), sure


# ---------------------------------------------------------------- what is drawn


def together(model: Model, task: Task, seed: int, teller: Teller) -> list[Row]:
    """The share of phones whose maker and first word of the name are met in real ones."""
    real = pairs([*task.train, *task.scored])
    rows = []
    for name, leap in ((BY_ONE, 1), (TOGETHER, AT_ONCE)):
        with teller.counting(f"drawing phones, {name.removeprefix('drawn ')}") as told:
            new = pairs(model.sample(DRAWN, seed=seed, leap=leap, text=True, watch=told))
        rows += _share(name, new, set(real))
    return [*rows, *_share(REAL, pairs(task.scored), set(pairs(task.train)))]


def pairs(entities: Sequence[Entity]) -> list[tuple[str, str]]:
    """Maker and first word of the name, of those that have both."""
    several = ((one.tree.get("oem"), (one.tree.get("model") or "").split()) for one in entities)
    return [(oem, words[0]) for oem, words in several if oem and words]


def _share(name: str, new: Sequence[tuple[str, str]], real: set[tuple[str, str]]) -> list[Row]:
    return [Row(name, sum(one in real for one in new) / len(new), len(new))] if new else []


# ---------------------------------------------------------------- shown


def tables(results: Sequence[Result]) -> list[Table]:
    """One for each set, split and part."""
    together: dict[tuple[str, str, str], list[Result]] = {}
    for one in results:
        together.setdefault((f"Curve of {one.setting}", one.split, one.part), []).append(one)
    return [
        compared(
            Measure(titled(*kind), NAMES, what="figure", sources=NOTES[: 1 + any(BY_ONE in one.values for one in own)]),
            own,
        )
        for kind, own in together.items()
    ]


def figure(results: Sequence[Result], path: Path) -> bool:
    """The curve of the first seed of each set, each in its own picture."""
    from kbdisk.evaluation.curve import Curve, Line
    from kbdisk.plots import plot_curve

    def place_of(one: Result) -> tuple[bool, str, int]:
        return one.split != PAPERS, one.part, one.seed

    for name in SETS:
        own = sorted((one for one in latest(results) if one.setting == name), key=place_of)
        if own:
            told = own[0].details["curve"]
            lines = [Line(of=one.pop("class"), **one) for one in (dict(each) for each in told["properties"])]
            place = path.with_stem(f"{path.stem}-{name}")
            plot_curve(Curve(told["shares"], lines), place, f"{name}: error by how much is given")
    return bool(results)
