"""Embeddings: entities as vectors.

A vector is the mean over an entity's class and known values of the rows from which the network's last layer takes its keys
and values. It has the information by which the model would complete the entity, and nothing else: entities that would be
completed similarly are near each other. It is deterministic.
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
    """(N, D) float32, in the order of the entities. Evidence comes over the links of the graph."""
    tokens = trained.encode(entities, graph=graph)
    batched = [trained.network.embed(batch, batch.seen(batch.known)).float().cpu() for _, batch in batches(tokens)]
    width = trained.network.config.width
    embedded: np.ndarray[Any, Any] = np.concatenate(
        [np.zeros((0, width), np.float32), *(vectors.numpy() for vectors in batched)]
    )
    return embedded
