"""JSON-LD: contexts put in place before parsing, new statements set into the text of a document, and new documents.

Nothing is fetched: `prepare` puts the contexts that a document names in their place, and refuses what the parser would
drop in silence.

New statements go into the objects of their subjects. Only the parser knows which object is which node: it parses a copy of
the document in which every object that may be a node has one more member. How the document's terms and short forms
express a statement is tried out with the parser, too. The outcome is parsed again: unless it has exactly the statements
of the document and the new ones, it is not used.
"""

from __future__ import annotations

import json
import math
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias

import orjson
import pyoxigraph
from pyoxigraph import BlankNode, Literal, NamedNode, Quad, RdfFormat, Triple

from kbdisk.errors import LoadError
from kbdisk.loaders.edits import Change, apply_changes
from kbdisk.loaders.json.edit import Layout, NewValue, TextFiller, TextSpan, outline
from kbdisk.loaders.json.styles import JsonStyle
from kbdisk.loaders.rdf import syntax
from kbdisk.loaders.rdf.additions import Additions, NoPlace, is_isomorphic, marked_nodes, unused_iri
from kbdisk.loaders.rdf.blank_nodes import BlankNodes
from kbdisk.loaders.rdf.terms import FIRST, REST, STRING, TYPE, XSD

if TYPE_CHECKING:
    from kbdisk.loaders.rdf.file import RdfFile


# ---------------------------------------------------------------- before parsing


MAX_TERM_CHAIN = 100  # terms defined by each other: the parser follows each with a call, and would crash

_NO_IRI = re.compile(r'[\x00-\x20<>"{}|\\^`]')


