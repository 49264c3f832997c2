"""Formula injection: cells that a spreadsheet would run. Such a text begins as a formula does, and is no plain number or amount.

=1+1   +A1   -2+3   @SUM(A1)   a tab or a line end before any      run
-5   +1.5e3   -5 %   -12.5, 13.4   -7 km/h                         plain
"""

from __future__ import annotations

import re

_STARTS = frozenset("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # the last four are wide forms of the first
_DIGITS = r"(?:\d[\d.,' \u00a0\u202f]*+|[.,]\d++)(?:[eE][+-]?+\d++)?+"
_UNIT = r" ?+[^\W\d_]*+[°%]?+[^\W\d_]*+(?:/[^\W\d_]++)?+"
_PLAIN = re.compile(rf"[+-]?+ ?+[$€£¥]?+ ?+{_DIGITS}(?:(?:(?<=,)|(?<=, ))[+-]{_DIGITS})?+{_UNIT}")


def start_of(text: str) -> str:
    """The character by which a spreadsheet would run a cell; an empty string where it would not."""
    return text[:1] if text[:1] in _STARTS and _PLAIN.fullmatch(text) is None else ""


def refusal(text: str) -> str:
    """The reason why a text is not filled in."""
    return f"{text!r} begins as a formula does, and no given cell of its column does: a spreadsheet would run it"
