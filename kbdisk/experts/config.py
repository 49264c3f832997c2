"""Settings of the experts: one dataclass for each row of `kbdisk.experts.EXPERTS`.

`share` is the part of a time budget that an expert's fit may use; 0 leaves the expert out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MAX_NEIGHBOURS = 1 << 12
MAX_POINTS = 1 << 13  # the time of a Gaussian process grows with the cube of its points


@dataclass(frozen=True)
class LatentKNNConfig:
    """k nearest neighbours in the network's latent space."""

    neighbours: int = 64  # of a value; 0 leaves the expert out
    values: int = 1 << 17  # in the index, at most
    rounds: int = 4  # of masking many values of an entity at once
    prior: float = 20.0  # held-out values of a property that the weights of all properties count as

    def __post_init__(self) -> None:
        _require_at_least(0, self, "neighbours", "values", "rounds", "prior")
        if self.prior == 0:
            raise ValueError("prior: expected more than 0, got 0")


@dataclass(frozen=True)
class KNNConfig:
    """k nearest neighbours in feature space, with a learnt metric."""

    share: float = 0.0
    neighbours: int = 64  # of an entity
    values: int = 1 << 17  # of the entities that are searched, at most
    queries: int = 4096  # entities that the metric is learnt from, at most
    rounds: int = 3  # of masking many values of a query at once
    properties: int = 64  # of a class that have features, at most: the most frequent

    def __post_init__(self) -> None:
        _require_share(self.share)
        _require_at_least(1, self, "neighbours", "values", "queries", "properties")
        _require_at_least(0, self, "rounds")
        _require_at_most(MAX_NEIGHBOURS, self, "neighbours")


@dataclass(frozen=True)
class GaussianProcessConfig:
    """A Gaussian process for each property."""

    share: float = 0.0
    max_values: int = 2000  # of a property in training; with more, networks and neighbours are as accurate
    values: int = 1 << 17  # of the entities that are used, at most
    points: int = 1024  # of one process, at most
    labels: int = 16  # of a property that has a process, at most
    properties: int = 64  # of a class that have features, at most: the most frequent

    def __post_init__(self) -> None:
        _require_share(self.share)
        _require_at_least(1, self, "max_values", "values", "points", "labels", "properties")
        _require_at_most(MAX_POINTS, self, "points")


@dataclass(frozen=True)
class LabelRegressionConfig:
    """Multinomial logistic regression for each property of labels."""

    share: float = 0.0
    values: int = 1 << 18  # of the entities that are used, at most
    labels: int = 200  # of a property that are predicted, at most: the most frequent
    columns: int = 4096  # of all features, at most: the most frequent
    screened: int = 1024  # features of one property, at most: those that explain most of it by themselves

    def __post_init__(self) -> None:
        _require_share(self.share)
        _require_at_least(1, self, "values", "labels", "columns", "screened")


@dataclass(frozen=True)
class BoostedTreesConfig:
    """Gradient-boosted trees for each property."""

    share: float = 0.0
    values: int = 1 << 18  # of the entities that are used, at most
    labels: int = 60  # of a property that are predicted, at most: the most frequent
    columns: int = 2048  # of all features, at most: the most frequent
    folds: int = 5  # of cross-validation: the last boosters leave out one each
    screened: int = 256  # features of one property, at most: those that explain most of it by themselves

    def __post_init__(self) -> None:
        _require_share(self.share)
        _require_at_least(1, self, "values", "labels", "columns", "screened", "folds")


@dataclass(frozen=True)
class GivenOnlyConfig:
    """The model's second answer, from given properties alone."""

    share: float = 0.0
    rounds: int = 3  # of masking many values of a held-out entity at once

    def __post_init__(self) -> None:
        _require_share(self.share)
        _require_at_least(0, self, "rounds")


@dataclass(frozen=True)
class PropagationConfig:
    """Numbers that are propagated over chains of links, as predictions."""

    share: float = 0.0

    def __post_init__(self) -> None:
        _require_share(self.share)


@dataclass(frozen=True)
class PresenceTreesConfig:
    """Gradient-boosted trees for the presence of each property, fitted once all else is."""

    share: float = 0.0  # of the time budget, beside that for training
    entities: int = 1 << 13  # that are learnt from, at most
    columns: int = 1024  # of the values of all properties, at most: the most frequent
    screened: int = 128  # features of one property, at most: those that explain most of it by themselves

    def __post_init__(self) -> None:
        _require_share(self.share)
        _require_at_least(1, self, "entities", "columns", "screened")


@dataclass(frozen=True)
class LinkFactorizationConfig:
    """A factorisation of all links, for links in both directions."""

    share: float = 0.0  # of the time budget, beside that for training
    rank: int = 0  # complex numbers of a node; 0: as the time allows
    max_scored: int = 1 << 15  # nodes that a step scores, at most
    values: bool = True  # whether classes, labels and numbers are nodes, too
    queries: int = 400  # of a step
    answers: int = 16  # of a query in one step, at most: the rest are in further steps of an epoch

    def __post_init__(self) -> None:
        _require_share(self.share)
        _require_at_least(0, self, "rank")
        _require_at_least(1, self, "max_scored", "queries", "answers")


def _require_share(share: float) -> None:
    if not 0 <= share < 1:
        raise ValueError(f"share: expected at least 0 and less than 1, got {share!r}")


def _require_at_least(least: int, config: Any, *names: str) -> None:
    for name in names:
        if getattr(config, name) < least:
            raise ValueError(f"{name}: expected at least {least}, got {getattr(config, name)!r}")


def _require_at_most(most: int, config: Any, *names: str) -> None:
    for name in names:
        if getattr(config, name) > most:
            raise ValueError(f"{name}: expected at most {most:,}, got {getattr(config, name)!r}")
