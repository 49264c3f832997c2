"""The precision of completion with its default options, over hidden values and over properties that entities lack in truth.

python -m benchmarks precision SOURCE [--budget 5m] [--mask 0 --mask 1] [--precision 0.95] [--validation] [--not-catboost]
python -m benchmarks precision                         the table of all that is stored

A share of the single values of SOURCE is hidden, as by `python -m benchmarks kb`, and the rest completed. Statements about hidden
values are right or wrong. As many declared absences are scored, for which any value is wrong:

    novalue                   of the source itself, hidden by the same share
    SOURCE.truth.json         beside a source of `python -m benchmarks generate`: what an entity lacks in truth
    absences/NAME.yaml        written by hand: properties that entities of some classes cannot have

A value is right if it is the same label or link, a date of the same year, or a number within the tolerance: a tenth of itself
on a skewed scale, else a tenth of the range of the middle half of the known values.

Each mask is one training. The same model completes with the default options, with each `--precision`, and with `--fill all`.
The statements of the latter give the expected calibration error (ten bins of confidence) and the coverage of 90 % intervals.
Coverage is randomised at atoms: where the truth is an end of the interval, and a number that training had repeatedly, it
counts with that share of its mass that makes the mass of the interval 90 %. The scored numbers are also split into thirds, by
the share of its class's properties that the entity has given.

The baseline is a CatBoost for each property, with another for its presence. It writes its surest statements, as many as have
the same precision as those of kbdisk, and the numbers of right statements are compared. Masks, and in the last row sources,
are pooled statement by statement.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import yaml

import kbdisk
from benchmarks.base import Table
from benchmarks.data import source_file
from benchmarks.features import Features
from benchmarks.kb import KBOptions, ResumedFit, masked_entities, value_at
from benchmarks.masking import Cell, Masked, Values, is_drawn, pattern, without
from benchmarks.peers.catboost import pool
from benchmarks.progress import TerminalProgress
from benchmarks.results import OURS, Result, Row, StoredRun, group_latest, read
from benchmarks.script import add_out_option, argument_parser
from benchmarks.tables import print_tables
from benchmarks.tasks import Task, tasks_of
from kbdisk.api.model import Model
from kbdisk.completion.decide import calibration_of
from kbdisk.data.parse import read as read_entity
from kbdisk.entity import NOVALUE, Completion, Date, Entity, read_path, walk
from kbdisk.entity import Path as EntityPath
from kbdisk.errors import ConfigError
from kbdisk.evaluation.calibration import Reliability
from kbdisk.evaluation.calibration import Statement as JudgedStatement
from kbdisk.model.estimates import INTERVAL_LEVEL

NAME = "precision"
ABSENCES = Path(__file__).parent / "absences"
DEFAULT = "default"
BLANK = (None, "")  # of a path: no value
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
    covered: float | None = None  # of a number: whether its 90 % interval has the truth, 0 to 1 at an atom
    given: float = 0.0  # the share of its class's properties that the entity has


# ---------------------------------------------------------------- what is scored


def hide_novalues(entities: Sequence[Entity], masked: Masked, mask: int, share: float) -> tuple[Masked, list[Place]]:
    """A share of the values that are declared not to exist, hidden, too."""
    cells = [
        Cell(place, path, (pattern(path), "", "label"), NOVALUE)
        for place, entity in enumerate(entities)
        for path, value in walk(entity.tree)
        if value is NOVALUE and is_drawn(f"novalue {mask}", entity.id, path, share)
    ]
    places = [(cell.entity, cell.path) for cell in cells]
    return (replace(masked, entities=without(masked.entities, cells)) if cells else masked), places


def absences_of(name: str, entities: Sequence[Entity], count: int, mask: int, truth: Path | None = None) -> list[Place]:
    """Properties that entities cannot have, as many as `count`, drawn by a hash, as many of each property as there are.

    `truth` is the file of a generated source.
    """
    by_property = {} if truth is None else _absences_in_truth(truth, entities)
    file = ABSENCES / f"{name.partition('-')[0]}.yaml"  # wikilike-1500 is a part of wikilike
    for rule in yaml.safe_load(file.read_text()) if file.exists() else ():
        meant = [place for place, entity in enumerate(entities) if _is_meant(rule, entity)]
        for text in rule["lack"]:
            lacking = by_property.setdefault(text, set())
            for path in _paths(text, entities):
                lacking |= {(place, path) for place in meant if value_at(entities[place].tree, path) in BLANK}
    ranked: dict[Place, tuple[int, bytes]] = {}
    for places in by_property.values():
        drawn = sorted((_hash(f"{mask} {entities[place].id} {path}"), (place, path)) for place, path in places)
        ranked |= {place: (rank, hashed) for rank, (hashed, place) in enumerate(drawn)}
    return sorted(ranked, key=ranked.__getitem__)[:count]


def _absences_in_truth(truth: Path, entities: Sequence[Entity]) -> dict[str, set[Place]]:
    """The entities of a generated source that lack each property in truth."""
    values = json.loads(truth.read_text())["values"]
    names = {name for tree in values.values() for name in tree}
    return {
        name: {(place, (name,)) for place, entity in enumerate(entities) if name not in values[entity.id]}
        for name in names
    }


def _paths(text: str, entities: Sequence[Entity]) -> Iterator[EntityPath]:
    """The paths that a pattern such as languages.* stands for."""
    wanted = read_path(text)
    if "*" not in wanted:
        yield wanted
        return
    found: dict[EntityPath, Any] = {(): [entity.tree for entity in entities]}
    for key in wanted:
        deeper: dict[EntityPath, list[Any]] = {}
        for path, trees in found.items():
            for tree in trees:
                for name in (tree if key == "*" else [key] if key in tree else ()) if isinstance(tree, dict) else ():
                    deeper.setdefault((*path, name), []).append(tree[name])
        found = deeper
    yield from found


def _is_meant(rule: Mapping[str, Any], entity: Entity) -> bool:
    classes = {name.replace("#", "/").rsplit("/", 1)[-1] for name in entity.classes}
    if "not" in rule and classes & set(rule["not"]):
        return False
    if "classes" in rule and not classes & set(rule["classes"]):
        return False
    if any(entity.tree.get(key) is None for key in rule.get("has", ())):
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
    scalar = next((number for h, k, number in values.scalars(cell.property[0], value) if (h, k) == (half, kind)), None)
    if scalar is None:
        return False
    if kind == "label":
        return bool(scalar == cell.truth)
    if isinstance(value, Date) or cell.whole_year:
        return bool(math.floor(scalar) == math.floor(cell.truth))
    return bool(abs(scalar - cell.truth) <= tolerance(task, cell.truth) * (1 + 1e-9))


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


def given_shares(entities: Sequence[Entity]) -> list[float]:
    """Of each entity the share of the properties that entities of its classes have, and that it has."""
    known = [{pattern(path) for path, value in walk(entity.tree) if value is not None} for entity in entities]
    of_class: dict[tuple[str, ...], set[EntityPath]] = {}
    for entity, paths in zip(entities, known, strict=True):
        of_class.setdefault(entity.classes, set()).update(paths)
    return [len(paths) / max(len(of_class[entity.classes]), 1) for entity, paths in zip(entities, known, strict=True)]


def statements_of(
    completions: Sequence[Completion],
    hidden: Mapping[Place, list[tuple[Task, Cell]]],
    absences: Sequence[Place],
    values: Values,
    truth: Sequence[Entity],
    model: Model | None = None,
) -> Iterator[tuple[Place, Statement | None]]:
    """What was stated at each scored place; the model is asked where a truth is an end of an interval."""
    trees = [completion.tree() if completion.filled else completion.entity.tree for completion in completions]
    given = given_shares([completion.entity for completion in completions])
    for place, cells in hidden.items():
        entity, path = place
        filled = _filled_at(completions[entity], path)
        value = value_at(trees[entity], path) if filled is not None else None
        if filled is None or value is None:
            yield place, None
            continue
        known = value_at(truth[entity].tree, path)
        right = all(is_right(task, cell, value, known, values) for task, cell in cells)
        share = None if model is None else partial(share_on_end, model, completions[entity].entity, path)
        covered = covered_by_interval(filled, cells, *([] if share is None else [share]))
        yield place, Statement(filled.confidence or 0.0, right, cells[0][0].of[2], covered, given[entity])
    for place in absences:
        entity, path = place
        filled = _filled_at(completions[entity], path)
        is_filled = filled is not None and value_at(trees[entity], path) not in BLANK
        yield place, Statement(filled.confidence or 0.0, False, "absence") if is_filled else None


def _filled_at(completion: Completion, path: EntityPath) -> Any:
    for at, filled in completion.filled.items():
        least = min(len(at), len(path))
        if at[:least] == path[:least]:
            return filled
    return None


def covered_by_interval(
    filled: Any, cells: Sequence[tuple[Task, Cell]], share_on_end: Callable[[int], float] = lambda end: 1.0
) -> float | None:
    """Whether the 90 % interval of a number has the truth; None of what is no number.

    `share_on_end` of 0, the lower end, or 1 says how much a truth counts that is this end.
    """
    interval = getattr(filled.belief, "interval", None)
    task, cell = cells[0]
    if len(cells) > 1 or task.of[2] != "number" or not isinstance(interval, tuple) or isinstance(filled.value, Date):
        return None
    low, high = interval
    is_end = [math.isclose(cell.truth, end, rel_tol=1e-9, abs_tol=1e-9) for end in interval]
    return share_on_end(is_end.index(True)) if any(is_end) else float(low <= cell.truth <= high)


def share_on_end(model: Model, entity: Entity, path: EntityPath, end: int) -> float:
    """How much a truth on an end of the interval counts as covered: 1 but for an atom, whose mass reaches over the end."""
    levels = calibration_of(model.trained).levels
    reading = read_entity(model.schema, entity)
    assert reading is not None
    belief: Any = model.belief(entity, path)  # of a number
    key = model.trained.codec.learnt_as(reading.class_name, belief.path)
    level = statistics.median(levels.by_property.get(key, levels.of_all))  # of a middling number of given values
    number = belief.interval(level)[end]  # in the unit that was learnt
    return share_of_atom(belief.cdf(number), belief.atoms.get(number, 0.0), level)


def share_of_atom(mass_up_to: float, mass: float, level: float = INTERVAL_LEVEL) -> float:
    """The share of an atom that lies within an interval of so much mass around the median, by the mass up to the atom."""
    if mass <= 0:
        return 1.0
    below, above = (1 - level) / 2, (1 + level) / 2
    inside = min(mass_up_to, above) - max(mass_up_to - mass, below)
    return min(max(inside / mass, 0.0), 1.0)


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

    from kbdisk.experts.catboost import unattended

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
    """The most right statements at or above a threshold of confidence that have a precision."""
    best = right = count = 0
    for _, tied in groupby(
        sorted(statements, key=lambda statement: -statement.confidence), key=lambda statement: statement.confidence
    ):
        group = list(tied)
        count += len(group)
        right += sum(statement.right for statement in group)
        if right / count >= precision:
            best = right
    return best


def reliability(statements: Sequence[Statement]) -> float:
    """The expected calibration error over bins of equal width."""
    judged = (JudgedStatement(statement.confidence, 0.0, float(statement.right), 0.0, 1.0) for statement in statements)
    error = Reliability.of(judged).error
    return math.nan if error is None else error


def coverage(statements: Sequence[Statement]) -> list[float]:
    """The share of intervals that have the truth: of all, and of the thirds of how much is given, the least first."""
    known = sorted(
        (statement for statement in statements if statement.covered is not None), key=lambda statement: statement.given
    )
    ends = [len(known) * third // 3 for third in range(4)]
    parts = [known, *(known[start:end] for start, end in pairwise(ends))]
    return [statistics.fmean(statement.covered or 0.0 for statement in part) if part else math.nan for part in parts]


# ---------------------------------------------------------------- a run


@dataclass(frozen=True)
class Scored:
    """What is scored of one masked source."""

    masked: Masked
    tasks: Sequence[Task]
    values: Values
    truth: Sequence[Entity]
    absences: Sequence[Place]

    @cached_property
    def hidden(self) -> dict[Place, list[tuple[Task, Cell]]]:
        """The hidden cells of each value."""
        return by_place(self.masked, self.tasks)

    def result(self, model: Model, levels: Sequence[float], catboost: int | None) -> dict[str, Any]:
        """The figures of a model, with all statements as details; `catboost` is the seed of those beside it."""

        def stated(**choices: Any) -> list[Statement]:
            completions = list(model.complete(self.masked.entities, **choices))
            scored = statements_of(
                completions, self.hidden, self.absences, self.values, self.truth, model
            )  # fmt: skip
            return [statement for statement in dict(scored).values() if statement is not None]

        everything = stated(fill="all")
        choices: dict[str, dict[str, Any]] = {DEFAULT: {}, **{f"{level:g}": {"precision": level} for level in levels}}
        written = {level: stated(**extra) for level, extra in choices.items()}
        others = [] if catboost is None else rivals(self.masked, self.values, self.tasks, self.absences, catboost)
        figures = {"hidden": len(self.hidden), "absences": len(self.absences), "ece": reliability(everything)}
        figures["coverage"] = coverage(everything)[0]
        for level, statements in written.items():
            right = sum(statement.right for statement in statements)
            figures |= {f"{level}: written": len(statements), f"{level}: right": right}
        details = {
            "all": list(map(_plain, everything)),
            "written": {level: list(map(_plain, statements)) for level, statements in written.items()},
            "catboost": list(map(_plain, others)),
        }
        rows = [Row(name, value, len(self.hidden)) for name, value in figures.items() if not math.isnan(value)]
        return {"rows": rows, "details": details, "split": ", ".join(choices)}


def measure(source: str, mask: int, arguments: argparse.Namespace) -> None:
    """One training, and what its model writes with the default options and at each precision."""
    file = source_file(source)
    options = KBOptions(masks=(mask,), validation=arguments.validation, budget=arguments.budget)
    stored_run = StoredRun.of(arguments.out, NAME, [source, arguments.budget, mask, options.part, *arguments.precision])
    kb = kbdisk.load(str(file))
    entities = list(kb)
    masked, novalues = hide_novalues(entities, masked_entities(kb, entities, options, mask), mask, options.share)
    values = Values(masked.entities)
    tasks = tasks_of(masked, values)
    count = len(by_place(masked, tasks))
    truth = file.with_name(f"{file.name}.truth.json")
    name = arguments.absences or Path(source).name.split(".")[0]
    by_hand = absences_of(name, entities, count, mask, truth if truth.exists() else None)
    scored = Scored(masked, tasks, values, entities, [*novalues, *by_hand][:count])
    begun = time.monotonic()
    fit = ResumedFit(stored_run.model, TerminalProgress(arguments.quiet), arguments.budget)
    found = scored.result(fit(masked.entities, mask), arguments.precision, mask if arguments.catboost else None)
    seconds, budget = round(time.monotonic() - begun, 1), f" + {arguments.budget}"
    stored_run.add(
        Result(NAME, OURS, seed=mask, part=options.part, setting=source, told=budget, seconds=seconds, **found)
    )  # fmt: skip
    stored_run.end()
    fit.forget()


def _plain(statement: Statement) -> list[Any]:
    covered = None if statement.covered is None else round(statement.covered, 4)
    return [round(statement.confidence, 5), int(statement.right), statement.kind, covered, round(statement.given, 4)]


def _statement(data: Sequence[Any]) -> Statement:
    confidence, right, kind, covered, given = data
    return Statement(confidence, bool(right), kind, covered, given)


# ---------------------------------------------------------------- shown


def table(results: Sequence[Result]) -> list[Table]:
    """A row for each source, its masks pooled, and one for all sources; a table for each budget and choice of precisions."""
    found = group_latest(results, lambda result: (result.part, result.split, result.told))
    return [
        _table(f"{budget.removeprefix(' + ')}, {part}", split.split(", "), group)
        for (part, split, budget), group in found.items()
    ]


def _table(title: str, levels: Sequence[str], results: Sequence[Result]) -> Table:
    by_source: dict[str, list[Result]] = {}
    for result in results:
        by_source.setdefault(result.setting, []).append(result)
    header = ["source", "masks", "hidden", "absences"]
    for level in levels:
        header += [f"{level}: written", "right", "precision", "wrong where absent", "right of catboost"]
    header += ["ECE", "coverage of 90 %", "least given", "middle", "most given"]
    rows = [_row(Path(source).name, levels, group) for source, group in by_source.items()]
    if len(rows) > 1:
        rows.append(_row("pooled", levels, results))
    return Table(f"Precision of what is written, {title}", header, rows, [])


def _row(source: str, levels: Sequence[str], results: Sequence[Result]) -> list[str]:
    def pooled(key: str, level: str = "") -> list[Statement]:
        parts = [result.details[key][level] if level else result.details[key] for result in results]
        return [_statement(data) for part in parts for data in part]

    cells = [source, str(len(results))]
    cells += [f"{sum(result.values[name] for result in results):,.0f}" for name in ("hidden", "absences")]
    others = pooled("catboost")
    for level in levels:
        written = pooled("written", level)
        right = sum(statement.right for statement in written)
        precision = right / len(written) if written else math.nan
        absent = sum(statement.kind == "absence" for statement in written)
        cells += [f"{len(written):,}", f"{right:,}", _figure(precision), f"{absent:,}"]
        cells.append(f"{yield_at(others, precision) if written else 0:,}" if others else "")
    everything = pooled("all")
    return [*cells, *map(_figure, [reliability(everything), *coverage(everything)])]


def _figure(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.3f}"


def main(argv: Sequence[str]) -> None:
    parser = argument_parser("precision", __doc__)
    parser.add_argument("source", nargs="?")
    parser.add_argument("--budget", default="5m", help="of each training")
    parser.add_argument("--mask", type=int, action="append", help="which values are hidden, and the seed; repeat it")
    parser.add_argument("--validation", action="store_true", help="hide once more within what is given, and score that")
    parser.add_argument("--precision", type=float, action="append", help="as of kbdisk complete; repeat it")
    parser.add_argument("--absences", help="the name of the list of absences; by default that of the source")
    parser.add_argument("--not-catboost", dest="catboost", action="store_false", help="measure kbdisk alone")
    parser.add_argument("--quiet", action="store_true")
    add_out_option(parser)
    arguments = parser.parse_args(argv)
    arguments.precision = arguments.precision or []
    for precision in arguments.precision:
        if not 0 < precision <= 1:
            raise ConfigError("--precision", f"expected more than 0 and at most 1, got {precision:g}.")
    if arguments.source is not None:
        for mask in arguments.mask or [0]:
            measure(arguments.source, mask, arguments)
    print_tables(table(read(arguments.out / f"{NAME}.jsonl")))
