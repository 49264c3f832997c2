"""PyKEEN: ComplEx, as the package trains it (package pykeen). Runs in an environment of its own.

Each relation has an inverse. A step scores a head and a relation with all entities at once (LCWA), by cross-entropy, as in the
package's reproduction of the best models. It trains epoch after epoch, until the time is over but for what ranking takes.
"""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import pandas
import torch
from numpy.typing import NDArray
from pykeen.losses import CrossEntropyLoss
from pykeen.models import ComplEx
from pykeen.stoppers import NopStopper
from pykeen.training import LCWATrainingLoop
from pykeen.triples import CoreTriplesFactory
from torch.optim import Adagrad

from benchmarks.peers.exchange import CannotError, Clock, Request, Settings, serve

RANK, RATE, BATCH = 200, 0.1, 512  # complex numbers of an entity; heads and relations of a step
RANKED_AT_ONCE = 256
RANKING_SHARE = 0.1  # of the time
MAX_EPOCHS = 1000  # where the time is not limited


class TimeStopper(NopStopper):
    """Ends the training after an epoch, once the time is over."""

    def __init__(self, end: float) -> None:
        super().__init__()
        self.end, self.epochs = end, 0

    def should_evaluate(self, epoch: int) -> bool:
        """Whether it asks for an end after an epoch: always."""
        self.epochs = epoch
        return True

    def should_stop(self, epoch: int) -> bool:
        """Whether the time is over."""
        return time.monotonic() >= self.end


def rank(request: Request, links: pandas.DataFrame, clock: Clock) -> tuple[pandas.DataFrame, Settings]:
    """The ranks of the asked links."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    if clock.limit <= 0:
        raise CannotError("expected time to train, got none. Give it a longer budget.")
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
    parts = {name: part[["head", "relation", "tail"]].to_numpy() for name, part in links.groupby("part")}
    triples = CoreTriplesFactory(
        torch.from_numpy(parts["given"]), request.entities, request.relations, create_inverse_triples=True
    )
    model = ComplEx(triples_factory=triples, embedding_dim=RANK, loss=CrossEntropyLoss(), random_seed=request.seed)
    end = clock.begun + (1 - RANKING_SHARE) * clock.limit
    stopper = TimeStopper(end)
    loop = LCWATrainingLoop(model=model, triples_factory=triples, optimizer=Adagrad(model.parameters(), lr=RATE))
    loop.train(triples, num_epochs=MAX_EPOCHS, batch_size=BATCH, stopper=stopper, use_tqdm=False, use_tqdm_batch=False)
    clock.end_fit()
    ranks = {"tail": _ranks(model, parts, "tail"), "head": _ranks(model, parts, "head")}
    return pandas.DataFrame(ranks), {"epochs": stopper.epochs, "rank": RANK}


@torch.no_grad()
def _ranks(model: ComplEx, parts: Mapping[str, NDArray[np.int64]], end: str) -> NDArray[np.float64]:
    """The ranks of one end of the asked links."""
    is_tail = end == "tail"
    pair, answer = ([0, 1], 2) if is_tail else ([1, 2], 0)
    others: dict[tuple[int, int], list[int]] = defaultdict(list)
    for link in np.concatenate([parts["given"], parts["asked"], parts["known"]]).tolist():
        others[link[pair[0]], link[pair[1]]].append(link[answer])
    asked, ranks = torch.from_numpy(parts["asked"]), []
    for block in asked.split(RANKED_AT_ONCE):
        scores = model.predict_t(block[:, pair]) if is_tail else model.predict_h(block[:, pair])
        for link, row in zip(block.tolist(), scores, strict=True):
            own = row[link[answer]].item()
            row[others[link[pair[0]], link[pair[1]]]] = -torch.inf
            ranks.append(1 + int((row > own).sum()) + int((row == own).sum()) / 2)
    return np.array(ranks)


if __name__ == "__main__":
    serve(rank=rank)
