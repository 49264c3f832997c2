"""What is believed of one property of one entity, in values: a distribution that can be asked in plain Python.

A value that is given is hidden while it is asked about, and all other known values are seen. The length of a list is
asked about without its places, which would tell it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kbdisk.batch import Batch
from kbdisk.codec.slots import Slot
from kbdisk.diffusion import beliefs
from kbdisk.entity import Entity, Link, Path, show
from kbdisk.errors import SchemaError
from kbdisk.estimates import LEVEL, tolerances
from kbdisk.graph import Graph
from kbdisk.network.beliefs import Beliefs
from kbdisk.schemas.composites.listed import COUNT
from kbdisk.schemas.suggest import did_you_mean
from kbdisk.training.trained import CHUNK, Trained

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
    within: float | None = None  # of a number: how far off it may be and still count as right

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
        """How likely each label is, the likeliest first; of a set, how likely each is in it."""
        raise AttributeError(f"{show(self.path)} is a {self.kind}: ask for its mean, median, interval or density")

    def log_prob(self, value: Any) -> float:
        """In nats; of a number that of one step of its resolution."""
        return _float(self.row.log_prob(self._coded(value)))

    def sample(self, n: int = 1, seed: int = 0) -> list[Any]:
        """So many draws; the same for the same seed."""
        generator = torch.Generator(self._device).manual_seed(seed)
        return self._decoded(self.row.pick(torch.zeros(n, dtype=torch.long, device=self._device)).sample(1, generator))

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
    def mean(self) -> float:
        """What errors squared are least around."""
        return _float(self.row.mean())

    @property
    def median(self) -> Any:
        """What is as often too low as too high."""
        return self._decoded(self.row.codes(self.row.median()))[0]

    @property
    def value(self) -> Any:
        """The median."""
        return self.median

    @property
    def confidence(self) -> float:
        """How likely the truth is `within` so much of the median."""
        assert self.within is not None
        middle = float(self.median)
        return min(max(self.cdf(middle + self.within) - self.cdf(middle - self.within - 1e-9), 0.0), 1.0)

    def quantile(self, level: float) -> float:
        """The number below which so much of the mass is."""
        if not 0 < level < 1:
            raise ValueError(f"expected a level between 0 and 1, got {level!r}")
        return _float(self.row.quantile(level))

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Between which numbers so much of the mass is, and as much below as above."""
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def cdf(self, value: float) -> float:
        """How likely this number or less is."""
        return _float(self.row.cdf(self._number(value)))

    def density(self, value: float) -> float:
        """Per unit, beside `atoms`."""
        return _float(self.row.density(self._number(value)))

    @property
    def atoms(self) -> dict[Any, float]:
        """How likely each of the numbers is that training had repeatedly, the likeliest first."""
        values, masses = (one[0].tolist() for one in self.row.atoms)
        found = {value: mass for value, mass in zip(values, masses, strict=True) if math.isfinite(value)}
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))

    def _number(self, value: float) -> Tensor:
        return torch.tensor([float(value)], dtype=torch.float64, device=self._device)

    def _shown(self) -> str:
        low, high = self.interval()
        return f"{_short(self.median)}, {LEVEL:.0%} within {_short(low)} … {_short(high)}"


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


KINDS: dict[str, type[Belief]] = {
    "number": NumberBelief,
    "category": LabelBelief,
    "link": LabelBelief,
    "set": SetBelief,
    "text": TextBelief,
}


def leaf_at(trained: Trained, of: str, path: Path) -> Path:
    """The path of the one value that is meant: of a quantity its number. SchemaError where there is none, or several."""
    slots, known = trained.codec.slots, trained.codec.index.tables[of].slot
    own = {one: slots[number] for one, number in known.items()}
    for one in (path, (*path, "value")):
        if one in own:
            if own[one].fixed:
                raise SchemaError(show(path), "expected a property that is predicted, got one that is only given.")
            return one
    below = [show(one) for one in own if one[: len(path)] == path]
    if below:
        raise SchemaError(show(path), f"expected the path of one value, got several. Say one of {', '.join(below)}.")
    why = trained.codec.left_out.get((of, path))
    if why is not None:
        raise SchemaError(show(path), f"nothing is believed of it: {why}.")
    names = [show(one) for one in own]
    raise SchemaError(show(path), f"expected a property that the model knows.{did_you_mean(show(path), names)}")


