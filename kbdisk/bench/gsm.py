"""Phones of GSMArena, the paper's main table: each property told from all the others.

paper     the paper's split, by row numbers
names     what has one maker and name, or all but the name alike, on one side
random    drawn anew for each seed, by the paper's rule
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kbdisk.bench.base import PAPERS, RANDOM, TRAINING, Options, Table, Teller, data_file, refuse_split
from kbdisk.bench.pictures import draw_ratios
from kbdisk.bench.properties import Asked, Task, measured
from kbdisk.bench.results import Result
from kbdisk.bench.splits import SHARE, TEST, Sides, drawn, grouped, published, sided, within
from kbdisk.bench.tables import Measure, as_told, compared, titled
from kbdisk.entity import Entity
from kbdisk.schemas.schema import Schema

SOURCE = "haolun-wu/Disk-SNAKE"
TAKES = TRAINING | {"validation", "split", "against", "not_ours"}
FIXED = 42  # the seed that the paper drew its split by

ASKED = (
    Asked("weight", ("weight", "value")),
    Asked("height", ("height", "value")),
    Asked("depth", ("depth", "value")),
    Asked("width", ("width", "value")),
    Asked("display", ("display_size", "value")),
    Asked("battery", ("battery",)),
    Asked("day", ("launch", "day")),
    Asked("month", ("launch", "month")),
    Asked("year", ("launch", "year")),
    Asked("oem", ("oem",)),
    Asked("edge", ("network_edge",)),
    Asked("model", ("model",)),
)
NAMES = [one.name for one in ASKED]
PAPER = dict(zip(NAMES, (20.8, 5.7, 1.67, 3.5, 0.64, 0.233, 11, 3.4, 1.25, 0.181, 0.221, 0.881), strict=True))
BAR = as_told(NAMES, "18.5 4.85 1.40 2.85 .62 .22 9.21 3.16 1.13 .175 .20 .861")

AIMED = ["paper: DiSK, its table on GSM. The bar is what was aimed at: no more than it, or than a CatBoost, had."]
UNREAD = (
    "gbdt is told no texts, so not the name of a phone, which ours reads. In the preset best trees have a say, too."
)


def run(options: Options, teller: Teller) -> Iterator[Result]:
    """Train and ask, seed by seed."""
    schema, entities = read(options.data)
    for seed in options.seeds:
        yield from measured([task(schema, entities, options, seed)], options, seed, teller)


def read(data: Path) -> tuple[Schema, list[Entity]]:
    """The phones, and their schema."""
    import kbdisk

    return Schema.read("phone"), list(kbdisk.load(str(data_file(data, "gsm/gsm_processed.csv", SOURCE))))


def task(schema: Schema, entities: Sequence[Entity], options: Options, seed: int) -> Task:
    """What is learnt and asked with a seed."""
    sides = split(entities, options, seed)
    train, scored = ([entities[place] for place in side] for side in sides)
    return Task("gsm", schema, ASKED, train, scored, options.split, options.part)


def split(entities: Sequence[Entity], options: Options, seed: int) -> Sides:
    """The two sides; with `validation` train alone, split again by the same rule."""
    refuse_split(options.split, SPLITS)
    sides = SPLITS[options.split](entities, options, seed)
    if not options.validation:
        return sides
    own = [entities[place] for place in sides.train]
    again = _by_names(own, SHARE, seed) if options.split == "names" else _at_random(own, SHARE, seed)
    return within(sides.train, again)


def _of_the_paper(entities: Sequence[Entity], options: Options, seed: int) -> Sides:
    return published(options.data, "gsm/gsm_split_seed42.json", SOURCE, len(entities))


def _at_random(entities: Sequence[Entity], share: float, seed: int) -> Sides:
    """A share, without those whose maker and whose name are both on the other side, as the paper has it."""
    out = drawn(range(len(entities)), share, seed)
    rest = [one.tree for place, one in enumerate(entities) if place not in out]
    makers, names = {tree["oem"] for tree in rest}, {tree["model"] for tree in rest}
    trees = {place: entities[place].tree for place in out}
    kept = [place for place, tree in trees.items() if tree["oem"] not in makers or tree["model"] not in names]
    return sided(range(len(entities)), kept)


def _by_names(entities: Sequence[Entity], share: float, seed: int) -> Sides:
    keys = []
    for one in entities:
        name = {key: value for key, value in one.tree.items() if key in ("oem", "model")}
        body = {key: value for key, value in one.tree.items() if key != "model"}
        keys.append((repr(name), repr(body)))
    return sided(range(len(entities)), drawn(grouped(keys), share, seed))


SPLITS: dict[str, Callable[[Sequence[Entity], Options, int], Sides]] = {
    PAPERS: _of_the_paper,
    "names": lambda entities, options, seed: _by_names(entities, TEST, FIXED),
    RANDOM: lambda entities, options, seed: _at_random(entities, TEST, seed),
}


def tables(results: Sequence[Result]) -> list[Table]:
    """One for each split and part."""
    found = []
    for split, part in dict.fromkeys((one.split, one.part) for one in results):
        own = [one for one in results if (one.split, one.part) == (split, part)]
        is_papers = (split, part) == (PAPERS, "test")
        measure = Measure(
            titled("GSM, the paper's split" if split == PAPERS else "GSM", split, part),
            NAMES,
            {"paper": PAPER} if is_papers else {},
            BAR,
            [*(AIMED if is_papers else ["The bar is that of the paper's split."]), UNREAD],
        )
        found.append(compared(measure, own))
    return found


def figure(results: Sequence[Result], path: Path) -> bool:
    """Each method's errors on the paper's split, in parts of the constant's where that was measured, else the paper's."""
    own = [one for one in results if (one.split, one.part) == (PAPERS, "test")]
    published = {"paper": PAPER} if own else {}
    return draw_ratios(own or results, NAMES, published, path, "GSM, one property hidden")
