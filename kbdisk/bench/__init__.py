"""The tables that kbdisk is judged by: real data, a split, ours beside the paper's figures and other methods.

A bench is a module with `run`, `tables`, `figure` and `TAKES`, as `base.Bench` says; BENCHES has its name. What it measures is
stored as lines of JSON, and tables and pictures are made from what is stored, by whoever asks for them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from kbdisk.bench.base import Bench

BENCHES: dict[str, str] = {
    "gsm": "kbdisk.bench.gsm",
    "nuclear": "kbdisk.bench.nuclear",
    "tabular": "kbdisk.bench.tabular",
    "kb-numeric": "kbdisk.bench.kb_numeric",
    "curves": "kbdisk.bench.curves",
    "ablation": "kbdisk.bench.ablation",
    "two-moons": "kbdisk.bench.two_moons",
    "kb": "kbdisk.bench.kb",
}


def opened(name: str) -> Bench:
    """A bench by its name; only then is its module imported."""
    return cast("Bench", import_module(BENCHES[name]))
