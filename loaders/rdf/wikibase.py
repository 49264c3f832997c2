"""Wikibase in RDF, truthy and full: statements fold into their entity, and new values are written as truthy triples.

    wd:Q1 p:P2 [ a wikibase:BestRank; ps:P2 "1.9"; psv:P2 v:1 ]      full: the value node has most detail
    wd:Q1 wdt:P2 "1.9"                                               truthy: used where there is no p:

Of each property the statements of the best rank are read, and never a deprecated one. Keys are property ids. The role of a
predicate comes from the property that declares it, else from its form (`.../prop/statement/P2`), so any base IRI will do.
Qualifiers and references are no part of a tree.

Only the Wikibase gives statements their ids, so a full statement cannot be written. A truthy triple has no room for a unit,
nor for a precision coarser than a day.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyoxigraph import Literal, NamedNode

from kbdisk.entity import NOVALUE, SOMEVALUE, Coordinate, Date, Entity, Known, Link, Quantity, Text
from kbdisk.loaders.kb import Oddities
from kbdisk.loaders.rdf.fold import Node
from kbdisk.loaders.rdf.terms import LABELS, SKOS, TYPE, WIKIBASE, WKT, XSD, in_language
from kbdisk.loaders.wikibase import data_model
from kbdisk.schemas.text import numerals
from kbdisk.schemas.text.calendars import DAY, GREGORIAN, MIDNIGHT, of_wikibase, to_wikibase
from kbdisk.schemas.text.dates import write
from kbdisk.schemas.text.numerals import is_number

SCHEMA = "http://schema.org/"
OWL = "http://www.w3.org/2002/07/owl#"
ONTOLEX = "http://www.w3.org/ns/lemon/ontolex#"

ENTITY_CLASSES = {WIKIBASE + name for name in ("Item", "Lexeme", "Form", "Sense", "MediaInfo")}
ENTITY_CLASSES |= {ONTOLEX + name for name in ("LexicalEntry", "Form", "LexicalSense")}
PART_CLASSES = {WIKIBASE + "Form", WIKIBASE + "Sense", ONTOLEX + "Form", ONTOLEX + "LexicalSense"}
PAGE_CLASSES = {SCHEMA + "Dataset", SCHEMA + "Article"}
ABOUT = SCHEMA + "about"
TEXT_PREDICATES = dict.fromkeys(LABELS, "label") | {SCHEMA + "description": "description", SKOS + "altLabel": "alias"}
LEXEME_PREDICATES = {WIKIBASE + name for name in ("lemma", "lexicalCategory", "grammaticalFeature")}  # of a lexeme
PAGE_PREDICATES = {SCHEMA + "version", SCHEMA + "dateModified"}  # of the page, not of the thing

DECLARED_ROLES = {
    WIKIBASE + "directClaim": "direct",
    WIKIBASE + "claim": "",
    WIKIBASE + "statementProperty": "statement",
    WIKIBASE + "statementValue": "statement/value",
    WIKIBASE + "novalue": "novalue",
    WIKIBASE + "directClaimNormalized": "direct-normalized",
    WIKIBASE + "statementValueNormalized": "statement/value-normalized",
    WIKIBASE + "qualifier": "qualifier",
    WIKIBASE + "qualifierValue": "qualifier/value",
    WIKIBASE + "reference": "reference",
    WIKIBASE + "referenceValue": "reference/value",
}
_PREDICATE = re.compile(r"(.+)/prop/((?:[a-z-]+/)*)(P[1-9]\d*)")
_GENID = "/.well-known/genid/"


def entities_of(nodes: Mapping[str, Node], language: str, odd: Oddities, is_complete: bool = True) -> Iterator[Entity]:
    """The items, properties, lexemes and so on, and other nodes that are no part of the Wikibase, in order.

    Unless the nodes are complete, the page of an entity may be elsewhere, and its class decides whether it is one.
    """
    return Wikibase(nodes, language, odd, is_complete).entities()


def _role_of(predicate: str) -> tuple[str | None, str, str]:
    """The role of a predicate ("" is p: itself, None is no predicate of a Wikibase), its property, its base IRI."""
    match = _PREDICATE.fullmatch(predicate)
    return (match[2].rstrip("/"), match[3], match[1]) if match else (None, "", "")


class Wikibase:
    """The nodes of a Wikibase."""

    def __init__(self, nodes: Mapping[str, Node], language: str, odd: Oddities, is_complete: bool) -> None:
        self.nodes = nodes
        self.language = language
        self.odd = odd
        self.roles: dict[str, tuple[str | None, str]] = {}
        self.base: str | None = None  # of the property ids that need no prefix
        self.instance_of = data_model.INSTANCE_OF
        self.described: set[str] = set()  # entities with a page in this source
        self.has_pages = False
        self.entity_classes = ENTITY_CLASSES if is_complete else ENTITY_CLASSES | {WIKIBASE + "Property"}
        self._survey()
        self.has_pages = self.has_pages and is_complete

    def _survey(self) -> None:
        for id, node in self.nodes.items():
            if ABOUT in node and SCHEMA + "Dataset" in self._types(node):
                self.has_pages = True
                self.described.update(value.id for value in node[ABOUT] if isinstance(value, Link))
            elif WIKIBASE + "propertyType" in node or WIKIBASE + "directClaim" in node:
                self._declare(id, node)

    def _declare(self, id: str, node: Node) -> None:
        key = id[max(id.rfind("/"), id.rfind("#")) + 1 :]
        for predicate, role in DECLARED_ROLES.items():
            for value in node.get(predicate, ()):
                if isinstance(value, Link) and _role_of(value.id)[0] is None:
                    self.roles[value.id] = (role, key)
        names = {
            value.text
            for text in TEXT_PREDICATES
            for value in node.get(text, ())
            if isinstance(value, Text) and value.language == "en"
        }
        if data_model.INSTANCE_OF_LABEL in names:
            self.instance_of = key
        elif key == self.instance_of and any(label in node for label in LABELS) and names:
            self.instance_of = ""

    def role(self, predicate: str) -> tuple[str | None, str]:
        """The role of a predicate, and the key of its property."""
        known = self.roles.get(predicate)
        if known is None:
            role, key, base = _role_of(predicate)
            if role is not None and role in ("", "direct"):
                self.base = self.base or base
            if role is not None and self.base not in (None, base):
                key = f"{base}/{key}"  # a property of another Wikibase
            known = self.roles[predicate] = (role, key)
        return known

    # ------------------------------------------------------------ which nodes are entities

    def is_entity(self, id: str, node: Node) -> bool:
        """Whether a node is an entity. Where entities have pages, one without page or statements is only mentioned."""
        if id in self.described or any(self.role(predicate)[0] in ("", "direct") for predicate in node):
            return True
        types = self._types(node)
        return bool(types & PART_CLASSES) or (not self.has_pages and bool(types & self.entity_classes))

    def is_internal(self, id: str, node: Node) -> bool:
        """Whether a node is a statement, value, reference, page, declaration, redirect or only mentioned."""
        if (
            id.startswith(WIKIBASE)
            or self.role(id)[0] is not None
            or self._is_page(node)
            or node.keys() == {OWL + "sameAs"}
        ):
            return True
        restricted = node.get(OWL + "onProperty", ())
        if any(isinstance(value, Link) and self.role(value.id)[0] is not None for value in restricted):
            return True
        is_internal_predicate = any(iri.startswith(WIKIBASE) or self.role(iri)[0] is not None for iri in node)
        return is_internal_predicate or any(iri.startswith(WIKIBASE) for iri in self._types(node))

    def _is_page(self, node: Node) -> bool:
        return ABOUT in node and bool(self._types(node) & PAGE_CLASSES)

    def _types(self, node: Node) -> set[str]:
        return {value.id for value in node.get(TYPE, ()) if isinstance(value, Link)}

    # ------------------------------------------------------------ folding

    def entities(self) -> Iterator[Entity]:
        """Every entity, folded; and every other subject of the source, with the last words of its predicates as keys."""
        for id, node in self.nodes.items():
            if self.is_entity(id, node) or not self.is_internal(id, node):
                yield self._entity(id, node)

    def _entity(self, id: str, node: Node) -> Entity:
        texts: dict[str, list[Any]] = {}
        values: dict[str, list[Any]] = {}
        claimed: set[str] = set()
        for predicate, objects in node.items():
            role, key = self.role(predicate)
            if role == "" and (statements := self._nodes(objects)):
                claimed.add(key)
                values[key] = self._statement_values(statements, key, f"{id} {key}")
            elif role == "direct" and key not in claimed:
                values[key] = [self._simple_value(value, f"{id} {key}") for value in objects]
            elif role is None and self._is_property(predicate):
                texts.setdefault(TEXT_PREDICATES.get(predicate) or _key_of(predicate), []).extend(objects)
        for key in self._novalues(node):
            if key not in claimed:
                values.setdefault(key, []).append(NOVALUE)
        tree = {key: data_model.one_or_list(held) for key, held in (texts | values).items() if held}
        names = texts.get("label") or texts.get("lemma") or texts.get("representation") or []
        return Entity(id, tree, self._classes(values, node), data_model.best_label(names, self.language))

    def _nodes(self, objects: list[Any]) -> list[Node]:
        return [self.nodes[link.id] for link in objects if isinstance(link, Link) and link.id in self.nodes]

    def _is_property(self, predicate: str) -> bool:
        return predicate in LEXEME_PREDICATES or not (
            predicate == TYPE or predicate in PAGE_PREDICATES or predicate.startswith(WIKIBASE)
        )

    def _classes(self, tree: Mapping[str, list[Any]], node: Node) -> tuple[str, ...]:
        given = tuple(value.id for value in tree.get(self.instance_of, ()) if isinstance(value, Link))
        types = [value.id for value in node.get(TYPE, ()) if isinstance(value, Link) and self.role(value.id)[0] is None]
        other = [iri for iri in types if not iri.startswith((WIKIBASE, ONTOLEX))]
        return tuple(dict.fromkeys((*given, *other))) or tuple(dict.fromkeys(types))

    def _novalues(self, node: Node) -> list[str]:
        return [
            key
            for iri in self._types(node)
            if (role_and_key := self.role(iri))[0] == "novalue"
            for key in role_and_key[1:]
        ]

    # ------------------------------------------------------------ statements and values

    def _statement_values(self, statements: list[Node], key: str, where: str) -> list[Any]:
        return [value for statement in self._best_ranked(statements) for value in self._value(statement, key, where)]

    def _best_ranked(self, statements: list[Node]) -> list[Node]:
        """The statements marked as best rank; else those of preferred rank, else all that are not deprecated."""
        best = [statement for statement in statements if WIKIBASE + "BestRank" in self._types(statement)]
        if best:
            return best
        ranks = [
            {value.id for value in statement.get(WIKIBASE + "rank", ()) if isinstance(value, Link)}
            for statement in statements
        ]
        preferred = [
            statement for statement, rank in zip(statements, ranks, strict=True) if WIKIBASE + "PreferredRank" in rank
        ]
        usable = zip(statements, ranks, strict=True)
        return preferred or [statement for statement, rank in usable if WIKIBASE + "DeprecatedRank" not in rank]

    def _value(self, statement: Node, key: str, where: str) -> list[Any]:
        """The value of a statement: that of its value node where it is known, else the simple one."""
        simple: list[Any] = []
        for predicate, objects in statement.items():
            role, property = self.role(predicate)
            if property != key:
                continue
            if role == "statement/value":
                known = [self._node_value(node, where) for node in self._nodes(objects)]
                if known and known[0] is not None:
                    return known
            elif role == "statement":
                simple = [self._simple_value(value, where) for value in objects]
        return simple or [NOVALUE for property in self._novalues(statement) if property == key]

    def _simple_value(self, value: Any, where: str) -> Any:
        if isinstance(value, Link) and (value.id.startswith("_:") or _GENID in value.id):
            return SOMEVALUE
        if isinstance(value, Date) and value.time == MIDNIGHT:  # a Wikibase has no time of day
            return Date(value.year, value.month, value.day)
        if isinstance(value, str) and data_model.is_time(value):
            self.odd.note("a date that cannot be, kept as text", f"{where}: {value}")
        return value

    def _node_value(self, node: Node, where: str) -> Any:
        """The value of a value node; None where its kind is unknown."""
        fields = {
            predicate[len(WIKIBASE) :]: values[0]
            for predicate, values in node.items()
            if predicate.startswith(WIKIBASE)
        }
        if "quantityAmount" in fields:
            amount = fields["quantityAmount"]
            if not is_number(amount):
                return self._odd("a quantity", amount, where)
            return data_model.quantity(amount, _id(fields.get("quantityUnit"), "1"))
        if "geoLatitude" in fields and "geoLongitude" in fields:
            if not (is_number(fields["geoLatitude"]) and is_number(fields["geoLongitude"])):
                return self._odd("a place", f"{fields['geoLatitude']}, {fields['geoLongitude']}", where)
            return data_model.coordinate(fields["geoLatitude"], fields["geoLongitude"], _id(fields.get("geoGlobe"), ""))
        return self._time(fields, where) if "timeValue" in fields else None

    def _odd(self, noun: str, value: Any, where: str) -> str:
        self.odd.note(f"{noun} that cannot be, kept as text", f"{where}: {value}")
        return str(value)

    def _time(self, fields: Mapping[str, Any], where: str) -> Any:
        value, precision = fields["timeValue"], fields.get("timePrecision", DAY)
        calendar, zone = _id(fields.get("timeCalendarModel"), GREGORIAN), fields.get("timeTimezone", 0)
        try:
            if isinstance(value, Date):
                return of_wikibase(value, precision, calendar, zone)
            return data_model.time(value, precision, calendar, zone)  # not converted: as it was entered
        except (TypeError, ValueError) as error:
            self.odd.note("a date that cannot be, kept as text", f"{where}: {error}")
            return str(value)


def _id(value: Any, default: str) -> str:
    return value.id if isinstance(value, Link) else default


def _key_of(predicate: str) -> str:
    word = predicate[max(predicate.rfind("#"), predicate.rfind("/")) + 1 :]
    return word if word and word not in TEXT_PREDICATES.values() and not word.startswith("@") else predicate


# ---------------------------------------------------------------- truthy triples


_DIRECT_PREDICATE = re.compile(r"(.+/prop/direct/)P[1-9][0-9]*")
_KEY = re.compile(r"P[1-9][0-9]*")


def truthy_predicate(predicates: Iterable[str], key: str) -> str | None:
    """The predicate of a property's truthy values, where a knowledge base has such predicates; else None."""
    if _KEY.fullmatch(key) is None:
        return None
    return next((match[1] + key for predicate in predicates if (match := _DIRECT_PREDICATE.fullmatch(predicate))), None)


