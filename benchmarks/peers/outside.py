"""Peers in environments of their own: tables as files for `exchange`, and its answers as values."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import module_name
from benchmarks.peers.entity_table import MISSING, EntityTable
from benchmarks.peers.environments import CHECKOUT, environment, last_line
from benchmarks.peers.exchange import ANSWER, REPORT, TABLE, Request
from benchmarks.peers.protocol import Filled, Imputation, PeerError, Sampled, Sampling
from benchmarks.tasks import Answers
from kbdisk.schemas.library.tabular import TARGET

LATEST = 1.5  # times its budget, after which a peer is stopped
START = 60.0  # seconds beside that, in which its packages are imported and the files read


def fill(name: str, imputation: Imputation) -> Filled:
    """What a peer fills in, in the columns of the asked properties."""
    table = EntityTable.of(imputation)
    columns = [f"n{column}" if table.is_number(column) else f"c{column}" for column in range(len(table.names))]
    P = table.numbers.shape[1]
    numbers, labels = columns[:P], columns[P:]
    asked = [columns[column] for column in table.tasks]
    if not asked:
        return Filled({})
    asked_rows = sorted({cell.entity for cell in imputation.masked.cells})
    request = Request(
        "fill", numbers, labels, imputation.seed, imputation.seconds, asked, asked_rows, table.train_count
    )  # fmt: skip
    texts = [["" if np.isnan(value) else repr(value) for value in row] for row in table.numbers.tolist()]
    codes = [["" if code == MISSING else f"k{code}" for code in row] for row in table.codes.tolist()]
    rows = [number_cells + code_cells for number_cells, code_cells in zip(texts, codes, strict=True)]
    answer, report = ask(name, request, rows)
    answers: Answers = {}
    for column in table.tasks:
        filled = [_value(row[columns[column]]) for row in answer]
        answers.update(table.answers(imputation, column, filled))
    return Filled(answers, report["seconds"], report["settings"])


def _value(text: str) -> float:
    """A number, or the code of a label; NaN where there is none."""
    return float(text.removeprefix("k")) if text else float("nan")


def sample(name: str, sampling: Sampling) -> Sampled:
    """The rows that a peer draws: numbers as they are, categories and classes by their number."""
    table, train = sampling.table, sampling.table.train
    P, Q = train.numbers.shape[1], train.categories.shape[1]
    numbers, labels = [f"n{column}" for column in range(P)], [f"c{column}" for column in range(Q)]
    categories = [np.unique(train.categories[:, column], return_inverse=True) for column in range(Q)]
    (numbers if table.is_regression else labels).append(TARGET)
    request = Request(
        "sample", numbers, labels, sampling.seed, sampling.seconds, count=sampling.count, target=TARGET
    )  # fmt: skip
    columns: dict[str, list[str]] = {
        f"n{column}": list(map(repr, train.numbers[:, column].tolist())) for column in range(P)
    }
    columns |= {f"c{column}": [f"k{code}" for code in codes] for column, (_, codes) in enumerate(categories)}
    columns[TARGET] = [repr(value) if table.is_regression else f"k{value}" for value in train.target.tolist()]
    rows = zip(*(columns[column] for column in (*numbers, *labels)), strict=True)
    answer, report = ask(name, request, list(rows))
    drawn = {column: np.array([_value(row[column]) for row in answer]) for column in columns}
    labelled = [known[drawn[f"c{column}"].astype(np.int64)] for column, (known, _) in enumerate(categories)]
    return Sampled(
        table.drawn_rows(
            _stacked([drawn[f"n{column}"] for column in range(P)], len(answer)),
            _stacked(labelled, len(answer)).astype(str),
            drawn[TARGET],
        ),
        report["seconds"],
        report["settings"],
    )


def _stacked(columns: Sequence[Any], count: int) -> Any:
    """Columns as an array (count, columns), where there are none, too."""
    return np.stack(columns, 1) if columns else np.empty((count, 0))


def ask(name: str, request: Request, rows: Iterable[Sequence[str]]) -> tuple[list[dict[str, str]], dict[str, Any]]:
    """The rows that a peer answers with, and its report; PeerError where it cannot, fails, or takes too long."""
    with tempfile.TemporaryDirectory(prefix="kbdisk-peer-") as folder:
        place = Path(folder)
        request.write(place)
        with (place / TABLE).open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow([*request.numbers, *request.labels])
            writer.writerows(rows)
        command = [str(environment(name).python), "-m", module_name(name), folder]
        limit = None if request.seconds is None else LATEST * request.seconds + START
        try:
            done = subprocess.run(
                command, cwd=folder, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, check=False,
                capture_output=True, text=True, timeout=limit,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise PeerError(name, f"expected an end within {request.seconds:g} s, got none. Allow it more.") from None
        if done.returncode:
            raise PeerError(name, f"expected values, got: {last_line(done.stderr)}.")
        report: dict[str, Any] = json.loads((place / REPORT).read_text("utf-8"))
        if "cannot" in report:
            raise PeerError(name, report["cannot"])
        with (place / ANSWER).open(encoding="utf-8", newline="") as stream:
            return list(csv.DictReader(stream)), report
