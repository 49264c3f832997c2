"""Values as a command line spells them: labels and texts as they stand; numbers and truths as in JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kbdisk.codec.slots import Slot
from kbdisk.entity import Path
from kbdisk.sampling.starting import path_of
from kbdisk.schemas.leaf import Boolean, Category, Number
from kbdisk.training.trained import Trained


def spelt(trained: Trained, given: Mapping[str, str]) -> dict[Path, Any]:
    """What is given, each value as the property at its path takes it."""
    return {path: _value(trained, path, text) for path, text in ((path_of(at), text) for at, text in given.items())}


def _value(trained: Trained, path: Path, text: str) -> Any:
    slots = [slot for slot in trained.codec.slots if slot.path == path and slot.role != "evidence"]
    if any(_is_known(slot, text) for slot in slots):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if any(_is_known(slot, value) for slot in slots) or isinstance(value, list) else text


def _is_known(slot: Slot, value: Any) -> bool:
    """Whether a value is a number, a truth or a label where a slot has such."""
    if isinstance(slot.leaf, Number):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(slot.leaf, Boolean):
        return isinstance(value, bool)
    if not isinstance(slot.leaf, Category) or isinstance(value, list | dict):
        return False
    return value in slot.codec.labels
