"""A kind of leaf that somebody else might add: how many, a geometric belief. Tests of the table of kinds add it.

`from counts import COUNT, Count`, then `monkeypatch.setitem(KINDS, "count", COUNT)`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.leaves.base import Rows, Setting
from kbdisk.schemas.kinds import LeafKind


@dataclass(frozen=True, slots=True)
class Count:
    """How many, from 0 on."""

    def check(self, value: Any) -> None:
        if type(value) is not int or value < 0:
            raise ValueError(f"expected a count, got {value!r}")


@dataclass(frozen=True)
class CountConfig:
    """Nothing to choose but this."""

    largest: int = 40


@dataclass(frozen=True)
class CountCodec:
    """Counts are their own codes."""

    @classmethod
    def fit(cls, leaf: Count, values: Sequence[Any], config: Any, words: Any) -> CountCodec:
        return cls()

    def encode(self, values: Sequence[Any]) -> Tensor:
        for value in values:
            Count().check(value)
        return torch.tensor(values, dtype=torch.long)  # also of none

    def decode(self, codes: Tensor) -> list[int]:
        return codes.tolist()

    def to_json(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], words: Any) -> CountCodec:
        return cls()


class CountEncoder(nn.Module):
    def __init__(self, codecs: Sequence[CountCodec], setting: Setting) -> None:
        super().__init__()
        self.line = nn.Linear(1, setting.width)

    def forward(self, codes: Tensor, rows: Rows) -> Tensor:
        return torch.tanh(self.line(codes[:, None].float().log1p()) + rows.path)


class CountDecoder(nn.Module):
    def __init__(self, codecs: Sequence[CountCodec], setting: Setting) -> None:
        super().__init__()
        self.line, self.largest = nn.Linear(setting.width, 1), setting.config.largest

    def forward(self, h: Tensor, rows: Rows) -> Geometric:
        return Geometric(self.line(h + rows.path).float()[:, 0], self.largest)


@dataclass(frozen=True)
class Geometric:
    """Each one more is as likely as the one before, times a constant."""

    logit: Tensor
    largest: int

    def log_prob(self, codes: Tensor) -> Tensor:
        return F.logsigmoid(self.logit) * codes + F.logsigmoid(-self.logit)

    def sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        even = torch.rand(self.logit.shape, generator=generator)
        return (even.log() / F.logsigmoid(self.logit / temperature)).long().clamp(max=self.largest)

    def mode(self) -> Tensor:
        return torch.zeros_like(self.logit, dtype=torch.long)

    def entropy(self) -> Tensor:
        more = self.logit.sigmoid()
        return (torch.special.entr(more) + torch.special.entr(1 - more)) / (1 - more)

    def pick(self, rows: Tensor) -> Geometric:
        return Geometric(self.logit[rows], self.largest)


COUNT = LeafKind(
    Count, Count(), (0, 7), codec=CountCodec, encoder=CountEncoder, decoder=CountDecoder, config=CountConfig
)
