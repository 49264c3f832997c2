"""Answers of people to proposed values: SOURCE.reviewed.jsonl, a row for each answer, kept beside a source.

id, path    the entity, and where in it, as in a sidecar
value       the proposed value
answer      accepted, rejected or corrected
within      of a number, how far off it may be and still count as the same
correction  the value that replaced a corrected one
time        when

A rejected value is never proposed again for its place. A file of RDF gives answers, too: a value that somebody moved out
of the block that kbdisk wrote was accepted, and one that somebody deleted from it was rejected.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, NamedTuple

from kbdisk.completion.constraints import Restriction
from kbdisk.completion.gaps import Gap
from kbdisk.completion.sidecar import Row, leaf_by_leaf, may_be_same, sidecar_rows, value_at
from kbdisk.entity import CLASSES, Date, Entity, Filled, Link, Path, Quantity, read_path, show, without_places
from kbdisk.errors import LoadError
from kbdisk.jsonio import LINE, dump_json, load_json
from kbdisk.loaders import KB, format_row
from kbdisk.loaders.files import SIDECAR, sidecar_of, writing
from kbdisk.loaders.values.tagged_json import decode, encode
from kbdisk.schemas.text.numerals import is_number

REVIEWED = ".reviewed.jsonl"
ACCEPTED, REJECTED, CORRECTED = "accepted", "rejected", "corrected"
REJECTED_BEFORE = "rejected in review"
BROKEN_ANSWER = (
    "expected an answer that kbdisk apply remembers, got something else. Bring the file back, or take the line out."
)


class Answer(NamedTuple):
    """The answer to one proposed value."""

    id: str
    path: Path
    value: Any
    answer: str
    within: float | None = None
    correction: Any = None
    time: str = ""

    def to_json(self) -> dict[str, Any]:
        """The answer as a row of the file."""
        row: dict[str, Any] = {"id": self.id, "path": show(self.path), "value": encode(self.value)}
        row["answer"] = self.answer
        if self.within is not None:
            row["within"] = self.within
        if self.answer == CORRECTED:
            row["correction"] = encode(self.correction)
        return row | {"time": self.time}


@dataclass
class Answers:
    """All answers to values of a source; of several to one value at one place the last counts."""

    rows: dict[tuple[str, Path, str], Answer] = field(default_factory=dict)

    def add(self, answers: Iterable[Answer]) -> bool:
        """Add answers; returns whether any of them is new."""
        before = {key: answer.answer for key, answer in self.rows.items()}
        self.rows |= {(answer.id, answer.path, repr(encode(answer.value))): answer for answer in answers}
        self.__dict__.pop("_rejected", None)
        return before != {key: answer.answer for key, answer in self.rows.items()}

    def refuse_rejected(self, entity: Entity, filled: Mapping[Path, Filled]) -> None:
        """ValueError where any of the values was rejected for its place."""
        rejected = self._rejected_of(entity.id)
        if any(_is_same(value.value, answer) for path, value in filled.items() for answer in rejected.get(path, ())):
            raise ValueError(REJECTED_BEFORE)

    def restrictions(self, entity: Entity, gaps: Iterable[Gap]) -> dict[Path, list[Restriction]]:
        """The restrictions of gaps to other labels and links than the rejected ones, by their paths."""
        rejected = self._rejected_of(entity.id)
        restrictions = {}
        for path in (gap.path for gap in gaps if gap.path in rejected):
            labels = [answer.value for answer in rejected[path] if isinstance(answer.value, str | Link | bool | int)]
            if labels:
                restrictions[path] = [Restriction(forbidden=frozenset(labels))]
        return restrictions

    def rejected_members(self, id: str, path: Path) -> list[Any]:
        """The members of a set of an entity that people have rejected, at whatever place."""
        of_paths = self._rejected_of(id).items()
        return [answer.value for place, answers in of_paths if without_places(place) == path for answer in answers]

    def _rejected_of(self, id: str) -> Mapping[Path, list[Answer]]:
        if "_rejected" not in self.__dict__:
            rejected: dict[str, dict[Path, list[Answer]]] = {}
            for answer in self.rows.values():
                if answer.answer == REJECTED:
                    rejected.setdefault(answer.id, {}).setdefault(answer.path, []).append(answer)
            self.__dict__["_rejected"] = rejected
        answers: Mapping[Path, list[Answer]] = self.__dict__["_rejected"].get(id, {})
        return answers

    def write(self, file: FilePath, several: ExitStack) -> None:
        """Write them together with `several` files."""
        with writing(file, several=several) as stream:
            stream.writelines(dump_json(answer.to_json(), LINE) for answer in self.rows.values())


def _is_same(value: Any, rejected: Answer) -> bool:
    """Whether a value is the rejected one; of a number, whether it would count as the same."""
    rejected_value = rejected.value
    if isinstance(value, Quantity) and isinstance(rejected_value, Quantity):
        if value.unit != rejected_value.unit:
            return False
        value, rejected_value = value.value, rejected_value.value
    if isinstance(value, Date) and isinstance(rejected_value, Date) and _is_year(value) and _is_year(rejected_value):
        value, rejected_value = value.year, rejected_value.year
    if is_number(value) and is_number(rejected_value):
        return abs(float(value) - float(rejected_value)) <= (rejected.within or 0.0)
    return type(value) is type(rejected_value) and bool(value == rejected_value)


def _is_year(date: Date) -> bool:
    return date.year is not None and date.month is None and date.day is None


def reviewed_of(source: str | os.PathLike[str]) -> FilePath:
    """The file with the answers to values of a source."""
    return FilePath(str(sidecar_of(source)).removesuffix(SIDECAR) + REVIEWED)


def answers_of(source: str | os.PathLike[str]) -> Answers:
    """The answers to values of a source; none where there is no file of them."""
    file, answers = reviewed_of(source), Answers()
    if not os.path.isfile(file):  # noqa: PTH113 - Path.is_file raises for long names
        return answers
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise LoadError(str(file), f"cannot be read: {(error.strerror or str(error)).lower()}.") from None
    answers.add(_answer(file, number, line) for number, line in enumerate(lines, 1) if line.strip())
    return answers


def _answer(file: FilePath, number: int, line: bytes) -> Answer:
    try:
        row = load_json(line)
        value, correction = (decode({"": row.get(name)})[""] for name in ("value", "correction"))
        if row["answer"] not in (ACCEPTED, REJECTED, CORRECTED) or not isinstance(
            row.get("within"), int | float | None
        ):
            raise ValueError
        path = read_path(row["path"])
        return Answer(str(row["id"]), path, value, row["answer"], row.get("within"), correction, row.get("time", ""))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise LoadError(str(file), BROKEN_ANSWER, number) from None


# ---------------------------------------------------------------- answers that a file of RDF gives


def answers_in_blocks(kb: KB, time: str) -> dict[bytes, Answer]:
    """The answers that moving values out of our blocks, or deleting them, gives: by the lines of the sidecar for these values.

    A completion without any standing value gives no answers: the file was not edited, but is another one.
    """
    rows = sidecar_rows(kb) if format_row(kb.format).has_blocks and len(kb.parts) == 1 else None
    if rows is None:
        return {}
    answers: dict[bytes, Answer] = {}
    standing: set[Any] = set()  # the times of completions with values that stand
    for entity in kb:
        for row in (row._replace(path=kb.path_named(row.path)) for row in rows.get(entity.id, ())):
            data = load_json(row.line) if row.block else {}
            if not row.block or data.get("reviewed") == CORRECTED:
                continue
            if _stands(entity, row):
                standing.add(data.get("time"))
            elif (answer := _answered(entity, row)) is not None:
                within = data.get("within") if isinstance(data.get("within"), int | float) else None
                answers[row.line] = Answer(entity.id, row.path, row.value, answer, within, time=time)
    return {line: answer for line, answer in answers.items() if load_json(line).get("time") in standing}


def _stands(entity: Entity, row: Row) -> bool:
    """Whether a part of a value is in our blocks, even if it was changed."""
    filled_paths = [without_places(path) for path in entity.made or ()]
    return any(without_places(path) in filled_paths for path in leaf_by_leaf({row.path: row.value}))


def _answered(entity: Entity, row: Row) -> str | None:
    """The answer that a value in no block gives; None where another value stands in its place."""
    if row.path[:1] == CLASSES:
        return ACCEPTED if row.value.id in entity.classes else REJECTED
    if isinstance(row.path[-1], int) and isinstance(row.value, Link | str):
        standing = value_at(entity.tree, row.path[:-1])
        if row.value in (standing if isinstance(standing, list) else [standing]):
            return ACCEPTED  # a member of a set has no place of its own
    leaves = leaf_by_leaf({row.path: row.value})
    values_there = {path: value_at(entity.tree, path) for path in leaves}
    if all(value is None for value in values_there.values()):
        return REJECTED
    return ACCEPTED if all(_contains(values_there[path], leaf) for path, leaf in leaves.items()) else None


def _contains(value: Any, leaf: Any) -> bool:
    """Whether a value, or an item of a list, may be a leaf."""
    items = value if isinstance(value, list) else [value]
    return any(item is not None and may_be_same(item, leaf) for item in items)


def without_lines(lines: Iterable[bytes], answered: Collection[bytes]) -> Iterator[bytes]:
    """Lines of a sidecar without those of answered values, which are in no block any more."""
    return (line for line in lines if line.rstrip(b"\n") not in answered)
