"""Rounds of completion, review and apply: do rejected values come back, and do values that are not judged get worse?

python -m benchmarks review-rounds SOURCE [--rounds 10] [--budget 60s] [--mask 0] [--share 0.3]
python -m benchmarks review-rounds                     the tables of all that is stored

A share of the single values of SOURCE is hidden, as by `python -m benchmarks kb`. In each round

    kbdisk complete SOURCE --review review.csv     proposes values, by a model that is trained anew
    a simulated curator                            judges a share of the proposals, knowing the truth
    kbdisk apply review.csv --in-place             writes what was accepted and corrected

The curator accepts right values, corrects every second wrong one, and rejects the others; values for declared absences are
rejected. Half of the hidden values are never judged; they are called the rest. The error of the rest is that of `--fill all`
divided by the constant's, with its standard error; the difference to the first round is paired, value by value. The run ends with
an error if a rejected value is proposed again for its place, or written by `--fill all`.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kbdisk
from benchmarks.base import Table
from benchmarks.data import source_file
from benchmarks.kb import KBOptions, cost, masked_entities, value_at
from benchmarks.masking import Cell, Values, is_drawn
from benchmarks.precision import Place, absences_of, by_place, is_right
from benchmarks.results import OURS, Result, Row, StoredRun, group_latest, read
from benchmarks.script import add_out_option, argument_parser
from benchmarks.tables import print_tables
from benchmarks.tasks import Task, tasks_of
from kbdisk.completion.review import WRITTEN, ReviewRow, as_text, read_review
from kbdisk.entity import Date, Entity, Quantity, read_path
from kbdisk.errors import LoadError
from kbdisk.loaders.values.tagged_json import decode
from kbdisk.schemas.text.numerals import is_number

NAME = "review_rounds"
SUFFIXES = {
    "json": ".json",
    "jsonl": ".jsonl",
    "csv": ".csv",
    "tsv": ".tsv",
    "turtle": ".ttl",
    "n3": ".ttl",
    "ntriples": ".nt",
}
FIGURES = (
    "proposed",
    "known",
    "right",
    "accepted",
    "corrected",
    "rejected",
    "rest",
    "rest error",
    "change",
    "change error",
)


# ---------------------------------------------------------------- the curator


@dataclass
class Curator:
    """Knows the truth of the hidden values, and judges proposals by it."""

    entities: Sequence[Entity]  # in truth
    hidden: Mapping[Place, list[tuple[Task, Cell]]]
    absences: frozenset[Place]
    values: Values
    share: float  # of the proposals that are judged in a round
    rejected: dict[tuple[str, str], list[tuple[Any, float]]] = field(default_factory=dict)  # value, within

    def __post_init__(self) -> None:
        self.number = {entity.id: place for place, entity in enumerate(self.entities)}

    def is_of_rest(self, place: Place) -> bool:
        """Whether a hidden value is never judged."""
        return is_drawn("rest", self.entities[place[0]].id, place[1], 0.5)

    def truth_of(self, row: ReviewRow) -> bool | None:
        """Whether a proposed value is right; None where that is not known."""
        place = (self.number[row.id], read_path(row.path))
        if place in self.absences:
            return False
        if place not in self.hidden:
            return None
        known = value_at(self.entities[place[0]].tree, place[1])
        value = value_of(row)
        return all(is_right(task, cell, value, known, self.values) for task, cell in self.hidden[place])

    def decide(self, rows: Sequence[ReviewRow], turn: int) -> dict[int, dict[str, str]]:
        """The cells that the curator fills in, by the row's place in the file."""
        decisions: dict[int, dict[str, str]] = {}
        for row in rows:
            place, right = (self.number[row.id], read_path(row.path)), self.truth_of(row)
            is_judged = is_drawn(f"judged {turn}", row.id, place[1], self.share)
            if right is None or not is_judged or (place in self.hidden and self.is_of_rest(place)):
                continue
            if right:
                decisions[row.place] = {"decision": "accept"}
            elif place in self.hidden and is_drawn("corrected", row.id, place[1], 0.5):
                decisions[row.place] = {"correction": correction_of(self.entities[place[0]], place, value_of(row))}
            else:
                decisions[row.place] = {"decision": "reject"}
                self.rejected.setdefault((row.id, row.path), []).append((value_of(row), row.row.get("within") or 0.0))
        return decisions

    def returned(self, id: str, path: str, value: Any) -> bool:
        """Whether a value was rejected before for its place: the same, or a number within its tolerance."""
        return any(is_same(value, *before) for before in self.rejected.get((id, path), ()))


