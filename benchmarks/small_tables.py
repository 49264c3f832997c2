"""Coverage of 90 % intervals on ten small tables of 100 to 300 rows: 30 % of the cells of a quarter of the rows are hidden.

python -m benchmarks small-tables [--budget 60s] [--only abalone,gsm]
python -m benchmarks small-tables --shown               the table of all that is stored

The rows of each table are drawn from the larger tables in the data folder, the same rows each time. Coverage is measured on
numbers, as in `precision.py`: randomised at atoms. The last row pools all tables.
"""

from __future__ import annotations

import argparse
import csv
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import kbdisk
from benchmarks.data import SOURCES, data_file, data_folder, source_file
from benchmarks.kb import ResumedFit
from benchmarks.masking import Values
from benchmarks.precision import Scored, table
from benchmarks.progress import TerminalProgress
from benchmarks.results import OURS, Result, StoredRun, read
from benchmarks.script import add_out_option, argument_parser
from benchmarks.tables import print_tables
from benchmarks.tasks import tasks_of
from benchmarks.untouched import masked_rows
from kbdisk.errors import ConfigError

NAME = "small_tables"
TABLES = {  # name -> rows
    "abalone": 100, "adult": 120, "buddy": 150, "california": 170, "churn2": 190, "diabetes": 210, "house": 230,
    "higgs-small": 260, "gsm": 280, "nuclei": 300,
}  # fmt: skip
PARTS = ("train", "val")  # the first of which a table has all arrays


def write_table(name: str, file: Path) -> None:
    """The rows of a table as CSV, with a header."""
    header, rows = _arrays(name) if name not in SOURCES else _cells(name)
    drawn = random.Random(f"{NAME} {name}").sample(range(len(rows)), TABLES[name])
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(header)
        writer.writerows(rows[number] for number in sorted(drawn))


def _cells(name: str) -> tuple[list[str], list[list[Any]]]:
    """A table that is there as CSV."""
    with source_file(name).open(newline="") as stream:
        header, *rows = csv.reader(stream)
    return header, rows


def _arrays(name: str) -> tuple[list[str], list[list[Any]]]:
    """A table that is there as arrays: numbers, labels, and the target."""
    arrays = np.load(
        data_file(data_folder(None), f"tabular/{name}.npz", "yandex-research/tab-ddpm"), allow_pickle=False
    )
    kinds = sorted({key.rpartition("_")[0] for key in arrays.files if not key.startswith("idx")})
    part = next(part for part in PARTS if all(f"{kind}_{part}" in arrays.files for kind in kinds))
    columns: dict[str, list[Any]] = {}
    for kind in kinds:
        array = arrays[f"{kind}_{part}"]
        wide = array.reshape(len(array), -1)
        for number, column in enumerate(wide.T):
            is_whole = column.dtype.kind == "f" and (column == np.round(column)).all()
            columns[f"{kind}{number}"] = list(map(str, column.astype(int) if is_whole else column))
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def measure(name: str, arguments: argparse.Namespace) -> None:
    """One table."""
    stored_run = StoredRun.of(arguments.out, NAME, (name, arguments.budget))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.csv"
        write_table(name, file)
        entities = list(kbdisk.load(str(file)))
    masked, _ = masked_rows(entities, 0)
    values = Values(masked.entities)
    scored = Scored(masked, tasks_of(masked, values), values, entities, [])
    begun = time.monotonic()
    fit = ResumedFit(stored_run.model, TerminalProgress(arguments.quiet), arguments.budget)
    figures = scored.result(fit(masked.entities, 0), [], None)
    seconds = round(time.monotonic() - begun, 1)
    stored_run.add(Result(NAME, OURS, setting=name, told=f" + {arguments.budget}", seconds=seconds, **figures))
    stored_run.end()
    fit.forget()


def main(argv: Sequence[str]) -> None:
    parser = argument_parser("small-tables", __doc__)
    parser.add_argument("--budget", default="60s", help="of each training")
    parser.add_argument("--only", default=",".join(TABLES), help="which tables, with commas between them")
    parser.add_argument("--shown", action="store_true", help="only show the table of stored results")
    parser.add_argument("--quiet", action="store_true")
    add_out_option(parser)
    arguments = parser.parse_args(argv)
    names = [name.strip() for name in arguments.only.split(",")]
    if not set(names) <= set(TABLES):
        raise ConfigError("--only", f"expected some of {', '.join(TABLES)}, got {arguments.only!r}.")
    for name in () if arguments.shown else names:
        measure(name, arguments)
    print_tables(table(read(arguments.out / f"{NAME}.jsonl")))
