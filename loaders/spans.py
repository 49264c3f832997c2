"""The values of a JSON document one after the other, as bytes: never more in memory than one of them needs.

Only brackets and strings are looked at here; what is within a value is checked by whoever reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, NoReturn

import orjson

from kbdisk.errors import LoadError
from kbdisk.loaders.values.tagged_json import MAX_DEPTH

CHUNK = 1 << 18

_STRING = rb'"(?:[^"\\\x00-\x1f]++|\\[^\x00-\x1f])*+"'
_BLANKS = re.compile(rb"[ \t\r\n]*+")
_WHOLE_STRING = re.compile(_STRING)
_BROKEN_STRING = re.compile(rb'"(?:[^"\\\x00-\x1f]++|\\[^\x00-\x1f])*+\\?[\x00-\x1f]')
_WORD = re.compile(rb'[^ \t\r\n,:"{}\[\]]++')
_INNER = re.compile(rb'(?:[^"{}\[\]]++|' + _STRING + rb")*+")  # up to the next bracket


class Value(NamedTuple):
    """A value of a list or an object: the bytes since the last one, and its own."""

    line: int
    before: bytes
    text: bytes
    key: str | None = None


class Scanner:
    """Goes through a document by steps; everything passed and not yet taken is kept."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self.stream = stream
        self.name = name
        self.data = b""
        self.start = 0  # of what is not taken
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

    def step(self, wanted: bytes, expected: str) -> bytes:
        """Pass one of the wanted bytes."""
        found = self.peek()
        if not found or found not in wanted:
            self.refuse(expected)
        self.place += 1
        return found

    def take(self) -> bytes:
        """What was passed since the last time."""
        taken = self.data[self.start : self.place]
        self.start = self.place
        return taken

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
        while not (match := _WHOLE_STRING.match(self.data, self.place)):
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

    def items(self) -> Iterator[Value]:
        """The values of a list whose bracket is next."""
        self.step(b"[", "a list")
        if self.peek() == b"]":
            self.place += 1
            return
        while True:
            yield self.value(None)
            if self.step(b",]", "a comma or the closing bracket") == b"]":
                return

    def members(self) -> Iterator[Value]:
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

    def value(self, key: str | None) -> Value:
        self.peek()
        before, line = self.take(), self.line_here()
        self.pass_value()
        return Value(line, before, self.take(), key)

    def end(self) -> bytes:
        """Pass the blanks after the last value, to the end."""
        if self.peek():
            self.refuse("the end of the file", "If every line is an object, say --format jsonl.")
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
        found = repr(word) if self.place < len(self.data) else "the end of the file"
        raise LoadError(self.name, f"expected {expected}, got {found}. {advice}", self.line_here())


def _end(match: re.Match[bytes] | None) -> int:
    assert match is not None
    return match.end()
