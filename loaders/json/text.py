"""JSON text: the exact value of one object, and the values of a large document one after the other.

`parse_object` is orjson's tree without orjson's losses: a number that a float would not hold becomes an int or a Decimal,
and a key that occurs twice in an object is noted (the last one counts). NaN, Infinity and -Infinity, which Python's json
writes, are read as null and noted. Every error is a Fault, in plain words, with its place in the text.

`Scanner` goes through a document as bytes, with never more in memory than one value needs. It looks at brackets and strings
only; the reader of a value checks its content.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple, NoReturn

import orjson

from kbdisk.entity import Tree
from kbdisk.errors import LoadError, setting
from kbdisk.loaders.files import Source
from kbdisk.loaders.values import tagged_json
from kbdisk.loaders.values.tagged_json import MAX_DEPTH

BOM = codecs.BOM_UTF8

_DIGITS_AS_ZERO = bytes(48 if 48 <= byte < 58 or byte == 46 else byte for byte in range(256))  # a translation of bytes
_FOUR_ZEROS = b"0000"  # sixteen digits, of which every fourth byte is looked at
_TINY_EXPONENT = re.compile(rb"-(?<=[eE]-)[0-9]{3}")  # begins with one byte, which is found fast
_LONG_NUMBER = re.compile(rb"(?<![0-9.])(?:-?[0-9][0-9.]{15,}(?:[eE][+-]?[0-9]+)?|-?[0-9.]+[eE][+-]?[0-9]{3,})")

_BRACKET = re.compile(rb'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+"?+)*+([{}\[\]]|\Z)', re.DOTALL)  # or the end
NOT_FINITE = (b"NaN", b"Infinity", b"-Infinity")  # what Python's json writes, and JSON does not have
MAX_FIRST_LINE = 1 << 24  # bytes of a first line that is looked at
NOT_FINITE_NOTE = "NaN or Infinity, which JSON does not have: a gap"

_STRING_OR_NOT_FINITE = re.compile(rb'"(?:[^"\\]++|\\.)*+"?+|(?<![\w.+-])(-?Infinity|NaN)(?![\w.+-])', re.DOTALL)
_NAN = re.compile(r"-?(?:NaN|Infinity|nan|inf)\b", re.IGNORECASE)
_ESCAPE = re.compile(  # group 1: half of a character
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_TOKEN = re.compile(r'"[^"\n]{0,30}"?|[\w.+-]{1,30}|\S')
_KINDS = {list: "a list", str: "a string", bool: "true or false", type(None): "null"}
_EXPECTED = {  # messages of Python's parser, in our words
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
    """An error in a text, and its place."""

    def __init__(self, problem: str, place: int = 0) -> None:
        super().__init__(problem)
        self.problem = problem
        self.place = place  # bytes or characters into the text, at the same line in both

    def at(self, source: str, line: int, text: bytes) -> LoadError:
        """The error for a text that begins on a line of a source."""
        before = text.decode("utf-8", "surrogateescape")[: self.place]
        return LoadError(source, self.problem, line + before.count("\n"))


def parse_object(text: bytes) -> tuple[Tree, list[str]]:
    """One JSON object as a tree, and what was odd in it."""
    if len(text) > 2 * MAX_DEPTH and too_deep(text):
        raise Fault(f"expected at most {MAX_DEPTH} levels of brackets, got more. Flatten the data.")
    notes: list[str] = []
    try:
        tree = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        cleared, count = replace_not_finite(text)
        if count:
            tree, notes = parse_object(cleared)
            return tree, notes + [NOT_FINITE_NOTE] * count
        if "infinity" not in str(error):
            raise _fault_of(text, error) from None
        tree, notes = _parse_exactly(text)
    else:
        if type(tree) is dict and not Exactness().holds(text, tree):
            tree, notes = _parse_exactly(text)
    if type(tree) is not dict:
        raise Fault(f"expected a JSON object, got {kind_of(tree)}. " + 'Write each entity as {"name": value, ...}.')
    return (tagged_json.decode(tree) if may_be_tagged(text) else tree), notes


def replace_not_finite(text: bytes) -> tuple[bytes, int]:
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
    """The kind of a JSON value, in words."""
    return "an object" if type(value) is dict else _KINDS.get(type(value), "a number")


def may_be_tagged(text: bytes) -> bool:
    """Whether a key may begin with "@"; one character is found much faster than several."""
    return (b"@" in text and b'"@' in text) or (b"\\" in text and b"\\u0040" in text)


class Exactness:
    """Whether a value read by orjson is exactly its text: each key once, each number to its last digit.

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
        if _FOUR_ZEROS not in text[::4].translate(_DIGITS_AS_ZERO) and not _TINY_EXPONENT.search(text):
            return True
        return all(map(_is_exact_number, _LONG_NUMBER.findall(text)))


