"""Entities as one table, for peers that fill a table: a column for each single value, flag and length of a list.

The columns are the features of `benchmarks.features`, the asked properties among them. Numbers are on their property's scale. A
value within a list is a column where it is in the first part of the list; other cells are left to the constant.

N rows (entities)   P number columns   Q label columns
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from benchmarks.features import Features
from benchmarks.peers.protocol import Imputation
from benchmarks.tasks import MAX_LABELS, Answers, Scale, Task
from kbdisk.entity import Path

MISSING = -1  # the code of a label that is not there

Numbers = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class EntityTable:
    """Columns of numbers and of labels, and which of them are asked."""

    names: Sequence[str]  # of the number columns, then of the label columns
    numbers: Numbers  # (N, P); NaN where nothing is known
    codes: Codes  # (N, Q); MISSING where nothing is known, or the label is rare
    categories: Sequence[Sequence[Any]]  # of each label column, by their code
    tasks: Mapping[int, Task]  # place of a column -> its task
    train_count: int  # rows to learn from, the first ones

    @classmethod
    def of(cls, imputation: Imputation) -> Self:
        """The table of the entities of an imputation."""
        entities = imputation.masked.entities
        features = Features(entities, imputation.values)
        rows: list[tuple[int, Path]] = [(row, ()) for row in range(len(entities))]
        train_count = imputation.training_rows
        frame = features.table(rows, None, train_count)
        by_column = {task.column: task for task in imputation.tasks}
        is_number = {name: frame[name].dtype != object for name in frame}
        names = [*(name for name in frame if is_number[name]), *(name for name in frame if not is_number[name])]
        numbers = [
            _scaled(frame[name].to_numpy(), by_column.get(name), train_count) for name in names if is_number[name]
        ]
        coded = [
            _coded(frame[name].tolist(), by_column.get(name), train_count) for name in names if not is_number[name]
        ]
        return cls(
            names,
            np.stack(numbers, 1) if numbers else np.empty((len(rows), 0)),
            np.stack([codes for codes, _ in coded], 1) if coded else np.empty((len(rows), 0), dtype=np.int64),
            [categories for _, categories in coded],
            {place: by_column[name] for place, name in enumerate(names) if name in by_column},
            train_count,
        )

    def is_number(self, column: int) -> bool:
        """Whether a column is one of numbers, which come first."""
        return column < int(self.numbers.shape[1])

    def values(self, column: int) -> NDArray[Any]:
        """(N,) the numbers of a column, or its codes."""
        P = self.numbers.shape[1]
        return self.numbers[:, column] if column < P else self.codes[:, column - P]

    def is_missing(self, column: int) -> NDArray[np.bool_]:
        """(N,) whether nothing is known of a column."""
        values = self.values(column)
        return np.asarray(np.isnan(values) if self.is_number(column) else values == MISSING)

    def answers(self, imputation: Imputation, column: int, filled: Sequence[float]) -> Answers:
        """The answers that a filled column (N,) has for its cells: numbers on the scale, or codes; NaN for none."""
        task = self.tasks[column]
        labels = None if self.is_number(column) else self.categories[column - self.numbers.shape[1]]
        answers: Answers = {}
        for place in task.cells:
            cell = imputation.masked.cells[place]
            value = filled[cell.entity]
            if not np.isnan(value) and all(key == 0 for key in cell.path if isinstance(key, int)):
                answers[place] = task.scale.back(float(value)) if labels is None else labels[int(value)]
        return answers


def _scaled(values: Numbers, task: Task | None, train_count: int) -> Numbers:
    """Numbers on the scale of their property."""
    training = values[:train_count]
    known = training[~np.isnan(training)].tolist()
    scale = task.scale if task is not None else Scale.of(known)
    return np.array([value if np.isnan(value) else scale.to(value) for value in values.tolist()])


def _coded(texts: Sequence[str], task: Task | None, train_count: int) -> tuple[Codes, list[Any]]:
    """The codes of the commonest labels of training rows, and these labels; as values of the task where there is one."""
    common = [text for text, _ in Counter(text for text in texts[:train_count] if text).most_common(MAX_LABELS)]
    number = {text: code for code, text in enumerate(common)}
    codes = np.array([number.get(text, MISSING) for text in texts], dtype=np.int64)
    values = {f"={value!r}": value for value in task.values} if task is not None else {}
    return codes, [values.get(text, text) for text in common]
