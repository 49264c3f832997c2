"""The options of completing: which gaps are filled, with which value, and in which order."""

from __future__ import annotations

from dataclasses import dataclass

from kbdisk.entity import Path
from kbdisk.errors import ConfigError
from kbdisk.model.diffusion import GIVEN, ORDERS
from kbdisk.model.estimates import ESTIMATES

# Which gaps are filled: only those that are asked for (a blank cell, a null, a missing part, what the schema requires), also
# properties that such an entity is likely to have, or all properties of its class.
FILLS = ("asked", "likely", "all")
MAX_PASSES = 8  # of the network, where `leap` is not stated


@dataclass(frozen=True)
class CompletionConfig:
    """The options of completing a knowledge base."""

    fill: str = "likely"
    only: tuple[Path, ...] = ()  # only values at these paths or below them; text, too, where it is named
    classes: tuple[str, ...] = ()  # only entities of these classes, by their names, IRIs or last words
    estimate: str = "median"  # which value of its distribution a number gets: a row of ESTIMATES
    order: str = GIVEN  # a row of ORDERS: whether values are predicted from filled ones, too, and in which order
    leap: int | None = (
        None  # how many values of an entity are predicted at a time; None: as many as take MAX_PASSES passes
    )
    draws: int = 0  # values that are drawn for each gap, besides the one that is filled in
    min_confidence: float | None = None  # None: the default of `fill`
    precision: float | None = None  # instead of a confidence: the share of statements that are to be right
    least: int = 30  # values in training that a property must have
    seed: int = 0

    @property
    def is_independent(self) -> bool:
        """Whether a value does not depend on which other gaps are asked for."""
        return self.order == GIVEN and self.estimate != "sample" and not self.draws

    def __post_init__(self) -> None:
        for name, choices in ("fill", FILLS), ("estimate", ESTIMATES), ("order", ORDERS):
            if getattr(self, name) not in choices:
                raise ConfigError(f"--{name}", f"expected one of {', '.join(choices)}, got {getattr(self, name)!r}.")
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
