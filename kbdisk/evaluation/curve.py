"""Error curve: how the error falls as more of an entity's properties are given, from none of the others to all of them.

The same values are asked for at every share, and what is given at one share is given at each larger one, too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kbdisk.data.graph import Graph
from kbdisk.entity import Entity
from kbdisk.evaluation.compare import FittedBaselines
from kbdisk.evaluation.evaluate import Evaluation, Progress, Scope
from kbdisk.metrics import Case
from kbdisk.training.trained import Trained

SHARES = tuple(step / 10 for step in range(11))  # of the other properties; the last is all but one of all
LIMIT, TEXTS = 200, 50  # values of a property, each asked for at every share


@dataclass(frozen=True)
class Line:
    """The errors of one property."""

    class_name: str
    path: str
    kind: str
    metric: str
    n: int
    constant: float | None
    ours: list[float | None]  # at each share
    against: Mapping[str, list[float | None]] = field(default_factory=dict)  # those of baselines, by name

    @property
    def ratios(self) -> list[float] | None:
        """Ours in parts of the constant's; None where that is never wrong, or there is nothing to score."""
        return self.ratios_of(self.ours)

    def ratios_of(self, errors: Sequence[float | None]) -> list[float] | None:
        """Errors in parts of the constant's."""
        if not self.constant or None in errors:
            return None
        return [error / self.constant for error in errors if error is not None]


@dataclass(frozen=True)
class Curve:
    """Errors as a function of what is given."""

    shares: list[float]
    lines: list[Line]

    @property
    def mean(self) -> list[float | None]:
        """The mean of ours / constant over properties, at each share."""
        return self._mean([line.ratios for line in self.lines])

    def mean_of(self, name: str) -> list[float | None]:
        """The mean of a baseline's error / constant over the properties that it predicts, at each share."""
        return self._mean([line.ratios_of(line.against[name]) for line in self.lines])

    def _mean(self, ratios: Sequence[list[float] | None]) -> list[float | None]:
        known = [property_ratios for property_ratios in ratios if property_ratios is not None]
        return [math.fsum(share_ratios) / len(known) for share_ratios in zip(*known, strict=True)] or [None] * len(
            self.shares
        )

    def to_json(self) -> dict[str, Any]:
        """The curve as plain data."""
        lines = [
            {"class": line.class_name, "path": line.path, "kind": line.kind, "metric": line.metric, "n": line.n}
            | {"constant": line.constant, "ours": line.ours}
            | ({"against": dict(line.against)} if line.against else {})
            for line in self.lines
        ]
        return {"shares": self.shares, "mean": self.mean, "properties": lines}


def curve(
    trained: Trained,
    entities: Collection[Entity],
    graph: Graph | None = None,
    scope: Scope | None = None,
    *,
    shares: Collection[float] = SHARES,
    against: FittedBaselines | None = None,
    watch: Progress | None = None,
) -> Curve:
    """The errors at some shares of each entity's other properties."""
    if not shares or any(not 0 <= share <= 1 for share in shares):
        raise ValueError(f"expected shares from 0 to 1, got {list(shares)}")
    evaluation = Evaluation.of(trained, entities, graph, scope or Scope(limit=LIMIT, texts=TEXTS))
    baselines = against or FittedBaselines()
    rows_at_shares = [
        baselines.add_scores(evaluation, evaluation.rows(_cases(evaluation, share, number, len(shares), watch)), share)
        for number, share in enumerate(shares)
    ]
    lines = [
        Line(
            class_name=rows[0]["class"],
            path=rows[0]["path"],
            kind=rows[0]["kind"],
            metric=rows[0]["metric"],
            n=rows[0]["n"],
            constant=rows[0]["constant"],
            ours=[row["ours"] for row in rows],
            against={name: [(row["against"][name] or {}).get("theirs") for row in rows] for name in rows[0]["against"]},
        )
        for rows in zip(*rows_at_shares, strict=True)
    ]
    return Curve(list(shares), lines)


def _cases(evaluation: Evaluation, share: float, number: int, shares: int, watch: Progress | None) -> list[Case]:
    """The predictions at one of several shares, with progress as a part of all."""
    questions = len(evaluation.questions)
    share_watch = None if watch is None else lambda done, _: watch(number * questions + done, shares * questions)
    return list(evaluation.cases(share, share_watch))
