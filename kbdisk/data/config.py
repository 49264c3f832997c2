"""Settings of a codec, and of the evidence that comes over links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from kbdisk.data.slots import SHARING
from kbdisk.leaves.registry import LEARNT_KINDS


@dataclass(frozen=True)
class EvidenceConfig:
    """The evidence that comes over an entity's links."""

    outgoing: bool = True  # the values of the entities that it links to
    incoming: bool = True  # the links that lead to it
    several: bool = True  # aggregates over the entities that share its links, or are linked with it in sets
    chains: bool = True  # numbers that are propagated over one link and two
    values: int = 16  # over one path, at most: those that most entities have; 0 for all
    most: int = 8  # incoming links of one path, at most

    def __post_init__(self) -> None:
        for name in ("values", "most"):
            if getattr(self, name) < 0:
                raise ValueError(f"expected at least 0 for {name}, got {getattr(self, name)}")


@dataclass(frozen=True)
class CodecConfig:
    """Settings of the encoding of entities."""

    sharing: str = "auto"  # a row of SHARING
    own: int = 64  # properties of a kind that have weights of their own, at most, where sharing is auto
    enough: int = 1000  # values that a property must have for that
    evidence: EvidenceConfig = field(default_factory=EvidenceConfig)
    kinds: Mapping[str, Any] = field(
        default_factory=dict
    )  # settings of each kind by name; defaults where none are given
    pooling: bool = False  # whether a property that several classes have is learnt once for all of them

    def __post_init__(self) -> None:
        if self.sharing not in SHARING:
            raise ValueError(f"expected one of {', '.join(SHARING)} for sharing, got {self.sharing!r}")
        unknown = self.kinds.keys() - LEARNT_KINDS.keys()
        if unknown:
            raise ValueError(f"expected kinds among {', '.join(LEARNT_KINDS)}, got {', '.join(sorted(unknown))}")
        complete = {name: self.kinds.get(name) or kind.config() for name, kind in LEARNT_KINDS.items()}
        object.__setattr__(self, "kinds", complete)

    def to_json(self) -> dict[str, Any]:
        """Itself as plain data."""
        plain = {name: getattr(self, name) for name in ("pooling", "sharing", "own", "enough")}
        kinds = {name: asdict(setting) for name, setting in self.kinds.items()}
        return {**plain, "evidence": asdict(self.evidence), "kinds": kinds}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CodecConfig:
        """Itself again."""
        kinds = {
            name: LEARNT_KINDS[name].config(**_tuples(fields))
            for name, fields in data["kinds"].items()
            if name in LEARNT_KINDS  # a kind that was installed when the codec was written, and that no slot may have
        }
        return cls(**{**data, "evidence": EvidenceConfig(**data["evidence"]), "kinds": kinds})


def _tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields with tuples for lists, as JSON has none."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
