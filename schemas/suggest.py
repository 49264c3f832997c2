"""What somebody may have meant who wrote a name that nothing has."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

from kbdisk.errors import LoadError

MOST = 8  # classes named in an error


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean 'unit'?` where one of the names is near; else nothing."""
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower()[:60], by_lower, 1, 0.6)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""


def refuse_unmet(source: str, wanted: Iterable[str], met: Collection[str]) -> None:
    """LoadError for a class that was asked for, by its name or its last word, and that no entity is of."""
    words = list(dict.fromkeys(_last_word(name) for name in met if name))
    for name in wanted:
        if name not in met and name not in words:
            more = f" and {len(words) - MOST} more" if len(words) > MOST else ""
            there = f"its classes are {', '.join(words[:MOST])}{more}" if words else "its entities tell no class"
            raise LoadError(source, f"no entity is of the class {name!r}; {there}.{did_you_mean(name, words)}")


def _last_word(name: str) -> str:
    words = name.rstrip("#/:")
    return words[max(words.rfind("#"), words.rfind("/"), words.rfind(":")) + 1 :] or name