def prepare(data: bytes, contexts: Mapping[str, bytes], name: str) -> bytes:
    """The document with its named contexts put in their place; LoadError for an unknown context or a bad IRI."""
    try:
        document = json.loads(data)
        known = {iri: _context_in(text, iri) for iri, text in contexts.items()}
        placed = _Contexts(known, name).put_in_place(document)
    except RecursionError:
        raise LoadError(name, "expected JSON-LD, got brackets that nest too deep. Write it flat.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else None
        raise LoadError(name, f"expected JSON-LD, got an error: {error}. Mend it there.", line) from None
    return json.dumps(placed).encode() if contexts else data


def _context_in(text: bytes, iri: str) -> Any:
    try:
        loaded = json.loads(text)
    except ValueError as error:
        raise LoadError(iri, f"expected a JSON-LD context, got no JSON ({error}).") from None
    return loaded.get("@context", loaded) if isinstance(loaded, dict) else loaded


class _Contexts:
    """The contexts that are known by name, and the document they are put into."""

    def __init__(self, known: Mapping[str, Any], name: str) -> None:
        self.known = known
        self.name = name

    def put_in_place(self, value: Any) -> Any:
        """A part of a document with its contexts in their place."""
        if isinstance(value, list):
            return [self.put_in_place(item) for item in value]
        if not isinstance(value, dict):
            return value
        id = value.get("@id")
        if isinstance(id, str) and _NO_IRI.search(id):
            raise LoadError(self.name, f"expected an IRI, got {id!r}. Mend it there.")
        return {
            key: self._context(item, ()) if key == "@context" else self.put_in_place(item)
            for key, item in value.items()
        }

    def _context(self, value: Any, around: tuple[str, ...]) -> Any:
        """A context; `within` are the names of those around it."""
        if isinstance(value, str):
            if value not in self.known or value in around:
                reason = "names itself" if value in around else "is on the network, and nothing is fetched"
                raise LoadError(self.name, f"the context {value} {reason}. Say --context {value}=FILE.")
            return self._context(self.known[value], (*around, value))
        if isinstance(value, list):
            return [self._context(item, around) for item in value]
        if not isinstance(value, dict):
            return value
        if _has_long_chain(value):
            raise LoadError(
                self.name,
                f"expected terms that stand for at most {MAX_TERM_CHAIN} others in a row or in a circle, got more. Write their IRIs.",
            )
        terms = {key: self._term(item, around) for key, item in value.items() if key != "@import"}
        imported = self._context(value["@import"], around) if "@import" in value else {}
        return imported | terms if isinstance(imported, dict) else [imported, terms]

    def _term(self, value: Any, within: tuple[str, ...]) -> Any:
        if not isinstance(value, dict) or "@context" not in value:
            return value
        return value | {"@context": self._context(value["@context"], within)}


def _has_long_chain(terms: Mapping[str, Any]) -> bool:
    """Whether terms of a context are defined by others, these by others again, and so on beyond the limit."""
    waiting = {
        term: needed
        for term, definition in terms.items()
        if (needed := {*_needed_terms(term, definition)} & terms.keys())
    }
    for _ in range(MAX_TERM_CHAIN):
        waiting = {term: needed for term, needed in waiting.items() if any(other in waiting for other in needed)}
    return len(waiting) > MAX_TERM_CHAIN


def _needed_terms(term: str, definition: Any) -> Iterator[str]:
    """The prefixes and terms that may define a term."""
    definition = (
        [definition.get(key) for key in ("@id", "@type", "@reverse")] if isinstance(definition, dict) else [definition]
    )
    for text in (item for item in (term, *definition) if isinstance(item, str)):
        yield from {text, text.partition(":")[0]} - {term}


# ---------------------------------------------------------------- objects and their nodes


Parse: TypeAlias = Callable[[bytes], list[Any]]  # a document's quads

_MARKER = "urn:kbdisk:object"
_MAP_CONTAINERS = {"@language", "@index", "@id", "@type"}
_LIST_KEYWORDS = {"@list", "@set"}
_NO_NODE_KEYWORDS = {
    "@id",
    "@type",
    "@language",
    "@index",
    "@direction",
    "@base",
    "@vocab",
}  # their values are no nodes


@dataclass(slots=True)
class Terms:
    """The terms that all contexts of a document define, as far as they show which objects are nodes."""

    words: dict[str, str] = field(default_factory=dict)  # another name of a keyword -> the keyword
    maps: set[str] = field(default_factory=set)  # terms whose objects have values as members, not properties
    lists: set[str] = field(default_factory=set)  # terms whose lists are collections

    @classmethod
    def of_document(cls, document: Any) -> Terms:
        """The terms of a parsed document."""
        terms = cls()
        rest = [document]
        while rest:
            value = rest.pop()
            if isinstance(value, list):
                rest.extend(value)
            elif isinstance(value, dict):
                rest.extend(value.values())
                terms._learn(value.get("@context"))
        return terms

    def _learn(self, context: Any) -> None:
        for part in context if isinstance(context, list) else [context]:
            for term, meant in part.items() if isinstance(part, dict) else ():
                if not term.startswith("@"):
                    self._take(term, meant if isinstance(meant, dict) else {"@id": meant})

    def _take(self, term: str, meant: Mapping[str, Any]) -> None:
        word, container = meant.get("@id"), meant.get("@container")
        if isinstance(word, str) and word.startswith("@"):
            self.words[term] = word
        containers = container if isinstance(container, list) else [container]
        if _MAP_CONTAINERS.intersection(containers):
            self.maps.add(term)
        if "@list" in containers:
            self.lists.add(term)

    def word(self, key: str) -> str:
        """A key, or the keyword that it is another name of."""
        return self.words.get(key, key)


class Node(NamedTuple):
    """An object that is a node, and the contexts around it, the outermost first."""

    place: TextSpan
    contexts: tuple[TextSpan, ...]


class Document:
    """A document and its objects; `parsed` is its JSON, with all contexts in their place."""

    def __init__(self, text: bytes, parsed: Any, parse: Parse, blanks: BlankNodes) -> None:
        self.text = text
        self.root = outline(text)
        self.terms = Terms.of_document(parsed)
        self.objects = list(self._objects())
        self.nodes: dict[tuple[str, str], Node] = {}  # by subject and graph; of several objects the largest
        self._locate(parse, blanks)

    def scope(self, node: Node) -> tuple[tuple[bytes, ...], tuple[tuple[str, bytes], ...]]:
        """The scope of an object's keys: the texts of the contexts around it, and of its classes."""
        contexts = tuple(self.text[place.start : place.end] for place in node.contexts)
        class_members = ((key, place) for key, place in node.place.named.items() if self.terms.word(key) == "@type")
        return contexts, tuple((key, self.text[place.start : place.end]) for key, place in class_members)

    def _locate(self, parse: Parse, blanks: BlankNodes) -> None:
        marker = unused_iri(self.text, _MARKER)
        for where, index in marked_nodes(parse(self._mark_objects(marker)), marker, blanks):
            node = self.objects[index]
            if where not in self.nodes or len(node.place.inner) > len(self.nodes[where].place.inner):
                self.nodes[where] = node

    def _mark_objects(self, marker: str) -> bytes:
        """The document with a member in every object that holds its index."""
        changes = []
        for index, node in enumerate(self.objects):
            member, inner = f'"{marker}":"{index}"'.encode(), node.place.inner
            offset = inner[-1].place.end if inner else node.place.start + 1
            changes.append((offset, offset, b"," + member if inner else member))
        return apply_changes(self.text, changes)

    def _objects(self) -> Iterator[Node]:
        """The objects that may be nodes."""
        stack: list[tuple[TextSpan, tuple[TextSpan, ...], bool]] = [(self.root, (), True)]
        while stack:
            place, contexts, may_be_node = stack.pop()
            if place.kind == "list":
                stack.extend((entry.place, contexts, may_be_node) for entry in reversed(place.inner))
            if place.kind != "part":
                continue
            words = {self.terms.word(key) for key in place.named} - {"@context"}
            if "@value" in words:
                continue
            if context := place.named.get("@context"):
                contexts = (
                    *contexts,
                    *([entry.place for entry in context.inner] if context.kind == "list" else [context]),
                )
            is_graph = words == {"@graph"}  # of no name: with a member more, it would be one of a node without a name
            if may_be_node and not is_graph and not words & _LIST_KEYWORDS:
                yield Node(place, contexts)
            for key, inner in reversed(place.named.items()):
                word = self.terms.word(key)
                if word not in _NO_NODE_KEYWORDS and word != "@context":
                    is_map = word == "@reverse" or key in self.terms.maps
                    stack.append((inner, contexts, not (is_map and inner.kind == "part")))


# ---------------------------------------------------------------- usage of keys


@dataclass(frozen=True, slots=True)
class Usage:
    """How a document uses its keys and strings."""

    keys: tuple[str, ...]  # of objects that are nodes, the most frequent first
    strings: frozenset[str]
    listed: frozenset[str]  # keys whose values are lists more often than not
    quoted: frozenset[str]  # keys whose values are mostly strings
    prefixes: Mapping[str, str]
    base: str | None

    @classmethod
    def of_document(cls, document: Document, parsed: Any, prefixes: Mapping[str, str], base: str | None) -> Usage:
        """The usage of a document, of its JSON, and of its short forms that the parser knows."""
        counts: Counter[str] = Counter()
        lists: Counter[str] = Counter()
        quoted: Counter[str] = Counter()
        for node in document.objects:
            for key, place in node.place.named.items():
                counts[key] += 1
                lists[key] += place.kind == "list"
                quoted[key] += document.text[place.start : place.start + 1] == b'"'
        keys = tuple(key for key, _ in counts.most_common())
        strings = frozenset(_strings(parsed))
        seen = {text.partition(":")[0] for text in (*strings, *keys) if ":" in text}
        return cls(
            keys,
            strings,
            frozenset(key for key in keys if 2 * lists[key] > counts[key]),
            frozenset(key for key in keys if 2 * quoted[key] > counts[key]),
            {name: iri for name, iri in prefixes.items() if name in seen},
            base,
        )


def _strings(value: Any) -> Iterator[str]:
    rest = [value]
    while rest:
        value = rest.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            rest.extend(value)
        elif isinstance(value, dict):
            rest.extend(value.values())


# ---------------------------------------------------------------- spelling of statements


_TRIAL_SUBJECT = "urn:kbdisk:trial:"
_TRIAL_VALUES = ("", {"@id": "urn:kbdisk:value"})  # one that a map of languages refuses is not refused by others
_FLOATS = (XSD + "double", XSD + "float")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})")


