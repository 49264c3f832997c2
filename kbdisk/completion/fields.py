"""Fields: the units of filling, each a property or a field of the parts of a list; and why some fields are never filled.

A list of which nothing is known is asked for as one field. Where its length is known, each field of each of its parts is asked
for by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from kbdisk.completion.choices import Choices
from kbdisk.data import Codec
from kbdisk.data.graph import pattern
from kbdisk.data.slots import Place, Slot, Source, counts_of, places_of
from kbdisk.entity import Path, show, without_places
from kbdisk.errors import SchemaError
from kbdisk.inspection import is_class
from kbdisk.schemas.composites import Composite, Kind
from kbdisk.schemas.composites.listed import COUNT, Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.kinds import Text
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema, names_of
from kbdisk.schemas.text.names import did_you_mean, last_word, no_class


@dataclass(eq=False)
class Field:
    """A place of a class that is filled as one."""

    of: str
    path: Path  # EACH for any place of a list
    top: Path  # of the schema's property
    one: Property
    kind: Kind  # of what stands there
    held: str = ""  # why it is never filled
    lead: Path = ()  # the slot, by its pattern, whose presence is that of the whole
    slots: list[int] = field(default_factory=list)

    @property
    def is_list(self) -> bool:
        """Whether it is filled in two steps, the length first."""
        return isinstance(self.kind, Listed | Mapped)


class Spot(NamedTuple):
    """A slot that may be asked for, and what it is a part of."""

    slot: int
    path: Path
    field: Field
    length: int  # of the path of what is filled as one
    counts: tuple[tuple[Path, int], ...]  # where the lists it stands in say how long they are, and its place in each
    lists: tuple[Field | None, ...]  # these lists' own fields


@dataclass(frozen=True, eq=False)
class Fields:
    """All of a class: its fields, those that nothing is known of included, and the slots that may be asked for."""

    of: Class
    fields: Mapping[Path, Field]  # by their patterns
    spots: Sequence[Spot]
    property: Mapping[Path, Path]  # of each leaf of the class, by its pattern

    @cached_property
    def order(self) -> Mapping[Path, int]:
        """The place of each property in the schema."""
        return {path: place for place, path in enumerate(self.of.properties)}


def fields_of(codec: Codec, choices: Choices) -> dict[str, Fields]:
    """The fields of every class; SchemaError where a path was told that no class has."""
    places = places_of(codec.schema)
    made = {name: _Making(codec, found, places, choices).fields() for name, found in codec.schema.classes.items()}
    refuse_unknown(codec.schema, choices.only)
    for path in choices.only:
        met = [one for each in made.values() for at, one in each.of.properties.items() if meets(path, at)]
        if all(one.role == "ignore" for one in met):
            raise SchemaError(show(path), "ignored by the schema of the model, which has not learnt it.")
    return made


def refuse_unknown(schema: Schema, only: Iterable[Path]) -> None:
    """SchemaError where a path was told that no class has."""
    known = {path for of in schema.classes.values() for path in of.properties} | {one.path for one in places_of(schema)}
    for path in only:
        if not any(meets(path, one) for one in known):
            hint = did_you_mean(show(path), set(names_of(schema)))
            raise SchemaError(show(path), f"expected a path of the schema, got one that no class has.{hint}")


def refuse_unknown_classes(schema: Schema, wanted: Iterable[str]) -> None:
    """ConfigError where a class was told that there is none of."""
    names = [name for one in schema.classes.values() for name in (one.name, one.iri) if name]
    for each in wanted:
        if not any(is_class(name, each) for name in names):
            raise no_class(each, schema.classes)


class _Making:
    """The fields of one class in the making."""

    def __init__(self, codec: Codec, of: Class, places: Mapping[Source, Place], choices: Choices) -> None:
        self.codec, self.of, self.choices = codec, of, choices
        self.places = {source.path: place for source, place in places.items() if source.of == of.name}
        self.found: dict[Path, Field] = {}
        self.known: dict[Path, int] = {}  # values by pattern: those trained on, and those held out of them

    def fields(self) -> Fields:
        numbers = sorted(self.codec.index.tables[self.of.name].slot.values())
        own = [(n, slot) for n in numbers if (slot := self.codec.slots[n]).role == "value"]
        for _, slot in own:
            at = pattern(slot.path)
            self.known.setdefault(at, self.codec.held_out.get((self.of.name, at), 0))
            self.known[at] += slot.count
        spots = [self._spot(number, slot) for number, slot in own if self._is_wanted(slot)]
        for one in self.found.values():
            one.held = self._held(one)
        for path in self.of.properties:  # what nothing can be asked of
            if not any(found.top == path for found in self.found.values()):
                self._lacking(path)
        fine = [spot for spot in spots if not (spot.field.held and all(one is None or one.held for one in spot.lists))]
        property = {path: place.property for path, place in self.places.items()}
        return Fields(self.of, self.found, fine, property)

    def _is_wanted(self, slot: Slot) -> bool:
        """Text where it is named alone; what is computed not at all."""
        named = any(meets(one, slot.path) for one in self.choices.only)
        if self.choices.only and not named:
            return False
        return (slot.kind != "text" or named) and self._property(slot.path).formula is None

    def _property(self, path: Path) -> Property:
        return self.of.properties[self.places[pattern(path)].property]

    def _spot(self, number: int, slot: Slot) -> Spot:
        at, place = pattern(slot.path), self.places[pattern(slot.path)]
        whole = place.whole
        if _is_count(self.of.properties[place.property].kind, at[len(place.property) :]):
            whole = at[:-1]
        own = self._field(whole, place.property)
        counts = counts_of(slot.path)
        lists = tuple(self._field(pattern(count[: -len(COUNT)]), place.property) for count, _ in counts)
        for one in (own, *lists):
            one.slots.append(number)
            if one.is_list:
                one.lead = (*one.path, *COUNT)
            elif not one.lead or self._leads(at, one):
                one.lead = at
        return Spot(number, slot.path, own, len(whole), counts, lists)

    def _leads(self, at: Path, one: Field) -> bool:
        """Whether a part is more than the leading one by now: known more often, or the first that the schema names."""
        order = list(self.places)
        return (self.known[at], -order.index(at)) > (self.known[one.lead], -order.index(one.lead))

    def _field(self, path: Path, property: Path) -> Field:
        if path not in self.found:
            one = self.of.properties[property]
            kind = kind_at(one.kind, path[len(property) :])
            self.found[path] = Field(self.of.name, path, property, one, kind)
        return self.found[path]

    def _held(self, one: Field) -> str:
        """Why a field is never filled, where it is not."""
        if one.is_list and len(one.slots) == sum(self.codec.slots[slot].path[-1:] == COUNT for slot in one.slots):
            return TEXT if any(isinstance(kind, Text) for kind in one.kind.leaves().values()) else NOTHING
        known = self.known.get(one.lead, 0)
        if known < self.choices.least:
            return few(known, self.choices.least)
        if any(meets(path, one.path) for path in self.choices.only):
            return ""
        if one.one.iri is not None and (why := why_never(one.one.iri)):
            return why
        if one.one.unique:
            return UNIQUE
        leading = next(slot for slot in map(self.codec.slots.__getitem__, one.slots) if pattern(slot.path) == one.lead)
        return NAMES if _is_name(leading) else ""

    def _lacking(self, path: Path) -> None:
        """A property that has no slot to be asked for: why."""
        one = self.of.properties[path]
        if one.formula is not None or (self.choices.only and not any(meets(each, path) for each in self.choices.only)):
            return
        found = Field(self.of.name, path, path, one, one.kind)
        under = [leaf for leaf, place in self.places.items() if place.property == path]
        leaves = [self.places[leaf].leaf for leaf in under]
        named = any(meets(each, path) for each in self.choices.only)
        if one.role == "ignore":
            found.held = IGNORED
        elif any(isinstance(leaf, Text) for leaf in leaves) and not named:
            found.held = TEXT
        elif one.role == "given":
            found.held = GIVEN
        else:
            found.held = few(0, self.choices.least)
        self.found[path] = found


# ---------------------------------------------------------------- why not

TEXT = "text: written only where --only names it"
GIVEN = "given: read, but never predicted"
IGNORED = "ignored by the schema"
UNIQUE = "unique: written only where --only names it"
NAMES = "hardly a value comes again, as of an identifier: written only where --only names it"
AXIOM = "an axiom of the ontology: written only where --only names it"
LABEL = "a label or an identifier: written only where --only names it"
NOTHING = "nothing of its parts can be predicted"


VOCABULARIES = ("http://www.w3.org/2000/01/rdf-schema#", "http://www.w3.org/2002/07/owl#", "http://www.w3.org/ns/shacl#", "http://www.w3.org/2004/02/skos/core#")  # fmt: skip
WIKIDATA = "http://www.wikidata.org/prop/"
# subclass of, subproperty of, equivalent class, equivalent property, exact match, disjoint union of
WIKIDATA_AXIOMS = frozenset(["P279", "P1647", "P1709", "P1628", "P2888", "P2738"])
LABELS = {"label", "prefLabel", "altLabel", "hiddenLabel", "notation", "comment", "note", "definition", "example", "scopeNote", "changeNote", "editorialNote", "historyNote"}  # fmt: skip
NAMING = frozenset(
    [
        *(f"{scheme}://schema.org/{name}" for scheme in ("http", "https") for name in ("name", "alternateName", "identifier", "description")),
        *(f"http://purl.org/dc/{part}/{name}" for part in ("terms", "elements/1.1") for name in ("title", "identifier", "description", "alternative")),
        *(f"http://xmlns.com/foaf/0.1/{name}" for name in ("name", "givenName", "familyName", "nick")),
    ]
)  # fmt: skip


def why_never(iri: str) -> str:
    """Why a property is written in no mode unless it is named: it states what classes are, or what things are called."""
    vocabulary = next((one for one in VOCABULARIES if iri.startswith(one)), None)
    if vocabulary is not None:
        return LABEL if iri[len(vocabulary) :] in LABELS else AXIOM
    if iri.startswith(WIKIDATA) and last_word(iri) in WIKIDATA_AXIOMS:
        return AXIOM
    return LABEL if iri in NAMING else ""


def few(known: int, least: int) -> str:
    """That too few values are known."""
    if known == 0:
        return "no value to learn from"
    return f"{known} known {'value' if known == 1 else 'values'} to learn from, fewer than {least}"


def _is_name(slot: Slot) -> bool:
    """Whether labels or links are met but once, nearly all."""
    labels = getattr(slot.codec, "labels", getattr(slot.codec, "targets", None))
    return slot.kind in ("category", "link") and labels is not None and labels.are_names


# ---------------------------------------------------------------- paths and kinds


def kind_at(kind: Kind, within: Path) -> Kind | None:
    """What stands at a path, by its pattern, within a value of a kind; None for a part of a list, which has no kind."""
    while within:
        found = next(
            (
                (path, inner)
                for path, inner in kind.leaves().items()
                if path == within[: len(path)] and (not isinstance(inner, Composite) or len(path) <= len(within))
            ),
            None,
        )
        if found is None:
            return None
        within, kind = within[len(found[0]) :], found[1]
    return kind


def _is_count(kind: Kind, within: Path) -> bool:
    """Whether a path within a value is that of a list's length."""
    return within[-len(COUNT) :] == COUNT and isinstance(kind_at(kind, within[: -len(COUNT)]), Listed | Mapped)


def meets(told: Path, path: Path) -> bool:
    """Whether a path that a user told leads to this one, or further into it."""
    one, other = without_places(told), without_places(path)
    least = min(len(one), len(other))
    return one[:least] == other[:least]
