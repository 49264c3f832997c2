"""How right completion is with its default options: hidden values that it writes, and what it writes where nothing can be.

python benchmarks/precision.py SOURCE [--budget 5m] [--mask 0] [--validation] [--precision 0.95] [--not-catboost]
python benchmarks/precision.py                         the table of all that is stored

A share of the single values of SOURCE is hidden, as by `kbdisk bench kb`, and the rest completed. Scored are hidden values,
right or wrong, and as many declared absences: properties that an entity cannot have, by hand in `absences/NAME.yaml`. Any
value for these is wrong. Right is the same label or link, the same year of a date, a number within a tenth of itself on a
skewed scale, else within a tenth of the range of the middle half of the known values.

Beside it a CatBoost for each property, with another for its presence: it writes its surest statements, as many as have the
same precision, and the yields are compared. Reliability is the expected calibration error over ten bins of confidence, of all
scored statements, whether they are written or not.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import re
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from common import Kept, command_line, groups, out_option, print_tables, source_file

import kbdisk
from kbdisk.bench.base import Table
from kbdisk.bench.features import Features
from kbdisk.bench.imputers import Task, pool, tasks_of
from kbdisk.bench.kb import KBOptions, masked_entities, value_at
from kbdisk.bench.masking import Cell, Masked, Values
from kbdisk.bench.results import OURS, Result, Row, read
from kbdisk.cli.bench import teller_of
from kbdisk.cli.benchkb import ResumedFit
from kbdisk.entity import Completion, Date, Entity
from kbdisk.entity import Path as EntityPath
from kbdisk.errors import ConfigError
from kbdisk.evaluation.calibration import Reliability
from kbdisk.evaluation.calibration import Statement as JudgedStatement

NAME = "precision"
ABSENCES = Path(__file__).parent / "absences"
TOLERANCE = 0.1
TREES = 200
DATE = re.compile(r"\d{4}(-\d\d){1,2}")
Place = tuple[int, EntityPath]  # the number of an entity, and a path


@dataclass(frozen=True)
class Statement:
    """A scored statement: how sure and how right."""

    confidence: float
    right: bool
    kind: str  # number, label, absence
    covered: bool | None = None  # of a number: whether its 90 % interval has the truth


# ---------------------------------------------------------------- what is scored


def absences_of(name: str, entities: Sequence[Entity], count: int, mask: int) -> list[Place]:
    """Properties that entities cannot have, as many as `count`, drawn by a hash."""
    file = ABSENCES / f"{name.partition('-')[0]}.yaml"  # wikilike-1500 is a part of wikilike
    if not file.exists():
        return []
    found = []
    for rule in yaml.safe_load(file.read_text()):
        for place, entity in enumerate(entities):
            if _is_meant(rule, entity):
                found += [(place, (key,)) for key in rule["lack"] if key not in entity.tree]
    found = sorted(set(found), key=lambda one: _hash(f"{mask} {entities[one[0]].id} {one[1]}"))
    return found[:count]


def _is_meant(rule: Mapping[str, Any], entity: Entity) -> bool:
    classes = {name.replace("#", "/").rsplit("/", 1)[-1] for name in entity.classes}
    if "not" in rule and classes & set(rule["not"]):
        return False
    if "classes" in rule and not classes & set(rule["classes"]):
        return False
    return all(entity.tree.get(key) == value for key, value in rule.get("where", {}).items())


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()


def is_right(task: Task, cell: Cell, value: Any, truth: Any, values: Values) -> bool:
    """Whether a value is right, by the benchmark's own tolerance; of a date every stated part that is known."""
    if isinstance(value, Date) and isinstance(truth, Date):
        parts = ((getattr(value, part), getattr(truth, part)) for part in ("year", "month", "day"))
        return all(stated is None or known is None or stated == known for stated, known in parts)
    if isinstance(value, str) and isinstance(truth, str) and DATE.fullmatch(truth) and task.of[2] == "number":
        return truth.startswith(value)
    half, kind = cell.property[1:]
    scalar = next((one for h, k, one in values.scalars(cell.property[0], value) if (h, k) == (half, kind)), None)
    if scalar is None:
        return False
    if kind == "label":
        return bool(scalar == cell.truth)
    if isinstance(value, Date) or cell.whole_year:
        return math.floor(scalar) == math.floor(cell.truth)
    return abs(scalar - cell.truth) <= tolerance(task, cell.truth) * (1 + 1e-9)


