"""JSON Schema to a schema, and the JSON Schema of the data that fits a schema of ours.

    imported = jsonschema.read("phone.schema.json")      jsonschema.export(schema)

Drafts 7, 2019-09 and 2020-12 (and what of draft 4 is still met). An object within an object has dotted paths; one whose
keys are not told is a map, one in an array a part of a list. Null fits everywhere: it is a gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path as FilePath
from typing import Any

from kbdisk.entity import Path, show
from kbdisk.schemas.composites import Kind
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.imported import Imported, Notes, Told, composite_of, several
from kbdisk.schemas.jsonexport import export
from kbdisk.schemas.jsonnodes import Document, Node
from kbdisk.schemas.leaf import Category
from kbdisk.schemas.schema import Class, Property, Schema

__all__ = ["export", "read"]

UNSAID = (
    "pattern", "not", "if", "then", "else", "dependencies", "dependentRequired", "dependentSchemas", "minProperties",
    "maxProperties", "contains", "minContains", "maxContains", "unevaluatedProperties", "unevaluatedItems", "uniqueItems",
    "minItems", "contentEncoding", "$dynamicRef", "$recursiveRef", "prefixItems", "additionalItems",
)  # fmt: skip
HUGE = 1e300  # bounds beyond are none
DATES = ("date", "date-time")
SCALARS = {"boolean", "integer", "number", "string"}


def read(path: str | FilePath) -> Imported:
    """The schema that a JSON Schema file tells; SchemaError where it is no such file."""
    notes = Notes()
    return _Reader(Document(FilePath(path), notes), notes).imported()


class _Reader:
    """Reads one file."""

    def __init__(self, document: Document, notes: Notes) -> None:
        self.document = document
        self.notes = notes

    def imported(self) -> Imported:
        """One class, or (where the file is but definitions) one for each definition of an object."""
        root = self.document.node(self.document.root, "")
        while root.types() == {"array"}:
            root = self._inner(root, "items")
        if "properties" in root.told:
            classes = [self._class(root, _name(root.told.get("title", "")))]
        else:
            classes = list(self._definitions(root))
        if not classes:
            raise self.document.wrong("", "expected a schema of objects with properties, got none.")
        return Imported(Schema({one.name: one for one in classes}), self.notes.lines)

    def _definitions(self, root: Node) -> Iterator[Class]:
        for key in ("$defs", "definitions"):
            told = root.told.get(key, {})
            if not isinstance(told, dict):
                raise self.document.wrong(key, f"expected schemas by their names, got {told!r:.60}.")
            for name, raw in told.items():
                node = self.document.node(raw, f"{key}.{name}")
                if "properties" in node.told:
                    yield self._class(node, name)

    def _class(self, node: Node, name: str) -> Class:
        properties = dict(self._properties(node, (), True))
        title = node.told.get("title", "")
        label = title if title != name else ""
        return Class(name, properties, label=label, description=node.told.get("description", ""))

    # ---------------------------------------------------------------- objects

    def _properties(self, of: Node, at: Path, required: bool) -> Iterator[tuple[Path, Property]]:
        """The properties of an object that is there once; `required`: it is certainly there."""
        names = of.told.get("required", ())
        self._note_object(of, at)
        for key in names:
            if key not in of.told["properties"]:
                self.notes.add(show((*at, key)), "required, but of no told kind: left out")
        for key in of.told["properties"]:
            path = (*at, key)
            node = self._inner(of, "properties", key)
            if key in names and not required:
                self.notes.add(show(path), "required where the part is there, which is left out")
            must = key in names and required
            if node.told.get("enum") == []:
                self.notes.add(show(path), "no value fits: left out")
            elif node.types() == {"object"} and "properties" in node.told and self._whole(node, path) is None:
                yield from self._of_part(node, path, must)
            else:
                kind = self._kind(node, path)
                if kind is None:
                    self.notes.add(show(path), "nothing tells the kind of its values: left out")
                else:
                    told = {name: node.told.get(name, "") for name in ("title", "description")}
                    yield path, Property(kind, required=must, label=told["title"], description=told["description"])

    def _of_part(self, node: Node, path: Path, required: bool) -> Iterator[tuple[Path, Property]]:
        self._note_unsaid(node, path)
        if required and not node.told.get("required"):
            self.notes.add(show(path), "that the part must be there is left out")
        yield from self._properties(node, path, required)

    def _note_object(self, node: Node, path: Path) -> None:
        extra = node.told.get("additionalProperties")
        if extra is False:
            self.notes.add(
                show(path), "additionalProperties: other properties are unknown to the schema, but no misfits"
            )
        elif isinstance(extra, dict) or "patternProperties" in node.told:
            self.notes.add(show(path), "other properties beside those told are left out")

    def _fields(self, of: Node, path: Path) -> dict[str, Kind]:
        """The kinds of the fields of a part in a list or a map."""
        found = {}
        for key in of.told["properties"]:
            kind = self._kind(self._inner(of, "properties", key), (*path, key))
            if kind is None:
                self.notes.add(show((*path, key)), "nothing tells the kind of its values: left out")
            else:
                found[key] = kind
        if of.told.get("required"):
            self.notes.add(show(path), f"{', '.join(of.told['required'])}: that they are required is left out")
        return found

    def _whole(self, node: Node, path: Path) -> Kind | None:
        """The quantity, coordinate or date that an object is as a whole."""
        if len(node.told["properties"]) > 3:
            return None
        told, self.notes.lines = self.notes.lines, []
        kinds = {key: self._kind(self._inner(node, "properties", key), path) for key in node.told["properties"]}
        self.notes.lines = told
        return None if None in kinds.values() else composite_of(kinds)

    def _object(self, node: Node, path: Path) -> Kind | None:
        if "properties" in node.told:
            whole = self._whole(node, path)
            return whole or (Listed(fields, 1) if (fields := self._fields(node, path)) else None)
        entries = [self._inner(node, "patternProperties", key) for key in node.told.get("patternProperties", {})]
        if isinstance(node.told.get("additionalProperties"), dict):
            entries.append(self._inner(node, "additionalProperties"))
        if not entries:
            return None
        if len(entries) > 1:
            self.notes.add(show(path), "which of its kinds of entries a key has is left out: the first counts")
        names = self._inner(node, "propertyNames").told if "propertyNames" in node.told else {}
        key = Category(tuple(names["enum"]), closed=True) if names.get("enum") else Category()
        if set(names) - {"enum", "type"}:
            self.notes.add(show(path), "propertyNames is not checked")
        return self._map(entries[0], path, key)

    def _map(self, entry: Node, path: Path, key: Category) -> Mapped | None:
        if entry.types() == {"object"} and "properties" in entry.told and self._whole(entry, path) is None:
            fields = self._fields(entry, path)
        else:
            kind = self._kind(entry, path)
            fields = {} if kind is None else {"": kind}
        return Mapped(fields, key) if fields else None

    # ---------------------------------------------------------------- values

    def _kind(self, node: Node, path: Path) -> Kind | None:
        """The kind of a value; None where nothing tells it."""
        self._note_unsaid(node, path)
        types = node.types()
        if "enum" in node.told and "object" not in types and "array" not in types:
            return self._listed(node, path)
        if types == {"object"}:
            return self._object(node, path)
        if "array" in types and len(types) <= 2:
            items = self._array(node, path)
            one = (
                self._kind(replace(node, told={**node.told, "type": [*(types - {"array"})]}), path)
                if len(types) > 1
                else None
            )
            return items if len(types) == 1 or items == several(one) else None
        if len(types) > 1 and types <= SCALARS:
            self.notes.add(show(path), f"{' or '.join(sorted(types))}: any label fits")
            return Category()
        return self._scalar(node, types, path).kind() if types <= SCALARS else None

    def _listed(self, node: Node, path: Path) -> Kind | None:
        values = [value for value in node.told["enum"] if value is not None]
        if not values:
            return None
        if not all(isinstance(value, str | int | float) for value in values):
            self.notes.add(show(path), "values that are objects or arrays are left out")
            return None
        return Told(values=tuple(values)).kind()

    def _array(self, node: Node, path: Path) -> Kind | None:
        if not isinstance(node.told.get("items"), dict):
            return None
        item = self._inner(node, "items")
        most = node.told.get("maxItems")
        if item.types() == {"object"} and "properties" in item.told and self._whole(item, path) is None:
            fields = self._fields(item, path)
            kind: Kind | None = Listed(fields) if fields else None
        else:
            inner = self._kind(item, path)
            kind = None if inner is None else several(inner)
        if kind is None or most is None:
            return kind
        if isinstance(kind, Listed):
            self.notes.add(show(path), f"maxItems {most:g} is how many are learnt, and not checked")
        return replace(kind, most=int(most))

    def _scalar(self, node: Node, types: set[str], path: Path) -> Told:
        """A boolean, a number or text."""
        if types == {"string"}:
            return self._text(node, path)
        if types == {"boolean"}:
            return Told("boolean")
        if not types:
            return Told()
        told = Told("integer" if types == {"integer"} else "number", **_bounds(node.told))
        return self._stepped(told, node, path)

    def _text(self, node: Node, path: Path) -> Told:
        format = node.told.get("format")
        if format in DATES:
            return Told("date")
        if format is not None:
            self.notes.add(show(path), f"format {format} is not checked")
        longest = node.told.get("maxLength")
        return Told(
            "text", min_length=int(node.told.get("minLength", 0)), max_length=None if longest is None else int(longest)
        )

    def _stepped(self, told: Told, node: Node, path: Path) -> Told:
        """With the decimals, or the wholeness, that multipleOf tells."""
        step = node.told.get("multipleOf")
        if step is None or (step == 1 and told.word == "integer"):
            return told
        exact = Decimal(repr(step))
        sign, digits, exponent = exact.normalize().as_tuple()
        if step == 1:
            return replace(told, word="integer")
        if sign or digits != (1,) or not isinstance(exponent, int) or exponent > 0:
            self.notes.add(show(path), f"multipleOf {step} is not checked")
            return told
        self.notes.add(show(path), f"multipleOf {step} is how many decimals are written, and not checked")
        return replace(told, decimals=-exponent)

    def _inner(self, of: Node, key: str, name: str | None = None) -> Node:
        """A schema within another."""
        raw = of.told.get(key, {}) if name is None else of.told[key][name]
        place = ".".join(filter(None, (of.place, key, name)))
        return self.document.node(raw, place, of)

    def _note_unsaid(self, node: Node, path: Path) -> None:
        for key in UNSAID:
            if key in node.told and node.told[key] is not False:
                self.notes.add(show(path), f"{key} is not checked")


def _bounds(told: dict[str, Any]) -> dict[str, Any]:
    """Bounds as fields of a Told; in draft 4 an exclusive bound is a truth beside the bound."""
    bounds = {"minimum": told.get("minimum"), "maximum": told.get("maximum")}
    for name, own, field in (("exclusiveMinimum", "minimum", "above"), ("exclusiveMaximum", "maximum", "below")):
        if told.get(name) is True:
            bounds |= {field: bounds[own], own: None}
        elif not isinstance(told.get(name, False), bool):
            bounds[field] = told[name]
    return {key: bound for key, bound in bounds.items() if bound is not None and abs(bound) < HUGE}


def _name(title: str) -> str:
    """A title that can be the name of a class."""
    return title if title.isidentifier() else ""
