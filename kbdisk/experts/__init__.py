"""Experts: predictors beside the networks. `EXPERTS` has one row for each kind, which holds all that the package knows of it.

To add an expert, from this package or another: a dataclass of settings with a `share`, a function that fits it, a `Format` of
its tensors, and a row in EXPERTS. The row's name is that of its table in a run file, of its entry in `Run.experts` and in
`Trained.experts`, and of its file in a model folder. The protocols are in `base`: `Expert` predicts one property, `Fit` fits
the experts of all properties. A model folder with an expert of another package opens once that package has added its row.

Importing this package loads no torch, nor do `rules` and `rule_columns`, which search for exact relations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kbdisk.experts.config import (
    BoostedTreesConfig,
    GaussianProcessConfig,
    GivenOnlyConfig,
    KNNConfig,
    LabelRegressionConfig,
    LatentKNNConfig,
    LinkFactorizationConfig,
    PresenceTreesConfig,
    PropagationConfig,
)
from kbdisk.plugins import Table, load_part

if TYPE_CHECKING:
    from kbdisk.experts.serialize import Format

MIN_SECONDS = 0.1  # of an expert that may be left out, however few values there are

Stage: TypeAlias = Literal["network", "stack", "answer", "presence", "links"]


@dataclass(frozen=True)
class ExpertKind:
    """One kind of expert. What would load torch is named as `module:name` in our own rows, and loaded when it is needed.

    The stage says what an expert is fitted to, and how it is combined with the rest:

        network   one network and its latent space, once that is trained; combined with its beliefs
        stack     entities alone; all experts of the stage are weighed together, and stacked on the networks (`base.Fit`)
        answer    the networks with the stack; combined with their answers (`given_only.fit`)
        presence  entities and the trained model; combined with its presence of properties (`presence_trees.fit`)
        links     the triples of all entities; answers questions about links (`link_factorization.fit`)
    """

    config: type[Any]  # its settings
    fit: str | Callable[..., Any]
    format: str | Format  # of its tensors
    title: str  # in reports
    doing: str  # said by a progress bar while it is fitted
    stage: Stage = "stack"
    applies: str | Callable[..., bool] | None = (
        None  # (codec, training, held_out, config): whether there is anything to fit
    )
    # (codec): imports the libraries that it needs, where that takes long
    load_libraries: str | Callable[..., None] | None = None
    refit_share: float = 0.0  # of its time: to fit it again once it has weights
    short_refit_share: float = 0.0  # the same in a short budget
    max_refit_factor: float = 2.0  # of the time of its first fit: what it takes at most to be fitted again
    factor_if_silent: float = 1.0  # times its time where networks cannot take enough steps, and leave theirs
    kept_share: float = 0.0  # of its planned time, that it has however long the stages before it took
    # that it prepares, about: without time for all of them it is left out; None: it never is
    values_per_second: int | None = None
    # whether held-out entities, which the last fit learns from, are evaluated as before it
    keep_before_refit: bool = False

    def least_seconds(self, values: int) -> float:
        """With less time than this it is left out, where training entities have so many values."""
        return 0.0 if self.values_per_second is None else MIN_SECONDS + values / self.values_per_second

    def load_fit(self) -> Callable[..., Any]:
        """The function that fits it."""
        function: Callable[..., Any] = load_part(self.fit)
        return function

    def load_format(self) -> Format:
        """The format of its tensors."""
        tensor_format: Format = load_part(self.format)
        return tensor_format

    def load(self, codec: Any) -> None:
        """Import all that it needs, which takes a second where libraries are large."""
        self.load_fit()
        if self.load_libraries is not None:
            load_part(self.load_libraries)(codec)

    def can_be_fitted(self, *data_and_config: Any) -> bool:
        """Whether there is anything to fit it to, by the arguments of `applies`."""
        return self.applies is None or bool(load_part(self.applies)(*data_and_config))


EXPERTS: Table[ExpertKind] = Table(  # in the order in which they are stacked
    "kbdisk.experts",
    {
        "latent_knn": ExpertKind(
            LatentKNNConfig,
            "kbdisk.experts.latent_knn:fit",
            "kbdisk.experts.serialize:LATENT_KNN",
            title="latent kNN",
            doing="indexing",
            stage="network",
        ),
        "knn": ExpertKind(
            KNNConfig,
            "kbdisk.experts.knn:fit",
            "kbdisk.experts.serialize:KNN",
            title="nearest neighbours",
            doing="comparing",
            values_per_second=500_000,
        ),
        "gaussian_process": ExpertKind(
            GaussianProcessConfig,
            "kbdisk.experts.gaussian_process:fit",
            "kbdisk.experts.serialize:GAUSSIAN_PROCESS",
            title="Gaussian process",
            doing="fitting functions",
            values_per_second=1_000_000,
            applies="kbdisk.experts.gaussian_process:applies",
            refit_share=0.25,
            short_refit_share=0.25,
        ),
        "propagation": ExpertKind(
            PropagationConfig,
            "kbdisk.experts.propagation:fit",
            "kbdisk.experts.serialize:PROPAGATION",
            title="propagated numbers",
            doing="propagating",
            applies="kbdisk.experts.propagation:applies",
        ),
        "label_regression": ExpertKind(
            LabelRegressionConfig,
            "kbdisk.experts.label_regression:fit",
            "kbdisk.experts.serialize:LABEL_REGRESSION",
            title="label regression",
            doing="fitting labels",
            refit_share=0.35,
            short_refit_share=0.35,
            factor_if_silent=10.0,
            keep_before_refit=True,
        ),
        "boosted_trees": ExpertKind(
            BoostedTreesConfig,
            "kbdisk.experts.boosted_trees:fit",
            "kbdisk.experts.serialize:BOOSTED_TREES",
            title="boosted trees",
            doing="growing trees",
            load_libraries="kbdisk.experts.boosted_trees:load_libraries",
            refit_share=0.4,
            short_refit_share=0.25,  # first trees with too little time gain more by it than an average of several
            factor_if_silent=2.25,
            max_refit_factor=6.0,  # a booster for each fold
            kept_share=0.7,  # the best expert, as a rule
            keep_before_refit=True,
        ),
        "value_factorization": ExpertKind(
            LinkFactorizationConfig,
            "kbdisk.experts.value_factorization:fit",
            "kbdisk.experts.serialize:VALUE_FACTORIZATION",
            title="factorisation of values",
            doing="factorising values",
            values_per_second=300_000,
            applies="kbdisk.experts.value_factorization:applies",
            refit_share=0.25,
            short_refit_share=0.25,
            keep_before_refit=True,
        ),
        "given_only": ExpertKind(
            GivenOnlyConfig,
            "kbdisk.experts.given_only:fit",
            "kbdisk.experts.serialize:GIVEN_ONLY",
            title="given-only",
            doing="asking again",
            stage="answer",
            applies="kbdisk.experts.given_only:applies",
        ),
        "close_propagation": ExpertKind(
            PropagationConfig,
            "kbdisk.experts.propagation:fit_close",
            "kbdisk.experts.serialize:CLOSE_PROPAGATION",
            title="close propagated numbers",
            doing="weighing propagated numbers",
            stage="answer",
            applies="kbdisk.experts.propagation:applies",
        ),
        "presence_trees": ExpertKind(
            PresenceTreesConfig,
            "kbdisk.experts.presence_trees:fit",
            "kbdisk.experts.serialize:PRESENCE_TREES",
            title="trees of presence",
            doing="growing trees of presence",
            stage="presence",
        ),
        "link_factorization": ExpertKind(
            LinkFactorizationConfig,
            "kbdisk.experts.link_factorization:fit",
            "kbdisk.experts.serialize:LINK_FACTORIZATION",
            title="factorisation of links",
            doing="learning links",
            stage="links",
            values_per_second=100_000,
        ),
    },
    ExpertKind,
)


def experts_of(*stages: Stage) -> dict[str, ExpertKind]:
    """The experts of some stages, by name."""
    return {name: kind for name, kind in EXPERTS.items() if kind.stage in stages}
