"""TVAE: a variational autoencoder of rows (package ctgan). Runs in an environment of its own, and is trained as CTGAN is."""

from __future__ import annotations

import pandas
from ctgan import TVAE

from benchmarks.peers.ctgan import sample_from
from benchmarks.peers.exchange import Clock, Request, Settings, serve


def sample(request: Request, table: pandas.DataFrame, clock: Clock) -> tuple[pandas.DataFrame, Settings]:
    """Rows drawn from a TVAE."""
    return sample_from(TVAE, request, table, clock)


if __name__ == "__main__":
    serve(sample=sample)
