"""Applies a review: accepted and corrected values are written, rejected ones are remembered.

The review is checked as a whole before anything is written. A value whose place has changed since it was proposed is refused;
the rest of the source may have changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, NamedTuple, TypeAlias

from kbdisk.completion.answers import ACCEPTED, CORRECTED, REJECTED, Answer, Answers, answers_of, reviewed_of
from kbdisk.completion.review import ReviewRow, fingerprint_at
from kbdisk.completion.sidecar import given_entities
from kbdisk.completion.write import Recorded, write_completions
from kbdisk.entity import (
    Completion,
    Coordinate,
    Date,
    Entity,
    Filled,
    Link,
    Path,
    Quantity,
    Text,
    read_path,
    show,
    walk,
)
from kbdisk.errors import LoadError
from kbdisk.loaders import KB
from kbdisk.loaders.kb import Report
from kbdisk.loaders.values.tagged_json import decode, encode
from kbdisk.schemas.kinds import KINDS, Number
from kbdisk.schemas.text import dates, numerals
from kbdisk.schemas.text.numerals import is_number, measure

DECISIONS = {
    "": "",
    **dict.fromkeys(("accept", "accepted"), ACCEPTED),
    **dict.fromkeys(("reject", "rejected"), REJECTED),
}
# Keys of a row that the row of a correction does not have.
KEYS_OF_A_PREDICTION = ("confidence", "interval", "within", "draws", "presence", "calibrated")
TRUTHS = {"true": True, "yes": True, "false": False, "no": False}
MEND_CELL = "Mend the cell, or empty it."
_GERMAN_DATE = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})")

DecidedById: TypeAlias = "dict[str, list[Decided]]"  # by the entity's id


class Decided(NamedTuple):
    """A row of a review on which people decided."""

    row: ReviewRow
    path: Path
    value: Any  # the one that is written, or was rejected
    proposed: Any
    answer: str


@dataclass
class Decisions:
    """The decisions of people in a review."""

    by_id: DecidedById = field(default_factory=dict)
    undecided: int = 0

    def count(self, answer: str) -> int:
        """How many rows have this answer."""
        return sum(decided.answer == answer for entries in self.by_id.values() for decided in entries)

    @property
    def writes(self) -> bool:
        """Whether any value is to be written."""
        return any(decided.answer != REJECTED for entries in self.by_id.values() for decided in entries)


def decisions_of(name: str, rows: Sequence[ReviewRow], ids: Callable[[], Collection[str]]) -> Decisions:
    """The decisions of people; LoadError for an invalid row. `ids` are those that a link may lead to."""
    decisions = Decisions()
    companions: list[ReviewRow] = []
    first_rows: dict[tuple[str, str], int] = {}
    for row in rows:
        where = f"{name}, row {row.place}"
        if (before := first_rows.setdefault((row.id, row.path), row.place)) != row.place:
            raise LoadError(where, f"expected each value once, got that of row {before} again. Leave one out.")
        decision = DECISIONS.get(row.decision.strip().lower())
        if decision is None:
            raise LoadError(where, f"expected accept, reject or nothing as decision, got {row.decision!r}. {MEND_CELL}")
        try:
            proposed = decode({"": row.row["value"]})[""]
            path = read_path(row.path)
        except (ValueError, TypeError):
            raise LoadError(
                where, "expected the content that kbdisk wrote in the column 'row', got something else."
            ) from None
        correction = row.correction.strip()
        if correction and decision == REJECTED:
            raise LoadError(where, f"expected no correction beside reject, got {row.correction!r}. Leave one out.")
        if not decision and not correction:
            decisions.undecided += 1
            if row.row.get("estimate") == "shared":
                companions.append(row)
            continue
        value, answer = proposed, decision
        if correction:
            try:
                value = corrected_value(correction, proposed, row.expected, ids)
            except ValueError as error:
                raise LoadError(where, f"{error}. {MEND_CELL}") from None
            answer = ACCEPTED if _same(value, proposed) else CORRECTED
        decisions.by_id.setdefault(row.id, []).append(Decided(row, path, value, proposed, answer))
    for row in companions:  # such as the unit of an amount that was accepted
        path = read_path(row.path)
        if any(
            decided.answer != REJECTED and decided.path[:-1] == path[:-1] for decided in decisions.by_id.get(row.id, ())
        ):
            value = decode({"": row.row["value"]})[""]
            decisions.by_id[row.id].append(Decided(row, path, value, value, ACCEPTED))
            decisions.undecided -= 1
    return decisions


def _same(value: Any, expected: Any) -> bool:
    return (type(value) is type(expected) or (is_number(value) and is_number(expected))) and bool(value == expected)


# ---------------------------------------------------------------- corrections


def corrected_value(text: str, proposed: Any, expected: Mapping[str, Any], ids: Callable[[], Collection[str]]) -> Any:
    """The value of a correction, as the source writes such values; ValueError where it is none of the kind."""
    value = _read(text, proposed, str(expected.get("kind", "")), ids)
    kind = KINDS.get(str(expected.get("kind", "")))
    if kind is not None and not (kind.type is Number and not is_number(value)):
        settings = {
            name: tuple(setting) if isinstance(setting, list) else setting
            for name, setting in expected.items()
            if name != "kind"
        }
        try:
            leaf = kind.type(**settings)
        except TypeError:
            return value
        leaf.check(value)
    return value


def _read(text: str, proposed: Any, kind: str, ids: Callable[[], Collection[str]]) -> Any:
    match proposed:
        case bool():
            if text.lower() not in TRUTHS:
                raise ValueError(f"expected true or false, got {text!r}")
            return TRUTHS[text.lower()]
        case Date():
            return _date(text)
        case Quantity(_, unit):
            amount = measure(text)
            if amount is None:
                raise ValueError(f"expected a number with a unit such as 5 {unit or 'kg'}, got {text!r}")
            return Quantity(_number(amount.number), amount.unit or unit)
        case Coordinate(_, _, globe):
            parts = text.split(",")
            if len(parts) != 2:
                raise ValueError(f"expected a latitude and a longitude such as 52.5, 13.4, got {text!r}")
            return Coordinate(_number(parts[0].strip()), _number(parts[1].strip()), globe)
        case Link(id):
            return Link(_linked(text, id, ids))
        case Text(_, language):
            return Text(text, language)
        case str():
            return _text(text, proposed, kind, ids)
        case list() | dict():
            return _json(text, proposed)
    if is_number(proposed):
        return _number(text)
    raise ValueError(f"expected no correction of a value of this kind, got {text!r}")


def _text(text: str, proposed: str, kind: str, ids: Callable[[], Collection[str]]) -> str:
    """A text, which may be that of a date, an amount or a link."""
    if kind == "date":
        return dates.write_iso(_date(text))
    if kind == "quantity" and measure(text) is None:
        raise ValueError(f"expected a number with a unit such as {proposed}, got {text!r}")
    if kind == "number":
        _number(text)
    return _linked(text, proposed, ids) if kind == "link" else text


def _number(text: str) -> Any:
    """A number, with a decimal comma where it has one."""
    try:
        return numerals.number(text if "." in text else text.replace(",", ".", 1))
    except ValueError:
        raise ValueError(f"expected a number, got {text!r}") from None


def _date(text: str) -> Date:
    """A date of ISO 8601, or day.month.year."""
    if match := _GERMAN_DATE.fullmatch(text):
        text = f"{match[3]}-{int(match[2]):02}-{int(match[1]):02}"
    with suppress(ValueError):
        date = dates.read_iso(text)
        if isinstance(date, Date):
            return date
    raise ValueError(f"expected a date such as 1912-11-28, 1912-11 or 1912, got {text!r}")


def _linked(id: str, proposed: str, ids: Callable[[], Collection[str]]) -> str:
    """The id of an entity that is there, or that others link to; any id where the proposed one is neither."""
    known = ids()
    if id not in known and proposed in known:
        raise ValueError(f"expected the id of an entity such as {proposed}, got {id!r}")
    return id


def _json(text: str, proposed: Any) -> Any:
    try:
        value = decode({"": json.loads(text)})[""]
    except (ValueError, TypeError):
        value = None
    if type(value) is not type(proposed):
        expected = "a list" if isinstance(proposed, list) else "an object"
        raise ValueError(f"expected {expected} in JSON, got {text!r}")
    return value


def linked_ids(kb: KB) -> set[str]:
    """The ids of all entities, and of those that they link to."""
    ids: set[str] = set()
    for entity in kb:
        ids.add(entity.id)
        ids.update(value.id for _, value in walk(entity.tree) if type(value) is Link)
    return ids


# ---------------------------------------------------------------- applying


def refuse_changed_places(name: str, kb: KB, decisions: Decisions) -> Decisions:
    """The decisions without those that the source has already; LoadError where another value stands in a place."""
    remaining = Decisions(undecided=decisions.undecided)
    ids_read: set[str] = set()
    for entity in given_entities(kb):
        entries = decisions.by_id.get(entity.id, ())
        if entries and entity.id in ids_read:
            raise LoadError(kb.name, f"has more than one entity {entity.id!r}. Say --id to tell them apart.")
        ids_read.add(entity.id)
        for decided in entries:
            if decided.answer != REJECTED and fingerprint_at(entity, decided.path) != decided.row.fingerprint:
                if _stands(entity, decided):
                    continue
                raise LoadError(
                    f"{name}, row {decided.row.place}",
                    f"expected {show(decided.path)} of {entity.id} as it was when this was proposed, got another value there."
                    " Complete the source again, or empty the row's decision.",
                )
            remaining.by_id.setdefault(entity.id, []).append(decided)
    for id, entries in decisions.by_id.items():
        if id not in ids_read and any(decided.answer != REJECTED for decided in entries):
            raise LoadError(
                f"{name}, row {entries[0].row.place}",
                f"expected the id of an entity of {kb.name}, got {id!r}: it was renamed or taken out since. Empty the row's"
                " decision.",
            )
        if id not in ids_read:
            remaining.by_id[id] = entries
    return remaining


def _stands(entity: Entity, decided: Decided) -> bool:
    """Whether a value was written already."""
    values = {**dict(walk(entity.tree)), **(entity.made or {})}
    leaves = dict(walk({"": decided.value}))
    return all(_same(values.get((*decided.path, *within[1:])), leaf) for within, leaf in leaves.items())


def apply(
    kb: KB,
    decisions: Decisions,
    target: str,
    time: str,
    *,
    format: str | None = None,
    insert: bool = False,
    force: bool = False,
    in_place: bool = False,
) -> Report:
    """Write the accepted and corrected values, and remember all answers beside source and target: all files or none."""
    files = _answers_at(kb, target, decisions, time)

    def beside(report: Report, several: ExitStack) -> None:
        for file, answers in files.items():
            answers.write(file, several)

    return write_completions(
        [kb],
        _completions(kb, decisions),
        target,
        format=format,
        insert=insert,
        force=force,
        in_place=in_place,
        beside=beside,
    )


def remember(kb: KB, decisions: Decisions, time: str) -> None:
    """Remember the answers alone, where no value is to be written."""
    with ExitStack() as several:
        for file, answers in _answers_at(kb, None, decisions, time).items():
            answers.write(file, several)


def _answers_at(kb: KB, target: str | None, decisions: Decisions, time: str) -> dict[FilePath, Answers]:
    """The files of answers with their new content; files that have all answers already are left out."""
    new_answers = [_answer(id, decided, time) for id, entries in decisions.by_id.items() for decided in entries]
    files: dict[FilePath, Answers] = {}
    for name in dict.fromkeys([str(kb.path), *([target] if target not in (None, "-") else [])]):
        answers = answers_of(str(name))
        if answers.add(new_answers):
            files[reviewed_of(str(name))] = answers
    return files


def _answer(id: str, decided: Decided, time: str) -> Answer:
    within = decided.row.row.get("within")
    within = within if isinstance(within, int | float) else None
    return Answer(id, decided.path, decided.proposed, decided.answer, within, decided.value, time)


def _completions(kb: KB, decisions: Decisions) -> Iterator[Recorded]:
    for entity in given_entities(kb):
        entries = [decided for decided in decisions.by_id.get(entity.id, ()) if decided.answer != REJECTED]
        filled = {decided.path: Filled(decided.value, _confidence(decided), blank=True) for decided in entries}
        yield Completion(entity, filled), [_row(decided) for decided in entries]


def _confidence(decided: Decided) -> float | None:
    """The confidence of an accepted value; None of a correction."""
    confidence = decided.row.row.get("confidence")
    return confidence if decided.answer == ACCEPTED and isinstance(confidence, int | float) else None


def _row(decided: Decided) -> dict[str, Any]:
    """The row of the sidecar."""
    row = {**decided.row.row, "value": encode(decided.value), "reviewed": decided.answer}
    return {key: entry for key, entry in row.items() if decided.answer == ACCEPTED or key not in KEYS_OF_A_PREDICTION}
