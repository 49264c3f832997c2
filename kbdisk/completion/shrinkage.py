"""Shrinkage towards the constant of properties that are predicted badly on held-out values; see `kbdisk.shrinkage`.

A property's trust w, from 0 to 1, says how far its predictions are kept. A number becomes w times the predicted one plus 1 - w
times the constant. A label has w times its predicted probability plus 1 - w times its share in the training data, and the likelier
of the predicted label and the constant is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from kbdisk.data.dataset import Batch
from kbdisk.metrics import Constant, Constants, Marginals, property_of
from kbdisk.model.beliefs import Asked, Beliefs
from kbdisk.schemas.composites import show_pattern
from kbdisk.training.trained import Trained


class Shrinker:
    """The weights and the constants of the slots whose predictions are shrunk."""

    def __init__(self, trained: Trained) -> None:
        self.codec, self.marginals = trained.codec, Marginals(trained.codec)
        trust = _trust(trained.record.quality)
        constants: Mapping[int, Constant] = Constants.from_json(trained.record.constants or {}).slots
        self.weights: dict[int, float] = {}  # of the prediction, by slot
        self.constants: dict[int, Any] = {}  # numbers; of labels their code (1,)
        for number, slot in enumerate(self.codec.slots):
            class_name, path = property_of(slot)
            weight = trust.get((class_name, show_pattern(path)), 1.0)
            if weight < 1 and number in constants:
                self.weights[number] = weight
                value = constants[number].value
                encode = slot.codec.encode
                self.constants[number] = value if slot.kind == "number" else encode([value]).to(trained.device)

    def shrink(self, batch: Batch, beliefs: Beliefs, codes: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """kind -> codes (q, ...) of the shrunk values of all asked tokens, for the codes of the predicted ones."""
        return {kind: self._shrink(batch, beliefs.kinds[kind], kind, predicted) for kind, predicted in codes.items()}

    def _shrink(self, batch: Batch, asked: Asked, kind: str, predicted: Tensor) -> Tensor:
        slots = batch.slot[asked.tokens]
        codes = predicted.clone()
        for slot in self.weights.keys() & set(slots.tolist()):
            rows = (slots == slot).nonzero()[:, 0]
            codes[rows] = SHRINK[kind](self, slot, asked.belief.pick(rows), codes[rows])
        return codes

    def number(self, slot: int, belief: Any, predicted: Tensor) -> Tensor:
        """Numbers between the constant and the predicted ones, as codes."""
        numbers = self.constants[slot] + self.weights[slot] * (belief.values(predicted) - self.constants[slot])
        codes: Tensor = belief.codes(numbers)
        return codes

    def label(self, slot: int, belief: Any, predicted: Tensor) -> Tensor:
        """The likelier of the constant and the predicted label, as codes."""
        constant = self.constants[slot].expand(len(predicted))
        of_predicted, of_constant = (self._probability(slot, belief, codes) for codes in (predicted, constant))
        return torch.where(of_constant > of_predicted, constant, predicted)

    def probabilities(self, beliefs: Beliefs, batch: Batch, codes: Mapping[str, Tensor]) -> dict[int, float]:
        """The shrunk probability of labels, by token; of slots alone that are shrunk."""
        by_token: dict[int, float] = {}
        for kind in LABELS & beliefs.kinds.keys():
            asked = beliefs.kinds[kind]
            slots = batch.slot[asked.tokens]
            for slot in self.weights.keys() & set(slots.tolist()):
                rows = (slots == slot).nonzero()[:, 0]
                shrunk = self._probability(slot, asked.belief.pick(rows), codes[kind][rows])
                by_token |= zip(asked.tokens[rows].tolist(), shrunk.tolist(), strict=True)
        return by_token

    def label_probabilities(self, slot: int, belief: Any) -> Tensor:
        """(V,) the shrunk probability of each label of a slot, for a belief of one row."""
        predicted: Tensor = belief.probs[0, : len(self.codec.slots[slot].labels)]
        weight = self.weights.get(slot, 1.0)
        if weight == 1:
            return predicted
        shares = (-self.marginals.nats(slot, torch.arange(len(predicted)))).exp().to(predicted.device)
        return weight * predicted + (1 - weight) * shares

    def _probability(self, slot: int, belief: Any, codes: Tensor) -> Tensor:
        weight = self.weights[slot]
        shares = (-self.marginals.nats(slot, codes)).exp().to(codes.device)
        probability: Tensor = weight * belief.log_prob(codes).exp() + (1 - weight) * shares
        return probability


SHRINK: dict[str, Any] = {"number": Shrinker.number, "category": Shrinker.label, "link": Shrinker.label}
LABELS = {kind for kind, shrink in SHRINK.items() if shrink is Shrinker.label}


def _trust(quality: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """The trust of each property, by class and path as rows of an evaluation have them."""
    return {(row["class"], row["path"]): row["trust"] for row in quality if row.get("trust") is not None}
