"""What can be chosen about a memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MemoryConfig:
    """How much is remembered, and how it is found again."""

    nearest: int = 64  # values that a belief takes account of, at most; 0: nothing is remembered
    values: int = 1 << 17  # that are remembered with all else of their entity visible, at most
    rounds: int = 4  # in how many more ways, with much hidden, each of their entities is looked at
    prior: float = 20.0  # held-out values, as many as what all properties of a kind have in common counts

    def __post_init__(self) -> None:
        for name in ("nearest", "values", "rounds", "prior"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: expected at least 0, got {getattr(self, name)!r}")
        if self.prior == 0:
            raise ValueError("prior: expected more than 0, got 0")
