"""How an RDF source writes its values, observed predicate by predicate: templates of terms, and lexical forms of literals.

    templates = PredicateTemplates.of([(object, fields_of), ...])     fields_of(node) = {predicate: [objects]}
    term, triples = templates.write(value, fresh)                     triples: of the value node, if it is one

A quantity in Turtle: the form in the tree is that of its kind (kbdisk/styles/kinds.py), here a Quantity. The predicate's
templates choose between a literal and a value node, whose classes and predicates are in rdf/value_nodes.py; the digits are written
by the NumberFormat of kbdisk/styles/numbers.py. rdf/statements.py asks for the terms of each gap and makes quads of them, which
rdf/turtle.py writes as text.

A predicate has one template for each kind of its values: links, literals of a datatype or language, value nodes of a form.
A new value takes the most frequent template that it fits: a year becomes an xsd:gYear where the predicate has those too,
and is refused where all are xsd:date. A new value node is a blank node, without the parts that its form ignores (bounds,
precision of a place).

A new literal is spelt as most samples of its datatype are, and never rounded; a value that the datatype cannot hold is a
ValueError:

    1.50, 12.00        at least two decimals        +965.465    a sign on positive numbers
    9.5E2, 1.0e+03     exponents                    1990Z       the same zone on every date
    Point(19.8 41.3)   the spelling of a point      1, 0        booleans as digits
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, TypeAlias

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Triple
from pyoxigraph import Literal as LiteralTerm

from kbdisk.entity import Coordinate, Date, Known, Link, Quantity, Text, Value
from kbdisk.loaders.rdf import syntax, terms
from kbdisk.loaders.rdf.blank_nodes import BlankNodes, blank_nodes
from kbdisk.loaders.rdf.terms import (
    ANY_URI,
    BOOLEAN,
    DATES,
    DBPEDIA,
    DECIMAL,
    EDTF,
    FIRST,
    INTEGERS,
    IRIS_OF_KNOWN,
    LANGUAGE,
    NAMED,
    NIL,
    NUMBERS,
    POINTS,
    STRING,
    TYPE,
    XSD,
    Term,
    is_iri,
    is_ucum,
    language_of,
    link_term,
    literal_of,
    literal_term,
    unit_of,
    value_of,
    value_of_term,
)
from kbdisk.loaders.rdf.value_nodes import BY_CLASS, Fields, FieldsOf, Form, form_of, recognised
from kbdisk.schemas.text import dates, numerals
from kbdisk.schemas.text.numerals import Number, has_int
from kbdisk.styles.habits import write_in_first_form
from kbdisk.styles.numbers import NumberFormat, is_majority

# ---------------------------------------------------------------- lexical forms


Samples = Sequence[str]


def lexical_form(value: Any, datatype: str, samples: Samples = ()) -> str:
    """The lexical form of a value in a datatype, spelt as the samples are; ValueError where it does not fit."""
    if datatype in LEXICAL_WRITERS:
        return LEXICAL_WRITERS[datatype](value, datatype, samples)
    if unit_of(datatype) is not None or is_ucum(datatype):
        return _quantity_form(value, datatype, samples)
    return _string_form(value, datatype, samples)


# ---------------------------------------------------------------- numbers


def as_number(value: Any) -> Number:
    """The number of a value: a number, a quantity without its unit, or a year; ValueError for other values."""
    if isinstance(value, Quantity):
        value = value.value
    elif isinstance(value, Date) and value.year is not None and dates.plain(value) == Date(value.year):
        value = value.year
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError(f"expected a number, got {_in_words(value)}")
    return value


def _number_form(value: Any, datatype: str, samples: Samples) -> str:
    number = as_number(value)
    if datatype in INTEGERS:
        if not has_int(number):
            raise ValueError(f"expected a whole number, got {number}")
        lexical = NumberFormat(plus=NumberFormat.of(samples).plus).show(int(number))
    else:
        format = NumberFormat.of(samples)
        if not samples and datatype != DECIMAL:
            format = NumberFormat(1, keeps_zeros=True, exponent="E0" if "e" in repr(number) else "")
        elif not samples:
            format = NumberFormat(int(isinstance(number, float)), keeps_zeros=True)
        lexical = (replace(format, exponent="") if datatype == DECIMAL else format).show(number)
    read = value_of(lexical, datatype)
    if read != number and read != _as_float(number):
        raise ValueError(f"expected a number that {datatype} can hold, got {number}")
    return lexical


def _as_float(number: Number) -> float | None:
    try:
        return float(number)
    except OverflowError:
        return None


def _boolean(value: Any, datatype: str, samples: Samples) -> str:
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, got {_in_words(value)}")
    digits = bool(samples) and is_majority(text in ("0", "1") for text in samples)
    return str(int(value)) if digits else str(value).lower()


# ---------------------------------------------------------------- dates, places, quantities


def _date_form(value: Any, datatype: str, samples: Samples) -> str:
    """A date; where it has no time of day or zone, with that of most samples. A whole number is a year."""
    name = DATES[datatype]
    date = Date(value) if type(value) is int else dates.plain(value) if isinstance(value, Date) else value
    if isinstance(date, Date) and not date.time and name not in dates.EDTF:
        times = Counter(_time_of(text, datatype) for text in samples)
        usual, count = next(iter(times.most_common(1)), ("", 0))
        date = replace(date, time=usual or "") if 2 * count > len(samples) else date
    return dates.write(date if isinstance(date, Date | dict) else _in_words(date), name)


def _time_of(text: str, datatype: str) -> str | None:
    try:
        return getattr(value_of(text, datatype), "time", "")
    except ValueError:
        return None


def _time_of_day(value: Any, datatype: str, samples: Samples) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected a time of day such as 12:00:00, got {_in_words(value)}")
    value_of(value, datatype)
    return value


def _point_form(value: Any, datatype: str, samples: Samples) -> str:
    if isinstance(value, str) and isinstance(value_of(value, datatype), str):
        return value  # another geometry
    if not isinstance(value, Coordinate):
        raise ValueError(f"expected a coordinate, got {_in_words(value)}")
    return terms.write_point(value, samples)


def _quantity_form(value: Any, datatype: str, samples: Samples) -> str:
    """A number, with its unit where the datatype does not name it."""
    unit = unit_of(datatype)
    quantity = Quantity(value, unit) if unit and isinstance(value, int | float | Decimal) else value
    if not isinstance(quantity, Quantity) or quantity.value is None or quantity.unit is None:
        raise ValueError(f"expected a number with its unit, got {_in_words(value)}")
    if unit and quantity.unit != unit:
        raise ValueError(f"expected a quantity in {unit}, got one in {quantity.unit}")
    number = NumberFormat.of([text.partition(" ")[0] for text in samples]).show(as_number(quantity))
    lexical = number if unit else f"{number} {quantity.unit}".rstrip()
    if value_of(lexical, datatype) != quantity:
        raise ValueError(f"expected a number with its unit, got {_in_words(value)}")
    return lexical


# ---------------------------------------------------------------- strings


def _string_form(value: Any, datatype: str, samples: Samples) -> str:
    """A string; other values only where all samples are spelt so: numbers among numbers, dates among dates."""
    if isinstance(value, str | Text):
        return value if isinstance(value, str) else value.text
    if isinstance(value, Link) and ":" not in value.id:
        return value.id
    read, spelt = STRING_WRITERS.get(type(value), (None, None))
    if read is None or spelt is None or not samples or not all(_reads(read, text) for text in samples):
        raise ValueError(f"expected a string, got {_in_words(value)}")
    return spelt(value, samples)


def _uri_form(value: Any, datatype: str, samples: Samples) -> str:
    return value.id if isinstance(value, Link) else _string_form(value, datatype, samples)


def _reads(read: Callable[[str], Any], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def _number_as_string(value: Number, samples: Samples) -> str:
    return NumberFormat.of(samples).show(value)


STRING_WRITERS: dict[type[Any], tuple[Callable[[str], Any], Callable[[Any, Samples], str]]] = {
    **dict.fromkeys((int, float, Decimal), (numerals.number, _number_as_string)),
    bool: (
        lambda text: value_of(text, BOOLEAN),
        lambda value, samples: _boolean(value, BOOLEAN, samples),
    ),
    Date: (dates.read_iso, lambda value, samples: dates.write_iso(dates.plain(value))),
}


def _in_words(value: Any) -> str:
    """A value in an error message."""
    match value:
        case Link():
            return f"a link to <{value.id}>"
        case Quantity():
            return f"{value.value} of unit {value.unit}"
        case dict() | list():
            return f"a {'part' if isinstance(value, dict) else 'list'}"
    return repr(value) if isinstance(value, str) else numerals.show(value) if type(value) is int else str(value)


LEXICAL_WRITERS: dict[str, Callable[[Any, str, Samples], str]] = {
    **dict.fromkeys(NUMBERS, _number_form),
    BOOLEAN: _boolean,
    **dict.fromkeys(DATES, _date_form),
    XSD + "time": _time_of_day,
    **dict.fromkeys(POINTS, _point_form),
    ANY_URI: _uri_form,
}


# ---------------------------------------------------------------- templates of values


Fresh: TypeAlias = Callable[[], BlankNode]
TermAndTriples: TypeAlias = tuple[Term, list[Triple]]

MAX_SAMPLES = 200  # lexical forms kept of a template
SAME_KIND: dict[type[Any], type[Any]] = {int: float, Decimal: float, Text: str}  # types that are of one kind
_TYPE = NamedNode(TYPE)
QUANTITY, CODE, WORD = (f"http://schema.org/{name}" for name in ("QuantitativeValue", "unitCode", "unitText"))
_QUANTITY_FORM = BY_CLASS[QUANTITY][0]
INTERVAL = EDTF + "EDTF"


class LinkTemplate:
    """The template of links: IRIs and blank nodes that are entities."""

    kinds = frozenset({Link})

    def __init__(self) -> None:
        self.count = 0

    def observe(self, term: Any, fields: Fields | None, fields_of: FieldsOf) -> None:
        """Take in an example."""
        self.count += 1

    def suits(self, value: Any) -> bool:
        """Whether a value is of just this kind."""
        return isinstance(value, Link)

    def write(self, value: Any, fresh: Fresh) -> TermAndTriples:
        """A link, or a string that is an IRI."""
        if isinstance(value, Link):
            return link_term(value), []
        if isinstance(value, str) and is_iri(value):
            return NamedNode(value), []
        raise ValueError(f"expected a link to an entity, got {value!r}")


class LiteralTemplate:
    """The template of literals of one datatype and language."""

    def __init__(self, datatype: str, language: str | None) -> None:
        self.datatype = datatype
        self.language = language
        self.count = 0
        self.samples: list[str] = []
        self.kinds: set[type[Any]] = set()

    def observe(self, term: Any, fields: Fields | None, fields_of: FieldsOf) -> None:
        """Take in an example."""
        self.count += 1
        if len(self.samples) < MAX_SAMPLES:
            self.samples.append(term.value)
            kind = type(value_of_term(term))
            self.kinds.add(SAME_KIND.get(kind, kind))

    def suits(self, value: Any) -> bool:
        """Whether a value is of just this kind, and in this language."""
        same = SAME_KIND.get(type(value), type(value)) in self.kinds
        return same and (not isinstance(value, Text) or value.language.lower() == self.language)

    def write(self, value: Any, fresh: Fresh) -> TermAndTriples:
        """A literal, spelt as the others are; a string takes their language, or none where they have none."""
        if self.language is None:
            return literal_term(lexical_form(value, self.datatype, self.samples), self.datatype), []
        if isinstance(value, Text) and not self.suits(value):
            raise ValueError(f"expected a text in {self.language}, got one in {value.language}")
        return literal_term(lexical_form(value, STRING), LANGUAGE, self.language), []

    def of_unit(self, value: Any) -> LiteralTemplate | None:
        """The same in another unit, where datatypes name units."""
        datatype = DBPEDIA + (value.unit or "") if isinstance(value, Quantity) else ""
        if not (unit_of(self.datatype) and unit_of(datatype) and is_iri(datatype)):
            return None
        sister = LiteralTemplate(datatype, None)
        sister.samples = self.samples
        return sister


class NodeTemplate:
    """The template of value nodes of one form, with the same classes and predicates."""

    def __init__(self, form: Form, classes: tuple[str, ...] = (), predicates: tuple[str, ...] = ()) -> None:
        self.form = form
        self.kinds = frozenset(form.kinds)
        self.classes = classes
        self.count = 0
        self.templates = {predicate: PredicateTemplates() for predicate in predicates}
        self.units: dict[str, Fields] = {}  # unit -> its predicates with their objects, where two predicates hold it
        predicates_of_form = [predicate for predicate in form.parts if predicate in predicates]
        self.predicates = {
            form.parts[predicate]: predicate for predicate in reversed(predicates_of_form)
        }  # part -> predicate

    def observe(self, term: Any, fields: Fields | None, fields_of: FieldsOf) -> None:
        """Take in an example."""
        assert fields is not None
        self.count += 1
        for predicate, templates in self.templates.items():
            templates.observe(fields[predicate][0], fields_of)
        units = {predicate: terms for predicate, terms in fields.items() if self.form.parts.get(predicate) == "unit"}
        if len(units) > 1:
            self.units.setdefault(units[self.predicates["unit"]][0].value, units)

    def suits(self, value: Any) -> bool:
        """Whether a value is of exactly this kind, and these predicates hold all its parts."""
        try:
            return all(part in self.predicates for part in self.parts(value))
        except ValueError:
            return False

    def parts(self, value: Any) -> dict[str, Any]:
        """The known parts of a value, without those that are implied here; ValueError where the form has no such value."""
        if type(value) not in self.form.kinds:
            raise ValueError(f"expected a {self.form.kinds[0].__name__.lower()}, got {value!r}")
        parts = self.form.split(value)
        left_out = self.form.implied.keys() - self.predicates.keys()
        return {
            part: part_value
            for part, part_value in parts.items()
            if part_value is not None and not (part in left_out and part_value == self.form.implied[part])
        }

    def write(self, value: Any, fresh: Fresh) -> TermAndTriples:
        """A new node with the value's parts."""
        parts = self.parts(value)
        node = fresh()
        triples = [Triple(node, _TYPE, NamedNode(name)) for name in self.classes]
        return node, triples + self.triples(node, parts, fresh)

    def triples(self, node: Any, parts: Mapping[str, Any], fresh: Fresh) -> list[Triple]:
        """The triples of a node with these parts of a value."""
        triples: list[Triple] = []
        for part, value in parts.items():
            if part == "unit" and value in self.units:
                triples += [
                    Triple(node, NamedNode(name), term) for name, terms in self.units[value].items() for term in terms
                ]
                continue
            predicate = self.predicates.get(part) or next(
                name for name, name_of_part in self.form.parts.items() if name_of_part == part
            )
            templates = self.templates.get(predicate)
            term, more = templates.write(value, fresh) if templates else natural_term(_as_link(value), fresh)
            triples += [Triple(node, NamedNode(predicate), term), *more]
        return triples