def value_of(row: ReviewRow) -> Any:
    """The proposed value."""
    return decode({"": row.row["value"]})[""]


def correction_of(entity: Entity, place: Place, proposed: Any) -> str:
    """The truth as a person writes it into the cell: of an amount with its unit, of a date as precise as the proposed one."""
    value = value_at(entity.tree, place[1])
    if isinstance(value, Quantity):
        return f"{as_text(value)} {value.unit or ''}".strip()
    if isinstance(value, Date) and isinstance(proposed, Date) and proposed.month is None:
        return as_text(Date(value.year))
    return as_text(value)


def is_same(value: Any, rejected: Any, within: float) -> bool:
    """Whether a value is a rejected one."""
    if isinstance(value, Quantity) and isinstance(rejected, Quantity):
        return value.unit == rejected.unit and is_same(value.value, rejected.value, within)
    if is_number(value) and is_number(rejected):
        return abs(float(value) - float(rejected)) <= within
    return type(value) is type(rejected) and bool(value == rejected)


def write_decisions(review: Path, decisions: Mapping[int, Mapping[str, str]]) -> None:
    """Fill in the curator's cells, as a spreadsheet saves them."""
    with review.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(stream)
        rows = [{**row, **decisions.get(number, {})} for number, row in enumerate(reader, 2)]
        columns = list(reader.fieldnames or ())
    with review.open("w", encoding="utf-8-sig", newline="") as stream:
        writer = csv.DictWriter(stream, columns)
        writer.writeheader()
        writer.writerows(rows)


# ---------------------------------------------------------------- a run


def rest_errors(curator: Curator, completed: Sequence[Entity]) -> list[float]:
    """The error of each value that is never judged, over the constant's mean error on its property."""
    trees = {entity.id: entity.tree for entity in completed}
    by_task: dict[int, list[tuple[Task, Cell]]] = {}
    for place, cells in curator.hidden.items():
        if curator.is_of_rest(place):
            for task, cell in cells:
                by_task.setdefault(id(task), []).append((task, cell))
    errors = []
    for cells in by_task.values():
        mean = statistics.fmean(cost(task, cell, task.constant) for task, cell in cells)
        for task, cell in cells if mean > 0 else ():
            value = value_at(trees[curator.entities[cell.entity].id], cell.path)
            scalars = curator.values.scalars(cell.property[0], value) if value is not None else ()
            answer = next((scalar for *of, scalar in scalars if tuple(of) == cell.property[1:]), task.constant)
            if cell.whole_year and isinstance(value, Date):
                answer = float(math.floor(answer))
            errors.append(cost(task, cell, answer) / mean)
    return errors


def run_rounds(
    file: Path, curator: Curator, rounds: int, options: Sequence[str], quiet: bool
) -> list[dict[str, float]]:
    """The figures of each round; one more at the end, whose proposals are not judged."""
    review, full, figures = file.with_name("review.csv"), file.with_name(f"full{file.suffix}"), []
    first: list[float] = []
    for turn in range(1, rounds + 2):
        command("complete", file, "--review", review, "--force", *options, quiet=quiet)
        rows = [row for row in read_review(str(review))[1] if row.reason == WRITTEN]
        for row in rows:
            refuse_returned(curator, turn, row.id, row.path, value_of(row))
        known = [right for row in rows if (right := curator.truth_of(row)) is not None]
        command("complete", file, "--out", full, "--fill", "all", "--force", *options, quiet=quiet)
        completed = list(kbdisk.load(str(full)))
        trees = {entity.id: entity.tree for entity in completed}
        for id, path in curator.rejected:
            refuse_returned(curator, turn, id, path, value_at(trees[id], read_path(path)))
        errors = rest_errors(curator, completed)
        first = first or errors
        changes = [now - before for now, before in zip(errors, first, strict=True)]
        decisions = curator.decide(rows, turn) if turn <= rounds else {}
        if decisions:
            write_decisions(review, decisions)
            command("apply", review, "--in-place", quiet=quiet)
        counts = Counter(decision.get("decision", "correct") for decision in decisions.values())
        given = (
            len(rows), len(known), sum(known), counts["accept"], counts["correct"], counts["reject"],
            *mean_with_error(errors), *mean_with_error(changes),
        )  # fmt: skip
        figures.append(dict(zip(FIGURES, given, strict=True)))
    return figures


