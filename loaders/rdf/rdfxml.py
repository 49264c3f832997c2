"""RDF/XML: checked before parsing, new statements set into the text of a document, and new documents.

`prepare` makes sure that a document is complete, well-formed, of sane size, and in UTF-8. Nothing that it names is fetched.
The parser itself would take a document that ends in the middle for a complete one, and expand entities within entities
until memory is full.

New statements go into the elements of their subjects. Which elements may be nodes depends on their depth; which node each
is, only the parser knows: it parses a copy of the document in which each of these elements has one more property. The
outcome is parsed again: unless it has exactly the statements of the document and the new ones, it is not used.

A new document is one that every XML parser reads; pyoxigraph writes some characters and element names that XML forbids.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from xml.parsers import expat

import pyoxigraph
from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, RdfFormat, Triple

from kbdisk.errors import LoadError
from kbdisk.loaders.edits import Change, apply_changes
from kbdisk.loaders.rdf import syntax
from kbdisk.loaders.rdf.additions import Additions, NoPlace, is_isomorphic, marked_nodes, unused_iri
from kbdisk.loaders.rdf.blank_nodes import BlankNodes, blank_nodes, renamed
from kbdisk.loaders.rdf.terms import RDF, STRING, TYPE

if TYPE_CHECKING:
    from kbdisk.loaders.rdf.file import RdfFile


# ---------------------------------------------------------------- before parsing


UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")  # a document in UTF-16 begins so
MAX_ELEMENT_DEPTH = 20_000  # levels; the parser takes time by their square

_DECLARED = re.compile(rb"\A\s*<\?xml\b[^>]*?\?>")
_SINGLE_QUOTED_ENTITY = re.compile(rb"(<!ENTITY\s+[^\s\"'>]+\s+)'([^'\"]*)'")  # the parser knows double quotes alone


def prepare(data: bytes, name: str) -> bytes:
    """The document as the parser can read it; LoadError where it is not well-formed."""
    encoding = _Check(name).over(data)
    if encoding.lower() != "utf-8":
        text = data.decode(encoding).removeprefix("\ufeff")
        data = _DECLARED.sub(b"", text.encode())
    data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")  # as every XML parser but this one does
    return _SINGLE_QUOTED_ENTITY.sub(rb'\1"\2"', data) if b"<!ENTITY" in data else data


class _Check:
    """A check of the document by a parser that keeps nothing."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.depth = 0
        self.triple_depths: list[int] = []  # the depths of the triple terms around
        self.encoding = ""
        self.parser = parser = expat.ParserCreate()
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.EntityDeclHandler = self._entity
        parser.XmlDeclHandler = self._declaration

    def over(self, data: bytes) -> str:
        """Check a document; returns its encoding."""
        try:
            self.parser.Parse(data, True)
        except expat.ExpatError as error:
            raise self._fault(error) from None
        except LookupError as error:
            raise LoadError(self.name, f"expected RDF/XML in UTF-8, got an {error}. Save it as UTF-8.", 1) from None
        return "utf-16" if data[:2] in UTF16_MARKS else self.encoding or "utf-8"

    def _fault(self, error: expat.ExpatError) -> LoadError:
        message = expat.errors.messages.get(error.code, str(error))
        if message == expat.errors.XML_ERROR_NO_ELEMENTS or (
            self.depth and message == expat.errors.XML_ERROR_UNCLOSED_TOKEN
        ):
            return LoadError(self.name, "expected more RDF/XML, got the end of the file. Get all of it.", error.lineno)
        return LoadError(self.name, f"expected RDF/XML, got an error: {message}. Mend it there.", error.lineno)

    def _start(self, name: str, attributes: Any) -> None:
        self.depth += 1
        if self.depth > MAX_ELEMENT_DEPTH:
            line = self.parser.CurrentLineNumber
            raise LoadError(self.name, f"expected at most {MAX_ELEMENT_DEPTH:,} levels, got more. Write it flat.", line)
        if any(key.endswith("parseType") and value == "Triple" for key, value in attributes.items()):
            self.triple_depths.append(self.depth)
            if len(self.triple_depths) > syntax.MAX_NESTED_TRIPLES:
                raise syntax.too_deeply_nested(self.name, self.parser.CurrentLineNumber)

    def _end(self, name: str) -> None:
        if self.triple_depths and self.triple_depths[-1] == self.depth:
            self.triple_depths.pop()
        self.depth -= 1

    def _entity(self, name: str, parameter: bool, value: str | None, *place: str | None) -> None:
        if value is None and not parameter:
            problem = f"the entity {name} is in another file, and nothing is fetched. Put its text there."
            raise LoadError(self.name, problem, self.parser.CurrentLineNumber)

    def _declaration(self, version: str, encoding: str | None, standalone: int) -> None:
        self.encoding = encoding or ""


