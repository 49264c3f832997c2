"""The reasons for a value, as plain data; see `kbdisk.completion.why`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kbdisk.entity import Path, show
from kbdisk.loaders.values.tagged_json import encode

DIGITS = 6  # of what is printed


@dataclass(frozen=True)
class RuleReason:
    """The rule or the formula of the schema that gives a value."""

    text: str
    kind: str
    support: int  # known values that agree; 0 where the schema states none
    exceptions: int

    def to_json(self) -> dict[str, Any]:
        """The rule reason as plain data."""
        return {"text": self.text, "kind": self.kind, "support": self.support, "exceptions": self.exceptions}


@dataclass(frozen=True)
class Predictor:
    """The prediction of the network, or of an expert, on its own."""

    path: Path  # of the leaf
    name: str
    weight: float  # in the stack; those of a leaf sum to 1
    value: Any
    probability: float | None = None  # of a label, or of the set or the text that is the likeliest
    latent_weight: float = 0.0  # of the network: the part of its belief that neighbours in its latent space have

    def to_json(self) -> dict[str, Any]:
        """The predictor as plain data."""
        data = {"path": show(self.path), "name": self.name, "weight": self.weight, "value": encode(self.value)}
        data |= {} if self.probability is None else {"probability": self.probability}
        return data | ({"latent_weight": self.latent_weight} if self.latent_weight else {})


@dataclass(frozen=True)
class Unused:
    """An expert without a weight, and why."""

    path: Path
    name: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """The expert without weight as plain data."""
        return {"path": show(self.path), "name": self.name, "reason": self.reason}


@dataclass(frozen=True)
class Shrinkage:
    """The shrinkage of a prediction towards the constant, by held-out errors."""

    path: Path
    trust: float  # the part of the prediction; the rest is the constant's
    constant: Any

    def to_json(self) -> dict[str, Any]:
        """The shrinkage as plain data."""
        return {"path": show(self.path), "trust": self.trust, "constant": encode(self.constant)}


@dataclass(frozen=True)
class Limit:
    """The weighted mean of predicted numbers, where the stack does not take it as it is.

    A number that is written stays within the middle four fifths of the mass of the whole belief, and a repeated number with much
    of the mass is written as it is.
    """

    path: Path
    weighted: Any  # the weighted mean of the predictions
    kept: Any  # the value that is used instead

    def to_json(self) -> dict[str, Any]:
        """The limit as plain data."""
        return {"path": show(self.path), "weighted": self.weighted, "kept": self.kept}


@dataclass(frozen=True)
class Similar:
    """An entity of the source that has the property."""

    id: str
    label: str
    value: Any
    similarity: float  # the cosine of standardised latent vectors

    def to_json(self) -> dict[str, Any]:
        """The similar entity as plain data."""
        return {"id": self.id, "label": self.label, "value": encode(self.value), "similarity": self.similarity}


@dataclass(frozen=True)
class MovedLabel:
    """A label that is not written, and whose probability changes."""

    label: Any
    probability: float  # without a property
    probability_before: float

    def to_json(self) -> dict[str, Any]:
        """The moved label as plain data."""
        shares = {"probability": self.probability, "probability_before": self.probability_before}
        return {"label": encode(self.label), **shares}


@dataclass(frozen=True)
class Influence:
    """A given property, and the belief without it."""

    name: str  # a path, or which links
    distance: float  # Hellinger's, between the beliefs with and without it
    leaf: Path  # of the asked property: the one that moves most
    value: Any  # without it
    value_before: Any
    label: Any = None  # the label that is written; of a set the one that moves most
    probability: float | None = None  # of this label, without it
    probability_before: float | None = None
    moved: MovedLabel | None = None  # where it is another one: the label that moves most
    interval: tuple[float, float] | None = None  # of a number, without it
    interval_before: tuple[float, float] | None = None

    def to_json(self) -> dict[str, Any]:
        """The influence as plain data."""
        data = {"without": self.name, "distance": self.distance, "path": show(self.leaf)}
        data |= {"value": encode(self.value), "value_before": encode(self.value_before)}
        if self.probability is None:
            return data | {"interval": self.interval, "interval_before": self.interval_before}
        return data | {
            "label": encode(self.label),
            "probability": self.probability,
            "probability_before": self.probability_before,
            "moved": None if self.moved is None else self.moved.to_json(),
        }


@dataclass(frozen=True)
class PresenceParts:
    """Presence before it is calibrated, by the networks and by trees: log odds are their weighted mean."""

    network: float
    trees: float
    weight: float  # of the trees

    def to_json(self) -> dict[str, Any]:
        """The presence parts as plain data."""
        return {"network": self.network, "trees": self.trees, "weight": self.weight}


@dataclass(frozen=True)
class Why:
    """The reasons for a value."""

    entity: str  # its id
    label: str
    class_name: str
    path: Path
    kind: str
    unit: str | None  # in which predictions and influences of an amount are stated
    value: Any  # the value that would be written; None where there is none
    presence: float | None  # the probability that the entity has the property; None where the model does not predict it
    correctness: float | None  # the probability that the value is right, given that it has one
    interval: Any = None  # of a number, with 90 % probability; of several numbers by their names
    within: Any = None  # how far off a number may be and still count as right
    given: Any = None  # the given value
    given_by: str = ""  # `source`, or `kbdisk` where an earlier completion wrote it
    is_hidden: bool = False  # whether the given value is hidden; else it is a part, and the rest is asked for
    held_back: str = ""  # the reason why completing would not write the value
    note: str = ""
    rule: RuleReason | None = None
    predictors: tuple[Predictor, ...] = ()
    unused: tuple[Unused, ...] = ()
    limits: tuple[Limit, ...] = ()
    shrinkages: tuple[Shrinkage, ...] = ()
    similar: tuple[Similar, ...] = ()
    influences: tuple[Influence, ...] = ()
    presence_parts: PresenceParts | None = None  # where the property has trees of presence

    def _given_to_json(self) -> dict[str, Any]:
        return {"value": encode(self.given), "by": self.given_by, "hidden": self.is_hidden}

    @property
    def confidence(self) -> float | None:
        """The probability that the statement is right: presence times correctness."""
        if self.correctness is None:
            return None
        return self.correctness if self.presence is None else self.presence * self.correctness

    def to_json(self) -> dict[str, Any]:
        """The reasons as plain data."""
        return {
            "id": self.entity,
            "label": self.label,
            "class": self.class_name,
            "path": show(self.path),
            "kind": self.kind,
            "unit": self.unit,
            "value": encode(self.value),
            "presence": self.presence,
            "presence_parts": None if self.presence_parts is None else self.presence_parts.to_json(),
            "correctness": self.correctness,
            "confidence": self.confidence,
            "interval": self.interval,
            "within": self.within,
            "given": None if not self.given_by else self._given_to_json(),
            "held_back": self.held_back or None,
            "note": self.note or None,
            "rule": None if self.rule is None else self.rule.to_json(),
            "predictors": [predictor.to_json() for predictor in self.predictors],
            "unused": [expert.to_json() for expert in self.unused],
            "limits": [limit.to_json() for limit in self.limits],
            "shrinkage": [shrinkage.to_json() for shrinkage in self.shrinkages],
            "similar": [similar.to_json() for similar in self.similar],
            "influences": [influence.to_json() for influence in self.influences],
        }


# ---------------------------------------------------------------- digits


def brief(number: float | None) -> Any:
    """A number with as many digits as are printed; None stays."""
    return None if number is None else float(f"{number:.{DIGITS}g}")


def rounded(numbers: Any) -> Any:
    """Intervals and tolerances with their significant digits."""
    if isinstance(numbers, Mapping):
        return {name: rounded(number) for name, number in numbers.items()}
    if isinstance(numbers, tuple | list):
        return [brief(end) for end in numbers]
    return brief(numbers)
