"""What can be chosen about smooth functions."""

from __future__ import annotations

from dataclasses import dataclass

MOST = 1 << 13  # values of a property that a function may go by: what it takes grows with their cube


@dataclass(frozen=True)
class SmoothConfig:
    """What functions are learnt of, and how long that may take."""

    share: float = 0.0  # of a time budget that is for it; 0: there are none
    most: int = (
        2000  # entities that are learnt from, beyond which there are none: networks and kin tell as well by then
    )
    values: int = 1 << 17  # of known entities that are looked at, at most
    rounds: int = 3  # in how many ways, with much hidden, held-out entities are asked for
    points: int = 1024  # of a property, that a function goes by, at most
    labels: int = 16  # of a property that is told, at most
    properties: int = 64  # of a class that are looked at, at most: the fullest

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise ValueError(f"share: expected at least 0 and less than 1, got {self.share!r}")
        for name in ("most", "values", "points", "labels", "properties"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)!r}")
        if self.rounds < 0:
            raise ValueError(f"rounds: expected at least 0, got {self.rounds!r}")
        if self.points > MOST:
            raise ValueError(f"points: expected at most {MOST:,}, got {self.points!r}")
