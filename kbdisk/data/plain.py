"""Slots as plain data, and back. Their leaves are the schema's, their codecs are kept beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kbdisk.data.graph import pattern
from kbdisk.data.pooling import Pools
from kbdisk.data.slots import CLASSES, Over, Slot, Source, class_leaf, incoming_leaf
from kbdisk.entity import Path
from kbdisk.schemas.composites import show_pattern

FIELDS = ("of", "kind", "role", "group", "unit", "count", "fill", "entropy", "counts")


def to_json(slot: Slot, column: int) -> dict[str, Any]:
    """A slot, and which of the codecs it has."""
    over: dict[str, Any] | None = None
    if slot.over is not None:
        over = {"of": slot.over.of, "link": list(slot.over.link), "read": list(slot.over.read)}
        over |= {"told": slot.over.told, "whole": slot.over.whole}
    told = {name: getattr(slot, name) for name in FIELDS}
    incoming = slot.over is not None and slot.over.incoming
    return {**told, "path": list(slot.path), "codec": column, "over": over, "incoming": incoming}


def from_json(data: Mapping[str, Any], codecs: Sequence[Any], pools: Pools) -> Slot:
    """The slot again; ValueError where the schema does not have its leaf."""
    told, over = data["over"], None
    if told is not None:
        over = Over(told["of"], _path(told["link"]), _path(told["read"]), data["incoming"], told["told"], told["whole"])
    path = _path(data["path"])
    if over is not None and over.incoming and not over.told:
        leaf: Any = incoming_leaf(over.of)
    elif data["role"] == "evidence" and path == CLASSES:
        leaf = class_leaf()
    else:
        source = pools.source(over.of, pattern(over.read)) if over else Source(data["of"], pattern(path))
        if source not in pools.leaves:
            raise ValueError(f"expected a schema with {show_pattern(source.path)} of {source.of!r}, got none there")
        leaf = pools.leaves[source]
    fields = {name: data[name] for name in FIELDS}
    return Slot(**fields, path=path, leaf=leaf, codec=codecs[data["codec"]], over=over)


def _path(keys: Sequence[str | int]) -> Path:
    return tuple(keys)