def refuse_returned(curator: Curator, turn: int, id: str, path: str, value: Any) -> None:
    """LoadError where a value was rejected before."""
    if curator.returned(id, path, value):
        raise LoadError(f"round {turn}", f"expected no value that was rejected, got {value!r} for {path} of {id}.")


def mean_with_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean and its standard error."""
    if len(values) < 2:
        return math.nan, math.nan
    return statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))


def command(*words: object, quiet: bool) -> None:
    """Run a command of kbdisk."""
    done = subprocess.run(
        [sys.executable, "-m", "kbdisk", *map(str, words), "--quiet"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    if done.returncode not in (0, 1):
        raise LoadError(f"kbdisk {words[0]}", f"expected it to succeed, got: {(done.stderr.strip() or 'no message')}")
    if not quiet:
        print(f"kbdisk {' '.join(map(str, words))}", file=sys.stderr)


def measure(source: str, arguments: argparse.Namespace) -> None:
    """All rounds on one source."""
    stored_run = StoredRun.of(
        arguments.out, NAME, (Path(source).name, arguments.budget, arguments.mask, arguments.rounds)
    )
    kb = kbdisk.load(str(source_file(source)))
    entities = list(kb)
    masked = masked_entities(kb, entities, KBOptions(masks=(arguments.mask,)), arguments.mask)
    values = Values(masked.entities)
    hidden = by_place(masked, tasks_of(masked, values))
    absences = absences_of(Path(source).name.split(".")[0], entities, len(hidden), arguments.mask)
    curator = Curator(entities, hidden, frozenset(absences), values, arguments.share)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"source{SUFFIXES.get(kb.format, '.jsonl')}"
        kbdisk.write(masked.entities, file)
        options = ["--budget", arguments.budget, "--seed", str(arguments.mask)]
        figures = run_rounds(file, curator, arguments.rounds, options, arguments.quiet)
    rows = [Row(name, value) for name, value in figures[-1].items() if not math.isnan(value)]
    stored_run.add(
        Result(
            NAME, OURS, rows, seed=arguments.mask, setting=Path(source).name, told=f" + {arguments.budget}",
            details={"rounds": json.loads(json.dumps(figures))},
        )
    )  # fmt: skip
    stored_run.end()


def table(results: Sequence[Result]) -> list[Table]:
    """A table for each source, budget and mask: a row for each round."""
    tables = []
    for group in group_latest(results, lambda result: (result.setting, result.told, result.seed)).values():
        result = group[-1]
        rounds = result.details["rounds"]
        rows = []
        for turn, figures in enumerate(rounds, 1):
            counts = [f"{figures[name]:,.0f}" for name in ("proposed", "accepted", "corrected", "rejected")]
            precision = figures["right"] / figures["known"] if figures["known"] else math.nan
            rest = [f"{figures[name]:.3f} ± {figures[f'{name} error']:.3f}" for name in ("rest", "change")]
            rows.append([str(turn), *counts, f"{precision:.3f}", f"{figures['known']:,.0f}", *rest])
        last = rounds[-1]
        word = "within" if last["change"] <= 2 * last["change error"] else "beyond"
        notes = [
            f"{sum(figures['rejected'] for figures in rounds):,.0f} values rejected, none of which came back; "
            f"the error of the rest changed by {last['change']:+.3f}, {word} two standard errors."
        ]
        header = ["round", "proposed", "accepted", "corrected", "rejected", "precision", "of known", "error of the rest", "change"]  # fmt: skip
        tables.append(
            Table(f"{result.setting}{result.told}, mask {result.seed}: rounds of review", header, rows, notes)
        )
    return tables


def main(argv: Sequence[str]) -> None:
    parser = argument_parser("review-rounds", __doc__)
    parser.add_argument("source", nargs="?")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--budget", default="60s", help="of the training of each round")
    parser.add_argument("--mask", type=int, default=0, help="which values are hidden, and the seed of training")
    parser.add_argument("--share", type=float, default=0.3, help="of the proposals: how many are judged in a round")
    parser.add_argument("--quiet", action="store_true")
    add_out_option(parser)
    arguments = parser.parse_args(argv)
    if arguments.source is not None:
        measure(arguments.source, arguments)
    tables = table(read(arguments.out / f"{NAME}.jsonl"))
    print_tables(tables)
