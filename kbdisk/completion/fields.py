"""Fields: the units of filling, each a property or a field of the parts of a list; and why some fields are never filled.

A list without any known part is asked for as one field. Where its length is known, each field of each of its parts is asked for
by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from kbdisk.completion.config import CompletionConfig
from kbdisk.data import Codec
from kbdisk.data.graph import pattern
from kbdisk.data.slots import LeafSpec, Slot, counts_of, places_of
from kbdisk.entity import CLASSES, Entity, Path, show, walk, without_places
from kbdisk.errors import SchemaError
from kbdisk.inspection import is_class
from kbdisk.schemas.composites import Kind
from kbdisk.schemas.composites.base import is_composite
from kbdisk.schemas.composites.listed import COUNT, Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.kinds import Set, Text
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema, names_of
from kbdisk.schemas.text.names import did_you_mean, last_word, no_class


@dataclass(eq=False)
class Field:
    """A unit of filling: a property of a class, or a field of the parts of a list."""

    class_name: str
    path: Path  # EACH for any place of a list
    top: Path  # of the schema's property
    schema_property: Property
    kind: Kind  # of the value at the path
    why_not: str = ""  # why it is never filled
    lead: Path = ()  # the slot, by its pattern, whose presence is that of the whole value
    slots: list[int] = field(default_factory=list)

    @property
    def is_list(self) -> bool:
        """Whether it is filled in two steps, the length first."""
        return isinstance(self.kind, Listed | Mapped)


class Spot(NamedTuple):
    """A slot that may be asked for, and the field that it is a part of."""

    slot: int
    path: Path
    field: Field
    length: int  # of the path of the field's value
    counts: tuple[tuple[Path, int], ...]  # of each list that the slot is in: the path of its length, the slot's place
    lists: tuple[Field | None, ...]  # the fields of these lists

    def field_and_path(self, leaves: Mapping[Path, object]) -> tuple[Field, Path] | None:
        """The field and the path for which it is asked: those of its list, where the length of the list is not known.

        None for a place beyond the end of its list. `leaves` are the known ones of an entity.
        """
        for depth, (count, place) in enumerate(self.counts):
            length = leaves.get(count)
            if length is None:
                of_list = self.lists[depth]
                is_innermost = depth == len(self.counts) - 1 and self.path[-1:] != COUNT
                return (of_list, count[: -len(COUNT)]) if of_list is not None and is_innermost else None
            if isinstance(length, int | float) and place >= length:
                return None
        return self.field, self.path[: self.length]


class OpenPlace(NamedTuple):
    """A place without a complete value: its field, its path, and the slots that lack a value."""

    field: Field
    path: Path
    spots: Sequence[Spot]


@dataclass(frozen=True, eq=False)
class Fields:
    """The fields of a class, those without a known value included, and the slots that may be asked for."""

    schema_class: Class
    fields: Mapping[Path, Field]  # by their patterns
    spots: Sequence[Spot]
    property_of: Mapping[Path, Path]  # of each leaf of the class, by its pattern

    @cached_property
    def order(self) -> Mapping[Path, int]:
        """The place of each property in the schema."""
        return {path: place for place, path in enumerate(self.schema_class.properties)}

    @cached_property
    def sets(self) -> Mapping[Path, Field]:
        """The properties that are sets and may be filled."""
        return {
            path: set_field
            for path, set_field in self.fields.items()
            if not set_field.why_not and isinstance(set_field.kind, Set) and path == set_field.top
        }

    def open_places(
        self, leaves: Mapping[Path, object], above: Collection[Path], only: Path | None = None
    ) -> Iterator[tuple[Path, Sequence[OpenPlace]]]:
        """Each property, in the order of the schema, with its places that an entity's known `leaves` leave open.

        `above` are the paths that some of the leaves are below; `only`: of this property alone.
        """
        for top in self._spots_of_properties if only is None else [only]:
            is_known = top in leaves or top in above
            places = _open_places(self._spots_of_properties[top], leaves) if is_known else self._unknown_properties[top]
            yield top, places

    @cached_property
    def _spots_of_properties(self) -> Mapping[Path, Sequence[Spot]]:
        """The slots of each property, in the order of the schema."""
        by_property: dict[Path, list[Spot]] = {}
        for spot in sorted(self.spots, key=lambda spot: self.order[spot.field.top]):
            by_property.setdefault(spot.field.top, []).append(spot)
        return by_property

    @cached_property
    def _unknown_properties(self) -> Mapping[Path, Sequence[OpenPlace]]:
        """The open places of each property in an entity that has no part of it."""
        return {top: _open_places(spots, {}) for top, spots in self._spots_of_properties.items()}


def _open_places(spots: Iterable[Spot], leaves: Mapping[Path, object]) -> Sequence[OpenPlace]:
    """The places of some slots that may be filled and that the known leaves of an entity leave open."""
    places: dict[Path, tuple[Field, list[Spot]]] = {}
    for spot in spots:
        if spot.path not in leaves and (place := spot.field_and_path(leaves)) is not None and not place[0].why_not:
            place_field, path = place
            places.setdefault(path, (place_field, []))[1].append(spot)
    return [OpenPlace(place_field, path, spots) for path, (place_field, spots) in places.items()]


def fields_of(codec: Codec, config: CompletionConfig) -> dict[str, Fields]:
    """The fields of every class; SchemaError for a path of `only` that no class has."""
    places: dict[str, dict[Path, LeafSpec]] = {name: {} for name in codec.schema.classes}
    for source, place in places_of(codec.schema).items():
        places[source.class_name][source.path] = place
    fields = {
        name: _FieldsOfClass(codec, schema_class, places[name], config).fields()
        for name, schema_class in codec.schema.classes.items()
    }
    refuse_unknown(codec.schema, config.only)
    for path in config.only:
        named = [
            known
            for class_fields in fields.values()
            for property_path, known in class_fields.schema_class.properties.items()
            if overlaps(path, property_path)
        ]
        if path != CLASSES and all(known.role == "ignore" for known in named):
            raise SchemaError(show(path), "ignored by the schema of the model, which has not learnt it.")
    return fields


def refuse_unknown(schema: Schema, only: Collection[Path]) -> None:
    """SchemaError for a path of `only` that no class has."""
    if not only:
        return
    known = {path for schema_class in schema.classes.values() for path in schema_class.properties}
    known |= {source.path for source in places_of(schema)} | {CLASSES}
    for path in only:
        if not any(overlaps(path, known_path) for known_path in known):
            hint = did_you_mean(show(path), set(names_of(schema)))
            raise SchemaError(show(path), f"expected a path of the schema, got one that no class has.{hint}")


def refuse_unknown_classes(schema: Schema, wanted: Iterable[str]) -> None:
    """ConfigError for a class that the schema does not have."""
    names = [name for schema_class in schema.classes.values() for name in (schema_class.name, schema_class.iri) if name]
    for wanted_name in wanted:
        if not any(is_class(name, wanted_name) for name in names):
            raise no_class(wanted_name, schema.classes)


def refuse_excluded(schema: Schema, only: Collection[Path], entities: Iterable[Entity], name: str, way: str) -> None:
    """SchemaError for a path of `only` that the source `name` has and the schema leaves out; `way` says how to include it."""
    known = [path for schema_class in schema.classes.values() for path in schema_class.properties]
    unknown = [path for path in only if not any(overlaps(path, known_path) for known_path in (*known, CLASSES))]
    in_source = {path for entity in entities for path, _ in walk(entity.tree)} if unknown else set()
    for path in unknown:
        if any(overlaps(path, source_path) for source_path in in_source):
            raise SchemaError(show(path), f"{name} has it, and {way}")


class _FieldsOfClass:
    """Makes the fields of one class."""

    def __init__(
        self, codec: Codec, schema_class: Class, places: Mapping[Path, LeafSpec], config: CompletionConfig
    ) -> None:
        """`places` are the leaves of the class in the order of the schema."""
        self.codec, self.schema_class, self.config, self.places = codec, schema_class, config, places
        self.order = {path: number for number, path in enumerate(places)}
        self.by_path: dict[Path, Field] = {}
        self.known: dict[Path, int] = {}  # known values by pattern: those trained on, and those held out of them

    def fields(self) -> Fields:
        numbers = sorted(self.codec.index.tables[self.schema_class.name].slot.values())
        slots = [(n, slot) for n in numbers if (slot := self.codec.slots[n]).role == "value"]
        for _, slot in slots:
            leaf_pattern = pattern(slot.path)
            self.known.setdefault(leaf_pattern, self.codec.held_out.get((self.schema_class.name, leaf_pattern), 0))
            self.known[leaf_pattern] += slot.count
        spots = [self._spot(number, slot) for number, slot in slots if self._is_wanted(slot)]
        for slot_field in self.by_path.values():
            slot_field.why_not = self._why_not(slot_field)
        tops = {slot_field.top for slot_field in self.by_path.values()}
        for path in self.schema_class.properties:
            if path not in tops:
                self._add_field_without_slots(path)
        fillable = [
            spot
            for spot in spots
            if not (spot.field.why_not and all(list_field is None or list_field.why_not for list_field in spot.lists))
        ]
        property_of = {path: place.property for path, place in self.places.items()}
        return Fields(self.schema_class, self.by_path, fillable, property_of)

    def _is_wanted(self, slot: Slot) -> bool:
        """Whether a slot may be asked for: text only where it is named, a computed property never."""
        is_named = self._is_named(slot.path)
        if self.config.only and not is_named:
            return False
        return (slot.kind != "text" or is_named) and self._property_at(slot.path).formula is None

    def _is_named(self, path: Path) -> bool:
        return any(overlaps(named, path) for named in self.config.only)

    def _property_at(self, path: Path) -> Property:
        return self.schema_class.properties[self.places[pattern(path)].property]

    def _spot(self, number: int, slot: Slot) -> Spot:
        leaf_pattern, place = pattern(slot.path), self.places[pattern(slot.path)]
        field_path = place.composite
        if _is_count(self.schema_class.properties[place.property].kind, leaf_pattern[len(place.property) :]):
            field_path = leaf_pattern[:-1]
        slot_field = self._field(field_path, place.property)
        counts = counts_of(slot.path)
        lists = tuple(self._field(pattern(count[: -len(COUNT)]), place.property) for count, _ in counts)
        for above in (slot_field, *lists):
            above.slots.append(number)
            if above.is_list:
                above.lead = (*above.path, *COUNT)
            elif not above.lead or self._leads(leaf_pattern, above):
                above.lead = leaf_pattern
        return Spot(number, slot.path, slot_field, len(field_path), counts, lists)

    def _leads(self, leaf_pattern: Path, above: Field) -> bool:
        """Whether a part comes before the one that leads so far: it is known more often, or the schema names it first."""
        return (self.known[leaf_pattern], -self.order[leaf_pattern]) > (self.known[above.lead], -self.order[above.lead])

    def _field(self, path: Path, top: Path) -> Field:
        if path not in self.by_path:
            known = self.schema_class.properties[top]
            kind = kind_at(known.kind, path[len(top) :])
            self.by_path[path] = Field(self.schema_class.name, path, top, known, kind)
        return self.by_path[path]

    def _why_not(self, slot_field: Field) -> str:
        """Why a field is never filled; empty where it may be."""
        if slot_field.is_list and len(slot_field.slots) == sum(
            self.codec.slots[slot].path[-1:] == COUNT for slot in slot_field.slots
        ):
            has_text = any(isinstance(kind, Text) for kind in slot_field.kind.leaves().values())
            return TEXT if has_text else NOTHING
        known = self.known.get(slot_field.lead, 0)
        if known < self.config.least:
            return too_few_known(known, self.config.least)
        if self._is_named(slot_field.path):
            return ""
        iri = slot_field.schema_property.iri
        if iri is not None and (why_not := why_never(iri)):
            return why_not
        if slot_field.schema_property.unique:
            return UNIQUE
        slots = map(self.codec.slots.__getitem__, slot_field.slots)
        leading = next(slot for slot in slots if pattern(slot.path) == slot_field.lead)
        return NAMES if _is_name(leading) else ""

    def _add_field_without_slots(self, path: Path) -> None:
        """Add the field of a property that no slot can be asked of, with the reason; none for a computed or unnamed property."""
        known = self.schema_class.properties[path]
        is_named = self._is_named(path)
        if known.formula is not None or (self.config.only and not is_named):
            return
        leaves = [place.leaf for place in self.places.values() if place.property == path]
        if known.role == "ignore":
            why_not = IGNORED
        elif any(isinstance(leaf, Text) for leaf in leaves) and not is_named:
            why_not = TEXT
        elif known.role == "given":
            why_not = GIVEN
        else:
            why_not = too_few_known(0, self.config.least)
        self.by_path[path] = Field(self.schema_class.name, path, path, known, known.kind, why_not)


# ---------------------------------------------------------------- why not

CLASS = "a class: written only where --only names rdf:type"
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
    """Why a property is written in no mode unless it is named: it is an axiom, a label or an identifier."""
    vocabulary = next((namespace for namespace in VOCABULARIES if iri.startswith(namespace)), None)
    if vocabulary is not None:
        return LABEL if iri[len(vocabulary) :] in LABELS else AXIOM
    if iri.startswith(WIKIDATA) and last_word(iri) in WIKIDATA_AXIOMS:
        return AXIOM
    return LABEL if iri in NAMING else ""


def too_few_known(known: int, least: int) -> str:
    """The reason of a field with fewer than `least` known values."""
    if known == 0:
        return "no value to learn from"
    return f"{known} known {'value' if known == 1 else 'values'} to learn from, fewer than {least}"


def _is_name(slot: Slot) -> bool:
    """Whether nearly all labels or links of a slot occur once."""
    labels = getattr(slot.codec, "labels", getattr(slot.codec, "targets", None))
    return slot.kind in ("category", "link") and labels is not None and labels.are_names


# ---------------------------------------------------------------- paths and kinds


def kind_at(kind: Kind, within: Path) -> Kind | None:
    """The kind of the value at a path, by its pattern, within a value of a kind; None for a part of a list, which has none."""
    while within:
        leaf = next(
            (
                (path, inner)
                for path, inner in kind.leaves().items()
                if path == within[: len(path)] and (not is_composite(inner) or len(path) <= len(within))
            ),
            None,
        )
        if leaf is None:
            return None
        within, kind = within[len(leaf[0]) :], leaf[1]
    return kind


def _is_count(kind: Kind, within: Path) -> bool:
    """Whether a path within a value is that of a list's length."""
    return within[-len(COUNT) :] == COUNT and isinstance(kind_at(kind, within[: -len(COUNT)]), Listed | Mapped)


def overlaps(path: Path, other: Path) -> bool:
    """Whether two paths are equal, or either begins with the other. Places in lists do not count."""
    names, other_names = without_places(path), without_places(other)
    shorter = min(len(names), len(other_names))
    return names[:shorter] == other_names[:shorter]
