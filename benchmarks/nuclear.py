"""Ground states of nuclei, the paper's second table, by two protocols.

    others given     each property predicted from all the others, z and n among them
    z and n alone    each property predicted from z and n alone, as Q-values, for one, give binding energies away

The same model is used for both, on the paper's split or on one that is drawn anew for each seed. E_b is the residual of the
liquid-drop formula for the binding energy, per nucleon, times A. The terms of that formula are rows of the paper's table, so they
are learnt like all other properties, without their formulas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Literal

from benchmarks.base import PAPERS, RANDOM, Options, Table, refuse_split
from benchmarks.data import data_file
from benchmarks.plots import draw_ratios
from benchmarks.progress import Progress
from benchmarks.properties import Target, Task, measure
from benchmarks.results import Result
from benchmarks.splits import TEST_SHARE, VALIDATION_SHARE, Sides, drawn, published, sides_of, within
from benchmarks.tables import Measure, compared, decimals_by_name, titled
from kbdisk.entity import Entity
from kbdisk.schemas.schema import Schema

SOURCE = "IAEA LiveChart, as strifinopoulos/sNuCLR prepares it"
TERMS = ("volume", "surface", "symmetry", "coulomb")


def nucleons(entity: Entity) -> float:
    """A, how many an entity has."""
    return float(entity.tree["z"] + entity.tree["n"])


TARGETS = (
    Target("E_b", ("binding_semf",), nucleons),
    Target("radius", ("radius",)),
    Target("logt", ("half_life_sec",)),
    Target("spin", ("spin",)),
    Target("abund", ("abundance",)),
    Target("Qa", ("qa",)),
    Target("Qb-", ("qbm",)),
    Target("Qb-n", ("qbm_n",)),
    Target("Qec", ("qec",)),
    Target("beta2", ("electric_quadrupole",)),
    *(Target(name, (name,)) for name in TERMS),
    Target("stability", ("stability",)),
    Target("parity", ("parity",)),
)
NAMES = [target.name for target in TARGETS]
PROTOCOLS: dict[str, Literal[0] | None] = {"others given": None, "z and n alone": 0}

PAPER = decimals_by_name(NAMES, "370 .011 1.51 1.2 10.8 360 310 440 520 .93 .8 .21 .218 5.3 .010 .047")
CATBOOST_GIVEN = decimals_by_name(NAMES, "501 .027 1.02 1.17 11.0 433 615 868 823 .78 .85 .117 .172 7.5 .008 .169")
CATBOOST_ALONE = decimals_by_name(NAMES, "471 .0138 2.62 1.42 15.7 341 900 799 971 1.28 .21 .031 .122 2.1 .094 .217")
BEST_WITHOUT_PHYSICS = Decimal(419)  # E_b of the best published that knows no physics, from z and n
BARS = {
    "others given": {name: min(PAPER[name], CATBOOST_GIVEN[name]) for name in NAMES},
    "z and n alone": CATBOOST_ALONE | {"E_b": BEST_WITHOUT_PHYSICS},
}
SOURCES = {
    "others given": [
        "paper: DiSK, its table on nuclei. The bar is the better of it and of a CatBoost of 1,500 trees for each property."
    ],
    "z and n alone": [
        "The bar is a CatBoost of 1,500 trees for each property; of E_b the best published that knows no physics."
    ],
}


SPLITS = (PAPERS, RANDOM)
PLOTTED = ("others given", PAPERS, "test")


def run(options: Options, progress: Progress) -> Iterator[Result]:
    """Train, and predict by both protocols, seed by seed."""
    schema, entities = read(options.data)
    for seed in options.seeds:
        yield from measure(tasks(schema, entities, options, seed), options, seed, progress)


def read(data: Path) -> tuple[Schema, list[Entity]]:
    """The nuclei, and their schema with the terms of the formula as properties like others."""
    import kbdisk

    schema = Schema.read("nuclide")
    ((name, of),) = schema.classes.items()
    terms = {
        path: replace(term, role="value", formula=None) for path, term in of.properties.items() if path[0] in TERMS
    }
    schema = replace(schema, classes={name: replace(of, properties={**of.properties, **terms})})
    return schema, list(kbdisk.load(str(data_file(data, "nuclear/nuclear_processed.csv", SOURCE))))


def tasks(schema: Schema, entities: Sequence[Entity], options: Options, seed: int) -> list[Task]:
    """What is learnt and predicted with a seed."""
    sides = split(entities, options, seed)
    train, scored = ([entities[place] for place in side] for side in sides)
    return [
        Task("nuclear", schema, TARGETS, train, scored, options.split, options.part, setting, given)
        for setting, given in PROTOCOLS.items()
    ]


def split(entities: Sequence[Entity], options: Options, seed: int) -> Sides:
    """The two sides; with `validation` train alone, split again."""
    refuse_split(options.split, SPLITS)
    if options.split == PAPERS:
        sides = published(options.data, "nuclear/split_seed0.json", SOURCE, len(entities))
    else:
        sides = _at_random(entities, TEST_SHARE, seed, "test")
    if not options.validation:
        return sides
    return within(sides.train, _at_random([entities[place] for place in sides.train], VALIDATION_SHARE, seed))


def _at_random(entities: Sequence[Entity], share: float, seed: int, salt: str = "") -> Sides:
    """By a hash of z and n, whatever the order. Test has a salt: without it what validation draws would all be of test."""
    names = [(entity.tree["z"], entity.tree["n"], *filter(None, [salt])) for entity in entities]
    return sides_of(range(len(entities)), drawn(names, share, seed))


def tables(results: Sequence[Result]) -> list[Table]:
    """One for each protocol, split and part."""
    tables = []
    for key in dict.fromkeys(_key(result) for result in results):
        setting, split, part = key
        of_key = [result for result in results if _key(result) == key]
        sources = SOURCES[setting] if split == PAPERS else ["The bar is that of the paper's split."]
        title = titled(f"Nuclei, {setting}", split, part)
        tables.append(compared(Measure(title, NAMES, of_the_paper(key), BARS[setting], sources), of_key))
    return tables


def _key(result: Result) -> tuple[str, str, str]:
    return result.setting, result.split, result.part


def of_the_paper(key: tuple[str, str, str]) -> dict[str, dict[str, float]]:
    """What the paper has of a protocol, split and part."""
    errors = {name: float(error) for name, error in PAPER.items()}
    return {"paper": errors} if key == PLOTTED else {}


def figure(results: Sequence[Result], path: Path) -> bool:
    """Each method's errors, others given, in parts of the constant's where that was measured, else the paper's."""
    of_paper = [result for result in results if _key(result) == PLOTTED]
    plotted = of_paper or [result for result in results if result.setting == PLOTTED[0]]
    published = of_the_paper(PLOTTED) if of_paper else {}
    return draw_ratios(plotted, NAMES, published, path, "Nuclei, each property told from all the others")
