"""What somebody may have meant who wrote a name that nothing has."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from itertools import islice
from typing import TYPE_CHECKING

from kbdisk.entity import Path, show
from kbdisk.errors import ConfigError, LoadError
from kbdisk.schemas.iris import last_word

if TYPE_CHECKING:
    from kbdisk.schemas.schema import Class

MOST = 8  # classes named in an error
SHOWN, SOME = 3, 20_000  # ids named in an error, and ids that are looked through for a near one


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean 'unit'?` where one of the names is near; else nothing."""
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower()[:60], by_lower, 1, 0.6)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""


def unknown_to(of: Class, path: Path, more: Iterable[Path] = ()) -> str:
    """What is wrong with a path at which a model knows nothing: left out by the schema, an id, or a property of none."""
    left_out = {one for one, told in of.properties.items() if told.role == "ignore"}
    if of.id is not None and path[: len(of.id)] == of.id and (of.id in left_out or of.id not in of.properties):
        return "expected a property that the model learnt, got the id of entities."
    if any(path[: len(one)] == one for one in left_out):
        return "expected a property that the model learnt, got one that its schema leaves out (role: ignore)."
    known = dict.fromkeys(show(one) for one in (*of.properties, *more) if one not in left_out)
    return f"expected a property that the model knows.{did_you_mean(show(path), known)}"


def refuse_unmet(source: str, wanted: Iterable[str], met: Collection[str]) -> None:
    """LoadError for a class that was asked for, by its name or its last word, and that no entity is of."""
    words = list(dict.fromkeys(last_word(name) for name in met if name))
    for name in wanted:
        if name not in met and name not in words:
            more = f" and {len(words) - MOST} more" if len(words) > MOST else ""
            there = f"its classes are {', '.join(words[:MOST])}{more}" if words else "its entities tell no class"
            raise LoadError(source, f"no entity is of the class {name!r}; {there}.{did_you_mean(name, words)}")


def no_class(name: str, classes: Iterable[str]) -> ConfigError:
    """That a model has no class of this name, and which it has."""
    names = list(dict.fromkeys(filter(None, classes)))
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    known = (
        f"its classes are {', '.join(names[:MOST])}{more}" if names else "its one class has no name: leave --class out"
    )
    return ConfigError("--class", f"the model has no class {name!r}; {known}.{did_you_mean(name, names)}")


def no_id(source: str, wanted: str, ids: Collection[str]) -> LoadError:
    """That a source has no entity of this id, and which may be meant: those whose last word it is, else a near one."""
    ending = sorted(one for one in ids if wanted and last_word(one) == wanted)[:SHOWN]
    hint = f" Did you mean {' or '.join(map(repr, ending))}?" if ending else ""
    return LoadError(source, f"no entity has the id {wanted!r}.{hint or did_you_mean(wanted, islice(ids, SOME))}")
