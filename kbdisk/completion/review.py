"""A review: a row for each proposed value, for people to decide on, and for `kbdisk apply` to read again.

CSV or JSON Lines, with these columns or keys:

id, label, class        the entity
path, property          the place of the value, and its label
value, value_label      the proposed value; of a link the id, and its label
unit                    of an amount
presence, correctness   the probability that the entity has the property; the probability that the value is right if it has
confidence              the probability that the statement is right
low, high, within       the interval of a number; how far off it may be and still count as right
reason, rule            `written`, or why it was held back; the rule that gives it
decision, correction    for people: accept or reject; another value
fingerprint             a digest of what stood in this place
source, sha256, target  the file that was completed, from the folder of the review; its digest; the file that was written
options                 how the source was read
row                     the row of a sidecar for the value, as JSON: a spreadsheet may change what people see

CSV survives spreadsheets: commas, semicolons or tabs, any encoding that they write, a byte order mark, CRLF. Text that
a spreadsheet would run as a formula has an apostrophe before it.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path as FilePath
from typing import IO, Any

from kbdisk.completion.provenance import rows as rows_of
from kbdisk.entity import Completion, Coordinate, Date, Entity, Known, Link, Path, Quantity, Text, show
from kbdisk.errors import LoadError
from kbdisk.jsonio import LINE, dump_json, load_json
from kbdisk.loaders import KB
from kbdisk.loaders.files import writing
from kbdisk.loaders.kb import Report
from kbdisk.loaders.values import formulas
from kbdisk.loaders.values.tagged_json import encode
from kbdisk.schemas.composites import leaves_of, name_of, row_of, show_pattern
from kbdisk.schemas.kinds import LeafKind
from kbdisk.schemas.schema import Schema
from kbdisk.schemas.text import numerals
from kbdisk.schemas.text.dates import show_day
from kbdisk.schemas.text.numerals import is_number

WRITTEN = "written"
FORMATS = (".csv", ".tsv", ".jsonl")
NUMBERS = ("presence", "correctness", "confidence", "low", "high", "within")
SHOWN_DIGITS = 6
BYTES_READ_AT_ONCE = 1 << 20
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
NO_REVIEW = "expected a review that kbdisk complete --review wrote, got a file without the column {!r}. Save all of its columns."
BROKEN_ROW = "expected the content that kbdisk wrote in the column {!r}, got something else. Take it from the review as it was written."


@dataclass(frozen=True)
class ReviewRow:
    """A proposed value, and the decision of people on it."""

    id: str
    path: str
    value: str
    label: str = ""
    class_name: str = ""
    property: str = ""
    value_label: str = ""
    unit: str = ""
    presence: float | None = None
    correctness: float | None = None
    confidence: float | None = None
    low: float | None = None
    high: float | None = None
    within: float | None = None
    reason: str = WRITTEN
    rule: str = ""
    decision: str = ""
    correction: str = ""
    fingerprint: str = ""
    row: Mapping[str, Any] = field(default_factory=dict)  # as the sidecar has it
    expected: Mapping[str, Any] = field(default_factory=dict)  # the kind of value, for a correction
    place: int = 0  # of the row in the file, as a spreadsheet counts


@dataclass(frozen=True)
class Reviewed:
    """The file that a review is of."""

    source: str  # from the folder of the review
    sha256: str
    target: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)  # that the source was read with


COLUMNS = {  # of a CSV, each with the field of a row
    "id": "id",
    "label": "label",
    "class": "class_name",
    "path": "path",
    "property": "property",
    "value": "value",
    "value_label": "value_label",
    "unit": "unit",
    **{name: name for name in NUMBERS},
    "reason": "reason",
    "rule": "rule",
    "decision": "decision",
    "correction": "correction",
    "fingerprint": "fingerprint",
}
ABOUT = ("source", "sha256", "target", "options", "row")
NEEDED = ("decision", "correction", "fingerprint", "source", "row")


def review_row(
    row: Mapping[str, Any],
    value: Any,
    entity: Entity,
    path: Path,
    labels: Mapping[str, str],
    property: str,
    expected: Mapping[str, Any],
    reason: str = WRITTEN,
) -> ReviewRow:
    """The row of a value, from its row of a sidecar."""
    bounds, within = row.get("interval"), row.get("within")
    low, high = bounds if isinstance(bounds, list | tuple) else (None, None)
    linked = value.id if isinstance(value, Link) else value if isinstance(value, str) else ""
    return ReviewRow(
        id=entity.id,
        path=show(path),
        value=as_text(value),
        label=entity.label,
        class_name=str(row.get("class", "")),
        property=property,
        value_label=labels.get(linked, ""),
        unit=(value.unit or "") if isinstance(value, Quantity) else "",
        presence=row.get("presence"),
        correctness=row.get("correctness"),
        confidence=row.get("confidence"),
        low=low,
        high=high,
        within=within if isinstance(within, int | float) else None,
        reason=reason,
        rule=str(row.get("rule", "")),
        fingerprint=fingerprint_at(entity, path),
        row=row,
        expected=expected,
    )


def as_text(value: Any) -> str:
    """A value as people write it in a cell."""
    match value:
        case Link(id):
            return id
        case Text(text, _):
            return text
        case Quantity(number, _):
            return "" if number is None else as_text(number)
        case Coordinate(latitude, longitude):
            return f"{as_text(latitude)}, {as_text(longitude)}"
        case Date():
            return show_day(value) + value.time + value.note
        case Known():
            return value.value
        case bool():
            return "true" if value else "false"
        case list() | dict():
            return dump_json(encode(value), 0).decode()
    if not is_number(value):
        return str(value)
    text = numerals.show(value)
    return text.removesuffix(".0") if isinstance(value, float) else text


def fingerprint_at(entity: Entity, path: Path) -> str:
    """A digest of the given and filled values at a path or on the way to it. It begins with an x, so that it is no number."""
    standing: Any = entity.tree
    for key in path:
        if isinstance(standing, dict) and isinstance(key, str):
            standing = standing.get(key)
        elif isinstance(standing, list) and isinstance(key, int):
            standing = standing[key] if key < len(standing) else None
        else:
            break
    filled = {
        show(filled_path): encode(value)
        for filled_path, value in (entity.made or {}).items()
        if filled_path[: len(path)] == path or path[: len(filled_path)] == filled_path
    }
    data = [show(path), encode(standing), filled]
    return "x" + hashlib.sha256(dump_json(data, 0)).hexdigest()[:12]


def sha256_of(file: str | os.PathLike[str]) -> str:
    """The digest of a file's bytes."""
    digest = hashlib.sha256()
    with FilePath(file).open("rb") as stream:
        while chunk := stream.read(BYTES_READ_AT_ONCE):
            digest.update(chunk)
    return digest.hexdigest()


