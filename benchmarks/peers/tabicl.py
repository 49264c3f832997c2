"""TabICL: a transformer pretrained on synthetic tables that learns in context (package tabicl). Runs in an environment of its own."""

from __future__ import annotations

import pandas
from tabicl import TabICLClassifier, TabICLRegressor

from benchmarks.peers.exchange import Clock, Request, Settings, serve
from benchmarks.peers.in_context import CLASSIFIER, REGRESSOR, fill_in_context

MODELS = {CLASSIFIER: TabICLClassifier, REGRESSOR: TabICLRegressor}


def fill(request: Request, table: pandas.DataFrame, clock: Clock) -> tuple[pandas.DataFrame, Settings]:
    """The predictions of TabICL for the gaps."""
    return fill_in_context("tabicl", MODELS, {"allow_auto_download": False}, request, table, clock)


if __name__ == "__main__":
    serve(fill=fill)
