"""kbdisk completes knowledge bases: RDF, nested JSON or tables in, the same with its gaps filled out."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from kbdisk.entity import (
    NOVALUE,
    SOMEVALUE,
    Completion,
    Coordinate,
    Date,
    Entity,
    Filled,
    Link,
    Quantity,
    Text,
)
from kbdisk.errors import KBDiskError, KBDiskWarning
from kbdisk.loaders import KB, load, write
from kbdisk.locks import locked

if TYPE_CHECKING:
    from kbdisk.api.bulk import complete_shards
    from kbdisk.api.complete import Completed, complete
    from kbdisk.api.model import Model
    from kbdisk.api.train import open, train
    from kbdisk.schemas.infer import Inference
    from kbdisk.schemas.schema import Schema
    from kbdisk.training.run import Run

LATER = {  # names that are imported when they are first used, since torch comes with most of them
    "Completed": "kbdisk.api.complete",
    "Model": "kbdisk.api.model",
    "Run": "kbdisk.training.run",
    "Schema": "kbdisk.schemas.schema",
    "complete": "kbdisk.api.complete",
    "complete_shards": "kbdisk.api.bulk",
    "open": "kbdisk.api.train",
    "train": "kbdisk.api.train",
}

__all__ = [
    "KB",
    "NOVALUE",
    "SOMEVALUE",
    "Completed",
    "Completion",
    "Coordinate",
    "Date",
    "Entity",
    "Filled",
    "KBDiskError",
    "KBDiskWarning",
    "Link",
    "Model",
    "Quantity",
    "Run",
    "Schema",
    "Text",
    "complete",
    "complete_shards",
    "infer",
    "load",
    "locked",
    "open",
    "train",
    "write",
]


def infer(kb: Any, *, rules: bool = False, **options: Any) -> Inference:
    """The schema that a knowledge base, or any entities, seem to have, with the reason for each property.

    With `rules` the schema has the rules that hold in it, too: values that follow exactly from others.
    """
    from kbdisk.schemas.infer import infer

    is_read = isinstance(kb, KB | Iterator) or (
        isinstance(kb, list | tuple) and all(type(item) is Entity for item in kb)
    )
    source = kb if is_read else load(kb)
    if rules and isinstance(source, Iterator) and not isinstance(source, KB):
        source = list(source)
    inference = infer(source, **options)
    if rules:
        from kbdisk.experts.rule_columns import inference_with_rules

        return inference_with_rules(inference, source)
    return inference


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("kbdisk")
    if name not in LATER:
        raise AttributeError(f"module 'kbdisk' has no attribute {name!r}")
    return getattr(importlib.import_module(LATER[name]), name)
