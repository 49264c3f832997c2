"""Numbers of FB15k-237's entities, told from what these link to: MrAP's table. Mean absolute errors, of the median.

All that entities link to is given, by a path for each relation: one link where nearly all have but one, else a set. What
an entity's neighbours bring are the numbers of train alone; each number of dev is asked for beside its entity's of train.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbdisk.bench.base import TRAINING, Options, Table, Teller, data_file, of_model
from kbdisk.bench.pictures import draw_ratios
from kbdisk.bench.properties import train_or_open
from kbdisk.bench.results import OURS, Result, Row
from kbdisk.bench.splits import SHARE, drawn
from kbdisk.bench.tables import Measure, compared
from kbdisk.entity import Entity, Link
from kbdisk.entity import Path as EntityPath
from kbdisk.schemas import kinds
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Schema, of_one_class

if TYPE_CHECKING:
    from kbdisk.data.graph import Graph
    from kbdisk.evaluation.baselines import HiddenLeaves

SOURCE = "thunlp/OpenKE (FB15k-237) and bayrameda/MrAP"
TAKES = TRAINING | {"validation", "against", "not_ours"}
OF = "Thing"
SINGLE = 0.9  # of a relation's entities with but one link, from which on that is a link and no set
ENOUGH = 100  # values of dev, from which on an attribute counts

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
    """What is learnt, and each number that is asked for, beside its entity's others of train."""

    schema: Schema
    train: Sequence[Entity]
    asked: Sequence[Entity]
    numbers: Sequence[Number]  # of `asked`, one by one


def run(options: Options, teller: Teller) -> Iterator[Result]:
    """Train and ask, seed by seed; beside it the median, and what else is wanted."""
    links, published = read_links(options.data), read_published(options.data)
    for seed in options.seeds:
        wanted = task(options, links, seed)
        for one in _measured(wanted, options, seed, teller):
            yield replace(one, split=options.split, part=options.part, seed=seed, details={"published": published})


# ---------------------------------------------------------------- data


def read_numbers(data: Path, name: str) -> list[Number]:
    """The attributes of a file: entity, attribute, value."""
    with data_file(data, f"kb/mrap_fb15k/{name}", SOURCE).open(newline="", encoding="utf-8") as stream:
        return [(id, attribute, float(value)) for id, attribute, value in list(csv.reader(stream))[1:]]


def read_links(data: Path) -> dict[str, dict[str, list[str]]]:
    """relation -> entity -> those that it links to; ids as the attributes have them."""

    def lines(name: str) -> list[str]:
        return data_file(data, f"kb/fb15k237/{name}", SOURCE).read_text("utf-8").splitlines()[1:]

    entities = [line.split("\t")[0].removeprefix("/m/") for line in lines("entity2id.txt")]
    relations = [line.split("\t")[0] for line in lines("relation2id.txt")]
    found: dict[str, dict[str, list[str]]] = {}
    for name in ("train2id.txt", "valid2id.txt", "test2id.txt"):
        for line in lines(name):
            head, tail, relation = map(int, line.split())
            found.setdefault(relations[relation], {}).setdefault(entities[head], []).append(entities[tail])
    return found


def read_published(data: Path) -> dict[str, dict[str, float]]:
    """The mean absolute errors that MrAP tells, by method and attribute."""
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
    """Entities with a number of train; of each that is asked for one more, with this number beside."""
    known = read_numbers(options.data, "train_100")
    asked = [] if options.validation else read_numbers(options.data, "dev")
    if options.validation:
        out = drawn([one[:2] for one in known], SHARE, seed)
        asked = [one for place, one in enumerate(known) if place in out]
        known = [one for place, one in enumerate(known) if place not in out]
    schema, given = _schema(links), _given(links)
    trees: dict[str, dict[str, Any]] = {}
    for id, attribute, value in known:
        trees.setdefault(id, dict(given.get(id, {})))[attribute] = value
    train = [Entity(id, tree, (OF,)) for id, tree in trees.items()]
    several = [
        Entity(id, {**trees.get(id, given.get(id, {})), attribute: value}, (OF,)) for id, attribute, value in asked
    ]
    return Task(schema, train, several, asked)


def _is_single(targets: Mapping[str, Sequence[str]]) -> bool:
    return sum(len(each) == 1 for each in targets.values()) >= SINGLE * len(targets)


def _schema(links: Mapping[str, Mapping[str, list[str]]]) -> Schema:
    properties: dict[EntityPath, Property] = {(name,): Property(kinds.Number()) for name in NAMES.values()}
    for relation, targets in links.items():
        kind = kinds.Link() if _is_single(targets) else kinds.Set(kinds.Link())
        properties[relation,] = Property(kind, role="given")
    return of_one_class(properties, OF)


