"""The options of completing: what is filled, with which value, and how."""

from __future__ import annotations

from dataclasses import dataclass

from kbdisk.diffusion import GIVEN, ORDERS
from kbdisk.entity import Path
from kbdisk.errors import ConfigError
from kbdisk.estimates import ESTIMATES

# What is filled: only what is asked for (a blank cell, a null, a missing part, what the schema requires), also what
# such an entity is likely to have, or all that its class has.
FILLS = ("asked", "likely", "all")
PASSES = 8  # at most, where no leap is told


@dataclass(frozen=True)
class Choices:
    """How knowledge is completed."""

    fill: str = "likely"
    only: tuple[Path, ...] = ()  # nothing but what stands at these paths or below; text too, where it is named
    classes: tuple[str, ...] = ()  # nothing but entities of these classes, by their names, IRIs or last words
    estimate: str = "median"  # which value is said of a number: a row of ESTIMATES
    order: str = GIVEN  # a row of ORDERS: whether the values of an entity are filled by each other, and in which order
    leap: int | None = None  # how many of an entity at a time; enough for PASSES passes where it is not told
    draws: int = 0  # values drawn of each gap, besides the one that is filled in
    min_confidence: float | None = None  # None: as `fill` has it
    precision: float | None = None  # in the place of a confidence, the share of right statements
    least: int = 30  # values in training that a property must have
    seed: int = 0

    @property
    def is_independent(self) -> bool:
        """Whether a value does not depend on which other gaps are asked."""
        return self.order == GIVEN and self.estimate != "sample" and not self.draws

    def __post_init__(self) -> None:
        for name, known in ("fill", FILLS), ("estimate", ESTIMATES), ("order", ORDERS):
            if getattr(self, name) not in known:
                raise ConfigError(f"--{name}", f"expected one of {', '.join(known)}, got {getattr(self, name)!r}.")
        if self.leap is not None and self.leap < 1:
            raise ConfigError("--leap", f"expected at least 1, got {self.leap}.")
        if self.leap is not None and self.order == GIVEN and not self.draws:
            raise ConfigError("--leap", "is for values that are filled in turn. Say --order certain or random, too.")
        if self.draws < 0:
            raise ConfigError("--draws", f"expected at least 0, got {self.draws}.")
        for name, share in ("min-confidence", self.min_confidence), ("precision", self.precision):
            if share is not None and not (isinstance(share, int | float) and 0 <= share <= 1):
                raise ConfigError(f"--{name}", f"expected 0 to 1, got {share}.")
        if self.min_confidence is not None and self.precision is not None:
            raise ConfigError("--precision", "chooses the confidence. Leave --min-confidence out.")
