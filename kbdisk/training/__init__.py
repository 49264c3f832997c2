"""Training: from entities and a schema to a model. Names are looked up when asked for: a card is read without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kbdisk.training.run import PRESETS, Run
    from kbdisk.training.trained import Record, Trained

__all__ = ["PRESETS", "Record", "Run", "Trained"]


def __getattr__(name: str) -> Any:
    if name in ("PRESETS", "Run"):
        from kbdisk.training import run

        return getattr(run, name)
    if name in ("Record", "Trained"):
        from kbdisk.training import trained

        return getattr(trained, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
