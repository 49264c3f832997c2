"""A decision on one path: its kind, or that it is left out, with the reason in words; and the words for values that do not fit."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from kbdisk.entity import Link as LinkValue
from kbdisk.schemas.composites.base import apply_kind
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.infer.statistics import Node, ValueStatistics
from kbdisk.schemas.kinds import Link
from kbdisk.schemas.property import Many, Property, Role
from kbdisk.schemas.text import numerals

MIN_FIT_SHARE = 0.99  # the share of values that a kind has to fit
MIN_DATE_SHARE = 0.95  # the same for dates
NOTHING_TO_LEARN = ": nothing to learn"


@dataclass(frozen=True)
class Decision:
    """The kind of values at a path, and the reason for it; a path without a kind is left out."""

    kind: Any
    reason: str
    role: Role = "value"
    many: Many = ""
    unique: bool = False
    missing: tuple[str, ...] = ()
    novalue: tuple[str, ...] = ()
    gaps: int = 0  # values that are spellings of a gap
    is_constant: bool = False  # all values are the same

    def because(self, *reasons: str) -> Decision:
        """The decision with further reasons before its own."""
        return replace(self, reason="; ".join(reason for reason in (*reasons, self.reason) if reason))

    def property(self, iri: str | None = None, label: str = "") -> Property:
        """The property of a schema."""
        return Property(
            self.kind, self.role, False, self.unique, self.many, self.missing, self.novalue, iri=iri, label=label
        )


def counted(count: int, singular: str, plural: str = "") -> str:
    """A number with its noun: 1 label, 10,679 values."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def times(count: int) -> str:
    """A number of times in words."""
    return "once" if count == 1 else f"{count:,} times"


def percent(share: float) -> str:
    """A share in words: 97 %. Less than all is never 100 %, and more than none never 0 %."""
    if 0 < share < 0.001 or 0.999 < share < 1:
        return "less than 0.1 %" if share < 0.5 else "more than 99.9 %"
    digits = 1 if 0 < share < 0.01 or 0.99 < share < 1 else 0
    return f"{100 * share:.{digits}f} %"


def shown(value: Any) -> str:
    """A value as a reason shows it, shortened."""
    text = numerals.show(value) if isinstance(value, int) else str(value)
    return repr(text if len(text) <= 30 else text[:27] + "...")


# ---------------------------------------------------------------- values that do not fit


DO_NOT_FIT = "which do not fit"

FAMILY_NAMES = {
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


def misfits(kind: Any, statistics: ValueStatistics, family: str, share: float, missing: Collection[str] = ()) -> str:
    """The words for values of another family: their share, and one that does not fit; empty where all fit."""
    if kind is None:
        return ""
    sketch = statistics.sketches.get(family)
    bad = (
        [value for value, _ in sketch.weighted() if value not in missing and not _fits(kind, value, family)]
        if sketch
        else []
    )
    if sketch and not bad:
        return ""
    example = f" such as {shown(bad[0])}" if bad else ""
    return f"{percent(share)} are {FAMILY_NAMES[family]}{example}, {DO_NOT_FIT}"


def odd_values(kind: Any, node: Node) -> Iterator[str]:
    """The words for parts among values, values among parts, and lists among either."""
    total = node.filled
    if kind is None or not total:
        return
    if node.parts > node.values.total + node.lists:
        yield from (misfits(kind, node.values, family, count / total) for family, count in node.values.count.items())
    elif node.parts and node.named == node.parts and isinstance(getattr(kind, "of", kind), Link):
        yield f"{percent(node.parts / total)} are nodes with properties of their own"
    elif node.parts:
        yield f"{percent(node.parts / total)} are parts, {DO_NOT_FIT}"
    if node.lists and not (isinstance(kind, Listed) and isinstance(kind.fields.get(""), Listed)):
        yield f"{percent(node.lists / total)} are lists, {DO_NOT_FIT}"


def misfit_reasons(decision: Decision) -> list[str]:
    """The reasons of a decision that are about values that do not fit."""
    return [reason for reason in decision.reason.split("; ") if reason.endswith(DO_NOT_FIT) or " % are no " in reason]


def _fits(kind: Any, value: Any, family: str) -> bool:
    try:
        apply_kind(kind, LinkValue(value) if family == "link" else value)
    except (ValueError, TypeError, AttributeError):
        return False
    return True
