"""Shrinks predictions towards the constant where held-out values show that a property is predicted badly; see `kbdisk.shrinkage`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from kbdisk.data.batch import Batch
from kbdisk.metrics import Constant, Constants, Marginals, property_of
from kbdisk.network.beliefs import Asked, Beliefs
from kbdisk.schemas.composites import show_pattern
from kbdisk.training.trained import Trained


class Trusting:
    """The constants of the slots whose beliefs are not trusted whole."""

    def __init__(self, trained: Trained) -> None:
        self.codec, self.marginals = trained.codec, Marginals(trained.codec)
        weights = _weights(trained.record.quality)
        constants: Mapping[int, Constant] = Constants.from_json(trained.record.constants or {}).slots
        self.weights: dict[int, float] = {}
        self.constants: dict[int, Any] = {}  # numbers; of labels their code (1,)
        for number, slot in enumerate(self.codec.slots):
            of, path = property_of(slot)
            weight = weights.get((of, show_pattern(path)), 1.0)
            if weight < 1 and number in constants:
                self.weights[number] = weight
                value = constants[number].value
                encode = slot.codec.encode
                self.constants[number] = value if slot.kind == "number" else encode([value]).to(trained.device)

    def said(self, batch: Batch, beliefs: Beliefs, codes: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """kind -> codes (q, ...): what is to be said of each asked token, for what the model would say."""
        return {kind: self._said(batch, beliefs.kinds[kind], kind, said) for kind, said in codes.items()}

    def _said(self, batch: Batch, asked: Asked, kind: str, said: Tensor) -> Tensor:
        slots = batch.slot[asked.tokens]
        said = said.clone()
        for slot in self.weights.keys() & set(slots.tolist()):
            rows = (slots == slot).nonzero()[:, 0]
            said[rows] = SAYINGS[kind](self, slot, asked.belief.pick(rows), said[rows])
        return said

    def number(self, slot: int, belief: Any, said: Tensor) -> Tensor:
        """Between the constant and what was said."""
        numbers = self.constants[slot] + self.weights[slot] * (belief.values(said) - self.constants[slot])
        codes: Tensor = belief.codes(numbers)
        return codes

    def label(self, slot: int, belief: Any, said: Tensor) -> Tensor:
        """The likelier of the constant and what was said."""
        constant = self.constants[slot].expand(len(said))
        ours, other = (self._chance(slot, belief, codes) for codes in (said, constant))
        return torch.where(other > ours, constant, said)

    def sure(self, beliefs: Beliefs, batch: Batch, said: Mapping[str, Tensor]) -> dict[int, float]:
        """By token how sure labels are that were said, where a model was found to be surer than it should be."""
        found: dict[int, float] = {}
        for kind in LABELS & beliefs.kinds.keys():
            asked = beliefs.kinds[kind]
            slots = batch.slot[asked.tokens]
            for slot in self.weights.keys() & set(slots.tolist()):
                rows = (slots == slot).nonzero()[:, 0]
                chances = self._chance(slot, asked.belief.pick(rows), said[kind][rows])
                found |= zip(asked.tokens[rows].tolist(), chances.tolist(), strict=True)
        return found

    def shares(self, slot: int, belief: Any) -> Tensor:
        """(V,) how likely each label is, of a belief about one row of a slot."""
        codec = self.codec.slots[slot].codec
        probs: Tensor = belief.probs[0, : len(codec.targets if self.codec.slots[slot].kind == "link" else codec.labels)]
        weight = self.weights.get(slot, 1.0)
        if weight == 1:
            return probs
        share = (-self.marginals.nats(slot, torch.arange(len(probs)))).exp().to(probs.device)
        return weight * probs + (1 - weight) * share

    def _chance(self, slot: int, belief: Any, codes: Tensor) -> Tensor:
        weight = self.weights[slot]
        share = (-self.marginals.nats(slot, codes)).exp().to(codes.device)
        chance: Tensor = weight * belief.log_prob(codes).exp() + (1 - weight) * share
        return chance


SAYINGS: dict[str, Any] = {"number": Trusting.number, "category": Trusting.label, "link": Trusting.label}
LABELS = {kind for kind, say in SAYINGS.items() if say is Trusting.label}


def _weights(quality: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """How far each property is trusted, by class and path as rows of an evaluation have it."""
    return {(row["class"], row["path"]): row["trust"] for row in quality if row.get("trust") is not None}
