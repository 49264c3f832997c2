"""Ground states of nuclei, the paper's second table, by two protocols.

    others given     each property told from all the others, z and n among them
    z and n alone    from these two alone: others, such as Q-values, give binding energies away

One model is asked by both, on the paper's split or on one that is drawn anew for each seed. E_b is what the liquid-drop
formula leaves of the binding energy, per nucleon, times A. The terms of that formula are rows of the paper's table, so
they are learnt like all else, and their formulas are not told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Literal

from kbdisk.bench.base import PAPERS, RANDOM, TRAINING, Options, Table, Teller, data_file, refuse_split
from kbdisk.bench.pictures import draw_ratios
from kbdisk.bench.properties import Asked, Task, measured
from kbdisk.bench.results import Result
from kbdisk.bench.splits import SHARE, TEST, Sides, drawn, published, sided, within
from kbdisk.bench.tables import Measure, as_told, compared, titled
from kbdisk.entity import Entity
from kbdisk.schemas.schema import Schema

SOURCE = "IAEA LiveChart, as strifinopoulos/sNuCLR prepares it"
TAKES = TRAINING | {"validation", "split", "against", "not_ours"}
TERMS = ("volume", "surface", "symmetry", "coulomb")


def nucleons(entity: Entity) -> float:
    """A, how many an entity has."""
    return float(entity.tree["z"] + entity.tree["n"])


ASKED = (
    Asked("E_b", ("binding_semf",), nucleons),
    Asked("radius", ("radius",)),
    Asked("logt", ("half_life_sec",)),
    Asked("spin", ("spin",)),
    Asked("abund", ("abundance",)),
    Asked("Qa", ("qa",)),
    Asked("Qb-", ("qbm",)),
    Asked("Qb-n", ("qbm_n",)),
    Asked("Qec", ("qec",)),
    Asked("beta2", ("electric_quadrupole",)),
    *(Asked(name, (name,)) for name in TERMS),
    Asked("stability", ("stability",)),
    Asked("parity", ("parity",)),
)
NAMES = [one.name for one in ASKED]
PROTOCOLS: dict[str, Literal[0] | None] = {"others given": None, "z and n alone": 0}

PAPER = as_told(NAMES, "370 .011 1.51 1.2 10.8 360 310 440 520 .93 .8 .21 .218 5.3 .010 .047")
GIVEN = as_told(NAMES, "501 .027 1.02 1.17 11.0 433 615 868 823 .78 .85 .117 .172 7.5 .008 .169")
ALONE = as_told(NAMES, "471 .0138 2.62 1.42 15.7 341 900 799 971 1.28 .21 .031 .122 2.1 .094 .217")
FREE = Decimal(419)  # E_b of the best published that knows no physics, from z and n
BARS = {
    "others given": {name: min(PAPER[name], GIVEN[name]) for name in NAMES},
    "z and n alone": ALONE | {"E_b": FREE},
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
PICTURED = ("others given", PAPERS, "test")


def run(options: Options, teller: Teller) -> Iterator[Result]:
    """Train and ask by both protocols, seed by seed."""
    schema, entities = read(options.data)
    for seed in options.seeds:
        yield from measured(tasks(schema, entities, options, seed), options, seed, teller)


def read(data: Path) -> tuple[Schema, list[Entity]]:
    """The nuclei, and their schema with the terms of the formula as properties like others."""
    import kbdisk

    schema = Schema.read("nuclide")
    ((name, of),) = schema.classes.items()
    own = {path: replace(one, role="value", formula=None) for path, one in of.properties.items() if path[0] in TERMS}
    known = replace(schema, classes={name: replace(of, properties={**of.properties, **own})})
    return known, list(kbdisk.load(str(data_file(data, "nuclear/nuclear_processed.csv", SOURCE))))


def tasks(schema: Schema, entities: Sequence[Entity], options: Options, seed: int) -> list[Task]:
    """What is learnt and asked with a seed."""
    sides = split(entities, options, seed)
    train, scored = ([entities[place] for place in side] for side in sides)
    return [
        Task("nuclear", schema, ASKED, train, scored, options.split, options.part, setting, given)
        for setting, given in PROTOCOLS.items()
    ]


def split(entities: Sequence[Entity], options: Options, seed: int) -> Sides:
    """The two sides; with `validation` train alone, split again."""
    refuse_split(options.split, SPLITS)
    if options.split == PAPERS:
        found = published(options.data, "nuclear/split_seed0.json", SOURCE, len(entities))
    else:
        found = _at_random(entities, TEST, seed, "test")
    if not options.validation:
        return found
    return within(found.train, _at_random([entities[place] for place in found.train], SHARE, seed))


def _at_random(entities: Sequence[Entity], share: float, seed: int, salt: str = "") -> Sides:
    """By what each nucleus is, wherever it stands; another salt, or whoever is drawn again was drawn before."""
    names = [(one.tree["z"], one.tree["n"], *filter(None, [salt])) for one in entities]
    return sided(range(len(entities)), drawn(names, share, seed))


def tables(results: Sequence[Result]) -> list[Table]:
    """One for each protocol, split and part."""
    found = []
    for kind in dict.fromkeys(_kind(one) for one in results):
        setting, split, part = kind
        own = [one for one in results if _kind(one) == kind]
        sources = SOURCES[setting] if split == PAPERS else ["The bar is that of the paper's split."]
        title = titled(f"Nuclei, {setting}", split, part)
        found.append(compared(Measure(title, NAMES, of_the_paper(kind), BARS[setting], sources), own))
    return found


def _kind(result: Result) -> tuple[str, str, str]:
    return result.setting, result.split, result.part


def of_the_paper(kind: tuple[str, str, str]) -> dict[str, dict[str, float]]:
    """What the paper has of it."""
    known = {name: float(one) for name, one in PAPER.items()}
    return {"paper": known} if kind == PICTURED else {}


def figure(results: Sequence[Result], path: Path) -> bool:
    """Each method's errors, others given, in parts of the constant's where that was measured, else the paper's."""
    own = [one for one in results if _kind(one) == PICTURED]
    given = own or [one for one in results if one.setting == PICTURED[0]]
    known = of_the_paper(PICTURED) if own else {}
    return draw_ratios(given, NAMES, known, path, "Nuclei, each property told from all the others")