# ---------------------------------------------------------------- elements and their nodes


_MARKER, _MARK = "urn:kbdisk:element:", "is"  # a namespace, and a property in it


class Role(Enum):
    """The role of an element."""

    ROOT = auto()  # holds nodes
    NODE = auto()
    PROPERTY = auto()
    PART = auto()  # a property that is also its value: parseType="Resource"
    OPAQUE = auto()


_CHILD_ROLE = {
    Role.ROOT: Role.NODE,
    Role.NODE: Role.PROPERTY,
    Role.PROPERTY: Role.NODE,
    Role.PART: Role.PROPERTY,
    Role.OPAQUE: Role.OPAQUE,
}


@dataclass(slots=True)
class Element:
    """An element and its place; `end` is the start of its end tag, or the end of its only tag."""

    name: str
    role: Role
    start: int
    names: Mapping[str, str]  # prefix -> namespace, in force inside it
    language: str
    parent: Element | None
    end: int = 0
    children: int = 0
    first: int = 0  # where its first child begins
    has_text: bool = False
    is_one_tag: bool = False


class Elements:
    """The elements of a document by their nodes, of several elements the one with most children; and the XML entities at
    the start of attributes, by name."""

    def __init__(self, data: bytes, parse: Callable[[bytes], list[Any]], blanks: BlankNodes) -> None:
        reading = _Reading(data)
        self.entities = {name: text for name, text in reading.entities.items() if f'="&{name};'.encode() in data}
        self.by_node: dict[tuple[str, str], Element] = {}
        marker = unused_iri(data, _MARKER)
        marked = parse(_mark_elements(data, reading.elements, marker))
        for where, index in marked_nodes(marked, marker + _MARK, blanks):
            element = reading.elements[index]
            if where not in self.by_node or element.children > self.by_node[where].children:
                self.by_node[where] = element


def _mark_elements(data: bytes, elements: list[Element], marker: str) -> bytes:
    """The document with a property in every element that holds its index."""
    changes = []
    for index, element in enumerate(elements):
        mark = f'<{_MARK} xmlns="{marker}">{index}</{_MARK}>'
        if element.is_one_tag:
            changes.append((element.end - 2, element.end, f">{mark}</{element.name}>".encode()))
        else:
            changes.append((element.end, element.end, mark.encode()))
    return apply_changes(data, changes)


