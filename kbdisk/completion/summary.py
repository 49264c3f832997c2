"""The summary of a completion, property by property: how many values were missing, filled or held back, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kbdisk.completion.fields import Field
from kbdisk.entity import Path
from kbdisk.notebook import html_table
from kbdisk.schemas.composites import show_pattern

Quality = Mapping[tuple[str, str], Mapping[str, Any]]  # by class and path: rows of an evaluation
LearntAs = Callable[[str, Path], tuple[str, str]]  # the class and path of the row of a class's leaf


def as_itself(class_name: str, path: Path) -> tuple[str, str]:
    """The `LearntAs` of leaves that each class learns by itself."""
    return class_name, show_pattern(path)


@dataclass
class Row:
    """One property, or one field of the parts of a list."""

    class_name: str
    path: Path
    missing: int = 0
    filled: int = 0
    held_back: Counter[str] = field(default_factory=Counter)  # reason -> how many
    leaves: Counter[Path] = field(default_factory=Counter)  # of the filled values, by their patterns
    unit: str = ""
    confidence_sum: float = 0.0  # of the filled values
    by_rule: Counter[str] = field(default_factory=Counter)  # rule -> how many it filled
    members: int = 0  # that were added to sets with some
    members_by_rule: Counter[str] = field(default_factory=Counter)  # rule -> how many of them it gave
    members_held_back: Counter[str] = field(default_factory=Counter)  # reason -> how many
    quality: Quality = field(default_factory=dict)
    learnt_as: LearntAs = as_itself
    differs: bool = False  # whether the row is of several classes with errors of their own

    @property
    def confidence(self) -> float | None:
        """The mean confidence of the filled values; None where none is filled."""
        return self.confidence_sum / self.filled if self.filled else None

    @property
    def held_out_quality(self) -> Mapping[str, Any]:
        """The row of an evaluation on held-out values for the leaf that was filled most often; empty where there is none."""
        if self.differs:
            return {}
        rows = (self.quality.get(self.learnt_as(self.class_name, leaf)) for leaf, _ in self.leaves.most_common())
        return next((row for row in rows if row), {})

    def to_json(self) -> dict[str, Any]:
        """The row as plain data."""
        return {
            "class": self.class_name,
            "path": show_pattern(self.path),
            "missing": self.missing,
            "filled": self.filled,
            "held_back": dict(self.held_back.most_common()),
            "metric": self.held_out_quality.get("metric"),
            "expected_error": self.held_out_quality.get("ours"),
            "constant_error": self.held_out_quality.get("constant"),
            "error_of": self.held_out_quality.get("path"),
            "confidence": self.confidence,
            "rules": dict((self.by_rule + self.members_by_rule).most_common()),
            "members": self.members,
            "members_held_back": dict(self.members_held_back.most_common()),
        }


def _together(rows: Sequence[Row]) -> Row:
    """The rows of a property in several classes, merged. The merged row has an error if all filled classes share it."""
    most = max(rows, key=lambda row: (row.filled, row.missing))
    measured = {(row.unit, str(row.held_out_quality)) for row in rows if row.filled}
    return replace(
        most,
        missing=sum(row.missing for row in rows),
        filled=sum(row.filled for row in rows),
        confidence_sum=sum(row.confidence_sum for row in rows),
        members=sum(row.members for row in rows),
        held_back=sum((row.held_back for row in rows), Counter()),
        by_rule=sum((row.by_rule for row in rows), Counter()),
        members_by_rule=sum((row.members_by_rule for row in rows), Counter()),
        members_held_back=sum((row.members_held_back for row in rows), Counter()),
        differs=len(measured) > 1,
    )


@dataclass(frozen=True)
class Measured:
    """The share of held-out statements that were right: among those that would be written, by threshold, and among all."""

    written: float | None
    by_threshold: Mapping[float, float | None]
    everything: float | None


@dataclass
class Summary:
    """The counts of all entities that were completed so far."""

    entities: int = 0
    strangers: int = 0  # of no class of the schema, or of none that was asked for
    left_out: Counter[Path] = field(default_factory=Counter)  # gaps at paths that the schema leaves out
    ignored: Counter[Path] = field(default_factory=Counter)  # gaps at paths that the schema ignores
    unlike: int = 0  # entities unlike those that the model learnt from
    unlike_in: Counter[str] = field(default_factory=Counter)  # in which way they are unlike -> how many
    askable: int = 0  # gaps for which the model can predict a value, or a rule or a formula gives one
    measured: Measured | None = None  # None until the last entity, and where nothing was held out
    confidences: list[float] = field(default_factory=list)  # of all statements that another threshold would write
    members_measured: float | None = None  # the share of right ones among hidden members with such a confidence
    rows: dict[tuple[str, Path], Row] = field(default_factory=dict)
    quality: Quality = field(default_factory=dict)
    learnt_as: LearntAs = as_itself

    @classmethod
    def of(cls, quality: Sequence[Mapping[str, Any]], learnt_as: LearntAs = as_itself) -> Summary:
        """An empty summary, with the rows of an evaluation on held-out values."""
        return cls(quality={(row["class"], row["path"]): row for row in quality}, learnt_as=learnt_as)

    def add(self, confidence: float, raised: float = 0.0) -> None:
        """Count a statement for the thresholds that would write it, if its confidence reaches the raised one of its property."""
        if confidence >= raised:
            self.confidences.append(confidence)

    def add_derived(self, confidence: float) -> None:
        """Count a statement that a rule or a formula gives, which no model is asked for."""
        self.askable += 1
        self.add(confidence)

    def add_unlike(self, reasons: Sequence[str]) -> None:
        """Count an entity that is unlike those that the model learnt from."""
        self.unlike += 1
        self.unlike_in.update(reasons)

    def at(self, threshold: float) -> int:
        """How many statements a threshold would write."""
        return sum(confidence >= threshold for confidence in self.confidences)

    def thresholds(self) -> list[dict[str, Any]]:
        """How many values other thresholds would write, and their measured precision; the last without a threshold."""
        if self.measured is None:
            return []
        return [
            *(
                {"threshold": threshold, "values": self.at(threshold), "precision": precision}
                for threshold, precision in self.measured.by_threshold.items()
            ),
            {"threshold": None, "values": self.askable, "precision": self.measured.everything},
        ]

    def row(self, summary_field: Field) -> Row:
        """The row of a field."""
        key = (summary_field.class_name, summary_field.path)
        if key not in self.rows:
            unit = getattr(summary_field.kind, "learnt_in", None) or ""  # of errors, too
            self.rows[key] = Row(*key, unit=unit, quality=self.quality, learnt_as=self.learnt_as)
        return self.rows[key]

    def unwritten(self, class_name: str, path: str, why_not: str) -> None:
        """Count a gap as held back that was counted as filled."""
        row = self._row_at(class_name, path)
        row.confidence_sum *= (row.filled - 1) / row.filled
        row.filled -= 1
        row.held_back[why_not] += 1

    def unwritten_member(self, class_name: str, path: str, why_not: str) -> None:
        """Count a further member as held back that was counted as added."""
        row = self._row_at(class_name, path)
        row.members -= 1
        row.members_held_back[why_not] += 1

    def _row_at(self, class_name: str, path: str) -> Row:
        return next(
            row for row in self.rows.values() if row.class_name == class_name and show_pattern(row.path) == path
        )

    def __repr__(self) -> str:
        """The gaps and the entities so far."""
        return f"<Summary: {self.filled:,} gaps of {self.missing:,} filled, {self.entities:,} entities>"

    def _repr_html_(self) -> str:
        rows = [
            (
                row.class_name,
                show_pattern(row.path),
                f"{row.missing:,}",
                f"{row.filled:,}",
                "" if row.confidence is None else f"{row.confidence:.0%}",
                "; ".join(f"{count:,}: {reason}" for reason, count in row.held_back.most_common()),
            )
            for row in self.shown()
        ]
        columns = ("class", "property", ">missing", ">filled", ">confidence", "held back")
        return html_table(repr(self)[1:-1], columns, rows)

    @property
    def filled(self) -> int:
        """The number of filled gaps."""
        return sum(row.filled for row in self.rows.values())

    @property
    def members(self) -> int:
        """The number of members that were added to sets with some."""
        return sum(row.members for row in self.rows.values())

    @property
    def missing(self) -> int:
        """The number of gaps."""
        return sum(row.missing for row in self.rows.values())

    def shown(self) -> list[Row]:
        """The rows of properties with gaps."""
        return [row for row in self.rows.values() if row.missing]

    def by_property(self) -> list[Row]:
        """The rows of properties with gaps, of all classes together, the most often filled first."""
        rows: dict[Path, list[Row]] = {}
        for row in self.shown():
            rows.setdefault(row.path, []).append(row)
        return sorted(map(_together, rows.values()), key=lambda row: (-row.filled, -row.missing))

    def extended(self) -> list[Row]:
        """The rows of properties whose sets got further members, the most frequent first."""
        return sorted((row for row in self.rows.values() if row.members), key=lambda row: -row.members)

    def to_json(self) -> dict[str, Any]:
        """The summary as plain data."""
        return {
            "entities": self.entities,
            "missing": self.missing,
            "filled": self.filled,
            "unlike": {"entities": self.unlike, "reasons": dict(self.unlike_in.most_common())},
            "left_out": {show_pattern(path): count for path, count in self.left_out.items()},
            "thresholds": self.thresholds(),
            "precision": self.measured.written if self.measured else None,
            "members": self.members,
            "members_precision": self.members_measured,
            "ignored": {show_pattern(path): count for path, count in self.ignored.items()},
            "properties": [row.to_json() for row in self.rows.values() if row.missing or row.members],
        }
