"""How far a run is: what it goes on by, and what those are told who watch it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kbdisk.training.looking import Look


@dataclass
class State:
    """How far a run is; with the tensors, all that a resumed one needs."""

    step: int = 0
    total: int | None = None  # None until a time budget has become a number of steps
    evaluations: int = 0  # how often the held-out part is looked at: fewer where looks are slow beside a budget
    seconds: float = 0.0  # spent in steps and looks, and on keeping them
    falls: int = 0  # the step from which the rate falls, where that was earlier than planned
    spare: float = 0.0  # seconds of a budget that are not for steps
    values: int | None = None  # that are remembered at most; None until a budget has told how many
    recorded: int | None = None  # by which what is recorded is learnt at most, likewise
    best: float = math.inf  # the least that the held-out part cost, as Look has it
    best_step: int = 0
    worse: int = 0  # looks since then
    history: list[dict[str, Any]] = field(default_factory=list)
    timing: list[float] = field(default_factory=list)  # of the first steps
    stopped: str = ""  # why it cannot go on


class After(NamedTuple):
    """What is done after the last step, and how far that is."""

    doing: str
    done: int
    total: int


@dataclass(frozen=True)
class Progress:
    """What a watcher is told after each step."""

    step: int
    total: int | None
    seconds: float
    loss: float  # of this step, nats per entity
    look: Look | None = None  # where there was one
    ended: bool = False  # whether it was the last
    measure: Callable[[], list[dict[str, Any]]] | None = None  # how wrong answers are by now, for whoever wants to know
    member: tuple[int, int] = (1, 1)  # which of how many networks
    after: After | None = None  # once there are no more steps


Watch = Callable[[Progress], None]


def finite(number: float) -> float | None:
    """A number as JSON has it: None for those that it lacks."""
    return number if math.isfinite(number) else None