# ---------------------------------------------------------------- writing


def write_review(stream: IO[bytes], name: str, rows: Iterable[ReviewRow], about: Reviewed) -> int:
    """Write a review as its name says; returns how many rows it has."""
    count = 0
    is_table = not name.lower().endswith(".jsonl")
    delimiter = "\t" if name.lower().endswith(".tsv") else ","
    if is_table:
        stream.write(codecs.BOM_UTF8 + _line([*COLUMNS, *ABOUT], delimiter))  # by which spreadsheets know UTF-8
    for row in rows:
        count += 1
        record = {**row.row, "expected": row.expected}
        if is_table:
            cells = [_cell(getattr(row, name)) for name in COLUMNS.values()]
            review_cells = [about.source, about.sha256, about.target, _ascii(about.options), _ascii(record)]
            stream.write(_line([*cells, *map(_cell, review_cells)], delimiter))
        else:
            data = {name: getattr(row, field) for name, field in COLUMNS.items()}
            stream.write(dump_json({**data, **asdict(about), "row": record}, LINE))
    return count


def _ascii(data: Any) -> str:
    """JSON that no encoding of a spreadsheet harms."""
    return _BEYOND_ASCII.sub(lambda match: json.dumps(match[0])[1:-1], dump_json(data, 0).decode())


def _cell(value: Any) -> str:
    """A cell that a spreadsheet does not run."""
    if value is None:
        return ""
    text = f"{value:.{SHOWN_DIGITS}g}" if isinstance(value, float) else str(value)
    return f"'{text}" if formulas.start_of(text.removeprefix("'")) else text


