"""What to say of values that are something else than most at their path, where the kind of most does not take them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from kbdisk.entity import Link as LinkValue
from kbdisk.schemas.composites.base import apply_kind
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.inference.decision import Decision, percent, shown
from kbdisk.schemas.inference.facts import Facts
from kbdisk.schemas.inference.nodes import Node
from kbdisk.schemas.kinds import Link

UNFIT = "which do not fit"

FAMILY = {
    "number": "numbers",
    "truth": "truths",
    "text": "strings",
    "tagged": "text in a language",
    "date": "dates",
    "quantity": "quantities",
    "coordinate": "coordinates",
    "link": "links",
    "other": "values of no kind that is known here",
}


def misfits(kind: Any, facts: Facts, family: str, share: float, missing: Collection[str] = ()) -> str:
    """Of values of another family: how many there are, and one that does not fit."""
    if kind is None:
        return ""
    labels = facts.labels.get(family)
    bad = [one for one, _ in labels.weighted() if one not in missing and not _fits(kind, one, family)] if labels else []
    if labels and not bad:
        return ""
    such = f" such as {shown(bad[0])}" if bad else ""
    return f"{percent(share)} are {FAMILY[family]}{such}, {UNFIT}"


def strangers(kind: Any, node: Node) -> Iterator[str]:
    """Of parts among values, of values among parts, and of lists within lists."""
    total = node.filled
    if kind is None or not total:
        return
    if node.parts > node.facts.total + node.lists:
        yield from (misfits(kind, node.facts, family, count / total) for family, count in node.facts.count.items())
    elif node.parts and node.named == node.parts and isinstance(getattr(kind, "of", kind), Link):
        yield f"{percent(node.parts / total)} are nodes with properties of their own"
    elif node.parts:
        yield f"{percent(node.parts / total)} are parts, {UNFIT}"
    if node.lists and not (isinstance(kind, Listed) and isinstance(kind.fields.get(""), Listed)):
        yield f"{percent(node.lists / total)} are lists, {UNFIT}"


def unfit(found: Decision) -> list[str]:
    """What a decision says of values that do not fit."""
    return [one for one in found.reason.split("; ") if one.endswith(UNFIT) or " % are no " in one]


def _fits(kind: Any, value: Any, family: str) -> bool:
    try:
        apply_kind(kind, LinkValue(value) if family == "link" else value)
    except (ValueError, TypeError, AttributeError):
        return False
    return True
