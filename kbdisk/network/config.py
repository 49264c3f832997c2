"""What can be chosen about the network."""

from __future__ import annotations

from dataclasses import dataclass

from kbdisk.network.paths import PATHS


@dataclass(frozen=True)
class ModelConfig:
    """The network's sizes."""

    width: int = 128  # D, the size of every vector in the network; 0 until it is fitted to the data
    layers: int = 2  # of the entity encoder
    heads: int = 4
    hidden: int = 4  # times the width: of a layer's two maps, and of a residual block
    blocks: int = 1  # residual blocks on either side, for each property or kind
    dropout: float = 0.1
    base: int = 64  # the width at which learning rates were tuned (muP)
    paths: str = "keys"  # a row of PATHS: what a property is known by
    usual: bool = True  # whether how likely a property is to be recorded begins at how often it is

    def __post_init__(self) -> None:
        if self.width < 0 or self.width % self.heads:
            raise ValueError(f"expected a width that {self.heads} heads divide, got {self.width}")
        if self.paths not in PATHS:
            raise ValueError(f"expected one of {', '.join(PATHS)} for paths, got {self.paths!r}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"expected 0 to below 1 for dropout, got {self.dropout}")
        for name in ("layers", "heads", "hidden", "base"):
            if getattr(self, name) < 1:
                raise ValueError(f"expected at least 1 for {name}, got {getattr(self, name)}")
