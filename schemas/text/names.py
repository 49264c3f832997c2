"""Names: the last word of an IRI, and errors about unknown names, with the nearest known one."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from itertools import islice

from kbdisk.errors import ConfigError, LoadError

MAX_CLASSES_SHOWN = 8  # in an error
MAX_IDS_SHOWN = 3  # in an error
MAX_IDS_COMPARED = 20_000  # with an unknown id


def last_word(iri: str) -> str:
    """The text after the last #, / or : of an IRI, those at its end left aside; the whole IRI where there is none."""
    stem = iri.rstrip("#/:")
    return stem[max(stem.rfind("#"), stem.rfind("/"), stem.rfind(":")) + 1 :] or iri


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean 'unit'?` where a known name is similar to the word; else an empty text."""
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower()[:60], by_lower, 1, 0.6)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""


def refuse_unmet(source: str, names: Iterable[str], classes: Collection[str]) -> None:
    """LoadError for a wanted class, named in full or by its last word, that is none of the classes of a source."""
    words = list(dict.fromkeys(last_word(name) for name in classes if name))
    for name in names:
        if name not in classes and name not in words:
            known = f"its classes are {_listed(words)}" if words else "its entities have no class"
            raise LoadError(source, f"no entity is of the class {name!r}; {known}.{did_you_mean(name, words)}")


def no_class(name: str, classes: Iterable[str]) -> ConfigError:
    """The error for a class that a model does not have, with the classes that it has."""
    names = list(dict.fromkeys(filter(None, classes)))
    known = f"its classes are {_listed(names)}" if names else "its one class has no name: leave --class out"
    return ConfigError("--class", f"the model has no class {name!r}; {known}.{did_you_mean(name, names)}")


def no_id(source: str, wanted_id: str, ids: Collection[str]) -> LoadError:
    """The error for an id that no entity of a source has, with the ids that end in it, else a similar one."""
    ending = sorted(id for id in ids if wanted_id and last_word(id) == wanted_id)[:MAX_IDS_SHOWN]
    hint = f" Did you mean {' or '.join(map(repr, ending))}?" if ending else ""
    hint = hint or did_you_mean(wanted_id, islice(ids, MAX_IDS_COMPARED))
    return LoadError(source, f"no entity has the id {wanted_id!r}.{hint}")


def _listed(names: list[str]) -> str:
    hidden_count = len(names) - MAX_CLASSES_SHOWN
    return ", ".join(names[:MAX_CLASSES_SHOWN]) + (f" and {hidden_count} more" if hidden_count > 0 else "")
