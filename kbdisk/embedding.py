"""Entities as vectors: what a model sees of each.

A vector is the mean, over an entity's class and all its known values, of what those would look at who asked about the
entity: the rows that the network's last layer takes its keys and values from. So it holds what the model would complete
the entity by, and nothing else: entities that would be completed alike are near each other. No draw is made for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from kbdisk.data.dataset import batches
from kbdisk.data.graph import Graph
from kbdisk.entity import Entity
from kbdisk.training.trained import Trained


@torch.no_grad()
def embed(trained: Trained, entities: Sequence[Entity], graph: Graph | None = None) -> np.ndarray[Any, Any]:
    """(N, D) float32, in the order of the entities; the graph is what their links bring."""
    tokens = trained.encode(entities, graph=graph)
    found = [trained.network.embed(batch, batch.seen(batch.known)).float().cpu() for _, batch in batches(tokens)]
    width = trained.network.config.width
    vectors: np.ndarray[Any, Any] = np.concatenate([np.zeros((0, width), np.float32), *(one.numpy() for one in found)])
    return vectors
