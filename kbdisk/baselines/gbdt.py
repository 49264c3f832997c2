"""Gradient boosting: CatBoost, trees for each leaf from all others of its entity; its links are labels.

Numbers are told by their mean, which is what RMSE asks for; with `estimate="median"` a second model learns their median,
for MAE. Text is never told, nor are categories and links with more than MOST labels; of sets the commonest members are.
Where all values are the same, or all that is given, there are no trees: the constant is what they would say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbdisk.baselines.base import NOTHING, Answer, Baseline, Estimate, Leaf, Watch
from kbdisk.baselines.boosting import TREES, TRIALS, Task, settings_for
from kbdisk.baselines.columns import Columns
from kbdisk.baselines.tellers import TELLERS, Constant, Teller
from kbdisk.data.graph import Graph, pattern
from kbdisk.data.parse import Reading
from kbdisk.data.slots import Source
from kbdisk.entity import Path
from kbdisk.metrics import fit_constant, label

if TYPE_CHECKING:
    import pandas
    from catboost import CatBoost

MOST = 300  # labels that trees tell apart


class GBDT(Baseline):
    """CatBoost, a model for each leaf; what is missing stays so, or is `filled` with constants.

    Settings go by how much there is to learn from, or by a search (`grid`): `trials` of them. `trees` says how many.
    """

    def __init__(
        self,
        *,
        estimate: Estimate = "mean",
        filled: bool = False,
        grid: bool = False,
        trees: int | None = None,
        trials: int = TRIALS,
    ) -> None:
        self.estimate, self.filled, self.grid, self.trees, self.trials = estimate, filled, grid, trees, trials

    def learn(self, readings: Sequence[Reading], graph: Graph | None, seed: int, watch: Watch | None) -> None:
        """A model for each leaf."""
        self.seed = seed
        self.columns: dict[str, Columns] = {}
        self.shown: dict[Leaf, list[str]] = {}  # the names of the columns that a leaf is told by
        self.tellers: dict[Leaf, Teller] = {}
        done = 0
        for of in dict.fromkeys(of for of, _ in self.hidden):
            own = [one for one in readings if one.of == of]
            self.columns[of] = Columns.fit(self._kinds(of, own), own, self.filled)
            table = self.columns[of].table(own)
            for leaf in (one for one in self.hidden if one[0] == of):
                self._learn_one(leaf, own, table)
                done += 1
                if watch is not None:
                    watch(done, len(self.hidden))

    def tell(self, leaf: Leaf, readings: Sequence[Reading]) -> list[Answer]:
        """What the trees of a leaf say."""
        if leaf not in self.tellers or not readings:
            return [NOTHING] * len(readings)
        return self.tellers[leaf].tell(self.columns[leaf[0]].table(readings, self.shown[leaf]))

    # ------------------------------------------------------------ one leaf

    def _kinds(self, of: str, readings: Sequence[Reading]) -> Mapping[Path, str]:
        """The kind of every leaf that entities have."""
        paths = dict.fromkeys(path for one in readings for path in one.leaves)
        return {path: self.kind((of, path)) for path in paths if Source(of, pattern(path)) in self.places}

    def _learn_one(self, leaf: Leaf, readings: Sequence[Reading], table: pandas.DataFrame) -> None:
        kind = self.kind(leaf)
        rows = [place for place, one in enumerate(readings) if leaf[1] in one.leaves]
        values = [readings[place].leaves[leaf[1]] for place in rows]
        why = _why_not(kind, values)
        if why:
            self.left_out[leaf] = why
            return
        names = [
            str(place) for place, one in enumerate(self.columns[leaf[0]].columns) if one.path not in self.hidden[leaf]
        ]
        shown = table[names].iloc[rows]
        shown = shown.loc[:, shown.nunique(dropna=False) > 1]
        self.shown[leaf] = list(shown)
        self.tellers[leaf] = self._teller(kind, shown, values)

    def _teller(self, kind: str, shown: pandas.DataFrame, values: Sequence[Any]) -> Teller:
        def boost(truth: Sequence[Any], loss: str, labels: int) -> CatBoost:
            import numpy as np

            return self._boosted(Task(shown, np.array(truth), loss, labels, self.seed))

        found = TELLERS[kind](boost, values, self.estimate) if len(shown.columns) else None
        if found is None:
            constant = fit_constant(kind, values)
            return Constant(Answer(constant.value, constant.mean))
        return found

    def _boosted(self, task: Task) -> CatBoost:
        if self.grid:
            return task.booster(task.searched(self.trees or TREES, self.trials))
        settings = settings_for(len(task.table), task.labels)
        return task.booster(settings if self.trees is None else settings | {"iterations": self.trees})


def _why_not(kind: str, values: Sequence[Any]) -> str:
    """Why a leaf is not told, where it is not."""
    if kind not in TELLERS:
        return f"{kind}, which trees cannot tell"
    if not values:
        return "no value to learn from"
    labels = len(set(map(label, values))) if kind in ("category", "link") else 0
    return f"{labels:,} labels, more than {MOST}" if labels > MOST else ""


def median() -> GBDT:
    """With models for medians, too."""
    return GBDT(estimate="median")


def filled() -> GBDT:
    """With what is missing filled with constants, as in the paper."""
    return GBDT(filled=True)


def grid() -> GBDT:
    """With settings that are searched for as in the paper, what is missing being so."""
    return GBDT(grid=True)
