"""Evaluation: errors on hidden values beside a constant and other baselines, calibration of confidence, and drift.

To add a baseline: a subclass of `Baseline` (`baselines` has the protocol), and a row in BASELINES: `module:callable`, or the callable
itself. It is imported only when it is asked for. Importing this package loads neither torch nor CatBoost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kbdisk.errors import ConfigError
from kbdisk.plugins import Table, load_part
from kbdisk.schemas.text.names import did_you_mean

if TYPE_CHECKING:
    from kbdisk.evaluation.baselines import Baseline

BASELINES: Table[str | Callable[[], Baseline]] = Table(
    "kbdisk.baselines",
    {
        "constant": "kbdisk.evaluation.baselines:ConstantBaseline",
        "gbdt": "kbdisk.evaluation.catboost:GBDT",  # predicts the mean of numbers
        "gbdt-median": "kbdisk.evaluation.catboost:gbdt_median",  # also their median: twice the time
        "gbdt-filled": "kbdisk.evaluation.catboost:gbdt_filled",  # fills missing features with constants, as in the paper
        "gbdt-grid": "kbdisk.evaluation.catboost:gbdt_grid",  # the paper's search for settings: many times the time
    },
)


def baseline(name: str) -> Baseline:
    """A baseline by its name, not yet fitted; ConfigError for an unknown name."""
    refuse_unknown([name])
    made: Baseline = load_part(BASELINES[name])()
    return made


def refuse_unknown(names: Iterable[str], where: str = "against") -> None:
    """ConfigError for a name that no baseline has."""
    for name in names:
        if name not in BASELINES:
            raise ConfigError(
                where, f"expected some of {', '.join(BASELINES)}, got {name!r}.{did_you_mean(name, BASELINES)}"
            )
