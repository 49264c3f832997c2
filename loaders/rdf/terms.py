"""pyoxigraph's terms to values and back, one at a time, and nodes of terms to the values they are as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import quote

from pyoxigraph import BlankNode, Literal, NamedNode

from kbdisk.entity import Link
from kbdisk.loaders.rdf import composites, literals
from kbdisk.loaders.rdf.names import id_of_iri, iri_of_id
from kbdisk.loaders.rdf.vocabulary import ID, STRING

Term: TypeAlias = NamedNode | BlankNode | Literal
Fields: TypeAlias = Mapping[str, Sequence[Any]]  # predicate IRI -> object terms
FieldsOf: TypeAlias = Callable[[Any], Fields | None]  # the fields of a node


def value_of_term(term: Any) -> Any:
    """The value of a term; a literal that its datatype does not allow is text."""
    if isinstance(term, NamedNode):
        return literals.NAMED[term.value] if term.value in literals.NAMED else Link(id_of_iri(term.value))
    if isinstance(term, Literal):
        try:
            return literals.value_of(term.value, term.datatype.value, literals.language_of(term))
        except ValueError:
            return term.value
    return Link(f"_:{term.value}") if isinstance(term, BlankNode) else str(term)


def recognised(term: NamedNode | BlankNode, fields: Fields, fields_of: FieldsOf) -> Any:
    """The value that a node is as a whole, or None."""
    inner = {one.value: one for terms in fields.values() for one in terms if isinstance(one, NamedNode | BlankNode)}

    def resolve(id: str) -> Any:
        found = fields_of(inner[id.removeprefix("_:")])
        return None if found is None else _values(found)

    id = term.value if isinstance(term, NamedNode) else f"_:{term.value}"
    return composites.recognise(id, _values(fields), resolve)


def _values(fields: Fields) -> dict[str, list[Any]]:
    return {predicate: [value_of_term(term) for term in terms] for predicate, terms in fields.items()}


def link_term(link: Link) -> NamedNode | BlankNode:
    """A link as a term; an id that is no IRI, or that means something to us, becomes one of ours."""
    if link.id.startswith("_:"):
        try:
            return BlankNode(link.id[2:])
        except ValueError:
            raise ValueError(f"expected a node with a label, got the anonymous {link.id}") from None
    return NamedNode(ID + quote(link.id, safe="") if link.id in literals.NAMED else iri_of_id(link.id))


def literal_term(lexical: str, datatype: str, language: str | None = None) -> Literal:
    """A literal as a term; ValueError where it has a lone surrogate, which no RDF file can hold."""
    try:
        lexical.encode()
    except UnicodeEncodeError:
        raise ValueError(f"expected text that can be written as UTF-8, got {lexical!r}") from None
    if language is not None:
        return literals.in_language(lexical, language)
    return Literal(lexical) if datatype == STRING else Literal(lexical, datatype=NamedNode(datatype))
