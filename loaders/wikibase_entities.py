"""One entity of a Wikibase's JSON as an entity of ours.

Keys are property ids; of each property the values of the best rank, and never a deprecated one. Labels,
descriptions and aliases stand in all their languages under `label`, `description`, `alias`. The forms and
senses of a lexeme are entities of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kbdisk.entity import NOVALUE, SOMEVALUE, Coordinate, Date, Entity, Link, Text
from kbdisk.loaders import wikibase
from kbdisk.loaders.kb import Oddities
from kbdisk.schemas.text import numerals
from kbdisk.schemas.text.calendars import GREGORIAN

PREFIXES = {"item": "Q", "property": "P", "lexeme": "L"}  # of ids, in data so old that they have numbers alone
TEXTS = {
    "labels": "label", "lemmas": "lemma", "representations": "representation", "glosses": "definition",
    "descriptions": "description", "aliases": "alias",
}  # fmt: skip
NAMES = ("label", "lemma", "representation", "definition")
LINKS = {"language": "language", "lexicalCategory": "lexicalCategory", "grammaticalFeatures": "grammaticalFeature"}
PARTS = {"forms": ("lexicalForm", "form"), "senses": ("sense", "sense")}


class Reader:
    """Turns plain JSON into entities. Remembers which property says what a thing is an instance of."""

    def __init__(self, language: str, odd: Oddities) -> None:
        self.language = language
        self.odd = odd
        self.instance_of = wikibase.INSTANCE_OF

    def entities(self, data: Any, where: str) -> list[Entity]:
        """The entity of one JSON object (none where it says `missing`), and a lexeme's forms and senses."""
        if not isinstance(data, dict):
            raise ValueError(f"expected an entity, got {type(data).__name__}")
        if "missing" in data:
            return []
        kind = data.get("type")
        if not isinstance(data.get("id"), str) or not isinstance(kind, str):
            raise ValueError("expected an entity with an id and a type, got an object without")
        return list(self._with_parts(data, kind, where))

    def _with_parts(self, data: dict[str, Any], kind: str, where: str) -> Iterator[Entity]:
        tree = dict(self._texts(data))
        for name, key in LINKS.items():
            if links := [Link(str(id)) for id in _listed(data.get(name))]:
                tree[key] = wikibase.one_or_list(links)
        parts = [(part, kind) for name, (_, kind) in PARTS.items() for part in _listed(data.get(name))]
        for name, (key, _) in PARTS.items():
            if links := [Link(_checked(part)["id"]) for part in _listed(data.get(name))]:
                tree[key] = wikibase.one_or_list(links)
        label = next((_name(tree[key], self.language) for key in NAMES if key in tree), "")
        if kind == "property":
            self._learn(data["id"], tree)
        claims = data.get("claims") or data.get("statements") or {}  # an empty object is [] in PHP
        tree.update(self._claims(claims, data["id"], where))
        yield Entity(data["id"], tree, self._classes(tree, kind), label)
        for part, name in parts:
            yield from self._with_parts(part, name, where)

    def _texts(self, data: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        for name, key in TEXTS.items():
            held = data.get(name) or {}
            if not isinstance(held, dict):
                raise ValueError(f"expected {name} by language, got {type(held).__name__}")
            texts = [
                Text(one["value"], one["language"]) for some in held.values() for one in _listed(some) if _is_text(one)
            ]
            if texts:
                yield key, wikibase.one_or_list(texts)

    def _learn(self, id: str, tree: dict[str, Any]) -> None:
        """A property called "instance of" is the one that gives classes; P31 called otherwise is not."""
        names = {text.text for key in ("label", "alias") for text in _listed(tree.get(key)) if text.language == "en"}
        if wikibase.INSTANCE_OF_LABEL in names:
            self.instance_of = id
        elif id == self.instance_of and _name(tree.get("label", []), "en"):
            self.instance_of = ""

    def _classes(self, tree: dict[str, Any], kind: str) -> tuple[str, ...]:
        values = _listed(tree.get(self.instance_of)) if self.instance_of else []
        return tuple(value.id for value in values if isinstance(value, Link)) or (kind,)

    # ------------------------------------------------------------ statements

    def _claims(self, claims: Any, id: str, where: str) -> Iterator[tuple[str, Any]]:
        if not isinstance(claims, dict):
            raise ValueError(f"expected claims by property, got {type(claims).__name__}")
        for property, statements in claims.items():
            values = [self._value(one.get("mainsnak"), f"{where}, {id} {property}") for one in _best(statements)]
            if values:
                yield property, wikibase.one_or_list(values)

    def _value(self, snak: Any, where: str) -> Any:
        kind = snak.get("snaktype") if isinstance(snak, dict) else None
        if kind == "somevalue":
            return SOMEVALUE
        if kind == "novalue":
            return NOVALUE
        try:
            held = snak["datavalue"]
            type, value = held["type"], held.get("value")
        except (KeyError, TypeError):
            raise ValueError(f"expected a value at {where.rpartition(', ')[2]}, got none") from None
        if not isinstance(type, str):
            raise ValueError(f"expected the name of a type at {where.rpartition(', ')[2]}, got another value")
        read = VALUES.get(type)
        try:
            return read(value) if read else _spelt(value)
        except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
            what = str(error) if isinstance(error, ValueError) else "it lacks a part"
            self.odd.note(f"a {type} that cannot be, kept as text", f"{where}: {what}")
            return _spelt(value)


def _best(statements: Any) -> list[dict[str, Any]]:
    """Those of preferred rank, else those of normal rank; never the deprecated."""
    ranked = [one for one in _listed(statements) if isinstance(one, dict)]
    preferred = [one for one in ranked if one.get("rank") == "preferred"]
    return preferred or [one for one in ranked if one.get("rank", "normal") == "normal"]


def _entity_id(value: dict[str, Any]) -> Link:
    id = value.get("id")
    if id is None:
        id = PREFIXES[value["entity-type"]] + str(int(value["numeric-id"]))
    return Link(_text("id", id))


def _time(value: dict[str, Any]) -> Date:
    calendar = _text("calendarmodel", value.get("calendarmodel", GREGORIAN))
    return wikibase.time(_text("time", value["time"]), value["precision"], calendar, value.get("timezone", 0))


def _quantity(value: dict[str, Any]) -> Any:
    return wikibase.quantity(numerals.number(_text("amount", value["amount"])), _text("unit", value["unit"]))


def _coordinate(value: dict[str, Any]) -> Coordinate:
    latitude, longitude = value["latitude"], value["longitude"]
    if not all(isinstance(one, int | float) and not isinstance(one, bool) for one in (latitude, longitude)):
        raise ValueError(f"expected degrees, got {latitude!r} and {longitude!r}")
    return wikibase.coordinate(latitude, longitude, _text("globe", value.get("globe") or ""))


VALUES: dict[str, Callable[[Any], Any]] = {
    "wikibase-entityid": _entity_id,
    "time": _time,
    "quantity": _quantity,
    "globecoordinate": _coordinate,
    "monolingualtext": lambda value: Text(_text("text", value["text"]), _text("language", value["language"])),
}


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected text as {name}, got {type(value).__name__}")
    return value


def _spelt(value: Any) -> str:
    """A value as text: what it says at its heart, where it is made of parts."""
    if isinstance(value, dict):
        heart = next((value[key] for key in ("time", "amount", "text", "id") if isinstance(value.get(key), str)), None)
        return heart if heart is not None else " ".join(f"{key}={one}" for key, one in value.items())
    return value if isinstance(value, str) else str(value)


def _name(texts: Any, language: str) -> str:
    return wikibase.best_label(_listed(texts), language)


def _listed(value: Any) -> list[Any]:
    """What may stand alone or be missing, as a list. (Nothing is [] or {} in the JSON of PHP.)"""
    return value if isinstance(value, list) else [value] if value else []


def _is_text(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("value"), str) and isinstance(value.get("language"), str)


def _checked(part: Any) -> dict[str, Any]:
    if not isinstance(part, dict) or not isinstance(part.get("id"), str):
        raise ValueError("expected a form or a sense with an id")
    return part
