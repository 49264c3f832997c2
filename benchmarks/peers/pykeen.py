"""PyKEEN: ComplEx by the parts of the package (pykeen). Runs in an environment of its own.

Each relation has an inverse. A step scores heads and relations with all entities at once (LCWA), by cross-entropy, with N3
regularization and Adagrad, as Lacroix et al. (2018) train it. On the validation part of codex-s the MRR after 40 s was .42; with
the package's default for ComplEx, vectors from a standard normal distribution and a squared norm, it was below .01. Training
ends with the first epoch after nine tenths of the time; the rest is for ranking.
"""

from __future__ import annotations

import logging
import time
import warnings
from functools import partial

import numpy as np
import pandas
import torch
from numpy.typing import NDArray
from pykeen.losses import CrossEntropyLoss
from pykeen.models import ComplEx
from pykeen.regularizers import PowerSumRegularizer
from pykeen.stoppers import NopStopper
from pykeen.training import LCWATrainingLoop
from pykeen.triples import CoreTriplesFactory
from torch.optim import Adagrad

from benchmarks.peers.exchange import Clock, Request, Settings, filtered_ranks, serve, set_threads

RANK, RATE, BATCH = 200, 0.1, 512  # complex numbers of an entity; heads and relations of a step
STRENGTH = 0.01  # of N3, by codex-s's validation part
RANKING_SHARE = 0.1  # of the time
MAX_EPOCHS = 1000  # where the time is not limited


class TimeStopper(NopStopper):  # type: ignore[misc]  # its package is in another environment
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
    clock.refuse_no_time()
    set_threads()
    given = links.loc[links["part"] == "given", ["head", "relation", "tail"]].to_numpy()
    triples = CoreTriplesFactory(
        torch.from_numpy(given), request.entities, request.relations, create_inverse_triples=True
    )
    model = ComplEx(
        triples_factory=triples,
        embedding_dim=RANK,
        loss=CrossEntropyLoss(),
        entity_initializer="xavier_normal",
        relation_initializer="xavier_normal",
        regularizer=PowerSumRegularizer,
        regularizer_kwargs={"weight": STRENGTH, "p": 3.0, "normalize": False},
        random_seed=request.seed,
    )
    end = clock.begun + (1 - RANKING_SHARE) * clock.limit
    stopper = TimeStopper(end)
    loop = LCWATrainingLoop(model=model, triples_factory=triples, optimizer=Adagrad(model.parameters(), lr=RATE))
    loop.train(triples, num_epochs=MAX_EPOCHS, batch_size=BATCH, stopper=stopper, use_tqdm=False, use_tqdm_batch=False)
    clock.end_fit()

    @torch.no_grad()
    def scores(pairs: NDArray[np.int64], end: str) -> NDArray[np.float32]:
        asked = torch.from_numpy(pairs)
        of_pairs: torch.Tensor = model.predict_t(asked) if end == "tail" else model.predict_h(asked)
        return of_pairs.numpy()

    ranks = {end: filtered_ranks(links, end, partial(scores, end=end)) for end in ("tail", "head")}
    return pandas.DataFrame(ranks), {"epochs": stopper.epochs, "rank": RANK}


if __name__ == "__main__":
    serve(rank=rank)
