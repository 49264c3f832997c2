"""Boosted trees for one leaf: which settings, how they are found, and what they say.

The settings go by how many values there are to learn from: those for thousands were measured on phones and nuclei, those
for fewer are smaller, so that nothing is learnt by heart. Or they are drawn as in the paper's appendix and compared on a
fifth of the training entities; the best then learns from all of them.
"""

from __future__ import annotations

import io
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from kbdisk.experts.catboost_settings import by_size, threads, unattended

if TYPE_CHECKING:
    import numpy as np
    import pandas
    from catboost import CatBoost, Pool

Settings: TypeAlias = Mapping[str, Any]  # by CatBoost's names

LABELS = 10  # with more of them trees become fewer, and steps larger: each tree is one of every label
MANY = 20  # labels; with more of them trees see categories as they are, not by how often each label stands beside each
PLAIN: dict[str, Any] = {
    "one_hot_max_size": 255,
    "simple_ctr": ["Counter"],
    "combinations_ctr": ["Counter"],
    "border_count": 64,
}
OF_MANY = {
    "depth": 6,
    "l2_leaf_reg": 0.3,
}  # at most; a leaf has little of each label, which CatBoost's 3 would hold down
FEWEST, LARGEST = 0.15, 0.2  # the share of trees that stays at least; the largest step
TRIALS = 10  # settings that are drawn
SHARE = 0.2  # of the training entities that settings are compared on
PATIENCE = 50  # trees without gain after which a trial ends
TREES = 2000  # of a trial, at most


@dataclass(frozen=True)
class Task:
    """What trees learn: a table, what it is to tell, and by which loss."""

    table: pandas.DataFrame
    truth: np.ndarray[Any, Any]
    loss: str  # RMSE, MAE, Logloss, MultiClass, MultiLogloss
    labels: int = 1
    seed: int = 0

    def booster(self, settings: Settings) -> CatBoost:
        """Trees that have learnt all of it."""
        return self._fitted(settings, range(len(self.table)))

    def searched(self, trees: int = TREES, trials: int = TRIALS) -> Settings:
        """The best settings of some that are drawn, by the loss on a part; the fixed ones where that part tells nothing."""
        draw = random.Random(self.seed)
        order = list(range(len(self.table)))
        draw.shuffle(order)
        out = round(SHARE * len(order))
        if not out or self.table.iloc[order[out:]].nunique(dropna=False).max() < 2:
            return settings_for(len(self.table), self.labels)
        found: list[tuple[float, Settings]] = []
        for _ in range(trials):
            settings = drawn(draw, self.loss) | {"iterations": trees}
            booster = self._fitted(settings, order[out:], order[:out])
            score = booster.get_best_score()["validation"][self.loss]
            found.append((score, settings | {"iterations": booster.get_best_iteration() + 1}))
        return min(found, key=lambda one: one[0])[1]

    def _fitted(self, settings: Settings, rows: Sequence[int], held_out: Sequence[int] = ()) -> CatBoost:
        from catboost import CatBoost

        fixed = {
            **unattended(self.seed),
            "loss_function": self.loss,
            "allow_const_label": True,  # of a part of the entities
        }
        if self.loss == "MultiClass":
            fixed |= {"classes_count": self.labels, **(PLAIN if self.labels > MANY else {})}
        unheard = io.StringIO()  # it speaks of labels that a part of the entities does not have
        kept: dict[str, Any] = {"log_cout": unheard, "log_cerr": unheard}
        if held_out:
            kept |= {"eval_set": self._pool(held_out), "early_stopping_rounds": PATIENCE, "use_best_model": True}
        return CatBoost({**fixed, **settings}).fit(self._pool(rows), **kept)

    def _pool(self, rows: Sequence[int]) -> Pool:
        return pool(self.table.iloc[list(rows)], self.truth[list(rows)])


def pool(table: pandas.DataFrame, truth: Any = None) -> Pool:
    """A table as CatBoost takes it; columns that are no floats hold labels."""
    from catboost import Pool

    return Pool(table, truth, cat_features=[name for name in table if table[name].dtype == object])


def said(booster: CatBoost, table: pandas.DataFrame, kind: str) -> np.ndarray[Any, Any]:
    """What trees say of each row: RawFormulaVal, or Probability of each label."""
    import numpy as np

    return np.asarray(booster.predict(pool(table), prediction_type=kind, thread_count=threads()))


def settings_for(values: int, labels: int = 1) -> dict[str, Any]:
    """The fixed settings where there are so many values to learn from, of so many labels."""
    found = by_size(values)
    share = min(1.0, max(FEWEST, LABELS / labels))
    found["iterations"] = max(1, round(share * found["iterations"]))
    found["learning_rate"] = min(LARGEST, found["learning_rate"] / share)
    return found | OF_MANY | {"depth": min(found["depth"], OF_MANY["depth"])} if labels > MANY else found


def drawn(draw: random.Random, loss: str) -> dict[str, Any]:
    """Settings as the paper draws them."""
    found = {
        "learning_rate": math.exp(draw.uniform(math.log(0.001), math.log(1.0))),
        "depth": draw.randint(3, 10),
        "l2_leaf_reg": draw.uniform(0.1, 10.0),
        "bootstrap_type": "Bayesian",
        "bagging_temperature": draw.uniform(0.0, 1.0),
        "leaf_estimation_iterations": draw.randint(1, 10),
    }
    if loss == "MAE":  # of which CatBoost finds leaves exactly, at once
        del found["leaf_estimation_iterations"]
    return found
