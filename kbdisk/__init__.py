"""kbdisk completes knowledge bases: RDF or nested JSON in, the same with its gaps filled out."""

from __future__ import annotations

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
    "load",
    "write",
]
