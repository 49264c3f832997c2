"""Calibration of confidence on entities unlike the training data: a model of entities up to a bound completes those beyond.

python -m benchmarks shift SOURCE --by launch.year --until 2012 [--budget 60s] [--mask 0] [--share 0.2]
python -m benchmarks shift                             the table of all that is stored

The training data are the entities whose number at --by is at most --until, except a tenth of them, which are held out. A share
of the single values of the held-out entities, and of the entities beyond the bound, is hidden and completed. For both groups the
benchmark reports: the expected calibration error of all statements about hidden values, written or not; how many
of the hidden values are written by default, and how many of these are right; the share of 90 % intervals that contain the
truth; and the share of entities that are flagged as unlike the training data.

A statement is filled in as one value, such as a date with its parts. It is scored if all of it was hidden. Right means the same as
for confidence: a number within its tolerance, the same label, the same parts of a date.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import kbdisk
from benchmarks.base import Table
from benchmarks.data import source_file
from benchmarks.kb import TABLES, ResumedFit, value_at
from benchmarks.masking import Cell, Values, mask
from benchmarks.precision import Place, Statement, by_place, covered_by_interval, is_right, reliability
from benchmarks.progress import TerminalProgress
from benchmarks.results import OURS, Result, Row, StoredRun, group_latest, read
from benchmarks.script import add_out_option, argument_parser
from benchmarks.tables import print_tables
from benchmarks.tasks import Task, tasks_of
from kbdisk.entity import Completion, Entity, Filled, read_path
from kbdisk.entity import Path as EntityPath
from kbdisk.errors import ConfigError

NAME = "shift"
HELD_OUT_SHARE = 0.1  # of the entities up to the bound
SHIFTED, LIKE = "shifted", "like"
FIGURES = ("entities", "flagged", "hidden", "written", "right", "ece", "coverage")


def split(
    entities: Sequence[Entity], by: EntityPath, until: float, mask: int
) -> tuple[list[Entity], list[Entity], list[Entity]]:
    """Training entities, entities like these, and entities beyond the bound. What has no such number is in none of them."""
    training: list[Entity] = []
    like: list[Entity] = []
    shifted: list[Entity] = []
    for entity in entities:
        value = value_at(entity.tree, by)
        number = getattr(value, "year", getattr(value, "value", value))
        if not isinstance(number, int | float):
            continue
        if number > until:
            shifted.append(entity)
        else:
            (like if _chance(f"{mask} {entity.id}") < HELD_OUT_SHARE else training).append(entity)
    return training, like, shifted


def _chance(text: str) -> float:
    """A number from 0 to 1 that a text is hashed to."""
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / (1 << 64)


def statements_of(
    completions: Sequence[Completion],
    numbers: Iterable[int],
    hidden: Mapping[Place, list[tuple[Task, Cell]]],
    values: Values,
    entities: Sequence[Entity],
) -> Iterator[tuple[Place, Statement]]:
    """The scored statements about some entities, by number: each with where it is."""
    for number in numbers:
        completion = completions[number]
        tree, gaps = completion.tree(), dict[EntityPath, list[EntityPath]]()
        for path, filled in completion.filled.items():
            gaps.setdefault(filled.belief.gap, []).append(path)
        for gap, paths in gaps.items():
            if all((number, path) in hidden for path in paths):
                places = [(number, path) for path in paths]
                right = all(
                    _is_right(task, cell, completion.filled[path], value_at(tree, path), values, entities[number])
                    for _, path in places
                    for task, cell in hidden[number, path]
                )
                first = completion.filled[paths[0]]
                covered = covered_by_interval(first, hidden[places[0]]) if len(paths) == 1 else None
                kind = hidden[places[0]][0][0].of[2]
                yield (number, gap), Statement(first.confidence or 0.0, right, kind, covered)


def _is_right(task: Task, cell: Cell, filled: Filled, value: Any, values: Values, entity: Entity) -> bool:
    within = filled.belief.within
    if isinstance(within, float) and isinstance(value, int | float):
        return abs(value - float(cell.truth)) <= within * (1 + 1e-9)
    return is_right(task, cell, value, value_at(entity.tree, cell.path), values)


def figures_of(
    statements: Sequence[Statement], written: Sequence[Statement], completions: Sequence[Completion], hidden: int
) -> dict[str, float]:
    """The figures of one group of entities."""
    covered = [statement.covered for statement in statements if statement.covered is not None]
    return {
        "entities": len(completions),
        "flagged": sum(bool(completion.unlike) for completion in completions),
        "hidden": hidden,
        "written": len(written),
        "right": sum(statement.right for statement in written),
        "ece": reliability(statements),
        "coverage": statistics.fmean(covered) if covered else math.nan,
    }


def measure(source: str, arguments: argparse.Namespace) -> None:
    run = [source, arguments.by, arguments.until, arguments.budget, arguments.mask, arguments.share, arguments.entities]
    stored_run, progress = StoredRun.of(arguments.out, NAME, run), TerminalProgress(arguments.quiet)
    kb = kbdisk.load(str(source_file(source)))
    training, like, shifted = split(list(kb), read_path(arguments.by), arguments.until, arguments.mask)
    if not training or not like or not shifted:
        raise ConfigError("--until", f"expected entities on both sides of {arguments.until:g}, got none on one.")
    shifted = sorted(shifted, key=lambda entity: _chance(f"{arguments.mask} {entity.id}"))[: arguments.entities]
    asked = [*shifted, *like]
    masked = mask(asked, arguments.share, f"test {arguments.mask}", kb.format in TABLES)
    values = Values(masked.entities)
    hidden = by_place(masked, tasks_of(masked, values))
    begun = time.monotonic()
    fit = ResumedFit(stored_run.model, progress, arguments.budget)
    model = fit(training, arguments.mask)
    by_default = list(model.complete(masked.entities))
    everything = list(model.complete(masked.entities, fill="all"))
    seconds = time.monotonic() - begun
    rows = []
    for group, places in ((SHIFTED, range(len(shifted))), (LIKE, range(len(shifted), len(asked)))):
        stated, written = (
            list(dict(statements_of(completions, places, hidden, values, asked)).values())
            for completions in (everything, by_default)
        )
        count = sum(number in places for number, _ in hidden)
        figures = figures_of(stated, written, everything[places.start : places.stop], count)
        rows += [Row(f"{group} {name}", figure, count) for name, figure in figures.items() if not math.isnan(figure)]
    setting = f"{source}, {arguments.by} to {arguments.until:g}"
    stored_run.add(
        Result(
            NAME,
            OURS,
            rows,
            seed=arguments.mask,
            setting=setting,
            told=f" + {arguments.budget}",
            seconds=round(seconds, 1),
        )
    )
    stored_run.end()
    fit.forget()


def table(results: Sequence[Result]) -> list[Table]:
    """The figures of each source and group, summed or averaged over masks."""
    header = ["source", "entities", "masks", "number", "flagged", "hidden", "written", "precision", "ece", "coverage of 90 %"]  # fmt: skip
    rows = []
    for (setting, budget), group in group_latest(results, lambda result: (result.setting, result.told)).items():
        for side in (SHIFTED, LIKE):
            every = [{row.name: row.value for row in result.rows} for result in group]
            figures: dict[str, Any] = {
                name: [figures[key] for figures in every if (key := f"{side} {name}") in figures] for name in FIGURES
            }
            sums = {name: sum(figures[name]) for name in FIGURES}
            means = {name: statistics.fmean(figures[name]) if figures[name] else math.nan for name in FIGURES}
            rows.append([
                f"{setting}{budget}", side, str(len(group)), f"{sums['entities']:,.0f}",
                f"{100 * sums['flagged'] / max(sums['entities'], 1):.1f} %", f"{sums['hidden']:,.0f}",
                f"{sums['written']:,.0f}", f"{sums['right'] / max(sums['written'], 1):.3f}",
                f"{means['ece']:.3f}", f"{means['coverage']:.3f}",
            ])  # fmt: skip
    return [Table("Confidence on entities unlike those of training", header, rows, [])] if rows else []


def main(argv: Sequence[str]) -> None:
    parser = argument_parser("shift", __doc__)
    parser.add_argument("source", nargs="?")
    parser.add_argument("--by", help="path of the number by which entities are split, such as launch.year")
    parser.add_argument("--until", type=float, help="the greatest such number of training entities")
    parser.add_argument("--budget", default="60s", help="of training")
    parser.add_argument("--entities", type=int, default=1500, help="beyond the bound, at most, drawn at random")
    parser.add_argument("--share", type=float, default=0.2, help="of the single values: how many are hidden")
    parser.add_argument("--mask", type=int, default=0, help="which values are hidden, and the seed of training")
    parser.add_argument("--quiet", action="store_true")
    add_out_option(parser)
    arguments = parser.parse_args(argv)
    if arguments.source is not None:
        if arguments.by is None or arguments.until is None:
            raise ConfigError("--by", "expected --by PATH and --until NUMBER with a source.")
        measure(arguments.source, arguments)
    print_tables(table(read(arguments.out / f"{NAME}.jsonl")))
