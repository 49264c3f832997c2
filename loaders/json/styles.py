"""How a source in JSON spells its values. Forms by examples are styles (kbdisk/styles/kinds.py); here is what JSON adds.

JSON has no dates, quantities or links: one source writes "1912-11-28", another 1912, or {"value": 3, "unit": "g"}. The first
values at a path, without indices in lists, decide; where their form cannot express a value, it is written tagged
(values/tagged_json.py).
"""

from __future__ import annotations

import re
from collections import defaultdict
from decimal import Decimal
from typing import Any

import orjson

from kbdisk.entity import Path, Tree
from kbdisk.loaders.values import tagged_json
from kbdisk.styles.kinds import Examples

NO_EXAMPLES = Examples()
_FIRST_COLON = re.compile(rb'\s*\{\s*"(?:[^"\\]|\\.)*+"([ \t]*:[ \t]*)', re.DOTALL)


class JsonStyle:
    """The style of a source: examples of its values by path, and how its text escapes and spaces."""

    def __init__(self) -> None:
        self.examples: defaultdict[tuple[str, ...], Examples] = defaultdict(Examples)
        self.has_raw_unicode = False  # some characters beyond ASCII are written as themselves
        self.has_escapes = False  # some are escaped as \u00e9
        self.colon = b""  # between the first key and its value

    def observe(self, tree: Tree, text: bytes) -> None:
        """Take in an entity."""
        self.has_raw_unicode = self.has_raw_unicode or not text.isascii()
        self.has_escapes = self.has_escapes or b"\\u" in text
        if not self.colon and (first := _FIRST_COLON.match(text)):
            self.colon = first[1]
        stack: list[tuple[tuple[str, ...], Any]] = [((), tree)]
        while stack:
            keys, value = stack.pop()
            if type(value) is dict:
                stack.extend(((*keys, key), item) for key, item in value.items())
            elif type(value) is list:
                stack.extend((keys, item) for item in value)
            self.examples[keys].observe(value)

    @property
    def ascii(self) -> bool:
        """Whether characters beyond ASCII are escaped."""
        return self.has_escapes and not self.has_raw_unicode

    def write(self, path: Path, value: Any) -> Any:
        """The value in the style of its path, as orjson can write it."""
        if type(value) is dict:
            return {key: self.write((*path, key), item) for key, item in value.items()}
        if type(value) is list:
            return [self.write((*path, i), item) for i, item in enumerate(value)]
        examples = self.examples.get(tuple(key for key in path if isinstance(key, str)), NO_EXAMPLES)
        try:
            return tagged_json.encode(_with_bare_decimals(examples.write(value)))
        except ValueError:
            return tagged_json.encode(value)


def _with_bare_decimals(raw: Any) -> Any:
    """A value with its Decimals as JSON writes numbers."""
    if type(raw) is dict:
        return {key: _with_bare_decimals(part) for key, part in raw.items()}
    if type(raw) is list:
        return [_with_bare_decimals(part) for part in raw]
    return orjson.Fragment(str(raw)) if type(raw) is Decimal and raw.is_finite() else raw
