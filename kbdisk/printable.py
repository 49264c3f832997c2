"""Text that is safe on a terminal: characters that would control it, or change the order of the text, are escaped.

Escaped are the controls of C0 and C1 (so no escape sequence is left), line and paragraph separators, marks that turn the
direction, invisible characters that no script needs, and halves of surrogate pairs: `\\u001b`, `\\u202e`, `\\udcff`. The
joiners that emoji, Persian and Indic scripts are written with stay. A backslash is not doubled, so that escaping twice
is escaping once.
"""

from __future__ import annotations

import re

UNPRINTABLE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff"
    "\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f"
)
_UNPRINTABLE = re.compile(f"[{UNPRINTABLE}]")
_BEYOND_A_LINE = re.compile(f"[\n\t{UNPRINTABLE}]")


def printable(text: str) -> str:
    """A text of lines, as a terminal may show it."""
    return _UNPRINTABLE.sub(_escaped, text)


def in_one_line(text: str) -> str:
    """A text that must stay one line, as a terminal may show it."""
    return _BEYOND_A_LINE.sub(_escaped, text)


def plain_line(text: str) -> str:
    """A text of unknown origin on one line; a replacement character stands for each character that is not printable."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in " ".join(text.split()))


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return {10: "\\n", 9: "\\t", 13: "\\r"}.get(code, f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}")
