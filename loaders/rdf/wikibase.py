"""Wikibase in RDF, truthy and full: statements fold into the entity they are about.

    wd:Q1 p:P2 [ a wikibase:BestRank; ps:P2 "1.9"; psv:P2 v:1 ]      full: the value node says most
    wd:Q1 wdt:P2 "1.9"                                               truthy: used where there is no p:

Of each property the statements of the best rank, and never a deprecated one. Keys are property ids. What a
predicate is for is told by the property that declares it, else by its shape (`.../prop/statement/P2`), so any
base IRI will do. Qualifiers and references are no part of a tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kbdisk.entity import NOVALUE, SOMEVALUE, Date, Entity, Link, Text
from kbdisk.loaders import wikibase
from kbdisk.loaders.kb import Oddities
from kbdisk.loaders.rdf.nodes import Node
from kbdisk.loaders.rdf.truthy import truthy_predicate, truthy_term
from kbdisk.loaders.rdf.vocabulary import LABELS, SKOS, TYPE
from kbdisk.schemas.text.calendars import DAY, GREGORIAN, MIDNIGHT, of_wikibase
from kbdisk.schemas.text.numerals import is_number

__all__ = ["entities", "truthy_predicate", "truthy_term"]

ONTOLOGY = "http://wikiba.se/ontology#"
SCHEMA = "http://schema.org/"
OWL = "http://www.w3.org/2002/07/owl#"
ONTOLEX = "http://www.w3.org/ns/lemon/ontolex#"

THINGS = {ONTOLOGY + name for name in ("Item", "Lexeme", "Form", "Sense", "MediaInfo")}
THINGS |= {ONTOLEX + name for name in ("LexicalEntry", "Form", "LexicalSense")}
PARTS = {ONTOLOGY + "Form", ONTOLOGY + "Sense", ONTOLEX + "Form", ONTOLEX + "LexicalSense"}
PAGES = {SCHEMA + "Dataset", SCHEMA + "Article"}
ABOUT = SCHEMA + "about"
TEXTS = dict.fromkeys(LABELS, "label") | {SCHEMA + "description": "description", SKOS + "altLabel": "alias"}
TELLING = {ONTOLOGY + name for name in ("lemma", "lexicalCategory", "grammaticalFeature")}  # of a lexeme
COUNTS = {SCHEMA + "version", SCHEMA + "dateModified"}  # of the page, not of the thing

DECLARED = {
    ONTOLOGY + "directClaim": "direct",
    ONTOLOGY + "claim": "",
    ONTOLOGY + "statementProperty": "statement",
    ONTOLOGY + "statementValue": "statement/value",
    ONTOLOGY + "novalue": "novalue",
    ONTOLOGY + "directClaimNormalized": "direct-normalized",
    ONTOLOGY + "statementValueNormalized": "statement/value-normalized",
    ONTOLOGY + "qualifier": "qualifier",
    ONTOLOGY + "qualifierValue": "qualifier/value",
    ONTOLOGY + "reference": "reference",
    ONTOLOGY + "referenceValue": "reference/value",
}
_SHAPE = re.compile(r"(.+)/prop/((?:[a-z-]+/)*)(P[1-9]\d*)")
_GENID = "/.well-known/genid/"


def entities(nodes: Mapping[str, Node], language: str, odd: Oddities, whole: bool = True) -> Iterator[Entity]:
    """The items, properties, lexemes and so on, and whatever else is no part of the Wikibase, in order.

    Unless these nodes are the `whole`, the page of a thing may stand elsewhere, and its class makes it one.
    """
    return Wikibase(nodes, language, odd, whole).entities()


def _role_of(predicate: str) -> tuple[str | None, str, str]:
    """What a predicate is for ("" is p: itself, None is nothing of a Wikibase's), its property, its base."""
    found = _SHAPE.fullmatch(predicate)
    return (found[2].rstrip("/"), found[3], found[1]) if found else (None, "", "")


class Wikibase:
    """The nodes of a Wikibase."""

    def __init__(self, nodes: Mapping[str, Node], language: str, odd: Oddities, whole: bool) -> None:
        self.nodes = nodes
        self.language = language
        self.odd = odd
        self.roles: dict[str, tuple[str | None, str]] = {}
        self.base: str | None = None  # of the property ids that need no prefix
        self.instance_of = wikibase.INSTANCE_OF
        self.about: set[str] = set()  # things that have a page in this source
        self.paged = False
        self.things = THINGS if whole else THINGS | {ONTOLOGY + "Property"}
        self._survey()
        self.paged = self.paged and whole

    def _survey(self) -> None:
        for id, node in self.nodes.items():
            if ABOUT in node and SCHEMA + "Dataset" in self._types(node):
                self.paged = True
                self.about.update(value.id for value in node[ABOUT] if isinstance(value, Link))
            elif ONTOLOGY + "propertyType" in node or ONTOLOGY + "directClaim" in node:
                self._declare(id, node)

    def _declare(self, id: str, node: Node) -> None:
        key = id[max(id.rfind("/"), id.rfind("#")) + 1 :]
        for predicate, role in DECLARED.items():
            for value in node.get(predicate, ()):
                if isinstance(value, Link) and _role_of(value.id)[0] is None:
                    self.roles[value.id] = (role, key)
        names = {
            value.text
            for text in TEXTS
            for value in node.get(text, ())
            if isinstance(value, Text) and value.language == "en"
        }
        if wikibase.INSTANCE_OF_LABEL in names:
            self.instance_of = key
        elif key == self.instance_of and any(label in node for label in LABELS) and names:
            self.instance_of = ""

    def role(self, predicate: str) -> tuple[str | None, str]:
        """What a predicate is for, and the key of its property."""
        known = self.roles.get(predicate)
        if known is None:
            role, key, base = _role_of(predicate)
            if role is not None and role in ("", "direct"):
                self.base = self.base or base
            if role is not None and self.base not in (None, base):
                key = f"{base}/{key}"  # a property of another Wikibase
            known = self.roles[predicate] = (role, key)
        return known

    # ------------------------------------------------------------ which nodes are things

    def is_thing(self, id: str, node: Node) -> bool:
        """Whether a node is an entity. Where things have pages, one without page or statements is only mentioned."""
        if id in self.about or any(self.role(predicate)[0] in ("", "direct") for predicate in node):
            return True
        types = self._types(node)
        return bool(types & PARTS) or (not self.paged and bool(types & self.things))

    def is_machinery(self, id: str, node: Node) -> bool:
        """Whether a node is a statement, value, reference, page, declaration, redirect or only mentioned."""
        if (
            id.startswith(ONTOLOGY)
            or self.role(id)[0] is not None
            or self._is_page(node)
            or node.keys() == {OWL + "sameAs"}
        ):
            return True
        restricted = node.get(OWL + "onProperty", ())
        if any(isinstance(value, Link) and self.role(value.id)[0] is not None for value in restricted):
            return True
        told = any(one.startswith(ONTOLOGY) or self.role(one)[0] is not None for one in node)
        return told or any(one.startswith(ONTOLOGY) for one in self._types(node))

    def _is_page(self, node: Node) -> bool:
        return ABOUT in node and bool(self._types(node) & PAGES)

    def _types(self, node: Node) -> set[str]:
        return {value.id for value in node.get(TYPE, ()) if isinstance(value, Link)}

    # ------------------------------------------------------------ folding

    def entities(self) -> Iterator[Entity]:
        """Every thing, folded; and what else the source tells of, by its last words."""
        for id, node in self.nodes.items():
            if self.is_thing(id, node) or not self.is_machinery(id, node):
                yield self._entity(id, node)

    def _entity(self, id: str, node: Node) -> Entity:
        told: dict[str, list[Any]] = {}
        values: dict[str, list[Any]] = {}
        claimed: set[str] = set()
        for predicate, objects in node.items():
            role, key = self.role(predicate)
            if role == "" and (statements := self._nodes(objects)):
                claimed.add(key)
                values[key] = self._stated(statements, key, f"{id} {key}")
            elif role == "direct" and key not in claimed:
                values[key] = [self._plain(value, f"{id} {key}") for value in objects]
            elif role is None and self._tells(predicate):
                told.setdefault(TEXTS.get(predicate) or _word(predicate), []).extend(objects)
        for key in self._novalues(node):
            if key not in claimed:
                values.setdefault(key, []).append(NOVALUE)
        tree = {key: wikibase.one_or_list(held) for key, held in (told | values).items() if held}
        names = told.get("label") or told.get("lemma") or told.get("representation") or []
        return Entity(id, tree, self._classes(values, node), wikibase.best_label(names, self.language))

    def _nodes(self, objects: list[Any]) -> list[Node]:
        return [self.nodes[one.id] for one in objects if isinstance(one, Link) and one.id in self.nodes]

    def _tells(self, predicate: str) -> bool:
        return predicate in TELLING or not (predicate == TYPE or predicate in COUNTS or predicate.startswith(ONTOLOGY))

    def _classes(self, tree: Mapping[str, list[Any]], node: Node) -> tuple[str, ...]:
        given = tuple(value.id for value in tree.get(self.instance_of, ()) if isinstance(value, Link))
        types = [value.id for value in node.get(TYPE, ()) if isinstance(value, Link) and self.role(value.id)[0] is None]
        other = [one for one in types if not one.startswith((ONTOLOGY, ONTOLEX))]
        return tuple(dict.fromkeys((*given, *other))) or tuple(dict.fromkeys(types))

    def _novalues(self, node: Node) -> list[str]:
        return [key for one in self._types(node) if (found := self.role(one))[0] == "novalue" for key in found[1:]]

    # ------------------------------------------------------------ statements and values

    def _stated(self, statements: list[Node], key: str, where: str) -> list[Any]:
        return [value for one in self._best(statements) for value in self._value(one, key, where)]

    def _best(self, statements: list[Node]) -> list[Node]:
        """Those said to be of the best rank; else those of preferred rank, else all that are not deprecated."""
        best = [one for one in statements if ONTOLOGY + "BestRank" in self._types(one)]
        if best:
            return best
        ranks = [
            {value.id for value in one.get(ONTOLOGY + "rank", ()) if isinstance(value, Link)} for one in statements
        ]
        preferred = [one for one, rank in zip(statements, ranks, strict=True) if ONTOLOGY + "PreferredRank" in rank]
        usable = zip(statements, ranks, strict=True)
        return preferred or [one for one, rank in usable if ONTOLOGY + "DeprecatedRank" not in rank]

    def _value(self, statement: Node, key: str, where: str) -> list[Any]:
        """The value of a statement: of its value node where that is known, else the simple one."""
        simple: list[Any] = []
        for predicate, objects in statement.items():
            role, property = self.role(predicate)
            if property != key:
                continue
            if role == "statement/value":
                known = [self._read(one, where) for one in self._nodes(objects)]
                if known and known[0] is not None:
                    return known
            elif role == "statement":
                simple = [self._plain(value, where) for value in objects]
        return simple or [NOVALUE for one in self._novalues(statement) if one == key]

    def _plain(self, value: Any, where: str) -> Any:
        if isinstance(value, Link) and (value.id.startswith("_:") or _GENID in value.id):
            return SOMEVALUE
        if isinstance(value, Date) and value.time == MIDNIGHT:  # of a day, a Wikibase tells no time
            return Date(value.year, value.month, value.day)
        if isinstance(value, str) and wikibase.is_time(value):
            self.odd.note("a date that cannot be, kept as text", f"{where}: {value}")
        return value

    def _read(self, node: Node, where: str) -> Any:
        """What a value node says; None where it is none that we know."""
        told = {
            predicate[len(ONTOLOGY) :]: values[0]
            for predicate, values in node.items()
            if predicate.startswith(ONTOLOGY)
        }
        if "quantityAmount" in told:
            amount = told["quantityAmount"]
            if not is_number(amount):
                return self._odd("a quantity", amount, where)
            return wikibase.quantity(amount, _id(told.get("quantityUnit"), "1"))
        if "geoLatitude" in told and "geoLongitude" in told:
            if not (is_number(told["geoLatitude"]) and is_number(told["geoLongitude"])):
                return self._odd("a place", f"{told['geoLatitude']}, {told['geoLongitude']}", where)
            return wikibase.coordinate(told["geoLatitude"], told["geoLongitude"], _id(told.get("geoGlobe"), ""))
        return self._time(told, where) if "timeValue" in told else None

    def _odd(self, what: str, value: Any, where: str) -> str:
        self.odd.note(f"{what} that cannot be, kept as text", f"{where}: {value}")
        return str(value)

    def _time(self, told: Mapping[str, Any], where: str) -> Any:
        value, precision = told["timeValue"], told.get("timePrecision", DAY)
        calendar, zone = _id(told.get("timeCalendarModel"), GREGORIAN), told.get("timeTimezone", 0)
        try:
            if isinstance(value, Date):
                return of_wikibase(value, precision, calendar, zone)
            return wikibase.time(value, precision, calendar, zone)  # not converted: as it was entered
        except (TypeError, ValueError) as error:
            self.odd.note("a date that cannot be, kept as text", f"{where}: {error}")
            return str(value)


def _id(value: Any, default: str) -> str:
    return value.id if isinstance(value, Link) else default


def _word(predicate: str) -> str:
    word = predicate[max(predicate.rfind("#"), predicate.rfind("/")) + 1 :]
    return word if word and word not in TEXTS.values() and not word.startswith("@") else predicate
