"""A decision about one path, and the words for its reason."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from kbdisk.schemas.property import Many, Property, Role
from kbdisk.schemas.text import numerals

FITS = 0.99  # the share of values that a kind must fit to be told without a word
MOSTLY = 0.95
NOTHING_TO_LEARN = ": nothing to learn"


@dataclass(frozen=True)
class Decision:
    """What stands at a path and why; without a kind the path is left out."""

    kind: Any
    reason: str
    role: Role = "value"
    many: Many = ""
    unique: bool = False
    missing: tuple[str, ...] = ()
    novalue: tuple[str, ...] = ()
    gaps: int = 0  # values that are spellings of none
    is_constant: bool = False  # all values are the same

    def because(self, *reasons: str) -> Decision:
        """The same for more reasons, which are told first."""
        return replace(self, reason="; ".join(one for one in (*reasons, self.reason) if one))

    def property(self, iri: str | None = None, label: str = "") -> Property:
        """The property of a schema."""
        return Property(
            self.kind, self.role, False, self.unique, self.many, self.missing, self.novalue, iri=iri, label=label
        )


def counted(count: int, one: str, many: str = "") -> str:
    """A number of things in words: 1 label, 10,679 values."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def times(count: int) -> str:
    """How often, in words."""
    return "once" if count == 1 else f"{count:,} times"


def percent(share: float) -> str:
    """A share in words: 97 %; never 100 % of what is not all, nor 0 % of what is something."""
    if 0 < share < 0.001 or 0.999 < share < 1:
        return "less than 0.1 %" if share < 0.5 else "more than 99.9 %"
    digits = 1 if 0 < share < 0.01 or 0.99 < share < 1 else 0
    return f"{100 * share:.{digits}f} %"


def shown(value: Any) -> str:
    """A value in a reason, cut to size."""
    text = numerals.show(value) if isinstance(value, int) else str(value)
    return repr(text if len(text) <= 30 else text[:27] + "...")