def _line(cells: Iterable[str], delimiter: str) -> bytes:
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="\r\n").writerow(cells)
    return line.getvalue().encode()


# ---------------------------------------------------------------- reading


def read_review(name: str) -> tuple[Reviewed, list[ReviewRow]]:
    """The file that a review is of, and its rows."""
    try:
        data = FilePath(name).read_bytes()
    except OSError as error:
        raise LoadError(name, f"cannot be read: {(error.strerror or str(error)).lower()}.") from None
    records = _objects(name, data) if name.lower().endswith(".jsonl") else _cells(name, data)
    review: Reviewed | None = None
    rows: list[ReviewRow] = []
    for place, record in records:
        rows.append(_row(name, place, record))
        this = _about(name, place, record)
        if review is not None and this != review:
            raise LoadError(
                f"{name}, row {place}",
                f"expected a row about {review.source}, got one of another review. Apply each alone.",
            )
        review = this
    if review is None:
        raise LoadError(name, "expected rows of a review, got none. Nothing is left to decide.")
    return review, rows


def _row(name: str, place: int, record: Mapping[str, Any]) -> ReviewRow:
    row = dict(_json(name, place, record, "row"))
    try:
        expected = dict(row.pop("expected"))
        id, path = str(row["id"]), str(row["path"])
        row["value"]
    except (KeyError, TypeError, ValueError):
        raise LoadError(f"{name}, row {place}", BROKEN_ROW.format("row")) from None
    return ReviewRow(
        id=id,
        path=path,
        value=_word(record.get("value")),
        reason=_word(record.get("reason")),
        fingerprint=_word(record.get("fingerprint")),
        row=row,
        expected=expected,
        decision=_word(record.get("decision")),
        correction=_word(record.get("correction")),
        place=place,
    )


def _about(name: str, place: int, record: Mapping[str, Any]) -> Reviewed:
    options = _json(name, place, record, "options") if record.get("options") else {}
    source, sha256, target = (_word(record.get(key)) for key in ("source", "sha256", "target"))
    return Reviewed(source, sha256, target, options)


def _json(name: str, place: int, record: Mapping[str, Any], column: str) -> Mapping[str, Any]:
    value = record[column]
    try:
        data = load_json(value.encode()) if isinstance(value, str) else value
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise LoadError(f"{name}, row {place}", BROKEN_ROW.format(column))
    return data