def _is_exact_number(number: bytes) -> bool:
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


def _parse_exactly(text: bytes) -> tuple[Any, list[str]]:
    """The value by Python's own reader, whose numbers and keys can be looked at one by one."""
    notes: list[str] = []

    def part(pairs: list[tuple[str, Any]]) -> Tree:
        tree = dict(pairs)
        if len(tree) < len(pairs):
            seen: set[str] = set()
            repeated = dict.fromkeys(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            notes.extend(f"the key {key!r} stands twice in an object; the last one counts" for key in repeated)
        return tree

    try:
        value = json.loads(
            text.decode(),
            object_pairs_hook=part,
            parse_int=tagged_json.read_int,
            parse_float=tagged_json.read_float,
            parse_constant=_refuse_constant,
        )
    except json.JSONDecodeError as error:
        raise _fault_of(text, error) from None
    except UnicodeDecodeError:
        raise _fault_of(text, json.JSONDecodeError("", "", 0)) from None
    except ValueError as error:
        raise Fault(f"{error}.") from None
    _no_half_characters(text.decode())
    return value, notes


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"expected a number, got {name}. Write null for a missing value")


# ---------------------------------------------------------------- faults


def _fault_of(text: bytes, error: json.JSONDecodeError) -> Fault:
    """A fault with a clearer message than the parser's."""
    try:
        plain = text.decode()
    except UnicodeDecodeError as wrong:
        return Fault(
            f"expected UTF-8, got the byte {text[wrong.start]:#04x}. Save the file as UTF-8.",
            _characters(text, wrong.start),
        )
    try:
        _no_half_characters(plain)
        json.loads(plain, parse_constant=_refuse_constant, parse_int=len, parse_float=len)
    except Fault as fault:
        return fault
    except json.JSONDecodeError as later:
        error = later
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
    """The token at a place, short enough for a message."""
    token = _TOKEN.search(text, place)
    return repr(token[0]) if token else "the end of the text"


def detect_layout(source: Source) -> str | None:
    """`jsonl` where each of the first two lines begins an object, the first a whole one; `json` where a list begins."""
    with source.open() as stream:
        lines = (line for line in iter(lambda: stream.readline(MAX_FIRST_LINE).removeprefix(BOM), b"") if line.strip())
        first, second = next(lines, b""), next(lines, b"")
    if first.lstrip()[:1] == b"[":
        return "json"
    if second.lstrip()[:1] != b"{":
        return None
    try:
        parse_object(first)
    except Fault:
        return None
    return "jsonl"


def check_encoding(source: Source) -> None:
    """LoadError where a source is UTF-16 or UTF-32."""
    with source.open() as stream:
        start = stream.read(4)
    if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) or b"\0" in start:
        wide = start == codecs.BOM_UTF32_BE or start[2:4] == b"\0\0" or start[:3] == b"\0\0\0"
        name = "UTF-32" if wide else "UTF-16"
        raise LoadError(source.name, f"expected UTF-8, got {name}. Convert it: iconv -f {name} -t UTF-8.")


# ---------------------------------------------------------------- a document, value by value


CHUNK = 1 << 18

_STRING = rb'"(?:[^"\\\x00-\x1f]++|\\[^\x00-\x1f])*+"'
_BLANKS = re.compile(rb"[ \t\r\n]*+")
_COMPLETE_STRING = re.compile(_STRING)
_BROKEN_STRING = re.compile(rb'"(?:[^"\\\x00-\x1f]++|\\[^\x00-\x1f])*+\\?[\x00-\x1f]')
_WORD = re.compile(rb'[^ \t\r\n,:"{}\[\]]++')
_INNER = re.compile(rb'(?:[^"{}\[\]]++|' + _STRING + rb")*+")  # up to the next bracket


class ScannedValue(NamedTuple):
    """A value of a list or an object: the bytes since the last value, and the bytes of this one."""

    line: int
    before: bytes
    text: bytes
    key: str | None = None


