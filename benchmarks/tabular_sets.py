"""A folder of a tabular data set of TabDDPM: arrays that become entities, and drawn entities that become rows again.

A column of whole numbers becomes whole numbers. Other numbers get the shortest decimal form of their float, so that 0.3 in 32
bits is 0.3 and not 0.30000001. Train alone decides which columns are whole.

R rows   P number columns   Q category columns
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.base import PAPERS, RANDOM, refuse_split
from benchmarks.data import data_file
from kbdisk.entity import Entity
from kbdisk.errors import ConfigError, LoadError
from kbdisk.schemas.library import tabular
from kbdisk.schemas.schema import Schema
from kbdisk.schemas.text.names import did_you_mean

MAX_SNAPPED = 32  # different whole numbers at most in a column whose draws are snapped to real ones
STOP_SHARE = 0.2  # of train: what is taken off it for early stopping, where validation is scored
SOURCE = "yandex-research/tab-ddpm"

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class Rows:
    """Some rows of a set."""

    numbers: Array  # (R, P)
    categories: Array  # (R, Q) strings
    target: Array  # (R,)

    def __len__(self) -> int:
        return len(self.target)

    def pick(self, places: Array) -> Rows:
        """Some of them."""
        return Rows(self.numbers[places], self.categories[places], self.target[places])


@dataclass(frozen=True)
class TabularSet:
    """A set in three parts, and its description."""

    name: str
    info: Mapping[str, Any]
    train: Rows  # what a model learns from
    stop: Rows  # for early stopping
    judged: Rows  # what is scored

    @property
    def is_regression(self) -> bool:
        """Whether the target is a number."""
        return bool(self.info["task_type"] == "regression")

    @property
    def classes(self) -> int:
        """How many classes the target has."""
        return int(self.info.get("n_classes", 2))

    @property
    def metric(self) -> str:
        """What it is scored by."""
        return "R2" if self.is_regression else "macro-F1"

    @property
    def schema(self) -> Schema:
        """What kind of value stands where."""
        return tabular.schema_of(self.info)

    def entities(self, rows: Rows, name: str) -> list[Entity]:
        """An entity of each row; `name` begins their ids."""
        columns: dict[str, list[Any]] = {}
        for n in range(rows.numbers.shape[1]):
            columns[f"num_{n}"] = _python_numbers(rows.numbers[:, n], _is_whole(self.train.numbers[:, n]))
        for n in range(rows.categories.shape[1]):
            columns[f"cat_{n}"] = rows.categories[:, n].tolist()
        columns[tabular.TARGET] = _python_numbers(rows.target, _is_whole(self.train.target))
        trees = (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
        return [Entity(f"{name}-{place}", tree) for place, tree in enumerate(trees, 1)]

    def rows(self, entities: Iterable[Entity]) -> Rows:
        """The rows of drawn entities; columns of few whole numbers are snapped to those that train has."""
        trees = [entity.tree for entity in entities]
        P, Q = self.train.numbers.shape[1], self.train.categories.shape[1]
        numbers = np.array([[tree[f"num_{n}"] for n in range(P)] for tree in trees], dtype=np.float64)
        categories = np.array([[tree[f"cat_{n}"] for n in range(Q)] for tree in trees], dtype=str)
        target = np.array([tree[tabular.TARGET] for tree in trees], dtype=np.float64)
        return self.drawn_rows(numbers.reshape(len(trees), P), categories.reshape(len(trees), Q), target)

    def drawn_rows(self, numbers: Array, categories: Array, target: Array) -> Rows:
        """Drawn columns as rows; columns of few whole numbers are snapped to those that train has."""
        target = target if self.is_regression else target.astype(np.int64)
        return Rows(snapped(numbers, self.train.numbers), categories, target)


def read_set(data: Path, name: str, split: str = PAPERS, seed: int = 0, validation: bool = False) -> TabularSet:
    """A set of the data: train, validation for early stopping, test to be scored; with `validation` the first two are of
    train, and validation is scored.

    The parts are as they come, or a seed deals out all rows anew, as many to each part.
    """
    refuse_split(split, (PAPERS, RANDOM))
    folder = data / "tabular"
    info: dict[str, Any] = json.loads(data_file(data, f"tabular/{name}/info.json", SOURCE).read_text("utf-8"))
    with open_arrays(folder / f"{name}.npz") as arrays:
        parts = [_part(arrays, part, str(folder / f"{name}.npz")) for part in ("train", "val", "test")]
    train, stop, test = _deal_out(parts, seed) if split == RANDOM else parts
    if not validation:
        return TabularSet(name, info, train, stop, test)
    order = np.random.default_rng(0).permutation(len(train))
    count = round(STOP_SHARE * len(train))
    return TabularSet(name, info, train.pick(np.sort(order[count:])), train.pick(np.sort(order[:count])), stop)


def chosen_sets(data: Path, only: Sequence[str]) -> list[str]:
    """The sets by these names, or all that there are; ConfigError for any other."""
    known = sets(data)
    for name in only:
        if name not in known:
            hint, there = did_you_mean(name, known), ", ".join(known) or "none"
            raise ConfigError("--only", f"no whole tabular set {name!r}.{hint} There are {there}.")
    if not known:
        raise LoadError(str(data / "tabular"), f"expected the arrays of a set, got none. They are from {SOURCE}.")
    return list(only) or known


def open_arrays(file: Path) -> Any:
    """The arrays of a file, to be closed; LoadError where it has none."""
    try:
        return np.load(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise LoadError(str(file), f"expected arrays of numpy, got none: {error}.") from None


def sets(data: Path) -> list[str]:
    """The sets of which all arrays are there."""
    names = []
    for file in sorted((data / "tabular").glob("*.npz")):
        with open_arrays(file) as arrays:
            kinds = {name.rsplit("_", 1)[0] for name in arrays.files if not name.startswith("idx")}
            if all(f"{kind}_{part}" in arrays.files for kind in kinds for part in ("train", "val", "test")):
                names.append(file.stem)
    return names


def _deal_out(parts: Sequence[Rows], seed: int) -> list[Rows]:
    """As many rows in each part, by chance."""
    columns = zip(*((part.numbers, part.categories, part.target) for part in parts), strict=True)
    rows = Rows(*map(np.concatenate, columns))
    order = np.random.default_rng(seed).permutation(len(rows))
    ends = np.cumsum([len(part) for part in parts])
    return [rows.pick(np.sort(places)) for places in np.split(order, ends[:-1])]


def snapped(numbers: Array, real: Array) -> Array:
    """Numbers (R, P) with those of columns of few whole numbers each at the nearest that is real."""
    result = numbers.copy()
    for n in range(numbers.shape[1]):
        known = np.unique(real[:, n])
        if len(known) <= MAX_SNAPPED and _is_whole(known):
            right = np.searchsorted(known, numbers[:, n]).clip(1, max(len(known) - 1, 1))
            low, high = known[right - 1], known[np.minimum(right, len(known) - 1)]
            result[:, n] = np.where(numbers[:, n] - low <= high - numbers[:, n], low, high)
    return result


def _part(arrays: Mapping[str, Array], part: str, source: str) -> Rows:
    target = arrays[f"y_{part}"]
    empty = np.empty((len(target), 0))
    numbers = arrays.get(f"X_num_{part}", empty)
    categories = arrays.get(f"X_cat_{part}", empty.astype(str))
    if not len(target) == len(numbers) == len(categories):
        raise LoadError(source, f"expected as many rows in each array of {part}, got {len(target)} and others.")
    if np.isnan(numbers).any():
        raise LoadError(source, f"expected numbers everywhere in X_num_{part}, got gaps.")
    return Rows(_shortest(numbers), categories.astype(str), _shortest(target))


def _shortest(numbers: Array) -> Array:
    """Floats of 32 bits as those of 64 that are written the same."""
    return numbers.astype(str).astype(np.float64) if numbers.dtype == np.float32 else numbers


def _is_whole(numbers: Array) -> bool:
    return bool((numbers == np.rint(numbers)).all())


def _python_numbers(numbers: Array, is_whole: bool) -> list[Any]:
    """int where the column is of whole numbers and these are, else float."""
    return [int(number) if is_whole and number == int(number) else float(number) for number in numbers.tolist()]
