"""The shape that a property's values have in a knowledge base, so that a new value takes it.

    shape = Shape.observe([(object, fields_of), ...])     fields_of(node) = {predicate: [objects]} of a node
    term, triples = shape.terms(value, fresh)             triples: of the node that the value is, if it is one

A shape is the property's molds - link, literal of a datatype or language, node of a form - and a value takes the commonest
that it fits into: a year goes to xsd:gYear where the property has that too, and is refused where all are xsd:date.
Nothing is rounded. A new node is a blank one, without what its form does not know (bounds, precision of a place).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, TypeAlias

from pyoxigraph import BlankNode, NamedNode, Triple
from pyoxigraph import Literal as LiteralTerm

from kbdisk.entity import Known, Link, Quantity, Text, Value
from kbdisk.loaders.rdf import habits
from kbdisk.loaders.rdf.terms import (
    DBPEDIA,
    EDTF,
    LANGUAGE,
    NAMED,
    STRING,
    TYPE,
    Term,
    is_iri,
    language_of,
    link_term,
    literal_of,
    literal_term,
    unit_of,
    value_of_term,
)
from kbdisk.loaders.rdf.value_nodes import BY_CLASS, Fields, FieldsOf, Form, form_of, recognised

Fresh: TypeAlias = Callable[[], BlankNode]
Made: TypeAlias = tuple[Term, list[Triple]]

SAMPLES = 200  # lexical forms kept of a mold
KINDS: dict[type[Any], type[Any]] = {int: float, Decimal: float, Text: str}  # types that are of one kind
NAMES: dict[Known | None, str] = {value: iri for iri, value in NAMED.items()}
TYPE_OF = NamedNode(TYPE)
QUANTITY, CODE, WORD = (f"http://schema.org/{name}" for name in ("QuantitativeValue", "unitCode", "unitText"))
QUANTITY_FORM = BY_CLASS[QUANTITY][0]
INTERVAL = EDTF + "EDTF"


class Links:
    """IRIs and blank nodes that are things of their own."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, term: Any, fields: Fields | None, fields_of: FieldsOf) -> None:
        """Take in an example."""
        self.count += 1

    def suits(self, value: Any) -> bool:
        """Whether a value is of just this kind."""
        return isinstance(value, Link)

    def terms(self, value: Any, fresh: Fresh) -> Made:
        """A link, or a string that is an IRI."""
        if isinstance(value, Link):
            return link_term(value), []
        if isinstance(value, str) and is_iri(value):
            return NamedNode(value), []
        raise ValueError(f"expected a link to an entity, got {value!r}")


class Literals:
    """Literals of one datatype and language."""

    def __init__(self, datatype: str, language: str | None) -> None:
        self.datatype = datatype
        self.language = language
        self.count = 0
        self.samples: list[str] = []
        self.kinds: set[type[Any]] = set()

    def add(self, term: Any, fields: Fields | None, fields_of: FieldsOf) -> None:
        """Take in an example."""
        self.count += 1
        if len(self.samples) < SAMPLES:
            self.samples.append(term.value)
            kind = type(value_of_term(term))
            self.kinds.add(KINDS.get(kind, kind))

    def suits(self, value: Any) -> bool:
        """Whether a value is of just this kind, and in this language."""
        same = KINDS.get(type(value), type(value)) in self.kinds
        return same and (not isinstance(value, Text) or value.language.lower() == self.language)

    def terms(self, value: Any, fresh: Fresh) -> Made:
        """A literal, spelt as the others are; a string takes their language, or none where they have none."""
        if self.language is None:
            return literal_term(habits.write(value, self.datatype, self.samples), self.datatype), []
        if isinstance(value, Text) and not self.suits(value):
            raise ValueError(f"expected a text in {self.language}, got one in {value.language}")
        return literal_term(habits.write(value, STRING), LANGUAGE, self.language), []

    def of_unit(self, value: Any) -> Literals | None:
        """The same in another unit, where datatypes name units."""
        datatype = DBPEDIA + (value.unit or "") if isinstance(value, Quantity) else ""
        if not (unit_of(self.datatype) and unit_of(datatype) and is_iri(datatype)):
            return None
        sister = Literals(datatype, None)
        sister.samples = self.samples
        return sister


class Nodes:
    """Nodes of one form, with the same classes and predicates."""

    def __init__(self, form: Form, classes: tuple[str, ...] = (), predicates: tuple[str, ...] = ()) -> None:
        self.form = form
        self.classes = classes
        self.count = 0
        self.shapes = {predicate: Shape() for predicate in predicates}
        self.units: dict[str, Fields] = {}  # how each unit is told, where two predicates tell it
        told = [predicate for predicate in form.parts if predicate in predicates]
        self.predicates = {form.parts[predicate]: predicate for predicate in reversed(told)}  # part -> predicate

    def add(self, term: Any, fields: Fields | None, fields_of: FieldsOf) -> None:
        """Take in an example."""
        assert fields is not None
        self.count += 1
        for predicate, shape in self.shapes.items():
            shape.add(fields[predicate][0], fields_of)
        told = {predicate: terms for predicate, terms in fields.items() if self.form.parts.get(predicate) == "unit"}
        if len(told) > 1:
            self.units.setdefault(told[self.predicates["unit"]][0].value, told)

    def suits(self, value: Any) -> bool:
        """Whether a value is of just this kind, and these predicates tell all of it."""
        try:
            return all(part in self.predicates for part in self.parts(value))
        except ValueError:
            return False

    def parts(self, value: Any) -> dict[str, Any]:
        """The parts of a value that are known and that do not go without saying here; ValueError where it has no such parts."""
        if type(value) not in self.form.kinds:
            raise ValueError(f"expected a {self.form.kinds[0].__name__.lower()}, got {value!r}")
        parts = self.form.split(value)
        unsaid = self.form.implied.keys() - self.predicates.keys()
        return {
            part: one
            for part, one in parts.items()
            if one is not None and not (part in unsaid and one == self.form.implied[part])
        }

    def terms(self, value: Any, fresh: Fresh) -> Made:
        """A new node with the value's parts."""
        parts = self.parts(value)
        node = fresh()
        triples = [Triple(node, TYPE_OF, NamedNode(name)) for name in self.classes]
        return node, triples + self.triples(node, parts, fresh)

    def triples(self, node: Any, parts: Mapping[str, Any], fresh: Fresh) -> list[Triple]:
        """What tells these parts of a value on a node."""
        triples: list[Triple] = []
        for part, value in parts.items():
            if part == "unit" and value in self.units:
                triples += [
                    Triple(node, NamedNode(name), term) for name, terms in self.units[value].items() for term in terms
                ]
                continue
            predicate = self.predicates.get(part) or next(
                name for name, told in self.form.parts.items() if told == part
            )
            shape = self.shapes.get(predicate)
            term, more = shape.terms(value, fresh) if shape else natural(_as_link(value), fresh)
            triples += [Triple(node, NamedNode(predicate), term), *more]
        return triples


