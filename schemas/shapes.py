"""A file of SHACL shapes as a graph to ask, and a shape as the constraints of several nodes that hold together.

All that goes wrong here is a SchemaError that names the file and the node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path as FilePath
from typing import Any, TypeAlias

from kbdisk.entity import Date, Link, Text, Value
from kbdisk.errors import SchemaError
from kbdisk.schemas.imported import DATED, RDF, WHOLE, XSD, of_datatype
from kbdisk.schemas.kinds import Label
from kbdisk.schemas.text import dates, numerals

Term: TypeAlias = Any  # pyoxigraph's NamedNode, BlankNode and Literal

SH = "http://www.w3.org/ns/shacl#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
OWL = "http://www.w3.org/2002/07/owl#"
DASH = "http://datashapes.org/dash#"
NUMBERS = frozenset(XSD + name for name in (*WHOLE, "decimal", "double", "float"))
LARGEST = 2**53
HUGE = 1e300
TRUTHS = {"true": True, "1": True, "false": False, "0": False}


@dataclass
class Graph:
    """Triples by subject and predicate, in the order of the file."""

    name: str
    facts: dict[Term, dict[str, list[Term]]] = field(default_factory=dict)
    prefixes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: FilePath) -> Graph:
        """The triples of a file in any syntax of RDF."""
        import pyoxigraph

        format = pyoxigraph.RdfFormat.from_extension(path.suffix[1:].lower())
        if format is None:
            raise SchemaError(str(path), f"expected RDF such as shapes.ttl, got a name that ends in {path.suffix!r}.")
        graph = cls(str(path))
        try:
            quads = pyoxigraph.parse(path.read_bytes(), format=format, base_iri=path.absolute().as_uri())
            for quad in quads:
                if isinstance(quad.object, pyoxigraph.Triple):
                    continue  # a remark on another triple
                graph.facts.setdefault(quad.subject, {}).setdefault(quad.predicate.value, []).append(quad.object)
        except OSError as error:
            raise SchemaError(str(path), f"cannot be read: {error.strerror}.") from None
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None)
            where = str(path) if line is None else f"{path}:{line}"
            raise SchemaError(where, f"expected {format.name}, but {getattr(error, 'msg', error)}.") from None
        graph.prefixes = dict(quads.prefixes)
        return graph

    def objects(self, node: Term, predicate: str) -> list[Term]:
        """The objects of a node, each once."""
        return list(dict.fromkeys(self.facts.get(node, {}).get(predicate, ())))

    def items(self, head: Term, where: str) -> list[Term]:
        """The items of a collection."""
        found: list[Term] = []
        seen = set()
        while head.value != RDF + "nil":
            first, rest = self.objects(head, RDF + "first"), self.objects(head, RDF + "rest")
            if len(first) != 1 or len(rest) != 1 or head in seen:
                raise SchemaError(self.name, f"{where}: expected a collection such as ( 1 2 ), got {head}.")
            seen.add(head)
            found.append(first[0])
            head = rest[0]
        return found

    def text(self, nodes: Iterable[Term], *predicates: str) -> str:
        """The first text of the nodes, in English where there is some."""
        found = [one for each in predicates for node in nodes for one in self.objects(node, each)]
        literals = [one for one in found if hasattr(one, "language")]
        wanted = [one for one in literals if (one.language or "en").lower().startswith("en")]
        return str((wanted or literals)[0].value) if literals else ""


class Shape:
    """Nodes whose constraints hold together: a shape, and what it names under sh:node and sh:and."""

    def __init__(self, graph: Graph, nodes: Iterable[Term], where: str) -> None:
        self.graph = graph
        self.where = where
        found: dict[Term, None] = {}
        waiting = deque(nodes)
        while waiting:
            node = waiting.popleft()
            if node in found or is_off(graph, node):
                continue
            found[node] = None
            waiting += graph.objects(node, SH + "node")
            waiting += [one for head in graph.objects(node, SH + "and") for one in graph.items(head, where)]
        self.nodes = list(found)

    def all(self, name: str) -> list[Term]:
        """Every object of a SHACL predicate."""
        return list(dict.fromkeys(one for node in self.nodes for one in self.graph.objects(node, SH + name)))

    def lists(self, name: str) -> list[list[Term]]:
        """Every object of a SHACL predicate, which are collections."""
        return [self.graph.items(head, f"{self.where}: sh:{name}") for head in self.all(name)]

    def iris(self, name: str) -> list[str]:
        """Every object of a SHACL predicate, which are IRIs."""
        return [self.checked(name, one, "an IRI", hasattr(one, "value") and is_iri(one)) for one in self.all(name)]

    def numbers(self, name: str) -> list[float]:
        """Every object of a SHACL predicate as a number; the year of a date."""
        return [self._number(name, one) for one in self.all(name)]

    def counts(self, name: str) -> list[int]:
        """Every object of a SHACL predicate, which are how many there are."""
        for term in self.all(name):
            value = label_of(term)
            whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST
            self.checked(name, term, "a whole number", whole)
        return [int(number) for number in self.numbers(name)]

    def told(self) -> Iterator[str]:
        """The SHACL predicates that there are."""
        seen = dict.fromkeys(key for node in self.nodes for key in self.graph.facts.get(node, {}))
        return (key[len(SH) :] for key in seen if key.startswith(SH))

    def foreign(self) -> Iterator[str]:
        """The predicates of no SHACL that there are, as IRIs."""
        seen = dict.fromkeys(key for node in self.nodes for key in self.graph.facts.get(node, {}))
        return (key for key in seen if not key.startswith(SH))

    def is_true(self, name: str) -> bool:
        """Whether a SHACL predicate is true."""
        return any(TRUTHS.get(getattr(term, "value", "")) for term in self.all(name))

    def checked(self, name: str, term: Term, expected: str, fits: bool) -> Any:
        """The text of a term that fits."""
        if not fits:
            raise SchemaError(self.graph.name, f"{self.where}: sh:{name}: expected {expected}, got {term}.")
        return term.value

    def _number(self, name: str, term: Term) -> float:
        value, year = label_of(term), year_of(term)
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            self.checked(name, term, "a number", year is not None)
            return year or 0
        bound = value if isinstance(value, int) else float(value)
        self.checked(name, term, "a number that is not beyond all bounds", abs(bound) < HUGE)
        return bound


def is_iri(term: Term) -> bool:
    """Whether a term is an IRI."""
    import pyoxigraph

    return isinstance(term, pyoxigraph.NamedNode)


def is_off(graph: Graph, node: Term) -> bool:
    """Whether a shape is switched off."""
    return any(TRUTHS.get(getattr(one, "value", "")) for one in graph.objects(node, SH + "deactivated"))


def label_of(term: Term) -> Label | Decimal | None:
    """The label that a literal is; None for one in a language, for a date, for a node."""
    datatype = getattr(term, "datatype", None)
    if datatype is None or term.language or year_of(term) is not None:
        return None
    try:
        if datatype.value in NUMBERS:
            return numerals.number(term.value)
    except ValueError:
        return None
    return TRUTHS.get(term.value) if datatype.value == XSD + "boolean" else str(term.value)


def value_of(term: Term) -> Value:
    """The value that the loaders make of a term; None where it is a blank node, ill-formed, of another datatype, or a
    date that a schema file cannot say, such as a month without a year."""
    if is_iri(term):
        return Link(term.value)
    datatype = getattr(getattr(term, "datatype", None), "value", None)
    if datatype is None:
        return None
    if term.language:
        return Text(term.value, term.language)
    if datatype.startswith(XSD) and datatype[len(XSD) :] in DATED:
        try:
            date = dates.read(term.value, datatype[len(XSD) :])
            return date if isinstance(date, Date) and dates.write_iso(date) else None
        except ValueError:
            return None
    if datatype not in NUMBERS and datatype != XSD + "boolean" and of_datatype(datatype).word != "text":
        return None
    return label_of(term)


def year_of(term: Term) -> int | None:
    """The year of a date."""
    datatype = getattr(getattr(term, "datatype", None), "value", "")
    if not datatype.startswith(XSD) or datatype[len(XSD) :] not in DATED:
        return None
    try:
        return getattr(dates.read(term.value, datatype[len(XSD) :]), "year", None)
    except ValueError:
        return None