def truthy_term(value: Any) -> Literal | NamedNode:
    """A value as a Wikibase writes it in a truthy triple; ValueError where it cannot."""
    match value:
        case bool() | Known() | dict() | list() | None:
            raise ValueError("a truthy triple cannot say that")
        case Text():
            return in_language(value.text, value.language)
        case str():
            return Literal(value)
        case Link():
            if value.id.startswith("_:"):
                raise ValueError("a Wikibase has no blank nodes for things")
            return NamedNode(value.id)
        case Date():
            return Literal(write(to_wikibase(value)[0], "dateTime"), datatype=NamedNode(XSD + "dateTime"))
        case Coordinate():
            return Literal(_point(value), datatype=NamedNode(WKT))
        case Quantity(value=None):
            raise ValueError("the number is not known")
        case Quantity():
            return truthy_term(value.value)
    shown = numerals.show(value).removesuffix(".0")
    return Literal(shown if shown.startswith("-") else "+" + shown, datatype=NamedNode(XSD + "decimal"))


def _point(place: Coordinate) -> str:
    if place.latitude is None or place.longitude is None:
        raise ValueError("half of the place is not known")
    point = f"Point({numerals.show(place.longitude)} {numerals.show(place.latitude)})"
    return f"<{place.globe}> {point}" if place.globe else point
