"""A trained model: the schema, the codec fitted to it, the networks, the experts, and the record of the training."""

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
from kbdisk.errors import ConfigError, KBDiskWarning
from kbdisk.experts import EXPERTS, experts_of
from kbdisk.experts.base import Ensemble, ExpertGroup, Stacked
from kbdisk.experts.latent_knn import LatentKNN, WithLatentKNN
from kbdisk.experts.presence_trees import PresenceTrees
from kbdisk.model.diffusion import Model
from kbdisk.model.network import DiSK
from kbdisk.schemas.schema import Schema
from kbdisk.styles.styles import Styles
from kbdisk.training.run import Run


@dataclass
class Record:
    """The record of a training: plain data, all of it in the model folder."""

    source: dict[str, Any] = field(default_factory=dict)  # name, sha256, entities
    validation: list[str] = field(default_factory=list)  # ids of the held-out entities
    training: list[str] = field(default_factory=list)  # ids of the training entities
    history: list[dict[str, Any]] = field(default_factory=list)  # the validation losses
    quality: list[dict[str, Any]] = field(default_factory=list)  # scores of each property, on held-out entities
    constants: dict[str, Any] = field(default_factory=dict)  # the best constant prediction of each slot (metrics)
    calibration: dict[str, Any] = field(
        default_factory=dict
    )  # of confidence, on held-out entities; empty: there are none
    unlike_level: float | None = None  # p-value below which an entity is unlike the training data; None: the usual one
    facts: dict[str, Any] = field(default_factory=dict)  # steps, seconds, device, machine, versions


@dataclass(frozen=True, eq=False)
class Member:
    """A network of the ensemble, and its latent nearest neighbours."""

    network: DiSK
    latent_knn: LatentKNN | None

    @property
    def model(self) -> Model:
        """The network with its neighbours."""
        return self.network if self.latent_knn is None else WithLatentKNN(self.network, self.latent_knn)


@dataclass(eq=False)
class Trained:
    """A model that is ready to predict."""

    codec: Codec
    network: DiSK
    run: Run
    record: Record
    styles: Styles | None = None  # how the training values are written
    latent_knn: LatentKNN | None = None  # nearest neighbours in the network's latent space
    others: tuple[Member, ...] = ()  # further networks of the ensemble
    experts: Mapping[str, Any] = field(default_factory=dict)  # those that have a weight, by their names in EXPERTS
    experts_before_refit: Mapping[str, ExpertGroup] = field(
        default_factory=dict
    )  # some, before they learnt from held-out entities
    reserved: Mapping[str, Sequence[int]] = field(
        default_factory=dict
    )  # by id, slots that in the end experts alone learnt

    def __post_init__(self) -> None:
        for member in self.members:
            member.network.eval()

    def with_experts(self, **experts: Any) -> Trained:
        """Itself with other experts of some kinds; None: without."""
        changed = {**self.experts, **experts}
        return replace(self, experts={name: changed[name] for name in EXPERTS if changed.get(name) is not None})

    @property
    def schema(self) -> Schema:
        """The schema that the codec is fitted to."""
        return self.codec.schema

    @property
    def members(self) -> list[Member]:
        """All networks of the ensemble, each with its latent nearest neighbours."""
        return [Member(self.network, self.latent_knn), *self.others]

    @property
    def full_model(self) -> Model:
        """The model for existing entities: all networks with their latent neighbours, and all experts."""
        self.refuse_links_alone()
        model = _ensemble_of([member.model for member in self.members])
        if groups := [self.experts[name] for name in experts_of("stack") if name in self.experts]:
            model = Stacked(model, groups)
        for name in experts_of("answer"):
            if name in self.experts:
                model = self.experts[name].beside(model)
        return model

    @property
    def presence_trees(self) -> PresenceTrees | None:
        """The trees that are combined with the networks' presence, where they have a weight."""
        return self.experts.get("presence_trees")

    @property
    def held_out_model(self) -> Model:
        """The model for held-out entities: as it was before its experts learnt from them."""
        return self.before_refit.full_model

    @property
    def before_refit(self) -> Trained:
        """Itself with its experts as they were before they learnt from held-out entities and reserved values."""
        return self.with_experts(**self.experts_before_refit) if self.experts_before_refit else self

    @property
    def networks_model(self) -> Model:
        """The networks alone, for the likelihood of entities: experts and latent neighbours know the training entities."""
        self.refuse_links_alone()
        return _ensemble_of([member.network for member in self.members])

    @property
    def only_draws(self) -> bool:
        """Whether it has only learnt to draw entities in the schema's order."""
        return self.run.hiding.ordered == 1

    def refuse_links_alone(self) -> None:
        """ConfigError where no network was trained."""
        if not self.run.train.members:
            raise ConfigError(
                "the model", "predicts links alone, as it was trained with the preset links. Train another one."
            )

    def warn_of_order(self, consequence: str, stacklevel: int) -> None:
        """Warns, where the model only draws, of the consequence for a question."""
        if self.only_draws:
            fact = "the model has learnt to draw entities in the schema's order (hiding.ordered = 1)"
            warnings.warn(f"{fact}{consequence}", KBDiskWarning, stacklevel=stacklevel + 1)

    @property
    def device(self) -> torch.device:
        """The device of the networks."""
        return self.network.query.device

    def encode(
        self, entities: Iterable[Entity], ask: str | Collection[Path] = "nothing", graph: Graph | None = None
    ) -> Tokens:
        """Entities as tokens on the device of the networks."""
        return self.codec.encode(entities, ask, graph).to(self.device)


def _ensemble_of(models: Sequence[Model]) -> Model:
    """Several models as one; a single model as it is."""
    return models[0] if len(models) == 1 else Ensemble(models)
