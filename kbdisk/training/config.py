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
    """How networks are trained. Without `steps` and `seconds` training ends by early stopping alone."""

    batch: int = 512  # entities in a step, each maybe several times with other masks; 0: fitted to the size of the data
    members: int = 1  # networks of the ensemble, trained one after the other; 0: none, and links alone are predicted
    more: int = 0  # maximum number of further networks, while the time budget has a whole network's part left; 8 in all
    parts: int = 2  # parts of a step that CPU cores work on in parallel, each of at least 64 entities
    rate: float = 2e-3  # maximum learning rate, at the network's base width
    optimizer: str = "muon"  # one of OPTIMIZERS; muon: Muon for maps from width to width, AdamW for the rest
    decay: float = 0.2  # weight decay
    warmup: int = 100  # steps in which the learning rate rises; at most a fifth of a short run
    steps: int | None = None  # maximum number of steps
    seconds: float | None = None  # time budget; after `timed` steps it becomes a number of steps
    timed: int = 50  # steps that are timed for that
    smoothing: float = 0.998  # decay of the exponential moving average of the weights (EMA), which is what is kept
    clip: float = 1.0  # maximum norm of the gradient
    course: str = (
        "cosine"  # of the learning rate, one of COURSES; plateau: lower when the validation loss stops falling
    )
    tired: int = 3  # evaluations without improvement after which a plateau lowers the rate
    evaluations: int = 20  # evaluations of the validation loss in a run, beside early ones
    patience: int = 6  # evaluations without improvement after which training stops
    entities: int | None = None  # maximum number of entities that are learnt from or held out; none: by the time budget
    validation: float | None = None  # share of the entities that is held out; none: a tenth, up to a fifth of few
    absent: int = 2  # absent properties drawn of each entity, to learn presence from
    presence: float = 0.05  # weight of presence in the loss
    objective: str = "bound"  # the loss, one of OBJECTIVES
    balance: bool = True  # whether each property's loss is divided by its marginal entropy
    precision: str = "auto"  # one of PRECISIONS; auto: bfloat16 on processors that compute in it

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
        for name in ("parts", "timed", "tired", "evaluations", "patience", "entities"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}: expected at least 1, got {value!r}")
        for name in ("members", "more", "batch", "warmup", "absent", "decay", "presence"):
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
