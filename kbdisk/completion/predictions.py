"""Predictions: a table of what the model predicts for the gaps of a source, before anything is decided; saved and read again.

The table is JSON Lines. Its first line says what the predictions depend on, and each other line is a prediction:

row, id     the entity: its place in the source, counted from 0, and its id
path        the gap
presence    the probability that the entity has such a value, before calibration; null where the model does not predict it
reason      why no value was predicted, where none was
parts       the leaves of a complete value
answers     a leaf, its slot in the model, the probability that it is right, the interval of a number, and its tolerance
leaves      a leaf and its value
draws       values that were drawn besides, each leaf by leaf

Leaves are paths from the gap. Lines are in the order of the source. Up to a size they are in memory, beyond it in a temporary
file without a name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from os import SEEK_END
from pathlib import Path as FilePath
from typing import Any

import orjson

from kbdisk.completion.gaps import Gap
from kbdisk.completion.plan import Plan, Planned
from kbdisk.entity import Path, show
from kbdisk.errors import LoadError
from kbdisk.jsonio import LINE, dump_json, load_json
from kbdisk.loaders.files import spooled, writing
from kbdisk.loaders.values.tagged_json import decode, encode, read_int
from kbdisk.model.estimates import Estimate
from kbdisk.schemas.text.numerals import show_digits

FORMAT = 1
MAX_BYTES_IN_MEMORY = 1 << 26
BYTES_READ_AT_ONCE = 1 << 20
LARGEST_INTEGER = (1 << 63) - 1
NO_PREDICTIONS = "expected predictions that kbdisk saved, got something else. Name another file, or move this one away."
OTHER_PREDICTIONS = "expected predictions {}, got those {}. Name another file, or move this one away."
NAMED_DEPENDENCIES = {  # what predictions depend on -> how these are named, and others
    "source": ("of this source", "of another"),
    "model": ("by this model", "by another"),
    "shapes": ("with these shapes", "with others"),
}


@dataclass(eq=False)
class Prediction:
    """The values that were predicted for a gap, leaf by leaf; or the reason why none was."""

    gap: Gap
    why_not: str = ""
    presence: float | None = None
    leaves: dict[Path, Any] = field(default_factory=dict)
    answers: dict[Path, Estimate] = field(default_factory=dict)
    draws: list[dict[Path, Any]] = field(default_factory=list)
    tokens: dict[Path, int] = field(default_factory=dict)  # of all leaves of the value: their tokens in the batch
    presence_parts: tuple[float, float] | None = None  # by the networks and by trees, where there are trees; not saved

    def line(self, row: int, id: str) -> bytes:
        """The line of the table."""
        start = len(self.gap.path)
        data: dict[str, Any] = {"row": row, "id": id, "path": self.gap.path, "presence": _plain(self.presence)}
        data["reason"] = self.why_not
        data["parts"] = [path[start:] for path in self.tokens]
        data["answers"] = [
            [path[start:], answer.slot, _plain(answer.confidence), _plain_interval(answer), _plain(answer.within)]
            for path, answer in self.answers.items()
        ]
        data["leaves"] = _leaves(self.leaves, start)
        if self.draws:
            data["draws"] = [_leaves(drawn, start) for drawn in self.draws]
        return dump_json(data, LINE)

    @classmethod
    def of(cls, data: Mapping[str, Any], gap: Gap) -> Prediction:
        """The prediction of a line that was read, for the gap that it is about. Its tokens are of no batch any more."""
        leaves = _read_leaves(data["leaves"], gap.path)
        answers: dict[Path, Estimate] = {}
        for within, slot, confidence, interval, tolerance in data["answers"]:
            path = (*gap.path, *within)
            chance = _number(confidence)
            if chance is None or type(slot) is not int:
                raise ValueError
            answers[path] = Estimate(
                data["row"], slot, 0, leaves.get(path), chance, _interval(interval), _number(tolerance)
            )
        draws = [_read_leaves(drawn, gap.path) for drawn in data.get("draws", ())]
        tokens = dict.fromkeys(((*gap.path, *within) for within in data["parts"]), 0)
        presence = _number(data["presence"])
        return cls(gap, str(data["reason"]), presence, leaves, answers, draws, tokens)


def predictions_of(records: Iterable[Mapping[str, Any]], planned: Planned) -> list[Prediction]:
    """The predictions of lines that were read, for the gaps of an entity."""
    gaps = {gap.path: gap for gap in (*planned.gaps, *planned.sets)}
    by_path = {tuple(data["path"]): data for data in records}
    return [Prediction.of(data, gaps[path]) for path, data in by_path.items()]


class Predictions:
    """The table of predictions."""

    def __init__(
        self,
        about: Callable[[], Mapping[str, Any]],
        covers_all_gaps: bool,
        coming: Iterable[Sequence[bytes]] = (),
        max_bytes_in_memory: int = MAX_BYTES_IN_MEMORY,
    ) -> None:
        """A table of the lines of each entity, which are taken as they come.

        `about` computes what the predictions depend on, see `Predicting.about`, which takes a while.
        With `covers_all_gaps` other thresholds need no new prediction.
        """
        self._about = about
        self.covers_all_gaps = covers_all_gaps
        self.name = "predictions"  # of the file that they are read from
        self._count = 0
        self._lines = spooled(self, max_bytes_in_memory)
        self._coming = iter(coming)

    def __len__(self) -> int:
        return self.count

    @property
    def count(self) -> int:
        """The number of gaps, once all predictions have come."""
        self.finish()
        return self._count

    def __repr__(self) -> str:
        """The number of gaps with a prediction, or with the reason for none."""
        return f"<Predictions: {self.count:,} gaps>"

    @cached_property
    def about(self) -> Mapping[str, Any]:
        """The inputs that the predictions depend on."""
        return self._about()

    def finish(self) -> None:
        """Take all lines that are still to come."""
        while self._take():
            pass

    def _take(self) -> bool:
        """Take the lines of an entity; False where there is none left."""
        lines = next(self._coming, None)
        if lines is None:
            return False
        self._lines.seek(0, SEEK_END)
        self._lines.writelines(lines)
        self._count += len(lines)
        return True

    @property
    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each prediction: its value, presence and correctness by the model itself, the interval, the reason."""
        for data in self._data():
            gap_path = tuple(data["path"])
            leaves = _read_leaves(data["leaves"], ())
            answers = data["answers"]
            is_predicted = bool(leaves) and not data["reason"]
            intervals = {show(tuple(path)): _interval(interval) for path, _, _, interval, _ in answers if interval}
            yield {
                "row": data["row"],
                "id": data["id"],
                "path": show(gap_path),
                "value": _by_name(leaves) if is_predicted else None,
                "presence": _read(data["presence"]),
                "correctness": math.prod(_read(confidence) for _, _, confidence, _, _ in answers)
                if is_predicted
                else None,
                "interval": next(iter(intervals.values())) if len(intervals) == 1 else intervals or None,
                "reason": data["reason"],
            }

    def beside(self, plan: Plan) -> Iterator[tuple[Planned, list[Prediction]]]:
        """Each entity of the plan with the predictions for its gaps. LoadError where they are of another source."""
        records = self._data()
        record = next(records, None)
        for planned in plan:
            of_entity: list[dict[str, Any]] = []
            while record is not None and record["row"] == planned.row:
                of_entity.append(record)
                record = next(records, None)
            paths = {tuple(data["path"]) for data in of_entity}
            gaps = {gap.path for gap in (*planned.gaps, *planned.sets)}
            if not paths <= gaps or (self.covers_all_gaps and len(paths) < len(gaps)):
                raise LoadError(self.name, OTHER_PREDICTIONS.format(*NAMED_DEPENDENCIES["source"]))
            try:
                predictions = predictions_of(of_entity, planned)
            except (ValueError, TypeError, KeyError):
                raise LoadError(self.name, NO_PREDICTIONS) from None
            yield planned, predictions

    def refuse_other(self, about: Mapping[str, Any]) -> None:
        """LoadError where predictions that depend on `about` are not these."""
        for name, value in about.items():
            stored = self.about.get(name)
            if name == "thresholds" and self.covers_all_gaps:
                continue
            if stored != value:
                options = f"with {_shown(name, value)}", f"with {_shown(name, stored)}"
                raise LoadError(self.name, OTHER_PREDICTIONS.format(*NAMED_DEPENDENCIES.get(name, options)))

    # ------------------------------------------------------------ files

    def save(self, file: str | FilePath) -> None:
        """Write the table, all of it or nothing."""
        head = {"kbdisk": "predictions", "format": FORMAT, "count": self.count}
        head |= {"covers_all_gaps": self.covers_all_gaps, "about": self.about}
        with writing(file) as stream:
            stream.write(dump_json(head, LINE))
            for block in self._blocks():
                stream.write(block)

    @classmethod
    def read(cls, file: str | FilePath, max_bytes_in_memory: int = MAX_BYTES_IN_MEMORY) -> Predictions:
        """A table that was saved; LoadError where the file is none, or was cut short."""
        name = str(file)
        try:
            with FilePath(file).open("rb") as stream:
                head = _head(name, stream.readline())
                about = head["about"]
                table = cls(lambda: about, head["covers_all_gaps"], max_bytes_in_memory=max_bytes_in_memory)
                table.name = name
                row = 0
                for number, line in enumerate(stream, 2):
                    if line.strip():
                        row = _checked(name, number, line, row)
                        table._lines.write(line.rstrip(b"\n") + b"\n")
                        table._count += 1
        except OSError as error:
            raise LoadError(name, f"cannot be read: {(error.strerror or str(error)).lower()}.") from None
        if table.count != head["count"]:
            raise LoadError(name, f"expected {head['count']:,} predictions, got {table.count:,}. Bring the file back.")
        return table

    def _blocks(self) -> Iterator[bytes]:
        """The bytes of all lines, as they come. Several readers may be at different places."""
        place = 0
        while True:
            self._lines.seek(place)
            block = self._lines.read(BYTES_READ_AT_ONCE)
            if not block and not self._take():
                break
            place += len(block)
            yield block

    def _data(self) -> Iterator[dict[str, Any]]:
        rest = b""
        for block in self._blocks():
            *lines, rest = (rest + block).split(b"\n")
            yield from map(read_line, lines)


