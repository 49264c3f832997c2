"""Settings of the training of networks."""

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
    """The training of a network. Without steps and seconds early stopping ends it."""

    batch: int = 512  # entities in a step; 0: fitted to the data
    members: int = 1  # networks of the ensemble, trained one after the other
    more: int = 0  # additional networks, at most, while the time of a whole one is left; MAX_NETWORKS in all
    parts: int = 2  # chunks of a step's entities that are computed in parallel on a CPU
    rate: float = 2e-3  # the peak learning rate, at the network's base width
    optimizer: str = "muon"  # for matrices of width by width, with AdamW for all else; or "adamw" for all
    decay: float = 0.2  # weight decay
    warmup: int = 100  # steps in which the rate rises; a fifth of all steps in short runs
    steps: int | None = None  # at most
    seconds: float | None = None  # at most; converted to a number of steps once `timed` steps were timed
    timed: int = 50
    smoothing: float = 0.998  # decay of the EMA of the weights, which are the ones that are kept
    clip: float = 1.0  # the largest norm of the gradient
    course: str = (
        "cosine"  # of the rate; or "plateau": constant until the validation loss stops falling, then a linear decay
    )
    tired: int = 3  # evaluations without a lower validation loss, after which the rate decays
    evaluations: int = 20  # of the validation loss, besides early ones
    patience: int = 6  # evaluations without a lower validation loss, after which the run ends
    validation: float | None = None  # share of the entities that are held out; None: by the number of entities
    absent: int = 2  # absent properties drawn for each entity, to learn presence
    presence: float = 0.05  # the weight of presence in the loss
    objective: str = "bound"  # a row of OBJECTIVES
    balance: bool = True  # whether each property's loss is divided by its marginal entropy
    precision: str = "auto"  # bfloat16 where the processor has it, else float32

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
