"""Whether what is read is a value, or has it: a list may be longer than what is learnt of it, a map have other keys, too."""

from __future__ import annotations

from typing import Any

from kbdisk.entity import Known
from kbdisk.schemas.composites import Kind
from kbdisk.schemas.composites.base import split_kind
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import MAX_CONVERTED_ERROR
from kbdisk.schemas.kinds import Set
from kbdisk.shapes import amounts, leaves
from kbdisk.shapes.writing import members


def has(kind: Kind, read: Any, value: Any) -> bool:
    """Whether all that is known of a value is there, given that both are in the form that the schema takes."""
    if value is None or isinstance(value, Known):
        return True
    if read is None or isinstance(read, Known):
        return False
    match kind:
        case Set():
            return leaves.is_same(members(value), members(read))
        case Listed():
            return len(read) >= len(value) and all(_has_item(kind, *pair) for pair in zip(read, value, strict=False))
        case Mapped():
            return all(str(key) in read and _has_item(kind, read[str(key)], entry) for key, entry in value.items())
    there, near = split_kind(kind, read), MAX_CONVERTED_ERROR if amounts.loose(kind) else 0.0
    return all(
        path in there and leaves.is_same(leaf, there[path], near) for path, leaf in split_kind(kind, value).items()
    )


def _has_item(kind: Listed | Mapped, read: Any, item: Any) -> bool:
    if item is None:
        return True
    if "" in kind.fields:
        return has(kind.fields[""], read, item)
    if not isinstance(item, dict) or not isinstance(read, dict):
        return bool(read == item)
    return all(
        has(kind.fields[key], read.get(key), inner) if key in kind.fields else inner in (None, read.get(key))
        for key, inner in item.items()
    )