class Spelt(NamedTuple):
    """A statement as a member of an object, and the term that is read from it."""

    key: str
    value: Any
    term: Any


class Scope(NamedTuple):
    """The scope of an object's keys: the contexts around it, and its classes by their key."""

    contexts: list[Any]
    classes: dict[str, Any]


class Spelling:
    """How statements are spelt in a scope; `in_full` allows only complete IRIs with explicit types."""

    def __init__(self, scope: Scope, usage: Usage, terms: Terms, parse: Parse, in_full: bool) -> None:
        self.scope = scope
        self.usage = usage
        self.terms = terms
        self.parse = parse
        self.in_full = in_full
        type_keys = [] if in_full else [key for key in usage.keys if terms.word(key) == "@type"]
        self.keys: dict[str, list[str]] = {TYPE: type_keys or ["@type"]}
        self.spelt: dict[tuple[str, Any], Spelt] = {}
        if not in_full:
            self._learn_keys(key for key in usage.keys if not terms.word(key).startswith("@"))

    def learn(self, pairs: Iterable[tuple[NamedNode, Any]]) -> None:
        """Find out how statements with these predicates and objects are spelt, new nodes aside."""
        wanted = list(dict.fromkeys(pair for pair in pairs if (pair[0].value, pair[1]) not in self.spelt))
        unknown = {predicate.value for predicate, _ in wanted} - self.keys.keys()
        for predicate in sorted(unknown):
            self._learn_keys(self._iri_forms(predicate))
        trials = [
            (predicate.value, object, key, value)
            for predicate, object in wanted
            for key, value in self._members(predicate.value, object)
        ]
        parsed = self._parse_trials([{key: value} for *_, key, value in trials])
        for (predicate, object, key, value), quads in zip(trials, parsed, strict=True):
            if len(quads) == 1 and quads[0].predicate.value == predicate and _is_same_term(quads[0].object, object):
                self.spelt.setdefault((predicate, object), Spelt(key, value, quads[0].object))

    def keys_of(self, predicate: str) -> list[str]:
        """The keys of a predicate, the best first."""
        return [*self.keys.get(predicate, ()), predicate]

    def _learn_keys(self, keys: Iterable[str]) -> None:
        trials = [(key, value) for key in keys for value in _TRIAL_VALUES]
        for (key, _), quads in zip(trials, self._parse_trials([{key: value} for key, value in trials]), strict=True):
            for quad in quads:
                known = self.keys.setdefault(quad.predicate.value, [])
                if key not in known:
                    known.append(key)

    def _parse_trials(self, members: list[dict[str, Any]]) -> list[list[Any]]:
        """The quads of objects with these members, each by itself; none for invalid JSON-LD."""
        if not members:
            return []
        objects = [
            {"@id": f"{_TRIAL_SUBJECT}{index}", **self.scope.classes, **members_of_trial}
            for index, members_of_trial in enumerate(members)
        ]
        try:
            quads = self.parse(orjson.dumps({"@context": self.scope.contexts, "@graph": objects}))
        except SyntaxError:
            half = len(members) // 2
            return [*self._parse_trials(members[:half]), *self._parse_trials(members[half:])] if half else [[]]
        by_subject: dict[str, list[Any]] = {members_of_trial["@id"]: [] for members_of_trial in objects}
        for quad in quads:
            if quad.subject.value in by_subject:
                by_subject[quad.subject.value].append(quad)
        return [
            [quad for quad in several if quad.predicate.value != TYPE or self._is_class(members_of_trial)]
            for members_of_trial, several in zip(members, by_subject.values(), strict=True)
        ]

    def _is_class(self, member: dict[str, Any]) -> bool:
        """Whether a member is a class, which takes the place of the classes of the scope."""
        return any(self.terms.word(key) == "@type" for key in member)

    # ------------------------------------------------------------ forms

    def _members(self, predicate: str, object: Any) -> list[tuple[str, Any]]:
        """The members that may express a statement, the likeliest first: a link by the most frequent key, other values in their
        shortest form; a number as a string where its key has strings."""
        keys, values = self.keys_of(predicate), list(self._values(object))
        if isinstance(object, NamedNode):
            return [(key, value) for key in keys for value in values]
        if keys[0] in self.usage.quoted:
            values.sort(key=lambda value: isinstance(value, int | float))
        return [(key, value) for value in values for key in keys]

    def _values(self, object: Any) -> Iterator[Any]:
        """The forms that an object may have, the shortest first."""
        if isinstance(object, NamedNode):
            forms = self._iri_forms(object.value)
            yield from forms
            yield from ({"@id": form} for form in forms)
        elif isinstance(object, BlankNode):
            yield {"@id": f"_:{object.value}"}
        elif isinstance(object, Literal):
            yield from () if self.in_full else self._context_forms(object)
            yield from self._full_forms(object)

    def _context_forms(self, literal: Literal) -> Iterator[Any]:
        """The forms of a literal whose type or language comes from the context."""
        number = _json_number(literal)
        if number is not None:
            yield number
        if literal.datatype.value == XSD + "boolean" and literal.value in ("true", "false"):
            yield literal.value == "true"
        yield literal.value
        if literal.language:
            yield {literal.language: literal.value}

    def _full_forms(self, literal: Literal) -> Iterator[Any]:
        """The forms of a literal with its type or language."""
        if literal.language:
            direction = {"@direction": literal.direction.value} if literal.direction else {}
            yield {"@value": literal.value, "@language": literal.language, **direction}
        elif literal.datatype.value == STRING:
            yield {"@value": literal.value}
        else:
            yield from ({"@value": literal.value, "@type": form} for form in self._iri_forms(literal.datatype.value))

    def _iri_forms(self, iri: str) -> list[str]:
        """The forms that an IRI may have; those that the document uses come first."""
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


