"""Numbers of FB15k-237's entities, predicted over their links: MrAP's table. Mean absolute errors of the median.

All links of an entity are given, with a path for each relation: a single link where nearly all entities have only one, else a
set. An entity's neighbours have only the numbers of train; a number of dev is predicted given its entity's numbers of train.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.base import Options, Table, of_model
from benchmarks.data import data_file
from benchmarks.plots import draw_ratios
from benchmarks.progress import Progress
from benchmarks.properties import ALL, train_or_open
from benchmarks.results import OURS, Result, Row
from benchmarks.splits import VALIDATION_SHARE, drawn
from benchmarks.tables import Measure, compared
from kbdisk.entity import Entity, Link
from kbdisk.entity import Path as EntityPath
from kbdisk.schemas import kinds
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Schema, of_one_class

if TYPE_CHECKING:
    from kbdisk.data.graph import Graph
    from kbdisk.evaluation.baselines import HiddenLeaves

SOURCE = "thunlp/OpenKE (FB15k-237) and bayrameda/MrAP"
CLASS = "Thing"
SINGLE_SHARE = 0.9  # of a relation's entities with but one link, from which on that is a link and no set
ENOUGH_VALUES = 100  # of dev, from which on an attribute counts

NAMES = {  # attributes by their short names, as the published table has them
    "long": "location.geocode.longitude",
    "lat": "location.geocode.latitude",
    "birth": "people.person.date_of_birth",
    "death": "people.deceased_person.date_of_death",
    "height": "people.person.height_meters",
    "film": "film.film.initial_release_date",
    "org": "organization.organization.date_founded",
    "pop": "topic_server.population_number",
    "area": "location.location.area",
    "loc": "location.dated_location.date_founded",
    "weight": "people.person.weight_kg",
}
PUBLISHED = {"MrAP": "MrAP_cross-100", "global mean": "Global-100", "mean of neighbours": "Local-100"}

Number = tuple[str, str, float]  # an entity, an attribute, its value


@dataclass(frozen=True)
class Task:
    """What is learnt, and each number that is predicted, beside its entity's others of train."""

    schema: Schema
    train: Sequence[Entity]
    scored: Sequence[Entity]
    numbers: Sequence[Number]  # of `scored`, one by one


def run(options: Options, progress: Progress) -> Iterator[Result]:
    """Train and predict, seed by seed; beside it the median, and the baselines of --methods."""
    links, published = read_links(options.data), read_published(options.data)
    for seed in options.seeds:
        for result in _measure(task(options, links, seed), options, seed, progress):
            yield replace(result, split=options.split, part=options.part, seed=seed, details={"published": published})


# ---------------------------------------------------------------- data


def read_numbers(data: Path, name: str) -> list[Number]:
    """The attributes of a file: entity, attribute, value."""
    with data_file(data, f"kb/mrap_fb15k/{name}", SOURCE).open(newline="", encoding="utf-8") as stream:
        return [(id, attribute, float(value)) for id, attribute, value in list(csv.reader(stream))[1:]]


def read_links(data: Path) -> dict[str, dict[str, list[str]]]:
    """relation -> entity -> the entities that it links to; ids as the attributes have them."""

    def lines(name: str) -> list[str]:
        return data_file(data, f"kb/fb15k237/{name}", SOURCE).read_text("utf-8").splitlines()[1:]

    entities = [line.split("\t")[0].removeprefix("/m/") for line in lines("entity2id.txt")]
    relations = [line.split("\t")[0] for line in lines("relation2id.txt")]
    links: dict[str, dict[str, list[str]]] = {}
    for name in ("train2id.txt", "valid2id.txt", "test2id.txt"):
        for line in lines(name):
            head, tail, relation = map(int, line.split())
            links.setdefault(relations[relation], {}).setdefault(entities[head], []).append(entities[tail])
    return links


def read_published(data: Path) -> dict[str, dict[str, float]]:
    """The mean absolute errors that MrAP publishes, by method and attribute."""
    with data_file(data, "kb/mrap_fb15k/published_fb15k_from_notebook.csv", SOURCE).open(newline="") as stream:
        rows = list(csv.reader(stream))
    header: list[str] = next((row for row in rows if "long-MAE" in row), [])
    by_name = {row[1]: dict(zip(header, row, strict=True)) for row in rows if len(row) == len(header)}
    return {
        column: {name: float(by_name[key][f"{name}-MAE"]) for name in NAMES if f"{name}-MAE" in header}
        for column, key in PUBLISHED.items()
        if key in by_name
    }


def task(options: Options, links: Mapping[str, Mapping[str, list[str]]], seed: int) -> Task:
    """Entities with a number of train; for each number that is predicted one more, which has it, too."""
    known = read_numbers(options.data, "train_100")
    if options.validation:
        held_out = drawn([number[:2] for number in known], VALIDATION_SHARE, seed)
        numbers = [number for place, number in enumerate(known) if place in held_out]
        known = [number for place, number in enumerate(known) if place not in held_out]
    else:
        numbers = read_numbers(options.data, "dev")
    schema, given = _schema(links), _given(links)
    trees: dict[str, dict[str, Any]] = {}
    for id, attribute, value in known:
        trees.setdefault(id, dict(given.get(id, {})))[attribute] = value
    train = [Entity(id, tree, (CLASS,)) for id, tree in trees.items()]
    scored = [
        Entity(id, {**trees.get(id, given.get(id, {})), attribute: value}, (CLASS,)) for id, attribute, value in numbers
    ]
    return Task(schema, train, scored, numbers)