def _given(links: Mapping[str, Mapping[str, list[str]]]) -> dict[str, dict[str, Any]]:
    """The links of each entity, as its tree has them; of a relation with but one the first."""
    found: dict[str, dict[str, Any]] = {}
    for relation, targets in links.items():
        single = _is_single(targets)
        for id, several in targets.items():
            value = Link(several[0]) if single else [Link(one) for one in dict.fromkeys(several)]
            found.setdefault(id, {})[relation] = value
    return found


# ---------------------------------------------------------------- methods


def _measured(task: Task, options: Options, seed: int, teller: Teller) -> Iterator[Result]:
    if options.ours and not options.is_done("", OURS, seed):
        yield _ours(task, options, seed, teller)
    yield from _others(task, options, seed, teller)


def _ours(task: Task, options: Options, seed: int, teller: Teller) -> Result:
    from kbdisk.api.training import run_of
    from kbdisk.data.graph import Graph
    from kbdisk.evaluation.evaluate import Evaluation, Scope

    chosen = run_of(options.preset, options.budget, options.config, seed)
    with teller.training(f"kb-numeric: training, seed {seed}") as watch:
        model = train_or_open(task.train, task.schema, chosen, options, f"kb-numeric-{seed}", watch)
    graph: Graph = Graph.read(task.schema, task.train)
    exam = Evaluation.of(model.trained, task.asked, graph, Scope(limit=1 << 40))
    answers: list[Any] = [None] * len(task.asked)
    with teller.counting("kb-numeric: asking") as told:
        for case in exam.cases(watch=told):
            if model.trained.codec.slots[case.slot].path == (task.numbers[case.entity][1],):
                answers[case.entity] = case.prediction
    return of_model(Result("kb-numeric", OURS, scores(task.numbers, answers)), model.trained, options)


def _others(task: Task, options: Options, seed: int, teller: Teller) -> Iterator[Result]:
    from kbdisk.data.graph import Graph
    from kbdisk.evaluation import baseline

    graph: Graph = Graph.read(task.schema, task.train)
    asked: HiddenLeaves = {(OF, (name,)): frozenset([(name,)]) for name in NAMES.values()}
    for method in dict.fromkeys(("constant", *options.against)):
        if options.is_done("", method, seed):
            continue
        teller.say(f"kb-numeric: {method}, seed {seed}")
        with teller.counting(method) as told:
            fitted = baseline(method).fit(task.schema, task.train, graph, asked=asked, seed=seed, watch=told)
        answers: list[Any] = [None] * len(task.asked)
        for name in NAMES.values():
            places = [place for place, one in enumerate(task.numbers) if one[1] == name]
            said = fitted.predict(OF, (name,), [task.asked[place] for place in places])
            for place, one in zip(places, said, strict=True):
                answers[place] = one
        yield Result("kb-numeric", method, scores(task.numbers, answers))


def scores(numbers: Sequence[Number], answers: Sequence[Any]) -> list[Row]:
    """A row for each attribute: how far answers are off, on average."""
    from kbdisk.metrics import error

    rows = []
    for short, name in NAMES.items():
        off = [
            error("number", one[2], answer)
            for one, answer in zip(numbers, answers, strict=True)
            if one[1] == name and answer is not None
        ]
        if off:
            rows.append(Row(short, sum(off) / len(off), len(off)))
    return rows


# ---------------------------------------------------------------- shown


def tables(results: Sequence[Result]) -> list[Table]:
    """One for each part."""
    found = []
    for part in dict.fromkeys(one.part for one in results):
        own = [one for one in results if one.part == part]
        published = own[-1].details["published"]
        counts = {row.name: row.n for one in own for row in one.rows}
        few = [name for name, count in counts.items() if count < ENOUGH]
        measure = Measure(
            "FB15k-237, numbers from links" + (", validation" if part == "validation" else ""),
            list(NAMES),
            {name: one for name, one in published.items() if name != "MrAP"},
            published.get("MrAP", {}),
            ["Published: MrAP's own table, train_100, scored on dev.", *_few(few)],
            bars="MrAP",
            what="attribute",
        )
        found.append(compared(measure, own))
    return found


def _few(names: Sequence[str]) -> list[str]:
    return [f"Fewer than {ENOUGH} values were asked for of {', '.join(names)}."] if names else []


def figure(results: Sequence[Result], path: Path) -> bool:
    """Each method's errors in parts of the constant's."""
    own = [one for one in results if one.part == "test"] or list(results)
    published = own[-1].details["published"] if own else {}
    return draw_ratios(own, list(NAMES), {"MrAP": published.get("MrAP", {})}, path, "FB15k-237, numbers from links")