Template: TypeAlias = LinkTemplate | LiteralTemplate | NodeTemplate


class PredicateTemplates:
    """The templates of a predicate's values, each with its frequency. Without any, a value gets its most natural term."""

    def __init__(self) -> None:
        self.templates: dict[tuple[Any, ...], Template] = {}

    @classmethod
    def of(cls, examples: Iterable[tuple[Term, FieldsOf | Fields | None]]) -> PredicateTemplates:
        """The templates of some values, each with the fields of its node, or with the function to the fields of any node."""
        templates = cls()
        for term, fields in examples:
            templates.observe(term, fields if callable(fields) else _only(term, fields))
        return templates

    def observe(self, term: Term, fields_of: FieldsOf) -> None:
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
        template = self.templates.get(key)
        if template is None:
            template = self.templates[key] = (
                NodeTemplate(*key) if len(key) == 3 else LiteralTemplate(*key) if key else LinkTemplate()
            )
        template.observe(term, fields, fields_of)

    def write(self, value: Value, fresh: Fresh) -> TermAndTriples:
        """A new value as a term and the triples of its node; ValueError where it fits no template."""
        if not self.templates or isinstance(value, Known) or value is None or self._is_new_language(value):
            return natural_term(value, fresh)
        return write_in_first_form(self._candidates(value), lambda template: template.write(value, fresh))

    def holds(self, kind: type[Any]) -> bool:
        """Whether some values are of a kind, such as Quantity."""
        return any(kind in template.kinds for template in self.templates.values())

    def missing(self, node: Any, fields: Fields, value: Any, fresh: Fresh) -> list[Triple]:
        """The triples that a node with these fields lacks for a value; its own triples stay as they are."""
        form = form_of([kind.value for kind in fields.get(TYPE, ()) if isinstance(kind, NamedNode)], list(fields))
        if form is None:
            raise ValueError(f"expected a quantity, a date or a coordinate to complete, got {node}")
        given_parts = {form.parts[predicate] for predicate in fields if predicate in form.parts}
        templates = [
            template
            for template in self._candidates(value)
            if isinstance(template, NodeTemplate) and template.form is form
        ]
        template = max(
            templates, key=lambda template: len(template.predicates.keys() - given_parts), default=None
        ) or NodeTemplate(form)
        return template.triples(
            node,
            {part: part_value for part, part_value in template.parts(value).items() if part not in given_parts},
            fresh,
        )

    def _is_new_language(self, value: Any) -> bool:
        """Whether a text is in a language that no value has, although values have languages."""
        tagged = [
            template
            for template in self.templates.values()
            if isinstance(template, LiteralTemplate) and template.language
        ]
        return isinstance(value, Text) and bool(tagged) and not any(template.suits(value) for template in tagged)

    def _candidates(self, value: Any) -> list[Template]:
        """Templates of exactly the value's kind first, then by frequency; then those of units that no datatype has named yet."""
        templates = sorted(self.templates.values(), key=lambda template: (not template.suits(value), -template.count))
        return templates + [
            sister
            for template in templates
            if isinstance(template, LiteralTemplate) and (sister := template.of_unit(value))
        ]