class Scanner:
    """Goes through a document step by step; bytes that were passed and not taken are kept."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self.stream = stream
        self.name = name
        self.data = b""
        self.start = 0  # of the bytes not taken
        self.place = 0
        self.line = 1  # of `counted`
        self.counted = 0
        self.ended = False

    # ------------------------------------------------------------ steps

    def peek(self) -> bytes:
        """The next byte that is no blank, passed up to; nothing at the end."""
        while True:
            self.place = _end(_BLANKS.match(self.data, self.place))
            if self.place < len(self.data) or not self.more():
                return self.data[self.place : self.place + 1]

    def step(self, allowed: bytes, expected: str) -> bytes:
        """Pass one of the allowed bytes."""
        byte = self.peek()
        if not byte or byte not in allowed:
            self.refuse(expected)
        self.place += 1
        return byte

    def take(self) -> bytes:
        """The bytes passed since the last call."""
        passed = self.data[self.start : self.place]
        self.start = self.place
        return passed

    def pass_value(self) -> None:
        """Pass a value of any kind, to its end."""
        first = self.peek()
        if first == b'"':
            self.pass_string()
        elif first and first in b"{[":
            self.pass_brackets()
        elif first and first not in b",:}]":
            self.pass_word()
        else:
            self.refuse("a value")

    def pass_string(self) -> None:
        while not (match := _COMPLETE_STRING.match(self.data, self.place)):
            if _BROKEN_STRING.match(self.data, self.place) or not self.more():
                self.refuse("a closing quote for the string")
        self.place = match.end()

    def pass_word(self) -> None:
        while (match := _WORD.match(self.data, self.place)) and match.end() == len(self.data) and self.more():
            pass
        self.place = _end(match)

    def pass_brackets(self) -> None:
        depth, deepest = 0, 0
        while True:
            bracket = self.data[self.place : self.place + 1]
            if bracket and bracket in b"{[":
                depth += 1
                deepest = max(deepest, depth)
            elif bracket and bracket in b"}]":
                depth -= 1
            elif bracket == b'"' and _BROKEN_STRING.match(self.data, self.place):
                self.refuse("a closing quote for the string")
            elif not self.more():
                self.refuse(
                    "a closing bracket"
                    if deepest <= MAX_DEPTH
                    else f"at most {MAX_DEPTH} levels of brackets, and their ends"
                )
            if bracket and bracket in b"{}[]":
                self.place += 1
            if depth == 0:
                return
            self.place = _end(_INNER.match(self.data, self.place))

    # ------------------------------------------------------------ lists and objects

    def items(self) -> Iterator[ScannedValue]:
        """The values of a list whose bracket is next."""
        self.step(b"[", "a list")
        if self.peek() == b"]":
            self.place += 1
            return
        while True:
            yield self.value(None)
            if self.step(b",]", "a comma or the closing bracket") == b"]":
                return

    def members(self) -> Iterator[ScannedValue]:
        """The values of an object whose bracket is next, each with its key."""
        self.step(b"{", "an object")
        if self.peek() == b"}":
            self.place += 1
            return
        while True:
            yield self.value(self.key())
            if self.step(b",}", "a comma or the closing bracket") == b"}":
                return

    def key(self) -> str:
        """Pass a key and its colon."""
        if self.peek() != b'"':
            self.refuse("a key in double quotes")
        start = self.place - self.start
        self.pass_string()
        try:
            key = orjson.loads(self.data[self.start + start : self.place])
        except orjson.JSONDecodeError:
            self.refuse("a key that is text")
        self.step(b":", "a colon after the key")
        return str(key)

    def value(self, key: str | None) -> ScannedValue:
        self.peek()
        before, line = self.take(), self.line_here()
        self.pass_value()
        return ScannedValue(line, before, self.take(), key)

    def end(self) -> bytes:
        """Pass the blanks after the last value, to the end."""
        if self.peek():
            self.refuse(
                "the end of the file", f"If every line is an object, say {setting('format', 'jsonl', shell='from')}."
            )
        return self.take()

    # ------------------------------------------------------------ underneath

    def more(self) -> bool:
        """Read on, twice as much where a value is long; False at the end."""
        if self.ended:
            return False
        self.line_here()
        self.data = self.data[self.start :]
        self.place -= self.start
        self.counted -= self.start
        self.start = 0
        chunk = self.stream.read(max(CHUNK, len(self.data)))
        self.ended = not chunk
        self.data += chunk
        return bool(chunk)

    def line_here(self) -> int:
        """The line of the present place."""
        if self.counted < self.place:
            self.line += self.data.count(b"\n", self.counted, self.place)
            self.counted = self.place
        return self.line

    def refuse(self, expected: str, advice: str = "Mend the JSON there.") -> NoReturn:
        word = self.data[self.place : self.place + 30].split(b"\n")[0].decode("utf-8", "replace")
        got = repr(word) if self.place < len(self.data) else "the end of the file"
        raise LoadError(self.name, f"expected {expected}, got {got}. {advice}", self.line_here())


def _end(match: re.Match[bytes] | None) -> int:
    assert match is not None
    return match.end()
