"""Draws what a model believes of one property, and how wrong it is by how much of an entity is given.

Run: python examples/pictures.py . 1m        # belief.png and curve.png; needs matplotlib: the extra `plots`
"""

from __future__ import annotations

import sys
from pathlib import Path

import kbdisk
from kbdisk.api.belief import plot_belief
from kbdisk.api.plots import plot_curve
from kbdisk.evaluation.curve import curve
from kbdisk.evaluation.evaluate import Scope

PHONES = Path(__file__).parent / "phones.jsonl"


def main(folder: str = ".", budget: str = "1m") -> None:
    """Train, ask, draw."""
    kb = kbdisk.load(PHONES)
    model = kbdisk.train(kb, PHONES.with_suffix(".yaml"), preset="fast", budget=budget)
    plot_belief(model.belief("nokia-3310", "weight"), Path(folder) / "belief.png")
    held_out = [phone for phone in kb if phone.id in model.record.validation]
    asked = curve(model.trained, held_out, kb.graph(), Scope(limit=20, only=(("weight",), ("os",), ("launch",))))
    plot_curve(asked, Path(folder) / "curve.png", "Error by how much is given: phones")


if __name__ == "__main__":
    main(*sys.argv[1:])