class _Reading:
    """Goes through a document that is well-formed; `elements` are those that may be nodes. NoPlace where it is
    not in UTF-8."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.elements: list[Element] = []
        self.stack: list[Element] = []
        self.entities: dict[str, str] = {}
        self.parser = parser = expat.ParserCreate()
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.EntityDeclHandler = self._entity
        parser.XmlDeclHandler = self._declaration
        if data[:2] in UTF16_MARKS:
            raise NoPlace
        parser.Parse(data, True)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        outer = self.stack[-1] if self.stack else None
        declared = {key.partition(":")[2]: iri for key, iri in attributes.items() if key.partition(":")[0] == "xmlns"}
        names = {**outer.names, **declared} if outer and declared else outer.names if outer else declared
        language = attributes.get("xml:lang", outer.language if outer else "")
        place = self.parser.CurrentByteIndex
        element = Element(name, self._role(name, attributes, names), place, names, language, outer)
        if outer:
            outer.first = outer.first or place
            outer.children += 1
        self.stack.append(element)

    def _role(self, name: str, attributes: Mapping[str, str], names: Mapping[str, str]) -> Role:
        def meant(name: str) -> str:
            prefix, colon, word = name.rpartition(":")
            return names.get(prefix, "") + word if colon or "" in names else name

        if not self.stack:
            return Role.ROOT if meant(name) == RDF + "RDF" else Role.NODE
        role = _CHILD_ROLE[self.stack[-1].role]
        kind = next((value for key, value in attributes.items() if meant(key) == RDF + "parseType"), "Collection")
        if role is Role.PROPERTY and kind != "Collection":
            return Role.PART if kind == "Resource" else Role.OPAQUE
        return role

    def _end(self, name: str) -> None:
        element = self.stack.pop()
        element.end = place = self.parser.CurrentByteIndex
        element.is_one_tag = not element.children and not element.has_text and self.data[place - 2 : place] == b"/>"
        if element.role in (Role.NODE, Role.PART):
            self.elements.append(element)

    def _text(self, text: str) -> None:
        self.stack[-1].has_text = True

    def _entity(self, name: str, parameter: bool, value: str | None, *place: str | None) -> None:
        if value and not parameter:
            self.entities[name] = value

    def _declaration(self, version: str, encoding: str | None, standalone: int) -> None:
        if (encoding or "utf-8").lower() != "utf-8":
            raise NoPlace


# ---------------------------------------------------------------- new statements in the text


_NAME = re.compile(r"[^\W\d][\w.-]*")
_ENDS_IN_NAME = re.compile(r"((?>.*[^\w.-])?+[\d.-]*+)([^\W\d][\w.-]*+)", re.DOTALL)
_INDENT_OF_LINE = re.compile(rb"[\r\n]([ \t]*)\Z")
_INDENT_REACH = 400  # bytes looked back for the indentation of a line

Line = tuple[int, str]  # additional depth of indentation, text


def changes_for(kb: RdfFile, given_quads: list[Quad], new: list[Quad]) -> list[Change] | None:
    """The changes that put new statements into the document of a source; None where it cannot take them all in."""
    data = kb.source.read()

    def parse(document: bytes) -> list[Any]:
        return list(syntax.parser(prepare(document, kb.name), kb.format, kb.options.base))

    additions = Additions(given_quads, new, kb.blanks())
    try:
        changes = _changes_of(data, Elements(data, parse, kb.blanks()), additions)
        same = is_isomorphic(parse(apply_changes(data, changes)), given_quads, new)
    except (SyntaxError, NoPlace):
        return None
    return changes if same else None


def _changes_of(data: bytes, elements: Elements, additions: Additions) -> list[Change]:
    """The changes of the elements that take statements."""
    targets: dict[int, tuple[Element, list[Quad]]] = {}
    for quad in additions.roots:
        element = elements.by_node.get(additions.key(quad))
        if element is None:
            raise NoPlace
        targets.setdefault(element.start, (element, []))[1].append(quad)
    layout = _Layout(data)
    return [
        layout.change(element, list(_Properties(additions, element, elements.entities).properties(quads, 0)))
        for element, quads in targets.values()
    ]


class _Properties:
    """Statements as property elements, with the namespaces in force inside an element."""

    def __init__(self, additions: Additions, element: Element, entities: Mapping[str, str]) -> None:
        self.entities = entities
        self.parts = additions.parts
        self.blanks = additions.blanks
        self.element = element
        rdf = next((prefix for prefix, iri in element.names.items() if prefix and iri == RDF), None)
        if rdf is None:
            raise NoPlace
        self.rdf = rdf

    def properties(self, quads: Iterable[Quad], depth: int) -> Iterator[Line]:
        """The lines of some statements about one node."""
        for quad in quads:
            name, declared = self._name_predicate(quad.predicate.value)
            if quad.object in self.parts:
                yield depth, f"<{name}{declared}>"
                yield from self._part(quad.object, depth + 1)
                yield depth, f"</{name}>"
            else:
                attribute, text = self._value(quad.object)
                yield depth, f"<{name}{declared}{attribute}" + ("/>" if text is None else f">{text}</{name}>")

    def _part(self, node: Any, depth: int) -> Iterator[Line]:
        """A new node, under the name of its class where that may be one."""
        quads = self.parts[node]
        classes = [quad for quad in quads if quad.predicate.value == TYPE and self._known_class(quad.object)]
        name = self._known_class(classes[0].object) if classes else f"{self.rdf}:Description"
        yield depth, f"<{name}>"
        yield from self.properties((quad for quad in quads if quad not in classes[:1]), depth + 1)
        yield depth, f"</{name}>"

    def _value(self, term: Any) -> tuple[str, str | None]:
        """The attributes of a property element, and its text."""
        if isinstance(term, NamedNode):
            return f" {self.rdf}:resource={self._quote_iri(term.value)}", None
        if isinstance(term, BlankNode):
            if self.blanks.is_anonymous(term.value):
                raise NoPlace
            return f" {self.rdf}:nodeID={_quote_attribute(term.value)}", None
        if not isinstance(term, Literal):
            raise NoPlace
        text = _escape_text(term.value)
        if term.direction:  # has a namespace of its own, which none of these documents declares
            raise NoPlace
        if term.language:
            return f" xml:lang={_quote_attribute(term.language)}", text
        if term.datatype.value != STRING or self.element.language:  # a plain one would be of that language
            return f" {self.rdf}:datatype={self._quote_iri(term.datatype.value)}", text
        return "", text

    def _quote_iri(self, iri: str) -> str:
        """An IRI as an attribute, with an XML entity of the document where one fits."""
        for name, start in self.entities.items():
            if iri.startswith(start):
                return f'"&{name};{_quote_attribute(iri[len(start) :])[1:]}'
        return _quote_attribute(iri)

    def _name_predicate(self, iri: str) -> tuple[str, str]:
        """The name of a predicate, and the declaration of its namespace where that is new."""
        known = self._known(iri)
        if known:
            return known, ""
        parted = _ENDS_IN_NAME.fullmatch(iri)
        if parted is None or not parted[1]:
            raise NoPlace
        prefix = next(
            candidate for candidate in map("ns{}".format, range(1, 10**6)) if candidate not in self.element.names
        )
        return f"{prefix}:{parted[2]}", f" xmlns:{prefix}={_quote_attribute(parted[1])}"

    def _known_class(self, term: Any) -> str:
        return self._known(term.value) if isinstance(term, NamedNode) else ""

    def _known(self, iri: str) -> str:
        """The name of an IRI by the longest namespace in force; an empty string where there is none."""
        for prefix, start in sorted(self.element.names.items(), key=lambda item: -len(item[1])):
            if start and iri.startswith(start) and _NAME.fullmatch(iri, len(start)):
                return f"{prefix}:{iri[len(start) :]}" if prefix else iri[len(start) :]
        return ""


def _escape_text(text: str) -> str:
    """A text as the content of an element."""
    from xml.sax.saxutils import escape  # loads modules of the network, which reading must not

    return escape(text, {"\r": "&#13;"})


def _quote_attribute(text: str) -> str:
    """A text as the value of an attribute, in quotes."""
    from xml.sax.saxutils import quoteattr

    return quoteattr(text)


class _Layout:
    """The layout of a document: line ends and indentation."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.newline = syntax.newline_of(data[: syntax.CHUNK_SIZE]).decode()

    def change(self, element: Element, lines: list[Line]) -> Change:
        """The change of an element that takes new properties."""
        indent, inner = self._indent(element.start), self._inner(element)
        if inner is None:
            text, close = "".join(line for _, line in lines), ""
        else:
            unit = inner.removeprefix(indent or "") or "  "
            text = "".join(self.newline + inner + depth * unit + line for depth, line in lines)
            close = self.newline + (indent or "")
        before = self.data[max(element.start, element.end - _INDENT_REACH) : element.end]
        if element.is_one_tag:
            tag = before[:-2].rstrip()
            return element.end - len(before) + len(tag), element.end, f">{text}{close}</{element.name}>".encode()
        place = element.end - (len(before) - len(before.rstrip()))
        if inner is None or not (element.first or b"\n" in self.data[place : element.end]):
            return element.end, element.end, (text + close).encode()
        return place, place, text.encode()

    def _inner(self, element: Element) -> str | None:
        """The indentation of an element's properties; None where they share a line."""
        if element.first:
            return self._indent(element.first)
        indent, outer = self._indent(element.start), self._indent(element.parent.start) if element.parent else ""
        return None if indent is None else indent + (indent.removeprefix(outer or "") or "  ")

    def _indent(self, place: int) -> str | None:
        """The blanks before a tag that is the first on its line."""
        match = _INDENT_OF_LINE.search(self.data, max(0, place - _INDENT_REACH), place)
        return match[1].decode() if match else None


