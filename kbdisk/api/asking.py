"""How likely entities are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from kbdisk.entity import Entity
from kbdisk.graph import Graph
from kbdisk.likelihood import log_prob
from kbdisk.training.trained import Trained, batches


def log_probs(
    trained: Trained, entities: Sequence[Entity], graph: Graph | None, *, orders: int = 4, seed: int = 0
) -> np.ndarray[Any, Any]:
    """(N,) in nats: exact where an entity has few values, else a lower bound, a mean over so many orders."""
    generator = torch.Generator(trained.device).manual_seed(seed)
    tokens = trained.encode(entities, graph=graph)
    found = [log_prob(trained.network, batch, orders=orders, generator=generator) for _, batch in batches(tokens)]
    return np.concatenate([np.zeros(0), *(one.exact.where(~one.exact.isnan(), one.bound).cpu() for one in found)])
