"""Labels out of a few, or text: told by how often the same strings come again, and how long they are."""

from __future__ import annotations

from collections.abc import Sequence

from kbdisk.schemas.inference.decision import Decision, counted, percent, shown
from kbdisk.schemas.inference.sketch import CUT
from kbdisk.schemas.kinds import Category, Text

AGAIN = 2  # times that a label comes on average
OFTEN = 20  # times, where labels are very many
MANY = 5000
LONG = 50  # characters
WORDS = 6
CLOSED = 30  # labels at most where no others are expected
UNSEEN = 0.001  # the chance that the next value has a new label, where the vocabulary is closed
FEW = 10  # values from which nothing is told


def vocabulary(texts: Sequence[tuple[str, int]], seen: int, distinct: int, exact: bool) -> Decision:
    """Category or text."""
    total = sum(count for _, count in texts)
    length = sum(min(len(text), CUT) * count for text, count in texts) / total
    is_cut = any(len(text) > CUT for text, _ in texts)  # only the beginnings of some are known here
    words = sum((text.count(" ") + 1) * count for text, count in texts) / total
    told = f"{counted(distinct, 'label')} in {counted(seen, 'value')}"
    if not exact:
        told = "about " + told
    long = length > LONG or words > WORDS
    repeated = seen / max(distinct, 1)
    rare = repeated < (AGAIN if distinct <= MANY else OFTEN) or (
        long and (repeated < 6 * AGAIN or distinct > 4 * CLOSED)
    )
    if rare or (seen < FEW and distinct > 1):
        several = f"{'at least ' if is_cut else ''}{counted(round(length), 'character')}, {words:.1f} words on average"
        return Decision(Text(), f"{told}: too few come again; {several}")
    once = sum(count == 1 for _, count in texts)
    if exact and not is_cut and distinct <= CLOSED and once <= UNSEEN * seen and seen >= 3 * FEW:
        ordered = tuple(text for text, _ in sorted(texts, key=lambda one: (-one[1], one[0])))
        return Decision(Category(ordered, closed=True), f"{told}, and hardly a new one is to come")
    first, count = max(texts, key=lambda one: one[1])
    often = f"; {shown(first)} is {percent(count / total)} of them" if exact else ""
    return Decision(Category(), told + often)
