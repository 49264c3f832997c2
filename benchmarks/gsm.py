"""Phones of GSMArena, the paper's main table: each property predicted from all the others.

paper     the paper's split, by row numbers
names     duplicates (phones of one maker and name, or that differ in the name alone) on one side of the split
random    drawn anew for each seed, by the paper's rule
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.base import PAPERS, RANDOM, Options, Table, refuse_split
from benchmarks.data import data_file
from benchmarks.plots import draw_ratios
from benchmarks.progress import Progress
from benchmarks.properties import Target, Task, measure
from benchmarks.results import Result
from benchmarks.splits import TEST_SHARE, VALIDATION_SHARE, Sides, drawn, grouped, published, sides_of, within
from benchmarks.tables import Measure, compared, decimals_by_name, titled
from kbdisk.entity import Entity
from kbdisk.schemas.schema import Schema

SOURCE = "haolun-wu/Disk-SNAKE"
PAPERS_SEED = 42  # by which the paper drew its split

TARGETS = (
    Target("weight", ("weight", "value")),
    Target("height", ("height", "value")),
    Target("depth", ("depth", "value")),
    Target("width", ("width", "value")),
    Target("display", ("display_size", "value")),
    Target("battery", ("battery",)),
    Target("day", ("launch", "day")),
    Target("month", ("launch", "month")),
    Target("year", ("launch", "year")),
    Target("oem", ("oem",)),
    Target("edge", ("network_edge",)),
    Target("model", ("model",)),
)
NAMES = [target.name for target in TARGETS]
PAPER = dict(zip(NAMES, (20.8, 5.7, 1.67, 3.5, 0.64, 0.233, 11, 3.4, 1.25, 0.181, 0.221, 0.881), strict=True))
PAPER_OTHERS = {  # the paper's figures of a method, which stand beside its column
    "lm-scratch": dict(
        zip(NAMES, (71.9, 79.6, 3.90, 42.7, 7.47, 6.99, 30.9, 4.79, 947, 0.484, 0.371, 0.900), strict=True)
    ),
    "llm": dict(zip(NAMES, (24.2, 6.4, 1.82, 4.11, 0.707, 0.257, 11.27, 5.11, 1.22, 0.231, 0.217, 0.878), strict=True)),
    "gbdt-filled": dict(zip(NAMES[:-1], (25, 6.2, 1.65, 3.8, 1.08, 0.304, 8.7, 3.281, 1.42, 0.4, 0.75), strict=True)),
}
BAR = decimals_by_name(NAMES, "18.5 4.85 1.40 2.85 .62 .22 9.21 3.16 1.13 .175 .20 .861")

PAPERS_NOTE = "paper: DiSK, its table on GSM. The bar was the goal: at most the error of the paper or of a CatBoost."
OTHER_SPLIT_NOTE = "The bar is that of the paper's split."
TEXTS_NOTE = (
    "gbdt gets no texts, so not the name of a phone, which ours reads. The preset best uses boosted trees, too."
)


def run(options: Options, progress: Progress) -> Iterator[Result]:
    """Train and predict, seed by seed."""
    schema, entities = read(options.data)
    for seed in options.seeds:
        yield from measure([task(schema, entities, options, seed)], options, seed, progress)


def read(data: Path) -> tuple[Schema, list[Entity]]:
    """The phones, and their schema."""
    import kbdisk

    return Schema.read("phone"), list(kbdisk.load(str(data_file(data, "gsm/gsm_processed.csv", SOURCE))))


def task(schema: Schema, entities: Sequence[Entity], options: Options, seed: int) -> Task:
    """What is learnt and predicted with a seed."""
    sides = split(entities, options, seed)
    train, scored = ([entities[place] for place in side] for side in sides)
    return Task("gsm", schema, TARGETS, train, scored, options.split, options.part)


def split(entities: Sequence[Entity], options: Options, seed: int) -> Sides:
    """The two sides; with `validation` train alone, split again by the same rule."""
    refuse_split(options.split, SPLITS)
    sides = SPLITS[options.split](entities, options, seed)
    if not options.validation:
        return sides
    train = [entities[place] for place in sides.train]
    by_rule = _by_names if options.split == "names" else _at_random
    return within(sides.train, by_rule(train, VALIDATION_SHARE, seed))


def _of_the_paper(entities: Sequence[Entity], options: Options, seed: int) -> Sides:
    return published(options.data, "gsm/gsm_split_seed42.json", SOURCE, len(entities))


def _at_random(entities: Sequence[Entity], share: float, seed: int) -> Sides:
    """A share, without those whose maker and whose name are both on the other side, as the paper has it."""
    out = drawn(range(len(entities)), share, seed)
    rest = [entity.tree for place, entity in enumerate(entities) if place not in out]
    makers, names = {tree["oem"] for tree in rest}, {tree["model"] for tree in rest}
    trees = {place: entities[place].tree for place in out}
    kept = [place for place, tree in trees.items() if tree["oem"] not in makers or tree["model"] not in names]
    return sides_of(range(len(entities)), kept)


def _by_names(entities: Sequence[Entity], share: float, seed: int) -> Sides:
    keys = []
    for entity in entities:
        name = {key: value for key, value in entity.tree.items() if key in ("oem", "model")}
        rest = {key: value for key, value in entity.tree.items() if key != "model"}
        keys.append((repr(name), repr(rest)))
    return sides_of(range(len(entities)), drawn(grouped(keys), share, seed))


SPLITS: dict[str, Callable[[Sequence[Entity], Options, int], Sides]] = {
    PAPERS: _of_the_paper,
    "names": lambda entities, options, seed: _by_names(entities, TEST_SHARE, PAPERS_SEED),
    RANDOM: lambda entities, options, seed: _at_random(entities, TEST_SHARE, seed),
}


def tables(results: Sequence[Result]) -> list[Table]:
    """One for each split and part."""
    tables = []
    for split, part in dict.fromkeys((result.split, result.part) for result in results):
        of_split = [result for result in results if (result.split, result.part) == (split, part)]
        is_papers = (split, part) == (PAPERS, "test")
        table = Measure(
            titled("GSM, the paper's split" if split == PAPERS else "GSM", split, part),
            NAMES,
            paper_columns(of_split) if is_papers else {},
            BAR,
            [PAPERS_NOTE if is_papers else OTHER_SPLIT_NOTE, TEXTS_NOTE],
        )
        tables.append(compared(table, of_split))
    return tables


def paper_columns(results: Sequence[Result]) -> dict[str, dict[str, float]]:
    """The paper's figures: of DiSK, and of the other methods of its table that were measured."""
    measured = dict.fromkeys(result.method for result in results)
    return {"paper": PAPER} | {
        f"{method}, paper": PAPER_OTHERS[method] for method in PAPER_OTHERS if method in measured
    }


def figure(results: Sequence[Result], path: Path) -> bool:
    """Each method's errors on the paper's split, in parts of the constant's where that was measured, else the paper's."""
    of_paper = [result for result in results if (result.split, result.part) == (PAPERS, "test")]
    published = {"paper": PAPER} if of_paper else {}
    return draw_ratios(of_paper or results, NAMES, published, path, "GSM, one property hidden")
