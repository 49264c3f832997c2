"""How numbers are read and believed: choices by name, each checked when they are made."""

from __future__ import annotations

import math
from dataclasses import dataclass

CODES = ("auto", "quantile", "standard", "minmax", "log")
EMBEDDINGS = ("plr", "periodic", "dice")
BELIEFS = ("mixture", "binned", "mse")


@dataclass(frozen=True)
class NumberConfig:
    """The choices for all numbers of a model."""

    # DIFF(paper): min-max, periodic, mixture, and no atoms there; for why not, see PAPER-NOTES, what others have found
    code: str = "auto"  # what the schema advises, else quantile
    embedding: str = "plr"
    frequencies: int = 32  # F, of the periodic embeddings
    frequency_scale: float = 0.3  # their standard deviation at the start, in turns per unit of code
    waves: bool = True  # whole numbers are read by their remainders, too
    shared: bool = False  # one embedding for all properties, else one per group
    belief: str = "mixture"
    point: float = 0.3  # what the squared error of a point estimate weighs in the loss; 0: there is none
    components: int = 50  # K, of the mixture
    bins: int = 64  # B, of the binned density
    knots: int = 128  # of a code's map, at most
    atoms: int = 32  # how many repeated values of a property have a mass of their own, at most; 0: none
    atom_share: float = (
        0.02  # of the property's values: what rarer ones have none, but for ends at which values pile up
    )
    atom_count: int = 10  # how often an atom was seen, at least

    def __post_init__(self) -> None:
        for name, known in (("code", CODES), ("embedding", EMBEDDINGS), ("belief", BELIEFS)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name}: expected one of {', '.join(known)}, got {getattr(self, name)!r}")
        if not 0 <= self.point < math.inf:
            raise ValueError(f"point: expected at least 0, got {self.point!r}")
        for name, least in (("frequencies", 1), ("components", 1), ("bins", 1), ("knots", 2), ("atoms", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: expected at least {least}, got {getattr(self, name)!r}")
