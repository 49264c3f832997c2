"""Beliefs about the tokens of a batch: one distribution per kind of leaf, each over the tokens of it that were asked.

T tokens   n of them of one kind   q asked
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from kbdisk.data.batch import Batch
from kbdisk.leaves.belief import Belief
from kbdisk.leaves.number.belief import NumberBelief

Memo = dict[str, Any]  # for a model to keep what stays the same from pass to pass: a value, once seen, never changes


@runtime_checkable
class Aside(Protocol):
    """A belief beside which something else is learnt."""

    def auxiliary_loss(self, codes: Tensor) -> Tensor:
        """(q,) what that costs, in the loss."""


@dataclass(frozen=True)
class Asked:
    """What is believed of the asked tokens of one kind."""

    rows: Tensor  # (q,) which of the kind's tokens in the batch
    start: int  # where the kind's tokens begin
    vectors: Tensor  # (q, D) what the network made of what is visible, for each
    belief: Belief

    @property
    def tokens(self) -> Tensor:
        """(q,) which of the batch's tokens."""
        return self.rows + self.start


@dataclass(frozen=True)
class Beliefs:
    """What is believed of every asked token, kind by kind; and how likely each of some tokens is recorded at all."""

    kinds: Mapping[str, Asked]
    length: int  # T
    presence: Mapping[str, Tensor] | None = None  # "tokens" (p,), "logits" (p,)

    def log_prob(self, batch: Batch) -> Tensor:
        """(T,) of the batch's values, in nats; 0 where a token was not asked."""
        parts = {kind: one.belief.log_prob(batch.values[kind][one.rows]) for kind, one in self.kinds.items()}
        return self._spread(parts)

    def aside(self, batch: Batch) -> Tensor:
        """(T,) what is learnt beside -log p of the batch's values; 0 where there is no such."""
        kinds = ((kind, one, one.belief) for kind, one in self.kinds.items())
        parts = {
            kind: belief.auxiliary_loss(batch.values[kind][one.rows])
            for kind, one, belief in kinds
            if isinstance(belief, Aside)
        }
        return self._spread(parts) if parts else torch.zeros(self.length, device=batch.entity.device)

    def entropy(self) -> Tensor:
        """(T,) in nats; 0 where a token was not asked."""
        return self._spread({kind: one.belief.entropy() for kind, one in self.kinds.items()})

    def pick(self, wanted: Tensor) -> Beliefs:
        """The beliefs about those of the asked tokens that are wanted (T,)."""
        chosen = {kind: wanted[one.tokens].nonzero()[:, 0] for kind, one in self.kinds.items()}
        kinds = {
            kind: Asked(one.rows[rows], one.start, one.vectors[rows], one.belief.pick(rows))
            for kind, rows in chosen.items()
            for one in (self.kinds[kind],)
        }
        return Beliefs(kinds, self.length, self.presence)

    def moved_to(self, tokens: Tensor, batch: Batch) -> Beliefs:
        """The same beliefs about the tokens of another batch: `tokens` (T,) says where each token is in that."""
        kinds = {
            kind: replace(one, rows=tokens[one.tokens] - batch.spans[kind][0], start=batch.spans[kind][0])
            for kind, one in self.kinds.items()
        }
        return Beliefs(kinds, len(batch))

    def sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        """kind -> codes (q, ...): a draw for each asked token; at temperature 0 the likeliest."""
        if temperature == 0:
            return {kind: one.belief.mode() for kind, one in self.kinds.items()}
        return {kind: one.belief.sample(temperature, generator) for kind, one in self.kinds.items()}

    def met(self, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        """A draw for each asked token, of numbers none beyond all that there were in training."""
        drawn = self.sample(generator=generator)
        belief = self.kinds["number"].belief if "number" in drawn else None
        return (
            drawn | {"number": belief.within_training(drawn["number"])} if isinstance(belief, NumberBelief) else drawn
        )

    def _spread(self, parts: Mapping[str, Tensor]) -> Tensor:
        """What each kind has to say of its asked tokens, by token."""
        device = next((part.device for part in parts.values()), None)
        whole = torch.zeros(self.length, device=device)
        for kind, part in parts.items():
            whole = whole.index_copy(0, self.kinds[kind].tokens, part.float())
        return whole
