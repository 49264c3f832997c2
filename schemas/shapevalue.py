"""The kind of value that a property shape tells: by datatype, class, nodeKind, sh:in, sh:hasValue and bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce

from kbdisk.schemas.composites import Kind
from kbdisk.schemas.imported import CLASSES, DATED, XSD, Notes, Told, Word, narrowed, of_datatype, widened
from kbdisk.schemas.iris import last_word
from kbdisk.schemas.shapes import Shape, Term, is_iri, label_of

NODES = frozenset({"IRI", "BlankNode", "BlankNodeOrIRI"})
BOUNDS = {"minInclusive": "minimum", "maxInclusive": "maximum", "minExclusive": "above", "maxExclusive": "below"}
LENGTHS = {"minLength": "min_length", "maxLength": "max_length"}


def value_told(shape: Shape, names: Mapping[str, str], notes: Notes, most: int | None) -> Kind | None:
    """The kind of a property's values; None where nothing tells it. `names` are those of classes."""
    told = reduce(narrowed, _typed(shape, names, notes), Told())
    told = _listed(shape, told, notes, most)
    return _bounded(shape, told, notes).kind()


def _typed(shape: Shape, names: Mapping[str, str], notes: Notes) -> list[Told]:
    """What datatypes, classes and kinds of nodes tell, each by itself."""
    found = [of_datatype(iri) for iri in shape.iris("datatype")]
    found += [_of_class(iri, names) for iri in shape.iris("class")]
    for kind in map(last_word, shape.iris("nodeKind")):
        if kind in NODES:
            found.append(Told("link"))
        elif not found:
            notes.add(shape.where, f"sh:nodeKind {kind} is not checked")
    for name in ("or", "xone"):
        for shapes in shape.lists(name):
            either = _either(shape, shapes, names)
            if either is None:
                notes.add(shape.where, f"sh:{name} is not checked")
            else:
                found.append(either)
    links = [one for one in found if one.word == "link" and one.to is not None]
    if links and shape.all("class"):
        notes.add(shape.where, "whether a linked entity is of its class is not checked")
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
    told = [reduce(narrowed, _typed(one, names, notes), Told()) for one in inner]
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


def _listed(shape: Shape, told: Told, notes: Notes, most: int | None) -> Told:
    """The values that sh:in and sh:hasValue leave."""
    lists = shape.lists("in")
    if most == 1:
        lists += [[one] for one in shape.all("hasValue")]
    elif shape.all("hasValue"):
        notes.add(shape.where, "sh:hasValue among several values is not checked")
    for terms in lists:
        if terms and all(map(is_iri, terms)):
            told = narrowed(told, Told("link", values=tuple(one.value for one in terms)))
        else:
            labels = tuple(label_of(one) for one in terms)
            if not labels or None in labels:
                notes.add(
                    shape.where, "sh:in or sh:hasValue of dates, texts in a language or mixed terms is not checked"
                )
            else:
                told = narrowed(told, Told(values=labels))  # type: ignore[arg-type]
    return told


def _bounded(shape: Shape, told: Told, notes: Notes) -> Told:
    """With bounds, lengths and languages."""
    numeric = told.word in ("", "number", "integer", "date", "quantity")
    for name, field in BOUNDS.items():
        for bound in shape.numbers(name):
            if not numeric or told.values is not None:
                notes.add(shape.where, f"sh:{name} of what is no number is not checked")
            elif told.word == "date":
                told = _dated(shape, name, told, notes)
            else:
                told = narrowed(told, replace(Told(told.word or "number"), **{field: bound}))  # type: ignore[arg-type]
    for name, field in LENGTHS.items():
        for length in shape.counts(name):
            if told.word in ("", "text") and told.values is None:
                told = narrowed(told, replace(Told("text"), **{field: length}))  # type: ignore[arg-type]
            else:
                notes.add(shape.where, f"sh:{name} of what is no free text is not checked")
    return _spoken(shape, told, notes)


def _dated(shape: Shape, name: str, told: Told, notes: Notes) -> Told:
    """Bounds of dates are years; a bound within a year lets the whole year in."""
    for term in shape.all(name):
        datatype = term.datatype.value[len(XSD) :]
        year = int(shape.numbers(name)[0])
        edge = "01-01" if name.startswith("min") else "12-31"
        whole = DATED.get(datatype) == ("year",)
        if name.endswith("Exclusive") and whole:
            year += 1 if name.startswith("min") else -1
        elif name.endswith("Exclusive") or not (whole or term.value[-5:] == edge):
            notes.add(shape.where, f"sh:{name} {term.value}: the bound here is the year")
        bound = {"minimum" if name.startswith("min") else "maximum": year}
        told = narrowed(told, replace(Told("date"), **bound))  # type: ignore[arg-type]
    return told


def _spoken(shape: Shape, told: Told, notes: Notes) -> Told:
    languages = [str(one.value) for terms in shape.lists("languageIn") for one in terms]
    if languages:
        told = replace(told, word=told.word or "text", language=languages[0] if len(languages) == 1 else None)
        unsaid = "text without a language fits, too" if len(languages) == 1 else "is not checked"
        notes.add(shape.where, f"sh:languageIn ({' '.join(languages)}): {unsaid}")
    return told
