"""How the error falls as more of an entity's properties are given: from none of the others to all of them.

The same values are asked for at every share, and what is given at one share is given at each larger one, too.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from kbdisk.entity import Entity
from kbdisk.evaluation.exam import Exam, Scope, Told
from kbdisk.graph import Graph
from kbdisk.scoring import Case
from kbdisk.training.trained import Trained

SHARES = tuple(step / 10 for step in range(11))  # of the other properties; the last is all but one of all
LIMIT, TEXTS = 200, 50  # values of a property, each asked for at every share


@dataclass(frozen=True)
class Line:
    """The errors of one property."""

    of: str
    path: str
    kind: str
    metric: str
    n: int
    constant: float | None
    ours: list[float | None]  # at each share

    @property
    def ratios(self) -> list[float] | None:
        """Ours in parts of the constant's; None where that is never wrong, or there is nothing to score."""
        if not self.constant or None in self.ours:
            return None
        return [one / self.constant for one in self.ours if one is not None]


@dataclass(frozen=True)
class Curve:
    """Errors as a function of what is given."""

    shares: list[float]
    lines: list[Line]

    @property
    def mean(self) -> list[float | None]:
        """The mean of ours / constant over properties, at each share."""
        told = [one for line in self.lines if (one := line.ratios) is not None]
        return [math.fsum(each) / len(told) for each in zip(*told, strict=True)] or [None] * len(self.shares)

    def to_json(self) -> dict[str, Any]:
        """Itself as plain data."""
        lines = [
            {"class": one.of, "path": one.path, "kind": one.kind, "metric": one.metric, "n": one.n}
            | {"constant": one.constant, "ours": one.ours}
            for one in self.lines
        ]
        return {"shares": self.shares, "mean": self.mean, "properties": lines}


def curve(
    trained: Trained,
    entities: Collection[Entity],
    graph: Graph | None = None,
    scope: Scope | None = None,
    *,
    shares: Collection[float] = SHARES,
    watch: Told | None = None,
) -> Curve:
    """The errors at some shares of each entity's other properties."""
    if not shares or any(not 0 <= share <= 1 for share in shares):
        raise ValueError(f"expected shares from 0 to 1, got {list(shares)}")
    exam = Exam.of(trained, entities, graph, scope or Scope(limit=LIMIT, texts=TEXTS))
    several = [exam.rows(_asked(exam, share, turn, len(shares), watch)) for turn, share in enumerate(shares)]
    lines = [
        Line(
            of=rows[0]["class"],
            path=rows[0]["path"],
            kind=rows[0]["kind"],
            metric=rows[0]["metric"],
            n=rows[0]["n"],
            constant=rows[0]["constant"],
            ours=[row["ours"] for row in rows],
        )
        for rows in zip(*several, strict=True)
    ]
    return Curve(list(shares), lines)


def _asked(exam: Exam, share: float, turn: int, turns: int, watch: Told | None) -> list[Case]:
    whole = len(exam.questions)
    told = None if watch is None else lambda done, _: watch(turn * whole + done, turns * whole)
    return list(exam.cases(share, told))