Mold: TypeAlias = Links | Literals | Nodes


class Shape:
    """What a property's values look like: its molds, and how often each was seen. Without any, values look natural."""

    def __init__(self) -> None:
        self.molds: dict[tuple[Any, ...], Mold] = {}

    @classmethod
    def observe(cls, examples: Iterable[tuple[Term, FieldsOf | Fields | None]]) -> Shape:
        """The shape of these values, each with the fields of its node, or with what finds the fields of any node."""
        shape = cls()
        for term, fields in examples:
            shape.add(term, fields if callable(fields) else _only(term, fields))
        return shape

    def add(self, term: Term, fields_of: FieldsOf) -> None:
        """Take in one more value."""
        fields = None if isinstance(term, LiteralTerm) else fields_of(term)
        key: tuple[Any, ...] = ()
        if isinstance(term, LiteralTerm):
            key = (term.datatype.value, language_of(term))
        elif fields and recognised(term, fields, fields_of) is not None:
            classes = tuple(sorted(kind.value for kind in fields.get(TYPE, ())))
            form = form_of(classes, list(fields))
            assert form is not None
            key = (form, classes, tuple(sorted(form.parts.keys() & fields.keys())))
        mold = self.molds.get(key)
        if mold is None:
            mold = self.molds[key] = Nodes(*key) if len(key) == 3 else Literals(*key) if key else Links()
        mold.add(term, fields, fields_of)

    def terms(self, value: Value, fresh: Fresh) -> Made:
        """A new value as an object and the triples of its node; ValueError where it fits none of the molds."""
        if not self.molds or isinstance(value, Known) or value is None or self._speaks_otherwise(value):
            return natural(value, fresh)
        reasons: list[str] = []
        for mold in self._tried(value):
            try:
                return mold.terms(value, fresh)
            except ValueError as error:
                reasons.append(str(error))
        raise ValueError(reasons[0])

    def missing(self, node: Any, fields: Fields, value: Any, fresh: Fresh) -> list[Triple]:
        """What a node of these fields lacks to say a value; what it has stays as it is."""
        form = form_of([kind.value for kind in fields.get(TYPE, ()) if isinstance(kind, NamedNode)], list(fields))
        if form is None:
            raise ValueError(f"expected a quantity, a date or a coordinate to complete, got {node}")
        told = {form.parts[predicate] for predicate in fields if predicate in form.parts}
        molds = [mold for mold in self._tried(value) if isinstance(mold, Nodes) and mold.form is form]
        mold = max(molds, key=lambda mold: len(mold.predicates.keys() - told), default=None) or Nodes(form)
        return mold.triples(node, {part: one for part, one in mold.parts(value).items() if part not in told}, fresh)

    def _speaks_otherwise(self, value: Any) -> bool:
        """Whether a text is in a language that none of the values is in, though they have languages."""
        tagged = [mold for mold in self.molds.values() if isinstance(mold, Literals) and mold.language]
        return isinstance(value, Text) and bool(tagged) and not any(mold.suits(value) for mold in tagged)

    def _tried(self, value: Any) -> list[Mold]:
        """Molds of just the value's kind first, then the commoner ones; then units that no datatype has named yet."""
        molds = sorted(self.molds.values(), key=lambda mold: (not mold.suits(value), -mold.count))
        return molds + [sister for mold in molds if isinstance(mold, Literals) and (sister := mold.of_unit(value))]


def natural(value: Any, fresh: Fresh) -> Made:
    """A value as RDF says it most naturally, such that it is read back as the same; ValueError for lists and parts."""
    match value:
        case None | Known():
            return NamedNode(NAMES[value]), []
        case Link():
            return link_term(value), []
        case Quantity():
            mold = Nodes(QUANTITY_FORM, (QUANTITY,))
            mold.predicates["unit"] = CODE if isinstance(_as_link(value.unit), Link) else WORD
            return mold.terms(value, fresh)
        case dict() if value and not value.keys() - {"start", "end"}:
            return literal_term(habits.write(value, INTERVAL), INTERVAL), []
        case list() | dict():
            raise ValueError(f"expected one value, got a {'list' if isinstance(value, list) else 'part'}")
    return literal_term(*literal_of(value)), []


def _as_link(value: Any) -> Any:
    """A name that is an IRI as a link, where no habit says otherwise."""
    return Link(value) if isinstance(value, str) and value not in NAMED and is_iri(value) else value


def _only(term: Term, fields: Fields | None) -> FieldsOf:
    return lambda node: fields if node == term else None
