"""What a model is measured against: simple or well-known ways to tell a value from the others of its entity.

To add one: a file here with a `Baseline` (base.py says what it promises), and a row in BASELINES: `module:what to
call`, or what to call itself. It is imported only when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING

from kbdisk.errors import ConfigError
from kbdisk.schemas.text.names import did_you_mean

if TYPE_CHECKING:
    from kbdisk.baselines.base import Baseline

BASELINES: dict[str, str | Callable[[], Baseline]] = {
    "constant": "kbdisk.baselines.constant:Same",
    "gbdt": "kbdisk.baselines.gbdt:GBDT",  # numbers by their mean
    "gbdt-median": "kbdisk.baselines.gbdt:median",  # by their median, too: twice the time
    "gbdt-filled": "kbdisk.baselines.gbdt:filled",  # what is missing filled with constants, as in the paper
    "gbdt-grid": "kbdisk.baselines.gbdt:grid",  # the paper's search for settings: many times the time
}


def baseline(name: str) -> Baseline:
    """A baseline by its name, not yet fitted; ConfigError where there is none."""
    refuse_unknown([name])
    found = BASELINES[name]
    if isinstance(found, str):
        module, _, made = found.partition(":")
        found = getattr(import_module(module), made)
    made_one: Baseline = found()
    return made_one


def refuse_unknown(names: Iterable[str], where: str = "against") -> None:
    """ConfigError for a name that no baseline has."""
    for name in names:
        if name not in BASELINES:
            raise ConfigError(
                where, f"expected some of {', '.join(BASELINES)}, got {name!r}.{did_you_mean(name, BASELINES)}"
            )
