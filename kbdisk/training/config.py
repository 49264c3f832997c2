"""What can be chosen about training."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kbdisk.model.diffusion import OBJECTIVES

MAX_BATCH = 1 << 20  # entities in a step
MAX_NETWORKS = 8  # networks
PRECISIONS = ("auto", "float32", "bfloat16")
OPTIMIZERS = ("muon", "adamw")
COURSES = ("cosine", "plateau")


@dataclass(frozen=True)
class TrainConfig:
    """How a network is trained. Without steps and seconds: until it is no longer getting better."""

    batch: int = 512  # entities in a step, each maybe several times, differently hidden; 0: as fits the data
    members: int = 1  # networks that are trained, one after the other, and believe together
    more: int = 0  # of them besides, at most, while a whole one's part of a time budget is left; MAX_NETWORKS in all
    parts: int = 2  # that a step's entities are worked on in, side by side on a CPU, each of 64 entities at least
    rate: float = 2e-3  # the highest learning rate, at the network's base width
    optimizer: str = "muon"  # for what maps a width to a width, AdamW for all else; or "adamw" for all
    decay: float = 0.2  # weight decay
    warmup: int = 100  # steps in which the rate rises, of short runs a fifth of all
    steps: int | None = None  # at most
    seconds: float | None = (
        None  # at most: becomes a number of steps after `timed` of them, as many as they are good for by then
    )
    timed: int = 50
    smoothing: float = 0.998  # of the averaged weights (EMA), which are the ones kept
    clip: float = 1.0  # the gradient's longest length
    course: str = "cosine"  # of the rate; or "plateau": stays until the held-out part gets no better, then falls
    tired: int = 3  # looks without getting better, after which it falls
    evaluations: int = 20  # how often the held-out part is looked at, but for early looks
    patience: int = 6  # looks without getting better before it stops
    validation: float | None = None  # share of the entities that are held out; None: as fits how many there are
    absent: int = 2  # absent properties drawn of each entity, to learn presence by
    presence: float = 0.05  # what the belief in presence weighs in the loss
    objective: str = "bound"  # a row of OBJECTIVES
    balance: bool = True  # each property's loss over its marginal entropy
    precision: str = "auto"  # bfloat16 where that is native

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective: expected one of {', '.join(OBJECTIVES)}, got {self.objective!r}")
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(f"optimizer: expected one of {', '.join(OPTIMIZERS)}, got {self.optimizer!r}")
        if self.course not in COURSES:
            raise ValueError(f"course: expected one of {', '.join(COURSES)}, got {self.course!r}")
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision: expected one of {', '.join(PRECISIONS)}, got {self.precision!r}")
        if self.members > MAX_NETWORKS:
            raise ValueError(f"members: expected at most {MAX_NETWORKS}, got {self.members}")
        if self.batch > MAX_BATCH:
            raise ValueError(f"batch: expected at most {MAX_BATCH:,}, got {self.batch:,}")
        for name in ("members", "parts", "timed", "tired", "evaluations", "patience"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)!r}")
        for name in ("more", "batch", "warmup", "absent", "decay", "presence"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name}: expected at least 0, got {getattr(self, name)!r}")
        for name in ("rate", "clip", "steps", "seconds"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name}: expected more than 0, got {value!r}")
        if self.validation is not None and not 0 <= self.validation < 1:
            raise ValueError(f"validation: expected 0 to below 1, got {self.validation!r}")
        if not 0 <= self.smoothing < 1:
            raise ValueError(f"smoothing: expected 0 to below 1, got {self.smoothing!r}")
