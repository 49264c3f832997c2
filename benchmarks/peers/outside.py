"""Peers in environments of their own: tables and records as files for `exchange`, and its answers as values."""

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

from benchmarks.masking import Scalar
from benchmarks.peers import PEERS, module_name
from benchmarks.peers.entity_table import MISSING, EntityTable
from benchmarks.peers.environments import CHECKOUT, environment, last_line
from benchmarks.peers.exchange import (
    ANSWER,
    COMPLETE,
    LINKS,
    LITERALS,
    NUMBERS,
    RANK,
    RECORDS,
    REPORT,
    TABLE,
    TRIPLES,
    VALUES,
    Request,
)
from benchmarks.peers.protocol import Filled, Imputation, PeerError, Ranked, Ranking, Sampled, Sampling
from benchmarks.peers.records import Records
from benchmarks.peers.statements import Statements
from benchmarks.tasks import Answers
from kbdisk.entity import show
from kbdisk.schemas.library.tabular import TARGET

LATEST = 1.5  # times its budget, after which a peer is stopped
SIGNIFICANT = 6  # digits of numbers in records
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
    answer, report = ask_table(name, request, rows)
    answers: Answers = {}
    for column in table.tasks:
        filled = [_value(row[columns[column]]) for row in answer]
        answers.update(table.answers(imputation, column, filled))
    return Filled(answers, report["seconds"], report["settings"], report["usage"])


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
    answer, report = ask_table(name, request, list(rows))
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
        report["usage"],
    )


def _stacked(columns: Sequence[Any], count: int) -> Any:
    """Columns as an array (count, columns), where there are none, too."""
    return np.stack(columns, 1) if columns else np.empty((count, 0))


def complete(name: str, imputation: Imputation) -> Filled:
    """What a language model writes for each hidden cell."""
    records = Records.of(imputation)
    if not records.questions:
        return Filled({})
    questions = [(question.entity, show(question.key), question.of[2] == "number") for question in records.questions]
    request = Request(
        COMPLETE, [], [], imputation.seed, imputation.seconds, train_count=records.train_count, questions=questions,
        weights=str(Path(os.environ[PEERS[name].weights]).absolute()),
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="kbdisk-peer-") as folder:
        place = Path(folder)
        with (place / RECORDS).open("w", encoding="utf-8") as stream:
            for items in records.entities:
                record = {show(item.key): shortened(item.value) for item in items}
                stream.write(json.dumps(record, ensure_ascii=False) + "\n")
        report = _ask(name, request, place)
        values = [json.loads(line) for line in (place / VALUES).read_text("utf-8").splitlines()]
    answers: Answers = {
        question.cell: value for question, value in zip(records.questions, values, strict=True) if value is not None
    }
    return Filled(answers, report["seconds"], report["settings"], report["usage"])


def literals(name: str, imputation: Imputation) -> Filled:
    """The numbers that a method of knowledge graphs predicts; it fills nothing else."""
    statements = Statements.of(imputation)
    if not statements.asked:
        return Filled({})
    request = Request(
        LITERALS, [], [], imputation.seed, imputation.seconds,
        literals=[(asked.node, asked.attribute) for asked in statements.asked],
    )  # fmt: skip
    tables: dict[str, tuple[list[str], Sequence[Sequence[Any]]]] = {
        TRIPLES: (["head", "relation", "tail"], statements.triples),
        NUMBERS: (["node", "attribute", "value"], statements.literals),
    }
    with tempfile.TemporaryDirectory(prefix="kbdisk-peer-") as folder:
        place = Path(folder)
        for file, (header, rows) in tables.items():
            with (place / file).open("w", encoding="utf-8", newline="") as stream:
                csv.writer(stream).writerows([header, *rows])
        report = _ask(name, request, place)
        with (place / ANSWER).open(encoding="utf-8", newline="") as stream:
            values = [_value(row["value"]) for row in csv.DictReader(stream)]
    answers: Answers = {
        asked.cell: value for asked, value in zip(statements.asked, values, strict=True) if not np.isnan(value)
    }
    return Filled(answers, report["seconds"], report["settings"], report["usage"])


def rank(name: str, ranking: Ranking) -> Ranked:
    """The ranks by which a peer finds the ends of links."""
    request = Request(
        RANK, [], [], ranking.seed, ranking.seconds, entities=ranking.entities, relations=ranking.relations
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="kbdisk-peer-") as folder:
        place = Path(folder)
        with (place / LINKS).open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["part", "head", "relation", "tail"])
            for part in ("given", "asked", "known"):
                writer.writerows([part, *link] for link in getattr(ranking, part).tolist())
        report = _ask(name, request, place)
        with (place / ANSWER).open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    tails, heads = (np.array([float(row[end]) for row in rows]) for end in ("tail", "head"))
    return Ranked(tails, heads, report["seconds"], report["settings"], report["usage"])


def shortened(value: Scalar) -> Scalar:
    """A number with at most SIGNIFICANT digits, without a point where it is whole; any other value as it is."""
    if not isinstance(value, float):
        return value
    short = float(f"{value:.{SIGNIFICANT}g}")
    return int(short) if short.is_integer() else short


def ask_table(
    name: str, request: Request, rows: Iterable[Sequence[str]]
) -> tuple[list[dict[str, str]], dict[str, Any]]:
    """The rows that a peer answers with, and its report; PeerError where it cannot, fails, or takes too long."""
    with tempfile.TemporaryDirectory(prefix="kbdisk-peer-") as folder:
        place = Path(folder)
        with (place / TABLE).open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow([*request.numbers, *request.labels])
            writer.writerows(rows)
        report = _ask(name, request, place)
        with (place / ANSWER).open(encoding="utf-8", newline="") as stream:
            return list(csv.DictReader(stream)), report


def _ask(name: str, request: Request, folder: Path) -> dict[str, Any]:
    """The report of a peer that was asked in a folder; PeerError where it cannot, fails, or takes too long."""
    request.write(folder)
    command = [str(environment(name).python), "-m", module_name(name), str(folder)]
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
    report: dict[str, Any] = json.loads((folder / REPORT).read_text("utf-8"))
    if "cannot" in report:
        raise PeerError(name, report["cannot"])
    return report
