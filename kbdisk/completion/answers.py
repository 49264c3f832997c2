"""What people answered to proposed values: SOURCE.reviewed.jsonl, a row for each answer, kept beside a source.

id, path    the entity, and where in it, as in a sidecar
value       what was proposed
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
from kbdisk.completion.earlier import BLOCKS, Row, is_alike, leaf_by_leaf, rows_beside
from kbdisk.completion.gaps import Gap
from kbdisk.entity import Date, Entity, Filled, Link, Path, Quantity, at, read_path, show, without_places
from kbdisk.errors import LoadError
from kbdisk.jsonio import LINE, dump_json, load_json
from kbdisk.loaders import KB
from kbdisk.loaders.files import SIDECAR, sidecar_of, writing
from kbdisk.loaders.values.tagged_json import decode, encode
from kbdisk.schemas.text.numerals import is_number

REVIEWED = ".reviewed.jsonl"
ACCEPTED, REJECTED, CORRECTED = "accepted", "rejected", "corrected"
REJECTED_BEFORE = "rejected in review"
BROKEN = (
    "expected an answer that kbdisk apply remembers, got something else. Bring the file back, or take the line out."
)


class Answer(NamedTuple):
    """What was answered to one proposed value."""

    id: str
    path: Path
    value: Any
    answer: str
    within: float | None = None
    correction: Any = None
    time: str = ""

    def to_json(self) -> dict[str, Any]:
        """Itself as a row of the file."""
        row: dict[str, Any] = {"id": self.id, "path": show(self.path), "value": encode(self.value)}
        row["answer"] = self.answer
        if self.within is not None:
            row["within"] = self.within
        if self.answer == CORRECTED:
            row["correction"] = encode(self.correction)
        return row | {"time": self.time}


@dataclass
class Answers:
    """All answers to values of a source; of one place and one value the last counts."""

    rows: dict[tuple[str, Path, str], Answer] = field(default_factory=dict)

    def add(self, answers: Iterable[Answer]) -> bool:
        """Take in more answers; whether any of them is new."""
        before = {key: answer.answer for key, answer in self.rows.items()}
        self.rows |= {(answer.id, answer.path, repr(encode(answer.value))): answer for answer in answers}
        self.__dict__.pop("_rejected", None)
        return before != {key: answer.answer for key, answer in self.rows.items()}

    def refuse_rejected(self, entity: Entity, filled: Mapping[Path, Filled]) -> None:
        """ValueError where one of these values was rejected for its place."""
        rejected = self._rejected_of(entity.id)
        if any(_is_same(value.value, answer) for path, value in filled.items() for answer in rejected.get(path, ())):
            raise ValueError(REJECTED_BEFORE)

    def restrictions(self, entity: Entity, gaps: Iterable[Gap]) -> dict[Path, list[Restriction]]:
        """What rejected labels and links leave to be stated in gaps, by their paths: any other label."""
        rejected = self._rejected_of(entity.id)
        restrictions = {}
        for path in (gap.path for gap in gaps if gap.path in rejected):
            labels = [answer.value for answer in rejected[path] if isinstance(answer.value, str | Link | bool | int)]
            if labels:
                restrictions[path] = [Restriction(forbidden=frozenset(labels))]
        return restrictions

    def _rejected_of(self, id: str) -> Mapping[Path, list[Answer]]:
        if "_rejected" not in self.__dict__:
            rejected: dict[str, dict[Path, list[Answer]]] = {}
            for answer in self.rows.values():
                if answer.answer == REJECTED:
                    rejected.setdefault(answer.id, {}).setdefault(answer.path, []).append(answer)
            self.__dict__["_rejected"] = rejected
        of_entity: Mapping[Path, list[Answer]] = self.__dict__["_rejected"].get(id, {})
        return of_entity

    def write(self, file: FilePath, several: ExitStack) -> None:
        """Write them with `several` files."""
        with writing(file, several=several) as stream:
            stream.writelines(dump_json(answer.to_json(), LINE) for answer in self.rows.values())


def _is_same(value: Any, rejected: Answer) -> bool:
    """Whether a value is the rejected one; of a number, whether it would count as the same."""
    other = rejected.value
    if isinstance(value, Quantity) and isinstance(other, Quantity):
        if value.unit != other.unit:
            return False
        value, other = value.value, other.value
    if isinstance(value, Date) and isinstance(other, Date) and _is_year(value) and _is_year(other):
        value, other = value.year, other.year
    if is_number(value) and is_number(other):
        return abs(float(value) - float(other)) <= (rejected.within or 0.0)
    return type(value) is type(other) and bool(value == other)


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
        raise LoadError(str(file), BROKEN, number) from None


# ---------------------------------------------------------------- answers that a file of RDF gives


def answers_in_blocks(kb: KB, time: str) -> dict[bytes, Answer]:
    """What somebody answered by moving values out of our blocks, or deleting them: by the lines that tell of the values.

    Of a completion of which nothing stands any more, the file was not edited but is another: that answers nothing.
    """
    rows = rows_beside(kb) if kb.format in BLOCKS and len(kb.parts) == 1 else None
    if rows is None:
        return {}
    answers: dict[bytes, Answer] = {}
    standing: set[Any] = set()
    for entity in kb:
        for row in (one._replace(path=kb.path_named(one.path)) for one in rows.get(entity.id, ())):
            data = load_json(row.line) if row.block else {}
            if not row.block or data.get("reviewed") == CORRECTED:
                continue
            if _stands(entity, row):
                standing.add(data.get("time"))
            elif (answer := _answered(entity, row)) is not None:
                within = data.get("within") if isinstance(data.get("within"), int | float) else None
                answers[row.line] = Answer(entity.id, row.path, row.value, answer, within, time=time)
    return {line: one for line, one in answers.items() if load_json(line).get("time") in standing}


def _stands(entity: Entity, row: Row) -> bool:
    """Whether something of a value is in our blocks, if changed."""
    made = [without_places(path) for path in entity.made or ()]
    return any(without_places(path) in made for path in leaf_by_leaf({row.path: row.value}))


def _answered(entity: Entity, row: Row) -> str | None:
    """What it says that a value is in no block; nothing where another stands in its place."""
    leaves = leaf_by_leaf({row.path: row.value})
    there = {path: _at(entity, path) for path in leaves}
    if all(value is None for value in there.values()):
        return REJECTED
    return ACCEPTED if all(_is_told(there[path], leaf) for path, leaf in leaves.items()) else None


def _is_told(there: Any, leaf: Any) -> bool:
    values = there if isinstance(there, list) else [there]
    return any(value is not None and is_alike(value, leaf) for value in values)


def _at(entity: Entity, path: Path) -> Any:
    try:
        return at(entity.tree, path)
    except KeyError:
        return None


def without_lines(lines: Iterable[bytes], answered: Collection[bytes]) -> Iterator[bytes]:
    """Lines of a sidecar without those of values that were answered to in a block, and are in none any more."""
    return (line for line in lines if line.rstrip(b"\n") not in answered)
