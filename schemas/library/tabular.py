"""The schema of a tabular benchmark set, made from the `info.json` that TabDDPM keeps beside its arrays.

Number columns are num_0, num_1, ..., category columns cat_0, cat_1, ...; the target is predicted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kbdisk.errors import SchemaError
from kbdisk.schemas.composites.base import Kind
from kbdisk.schemas.kinds import Category, Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Schema, of_one_class

TARGET = "target"


def schema_of(info: Mapping[str, Any]) -> Schema:
    """The schema of an info.json. Every column is required, as every entity has it."""
    name = str(info.get("name", "a tabular set"))
    columns: dict[str, Kind] = {f"num_{n}": Number() for n in range(_count(info, name, "n_num_features"))}
    columns |= {f"cat_{n}": Category() for n in range(_count(info, name, "n_cat_features"))}
    columns[TARGET] = _target(info, name)
    return of_one_class({(path,): Property(kind, required=True) for path, kind in columns.items()}, label=name)


def _target(info: Mapping[str, Any], name: str) -> Kind:
    """A number to be regressed, or one of so many classes, which are numbered from 0."""
    task = info.get("task_type")
    if task == "regression":
        return Number()
    if task == "binclass":
        return Category((0, 1), closed=True)
    if task == "multiclass":
        return Category(tuple(range(_count(info, name, "n_classes"))), closed=True)
    raise SchemaError(name, f"expected a task_type of regression, binclass or multiclass, got {task!r}.")


def _count(info: Mapping[str, Any], name: str, key: str) -> int:
    count = info.get(key)
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise SchemaError(name, f"expected {key} to be how many there are, got {count!r}.")
    return count
