"""JSON of our own: summaries, reports and sidecars, written and read back exactly. Data of users is read by the loaders.

orjson does almost all of it. What it refuses or would change is handled here: a whole number of any length keeps all
its digits, a Decimal is a number, half a surrogate pair is written as its escape (a file's name may hold one), a key that
is no string as its text. NaN and infinite numbers are null, as JSON has no word for them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import Any, NoReturn

import orjson

from kbdisk.schemas.text.numerals import number, show_digits

LINE = orjson.OPT_APPEND_NEWLINE
PAGE = orjson.OPT_APPEND_NEWLINE | orjson.OPT_INDENT_2

_FOLDING_TABLE = bytes.maketrans(b"123456789.E+", b"0000000000e-")
_LONG_NUMBER, _EXPONENTS = b"0" * 16, (b"e000", b"e-000")  # of folded text: numbers that orjson may round or refuse
_HALF_OF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")  # of surrogates


def dump_json(data: Any, option: int = PAGE) -> bytes:
    """The data as JSON text."""
    try:
        return orjson.dumps(data, option=option)
    except orjson.JSONEncodeError:
        return orjson.dumps(_writable(data), option=option | orjson.OPT_NON_STR_KEYS)


def load_json(text: bytes) -> Any:
    """The data of a JSON text, its numbers to the last digit; ValueError where it is none."""
    if not _may_be_beyond_orjson(text):
        return orjson.loads(text)
    try:
        return json.loads(text, parse_int=number, parse_float=number, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("expected parts within parts, got too many") from None


def _may_be_beyond_orjson(text: bytes) -> bool:
    """Whether a text may have a number or a half of a surrogate pair that orjson would change or refuse."""
    folded = text.translate(_FOLDING_TABLE)  # a regular expression for such numbers takes five times as long
    has_number = _LONG_NUMBER in folded or any(exponent in folded for exponent in _EXPONENTS)
    return has_number or (b"\\u" in text and _HALF_OF_PAIR.search(text) is not None)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"expected a number, got {name}")


def _writable(data: Any) -> Any:
    """The data with what orjson refuses replaced by its JSON text; TypeError where something has none."""
    if isinstance(data, bool) or data is None:
        return data
    if isinstance(data, int):
        return data if -(1 << 63) <= data < 1 << 63 else orjson.Fragment(show_digits(data))
    if isinstance(data, Decimal):
        return orjson.Fragment(str(data)) if data.is_finite() else None
    if isinstance(data, str):
        return data if _is_sound(data) else orjson.Fragment(json.dumps(data))
    if isinstance(data, Mapping):
        return {_key(key): _writable(value) for key, value in data.items()}
    if isinstance(data, list | tuple | set | frozenset):
        return [_writable(item) for item in data]
    if is_dataclass(data) and not isinstance(data, type):
        return {field.name: _writable(getattr(data, field.name)) for field in fields(data)}
    return data


def _key(key: Any) -> Any:
    """A key of an object. orjson takes no text of our own as a key, so half a surrogate pair is shown as its escape."""
    if isinstance(key, str):
        return key if _is_sound(key) else key.encode("utf-8", "backslashreplace").decode()
    return show_digits(key) if isinstance(key, int) and not isinstance(key, bool) else key


def _is_sound(text: str) -> bool:
    """Whether a text has no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