def _json_number(literal: Literal) -> int | float | None:
    """A literal as a JSON number, where it may be one."""
    datatype, text = literal.datatype.value, literal.value
    if datatype in _FLOATS:
        try:
            number = float(text)
        except ValueError:
            return None
        return number if math.isfinite(number) else None
    return int(text) if _INTEGER.fullmatch(text) else None


def _is_same_term(term: Any, wanted: Any) -> bool:
    """Whether two terms are the same value."""
    if term == wanted:
        return True
    if not (isinstance(term, Literal) and isinstance(wanted, Literal) and term.datatype == wanted.datatype):
        return False
    # as text: 0.0 is not -0.0
    return (
        term.datatype.value in _FLOATS
        and _json_number(term) is not None
        and repr(_json_number(term)) == repr(_json_number(wanted))
    )


# ---------------------------------------------------------------- new statements in the text


Targets = list[tuple[Node, list[Quad]]]  # objects, each with the quads that it takes


def changes_for(kb: RdfFile, given_quads: list[Quad], new: list[Quad]) -> list[Change] | None:
    """The changes that put new statements into the document of a source; None where some have no place."""
    data = kb.source.read()
    text = data.removeprefix(BOM_UTF8)
    additions = Additions(given_quads, new, kb.blanks())
    try:
        reading = _Reading(kb, text)
        for in_full in (False, True):  # no context of a class or a property gives a complete IRI another meaning
            written: list[Quad] = []
            changes = reading.changes(additions, written, in_full)
            if is_isomorphic(reading.parse(apply_changes(text, changes)), given_quads, written):
                mark_length = len(data) - len(text)
                return [(start + mark_length, end + mark_length, new_bytes) for start, end, new_bytes in changes]
    except (SyntaxError, LoadError, NoPlace):  # a fault in the outcome, as the document itself has been read before
        pass
    return None