def _is_single(targets: Mapping[str, Sequence[str]]) -> bool:
    return sum(len(of_entity) == 1 for of_entity in targets.values()) >= SINGLE_SHARE * len(targets)


def _schema(links: Mapping[str, Mapping[str, list[str]]]) -> Schema:
    properties: dict[EntityPath, Property] = {(name,): Property(kinds.Number()) for name in NAMES.values()}
    for relation, targets in links.items():
        kind = kinds.Link() if _is_single(targets) else kinds.Set(kinds.Link())
        properties[relation,] = Property(kind, role="given")
    return of_one_class(properties, CLASS)


def _given(links: Mapping[str, Mapping[str, list[str]]]) -> dict[str, dict[str, Any]]:
    """The links of each entity, as its tree has them; of a relation with but one the first."""
    given: dict[str, dict[str, Any]] = {}
    for relation, targets in links.items():
        is_single = _is_single(targets)
        for id, ids in targets.items():
            value = Link(ids[0]) if is_single else [Link(target) for target in dict.fromkeys(ids)]
            given.setdefault(id, {})[relation] = value
    return given


# ---------------------------------------------------------------- methods


def _measure(task: Task, options: Options, seed: int, progress: Progress) -> Iterator[Result]:
    if OURS in options.methods and not options.is_done("", OURS, seed):
        yield _evaluate_model(task, options, seed, progress)
    yield from _evaluate_baselines(task, options, seed, progress)


def _evaluate_model(task: Task, options: Options, seed: int, progress: Progress) -> Result:
    from kbdisk.api.train import run_of
    from kbdisk.data.graph import Graph
    from kbdisk.evaluation.evaluate import Evaluation, Scope

    run = run_of(options.preset, options.budget, options.config, seed)
    with progress.training(f"kb-numeric: training, seed {seed}") as watch:
        model = train_or_open(task.train, task.schema, run, options, f"kb-numeric-{seed}", watch)
    graph: Graph = Graph.read(task.schema, task.train)
    evaluation = Evaluation.of(model.trained, task.scored, graph, Scope(limit=ALL))
    predictions: list[Any] = [None] * len(task.scored)
    with progress.counting("kb-numeric: asking") as report:
        for case in evaluation.cases(watch=report):
            if model.trained.codec.slots[case.slot].path == (task.numbers[case.entity][1],):
                predictions[case.entity] = case.prediction
    return of_model(Result("kb-numeric", OURS, scores(task.numbers, predictions)), model.trained, options)


def _evaluate_baselines(task: Task, options: Options, seed: int, progress: Progress) -> Iterator[Result]:
    from kbdisk.data.graph import Graph
    from kbdisk.evaluation import baseline

    graph: Graph = Graph.read(task.schema, task.train)
    hidden: HiddenLeaves = {(CLASS, (name,)): frozenset([(name,)]) for name in NAMES.values()}
    for method in dict.fromkeys(("constant", *options.methods)):
        if method == OURS or options.is_done("", method, seed):
            continue
        progress.say(f"kb-numeric: {method}, seed {seed}")
        with progress.counting(method) as report:
            fitted = baseline(method).fit(task.schema, task.train, graph, asked=hidden, seed=seed, watch=report)
        predictions: list[Any] = [None] * len(task.scored)
        for name in NAMES.values():
            places = [place for place, (_, attribute, _) in enumerate(task.numbers) if attribute == name]
            of_attribute = fitted.predict(CLASS, (name,), [task.scored[place] for place in places])
            for place, predicted in zip(places, of_attribute, strict=True):
                predictions[place] = predicted
        yield Result("kb-numeric", method, scores(task.numbers, predictions))


def scores(numbers: Sequence[Number], predictions: Sequence[Any]) -> list[Row]:
    """A row for each attribute: the mean absolute error."""
    from kbdisk.metrics import error

    rows = []
    for short, name in NAMES.items():
        errors = [
            error("number", value, predicted)
            for (_, attribute, value), predicted in zip(numbers, predictions, strict=True)
            if attribute == name and predicted is not None
        ]
        if errors:
            rows.append(Row(short, sum(errors) / len(errors), len(errors)))
    return rows


# ---------------------------------------------------------------- shown


def tables(results: Sequence[Result]) -> list[Table]:
    """One for each part."""
    tables = []
    for part in dict.fromkeys(result.part for result in results):
        of_part = [result for result in results if result.part == part]
        published = of_part[-1].details["published"]
        counts = {row.name: row.n for result in of_part for row in result.rows}
        few = [name for name, count in counts.items() if count < ENOUGH_VALUES]
        few_note = [f"Fewer than {ENOUGH_VALUES} values were asked for of {', '.join(few)}."] if few else []
        measure = Measure(
            "FB15k-237, numbers from links" + (", validation" if part == "validation" else ""),
            list(NAMES),
            {method: errors for method, errors in published.items() if method != "MrAP"},
            published.get("MrAP", {}),
            ["Published: MrAP's own table, train_100, scored on dev.", *few_note],
            bar_name="MrAP",
            what="attribute",
        )
        tables.append(compared(measure, of_part))
    return tables


def figure(results: Sequence[Result], path: Path) -> bool:
    """Each method's errors in parts of the constant's."""
    plotted = [result for result in results if result.part == "test"] or list(results)
    published = plotted[-1].details["published"] if plotted else {}
    return draw_ratios(plotted, list(NAMES), {"MrAP": published.get("MrAP", {})}, path, "FB15k-237, numbers from links")
