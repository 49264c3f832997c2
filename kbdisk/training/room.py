"""Whether a machine has the memory that a network is trained in: said before it is made, not by the system that ends it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from kbdisk.data import Codec
from kbdisk.errors import ConfigError, TrainingError
from kbdisk.model.network import DiSK, ModelConfig

COPIES = 6  # of a network at least: itself, its average, its best, its gradients, and two moments of each
REFUSED = ("can't allocate memory", "not enough memory")  # what torch says where a CPU has no memory left
SHARE = 0.9  # of a machine's memory: the rest is for data, for what a step computes, and for others


def check_room(codec: Codec, model: ModelConfig, device: torch.device) -> None:
    """A ConfigError where a network and all that its training holds is more than the memory there is."""
    memory = _memory()
    if device.type != "cpu" or memory is None:
        return
    room, count = int(SHARE * memory), parameters(codec, model)
    needed = COPIES * count * torch.finfo(torch.float32).bits // 8
    if needed > room:
        problem = (
            f"expected a network that can be trained in {_gigabytes(room)} of memory, got {count / 1e6:,.0f} million "
            f"parameters, which need {_gigabytes(needed)}. Give a smaller width, or the default preset."
        )
        raise ConfigError(f"model.width = {model.width}", problem)


@contextmanager
def within_memory(batch: int, width: int) -> Iterator[None]:
    """Turns a failed allocation into a TrainingError that names the settings to lower."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:  # torch.OutOfMemoryError is a RuntimeError
        is_full = isinstance(error, MemoryError | torch.OutOfMemoryError)
        if not is_full and not any(text in str(error) for text in REFUSED):
            raise
        problem = f"expected a step that fits into memory, got one of {batch:,} entities at width {width}"
        raise TrainingError("train", f"{problem}. Lower train.batch or model.width.") from error


def parameters(codec: Codec, model: ModelConfig) -> int:
    """How many a network has, without making it: they grow as a width's square does, so three narrow ones tell."""
    least = math.lcm(model.heads, *(getattr(one, "heads", 1) for one in codec.config.kinds.values()))
    one, two, three = (_counted(codec, replace(model, width=times * least)) for times in (1, 2, 3))
    times = model.width // least
    slope, bend = two - one, three - 2 * two + one
    return one + (times - 1) * slope + (times - 1) * (times - 2) // 2 * bend


def _counted(codec: Codec, model: ModelConfig) -> int:
    return sum(one.numel() for one in DiSK(codec, model).parameters())


def _memory() -> int | None:
    """The bytes of this machine; None where it does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows has no such question
        return None


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:,.{0 if count >= 1e11 else 1}f} GB"
