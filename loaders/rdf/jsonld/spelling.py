"""How a JSON-LD document would say a statement: its own terms and short forms, tried out with the parser that reads them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from pyoxigraph import BlankNode, Literal, NamedNode

from kbdisk.loaders.rdf.jsonld.nodes import Parse, Terms
from kbdisk.loaders.rdf.vocabulary import STRING, TYPE, XSD

_TRIAL = "urn:kbdisk:trial:"
_VALUES = ("", {"@id": "urn:kbdisk:value"})  # one that a map of languages refuses is not refused by others
_FLOATS = (XSD + "double", XSD + "float")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})")
_LAST_WORD = re.compile(r"[^/#]+\Z")


class Said(NamedTuple):
    """A statement's value as a member of an object, and the term that is read of it."""

    key: str
    value: Any
    term: Any


class Used(NamedTuple):
    """What a document uses: its keys, the most frequent first, and its strings."""

    keys: Sequence[str]
    strings: frozenset[str]


NOTHING = Used((), frozenset())  # then all is said in whole IRIs


class Spelling:
    """How statements are spelt where some contexts are in force."""

    def __init__(
        self, contexts: list[Any], used: Used, terms: Terms, prefixes: Mapping[str, str], base: str | None, parse: Parse
    ) -> None:
        self.contexts = contexts
        self.used = used
        self.terms = terms
        self.parse = parse
        self.base = base
        seen = {text.partition(":")[0] for text in (*used.strings, *used.keys) if ":" in text}
        self.prefixes = {name: iri for name, iri in prefixes.items() if name in seen}
        self.keys: dict[str, list[str]] = {TYPE: [key for key in used.keys if terms.word(key) == "@type"] or ["@type"]}
        self.said: dict[tuple[str, Any], Said] = {}
        self._learn_keys(key for key in used.keys if not terms.word(key).startswith("@"))

    def learn(self, pairs: Iterable[tuple[NamedNode, Any]]) -> None:
        """Find out how some predicates with their objects are said, new nodes aside."""
        wanted = list(dict.fromkeys(pair for pair in pairs if (pair[0].value, pair[1]) not in self.said))
        unknown = {predicate.value for predicate, _ in wanted} - self.keys.keys()
        for predicate in sorted(unknown):
            self._learn_keys(self._short(predicate))
        trials = [
            (predicate.value, object, key, value)
            for predicate, object in wanted
            for value in self._values(object)
            for key in self.keys_of(predicate.value)
        ]
        found = self._tried([{key: value} for *_, key, value in trials])
        for (predicate, object, key, value), quads in zip(trials, found, strict=True):
            if len(quads) == 1 and quads[0].predicate.value == predicate and _same(quads[0].object, object):
                self.said.setdefault((predicate, object), Said(key, value, quads[0].object))

    def keys_of(self, predicate: str) -> list[str]:
        """The keys that stand for a predicate, the best first."""
        return [*self.keys.get(predicate, ()), predicate]

    def _learn_keys(self, keys: Iterable[str]) -> None:
        trials = [(key, value) for key in keys for value in _VALUES]
        for (key, _), quads in zip(trials, self._tried([{key: value} for key, value in trials]), strict=True):
            for quad in quads:
                known = self.keys.setdefault(quad.predicate.value, [])
                if key not in known:
                    known.append(key)

    def _tried(self, members: list[dict[str, Any]]) -> list[list[Any]]:
        """What is read of objects with these members, each by itself; nothing of what is no JSON-LD."""
        if not members:
            return []
        objects = [{"@id": f"{_TRIAL}{index}", **one} for index, one in enumerate(members)]
        try:
            quads = self.parse(orjson.dumps({"@context": self.contexts, "@graph": objects}))
        except SyntaxError:
            half = len(members) // 2
            return [*self._tried(members[:half]), *self._tried(members[half:])] if half else [[]]
        found: dict[str, list[Any]] = {one["@id"]: [] for one in objects}
        for quad in quads:
            if quad.subject.value in found:
                found[quad.subject.value].append(quad)
        return list(found.values())

    # ------------------------------------------------------------ forms

    def _values(self, object: Any) -> Iterator[Any]:
        """The forms that an object may have, the plainest first."""
        if isinstance(object, NamedNode):
            forms = self._short(object.value)
            yield from forms
            yield from ({"@id": form} for form in forms)
        elif isinstance(object, BlankNode):
            yield {"@id": f"_:{object.value}"}
        elif isinstance(object, Literal):
            yield from self._literals(object)

    def _literals(self, literal: Literal) -> Iterator[Any]:
        text = literal.value
        number = _number(literal)
        if number is not None:
            yield number
        if literal.datatype.value == XSD + "boolean" and text in ("true", "false"):
            yield text == "true"
        yield text
        if literal.language:
            yield {literal.language: text}
            yield {"@value": text, "@language": literal.language}
        else:
            if literal.datatype.value == STRING:
                yield {"@value": text}
            yield from ({"@value": text, "@type": form} for form in self._short(literal.datatype.value))

    def _short(self, iri: str) -> list[str]:
        """An IRI in the forms that it may have, those that the document has first."""
        if self.used is NOTHING:
            return [iri]
        forms = [
            f"{name}:{iri[len(start) :]}" for name, start in self.prefixes.items() if start and iri.startswith(start)
        ]
        forms += [word[0]] if (word := _LAST_WORD.search(iri)) else []
        if self.base and iri.startswith(self.base):
            forms.append(iri[len(self.base) :])
        return sorted(dict.fromkeys([*forms, iri]), key=lambda form: form not in self.used.strings)


def _number(literal: Literal) -> int | float | None:
    """A literal as a number of JSON, where it may be one."""
    datatype, text = literal.datatype.value, literal.value
    if datatype in _FLOATS:
        try:
            number = float(text)
        except ValueError:
            return None
        return number if math.isfinite(number) else None
    return int(text) if _INTEGER.fullmatch(text) else None


def _same(found: Any, wanted: Any) -> bool:
    """Whether one term says what another does."""
    if found == wanted:
        return True
    if not (isinstance(found, Literal) and isinstance(wanted, Literal) and found.datatype == wanted.datatype):
        return False
    return found.datatype.value in _FLOATS and _number(found) is not None and _number(found) == _number(wanted)