@torch.no_grad()
def beliefs_of(
    trained: Trained, entity: Entity, graph: Graph | None, paths: Collection[Path] | None = None
) -> dict[Path, Belief]:
    """What is believed of some leaves of an entity, or of all that its class has: each given all others."""
    ask = "all" if paths is None else [path for path in paths if path not in trained.schema.leaves(entity)]
    batch = trained.encode([entity], ask or "nothing", graph).batch(torch.arange(1))
    slots = [trained.codec.slots[number] for number in batch.slot.tolist()]
    wanted = [token for token, slot in enumerate(slots) if not slot.fixed and (paths is None or slot.path in paths)]
    found: dict[Path, Belief] = {}
    for token, one in _asked(trained, batch, slots, wanted):
        slot = slots[token]
        value = trained.codec.leaves(batch, torch.arange(len(batch)) == token)[0] if batch.known[token] else {}
        within = float(tolerances(trained.codec, batch.slot[[token]])) if slot.kind == "number" else None
        assert one.presence is not None
        recorded = float(one.presence["logits"][one.presence["tokens"] == 0].sigmoid()[0])
        row = next(iter(one.kinds.values())).belief
        given = trained.schema.leaves(entity).get(slot.path, value.get(slot.path))
        found[slot.path] = KINDS[slot.kind](entity.id, slot.path, slot, row, given, recorded, within)
    order = {path: place for place, path in enumerate(trained.schema.classes[slots[0].of].properties)} if slots else {}
    return dict(sorted(found.items(), key=lambda pair: _place(order, pair[0])))


def _place(order: Mapping[Path, int], leaf: Path) -> int:
    """The place of the property that a leaf is of."""
    return next((order[leaf[:n]] for n in range(len(leaf), 0, -1) if leaf[:n] in order), len(order))


def _asked(trained: Trained, batch: Batch, slots: list[Slot], wanted: list[int]) -> Iterator[tuple[int, Beliefs]]:
    """Each wanted token with a belief about it alone, so many at once as there is room for."""
    size = max(CHUNK // max(len(batch), 1), 1)
    for start in range(0, len(wanted), size):
        some = wanted[start : start + size]
        many = batch.repeat(len(some))
        visible = batch.known[:, None].repeat(1, len(some))  # (T, R)
        asked = torch.zeros_like(visible)
        for case, token in enumerate(some):
            visible[_hidden_with(slots, token), case] = False
            asked[token, case] = True
        told = beliefs(trained.network, many, asked.flatten(), visible.flatten())
        for case, token in enumerate(some):
            place = torch.arange(len(many)) == token * len(some) + case
            yield token, _alone(told, place)


def _hidden_with(slots: list[Slot], token: int) -> list[int]:
    """The tokens that are hidden with one: itself, and with the length of a list its places."""
    path = slots[token].path
    if path[-1:] != COUNT:
        return [token]
    within = [n for n, slot in enumerate(slots) if slot.path[: len(path) - 1] == path[:-1]]
    listed = any(isinstance(key, int) for n in within for key in slots[n].path[len(path) - 1 : len(path)])
    return within if listed else [token]


def _alone(told: Beliefs, place: Tensor) -> Beliefs:
    """The belief about one token, and the one in its presence, its number being 0."""
    picked = told.pick(place)
    kinds = {kind: one for kind, one in picked.kinds.items() if len(one.rows)}
    assert told.presence is not None
    mine = place[told.presence["tokens"]]
    presence = {"tokens": mine.nonzero()[:, 0] * 0, "logits": told.presence["logits"][mine]}
    return Beliefs(kinds, told.length, presence)


def _float(one: Tensor) -> float:
    return float(one.detach())


def _plain(value: Any) -> Any:
    return value.id if isinstance(value, Link) else value


def _short(value: Any) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"
