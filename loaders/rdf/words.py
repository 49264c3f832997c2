"""Values as triples in a knowledge base's own words: its predicates, and the shape that each property has there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyoxigraph import BlankNode, NamedNode, Triple

from kbdisk.entity import NOVALUE, SOMEVALUE, Coordinate, Link
from kbdisk.loaders.rdf.blocks import FreshLabels
from kbdisk.loaders.rdf.observed import Observed
from kbdisk.loaders.rdf.shapes import NAMES, Literals, Nodes
from kbdisk.loaders.rdf.terms import FIRST, ID, LATITUDE, LONGITUDE, NIL, REST, TYPE, is_iri, link_term
from kbdisk.loaders.rdf.value_nodes import PARTS

if TYPE_CHECKING:
    from kbdisk.loaders.rdf.base import RdfKB


class Words:
    """Makes triples as this knowledge base would have them; its new nodes stand in `minted`."""

    def __init__(self, kb: RdfKB, observed: Observed, labels: FreshLabels) -> None:
        self.kb = kb
        self.observed = observed
        self.labels = labels
        self.minted: set[str] = set()

    def fresh(self) -> BlankNode:
        """A blank node that is nowhere else."""
        node = BlankNode(self.labels.mint())
        self.minted.add(node.value)
        return node

    def key_of(self, name: str) -> str:
        """What a tree calls a property that is named by its key, its IRI or a short form of that."""
        names = self.kb.names
        return name if name in names.iris else names.known(self._expanded(name)) or name

    def predicate(self, key: str) -> str:
        """The predicate of a key; that of a property which is nowhere yet is told by its IRI."""
        if key.startswith("@"):
            raise ValueError("is no property")
        iri = self.kb.names.iris.get(key)
        if iri is not None:
            return iri
        iri = self._expanded(key)
        if iri == TYPE:
            raise ValueError("is the class, which is never filled")
        if not (iri != key or "://" in iri or iri.startswith("urn:")) or not is_iri(iri):
            raise ValueError(
                f"no predicate is called {key!r} here; say its whole IRI, or one of its prefixes and a word"
            )
        return iri

    def _expanded(self, name: str) -> str:
        prefix, colon, word = name.partition(":")
        return self.kb.prefixes[prefix] + word if colon and prefix in self.kb.prefixes else name

    def statements(self, node: Any, predicate: str, value: Any) -> list[Triple]:
        """A new value of a node, or several, or a new part with all that is in it."""
        if isinstance(value, list) and value and not self.observed.holds_collections(predicate):
            return [triple for one in value for triple in self.statements(node, predicate, one)]
        term, more = self.collection(predicate, value) if isinstance(value, list) else self.term(predicate, value)
        return [Triple(node, NamedNode(predicate), term), *more]

    def term(self, predicate: str, value: Any) -> tuple[Any, list[Triple]]:
        """A value, with what is said of its node."""
        if isinstance(value, dict):
            composite = self._composite(predicate, value)
            return self.part(predicate, value) if composite is None else self.term(predicate, composite)
        if isinstance(value, Link):
            value = self.link(value)
            return (
                (value, []) if isinstance(value, BlankNode) else self.observed.shape(predicate).terms(value, self.fresh)
            )
        if value is None:
            raise ValueError("there is nothing to write")
        if self.observed.holds_triple_terms(predicate):
            raise ValueError("expected a triple term, as its other values are, which cannot be filled in")
        if value is SOMEVALUE:
            return self.fresh(), []
        if value is NOVALUE and NamedNode(NAMES[NOVALUE]) not in self.observed.objects.get(predicate, ()):
            raise ValueError("RDF has no word for a value that is known not to exist")
        return self.observed.shape(predicate).terms(value, self.fresh)

    def link(self, link: Link) -> Link | BlankNode:
        """A link; to a blank node, that node itself."""
        term = link_term(link)
        if isinstance(term, NamedNode) and term.value.startswith(ID) and not self.has_own_ids:
            raise ValueError(f"expected the IRI of an entity, got {link.id!r}")
        return term if isinstance(term, BlankNode) else link

    @cached_property
    def has_own_ids(self) -> bool:
        """Whether the source has ids that were no IRIs before we wrote it."""
        return any(isinstance(node, NamedNode) and node.value.startswith(ID) for node in self.observed.fields)

    def part(self, predicate: str, value: dict[str, Any]) -> tuple[Any, list[Triple]]:
        """A new node with all that is in it."""
        classes = self.observed.classes_of_parts(predicate)
        node = self.fresh()
        triples = [Triple(node, NamedNode(TYPE), name) for name in classes]
        for key, inner in value.items():
            triples += self.statements(node, self.predicate(self.key_of(key)), inner)
        return node, triples

    def _composite(self, predicate: str, value: dict[str, Any]) -> Any:
        """The quantity or place that a dict of its parts is, where the property has such values."""
        kinds = [kind for kind, parts in PARTS.items() if value and value.keys() <= set(parts)]
        for kind in kinds:
            for mold in self.observed.shape(predicate).molds.values():
                known = mold.form.kinds if isinstance(mold, Nodes) else mold.kinds if isinstance(mold, Literals) else ()
                if kind in known:
                    return kind(*(value.get(part) for part in PARTS[kind]))
        return None

    def collection(self, predicate: str, values: Sequence[Any]) -> tuple[Any, list[Triple]]:
        """A list in its order; its members look as those of the other lists do."""
        nodes: list[Any] = [*(self.fresh() for _ in values), NamedNode(NIL)]
        triples: list[Triple] = []
        for node, following, value in zip(nodes, nodes[1:], values, strict=False):
            member = self.collection if isinstance(value, list) else self.term
            term, more = member(FIRST, value)
            triples += [Triple(node, NamedNode(FIRST), term), *more, Triple(node, NamedNode(REST), following)]
        return nodes[0], triples

    def halves(self, node: Any, place: Coordinate, given: tuple[Any, Any] = (None, None)) -> list[Triple]:
        """geo:lat and geo:long, each as the knowledge base spells it; what is given already stays."""
        triples = []
        for predicate, value, before in zip(
            (LATITUDE, LONGITUDE), (place.latitude, place.longitude), given, strict=True
        ):
            if value is not None and before is None:
                triples += self.statements(node, predicate, value)
        return triples