def tolerance(task: Task, truth: float) -> float:
    """How far off a number may be."""
    if task.scale.is_log:
        return TOLERANCE * abs(truth)
    low, high = np.quantile(np.array(task.values, dtype=float), [0.25, 0.75])
    return TOLERANCE * float(high - low)


def by_place(masked: Masked, tasks: Sequence[Task]) -> dict[Place, list[tuple[Task, Cell]]]:
    """The hidden cells of each value: of a coordinate two."""
    found: dict[Place, list[tuple[Task, Cell]]] = {}
    for task in tasks:
        for number in task.cells:
            cell = masked.cells[number]
            found.setdefault((cell.entity, cell.path), []).append((task, cell))
    return found


# ---------------------------------------------------------------- ours


def statements_of(
    completions: Sequence[Completion],
    hidden: Mapping[Place, list[tuple[Task, Cell]]],
    absences: Sequence[Place],
    values: Values,
    truth: Sequence[Entity],
) -> Iterator[tuple[Place, Statement | None]]:
    """What was stated at each scored place."""
    trees = [completion.tree() if completion.filled else completion.entity.tree for completion in completions]
    for place, cells in hidden.items():
        entity, path = place
        found = _filled_at(completions[entity], path)
        value = value_at(trees[entity], path) if found is not None else None
        if found is None or value is None:
            yield place, None
            continue
        known = value_at(truth[entity].tree, path)
        right = all(is_right(task, cell, value, known, values) for task, cell in cells)
        yield place, Statement(found.confidence or 0.0, right, cells[0][0].of[2], covered_by_interval(found, cells))
    for place in absences:
        found = _filled_at(completions[place[0]], place[1])
        yield place, None if found is None else Statement(found.confidence or 0.0, False, "absence")


def _filled_at(completion: Completion, path: EntityPath) -> Any:
    for at, one in completion.filled.items():
        least = min(len(at), len(path))
        if at[:least] == path[:least]:
            return one
    return None


def covered_by_interval(found: Any, cells: Sequence[tuple[Task, Cell]]) -> bool | None:
    """Whether the 90 % interval of a number has the truth; None of what is no number."""
    interval = getattr(found.belief, "interval", None)
    task, cell = cells[0]
    if len(cells) > 1 or task.of[2] != "number" or not isinstance(interval, tuple) or isinstance(found.value, Date):
        return None
    return bool(interval[0] - 1e-9 <= cell.truth <= interval[1] + 1e-9)


# ---------------------------------------------------------------- CatBoost


def rivals(
    masked: Masked, values: Values, tasks: Sequence[Task], absences: Sequence[Place], seed: int
) -> Iterator[Statement]:
    """What a CatBoost for each property, and one for its presence, states at each scored place."""
    features = Features(masked.entities, values)
    asked: dict[EntityPath, list[Place]] = {}
    for place in absences:
        asked.setdefault(place[1], []).append(place)
    for task in tasks:
        cells = [masked.cells[number] for number in task.cells]
        places = [(cell.entity, cell.path) for cell in cells] + asked.get(task.of[0], [])
        if len(task.values) < 10 or len(set(task.values)) < 2:
            continue
        presence = _presence(masked, features, task, places, seed)
        table = features.table([*task.known, *places], task.of[0], len(task.known))
        if not len(table.columns):
            continue
        for number, (value, chance) in enumerate(_values(task, table, seed)):
            sure = chance * presence[number]
            if number >= len(cells):
                yield Statement(sure, False, "absence")
            elif task.of[2] == "label":
                yield Statement(sure, value == cells[number].truth, "label")
            else:
                cell = cells[number]
                near = abs(value - cell.truth) <= tolerance(task, cell.truth)
                is_same_year = math.floor(value) == math.floor(cell.truth)
                yield Statement(sure, is_same_year if cell.whole_year else near, "number")