def _shown(name: str, value: Any) -> str:
    """A dependency of predictions as text."""
    if isinstance(value, Mapping):
        return " ".join(f"{key} {_shown('', entry)}" for key, entry in value.items())
    words = ", ".join(map(str, value)) if isinstance(value, list) else "none" if value is None else str(value)
    return f"{name} {words or 'none'}".strip()


def _by_name(leaves: Mapping[Path, Any]) -> Any:
    """The value itself where it is one leaf; else each leaf by its path."""
    if leaves.keys() == {()}:
        return leaves[()]
    return {show(path) if all(path) else "".join(map(str, path)): leaf for path, leaf in leaves.items()}


# ---------------------------------------------------------------- lines


def read_line(line: bytes) -> Any:
    """A line of a table. All numbers in it are those of orjson, to the last digit."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return load_json(line)  # half of a surrogate pair


def _head(name: str, line: bytes) -> dict[str, Any]:
    try:
        head: dict[str, Any] = read_line(line)
        types = {"count": int, "covers_all_gaps": bool, "about": dict}
        if head["kbdisk"] != "predictions" or any(type(head[key]) is not kind for key, kind in types.items()):
            raise ValueError
    except (ValueError, TypeError, KeyError):
        raise LoadError(name, NO_PREDICTIONS) from None
    if head.get("format") != FORMAT:
        raise LoadError(name, f"expected predictions of format {FORMAT}, got {head.get('format')}. Predict again.")
    return head


def _checked(name: str, number: int, line: bytes, earlier_row: int) -> int:
    """The row that a line is of; LoadError where it is no prediction, or out of order."""
    try:
        data = read_line(line)
        row, keys = data["row"], [type(key) for key in data["path"]]
        if type(row) is not int or row < earlier_row or not keys or not {str, int}.issuperset(keys):
            raise ValueError
    except (ValueError, TypeError, KeyError):
        raise LoadError(name, NO_PREDICTIONS, number) from None
    return int(row)


def _number(value: Any) -> float | None:
    """A number, or none; ValueError where it is something else."""
    number = _read(value)
    if number is not None and type(number) not in (int, float):
        raise ValueError
    return number  # type: ignore[no-any-return]


def _plain_interval(answer: Estimate) -> list[Any] | None:
    return None if answer.interval is None else [_plain(bound) for bound in answer.interval]


def _interval(bounds: Any) -> tuple[float, float] | None:
    if bounds is None:
        return None
    low, high = map(_number, bounds)
    if low is None or high is None:
        raise ValueError
    return low, high


def _leaves(leaves: Mapping[Path, Any], start: int) -> list[Any]:
    return [[path[start:], _plain(leaf)] for path, leaf in leaves.items()]


def _read_leaves(leaves: Iterable[Any], above: Path) -> dict[Path, Any]:
    return {(*above, *within): _read(leaf) for within, leaf in leaves}


def _plain(value: Any) -> Any:
    """A value as JSON has it: tuples, numbers that are not finite, and those that orjson would round, are tagged."""
    if isinstance(value, tuple):
        return {"@tuple": [_plain(item) for item in value]}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"@float": repr(value)}
    if type(value) is int and abs(value) > LARGEST_INTEGER:
        return {"@integer": show_digits(value)}
    return {"@decimal": str(value)} if isinstance(value, Decimal) else encode(value)


def _read(value: Any) -> Any:
    if isinstance(value, list):
        return [_read(item) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"@tuple": items}:
            return tuple(_read(item) for item in items)
        case {"@float": text}:
            return float(text)
        case {"@integer": digits}:
            return read_int(digits)
    return decode({"": value})[""]