def _word(value: Any) -> str:
    """A cell as text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return numerals.show(value).removesuffix(".0") if is_number(value) else str(value)


def _objects(name: str, data: bytes) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(data.removeprefix(codecs.BOM_UTF8).splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = load_json(line)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise LoadError(f"{name}, row {number}", "expected a JSON object, got something else. Mend the line.")
        for column in NEEDED:
            if column not in record:
                raise LoadError(name, NO_REVIEW.format(column))
        yield number, record


def _cells(name: str, data: bytes) -> Iterator[tuple[int, Mapping[str, str]]]:
    text = _decoded(name, data)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text))
    csv.field_size_limit(1 << 30)
    header: list[str] | None = None
    try:
        for place, cells in enumerate(lines, 1):
            if header is None:
                if len(cells) == 1 and cells[0].lower().startswith("sep"):
                    continue
                header = [cell.strip().lower() for cell in cells]
                for column in NEEDED:
                    if column not in header:
                        raise LoadError(name, NO_REVIEW.format(column))
            elif any(cell.strip() for cell in cells):
                yield (
                    place,
                    {key: _given_cell(cell) for key, cell in zip(header, cells, strict=False)}
                    | dict.fromkeys(header[len(cells) :], ""),
                )
    except csv.Error as error:
        raise LoadError(f"{name}:{lines.line_num}", f"expected CSV, got an error: {error}. Save it anew.") from None


def _given_cell(cell: str) -> str:
    """A cell without the apostrophe that keeps a spreadsheet from running it."""
    return cell[1:] if cell[:1] == "'" and formulas.start_of(cell[1:].removeprefix("'")) else cell


def _decoded(name: str, data: bytes) -> str:
    """Text in whatever a spreadsheet writes: UTF-8, UTF-16 with its mark, or the code page of Western Europe."""
    if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        try:
            return data.decode("utf-16")
        except UnicodeDecodeError:
            raise LoadError(name, "expected UTF-16, got other bytes. Save it as UTF-8.") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _delimiter(text: str) -> str:
    """The delimiter of the cells of the header."""
    first = text.lstrip("\r\n").partition("\n")[0]
    if first.lower().strip().strip('"').startswith("sep=") and len(first.strip().strip('"')) == 5:
        return first.strip().strip('"')[4]
    return max(",;\t|", key=first.count)


# ---------------------------------------------------------------- the rows of a completion


class Reviewing:
    """Makes the rows of the values that completions fill in."""

    def __init__(self, kb: KB, entities: Iterable[Entity], schema: Schema) -> None:
        self.kb, self.schema = kb, schema
        self.labels = {entity.id: entity.label for entity in entities if entity.label}

    def row(self, completion: Completion, path: Path, row: Mapping[str, Any]) -> ReviewRow:
        """The row of one value, from its row of the sidecar."""
        expected = expected_of(self.schema, str(row["class"]), path)
        value = completion.filled[path].value
        return review_row(row, value, completion.entity, path, self.labels, self._property(path), expected)

    def held_back(self, completion: Completion, model: Mapping[str, Any], time: str) -> Iterator[ReviewRow]:
        """The rows of the values that are not written."""
        values = Completion(completion.entity, {path: value for path, (value, _) in completion.held_back.items()})
        for row, (path, (_, why_not)) in zip(rows_of(values, model, time), completion.held_back.items(), strict=True):
            yield replace(self.row(values, path, row), reason=why_not)

    def _property(self, path: Path) -> str:
        """The label of a property in the source, else its last word."""
        words = [key for key in path if isinstance(key, str)]
        iri = getattr(getattr(self.kb, "names", None), "iris", {}).get(words[-1], "")
        return self.labels.get(iri) or words[-1]


def write_review_of(
    name: str, rows: Iterable[ReviewRow], report: Report, source: str, target: str, options: Mapping[str, Any]
) -> int:
    """Write the review of a completion, with the values as the target has them by its report; all of it or nothing."""
    folder = FilePath(name).absolute().parent
    about = Reviewed(
        os.path.relpath(source, folder), sha256_of(source), os.path.relpath(target, folder) if target else "", options
    )
    with writing(name) as stream:
        return write_review(stream, name, _as_taken(rows, report), about)


def _as_taken(rows: Iterable[ReviewRow], report: Report) -> Iterator[ReviewRow]:
    """The rows with the values as a target has them, and with the reasons of those that it refused."""
    refused = {(id, show(path)): why_not for id, path, why_not in report.unwritable}
    spelt = {(id, show(path)): value for (id, path), value in report.spelt.items()}
    for row in rows:
        place = row.id, row.path
        if place in refused:
            row = replace(row, reason=refused[place])
        elif place in spelt:
            row = replace(row, value=as_text(spelt[place]), row={**row.row, "value": encode(spelt[place])})
        yield row


def expected_of(schema: Schema, class_name: str, path: Path) -> dict[str, Any]:
    """The kind of value that a schema has at a path, as plain data, with the settings of a leaf that are not the defaults."""
    known = schema.classes.get(class_name)
    if known is None:
        return {}
    pattern = show_pattern(tuple(key for key in path if isinstance(key, str)))
    for top, property in known.properties.items():
        if property.role == "ignore":
            continue
        for leaf, kind in leaves_of(top, property.kind):
            if show_pattern(tuple(key for key in leaf if isinstance(key, str) and key)) == pattern and isinstance(
                row_of(kind), LeafKind
            ):
                values = {setting.name: (getattr(kind, setting.name), setting.default) for setting in fields(kind)}
                settings = {name: value for name, (value, default) in values.items() if value != default}
                plain = {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}
                return {"kind": name_of(kind), **{name: value for name, value in plain.items() if _is_plain(value)}}
        if show_pattern(top) == pattern:
            return {"kind": type(property.kind).__name__.lower()}
    return {}


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float | bool | list)