def _presence(masked: Masked, features: Features, task: Task, places: Sequence[Place], seed: int) -> list[float]:
    """The probability that each entity has the property; 1 within the parts of lists."""
    if any(isinstance(key, int) for _, path in places for key in path):
        return [1.0] * len(places)
    having = {entity for entity, _ in task.known}
    asked = {entity for entity, _ in places}
    rows = [number for number in range(len(masked.entities)) if number not in asked]
    truth = [int(number in having) for number in rows]
    if len(set(truth)) < 2:
        return [1.0] * len(places)
    path = task.of[0]
    table = features.table([*((number, path) for number in rows), *places], path, len(rows))
    if not len(table.columns):
        return [statistics.fmean(truth)] * len(places)
    model = _catboost("Logloss", seed).fit(pool(table.iloc[: len(rows)], truth))
    chances = model.predict(pool(table.iloc[len(rows) :]), prediction_type="Probability")[:, 1]
    return [float(chance) for chance in chances]


def _values(task: Task, table: Any, seed: int) -> Iterator[tuple[Any, float]]:
    """The value of each row after the known ones, and the probability that it is right."""
    known = len(task.known)
    if task.of[2] == "label":
        labels = sorted(set(task.values), key=repr)
        number = {label: place for place, label in enumerate(labels)}
        common = {label for label, count in Counter(task.values).items() if count > 1}
        rows = [row for row in range(known) if task.values[row] in common]
        if len({task.values[row] for row in rows}) < 2:
            return
        model = _catboost("MultiClass", seed, len(common)).fit(
            pool(table.iloc[rows], [number[task.values[row]] for row in rows])
        )
        chances = model.predict(pool(table.iloc[known:]), prediction_type="Probability")
        classes = [labels[int(place)] for place in model.classes_]
        share = len(rows) / known
        for row in chances:
            yield classes[int(row.argmax())], float(row.max()) * share
        return
    truth = [task.scale.to(float(value)) for value in task.values]
    model = _catboost("RMSEWithUncertainty", seed).fit(pool(table.iloc[:known], truth))
    for mean, variance in model.predict(pool(table.iloc[known:]), prediction_type="RMSEWithUncertainty"):
        value = task.scale.back(float(mean))
        spread = math.sqrt(max(float(variance), 1e-12))
        half = math.log1p(TOLERANCE) if task.scale.is_log else tolerance(task, value)
        yield value, math.erf(half / spread / math.sqrt(2))


