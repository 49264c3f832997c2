"""What training makes: a schema, the codec fitted to it, a network that knows the entities, and how that came about."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from kbdisk.data import Codec
from kbdisk.data.dataset import Tokens
from kbdisk.data.graph import Graph
from kbdisk.entity import Entity, Path
from kbdisk.errors import KBDiskWarning
from kbdisk.experts.base import ExpertGroup, Stacked
from kbdisk.experts.ensemble import Ensemble
from kbdisk.experts.given_only import GivenOnly
from kbdisk.experts.latent_knn import LatentKNN, WithLatentKNN
from kbdisk.experts.presence_trees import PresenceTrees
from kbdisk.model.diffusion import Model
from kbdisk.model.network import DiSK
from kbdisk.schemas.schema import Schema
from kbdisk.styles.styles import Styles
from kbdisk.training.run import Run


@dataclass
class Record:
    """How a model came about: plain data, all of it in the model folder."""

    source: dict[str, Any] = field(default_factory=dict)  # name, sha256, entities
    validation: list[str] = field(default_factory=list)  # the ids of the entities that were held out
    training: list[str] = field(default_factory=list)  # the ids of those that were trained on
    history: list[dict[str, Any]] = field(default_factory=list)  # the looks at the held-out part
    quality: list[dict[str, Any]] = field(default_factory=list)  # of each property, on the held-out part
    constants: dict[str, Any] = field(default_factory=dict)  # what is best said of each slot to everybody (metrics)
    calibration: dict[str, Any] = field(default_factory=dict)  # of confidence, on the held-out part; empty: nothing was
    unlike_level: float | None = None  # p-value below which an entity is unlike the training data; None: the usual one
    facts: dict[str, Any] = field(default_factory=dict)  # steps, seconds, device, machine, versions


@dataclass(frozen=True, eq=False)
class Member:
    """A network, and its latent nearest neighbours."""

    network: DiSK
    latent_knn: LatentKNN | None

    @property
    def model(self) -> Model:
        """Both as one."""
        return self.network if self.latent_knn is None else WithLatentKNN(self.network, self.latent_knn)


@dataclass(eq=False)
class Trained:
    """A model, ready to be asked."""

    codec: Codec
    network: DiSK
    run: Run
    record: Record
    styles: Styles | None = None  # how the values that it was trained on are written
    latent_knn: LatentKNN | None = None  # nearest neighbours in the network's latent space
    others: tuple[Member, ...] = ()  # further networks of the ensemble
    knn: ExpertGroup | None = None  # each is stacked on the networks and the experts above it
    gaussian_process: ExpertGroup | None = None
    label_regression: ExpertGroup | None = None
    boosted_trees: ExpertGroup | None = None
    given_only: GivenOnly | None = None
    presence_trees: PresenceTrees | None = None  # beside the networks' presence
    judged: Mapping[str, ExpertGroup] = field(
        default_factory=dict
    )  # some experts, before they learnt from what is held out
    reserved: Mapping[str, Sequence[int]] = field(
        default_factory=dict
    )  # by id, slots that only experts learnt in the end

    def __post_init__(self) -> None:
        for one in self.members:
            one.network.eval()

    @property
    def schema(self) -> Schema:
        """What kind of value stands where."""
        return self.codec.schema

    @property
    def members(self) -> list[Member]:
        """All networks of the ensemble, each with its latent nearest neighbours."""
        return [Member(self.network, self.latent_knn), *self.others]

    @property
    def believer(self) -> Model:
        """What is asked for beliefs about entities that there are: all networks with their neighbours, and all experts."""
        believer = _together([one.model for one in self.members])
        groups = (self.knn, self.gaussian_process, self.label_regression, self.boosted_trees)
        if there := [group for group in groups if group is not None]:
            believer = Stacked(believer, there)
        return believer if self.given_only is None else self.given_only.beside(believer)

    @property
    def fair(self) -> Model:
        """What is asked about entities that were held out: the believer as it was before it learnt from them."""
        return self.as_judged.believer

    @property
    def as_judged(self) -> Trained:
        """The model with its experts as they were before they learnt from held-out entities and reserved values."""
        as_judged: dict[str, Any] = dict(self.judged)
        return replace(self, **as_judged) if as_judged else self

    @property
    def maker(self) -> Model:
        """What tells how likely entities are: all networks by themselves, as what they remember has been seen."""
        return _together([one.network for one in self.members])

    @property
    def only_draws(self) -> bool:
        """Whether it has learnt nothing but to draw entities in the schema's order."""
        return self.run.hiding.ordered == 1

    def warn_of_order(self, what: str, stacklevel: int) -> None:
        """Where it has learnt nothing but to draw: say so, and what that means for what is asked of it."""
        if self.only_draws:
            told = "the model has learnt to draw entities in the schema's order (hiding.ordered = 1)"
            warnings.warn(f"{told}{what}", KBDiskWarning, stacklevel=stacklevel + 1)

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return self.network.query.device

    def encode(
        self, entities: Iterable[Entity], ask: str | Collection[Path] = "nothing", graph: Graph | None = None
    ) -> Tokens:
        """Entities as tokens on the network's device."""
        return self.codec.encode(entities, ask, graph).to(self.device)


def _together(models: Sequence[Model]) -> Model:
    """Several models as one."""
    return models[0] if len(models) == 1 else Ensemble(models)
