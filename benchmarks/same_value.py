"""A property that always has the same value should be written only where other properties show that an entity has it.

python -m benchmarks same-value [--entities 3000] [--budget 60s] [--seed 0]

Two sources are generated, of entities of one class with two numbers and two labels, and a property with the same value wherever
it stands:

    rare         4 % of the entities have it, at random: at most 10 statements should be written
    told apart   60 % have it, those with some values of a label: at least half of the hidden ones should be written, and 90 % of
                 the written ones should be right

15 % of all values are hidden. A model is trained on the rest, and completes it with the default options. A statement about the
property is right where its value was hidden.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from benchmarks.base import Table
from benchmarks.kb import ResumedFit
from benchmarks.masking import is_drawn
from benchmarks.progress import TerminalProgress
from benchmarks.results import OURS, Result, Row, StoredRun, group_latest, read
from benchmarks.script import add_out_option, argument_parser
from benchmarks.tables import print_tables
from kbdisk.entity import Entity

NAME = "same_value"
RARE, TOLD_APART = "rare", "told apart"
SHARES = {RARE: 0.04, TOLD_APART: 0.6}  # of the entities that have the property
HIDDEN_SHARE = 0.15  # of the values
PROPERTY, VALUE = "certified", "yes"
LABELS = ("red", "green", "blue", "black", "white")  # of these 60 % tell that an entity has the property


def generated(kind: str, count: int, seed: int) -> list[Entity]:
    """A source of one class."""
    dice = random.Random(f"{kind} {seed}")
    entities = []
    for number in range(count):
        size, colour = dice.gauss(50, 10), dice.choice(LABELS)
        tree = {
            "size": round(size, 1),
            "mass": round(3 * size + dice.gauss(0, 5), 1),
            "colour": colour,
            "shape": dice.choice("abc"),
        }
        has_property = (
            dice.random() < SHARES[RARE] if kind == RARE else LABELS.index(colour) < SHARES[TOLD_APART] * len(LABELS)
        )
        entities.append(Entity(f"e{number}", tree | ({PROPERTY: VALUE} if has_property else {}), ("Thing",)))
    return entities


def hidden(entities: Sequence[Entity], seed: int) -> list[Entity]:
    """The entities without a random share of their values."""
    return [
        replace(
            entity,
            tree={
                key: value
                for key, value in entity.tree.items()
                if not is_drawn(f"test {seed}", entity.id, (key,), HIDDEN_SHARE)
            },
        )
        for entity in entities
    ]


def figures_of(entities: Sequence[Entity], given: Sequence[Entity], written: Sequence[bool]) -> Mapping[str, float]:
    """How many hidden values of the property were found, of how many, and how many statements were written."""
    was_hidden = [
        PROPERTY in entity.tree and PROPERTY not in rest.tree for entity, rest in zip(entities, given, strict=True)
    ]
    found = sum(here and there for here, there in zip(was_hidden, written, strict=True))
    return {
        "having": sum(PROPERTY in entity.tree for entity in entities),
        "hidden": sum(was_hidden),
        "written": sum(written),
        "found": found,
        "precision": found / sum(written) if any(written) else math.nan,
    }


def measure(kind: str, arguments: argparse.Namespace) -> None:
    stored_run = StoredRun.of(arguments.out, NAME, [kind, arguments.entities, arguments.budget, arguments.seed])
    progress = TerminalProgress(arguments.quiet)
    entities = generated(kind, arguments.entities, arguments.seed)
    given = hidden(entities, arguments.seed)
    begun = time.monotonic()
    fit = ResumedFit(stored_run.model, progress, arguments.budget)
    model = fit(given, arguments.seed)
    written = [(PROPERTY,) in completion.filled for completion in model.complete(given)]
    figures = figures_of(entities, given, written)
    rows = [Row(name, value, int(figures["hidden"])) for name, value in figures.items() if not math.isnan(value)]
    settings = f"{arguments.entities:,} entities + {arguments.budget}"
    seconds = round(time.monotonic() - begun, 1)
    stored_run.add(Result(NAME, OURS, rows, seed=arguments.seed, setting=kind, told=settings, seconds=seconds))
    stored_run.end()
    fit.forget()


def table(results: Sequence[Result]) -> list[Table]:
    """The counts of each source, summed over seeds."""
    header = ["source", "settings", "seeds", "having", "hidden", "written", "found", "precision"]
    rows = []
    for (kind, settings), group in group_latest(results, lambda result: (result.setting, result.told)).items():
        every = [{row.name: row.value for row in result.rows} for result in group]
        sums = {name: sum(figures[name] for figures in every) for name in ("having", "hidden", "written", "found")}
        precision = f"{sums['found'] / sums['written']:.3f}" if sums["written"] else ""
        rows.append([kind, settings, str(len(group)), *(f"{value:,.0f}" for value in sums.values()), precision])
    return [Table("A property that always has the same value", header, rows, [])] if rows else []


def main(argv: Sequence[str]) -> None:
    parser = argument_parser("same-value", __doc__)
    parser.add_argument("--entities", type=int, default=3000, help="of each source")
    parser.add_argument("--budget", default="60s", help="of training")
    parser.add_argument("--seed", type=int, default=0, help="of the sources, of what is hidden, and of training")
    parser.add_argument("--quiet", action="store_true")
    add_out_option(parser)
    arguments = parser.parse_args(argv)
    for kind in SHARES:
        measure(kind, arguments)
    print_tables(table(read(arguments.out / f"{NAME}.jsonl")))
