"""Beliefs: a distribution for every asked token of a batch, kept by kind of leaf.

T tokens   n of them of one kind   q asked
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from kbdisk.data.dataset import Batch
from kbdisk.leaves.belief import Belief
from kbdisk.leaves.number.belief import NumberBelief

Memo = dict[
    str, Any
]  # of a model, from pass to pass over one batch: encoded values, which do not change once they are visible


@runtime_checkable
class SupportsAuxiliaryLoss(Protocol):
    """A belief with an auxiliary loss, learnt beside the likelihood."""

    def auxiliary_loss(self, codes: Tensor) -> Tensor:
        """(q,) the auxiliary loss of the true codes."""


@dataclass(frozen=True)
class Asked:
    """The belief about the asked tokens of one kind."""

    rows: Tensor  # (q,) among the tokens of the kind in the batch
    start: int  # where the tokens of the kind begin
    vectors: Tensor  # (q, D) the last layer of the network
    belief: Belief

    @property
    def tokens(self) -> Tensor:
        """(q,) among all tokens of the batch."""
        return self.rows + self.start


@dataclass(frozen=True)
class Beliefs:
    """The beliefs about every asked token, by kind, and the log odds that some tokens are present."""

    kinds: Mapping[str, Asked]
    length: int  # T
    presence: Mapping[str, Tensor] | None = None  # "tokens" (p,), "logits" (p,)

    def log_prob(self, batch: Batch) -> Tensor:
        """(T,) log p of the values of the batch, in nats; 0 where a token was not asked."""
        parts = {kind: asked.belief.log_prob(batch.values[kind][asked.rows]) for kind, asked in self.kinds.items()}
        return self._spread(parts)

    def auxiliary_loss(self, batch: Batch) -> Tensor:
        """(T,) the auxiliary loss of the values of the batch; 0 where a belief has none."""
        kinds = ((kind, asked, asked.belief) for kind, asked in self.kinds.items())
        parts = {
            kind: belief.auxiliary_loss(batch.values[kind][asked.rows])
            for kind, asked, belief in kinds
            if isinstance(belief, SupportsAuxiliaryLoss)
        }
        return self._spread(parts) if parts else torch.zeros(self.length, device=batch.entity.device)

    def entropy(self) -> Tensor:
        """(T,) in nats; 0 where a token was not asked."""
        return self._spread({kind: asked.belief.entropy() for kind, asked in self.kinds.items()})

    def pick(self, wanted: Tensor) -> Beliefs:
        """The beliefs about those of the asked tokens that are wanted (T,)."""
        chosen = {kind: wanted[asked.tokens].nonzero()[:, 0] for kind, asked in self.kinds.items()}
        kinds = {
            kind: Asked(asked.rows[rows], asked.start, asked.vectors[rows], asked.belief.pick(rows))
            for kind, rows in chosen.items()
            for asked in (self.kinds[kind],)
        }
        return Beliefs(kinds, self.length, self.presence)

    def moved_to(self, tokens: Tensor, batch: Batch) -> Beliefs:
        """The same beliefs about the tokens of another batch: `tokens` (T,) is the place of each token there."""
        kinds = {
            kind: replace(asked, rows=tokens[asked.tokens] - batch.spans[kind][0], start=batch.spans[kind][0])
            for kind, asked in self.kinds.items()
        }
        return Beliefs(kinds, len(batch))

    def sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        """kind -> codes (q, ...): a draw for each asked token; at temperature 0 its mode."""
        if temperature == 0:
            return {kind: asked.belief.mode() for kind, asked in self.kinds.items()}
        return {kind: asked.belief.sample(temperature, generator) for kind, asked in self.kinds.items()}

    def sample_within_training(self, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        """A draw for each asked token, numbers clipped to the range of the training values."""
        drawn = self.sample(generator=generator)
        belief = self.kinds["number"].belief if "number" in drawn else None
        return (
            drawn | {"number": belief.within_training(drawn["number"])} if isinstance(belief, NumberBelief) else drawn
        )

    def _spread(self, parts: Mapping[str, Tensor]) -> Tensor:
        """kind -> (q,) of its asked tokens, as (T,) of all tokens; 0 where a token was not asked."""
        device = next((part.device for part in parts.values()), None)
        by_token = torch.zeros(self.length, device=device)
        for kind, part in parts.items():
            by_token = by_token.index_copy(0, self.kinds[kind].tokens, part.float())
        return by_token
