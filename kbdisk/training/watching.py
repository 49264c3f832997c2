"""A network on its way, as the held-out part sees it: with its averaged weights, and beside what is best said to everybody."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from kbdisk.data import Codec
from kbdisk.data.dataset import Tokens
from kbdisk.metrics import Constants
from kbdisk.network.disk import DiSK
from kbdisk.training.looking import Look, constant_nats, look, measured
from kbdisk.training.optimizer import EMA, autocast
from kbdisk.training.run import Run


@dataclass
class Watching:
    """What looks at a network."""

    network: DiSK
    ema: EMA
    codec: Codec
    training: Tokens  # where it was encoded
    held_out: Tokens  # where the network is
    run: Run
    device: torch.device

    def look(self, step: int, tokens: Tokens | None = None) -> Look:
        """What the held-out part costs after a step, or what others do."""
        seen = self.held_out if tokens is None else tokens
        with self._averaged():
            return look(self.network, seen, self.run.hiding, len(self.codec.slots), self.run.seed, step)

    def cost(self, seen: Look) -> float:
        """What is to get less."""
        # What is drawn is drawn as it was learnt: there what was learnt by heart counts in full.
        return seen.nats if self.run.hiding.is_in_order else seen.cost(self.constant_nats)

    def measure(self) -> list[dict[str, Any]]:
        """How wrong answers are on some of the held-out part, beside the constants."""
        with self._averaged():
            return measured(self.network, self.codec, self.constants, self.held_out, self.run.hiding, self.run.seed)

    @cached_property
    def constants(self) -> Constants:
        """What is best said to everybody."""
        return Constants.fit(self.codec, self.training)

    @cached_property
    def constant_nats(self) -> dict[int, float]:
        """What each property's values cost in a look where nothing but the property is known."""
        return constant_nats(self.codec, self.held_out, self.run.hiding, self.run.seed)

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        self.network.eval()
        with self.ema.applied(), autocast(self.run.train.precision, self.device, self.run.model.width):
            yield