def natural_term(value: Any, fresh: Fresh) -> TermAndTriples:
    """The most natural term of a value, which is read back as the same; ValueError for lists and parts."""
    match value:
        case None | Known():
            return NamedNode(IRIS_OF_KNOWN[value]), []
        case Link():
            return link_term(value), []
        case Quantity():
            template = NodeTemplate(_QUANTITY_FORM, (QUANTITY,))
            template.predicates["unit"] = CODE if isinstance(_as_link(value.unit), Link) else WORD
            return template.write(value, fresh)
        case dict() if value and not value.keys() - {"start", "end"}:
            return literal_term(lexical_form(value, INTERVAL), INTERVAL), []
        case list() | dict():
            raise ValueError(f"expected one value, got a {'list' if isinstance(value, list) else 'part'}")
    return literal_term(*literal_of(value)), []


def _as_link(value: Any) -> Any:
    """A name that is an IRI as a link, where there is no sample."""
    return Link(value) if isinstance(value, str) and value not in NAMED and is_iri(value) else value


def _only(term: Term, fields: Fields | None) -> FieldsOf:
    return lambda node: fields if node == term else None


# ---------------------------------------------------------------- statements of a source


MAX_STATEMENTS_OBSERVED = 300_000  # statements that are observed of a large file


class Observed:
    """The statements of a source, or the first of them, by subject and by predicate."""

    def __init__(self, blanks: BlankNodes) -> None:
        self.blanks = blanks
        self.fields: dict[Any, dict[str, list[Any]]] = {}  # node -> predicate -> objects
        self.graphs: dict[Any, Any] = {}  # node -> the named graph that its first statement stands in
        self.objects: dict[str, list[Any]] = {}  # predicate -> some objects
        self.triple_terms: dict[tuple[str, str], Triple] = {}  # by predicate and text, as a tree has it
        self._templates: dict[str, PredicateTemplates] = {}
        self._classes_of_parts: dict[str, tuple[NamedNode, ...]] = {}

    def add(self, quads: Iterable[Any], most: int | None = None) -> None:
        """Take in the quads of a source."""
        default = DefaultGraph()
        for quad in quads if most is None else itertools.islice(quads, most):
            predicate = quad.predicate.value
            for node in blank_nodes(quad.subject, quad.object):
                self.blanks.id(node.value)
            fields = self.fields.get(quad.subject)
            if fields is None:
                fields = self.fields[quad.subject] = {}
                if quad.graph_name != default:
                    self.graphs[quad.subject] = quad.graph_name
            fields.setdefault(predicate, []).append(quad.object)
            if type(quad.object) is Triple:
                self.triple_terms[predicate, self.blanks.shown(quad.object)] = quad.object
            examples = self.objects.setdefault(predicate, [])
            if len(examples) < MAX_SAMPLES:
                examples.append(quad.object)

    def fields_of(self, node: Any) -> Mapping[str, Sequence[Any]] | None:
        """The predicates of a node with their objects."""
        return self.fields.get(node)

    def values(self, node: Any, predicate: str) -> Sequence[Any]:
        """The objects that a node has."""
        return self.fields.get(node, {}).get(predicate, ())

    def templates(self, predicate: str) -> PredicateTemplates:
        """The templates of a predicate's values."""
        templates = self._templates.get(predicate)
        if templates is None:
            examples = [
                term for term in self.objects.get(predicate, ()) if isinstance(term, Literal | NamedNode | BlankNode)
            ]
            templates = self._templates[predicate] = PredicateTemplates.of((term, self.fields_of) for term in examples)
        return templates

    def triple_term(self, predicate: str, text: str) -> Triple | None:
        """The triple term that a tree has as this text; one that was not observed is parsed from the text."""
        known = self.triple_terms.get((predicate, text))
        if known is not None or not self.holds_triple_terms(predicate):
            return known
        try:
            triples = [quad.object for quad in syntax.parser(f"<s:s> <p:p> {text} .".encode(), "ntriples", None)]
        except SyntaxError:
            return None
        return triples[0] if len(triples) == 1 and type(triples[0]) is Triple else None

    def holds_triple_terms(self, predicate: str) -> bool:
        """Whether all values of a property are triple terms."""
        examples = self.objects.get(predicate, ())
        return bool(examples) and all(type(term) is Triple for term in examples)

    def is_collection(self, node: Any, predicate: str) -> bool:
        """Whether a value of a node's property is a collection, to which nothing can be added."""
        return any(map(self._is_collection, self.values(node, predicate)))

    def holds_collections(self, predicate: str) -> bool:
        """Whether a property's values are collections more often than not."""
        examples = self.objects.get(predicate, ())
        return 2 * sum(map(self._is_collection, examples)) > len(examples)

    def _is_collection(self, value: Any) -> bool:
        return value == NamedNode(NIL) or FIRST in self.fields.get(value, ())

    def classes_of_parts(self, predicate: str) -> Sequence[NamedNode]:
        """The classes that the nodes under a predicate have; ValueError where its values are no such nodes."""
        classes = self._classes_of_parts.get(predicate)
        if classes is None:
            classes = self._classes_of_parts[predicate] = self._most_common_classes(predicate)
        return classes

    def _most_common_classes(self, predicate: str) -> tuple[NamedNode, ...]:
        counts: Counter[tuple[NamedNode, ...]] = Counter()
        for value in self.objects.get(predicate, ()):
            fields = self.fields.get(value)
            if (
                isinstance(value, BlankNode)
                and fields is not None
                and recognised(value, fields, self.fields_of) is None
            ):
                counts[tuple(fields.get(TYPE, ()))] += 1
        if not counts and self.objects.get(predicate):
            raise ValueError("expected one value, as its others are, got a part")
        return counts.most_common(1)[0][0] if counts else ()