# ---------------------------------------------------------------- a new document


_XML_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_NO_CHARACTER = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# pyoxigraph knows more.
_RESERVED_PREDICATES = frozenset(RDF + name for name in ("bagID", "aboutEach", "aboutEachPrefix"))
_DECLARED_PREFIXES = ("rdf", "its")  # that pyoxigraph declares itself


def serialise(quads: Sequence[Quad], stream: BinaryIO, prefixes: Mapping[str, str]) -> None:
    """Write quads, all of the default graph."""
    triples = [_triple(quad) for quad in quads]
    for predicate in dict.fromkeys(_predicates(triples)):
        _check_predicate(predicate)
    for literal in _literals(triples):
        if match := _NO_CHARACTER.search(literal.value):
            raise ValueError(f"XML has no character U+{ord(match[0]):04X}, which stands in a literal")
    usable = {name: iri for name, iri in prefixes.items() if not name or _is_usable(name)}
    out = cast(BinaryIO, _EscapedReturns(stream))
    pyoxigraph.serialize(_relabel_for_xml(triples), out, format=RdfFormat.RDF_XML, prefixes=usable)


class _EscapedReturns:
    """A stream that escapes carriage returns: an XML parser would read a bare one as a line feed."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream

    def write(self, data: bytes) -> int:
        self.stream.write(data.replace(b"\r", b"&#13;"))
        return len(data)

    def flush(self) -> None:
        self.stream.flush()


def _triple(quad: Quad) -> Triple:
    if not isinstance(quad.graph_name, DefaultGraph):
        raise ValueError(f"expected the default graph, got {quad.graph_name}")
    return quad.triple


def _predicates(triples: Iterable[Any]) -> Iterator[NamedNode]:
    for triple in triples:
        yield triple.predicate
        if type(triple.object) is Triple:
            yield from _predicates([triple.object])


def _literals(triples: Iterable[Any]) -> Iterator[Literal]:
    for triple in triples:
        if type(triple.object) is Literal:
            yield triple.object
        elif type(triple.object) is Triple:
            yield from _literals([triple.object])


def _check_predicate(predicate: NamedNode) -> None:
    """ValueError unless a predicate becomes an element that an XML parser reads, which is tried out."""
    trial = Triple(BlankNode("b"), predicate, Literal(""))
    try:
        if predicate.value not in _RESERVED_PREDICATES:
            document = pyoxigraph.serialize([trial], format=RdfFormat.RDF_XML) or b""
            expat.ParserCreate(namespace_separator=" ").Parse(document, True)
            return
    except OSError:  # pyoxigraph knows it to be reserved
        pass
    except expat.ExpatError:
        raise ValueError(f"expected a predicate that ends in a name, got {predicate}") from None
    raise ValueError(f"expected a predicate that is no word of RDF/XML itself, got {predicate}")


def _is_usable(prefix: str) -> bool:
    is_name = _XML_NAME.fullmatch(prefix) is not None
    return is_name and not prefix.lower().startswith("xml") and prefix not in _DECLARED_PREFIXES


def _relabel_for_xml(triples: list[Triple]) -> Iterator[Triple]:
    """The triples with labels of blank nodes that XML allows."""
    raws = {node.value for triple in triples for node in blank_nodes(triple)}
    free = (name for n in itertools.count(1) if (name := f"b{n}") not in raws)
    names = {raw: BlankNode(next(free)) for raw in sorted(raws) if not _XML_NAME.fullmatch(raw)}
    return (renamed(triple, lambda node: names.get(node.value, node)) for triple in triples)
