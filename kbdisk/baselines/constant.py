"""The same answer for all: the median and the mean, the commonest label, as `scoring` has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kbdisk.baselines.base import NOTHING, Answer, Baseline, Leaf, Watch
from kbdisk.data.graph import Graph
from kbdisk.data.parse import Reading
from kbdisk.metrics import fit_constant


class Same(Baseline):
    """What is best said of a leaf to everybody."""

    def learn(self, readings: Sequence[Reading], graph: Graph | None, seed: int, watch: Watch | None) -> None:
        """Find the constant of every leaf."""
        values: dict[Leaf, list[Any]] = {leaf: [] for leaf in self.hidden}
        for one in readings:
            for path, value in one.leaves.items():
                if (one.of, path) in values:
                    values[one.of, path].append(value)
        self.left_out |= {leaf: "no value to learn from" for leaf, own in values.items() if not own}
        found = {leaf: fit_constant(self.kind(leaf), own) for leaf, own in values.items() if own}
        self.answers = {leaf: Answer(one.value, one.mean) for leaf, one in found.items()}
        if watch is not None:
            watch(len(values), len(values))

    def tell(self, leaf: Leaf, readings: Sequence[Reading]) -> list[Answer]:
        """The same for each."""
        return [self.answers.get(leaf, NOTHING)] * len(readings)
