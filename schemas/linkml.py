"""LinkML to a schema, through LinkML's own runtime (the extra `linkml`).

Keys are the slots' names, as LinkML's JSON and YAML have them; their IRIs stand beside. Classes that are abstract or mixins
have no entities; a tree root that but holds lists of the others is left out. Imports are read from files beside it and
from the runtime; none is ever fetched.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

from kbdisk.entity import Path, show
from kbdisk.errors import SchemaError
from kbdisk.schemas.composites import Kind
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.imported import Imported, Notes, Told, composite_of, narrowed, of_datatype, several, widened
from kbdisk.schemas.kinds import Set
from kbdisk.schemas.linkmlview import View
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema

TYPES: dict[str, Told] = {  # those whose datatype does not tell
    **dict.fromkeys(("uriorcurie", "curie", "objectidentifier", "nodeidentifier"), Told("link")),
    "date_or_datetime": Told("date"),
}
UNSAID = (
    "pattern", "structured_pattern", "equals_expression", "equals_number", "minimum_cardinality", "exact_cardinality",
    "none_of", "all_of", "has_member", "all_members", "value_presence", "designates_type", "subproperty_of",
)  # fmt: skip
OF_CLASSES = (
    "rules",
    "classification_rules",
    "unique_keys",
    "any_of",
    "exactly_one_of",
    "none_of",
    "all_of",
    "slot_conditions",
)


def read(path: str | FilePath) -> Imported:
    """The schema that a LinkML file tells; SchemaError where it is no such file."""
    return _Reader(View(FilePath(path))).imported()


class _Reader:
    """Reads one schema."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.notes = Notes()
        self.open: list[str] = []  # the classes of parts that are being read

    def imported(self) -> Imported:
        """All classes that have entities."""
        classes = [
            self._class(one) for one in self.view.classes() if not (one.abstract or one.mixin or self._holds(one))
        ]
        if not classes:
            raise SchemaError(self.view.name, "expected LinkML with classes that are not abstract, got none.")
        label, description = self.view.told()
        schema = Schema({one.name: one for one in classes}, label, description, prefixes=self.view.prefixes(classes))
        return Imported(schema, self.notes.lines)

    def _holds(self, one: Any) -> bool:
        """Whether a class but holds lists of others."""
        slots = self.view.slots(one.name)
        holds = one.tree_root and slots and all(slot.multivalued and self.view.is_class(slot.range) for slot in slots)
        if holds:
            self.notes.add(one.name, "but holds lists of the other classes: left out")
        return bool(holds)

    def _class(self, one: Any) -> Class:
        for key in OF_CLASSES:
            if getattr(one, key, None):
                self.notes.add(one.name, f"{key} is not checked")
        id = next(((self.view.key(slot),) for slot in self.view.slots(one.name) if slot.identifier or slot.key), None)
        self.open = [one.name]
        properties = dict(self._properties(one.name, (one.name,), (), True))
        return Class(
            one.name,
            properties,
            self.view.iri(one),
            id,
            label=one.title or "",
            description=one.description or "",
            superclasses=self.view.superclasses(one.name),
        )

    def _properties(
        self, name: str, where: tuple[str, ...], at: Path, required: bool
    ) -> Iterator[tuple[Path, Property]]:
        """The properties of a class that is there once; `required`: it is certainly there."""
        for slot in self.view.slots(name):
            self.notes.step(self.view.name)
            if slot.identifier or slot.key:
                continue
            path = (*at, self.view.key(slot))
            place = f"{where[0]}.{show(path)}"
            if slot.required and not required:
                self.notes.add(place, "required where the part is there, which is left out")
            must = bool(slot.required and required)
            if self._is_part(slot) and not slot.multivalued:
                yield from self._part(slot, place, path, must)
                continue
            kind = self._kind(slot, place)
            if kind is None:
                self.notes.add(place, "nothing tells the kind of its values: left out")
            else:
                yield path, self._property(slot, kind, must)

    def _property(self, slot: Any, kind: Kind, required: bool) -> Property:
        label, description = slot.title or "", slot.description or ""
        return Property(kind, required=required, iri=self.view.iri(slot), label=label, description=description)

    # ---------------------------------------------------------------- parts

    def _is_part(self, slot: Any) -> bool:
        return self.view.is_class(slot.range) and self.view.is_inlined(slot)

    def _part(self, slot: Any, place: str, path: Path, required: bool) -> Iterator[tuple[Path, Property]]:
        fields = self._fields(slot, place)
        whole = composite_of(fields)
        if whole is not None:
            yield path, self._property(slot, whole, required)
        elif fields:
            self.open.append(slot.range)
            yield from self._properties(slot.range, (place.partition(".")[0],), path, required)
            self.open.pop()

    def _fields(self, slot: Any, place: str) -> dict[str, Kind]:
        """The kinds of the fields of a part."""
        if slot.range in self.open:
            self.notes.add(place, f"{slot.range} within itself: cut here")
            return {}
        self.open.append(slot.range)
        fields: dict[str, Kind] = {}
        for inner in self.view.slots(slot.range):
            self.notes.step(self.view.name)
            kind = self._kind(inner, f"{place}.{self.view.key(inner)}")
            if kind is not None:
                fields[self.view.key(inner)] = kind
        self.open.pop()
        return fields

    def _several_parts(self, slot: Any, place: str) -> Kind | None:
        """A list of parts; or, where they stand under their ids, a map."""
        fields = self._fields(slot, place)
        whole = composite_of(fields)
        if whole is not None:
            return Listed({"": whole})
        must = [
            self.view.key(inner) for inner in self.view.slots(slot.range) if inner.required and not inner.identifier
        ]
        if must and fields:
            self.notes.add(place, f"{', '.join(must)}: that they are required in each part is left out")
        id = self.view.id_of(slot.range)
        if id is not None and not slot.inlined_as_list:
            rest = {key: kind for key, kind in fields.items() if key != id}
            return Mapped(rest) if rest else None
        return Listed(fields) if fields else None

    # ---------------------------------------------------------------- values

    def _kind(self, slot: Any, place: str) -> Kind | None:
        for key in UNSAID:
            if getattr(slot, key, None):
                self.notes.add(place, f"{key} is not checked")
        most = slot.maximum_cardinality
        if self._is_part(slot):
            fields = {} if slot.multivalued else self._fields(slot, place)
            kind = (
                self._several_parts(slot, place)
                if slot.multivalued
                else composite_of(fields) or (Listed(fields, 1) if fields else None)
            )
        else:
            kind = self._told(slot, place).kind()
            kind = several(kind) if kind is not None and slot.multivalued else kind
        if not isinstance(kind, Set | Listed) or most is None:
            return kind
        if isinstance(kind, Listed):
            self.notes.add(place, f"maximum_cardinality {most} is how many are learnt, and not checked")
        return replace(kind, most=most)

    def _told(self, slot: Any, place: str) -> Told:
        """A single value of a slot."""
        choices = [one.range for key in ("any_of", "exactly_one_of") for one in getattr(slot, key) if one.range]
        told = [self._of_range(name, place) for name in choices or [slot.range]]
        word = widened(one.word for one in told)
        found = told[0] if len(told) == 1 else Told(word)
        if len(told) > 1 and any(one.values is not None for one in told):
            found = Told()
        values = [slot.equals_string] if slot.equals_string else slot.equals_string_in
        if values:
            found = narrowed(found, Told(values=tuple(values)))
        unit = self.view.unit(slot)
        return self._bounded(replace(found, unit=unit) if found.word in ("integer", "number") else found, slot, place)

    def _bounded(self, told: Told, slot: Any, place: str) -> Told:
        for key, field in (("minimum_value", "minimum"), ("maximum_value", "maximum")):
            bound = getattr(slot, key)
            if bound is None:
                continue
            if told.word in ("integer", "number") and told.values is None:
                told = narrowed(told, Told(told.word, **{field: self.view.number(bound, place)}))  # type: ignore[arg-type]
            else:
                self.notes.add(place, f"{key} of what is no number is not checked")
        return told

    def _of_range(self, name: str, place: str) -> Told:
        """What a range tells: a class, an enum, a type."""
        if self.view.is_class(name):
            return Told("link", to=name)
        values = self.view.values(name)
        if values is not None:
            if not values:
                self.notes.add(place, f"the values of {name} are told by a query, which is left out")
            return Told(values=values) if values else Told("text")
        return self._of_type(name, place)

    def _of_type(self, name: str, place: str) -> Told:
        found = Told()
        for one in reversed(self.view.types(name)):
            if one.pattern or one.structured_pattern:
                self.notes.add(place, f"the pattern of {one.name} is not checked")
            own = TYPES.get(one.name) or (of_datatype(self.view.expanded(one.uri)) if one.uri else Told())
            found = narrowed(found, replace(own, language=None))
            found = self._bounded(found, one, place)
        return found
