"""JSON-LD before it is parsed: contexts put in their place, and refused what a parser drops in silence."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyoxigraph import Literal, NamedNode

from kbdisk.errors import LoadError

NO_BASE = "kbdisk-no-base:/"  # relative IRIs are dropped without a base; against this one they show

LONGEST = 100  # terms that are said by one another: the parser follows each with a step of its own, and would crash

_NO_IRI = re.compile(r'[\x00-\x20<>"{}|\\^`]')


def prepared(data: bytes, contexts: Mapping[str, bytes], name: str) -> bytes:
    """A document with the contexts it names put in their place; one on the network or a bad IRI is refused."""
    try:
        document = json.loads(data)
        known = {iri: _context_in(text, iri) for iri, text in contexts.items()}
        placed = _Contexts(known, name).placed(document)
    except RecursionError:
        raise LoadError(name, "expected JSON-LD, got brackets that nest too deep. Write it flat.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else None
        raise LoadError(name, f"expected JSON-LD, got an error: {error}. Mend it there.", line) from None
    return json.dumps(placed).encode() if contexts else data


def absolute(quads: Iterable[Any], name: str) -> Iterator[Any]:
    """The quads, none of which has an IRI that was relative and had no base."""
    for quad in quads:
        datatype = quad.object.datatype if type(quad.object) is Literal else None
        for term in (quad.subject, quad.predicate, quad.object, datatype, quad.graph_name):
            if type(term) is NamedNode and term.value.startswith(NO_BASE):
                relative = term.value[len(NO_BASE) :]
                raise LoadError(name, f"expected an absolute IRI, got {relative!r} without a base. Say --base IRI.")
        yield quad


def _context_in(text: bytes, iri: str) -> Any:
    try:
        loaded = json.loads(text)
    except ValueError as error:
        raise LoadError(iri, f"expected a JSON-LD context, got no JSON ({error}).") from None
    return loaded.get("@context", loaded) if isinstance(loaded, dict) else loaded


class _Contexts:
    """The contexts that are known by name."""

    def __init__(self, known: Mapping[str, Any], name: str) -> None:
        self.known = known
        self.name = name

    def placed(self, value: Any) -> Any:
        """A part of a document with its contexts in their place."""
        if isinstance(value, list):
            return [self.placed(one) for one in value]
        if not isinstance(value, dict):
            return value
        id = value.get("@id")
        if isinstance(id, str) and _NO_IRI.search(id):
            raise LoadError(self.name, f"expected an IRI, got {id!r}. Mend it there.")
        return {key: self._context(one, ()) if key == "@context" else self.placed(one) for key, one in value.items()}

    def _context(self, value: Any, within: tuple[str, ...]) -> Any:
        """A context; `within` are the names of those around it."""
        if isinstance(value, str):
            if value not in self.known or value in within:
                what = "names itself" if value in within else "is on the network, and nothing is fetched"
                raise LoadError(self.name, f"the context {value} {what}. Say --context {value}=FILE.")
            return self._context(self.known[value], (*within, value))
        if isinstance(value, list):
            return [self._context(one, within) for one in value]
        if not isinstance(value, dict):
            return value
        if _has_long_chain(value):
            raise LoadError(
                self.name,
                f"expected terms that stand for at most {LONGEST} others in a row or in a circle, got more. Write their IRIs.",
            )
        terms = {key: self._term(one, within) for key, one in value.items() if key != "@import"}
        imported = self._context(value["@import"], within) if "@import" in value else {}
        return imported | terms if isinstance(imported, dict) else [imported, terms]

    def _term(self, value: Any, within: tuple[str, ...]) -> Any:
        if not isinstance(value, dict) or "@context" not in value:
            return value
        return value | {"@context": self._context(value["@context"], within)}


def _has_long_chain(terms: Mapping[str, Any]) -> bool:
    """Whether terms of a context are said by others, these by others again, and so on beyond what is read."""
    waiting = {term: needed for term, said in terms.items() if (needed := {*_needed(term, said)} & terms.keys())}
    for _ in range(LONGEST):
        waiting = {term: needed for term, needed in waiting.items() if any(one in waiting for one in needed)}
    return len(waiting) > LONGEST


def _needed(term: str, said: Any) -> Iterator[str]:
    """What a term may be said by: a prefix, or another term."""
    said = [said.get(key) for key in ("@id", "@type", "@reverse")] if isinstance(said, dict) else [said]
    for text in (one for one in (term, *said) if isinstance(one, str)):
        yield from {text, text.partition(":")[0]} - {term}
