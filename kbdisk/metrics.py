"""What one answer costs; the least is 0.

number                     mean absolute error
category, boolean, link    error rate
set, text                  1 - IoU: of members, of words
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from kbdisk.entity import Link, Text


def words(text: Any) -> frozenset[str]:
    """The words of a text."""
    return frozenset((text.text if isinstance(text, Text) else text).split())


def members(value: Any) -> frozenset[Hashable]:
    """The members of a set; one value alone is a set of one."""
    several = value if isinstance(value, list | tuple | set | frozenset) else (value,)
    return frozenset(map(label, several))


def apart(one: frozenset[Any], other: frozenset[Any]) -> float:
    """1 - IoU of two sets; two empty ones are the same."""
    return 1 - len(one & other) / len(one | other) if one or other else 0.0


def label(value: Any) -> Hashable:
    """A label or a link such that true is not 1, and a link is its id."""
    return (isinstance(value, bool), value.id if isinstance(value, Link) else value)


@dataclass(frozen=True)
class Metric:
    """What an answer of some kind costs; the least is 0."""

    name: str  # as a table has it
    key: str  # as a row has it
    of: Callable[[Any, Any], float]  # (truth, said); said is never None


MISTAKE = Metric("error rate", "error", lambda truth, said: float(label(truth) != label(said)))
METRICS: Mapping[str, Metric] = {
    "number": Metric("MAE", "mae", lambda truth, said: abs(float(truth) - float(said))),
    "category": MISTAKE,
    "link": MISTAKE,
    "set": Metric("1 - IoU", "iou", lambda truth, said: apart(members(truth), members(said))),
    "text": Metric("1 - IoU", "iou", lambda truth, said: apart(words(truth), words(said))),
}


def error(kind: str, truth: Any, said: Any) -> float:
    """What an answer costs; one that cannot be given is wrong. A number must have one."""
    return 1.0 if truth is None or said is None else METRICS[kind].of(truth, said)
