"""Imputations for tests of peers: entities whose values follow from each other, with some cells hidden."""

from __future__ import annotations

from benchmarks.kb import score
from benchmarks.masking import mask
from benchmarks.peers.protocol import Filled, Imputation
from kbdisk.entity import Entity


def related(count: int = 120) -> list[Entity]:
    """Entities whose values follow from each other."""
    return [
        Entity(f"e{n}", {"a": n % 10, "b": 3 * (n % 10), "c": "xyz"[n % 10 // 4], "d": [{"e": n % 10}, {"e": 1}]})
        for n in range(count)
    ]


def imputation_of(seconds: float | None = None, seed: int = 0, count: int = 120) -> Imputation:
    return Imputation.of(mask(related(count), 0.1, "0"), seconds, seed)


def ratios(imputation: Imputation, filled: Filled) -> dict[str, float]:
    scored = score(imputation.masked, imputation.tasks, filled.answers)
    return {name: of_property.ratio for name, of_property in scored.items()}
