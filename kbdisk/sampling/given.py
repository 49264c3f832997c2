"""Values as a command line spells them: labels and texts as they stand; numbers and truths as in JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from kbdisk.data.slots import Slot
from kbdisk.entity import Path, show
from kbdisk.errors import ConfigError
from kbdisk.sampling.starting import path_of
from kbdisk.schemas.kinds import Boolean, Category, Number, Set
from kbdisk.training.trained import Trained

SEVERAL = """A set is given as a list, such as '["a", "b"]'."""


def spelt(trained: Trained, given: Iterable[tuple[str, str]]) -> dict[Path, Any]:
    """What is given, each value as the property at its path takes it; ConfigError where a path has two."""
    found: dict[Path, Any] = {}
    for at, text in given:
        path = path_of(at)
        if path in found:
            raise ConfigError(f"--given {at}", f"expected one value, got another: {text!r}. {SEVERAL}")
        found[path] = _value(trained, path, text)
    return found


def _value(trained: Trained, path: Path, text: str) -> Any:
    slots = [slot for slot in trained.codec.slots if slot.path == path and slot.role != "evidence"]
    if any(_is_known(slot, text) for slot in slots):
        return text
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 1 and any(isinstance(slot.leaf, Set) and _has_some(slot, parts) for slot in slots):
        raise ConfigError(f"--given {show(path)}", f"expected a set, got {text!r}. Say '{json.dumps(parts)}'.")
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if any(_is_known(slot, value) for slot in slots) or isinstance(value, list) else text


def _has_some(slot: Slot, parts: Iterable[str]) -> bool:
    """Whether some of these are labels, or links, of the slot's sets."""
    return any(part in slot.codec.labels for part in parts)


def _is_known(slot: Slot, value: Any) -> bool:
    """Whether a value is a number, a truth or a label where a slot has such."""
    if isinstance(slot.leaf, Number):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(slot.leaf, Boolean):
        return isinstance(value, bool)
    if not isinstance(slot.leaf, Category) or isinstance(value, list | dict):
        return False
    return value in slot.codec.labels
