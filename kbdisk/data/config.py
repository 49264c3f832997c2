"""What can be chosen about a codec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from kbdisk.data.slots import SHARING
from kbdisk.leaves.registry import LEARNT_KINDS


@dataclass(frozen=True)
class EvidenceConfig:
    """What an entity's links bring."""

    outgoing: bool = True  # the values of what it links to
    incoming: bool = True  # the links that lead to it
    several: bool = True  # what those tell that share its links, or are linked to it by many
    values: int = 16  # most values over one path, those that most entities have; 0 for all
    most: int = 8  # most incoming links of one path

    def __post_init__(self) -> None:
        for name in ("values", "most"):
            if getattr(self, name) < 0:
                raise ValueError(f"expected at least 0 for {name}, got {getattr(self, name)}")


@dataclass(frozen=True)
class CodecConfig:
    """How entities become tensors."""

    sharing: str = "auto"  # a row of SHARING
    own: int = 64  # most properties of a kind that have weights of their own, where sharing is auto
    enough: int = 1000  # values that a property must have for that
    evidence: EvidenceConfig = field(default_factory=EvidenceConfig)
    kinds: Mapping[str, Any] = field(default_factory=dict)  # the kinds' own by name; defaults where there is none
    pooling: bool = False  # whether a property that several classes have is learnt once for all of them

    def __post_init__(self) -> None:
        if self.sharing not in SHARING:
            raise ValueError(f"expected one of {', '.join(SHARING)} for sharing, got {self.sharing!r}")
        unknown = self.kinds.keys() - LEARNT_KINDS.keys()
        if unknown:
            raise ValueError(f"expected kinds among {', '.join(LEARNT_KINDS)}, got {', '.join(sorted(unknown))}")
        whole = {name: self.kinds.get(name) or kind.config() for name, kind in LEARNT_KINDS.items()}
        object.__setattr__(self, "kinds", whole)

    def to_json(self) -> dict[str, Any]:
        """Itself as plain data."""
        plain = {name: getattr(self, name) for name in ("pooling", "sharing", "own", "enough")}
        kinds = {name: asdict(one) for name, one in self.kinds.items()}
        return {**plain, "evidence": asdict(self.evidence), "kinds": kinds}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CodecConfig:
        """Itself again."""
        kinds = {
            name: LEARNT_KINDS[name].config(**_tuples(told))
            for name, told in data["kinds"].items()
            if name in LEARNT_KINDS  # a kind that was installed when the codec was written, and that no slot may have
        }
        return cls(**{**data, "evidence": EvidenceConfig(**data["evidence"]), "kinds": kinds})


def _tuples(told: Mapping[str, Any]) -> dict[str, Any]:
    """Fields as they were before JSON made lists of tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}
