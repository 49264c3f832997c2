"""How a JSON-LD document would say a statement: its own terms and short forms, tried out with the parser that reads them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import orjson
from pyoxigraph import BlankNode, Literal, NamedNode

from kbdisk.loaders.rdf.jsonld.nodes import Parse, Terms
from kbdisk.loaders.rdf.jsonld.usage import Usage
from kbdisk.loaders.rdf.terms import STRING, TYPE, XSD

_TRIAL = "urn:kbdisk:trial:"
_VALUES = ("", {"@id": "urn:kbdisk:value"})  # one that a map of languages refuses is not refused by others
_FLOATS = (XSD + "double", XSD + "float")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})")


class Said(NamedTuple):
    """A statement's value as a member of an object, and the term that is read of it."""

    key: str
    value: Any
    term: Any


class Scope(NamedTuple):
    """What gives the keys of an object their meaning: the contexts around it, and its own classes by their key."""

    contexts: list[Any]
    classes: dict[str, Any]


class Spelling:
    """How statements are spelt in some scope; in full, as nothing but whole IRIs and what they are of, where that is asked for."""

    def __init__(self, scope: Scope, usage: Usage, terms: Terms, parse: Parse, in_full: bool) -> None:
        self.scope = scope
        self.usage = usage
        self.terms = terms
        self.parse = parse
        self.in_full = in_full
        own = [] if in_full else [key for key in usage.keys if terms.word(key) == "@type"]
        self.keys: dict[str, list[str]] = {TYPE: own or ["@type"]}
        self.said: dict[tuple[str, Any], Said] = {}
        if not in_full:
            self._learn_keys(key for key in usage.keys if not terms.word(key).startswith("@"))

    def learn(self, pairs: Iterable[tuple[NamedNode, Any]]) -> None:
        """Find out how some predicates with their objects are said, new nodes aside."""
        wanted = list(dict.fromkeys(pair for pair in pairs if (pair[0].value, pair[1]) not in self.said))
        unknown = {predicate.value for predicate, _ in wanted} - self.keys.keys()
        for predicate in sorted(unknown):
            self._learn_keys(self._short(predicate))
        trials = [
            (predicate.value, object, key, value)
            for predicate, object in wanted
            for key, value in self._members(predicate.value, object)
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
        objects = [{"@id": f"{_TRIAL}{index}", **self.scope.classes, **one} for index, one in enumerate(members)]
        try:
            quads = self.parse(orjson.dumps({"@context": self.scope.contexts, "@graph": objects}))
        except SyntaxError:
            half = len(members) // 2
            return [*self._tried(members[:half]), *self._tried(members[half:])] if half else [[]]
        found: dict[str, list[Any]] = {one["@id"]: [] for one in objects}
        for quad in quads:
            if quad.subject.value in found:
                found[quad.subject.value].append(quad)
        return [
            [quad for quad in several if quad.predicate.value != TYPE or self._is_class(one)]
            for one, several in zip(members, found.values(), strict=True)
        ]

    def _is_class(self, member: dict[str, Any]) -> bool:
        """Whether a member says a class itself, which then stands in the place of those of the scope."""
        return any(self.terms.word(key) == "@type" for key in member)

    # ------------------------------------------------------------ forms

    def _members(self, predicate: str, object: Any) -> list[tuple[str, Any]]:
        """The members that may say a statement, the likeliest first: a link by the most frequent key, all else as plainly as
        can be; a number as a string where its key has strings."""
        keys, values = self.keys_of(predicate), list(self._values(object))
        if isinstance(object, NamedNode):
            return [(key, value) for key in keys for value in values]
        if keys[0] in self.usage.quoted:
            values.sort(key=lambda value: isinstance(value, int | float))
        return [(key, value) for value in values for key in keys]

    def _values(self, object: Any) -> Iterator[Any]:
        """The forms that an object may have, the plainest first."""
        if isinstance(object, NamedNode):
            forms = self._short(object.value)
            yield from forms
            yield from ({"@id": form} for form in forms)
        elif isinstance(object, BlankNode):
            yield {"@id": f"_:{object.value}"}
        elif isinstance(object, Literal):
            yield from () if self.in_full else self._plain(object)
            yield from self._whole(object)

    def _plain(self, literal: Literal) -> Iterator[Any]:
        """A literal of which the context has to say what it is."""
        number = _number(literal)
        if number is not None:
            yield number
        if literal.datatype.value == XSD + "boolean" and literal.value in ("true", "false"):
            yield literal.value == "true"
        yield literal.value
        if literal.language:
            yield {literal.language: literal.value}

    def _whole(self, literal: Literal) -> Iterator[Any]:
        """A literal that says itself what it is."""
        if literal.language:
            direction = {"@direction": literal.direction.value} if literal.direction else {}
            yield {"@value": literal.value, "@language": literal.language, **direction}
        elif literal.datatype.value == STRING:
            yield {"@value": literal.value}
        else:
            yield from ({"@value": literal.value, "@type": form} for form in self._short(literal.datatype.value))

    def _short(self, iri: str) -> list[str]:
        """An IRI in the forms that it may have, those that the document has first."""
        if self.in_full:
            return [iri]
        usage = self.usage
        forms = [
            f"{name}:{iri[len(start) :]}" for name, start in usage.prefixes.items() if start and iri.startswith(start)
        ]
        forms += [word] if (word := iri[max(iri.rfind("/"), iri.rfind("#")) + 1 :]) else []
        if usage.base and iri.startswith(usage.base):
            forms.append(iri[len(usage.base) :])
        return sorted(dict.fromkeys([*forms, iri]), key=lambda form: form not in usage.strings)


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
    # as text: 0.0 is not -0.0
    return (
        found.datatype.value in _FLOATS and _number(found) is not None and repr(_number(found)) == repr(_number(wanted))
    )
