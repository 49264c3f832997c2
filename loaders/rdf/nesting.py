"""How deep triples stand within triples. The parser follows each level with one of its own, and would crash."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import BinaryIO

from kbdisk.errors import LoadError
from kbdisk.loaders.rdf import scan

DEEP = 100  # levels
LONG = 1 << 14  # bytes; a line of statements with more levels than the parser survives is longer by far

_MARK = re.compile(rb"<<|>>")


def check(open_text: Callable[[], BinaryIO], name: str, lines: bool) -> None:
    """Refuse a document with triples within triples that lie too deep; `lines` says that each statement is a line."""
    if lines and not _has_long_lines(open_text):
        return
    with open_text() as stream:
        suspicious = _is_deep(mark for chunk in _chunks(stream) if b"<<" in chunk for mark in _MARK.findall(chunk))
    if not suspicious:
        return
    with open_text() as stream:  # strings may hold such marks, too
        data = stream.read()
    if _is_deep(token.text for token in scan.tokens(data)):
        raise too_deep(name)


def too_deep(name: str, line: int | None = None) -> LoadError:
    """That triples stand too deep within triples."""
    return LoadError(name, f"expected at most {DEEP} triples within triples, got more. Write it flat.", line)


def _has_long_lines(open_text: Callable[[], BinaryIO]) -> bool:
    """Whether any line may be long: whether the text goes on for long without an end of one."""
    with open_text() as stream:
        kept = b""
        while chunk := stream.read(scan.CHUNK):
            text = kept + chunk
            steps = range(0, len(text) - LONG, LONG)
            if any(text.rfind(b"\n", step, step + LONG) < 0 for step in steps):
                return True
            kept = text[-2 * LONG :]
    return False


def _chunks(stream: BinaryIO) -> Iterable[bytes]:
    return iter(lambda: stream.read(scan.CHUNK), b"")


def _is_deep(marks: Iterable[bytes]) -> bool:
    depth = 0
    for mark in marks:
        if mark[:2] == b"<<":
            depth += 1
            if depth > DEEP:
                return True
        elif mark[-2:] == b">>" and depth:
            depth -= 1
    return False