def _catboost(loss: str, seed: int, labels: int = 0) -> Any:
    from catboost import CatBoost, CatBoostClassifier

    from kbdisk.experts.catboost_settings import unattended

    settings: dict[str, Any] = unattended(seed) | {
        "loss_function": loss,
        "iterations": TREES,
        "learning_rate": 0.1,
        "depth": 5,
    }
    settings |= {"one_hot_max_size": 255, "border_count": 64, "max_ctr_complexity": 1, "allow_const_label": True}
    if labels > 10:
        settings |= {"iterations": TREES // 4, "learning_rate": 0.2, "simple_ctr": ["Counter"]}
    return CatBoostClassifier(**settings) if loss == "MultiClass" else CatBoost(settings)


def yield_at(statements: Sequence[Statement], precision: float) -> int:
    """The most right statements among the surest that have a precision."""
    best = right = 0
    for number, one in enumerate(sorted(statements, key=lambda one: -one.confidence), 1):
        right += one.right
        if right / number >= precision:
            best = right
    return best


def reliability(statements: Sequence[Statement]) -> float:
    """The expected calibration error over bins of equal width."""
    judged = (JudgedStatement(statement.confidence, 0.0, float(statement.right), 0.0, 1.0) for statement in statements)
    error = Reliability.of(judged).error
    return math.nan if error is None else error


# ---------------------------------------------------------------- a run


def measure(source: str, arguments: argparse.Namespace) -> None:
    file = source_file(source)
    options = KBOptions(masks=(arguments.mask,), validation=arguments.validation, budget=arguments.budget)
    run = [source, arguments.budget, arguments.mask, options.part, arguments.precision or ""]
    kept, teller = Kept(arguments.out, NAME, run), teller_of(arguments.quiet, verbose=False)
    kb = kbdisk.load(str(file))
    entities = list(kb)
    masked = masked_entities(kb, entities, options, arguments.mask)
    values = Values(masked.entities)
    tasks = tasks_of(masked, values)
    hidden = by_place(masked, tasks)
    absences = absences_of(arguments.absences or Path(source).name.split(".")[0], entities, len(hidden), arguments.mask)
    begun = time.monotonic()
    fit = ResumedFit({"preset": "default", "budget": arguments.budget, "device": "auto", "quiet": arguments.quiet, "verbose": False}, kept.model, teller)  # fmt: skip
    model = fit(masked.entities, arguments.mask)
    extra = {} if arguments.precision is None else {"precision": arguments.precision}
    written = dict(statements_of(list(model.complete(masked.entities, **extra)), hidden, absences, values, entities))
    everything = dict(
        statements_of(list(model.complete(masked.entities, fill="all")), hidden, absences, values, entities)
    )
    seconds = time.monotonic() - begun
    by_default = [statement for statement in written.values() if statement is not None]
    scored = [statement or Statement(0.0, False, "none") for statement in everything.values()]
    right = sum(statement.right for statement in by_default)
    precision = right / len(by_default) if by_default else math.nan
    covered = [statement.covered for statement in scored if statement.covered is not None]
    figures = {
        "hidden": len(hidden),
        "absences": len(absences),
        "written": len(by_default),
        "right": right,
        "precision": precision,
        "wrong where absent": sum(statement.kind == "absence" for statement in by_default),
        "ece": reliability(scored),
        "coverage": statistics.fmean(covered) if covered else math.nan,
        "catboost": math.nan,
    }
    if arguments.catboost:
        others = list(rivals(masked, values, tasks, absences, arguments.mask))
        figures["catboost"] = yield_at(others, precision) if by_default else 0
        figures["catboost ece"] = reliability(others)
    rows = [Row(name, value, len(hidden)) for name, value in figures.items() if not math.isnan(value)]
    kept.add(
        Result(
            NAME,
            OURS,
            rows,
            seed=arguments.mask,
            split=str(arguments.precision or "default"),
            part=options.part,
            setting=source,
            told=f" + {arguments.budget}",
            seconds=round(seconds, 1),
        )
    )
    kept.end()
    fit.forget()


def table(results: Sequence[Result]) -> list[Table]:
    """The figures of each source, summed or averaged over masks."""
    header = ["source", "part", "masks", "hidden", "absences", "written", "right", "precision", "wrong where absent", "right of catboost", "ece", "coverage of 90 %"]  # fmt: skip
    rows = []
    for (source, part, split, told), own in groups(
        results, lambda one: (one.setting, one.part, one.split, one.told)
    ).items():
        every = [{row.name: row.value for row in result.rows} for result in own]
        sums = {name: sum(one.get(name, 0) for one in every) for name in ("hidden", "absences", "written", "right", "wrong where absent", "catboost")}  # fmt: skip
        means = {name: statistics.fmean(one[name] for one in every if name in one) if any(name in one for one in every) else math.nan for name in ("ece", "coverage")}  # fmt: skip
        rows.append([
            f"{source}{told}, {split}", part, str(len(own)), *(f"{sums[name]:,.0f}" for name in ("hidden", "absences", "written", "right")),
            f"{sums['right'] / max(sums['written'], 1):.3f}", f"{sums['wrong where absent']:,.0f}", f"{sums['catboost']:,.0f}",
            f"{means['ece']:.3f}", f"{means['coverage']:.3f}",
        ])  # fmt: skip
    return [Table("Precision of what is written", header, rows, [])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="?")
    parser.add_argument("--budget", default="5m", help="of training")
    parser.add_argument("--mask", type=int, default=0, help="which values are hidden, and the seed of training")
    parser.add_argument("--validation", action="store_true", help="hide once more within what is given, and score that")
    parser.add_argument("--precision", type=float, help="as of kbdisk complete")
    parser.add_argument("--absences", help="the name of the list of absences; by default that of the source")
    parser.add_argument("--not-catboost", dest="catboost", action="store_false", help="measure kbdisk alone")
    parser.add_argument("--quiet", action="store_true")
    out_option(parser)
    arguments = parser.parse_args()
    if arguments.precision is not None and not 0 < arguments.precision <= 1:
        raise ConfigError("--precision", f"expected more than 0 and at most 1, got {arguments.precision:g}.")
    if arguments.source is not None:
        measure(arguments.source, arguments)
    print_tables(table(read(arguments.out / f"{NAME}.jsonl")))


if __name__ == "__main__":
    command_line(main)