class _Reading:
    """A document, and the parser with the settings of its source."""

    def __init__(self, kb: RdfFile, text: bytes) -> None:
        self.kb = kb
        parsed = json.loads(self._prepared(text))
        self.document = Document(text, parsed, self.parse, kb.blanks())
        self.usage = Usage.of_document(self.document, parsed, kb.prefixes, kb.base)

    def parse(self, text: bytes) -> list[Any]:
        """The quads of a document in the place of this one."""
        return self._parse_prepared(self._prepared(text))

    def _prepared(self, text: bytes) -> bytes:
        return prepare(text, self.kb.options.context, self.kb.name)

    def _parse_prepared(self, text: bytes) -> list[Any]:
        return list(syntax.parser(text, self.kb.format, self.kb.options.base or syntax.NO_BASE))

    def changes(self, additions: Additions, written: list[Quad], in_full: bool) -> list[Change]:
        """The changes that put in the new statements; `written` collects these as they will be read."""
        text = self.document.text
        style = JsonStyle()
        style.has_raw_unicode, style.has_escapes = not text.isascii(), b"\\u" in text
        filling = TextFiller(text, Layout(text, self.document.root, style), {})
        for targets in self._targets(additions):
            spelling = self._spelling(targets[0][0], in_full)
            spelling.learn(
                (quad.predicate, quad.object) for _, quads in targets for quad in additions.with_parts(quads)
            )
            members = _Members(additions, spelling, written)
            for node, quads in targets:
                _set_in(filling, node, members.members_of(quads), members)
        if filling.refused:
            raise NoPlace
        return filling.changes

    def _targets(self, additions: Additions) -> list[Targets]:
        """The objects that take statements; those of one scope together."""
        targets: dict[Any, dict[int, tuple[Node, list[Quad]]]] = {}
        for quad in additions.roots:
            node = self.document.nodes.get(additions.key(quad))
            if node is None:
                raise NoPlace
            of_scope = targets.setdefault(self.document.scope(node), {})
            of_scope.setdefault(node.place.start, (node, []))[1].append(quad)
        return [list(of_scope.values()) for of_scope in targets.values()]

    def _spelling(self, node: Node, in_full: bool) -> Spelling:
        contexts, classes = self.document.scope(node)
        around = b'{"@context":[' + b",".join(contexts) + b"]}"
        scope = Scope(
            json.loads(self._prepared(around))["@context"], {key: orjson.loads(text) for key, text in classes}
        )
        return Spelling(scope, self.usage, self.document.terms, self._parse_prepared, in_full)


