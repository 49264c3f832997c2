"""What is believed of one property of one entity, in values: a distribution that can be asked in plain Python."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kbdisk.data.slots import Slot
from kbdisk.entity import Link, Path, show
from kbdisk.errors import SchemaError
from kbdisk.loaders.values.tagged_json import encode
from kbdisk.model.estimates import INTERVAL_LEVEL
from kbdisk.plugins import load_part
from kbdisk.schemas.kinds import KINDS

LEVELS = (0.5, INTERVAL_LEVEL)  # of the intervals that are told
TOLD = 20  # labels, at most, that are told of all
MOST = 1000  # labels, at most, whose probabilities are told
WRITTEN = 5  # texts, at most, that are found


@dataclass(frozen=True, eq=False)
class Belief:
    """A distribution over the values of one property."""

    entity: str  # its id
    path: Path
    slot: Slot
    row: Any  # what the network believes of this one
    given: Any = None  # the value that the entity has
    recorded: float | None = None  # how likely such an entity is to have one at all
    unit: str | None = None  # of a quantity's number

    @property
    def kind(self) -> str:
        """number, category, link, set or text."""
        return self.slot.kind

    @property
    def mode(self) -> Any:
        """The likeliest value."""
        return self._decoded(self.row.mode())[0]

    @property
    def value(self) -> Any:
        """The value to say: of a number the median, of all else the likeliest."""
        return self.mode

    @property
    def confidence(self) -> float:
        """How likely `value` is right."""
        return math.exp(_float(self.row.log_prob(self.row.mode())))

    @property
    def entropy(self) -> float:
        """How unsure, in nats."""
        return _float(self.row.entropy())

    @property
    def probabilities(self) -> dict[Any, float]:
        """How likely each value is that can be listed, the likeliest first; of a set, how likely each member is in it."""
        return {_plain(self.value): self.confidence}

    def log_prob(self, value: Any) -> float:
        """In nats; of a number that of one step of its resolution."""
        return _float(self.row.log_prob(self._coded(value)))

    def sample(self, n: int = 1, seed: int = 0) -> list[Any]:
        """So many draws; the same for the same seed."""
        generator = torch.Generator(self._device).manual_seed(seed)
        return self._decoded(self.row.pick(torch.zeros(n, dtype=torch.long, device=self._device)).sample(1, generator))

    def to_json(self) -> dict[str, Any]:
        """What there is to say of it, as plain data."""
        told = {
            "id": self.entity,
            "path": show(self.path),
            "kind": self.kind,
            "unit": self.unit,
            "value": encode(self.value),
            "confidence": self.confidence,
            "recorded": self.recorded,
        }
        given = None if self.given is None else {"value": encode(self.given), **self._judged()}
        return {**told, **self._told(), "given": given}

    def _told(self) -> dict[str, Any]:
        shares = list(self.probabilities.items())[:TOLD]
        return {"probabilities": [{"value": encode(label), "probability": share} for label, share in shares]}

    def _judged(self) -> dict[str, Any]:
        """What is believed of the given value."""
        return {"log_prob": self.log_prob(self.given)}

    def _coded(self, value: Any) -> Tensor:
        try:
            codes: Tensor = self.slot.codec.encode([value]).to(self._device)
        except ValueError as error:
            raise SchemaError(show(self.path), f"{error}.") from None
        return codes

    def _decoded(self, codes: Tensor) -> list[Any]:
        values: list[Any] = self.slot.codec.decode(codes)
        return values

    @property
    def _device(self) -> torch.device:
        return self.row.mode().device  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        given = "" if self.given is None else f", given {_plain(self.given)!r}"
        return f"<Belief {show(self.path)}: {self._shown()}{given}>"

    def _shown(self) -> str:
        best = list(self.probabilities.items())[:3]
        return ", ".join(f"{label!r} {share:.0%}" for label, share in best)


class NumberBelief(Belief):
    """A distribution over numbers: a density, and masses at those that repeat."""

    @property
    def probabilities(self) -> dict[Any, float]:
        """Numbers have none: AttributeError."""
        raise AttributeError(f"{show(self.path)} is a {self.kind}: ask for its mean, median, interval or density")

    @property
    def mean(self) -> float:
        """What errors squared are least around."""
        return _float(self.row.mean())

    @property
    def median(self) -> Any:
        """What is as often too low as too high."""
        return self._decoded(self.row.codes(self.row.median()))[0]

    @property
    def value(self) -> Any:
        """What has the least absolute error: the median, or nearly."""
        return self._decoded(self.row.codes(self.row.typical()))[0]

    @property
    def within(self) -> float:
        """How far off the truth the value may be and still count as right."""
        return float(self.slot.codec.tolerances(np.array([float(self.value)]))[0])

    @property
    def confidence(self) -> float:
        """The probability that the truth is `within` so much of the value."""
        value, within = float(self.value), self.within
        return min(max(self.cdf(value + within) - self.cdf(value - within - 1e-9), 0.0), 1.0)

    def quantile(self, level: float) -> float:
        """The number below which so much of the mass is."""
        return self.quantiles([level])[0]

    def quantiles(self, levels: Sequence[float]) -> list[float]:
        """The same for several levels, in the time that one takes."""
        for level in levels:
            if not 0 < level < 1:
                raise ValueError(f"expected a level between 0 and 1, got {level!r}")
        found: list[float] = self.row.quantile(torch.tensor(levels, dtype=torch.float64))[0].tolist()
        return found

    def interval(self, level: float = INTERVAL_LEVEL) -> tuple[float, float]:
        """Between which numbers so much of the mass is, and as much below as above."""
        low, high = self.quantiles([(1 - level) / 2, (1 + level) / 2])
        return low, high

    def cdf(self, value: float) -> float:
        """How likely this number or less is."""
        return _float(self.row.cdf(self._number(value)))

    def density(self, value: float) -> float:
        """Per unit, beside `atoms`."""
        return self.densities([value])[0]

    def densities(self, values: Sequence[float]) -> list[float]:
        """The density at each of some numbers."""
        points = torch.tensor([[float(value) for value in values]], dtype=torch.float64, device=self._device)
        found: list[float] = self.row.pdf(points)[0].tolist()
        return found

    @property
    def atoms(self) -> dict[Any, float]:
        """How likely each of the numbers is that training had repeatedly, the likeliest first."""
        values, masses = (one[0].tolist() for one in self.row.atoms)
        found = {value: mass for value, mass in zip(values, masses, strict=True) if math.isfinite(value)}
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))

    def _told(self) -> dict[str, Any]:
        shares = list(self.atoms.items())[:TOLD]
        return {
            "within": self.within,
            "mean": self.mean,
            "median": self.median,
            "mode": self.mode,
            "intervals": [{"level": level, "low": low, "high": high} for level, (low, high) in self.intervals()],
            "atoms": [{"value": value, "mass": mass} for value, mass in shares],
        }

    def intervals(self) -> list[tuple[float, tuple[float, float]]]:
        """Some intervals by their levels, the narrowest first."""
        ends = self.quantiles([(1 + sign * level) / 2 for level in LEVELS for sign in (-1, 1)])
        return list(zip(LEVELS, zip(ends[::2], ends[1::2], strict=True), strict=True))

    def _judged(self) -> dict[str, Any]:
        return {**super()._judged(), "below": self.cdf(float(self.given))}

    def _number(self, value: float) -> Tensor:
        return torch.tensor([float(value)], dtype=torch.float64, device=self._device)

    def _shown(self) -> str:
        low, high = self.interval()
        unit = f" {self.unit}" if self.unit else ""
        return f"{_short(self.value)}{unit}, {INTERVAL_LEVEL:.0%} within {_short(low)} … {_short(high)}"


class LabelBelief(Belief):
    """A distribution over labels, or links."""

    @property
    def probabilities(self) -> dict[Any, float]:
        """How likely each label is, the likeliest first; links by their ids. What is left is for labels never met."""
        codes, shares = (one[0] for one in self.row.top(MOST))
        labels = map(_plain, self._decoded(codes))
        return {
            label: share for label, share in zip(labels, shares.tolist(), strict=True) if label is not None and share
        }

    def rank(self, value: Any) -> int:
        """The place of a label among all, 1 the likeliest; one never met is last."""
        return math.ceil(_float(self.row.ranks(self._coded(value))))

    def _judged(self) -> dict[str, Any]:
        log_prob = self.log_prob(self.given)
        return {"log_prob": log_prob, "probability": math.exp(log_prob), "rank": self.rank(self.given)}


class SetBelief(Belief):
    """A distribution over sets of labels or links."""

    @property
    def probabilities(self) -> dict[Any, float]:
        """How likely each label is in the set, the likeliest first; links by their ids."""
        shares = self.row.probs[0]
        best = shares.argsort(descending=True)[:MOST]
        labels = [_plain(one[0]) if one else None for one in self._decoded(best[:, None])]
        return {label: share for label, share in zip(labels, shares[best].tolist(), strict=True) if label is not None}


class TextBelief(Belief):
    """A distribution over texts."""

    @property
    def probabilities(self) -> dict[Any, float]:
        """The likeliest texts that were found, and how likely each is."""
        return {text: math.exp(log_prob) for text, log_prob in self.row.beam(WRITTEN)[0]}


def view_of(kind: str) -> type[Belief]:
    """What can be asked of beliefs of a kind, by its row."""
    return load_part(KINDS[kind].view) or Belief


def _float(one: Tensor) -> float:
    return float(one.detach())


def _plain(value: Any) -> Any:
    return value.id if isinstance(value, Link) else value


def _short(value: Any) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"
