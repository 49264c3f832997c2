"""Import of LinkML schemas, through LinkML's own runtime (the extra `linkml`).

Keys are the names of slots, as in LinkML's JSON and YAML; their IRIs are kept beside them. Abstract classes and mixins have no
entities. A tree root that only has lists of other classes is left out. Imports are read from files beside the schema and from
the runtime, and never downloaded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

import yaml

from kbdisk.entity import Path, show
from kbdisk.errors import SchemaError
from kbdisk.schemas.composites import Kind, composite_of
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.importers.common import (
    NO_KIND,
    Imported,
    Importer,
    Notes,
    ValueType,
    narrowed,
    of_datatype,
    several,
    widened,
)
from kbdisk.schemas.kinds import Set
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema

KEYS = re.compile(rb"^(classes|slots|enums|types)\s*:", re.MULTILINE)
TYPE_OF_NAME: dict[str, ValueType] = {  # of types whose datatype says too little
    **dict.fromkeys(("uriorcurie", "curie", "objectidentifier", "nodeidentifier"), ValueType("link")),
    "date_or_datetime": ValueType("date"),
}
UNCHECKED_SLOT_KEYS = (
    "pattern", "structured_pattern", "equals_expression", "equals_number", "minimum_cardinality", "exact_cardinality",
    "none_of", "all_of", "has_member", "all_members", "value_presence", "designates_type", "subproperty_of",
)  # fmt: skip
UNCHECKED_CLASS_KEYS = (
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
    """Import a LinkML file; SchemaError where it is none."""
    return _Reader(LinkMLView(FilePath(path))).imported()


def is_linkml(data: bytes) -> bool:
    """Whether a file has one of the keys of a LinkML schema."""
    return KEYS.search(data) is not None


LINKML = Importer("LinkML", read, is_linkml)  # the entry point `linkml` in the group `kbdisk.importers`


class _Reader:
    """Reads one LinkML schema."""

    def __init__(self, view: LinkMLView) -> None:
        self.view = view
        self.notes = Notes()
        self.open: list[str] = []  # the classes of parts that are being read

    def imported(self) -> Imported:
        """All classes that have entities."""
        classes = [
            self._class(class_)
            for class_ in self.view.classes()
            if not (class_.abstract or class_.mixin or self._is_container(class_))
        ]
        if not classes:
            raise SchemaError(self.view.name, "expected LinkML with classes that are not abstract, got none.")
        label, description = self.view.label_and_description()
        schema = Schema(
            {class_.name: class_ for class_ in classes}, label, description, prefixes=self.view.prefixes(classes)
        )
        return Imported(schema, self.notes.lines)

    def _is_container(self, class_: Any) -> bool:
        """Whether a class only has lists of others."""
        slots = self.view.slots(class_.name)
        holds = (
            class_.tree_root and slots and all(slot.multivalued and self.view.is_class(slot.range) for slot in slots)
        )
        if holds:
            self.notes.add(class_.name, "but holds lists of the other classes: left out")
        return bool(holds)

    def _class(self, class_: Any) -> Class:
        for key in UNCHECKED_CLASS_KEYS:
            if getattr(class_, key, None):
                self.notes.add(class_.name, f"{key} is not checked")
        id = next(
            ((self.view.key(slot),) for slot in self.view.slots(class_.name) if slot.identifier or slot.key), None
        )
        self.open = [class_.name]
        properties = dict(self._properties(class_.name, (class_.name,), (), True))
        return Class(
            class_.name,
            properties,
            self.view.iri(class_),
            id,
            label=class_.title or "",
            description=class_.description or "",
            superclasses=self.view.superclasses(class_.name),
        )

    def _properties(
        self, name: str, where: tuple[str, ...], at: Path, required: bool
    ) -> Iterator[tuple[Path, Property]]:
        """The properties of a class or a part; `required`: whether the part is certainly there."""
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
                self.notes.add(place, NO_KIND)
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
        composite = composite_of(fields)
        if composite is not None:
            yield path, self._property(slot, composite, required)
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
        """The list of several parts; a map where their ids are the keys."""
        fields = self._fields(slot, place)
        composite = composite_of(fields)
        if composite is not None:
            return Listed({"": composite})
        must = [
            self.view.key(inner) for inner in self.view.slots(slot.range) if inner.required and not inner.identifier
        ]
        if must and fields:
            self.notes.add(place, f"{', '.join(must)}: that they are required in each part is left out")
        id = self.view.id_of(slot.range)
        if id is not None and not slot.inlined_as_list:
            others = {key: kind for key, kind in fields.items() if key != id}
            return Mapped(others) if others else None
        return Listed(fields) if fields else None

    # ---------------------------------------------------------------- values

    def _kind(self, slot: Any, place: str) -> Kind | None:
        for key in UNCHECKED_SLOT_KEYS:
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
            kind = self._value_type(slot, place).kind()
            kind = several(kind) if kind is not None and slot.multivalued else kind
        if not isinstance(kind, Set | Listed) or most is None:
            return kind
        if isinstance(kind, Listed):
            self.notes.add(place, f"maximum_cardinality {most} is how many are learnt, and not checked")
        return replace(kind, most=most)

    def _value_type(self, slot: Any, place: str) -> ValueType:
        """The type of a single value of a slot."""
        choices = [
            choice.range for key in ("any_of", "exactly_one_of") for choice in getattr(slot, key) if choice.range
        ]
        types = [self._of_range(name, place) for name in choices or [slot.range]]
        if len(types) == 1:
            value_type = types[0]
        elif any(type_.values is not None for type_ in types):
            value_type = ValueType()
        else:
            value_type = ValueType(widened(type_.type for type_ in types))
        values = [slot.equals_string] if slot.equals_string else slot.equals_string_in
        if values:
            value_type = narrowed(value_type, ValueType(values=tuple(values)))
        if value_type.type in ("integer", "number"):
            value_type = replace(value_type, unit=self.view.unit(slot))
        return self._bounded(value_type, slot, place)

    def _bounded(self, value_type: ValueType, slot: Any, place: str) -> ValueType:
        for key, field in (("minimum_value", "minimum"), ("maximum_value", "maximum")):
            bound = getattr(slot, key)
            if bound is None:
                continue
            if value_type.type in ("integer", "number") and value_type.values is None:
                value_type = narrowed(value_type, ValueType(value_type.type, **{field: self.view.number(bound, place)}))  # type: ignore[arg-type]
            else:
                self.notes.add(place, f"{key} of what is no number is not checked")
        return value_type

    def _of_range(self, name: str, place: str) -> ValueType:
        """The type of a range, which is a class, an enum or a type."""
        if self.view.is_class(name):
            return ValueType("link", to=name)
        values = self.view.values(name)
        if values is not None:
            if not values:
                self.notes.add(place, f"the values of {name} come from a query, which is left out")
            return ValueType(values=values) if values else ValueType("text")
        return self._of_type(name, place)

    def _of_type(self, name: str, place: str) -> ValueType:
        value_type = ValueType()
        for element in reversed(self.view.types(name)):
            if element.pattern or element.structured_pattern:
                self.notes.add(place, f"the pattern of {element.name} is not checked")
            of_element = TYPE_OF_NAME.get(element.name) or (
                of_datatype(self.view.expanded(element.uri)) if element.uri else ValueType()
            )
            value_type = narrowed(value_type, replace(of_element, language=None))
            value_type = self._bounded(value_type, element, place)
        return value_type


# ---------------------------------------------------------------- the runtime's view of a schema


MISSING_RUNTIME = "reading LinkML needs its runtime. Run: pip install 'kbdisk[linkml]'"
MAX_CHAIN = 100  # elements above one another; the runtime's time grows with the square of them
# the exceptions of the runtime for a file with errors
RUNTIME_ERRORS = (ValueError, TypeError, KeyError, AttributeError, OSError, RecursionError, yaml.YAMLError)


class LinkMLView:
    """A LinkML file and its imports, through the runtime's SchemaView, with SchemaErrors and without any download."""

    def __init__(self, path: FilePath) -> None:
        self.name = str(path)
        self._check(path)
        try:
            from linkml_runtime.utils.schemaview import SchemaView
        except ImportError:
            raise SchemaError(self.name, MISSING_RUNTIME) from None

        class Local(SchemaView):  # type: ignore[misc]
            """A SchemaView that imports only files, and schemas of the runtime."""

            def load_import(view, imp: str, from_schema: Any = None) -> Any:  # noqa: N805
                if ":" in str(imp) and not str(imp).startswith("linkml:"):
                    raise SchemaError(self.name, f"imports: {imp!r} is no file beside it, and none is ever fetched.")
                return super().load_import(imp, from_schema)

        try:
            self.view = Local(str(path))
            self.view.imports_closure()
            self._slots = {name: list(self.view.class_induced_slots(name)) for name in self.view.all_classes()}
            self._classes, self._enums, self._types = (
                dict(elements()) for elements in (self.view.all_classes, self.view.all_enums, self.view.all_types)
            )
        except RUNTIME_ERRORS as error:
            raise SchemaError(self.name, f"expected LinkML, but {_first_line(error)}.") from None

    def _check(self, path: FilePath) -> None:
        """Check the YAML itself, so that its errors have a line."""
        try:
            tree = yaml.safe_load(path.read_bytes())
        except OSError as error:
            raise SchemaError(self.name, f"cannot be read: {error.strerror}.") from None
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            where = self.name if mark is None else f"{self.name}:{mark.line + 1}"
            raise SchemaError(
                where, f"expected YAML, but {getattr(error, 'problem', None) or _first_line(error)}."
            ) from None
        except (ValueError, RecursionError) as error:
            raise SchemaError(self.name, f"expected YAML, but {_first_line(error)}.") from None
        if not isinstance(tree, dict) or not isinstance(tree.get("classes"), dict):
            raise SchemaError(self.name, "expected LinkML with classes, got none.")
        for kind in ("classes", "slots", "types"):
            if _has_long_chain(tree.get(kind)):
                raise SchemaError(self.name, f"{kind}: expected at most {MAX_CHAIN} above one another, got more.")

    def label_and_description(self) -> tuple[str, str]:
        """The label and description of the schema."""
        return self.view.schema.title or "", self.view.schema.description or ""

    def classes(self) -> list[Any]:
        """All classes, in order."""
        return list(self._classes.values())

    def slots(self, name: str) -> list[Any]:
        """The induced slots of a class, with those of its ancestors and their usage in it, by rank."""
        return sorted(self._slots[name], key=lambda slot: float("inf") if slot.rank is None else slot.rank)

    def superclasses(self, name: str) -> tuple[str, ...]:
        """The classes above a class by `is_a` and as mixins, the nearest first."""
        return tuple(str(above) for above in self.view.class_ancestors(name, reflexive=False))

    def is_class(self, name: str | None) -> bool:
        """Whether a range is a class."""
        return name in self._classes

    def is_inlined(self, slot: Any) -> bool:
        """Whether the value is nested, instead of a reference by its id."""
        return bool(self.view.is_inlined(slot))

    def id_of(self, name: str) -> str | None:
        """The key of the id of a class."""
        return next((self.key(slot) for slot in self._slots[name] if slot.identifier or slot.key), None)

    def key(self, slot: Any) -> str:
        """The key of a slot in data."""
        return str(slot.alias or slot.name).replace(" ", "_")

    def values(self, name: str | None) -> tuple[str, ...] | None:
        """The values of an enum; None where the name is none."""
        enum = self._enums.get(name)
        return None if enum is None else tuple(map(str, enum.permissible_values))

    def types(self, name: str | None) -> list[Any]:
        """A type and the types from which it is derived."""
        chain: list[Any] = []
        while name in self._types and self._types[name] not in chain:
            chain.append(self._types[name])
            name = self._types[name].typeof
        return chain

    def unit(self, slot: Any) -> str | None:
        """The unit of a slot."""
        unit = slot.unit
        names = (unit.ucum_code, unit.symbol, unit.exact_mappings and unit.exact_mappings[0]) if unit else ()
        return next((str(name) for name in names if name), None)

    def number(self, bound: Any, place: str) -> float:
        """A bound; SchemaError where it is no number."""
        if isinstance(bound, bool) or not isinstance(bound, int | float) or not math.isfinite(bound):
            raise SchemaError(self.name, f"{place}: expected a number as a bound, got {bound!r}.")
        return bound

    def iri(self, element: Any) -> str | None:
        """The IRI of a class or a slot."""
        try:
            return str(self.view.get_uri(element, expand=True))
        except RUNTIME_ERRORS:
            return None  # its prefix is not declared

    def expanded(self, name: str) -> str:
        """A prefixed name in full."""
        try:
            return str(self.view.expand_curie(name))
        except RUNTIME_ERRORS:
            return name

    def prefixes(self, classes: Iterable[Class]) -> dict[str, str]:
        """The prefixes of the IRIs in use."""
        used = [class_.iri for class_ in classes] + [
            property_.iri for class_ in classes for property_ in class_.properties.values()
        ]
        namespaces = {str(name): str(prefix.prefix_reference) for name, prefix in self.view.schema.prefixes.items()}
        return {name: space for name, space in namespaces.items() if any(iri and iri.startswith(space) for iri in used)}


def _has_long_chain(named: Any) -> bool:
    """Whether more than MAX_CHAIN elements are above one another."""
    waiting = (
        {name: _above(element) & named.keys() for name, element in named.items()} if isinstance(named, dict) else {}
    )
    for _ in range(MAX_CHAIN):
        waiting = {name: above for name, above in waiting.items() if any(element in waiting for element in above)}
    return len(waiting) > MAX_CHAIN


def _above(element: Any) -> set[Any]:
    keys = element if isinstance(element, dict) else {}
    mixins = keys.get("mixins")
    return {
        name
        for name in (keys.get("is_a"), keys.get("typeof"), *(mixins if isinstance(mixins, list) else ()))
        if isinstance(name, str)
    }


def _first_line(error: BaseException) -> str:
    """The first line of an error's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(".")