def _set_in(filling: TextFiller, node: Node, members: dict[str, list[Any]], writer: _Members) -> None:
    """Set new members into an object; where a key has a value, the new ones go into its list, or make it one."""
    new_value = NewValue()
    for key, values in members.items():
        place = node.place.named.get(key)
        if place is None or place.kind == "null":
            new_value.inner[key] = NewValue(writer.value(key, values), paths=[(key,)])
        elif place.kind == "list":
            inner = new_value.inner[key] = NewValue(paths=[(key,)])
            inner.inner = {
                index: NewValue(value, paths=[(key,)]) for index, value in enumerate(values, len(place.inner))
            }
        else:
            filling.make_list(place, values)
    filling.into(node.place, new_value)


class _Members:
    """New statements as members of objects; `written` collects them as they will be read."""

    def __init__(self, additions: Additions, spelling: Spelling, written: list[Quad]) -> None:
        self.parts = additions.parts
        self.spelling = spelling
        self.usage = spelling.usage
        self.terms = spelling.terms
        self.written = written

    def members_of(self, quads: Iterable[Quad]) -> dict[str, list[Any]]:
        """The members for the quads of one subject, by key."""
        members: dict[str, list[Any]] = {}
        for quad in quads:
            key, value = self._member(quad)
            members.setdefault(key, []).append(value)
        return members

    def value(self, key: str, values: list[Any]) -> Any:
        """One value or several: in a list where the document uses lists, in a map where the key has a language map."""
        if key in self.terms.maps and all(isinstance(value, dict) for value in values):
            return {name: item for value in values for name, item in value.items()}
        if len(values) > 1 or (key in self.usage.listed and key not in self.terms.lists):
            return values
        return values[0]

    def _member(self, quad: Quad) -> tuple[str, Any]:
        predicate = quad.predicate.value
        if quad.object in self.parts:
            key, term = self.spelling.keys_of(predicate)[0], quad.object
            value = self._part(quad.object, is_list=key in self.terms.lists)
        elif (predicate, quad.object) in self.spelling.spelt:
            key, value, term = self.spelling.spelt[predicate, quad.object]
        else:
            raise NoPlace
        self.written.append(Quad(quad.subject, quad.predicate, term, quad.graph_name))
        return key, value

    def _part(self, node: Any, is_list: bool) -> Any:
        """A new node with its properties; a collection as a list."""
        if any(quad.predicate.value == FIRST for quad in self.parts[node]):
            items = list(self._items(node))
            return items if is_list else {"@list": items}
        return {key: self.value(key, values) for key, values in self.members_of(self.parts[node]).items()}

    def _items(self, node: Any) -> Iterator[Any]:
        """The values of a collection."""
        while node in self.parts:
            quads = {quad.predicate.value: quad for quad in self.parts[node]}
            if quads.keys() != {FIRST, REST}:
                raise NoPlace
            yield self._member(quads[FIRST])[1]
            self.written.append(quads[REST])
            node = quads[REST].object


# ---------------------------------------------------------------- a new document


def serialise(quads: Sequence[Quad], stream: BinaryIO, prefixes: Mapping[str, str]) -> None:
    """Write quads."""
    if quoting := next((quad for quad in quads if type(quad.object) is Triple), None):
        raise ValueError(f"expected no triple term, got <<( {quoting.object} )>>")
    pyoxigraph.serialize(quads, stream, format=RdfFormat.JSON_LD, prefixes=dict(prefixes))
