"""The kind of value that a property shape tells: by datatype, class, nodeKind, sh:in, sh:hasValue and bounds.

What a kind cannot say (a pattern, several languages, a bound within a year) is a ValueShape beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import reduce

from kbdisk.entity import Date, Value
from kbdisk.schemas.composites import Kind
from kbdisk.schemas.constraints import NodeKind, ValueShape
from kbdisk.schemas.imported import CLASSES, Notes, Told, Word, narrowed, of_datatype, widened
from kbdisk.schemas.kinds import Link, Text
from kbdisk.schemas.shapes import SH, Shape, Term, is_iri, label_of, value_of
from kbdisk.schemas.text.names import last_word

NODES: dict[str, tuple[NodeKind, ...]] = {
    "IRI": ("iri",), "BlankNode": ("blank",), "Literal": ("literal",), "BlankNodeOrIRI": ("iri", "blank"),
    "BlankNodeOrLiteral": ("blank", "literal"), "IRIOrLiteral": ("iri", "literal"),
}  # fmt: skip
LINKED = frozenset({"IRI", "BlankNode", "BlankNodeOrIRI"})
QUALIFYING = frozenset({  # what a value shape is read of
    "datatype", "class", "nodeKind", "in", "hasValue", "pattern", "flags", "minLength", "maxLength", "languageIn",
    "minInclusive", "maxInclusive", "minExclusive", "maxExclusive", "node", "and", "name", "description", "message",
})  # fmt: skip
BOUNDS = {"minInclusive": "minimum", "maxInclusive": "maximum", "minExclusive": "above", "maxExclusive": "below"}
EVERY = ValueShape()
LENGTHS = {"minLength": "min_length", "maxLength": "max_length"}


def value_told(
    shape: Shape, names: Mapping[str, str], notes: Notes, most: int | None, beside: list[ValueShape]
) -> Kind | None:
    """The kind of a property's values; None where nothing tells it. `names` are those of classes.

    What must hold of each value and the kind cannot say goes into `beside`.
    """
    told = reduce(narrowed, _typed(shape, names, notes, beside), Told())
    told = _listed(shape, told, notes, most, beside)
    told = _bounded(shape, told, notes, beside)
    beside.extend(_patterns(shape, notes))
    return told.kind()


def qualifying(shape: Shape, names: Mapping[str, str]) -> ValueShape | None:
    """What a shape of single values says, as it qualifies some of several; None where it says what no ValueShape has."""
    notes, beside = Notes(), list[ValueShape]()
    known = set(shape.told())
    if known - QUALIFYING:
        return None
    classes = tuple(names.get(iri, last_word(iri)) for iri in shape.iris("class"))
    kind = value_told(shape, names, notes, 1, beside)
    if isinstance(kind, Text) and kind.max_length is not None and kind.max_length < kind.min_length:
        return None  # nothing has this shape
    if isinstance(kind, Text) and not known & {"datatype", "languageIn"}:  # a link has a length, too
        beside.append(ValueShape(min_length=kind.min_length, max_length=kind.max_length))
        kind = None
    kind = Link(values=kind.values) if isinstance(kind, Link) else kind
    merged: ValueShape | None = ValueShape(kind, classes)
    for more in beside:
        merged = merged if more.classes else _both(merged, more)  # all classes are there already
    return None if notes.lines else merged


def _both(one: ValueShape | None, other: ValueShape) -> ValueShape | None:
    """Both at once; None where both say something of one field."""
    if one is None:
        return None
    set_fields = {name: value for name, value in vars(other).items() if value != getattr(EVERY, name)}
    if any(getattr(one, name) not in (getattr(EVERY, name), value) for name, value in set_fields.items()):
        return None
    try:
        return replace(one, **set_fields)
    except ValueError:  # nothing has both shapes
        return None


def _typed(shape: Shape, names: Mapping[str, str], notes: Notes, beside: list[ValueShape]) -> list[Told]:
    """What datatypes, classes and kinds of nodes tell, each by itself."""
    found = [of_datatype(iri) for iri in shape.iris("datatype")]
    if len({"number" if one.word == "integer" else one.word for one in found}) > 1:
        notes.add(shape.where, "of several sh:datatype the first alone is enforced")
    found += [_of_class(iri, names) for iri in shape.iris("class")]
    for kind in map(last_word, shape.iris("nodeKind")):
        if kind in LINKED:
            found.append(Told("link"))
        if kind in NODES and kind != "BlankNodeOrIRI":
            beside.append(ValueShape(nodes=NODES[kind]))
    for name in ("or", "xone"):
        for shapes in shape.lists(name):
            either = _either(shape, shapes, names)
            if either is None:
                notes.add(shape.where, f"sh:{name} is not checked")
            else:
                found.append(either)
                if either.word == "link" and either.to is None and len(shapes) > 1:
                    notes.add(shape.where, f"sh:{name} of classes: which class a linked entity is of is not checked")
    others = [one.to for one in found if one.word == "link" and one.to is not None][1:]
    beside.extend(ValueShape(classes=(to,)) for to in others)
    return found


def _of_class(iri: str, names: Mapping[str, str]) -> Told:
    word = CLASSES.get(last_word(iri))
    return Told(word) if word else Told("link", to=names.get(iri, last_word(iri)))


def _either(shape: Shape, shapes: list[Term], names: Mapping[str, str]) -> Told | None:
    """What alternatives tell that are of one kind, and say nothing else."""
    inner = [Shape(shape.graph, [node], shape.where) for node in shapes]
    if any(set(one.told()) - {"datatype", "class", "nodeKind", "name", "description"} for one in inner):
        return None
    notes = Notes()
    told = [reduce(narrowed, _typed(one, names, notes, []), Told()) for one in inner]
    word = widened(one.word for one in told)
    return _widest(word, told) if word else None


def _widest(word: Word, told: list[Told]) -> Told:
    to = {one.to for one in told}
    return Told(
        word,
        to=to.pop() if len(to) == 1 else None,
        language="" if all(one.language == "" for one in told) else None,
        parts=max((one.parts for one in told), key=len),
    )


def _listed(shape: Shape, told: Told, notes: Notes, most: int | None, beside: list[ValueShape]) -> Told:
    """The values that sh:in leaves, and sh:hasValue where there is no more than one value."""
    lists = shape.lists("in")
    lists += [[one] for one in shape.all("hasValue")] if most == 1 else []
    for terms in lists:
        if terms and all(map(is_iri, terms)):
            told = narrowed(told, Told("link", values=tuple(one.value for one in terms)))
            continue
        labels = tuple(label_of(one) for one in terms)
        if labels and None not in labels and told.word not in ("link", "date", "quantity"):
            told = narrowed(told, Told(values=labels))  # type: ignore[arg-type]
            continue
        values = values_of(terms)
        if values:
            beside.append(ValueShape(values=values))
        else:
            notes.add(shape.where, "sh:in or sh:hasValue of blank nodes or of other datatypes is not checked")
    return told


def values_of(terms: Iterable[Term]) -> tuple[Value, ...]:
    """The values of terms; none where one of them has no value."""
    values = tuple(map(value_of, terms))
    return () if None in values else values


def _bounded(shape: Shape, told: Told, notes: Notes, beside: list[ValueShape]) -> Told:
    """With bounds, lengths and languages."""
    for name, field in BOUNDS.items():
        for term, bound in zip(shape.all(name), shape.numbers(name), strict=True):
            value = value_of(term)
            words = ("", "date") if isinstance(value, Date) else ("", "number", "integer", "quantity")
            fits = told.word in words and told.values is None
            if fits:
                told = narrowed(told, _with_bound(told, field, bound, value))
            if not fits or isinstance(value, Decimal) or (isinstance(value, Date) and not _is_year(field, value)):
                beside.append(ValueShape(**{field: value}))  # type: ignore[arg-type]
    for name, field in LENGTHS.items():
        for length in shape.counts(name):
            if told.word in ("", "text") and told.values is None:
                told = narrowed(told, replace(Told("text"), **{field: length}))  # type: ignore[arg-type]
            else:
                beside.append(ValueShape(**{field: length}))  # type: ignore[arg-type]
    return _spoken(shape, told, notes, beside)


def _with_bound(told: Told, field: str, bound: float, value: Value) -> Told:
    """A bound; that of a date is a year, which lets the whole year in that the bound lies in."""
    if not isinstance(value, Date):
        return replace(Told(told.word or "number"), **{field: bound})  # type: ignore[arg-type]
    is_year = value == Date(value.year)
    year = int(bound) + (field == "above") * is_year - (field == "below") * is_year
    return replace(Told("date"), **{"minimum" if field in ("minimum", "above") else "maximum": year})  # type: ignore[arg-type]


def _is_year(field: str, bound: Date) -> bool:
    """Whether a bound of years says the same as a bound of dates."""
    edges = {"minimum": (1, 1), "maximum": (12, 31)}
    return bound == Date(bound.year) or bound == Date(bound.year, *edges.get(field, (None, None)))


def _spoken(shape: Shape, told: Told, notes: Notes, beside: list[ValueShape]) -> Told:
    """With languages: text without a language fits a kind in any language, and is of none of these."""
    for terms in shape.lists("languageIn"):
        languages = tuple(str(term.value) for term in terms)
        told = replace(told, word=told.word or "text", language=languages[0] if len(languages) == 1 else told.language)
        if languages:
            beside.append(ValueShape(languages=languages))
        else:
            notes.add(shape.where, "sh:languageIn of no language is not checked")
    return told


def _patterns(shape: Shape, notes: Notes) -> Iterator[ValueShape]:
    """The patterns of a shape, each with the flags beside it."""
    for node in shape.nodes:
        flags = "".join(str(term.value) for term in shape.graph.objects(node, SH + "flags"))
        for term in shape.graph.objects(node, SH + "pattern"):
            try:
                if term.value:  # an empty pattern is found in any text
                    yield ValueShape(pattern=str(term.value), flags=flags)
            except ValueError as error:
                notes.add(shape.where, f"sh:pattern is not checked: {error}")
