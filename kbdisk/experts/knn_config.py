"""What can be chosen about likeness."""

from __future__ import annotations

from dataclasses import dataclass

MOST = 1 << 12  # that may have a say


@dataclass(frozen=True)
class LikenessConfig:
    """How entities are found that are alike, and how long that may be learnt."""

    share: float = 0.0  # of a time budget that is for it; 0: nobody looks for them
    nearest: int = 64  # entities that have a say, at most
    values: int = 1 << 17  # of known entities that are compared with, at most
    asked: int = 4096  # of those, of whom it is learnt what likeness counts, at most
    rounds: int = 3  # in how many more ways, with much hidden, each of them is asked for
    properties: int = 64  # of a class that are compared, at most: the fullest

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise ValueError(f"share: expected at least 0 and less than 1, got {self.share!r}")
        for name in ("nearest", "values", "asked", "properties"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)!r}")
        if self.nearest > MOST:
            raise ValueError(f"nearest: expected at most {MOST:,}, got {self.nearest!r}")
        if self.rounds < 0:
            raise ValueError(f"rounds: expected at least 0, got {self.rounds!r}")
