"""SHACL shapes as objects: the graph of a file, a shape, and the kind of value that a property shape determines.

The kind is that of datatype, class, node kind, sh:in, sh:hasValue and bounds. Conditions on single values that are no part of
a kind (a pattern, several languages, a bound within a year) are ValueShapes. All errors are SchemaErrors with the file and the
node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import reduce
from pathlib import Path as FilePath
from typing import Any, TypeAlias

from kbdisk.entity import Date, Value
from kbdisk.entity import Link as LinkValue
from kbdisk.entity import Text as LanguageText
from kbdisk.errors import SchemaError
from kbdisk.schemas.composites import Kind
from kbdisk.schemas.constraints import NodeKind, ValueShape
from kbdisk.schemas.importers.common import (
    PARTS_OF_DATE_TYPE,
    RDF,
    TYPE_OF_CLASS,
    WHOLE_NUMBER_BOUNDS,
    XSD,
    Notes,
    TypeName,
    ValueType,
    narrowed,
    of_datatype,
    widened,
)
from kbdisk.schemas.kinds import MAX_NUMBER, Label, Link, Text
from kbdisk.schemas.text import dates, numerals
from kbdisk.schemas.text.names import last_word

Term: TypeAlias = Any  # pyoxigraph's NamedNode, BlankNode and Literal

SH = "http://www.w3.org/ns/shacl#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
OWL = "http://www.w3.org/2002/07/owl#"
DASH = "http://datashapes.org/dash#"
NUMBER_DATATYPES = frozenset(XSD + name for name in (*WHOLE_NUMBER_BOUNDS, "decimal", "double", "float"))
MAX_COUNT = 2**53

BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


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
                    continue  # an annotation of another triple
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
        items: list[Term] = []
        seen = set()
        while head.value != RDF + "nil":
            first, rest = self.objects(head, RDF + "first"), self.objects(head, RDF + "rest")
            if len(first) != 1 or len(rest) != 1 or head in seen:
                raise SchemaError(self.name, f"{where}: expected a collection such as ( 1 2 ), got {head}.")
            seen.add(head)
            items.append(first[0])
            head = rest[0]
        return items

    def text(self, nodes: Iterable[Term], *predicates: str) -> str:
        """The first text of the nodes: in English or without a language if there is one, else in any."""
        texts = [text for predicate in predicates for node in nodes for text in self.objects(node, predicate)]
        literals = [text for text in texts if hasattr(text, "language")]
        english = [text for text in literals if (text.language or "en").lower().startswith("en")]
        return str((english or literals)[0].value) if literals else ""


class Shape:
    """Shape nodes whose constraints hold together: those given, and those that they name by sh:node and sh:and."""

    def __init__(self, graph: Graph, nodes: Iterable[Term], where: str) -> None:
        self.graph = graph
        self.where = where
        reached: dict[Term, None] = {}
        waiting = deque(nodes)
        while waiting:
            node = waiting.popleft()
            if node in reached or is_off(graph, node):
                continue
            reached[node] = None
            waiting += graph.objects(node, SH + "node")
            waiting += [part for head in graph.objects(node, SH + "and") for part in graph.items(head, where)]
        self.nodes = list(reached)

    def all(self, name: str) -> list[Term]:
        """The objects of a SHACL predicate."""
        return list(dict.fromkeys(term for node in self.nodes for term in self.graph.objects(node, SH + name)))

    def lists(self, name: str) -> list[list[Term]]:
        """The objects of a SHACL predicate, which have to be collections."""
        return [self.graph.items(head, f"{self.where}: sh:{name}") for head in self.all(name)]

    def iris(self, name: str) -> list[str]:
        """The objects of a SHACL predicate, which have to be IRIs."""
        return [self.checked(name, term, "an IRI", hasattr(term, "value") and is_iri(term)) for term in self.all(name)]

    def numbers(self, name: str) -> list[float]:
        """The objects of a SHACL predicate as numbers; of dates the years."""
        return [self._number(name, term) for term in self.all(name)]

    def counts(self, name: str) -> list[int]:
        """The objects of a SHACL predicate, which have to be counts."""
        for term in self.all(name):
            value = label_of(term)
            is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_COUNT
            self.checked(name, term, "a whole number", is_count)
        return [int(number) for number in self.numbers(name)]

    def predicates(self) -> Iterator[str]:
        """The names of the SHACL predicates of the shape."""
        known = dict.fromkeys(key for node in self.nodes for key in self.graph.facts.get(node, {}))
        return (key[len(SH) :] for key in known if key.startswith(SH))

    def other_predicates(self) -> Iterator[str]:
        """The IRIs of the predicates of the shape that are not of SHACL."""
        seen = dict.fromkeys(key for node in self.nodes for key in self.graph.facts.get(node, {}))
        return (key for key in seen if not key.startswith(SH))

    def is_true(self, name: str) -> bool:
        """Whether a SHACL predicate is true."""
        return any(BOOLEANS.get(getattr(term, "value", "")) for term in self.all(name))

    def checked(self, name: str, term: Term, expected: str, fits: bool) -> Any:
        """The text of a term; SchemaError where the term does not fit."""
        if not fits:
            raise SchemaError(self.graph.name, f"{self.where}: sh:{name}: expected {expected}, got {term}.")
        return term.value

    def _number(self, name: str, term: Term) -> float:
        value, year = label_of(term), year_of(term)
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            self.checked(name, term, "a number", year is not None)
            return year or 0
        bound = value if isinstance(value, int) else float(value)
        self.checked(name, term, "a number that is not beyond all bounds", abs(bound) < MAX_NUMBER)
        return bound


def is_iri(term: Term) -> bool:
    """Whether a term is an IRI."""
    import pyoxigraph

    return isinstance(term, pyoxigraph.NamedNode)


def is_off(graph: Graph, node: Term) -> bool:
    """Whether a shape is deactivated."""
    return any(BOOLEANS.get(getattr(term, "value", "")) for term in graph.objects(node, SH + "deactivated"))


def label_of(term: Term) -> Label | Decimal | None:
    """A literal as a label; None of a text in a language, of a date, and of a node."""
    datatype = getattr(term, "datatype", None)
    if datatype is None or term.language or year_of(term) is not None:
        return None
    try:
        if datatype.value in NUMBER_DATATYPES:
            return numerals.number(term.value)
    except ValueError:
        return None
    return BOOLEANS.get(term.value) if datatype.value == XSD + "boolean" else str(term.value)


def value_of(term: Term) -> Value:
    """The value of a term, as the loaders read it.

    None of a blank node, of an ill-formed literal, of other datatypes, and of dates that a schema file cannot have, such as
    a month without a year.
    """
    if is_iri(term):
        return LinkValue(term.value)
    datatype = getattr(getattr(term, "datatype", None), "value", None)
    if datatype is None:
        return None
    if term.language:
        return LanguageText(term.value, term.language)
    if datatype.startswith(XSD) and datatype[len(XSD) :] in PARTS_OF_DATE_TYPE:
        try:
            date = dates.read(term.value, datatype[len(XSD) :])
            return date if isinstance(date, Date) and dates.write_iso(date) else None
        except ValueError:
            return None
    if datatype not in NUMBER_DATATYPES and datatype != XSD + "boolean" and of_datatype(datatype).type != "text":
        return None
    return label_of(term)


def year_of(term: Term) -> int | None:
    """The year of a date."""
    datatype = getattr(getattr(term, "datatype", None), "value", "")
    if not datatype.startswith(XSD) or datatype[len(XSD) :] not in PARTS_OF_DATE_TYPE:
        return None
    try:
        return getattr(dates.read(term.value, datatype[len(XSD) :]), "year", None)
    except ValueError:
        return None


# ---------------------------------------------------------------- single values


NODES_OF_KIND: dict[str, tuple[NodeKind, ...]] = {
    "IRI": ("iri",), "BlankNode": ("blank",), "Literal": ("literal",), "BlankNodeOrIRI": ("iri", "blank"),
    "BlankNodeOrLiteral": ("blank", "literal"), "IRIOrLiteral": ("iri", "literal"),
}  # fmt: skip
LINK_NODE_KINDS = frozenset({"IRI", "BlankNode", "BlankNodeOrIRI"})
VALUE_SHAPE_PREDICATES = frozenset({  # what a value shape is read of
    "datatype", "class", "nodeKind", "in", "hasValue", "pattern", "flags", "minLength", "maxLength", "languageIn",
    "minInclusive", "maxInclusive", "minExclusive", "maxExclusive", "node", "and", "name", "description", "message",
})  # fmt: skip
FIELD_OF_BOUND = {
    "minInclusive": "minimum",
    "maxInclusive": "maximum",
    "minExclusive": "above",
    "maxExclusive": "below",
}
ANY_VALUE = ValueShape()
FIELD_OF_LENGTH = {"minLength": "min_length", "maxLength": "max_length"}


def kind_of_values(
    shape: Shape, names: Mapping[str, str], notes: Notes, most: int | None, restrictions: list[ValueShape]
) -> Kind | None:
    """The kind of a property's values; None where the shape does not determine it. `names` are those of classes, by IRI.

    Constraints on each value that are no part of a kind are added to `restrictions`.
    """
    value_type = reduce(narrowed, _value_types(shape, names, notes, restrictions), ValueType())
    value_type = _among_values(shape, value_type, notes, most, restrictions)
    value_type = _bounded(shape, value_type, notes, restrictions)
    restrictions.extend(_patterns(shape, notes))
    return value_type.kind()


def value_shape_of(shape: Shape, names: Mapping[str, str]) -> ValueShape | None:
    """A qualified shape as a ValueShape; None where it has other constraints."""
    notes, restrictions = Notes(), list[ValueShape]()
    predicates = set(shape.predicates())
    if predicates - VALUE_SHAPE_PREDICATES:
        return None
    classes = tuple(names.get(iri, last_word(iri)) for iri in shape.iris("class"))
    kind = kind_of_values(shape, names, notes, 1, restrictions)
    if isinstance(kind, Text) and kind.max_length is not None and kind.max_length < kind.min_length:
        return None  # nothing has this shape
    if isinstance(kind, Text) and not predicates & {"datatype", "languageIn"}:  # a link has a length, too
        restrictions.append(ValueShape(min_length=kind.min_length, max_length=kind.max_length))
        kind = None
    kind = Link(values=kind.values) if isinstance(kind, Link) else kind
    merged: ValueShape | None = ValueShape(kind, classes)
    for restriction in restrictions:
        merged = merged if restriction.classes else _intersection(merged, restriction)  # all classes are there already
    return None if notes.lines else merged


def _intersection(first: ValueShape | None, second: ValueShape) -> ValueShape | None:
    """The shape of values with both shapes; None where both set the same field."""
    if first is None:
        return None
    set_fields = {name: value for name, value in vars(second).items() if value != getattr(ANY_VALUE, name)}
    if any(getattr(first, name) not in (getattr(ANY_VALUE, name), value) for name, value in set_fields.items()):
        return None
    try:
        return replace(first, **set_fields)
    except ValueError:  # nothing has both shapes
        return None


def _value_types(
    shape: Shape, names: Mapping[str, str], notes: Notes, restrictions: list[ValueShape]
) -> list[ValueType]:
    """The types by each datatype, class and node kind of a shape."""
    value_types = [of_datatype(iri) for iri in shape.iris("datatype")]
    if len({"number" if value_type.type == "integer" else value_type.type for value_type in value_types}) > 1:
        notes.add(shape.where, "of several sh:datatype the first alone is enforced")
    value_types += [_of_class(iri, names) for iri in shape.iris("class")]
    for kind in map(last_word, shape.iris("nodeKind")):
        if kind in LINK_NODE_KINDS:
            value_types.append(ValueType("link"))
        if kind in NODES_OF_KIND and kind != "BlankNodeOrIRI":
            restrictions.append(ValueShape(nodes=NODES_OF_KIND[kind]))
    for name in ("or", "xone"):
        for shapes in shape.lists(name):
            either = _either(shape, shapes, names)
            if either is None:
                notes.add(shape.where, f"sh:{name} is not checked")
            else:
                value_types.append(either)
                if either.type == "link" and either.to is None and len(shapes) > 1:
                    notes.add(shape.where, f"sh:{name} of classes: which class a linked entity is of is not checked")
    other_classes = [
        value_type.to for value_type in value_types if value_type.type == "link" and value_type.to is not None
    ][1:]
    restrictions.extend(ValueShape(classes=(to,)) for to in other_classes)
    return value_types


def _of_class(iri: str, names: Mapping[str, str]) -> ValueType:
    name = TYPE_OF_CLASS.get(last_word(iri))
    return ValueType(name) if name else ValueType("link", to=names.get(iri, last_word(iri)))


def _either(shape: Shape, shapes: list[Term], names: Mapping[str, str]) -> ValueType | None:
    """The type of alternatives; None where they are of several kinds, or have other constraints."""
    alternatives = [Shape(shape.graph, [node], shape.where) for node in shapes]
    if any(
        set(alternative.predicates()) - {"datatype", "class", "nodeKind", "name", "description"}
        for alternative in alternatives
    ):
        return None
    notes = Notes()
    value_types = [
        reduce(narrowed, _value_types(alternative, names, notes, []), ValueType()) for alternative in alternatives
    ]
    name = widened(alternative.type for alternative in value_types)
    return _widest(name, value_types) if name else None


def _widest(name: TypeName, value_types: list[ValueType]) -> ValueType:
    to = {value_type.to for value_type in value_types}
    return ValueType(
        name,
        to=to.pop() if len(to) == 1 else None,
        language="" if all(value_type.language == "" for value_type in value_types) else None,
        parts=max((value_type.parts for value_type in value_types), key=len),
    )


def _among_values(
    shape: Shape, value_type: ValueType, notes: Notes, most: int | None, restrictions: list[ValueShape]
) -> ValueType:
    """A type with the values of sh:in, and of sh:hasValue where there is at most one value."""
    lists = shape.lists("in")
    lists += [[term] for term in shape.all("hasValue")] if most == 1 else []
    for terms in lists:
        if terms and all(map(is_iri, terms)):
            value_type = narrowed(value_type, ValueType("link", values=tuple(term.value for term in terms)))
            continue
        labels = tuple(label_of(term) for term in terms)
        if labels and None not in labels and value_type.type not in ("link", "date", "quantity"):
            value_type = narrowed(value_type, ValueType(values=labels))  # type: ignore[arg-type]
            continue
        values = values_of(terms)
        if values:
            restrictions.append(ValueShape(values=values))
        else:
            notes.add(shape.where, "sh:in or sh:hasValue of blank nodes or of other datatypes is not checked")
    return value_type


def values_of(terms: Iterable[Term]) -> tuple[Value, ...]:
    """The values of terms; empty where any term has no value."""
    values = tuple(map(value_of, terms))
    return () if None in values else values


def _bounded(shape: Shape, value_type: ValueType, notes: Notes, restrictions: list[ValueShape]) -> ValueType:
    """A type with bounds, lengths and languages."""
    for name, field_name in FIELD_OF_BOUND.items():
        for term, bound in zip(shape.all(name), shape.numbers(name), strict=True):
            value = value_of(term)
            types = ("", "date") if isinstance(value, Date) else ("", "number", "integer", "quantity")
            fits = value_type.type in types and value_type.values is None
            if fits:
                value_type = narrowed(value_type, _with_bound(value_type, field_name, bound, value))
            if not fits or isinstance(value, Decimal) or (isinstance(value, Date) and not _is_year(field_name, value)):
                restrictions.append(ValueShape(**{field_name: value}))  # type: ignore[arg-type]
    for name, field_name in FIELD_OF_LENGTH.items():
        for length in shape.counts(name):
            if value_type.type in ("", "text") and value_type.values is None:
                value_type = narrowed(value_type, replace(ValueType("text"), **{field_name: length}))  # type: ignore[arg-type]
            else:
                restrictions.append(ValueShape(**{field_name: length}))  # type: ignore[arg-type]
    return _in_languages(shape, value_type, notes, restrictions)


def _with_bound(value_type: ValueType, field: str, bound: float, value: Value) -> ValueType:
    """A type with a bound. A bound that is a date becomes a year, and includes all of that year."""
    if not isinstance(value, Date):
        return replace(ValueType(value_type.type or "number"), **{field: bound})  # type: ignore[arg-type]
    is_year = value == Date(value.year)
    year = int(bound) + (field == "above") * is_year - (field == "below") * is_year
    return replace(ValueType("date"), **{"minimum" if field in ("minimum", "above") else "maximum": year})  # type: ignore[arg-type]


def _is_year(field: str, bound: Date) -> bool:
    """Whether the bound of a date is equivalent to a bound of years."""
    edges = {"minimum": (1, 1), "maximum": (12, 31)}
    return bound == Date(bound.year) or bound == Date(bound.year, *edges.get(field, (None, None)))


def _in_languages(shape: Shape, value_type: ValueType, notes: Notes, restrictions: list[ValueShape]) -> ValueType:
    """A type with languages. They are also a restriction: the kind of text in any language includes text in none."""
    for terms in shape.lists("languageIn"):
        languages = tuple(str(term.value) for term in terms)
        value_type = replace(
            value_type,
            type=value_type.type or "text",
            language=languages[0] if len(languages) == 1 else value_type.language,
        )
        if languages:
            restrictions.append(ValueShape(languages=languages))
        else:
            notes.add(shape.where, "sh:languageIn of no language is not checked")
    return value_type


def _patterns(shape: Shape, notes: Notes) -> Iterator[ValueShape]:
    """The patterns of a shape, each with the flags of the same node."""
    for node in shape.nodes:
        flags = "".join(str(term.value) for term in shape.graph.objects(node, SH + "flags"))
        for term in shape.graph.objects(node, SH + "pattern"):
            try:
                if term.value:  # an empty pattern is found in any text
                    yield ValueShape(pattern=str(term.value), flags=flags)
            except ValueError as error:
                notes.add(shape.where, f"sh:pattern is not checked: {error}")
