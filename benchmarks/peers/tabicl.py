"""TabICL: a transformer pretrained on synthetic tables that learns in context (package tabicl). Runs in an environment of its own."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pandas
from tabicl import TabICLClassifier, TabICLRegressor

from benchmarks.peers.exchange import Clock, Request, Settings, serve
from benchmarks.peers.in_context import fill_in_context


def fill(request: Request, table: pandas.DataFrame, clock: Clock) -> tuple[pandas.DataFrame, Settings]:
    """The predictions of TabICL for the gaps."""
    classifier, regressor = (
        partial(_model, kind, request.seed) for kind in (TabICLClassifier, TabICLRegressor)
    )  # fmt: skip
    return fill_in_context("tabicl", classifier, regressor, request, table, clock)


def _model(kind: Any, seed: int, weights: Path) -> Any:
    return kind(model_path=weights, allow_auto_download=False, device="cpu", random_state=seed)


if __name__ == "__main__":
    serve(fill=fill)
