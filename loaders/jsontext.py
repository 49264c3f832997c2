"""The text of one JSON object, read exactly: orjson's tree, but for what orjson would lose.

A number that a float would not hold comes out as an int or a Decimal, and a key that stands twice is noted
(the last counts). NaN, Infinity and -Infinity, which Python's json writes, are read as null and noted. Whatever is
wrong is a Fault, in plain words, with the place in the text.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import Any, NoReturn

import orjson

from kbdisk.entity import Tree
from kbdisk.errors import LoadError
from kbdisk.loaders.files import Source
from kbdisk.loaders.values import tagged_json
from kbdisk.loaders.values.tagged_json import MAX_DEPTH

BOM = codecs.BOM_UTF8

_RUNS = bytes(48 if 48 <= byte < 58 or byte == 46 else byte for byte in range(256))  # digits and points as 0
_SAMPLED = b"0000"  # what sixteen digits leave of themselves in every fourth byte
_TINY = re.compile(rb"-(?<=[eE]-)[0-9]{3}")  # begins with one byte, which is found fast
_LONG_NUMBER = re.compile(rb"(?<![0-9.])(?:-?[0-9][0-9.]{15,}(?:[eE][+-]?[0-9]+)?|-?[0-9.]+[eE][+-]?[0-9]{3,})")

_BRACKET = re.compile(rb'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+"?+)*+([{}\[\]]|\Z)', re.DOTALL)  # or the end
NOT_FINITE = (b"NaN", b"Infinity", b"-Infinity")  # what Python's json writes, and JSON does not have
LONGEST_LINE = 1 << 24  # bytes of a first line that is looked at
GAP = "NaN or Infinity, which JSON does not have: a gap"

_STRING_OR_NOT_FINITE = re.compile(rb'"(?:[^"\\]++|\\.)*+"?+|(?<![\w.+-])(-?Infinity|NaN)(?![\w.+-])', re.DOTALL)
_NAN = re.compile(r"-?(?:NaN|Infinity|nan|inf)\b", re.IGNORECASE)
_ESCAPE = re.compile(  # group 1: half of a character
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_TOKEN = re.compile(r'"[^"\n]{0,30}"?|[\w.+-]{1,30}|\S')
_KINDS = {list: "a list", str: "a string", bool: "true or false", type(None): "null"}
_EXPECTED = {  # what Python's own reader says, and what we say
    "Expecting value": "a value",
    "Expecting ',' delimiter": "a comma or the closing bracket",
    "Expecting property name enclosed in double quotes": "a key in double quotes",
    "Expecting ':' delimiter": "a colon after the key",
    "Unterminated string starting at": "a closing quote for the string",
    "Invalid control character at": "no raw control character in a string (write \\n, \\t)",
    "Invalid \\escape": "an escape such as \\n or \\u00e9",
    "Invalid \\uXXXX escape": "four hexadecimal digits after \\u",
    "Extra data": "the end of the object",
    "Illegal trailing comma before end of object": "no comma before a closing bracket",
    "Illegal trailing comma before end of array": "no comma before a closing bracket",
}


class Fault(ValueError):  # noqa: N818 - never seen by a user
    """What is wrong with a text, and where in it."""

    def __init__(self, problem: str, place: int = 0) -> None:
        super().__init__(problem)
        self.problem = problem
        self.place = place  # bytes or characters into the text, at the same line in both

    def at(self, source: str, line: int, text: bytes) -> LoadError:
        """The error for a text that begins on a line of a source."""
        before = text.decode("utf-8", "surrogateescape")[: self.place]
        return LoadError(source, self.problem, line + before.count("\n"))


def read(text: bytes) -> tuple[Tree, list[str]]:
    """One JSON object as a tree, and what was odd in it."""
    if len(text) > 2 * MAX_DEPTH and too_deep(text):
        raise Fault(f"expected at most {MAX_DEPTH} levels of brackets, got more. Flatten the data.")
    notes: list[str] = []
    try:
        tree = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        cleared, count = with_gaps(text)
        if count:
            tree, notes = read(cleared)
            return tree, notes + [GAP] * count
        if "infinity" not in str(error):
            raise _fault(text, error) from None
        tree, notes = _exactly(text)
    else:
        if type(tree) is dict and not Exactness().holds(text, tree):
            tree, notes = _exactly(text)
    if type(tree) is not dict:
        raise Fault(f"expected a JSON object, got {kind_of(tree)}. " + 'Write each entity as {"name": value, ...}.')
    return (tagged_json.decode(tree) if may_be_tagged(text) else tree), notes


def with_gaps(text: bytes) -> tuple[bytes, int]:
    """A text with null for each NaN, Infinity and -Infinity outside of strings, and how many there were."""
    if b"NaN" not in text and b"Infinity" not in text:
        return text, 0
    count = 0

    def null(match: re.Match[bytes]) -> bytes:
        nonlocal count
        count += match[1] is not None
        return match[0] if match[1] is None else b"null"

    return _STRING_OR_NOT_FINITE.sub(null, text), count


def kind_of(value: Any) -> str:
    """What a JSON value is, in words."""
    return "an object" if type(value) is dict else _KINDS.get(type(value), "a number")


def may_be_tagged(text: bytes) -> bool:
    """Whether a key may begin with "@"; one character is found much faster than several."""
    return (b"@" in text and b'"@' in text) or (b"\\" in text and b"\\u0040" in text)


class Exactness:
    """Whether a value read by orjson is all that its text says: each key once, each number to its last digit.

    The cheapest proof is that orjson writes the same text again, but for blanks; it is not tried again on a
    source whose text is not like that.
    """

    def __init__(self) -> None:
        self.canonical = True

    def holds(self, text: bytes, value: Any) -> bool:
        again = orjson.dumps(value)
        if self.canonical:
            if len(text) - len(again) < 1 + len(text) // 20 and again == text.replace(b"\n", b""):
                return True  # without blanks
            if again.translate(None, b" ") == text.translate(None, b" \t\r\n"):
                return True
            self.canonical = False
        if b"\\" in text and (b"\\u003a" in text or b"\\u003A" in text):
            return False  # a colon in disguise: counting them tells nothing
        if again.count(b":") != text.count(b":"):
            return False
        if _SAMPLED not in text[::4].translate(_RUNS) and not _TINY.search(text):
            return True
        return all(map(_held, _LONG_NUMBER.findall(text)))


def _held(number: bytes) -> bool:
    """Whether orjson reads a number exactly."""
    text = number.decode()
    try:
        if text.lstrip("-").isdigit():
            return len(text) < 19 or -(1 << 63) <= tagged_json.read_int(text) < 1 << 64
        return type(tagged_json.read_float(text)) is float
    except ValueError:
        return False  # digits within a string, or too many


def too_deep(text: bytes) -> bool:
    """Whether brackets stand within brackets beyond what is read."""
    if text.count(b"{") + text.count(b"[") <= MAX_DEPTH:
        return False
    depth = 0
    for bracket in _BRACKET.finditer(text):
        depth += 1 if bracket[1] in (b"{", b"[") else -1
        if depth > MAX_DEPTH:
            return True
    return False


def _exactly(text: bytes) -> tuple[Any, list[str]]:
    """The value by Python's own reader, whose numbers and keys can be looked at one by one."""
    notes: list[str] = []

    def part(pairs: list[tuple[str, Any]]) -> Tree:
        tree = dict(pairs)
        if len(tree) < len(pairs):
            seen: set[str] = set()
            twice = dict.fromkeys(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            notes.extend(f"the key {key!r} stands twice in an object; the last one counts" for key in twice)
        return tree

    try:
        value = json.loads(
            text.decode(),
            object_pairs_hook=part,
            parse_int=tagged_json.read_int,
            parse_float=tagged_json.read_float,
            parse_constant=_refused,
        )
    except json.JSONDecodeError as error:
        raise _fault(text, error) from None
    except UnicodeDecodeError:
        raise _fault(text, json.JSONDecodeError("", "", 0)) from None
    except ValueError as error:
        raise Fault(f"{error}.") from None
    _no_half_characters(text.decode())
    return value, notes


def _refused(name: str) -> NoReturn:
    raise ValueError(f"expected a number, got {name}. Write null for a missing value")


# ---------------------------------------------------------------- what is wrong


def _fault(text: bytes, error: json.JSONDecodeError) -> Fault:
    """What is wrong, better said than by the reader that found it."""
    try:
        plain = text.decode()
    except UnicodeDecodeError as wrong:
        return Fault(
            f"expected UTF-8, got the byte {text[wrong.start]:#04x}. Save the file as UTF-8.",
            _characters(text, wrong.start),
        )
    try:
        _no_half_characters(plain)
        json.loads(plain, parse_constant=_refused, parse_int=len, parse_float=len)
    except Fault as fault:
        return fault
    except json.JSONDecodeError as found:
        error = found
    except ValueError:
        place = next(
            (match.start() for match in _NAN.finditer(plain) if plain[match.start() - 1 : match.start()] != '"'), 0
        )
        return Fault(f"expected a number, got {_shown(plain, place)}. Write null for a missing value.", place)
    if _NAN.match(plain, error.pos):
        return Fault(f"expected a number, got {_shown(plain, error.pos)}. Write null for a missing value.", error.pos)
    expected = _EXPECTED.get(error.msg, "valid JSON")
    return Fault(f"expected {expected}, got {_shown(plain, error.pos)}. Mend the JSON there.", error.pos)


def _no_half_characters(text: str) -> None:
    """Python's reader lets a lone surrogate pass, which no file can hold as text."""
    for match in _ESCAPE.finditer(text):
        if match[1]:
            problem = (
                f"expected a whole character, got one half of a surrogate pair, {match[0]}. Write the character itself."
            )
            raise Fault(problem, match.start())


def _characters(text: bytes, place: int) -> int:
    return len(text[:place].decode("utf-8", "surrogateescape"))


def _shown(text: str, place: int) -> str:
    """What stands at a place, short enough for a message."""
    token = _TOKEN.search(text, place)
    return repr(token[0]) if token else "the end of the text"


def layout_of(source: Source) -> str | None:
    """`jsonl` where each of the first two lines begins an object, the first a whole one; `json` where a list begins."""
    with source.open() as stream:
        lines = (line for line in iter(lambda: stream.readline(LONGEST_LINE).removeprefix(BOM), b"") if line.strip())
        first, second = next(lines, b""), next(lines, b"")
    if first.lstrip()[:1] == b"[":
        return "json"
    if second.lstrip()[:1] != b"{":
        return None
    try:
        read(first)
    except Fault:
        return None
    return "jsonl"


def check_encoding(source: Source) -> None:
    """Say so where a source is UTF-16 or UTF-32."""
    with source.open() as stream:
        start = stream.read(4)
    if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) or b"\0" in start:
        wide = start == codecs.BOM_UTF32_BE or start[2:4] == b"\0\0" or start[:3] == b"\0\0\0"
        name = "UTF-32" if wide else "UTF-16"
        raise LoadError(source.name, f"expected UTF-8, got {name}. Convert it: iconv -f {name} -t UTF-8.")
