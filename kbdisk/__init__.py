"""kbdisk completes knowledge bases: RDF or nested JSON in, the same with its gaps filled out."""

from __future__ import annotations

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

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kbdisk.schemas.inference import Inference

__all__ = [
    "KB",
    "NOVALUE",
    "SOMEVALUE",
    "Completion",
    "Coordinate",
    "Date",
    "Entity",
    "Filled",
    "KBDiskError",
    "KBDiskWarning",
    "Link",
    "Quantity",
    "Text",
    "infer",
    "load",
    "write",
]


def infer(kb: Iterable[Entity], **options: Any) -> Inference:
    """The schema that a knowledge base, or any entities, seem to have, with the reason for each property."""
    from kbdisk.schemas.inference import infer

    return infer(kb, **options)
