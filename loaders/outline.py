"""Where everything stands in the text of a JSON value: a tree of places, for whoever adds to the text.

The text has been read before, so nothing is checked here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

import orjson

from kbdisk.loaders.jsontext import NOT_FINITE

NULLS = {b"null", *NOT_FINITE}
_TOKEN = re.compile(rb'[{}\[\],:]|"(?:[^"\\]++|\\.)*+"?+|[^\s{}\[\],:"]++', re.DOTALL)


@dataclass(slots=True)
class Place:
    """A value's place in the text, and those of its members or items."""

    kind: Literal["part", "list", "null", "value"]
    start: int
    end: int = 0
    inner: list[Entry] = field(default_factory=list)
    named: dict[str, Place] = field(default_factory=dict)  # the last of a name, which is the one that counts


@dataclass(slots=True)
class Entry:
    """A member of a part, or an item of a list: it starts with its key, or with its value."""

    start: int
    key_end: int
    place: Place


def outline(text: bytes) -> Place:
    """The places of the one value in a text."""
    root = Place("list", 0)
    stack = [root]
    key: re.Match[bytes] | None = None
    for token in _TOKEN.finditer(text):
        first = token[0][:1]
        if first in b",:":
            continue
        if first in b"}]":
            stack.pop().end = token.end()
        elif stack[-1].kind == "part" and key is None:
            key = token
        else:
            place = Place(_kind(token[0]), token.start(), token.end())
            _enter(stack[-1], key, place)
            key = None
            if first in b"{[":
                stack.append(place)
    return root.inner[0].place


def _kind(token: bytes) -> Literal["part", "list", "null", "value"]:
    return "part" if token == b"{" else "list" if token == b"[" else "null" if token in NULLS else "value"


def _enter(owner: Place, key: re.Match[bytes] | None, place: Place) -> None:
    if key is None:
        owner.inner.append(Entry(place.start, place.start, place))
    else:
        owner.inner.append(Entry(key.start(), key.end(), place))
        owner.named[orjson.loads(key[0])] = place
