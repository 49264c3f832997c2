"""TabPFN: a transformer pretrained on synthetic tables that learns in context (package tabpfn). Runs in an environment of its own."""

from __future__ import annotations

import pandas
from tabpfn import TabPFNClassifier, TabPFNRegressor

from benchmarks.peers.exchange import Clock, Request, Settings, serve
from benchmarks.peers.in_context import CLASSIFIER, REGRESSOR, fill_in_context

MODELS = {CLASSIFIER: TabPFNClassifier, REGRESSOR: TabPFNRegressor}


def fill(request: Request, table: pandas.DataFrame, clock: Clock) -> tuple[pandas.DataFrame, Settings]:
    """The predictions of TabPFN for the gaps."""
    return fill_in_context("tabpfn", MODELS, {"ignore_pretraining_limits": True}, request, table, clock)


if __name__ == "__main__":
    serve(fill=fill)
