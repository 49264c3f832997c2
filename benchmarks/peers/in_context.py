"""In-context learning: pretrained transformers that predict a column from the known rows, which they read with each prediction.

The weights are the user's: a folder for each peer in the folder that KBDISK_WEIGHTS names, with one file whose name has `classifier` in
it and one with `regressor`. Nothing is downloaded. One property is filled after the other, those with most gaps first, until the time
is over. Labels are given by their numbers. Many rows are represented by a sample, and a property's rarer labels are never predicted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.peers.exchange import CannotError, Clock, Request, Settings

if TYPE_CHECKING:
    import pandas

WEIGHTS = "KBDISK_WEIGHTS"  # the variable that names a folder
KINDS = CLASSIFIER, REGRESSOR = "classifier", "regressor"
MAX_ROWS = 1_000  # that are read
MAX_LABELS = 10  # of a property
MIN_ROWS = 10  # that know a property


def weights_problem(name: str) -> str | None:
    """Why a peer has no weights here, and what to do; None where it has."""
    folder = os.environ.get(WEIGHTS)
    if not folder:
        return f"expected a folder of weights in {WEIGHTS}, got none. Put files *classifier* and *regressor* into its folder {name}."
    lacking = [kind for kind in KINDS if len(_files(folder, name, kind)) != 1]
    if not lacking:
        return None
    counts = ", ".join(f"{len(_files(folder, name, kind))} *{kind}*" for kind in lacking)
    return f"expected one file *classifier* and one *regressor* in {Path(folder) / name}, got {counts}. Put its weights there."


def _files(folder: str, name: str, kind: str) -> list[Path]:
    return sorted((Path(folder) / name).glob(f"*{kind}*"))


def fill_in_context(
    name: str,
    models: Mapping[str, Callable[..., Any]],
    settings: Settings,
    request: Request,
    table: pandas.DataFrame,
    clock: Clock,
) -> tuple[pandas.DataFrame, Settings]:
    """The predictions for the gaps of as many columns as the time suffices for, by models of KINDS in scikit-learn's manner."""
    import pandas

    if problem := weights_problem(name):
        raise CannotError(problem)
    if clock.limit <= 0:
        raise CannotError("expected time to predict, got none. Give it a longer budget.")
    files = {kind: _files(os.environ[WEIGHTS], name, kind)[0] for kind in KINDS}
    coded = table.copy()
    for label in request.labels:
        codes, _ = pandas.factorize(table[label])
        coded[label] = pandas.Series(codes, index=table.index, dtype=float).where(codes >= 0)
    asked_rows = table.index[request.rows]
    filled = pandas.DataFrame(None, index=table.index, columns=request.asked, dtype=object)
    clock.end_fit()  # nothing is fitted
    last, done = 0.0, 0
    for column in sorted(request.asked, key=lambda column: -int(table[column].isna().sum())):
        begun = clock.elapsed
        known = table[column].dropna()
        if column in request.labels:
            known = known[known.isin(known.value_counts().index[:MAX_LABELS])]
        gaps = asked_rows[table.loc[asked_rows, column].isna()]
        if clock.left <= last or not len(gaps) or len(known) < MIN_ROWS or known.nunique() < 2:
            continue
        known = known.sample(min(MAX_ROWS, len(known)), random_state=request.seed)
        inputs = coded.drop(columns=column)
        inputs = inputs.loc[:, inputs.loc[known.index].nunique() > 1]
        if not len(inputs.columns):
            continue
        kind = REGRESSOR if column in request.numbers else CLASSIFIER
        model = models[kind](model_path=str(files[kind]), device="cpu", random_state=request.seed, **settings)
        model.fit(inputs.loc[known.index].to_numpy(), known.to_numpy())
        filled.loc[gaps, column] = list(model.predict(inputs.loc[gaps].to_numpy()))
        last, done = clock.elapsed - begun, done + 1
    return filled, {"columns": done}
