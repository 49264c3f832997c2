"""Nodes that are one value: a quantity, a date or a coordinate, in the words of some ontology (forms.py has the table).

A node is such a value only when it holds nothing beyond what its form knows, so that nothing is lost; else it stays a
part. One whose class names the form may lack something (a value without its unit): what is missing is None, a gap that
can be asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from kbdisk.entity import Coordinate, Link
from kbdisk.loaders.rdf import places
from kbdisk.loaders.rdf.forms import FORMS, INSIDE, Form, Parts, number
from kbdisk.loaders.rdf.vocabulary import LATITUDE, LONGITUDE, TYPE

Node: TypeAlias = Mapping[str, Sequence[Any]]  # predicate IRI -> values; IRIs and blank nodes are Links
Resolve: TypeAlias = Callable[[str], Node | None]  # a node by its id


def _index(names_of: Callable[[Form], Sequence[str]]) -> dict[str, tuple[Form, ...]]:
    index: dict[str, tuple[Form, ...]] = {}
    for form in FORMS:
        for name in names_of(form):
            index[name] = (*index.get(name, ()), form)
    return index


BY_CLASS = _index(lambda form: (*form.classes, *sorted(form.wide)))
BY_PREDICATE = _index(lambda form: tuple(form.parts))
LARGEST = max(len(form.parts) + len(form.extra) for form in FORMS) + 1  # predicates; a node with more is none of these


def recognise(id: str, node: Node, resolve: Resolve | None = None) -> Any:
    """The value that a node is, or None. `resolve` finds nodes within it, by id."""
    form = _form_of(id, node)
    if form is None:
        return None
    parts: Parts = {}
    for predicate, part in form.parts.items():
        values = node.get(predicate)
        if values is None:
            continue
        value = values[0]
        if any(other != value for other in values) or (part in parts and part != "unit"):
            return None
        parts.setdefault(part, _within(value, resolve) if predicate == INSIDE else value)
    try:
        return form.join(parts)
    except ValueError:
        return None


def form_of(classes: Sequence[str], predicates: Sequence[str]) -> Form | None:
    """The form that classes or predicates tell, whatever else there is."""
    found = [form for name in classes for form in BY_CLASS.get(name, ())] or [
        form for name in predicates for form in BY_PREDICATE.get(name, ())
    ]
    return max(found, key=lambda form: sum(name in form.parts for name in predicates), default=None)


def recognise_pair(node: Node) -> Coordinate | None:
    """The place that a thing's own geo:lat and geo:long say, where each is one number."""
    latitude, longitude = node.get(LATITUDE, ()), node.get(LONGITUDE, ())
    if len(latitude) != 1 or len(longitude) != 1:
        return None
    try:
        return places.place(number(latitude[0]), number(longitude[0]))
    except ValueError:
        return None


def _form_of(id: str, node: Node) -> Form | None:
    """The form of a node that holds nothing else; one with an IRI is a thing of its own unless its class tells."""
    kinds = node.get(TYPE, ())
    classes = [kind.id for kind in kinds if type(kind) is Link and kind.id in BY_CLASS]
    if len(classes) != len(kinds) or len(node) > LARGEST or (not classes and id[:2] != "_:"):
        return None
    predicates = [predicate for predicate in node if predicate != TYPE]
    form = form_of(classes, predicates)
    if form is None or any(name not in form.parts and name not in form.extra for name in predicates):
        return None
    if all(name in form.wide for name in classes):  # true where there is no class, too
        parts = {form.parts.get(name) for name in predicates}
        return form if id[:2] == "_:" and form.needed <= parts else None
    return form if all(name in form.classes or name in form.wide for name in classes) else None


def _within(value: Any, resolve: Resolve | None) -> Any:
    """The date of a description within an instant: folded already, or still a node."""
    if type(value) is not Link or resolve is None:
        return value
    node = resolve(value.id)
    return None if node is None else recognise(value.id, node)
