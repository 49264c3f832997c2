"""QuickStatements, version 1: filled values as commands that a Wikibase carries out.

    Q42<TAB>P2048<TAB>1.96U11573
    Q42<TAB>P569<TAB>+1952-03-11T00:00:00Z/11

Only filled values are written, and none over a given value. A value that QuickStatements cannot express is reported, never
changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, BinaryIO
from urllib.parse import unquote

from kbdisk.entity import NOVALUE, SOMEVALUE, Completion, Coordinate, Date, Entity, Known, Link, Path, Quantity, Text
from kbdisk.errors import LoadError
from kbdisk.loaders.files import Source
from kbdisk.loaders.kb import KB, Options, Report
from kbdisk.loaders.wikibase.data_model import EARTH, NO_UNIT
from kbdisk.schemas.text import numerals
from kbdisk.schemas.text.calendars import DAY, JULIAN, MONTH, PRECISIONS, YEAR

TEXT_COMMANDS = {"label": "L", "description": "D", "alias": "A"}  # key -> command, followed by a language

_ID = re.compile(r"[QPM][1-9][0-9]*|L[1-9][0-9]*(?:-[FS][1-9][0-9]*)?")
_KEY = re.compile(r"P[1-9][0-9]*")
_ITEM = re.compile(r"(.*/)?(Q[1-9][0-9]*)")
_FILE = re.compile(r"https?://commons\.wikimedia\.org/(?:wiki/Special:FilePath|data/main)/(.+)")
_LANGUAGE = re.compile(r"[A-Za-z]+(?:-[A-Za-z0-9]+)*")


def load(source: Source, format: str, options: Options) -> KB:
    """Refused: commands are no knowledge base."""
    raise LoadError(
        source.name, f"expected a knowledge base, got {format}, which is only written. Load the source itself."
    )


def write(items: Iterable[Entity | Completion], stream: BinaryIO, format: str, only_new: bool) -> Report:
    """Write a command for each filled value; entities without any need none."""
    report = Report()
    for item in items:
        if isinstance(item, Completion):
            for path, filled_value in item.filled.items():
                _write_value(item.entity, path, filled_value.value, stream, report)
    return report


def _write_value(entity: Entity, path: Path, value: Any, stream: BinaryIO, report: Report) -> None:
    try:
        _check_place(entity, path, value)
        lines = [_command(entity.id, path[0], item) for item in (value if isinstance(value, list) else [value])]
    except ValueError as error:
        report.unwritable.append((entity.id, path, str(error)))
        return
    stream.write("".join(line + "\n" for line in lines).encode())
    report.written += 1


def _check_place(entity: Entity, path: Path, value: Any) -> None:
    """ValueError unless the value can be a new statement: it is no part of a given one, and no second label of a language."""
    if len(path) > 2 or (len(path) == 2 and not isinstance(path[1], int)):
        raise ValueError("a part of a value cannot be added to it, only a whole statement")
    try:
        given = entity.get(path)
    except KeyError:
        given = None
    if given is not None:
        raise ValueError("there is a value already, and given values stay")
    if path[0] in ("label", "description") and isinstance(value, Text):
        texts = entity.tree.get(path[0])
        if any(
            isinstance(text, Text) and text.language == value.language
            for text in (texts if isinstance(texts, list) else [texts])
        ):
            raise ValueError(f"there is a {path[0]} in this language already, and given values stay")


def _command(id: str, key: str | int, value: Any) -> str:
    space, name = _split_id(id)
    if _ID.fullmatch(name) is None:
        raise ValueError(f"expected the id of a Wikibase's entity, such as Q42, got {id!r}")
    if key in TEXT_COMMANDS and isinstance(value, Text):
        return f"{name}\t{TEXT_COMMANDS[str(key)]}{_language(value)}\t{_quoted(value.text)}"
    if not isinstance(key, str) or _KEY.fullmatch(key) is None:
        raise ValueError(f"expected a property of a Wikibase, such as P31, got {key!r}")
    spell = SPELLERS.get(type(value))
    if spell is None:
        raise ValueError(f"a Wikibase has no {type(value).__name__} values")
    return f"{name}\t{key}\t{spell(value, space)}"


def _split_id(id: str) -> tuple[str, str]:
    """The base of the Wikibase, which may be empty, and the id after it."""
    cut = id.rfind("/") + 1
    return id[:cut], id[cut:]


# ---------------------------------------------------------------- values


def _link(link: Link, space: str) -> str:
    """An entity of the same Wikibase by its id; a page or a file is a string."""
    before, name = _split_id(link.id)
    if _ID.fullmatch(name) and before == space:
        return name
    if ":" not in link.id or link.id.startswith("_:"):
        raise ValueError(f"expected an entity of the Wikibase or a page, got {link.id!r}")
    file = _FILE.fullmatch(link.id)
    return _quoted(unquote(file[1]) if file else link.id)


def _quantity(quantity: Quantity, space: str) -> str:
    if quantity.value is None or quantity.unit is None:
        raise ValueError("the number or its unit is not known")
    amount = _number(quantity.value, space)
    if quantity.unit in NO_UNIT:
        return amount
    item = _ITEM.fullmatch(quantity.unit)
    if item is None or (space and item[1] != space):
        raise ValueError(f"expected a unit that is an item of the Wikibase, got {quantity.unit!r}")
    return f"{amount}U{item[2][1:]}"


def _number(number: Any, space: str) -> str:
    return numerals.show(number).removesuffix(".0")


def _date(date: Date, space: str) -> str:
    """A date with years BCE counted from 1, as a Wikibase does; an unknown month or day is 00."""
    precision = PRECISIONS.index(date.precision) if date.precision in PRECISIONS else -1
    if not date.precision:
        precision = DAY if date.day else MONTH if date.month else YEAR
    if precision < 0 or precision > DAY or date.time or date.note or (date.month or 0) > 12:
        raise ValueError("a Wikibase holds whole days or longer, and no season or doubt")
    if date.year is None or (precision >= MONTH and date.month is None) or (precision == DAY and date.day is None):
        raise ValueError("a part of the date is not known")
    if date.calendar not in ("", JULIAN):
        raise ValueError(f"expected the Gregorian or the Julian calendar, got {date.calendar!r}")
    year = f"+{date.year:04d}" if date.year > 0 else f"-{1 - date.year:04d}"
    return f"{year}-{date.month or 0:02d}-{date.day or 0:02d}T00:00:00Z/{precision}{'/J' if date.calendar else ''}"


def _place(place: Coordinate, space: str) -> str:
    if place.latitude is None or place.longitude is None:
        raise ValueError("half of the place is not known")
    if place.globe not in EARTH:
        raise ValueError(f"expected a place on the Earth, got one on {place.globe!r}")
    return f"@{_number(place.latitude, space)}/{_number(place.longitude, space)}"


def _quoted(text: str) -> str:
    if any(ord(character) < 32 for character in text):
        raise ValueError("a string must be of one line, without tabs")
    return f'"{text}"'


def _language(text: Text) -> str:
    if _LANGUAGE.fullmatch(text.language) is None:
        raise ValueError(f"expected a language such as en, got {text.language!r}")
    return text.language


def _known(known: Known, space: str) -> str:
    return {SOMEVALUE: "somevalue", NOVALUE: "novalue"}[known]


SPELLERS: dict[type, Callable[[Any, str], str]] = {
    Link: _link,
    Quantity: _quantity,
    Date: _date,
    Coordinate: _place,
    Text: lambda text, space: f"{_language(text)}:{_quoted(text.text)}",
    Known: _known,
    str: lambda text, space: _quoted(text),
    **dict.fromkeys((int, float, Decimal), _number),
}
