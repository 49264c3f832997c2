"""What somebody may have meant who wrote a name that nothing has."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean 'unit'?` where one of the names is near; else nothing."""
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower()[:60], by_lower, 1, 0.6)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""
